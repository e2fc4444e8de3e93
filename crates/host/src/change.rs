//! Changes of a running machine that can be undone.
//!
//! How to undo a change is on disk before it is made. The journal lies in `/run`, which is empty after a reboot, and so
//! are the settings that are changed here. Two processes that change a machine at once exclude each other.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::fcntl::Flock;
use serde::{Deserialize, Serialize};

use crate::lock::{LockError, exclusive};

const FOLDER: &str = "/run/downbeat/host";
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// One change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// A setting that is a file of the kernel's.
    File {
        /// The file.
        path: PathBuf,
        /// What it is to hold.
        value: String,
    },
    /// A command, and the one that undoes it.
    Command {
        /// The command.
        run: Vec<String>,
        /// The other.
        undo: Vec<String>,
    },
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, value } => write!(f, "echo {value} > {}", path.display()),
            Self::Command { run, .. } => f.write_str(&run.join(" ")),
        }
    }
}

/// Why a change was not made or not undone.
#[derive(Debug)]
pub struct ChangeError {
    /// What was tried.
    pub what: String,
    /// What the system said.
    pub why: String,
}

impl fmt::Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}

impl std::error::Error for ChangeError {}

impl From<LockError> for ChangeError {
    fn from(error: LockError) -> Self {
        Self { what: error.what(), why: error.why() }
    }
}

/// What became of a change that was to be undone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum Undone {
    /// As before.
    #[serde(rename = "set-back")]
    Back {
        /// What was done.
        what: String,
    },
    /// What was changed is there no more, as an interface that was removed.
    Gone {
        /// What was not undone.
        what: String,
    },
    /// Somebody else has changed it since, and was left alone.
    ChangedSince {
        /// What was not undone.
        what: String,
        /// What is there now.
        now: String,
    },
}

/// How one change is undone.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Entry {
    change: Change,
    /// What the file held before.
    before: Option<String>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Journal {
    boot_id: String,
    entries: Vec<Entry>,
}

/// The right to change this machine, and the journal of what was changed.
#[derive(Debug)]
pub struct Changes {
    folder: PathBuf,
    journal: Journal,
    /// Held as long as this lives.
    _lock: Flock<File>,
}

impl Changes {
    /// Takes the right to change this machine.
    ///
    /// # Errors
    /// Another process has it, or the journal's folder cannot be written (as a rule: not root).
    pub fn open() -> Result<Self, ChangeError> {
        Self::open_in(Path::new(FOLDER))
    }

    fn open_in(folder: &Path) -> Result<Self, ChangeError> {
        let wrong = |error: &dyn fmt::Display| ChangeError {
            what: format!("opening the journal {}", folder.display()),
            why: error.to_string(),
        };
        let lock = exclusive(folder, None)?;
        let boot_id = fs::read_to_string(BOOT_ID).unwrap_or_default().trim().to_owned();
        let journal = match fs::read(folder.join("changes.json")) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| wrong(&error))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Journal::default(),
            Err(error) => return Err(wrong(&error)),
        };
        // Of an earlier boot: the settings are gone by themselves.
        let journal = if journal.boot_id == boot_id { journal } else { Journal { boot_id, entries: Vec::new() } };
        Ok(Self { folder: folder.to_owned(), journal, _lock: lock })
    }

    /// Makes a change and looks whether it took.
    ///
    /// # Errors
    /// The machine refuses it; then nothing is changed.
    pub fn make(&mut self, change: &Change) -> Result<(), ChangeError> {
        let before = match change {
            Change::File { path, .. } => Some(read(path).map_err(|error| failed(change, &error))?),
            Change::Command { .. } => None,
        };
        self.journal.entries.push(Entry { change: change.clone(), before: before.clone() });
        self.write()?;
        let made = match change {
            Change::File { path, value } => write_setting(path, value),
            Change::Command { run, .. } => execute(run),
        };
        if let Err(why) = made {
            self.journal.entries.pop();
            self.write()?;
            return Err(failed(change, &why));
        }
        Ok(())
    }

    /// Undoes everything in the journal, the newest first.
    ///
    /// # Errors
    /// Something could not be undone; it stays in the journal with what is older.
    pub fn undo(&mut self) -> Result<Vec<Undone>, ChangeError> {
        let mut done = Vec::new();
        while let Some(entry) = self.journal.entries.last() {
            done.push(undo(entry)?);
            self.journal.entries.pop();
            self.write()?;
        }
        Ok(done)
    }

    fn write(&self) -> Result<(), ChangeError> {
        let path = self.folder.join("changes.json");
        let wrong = |error: &dyn fmt::Display| ChangeError {
            what: format!("writing {}", path.display()),
            why: error.to_string(),
        };
        if self.journal.entries.is_empty() {
            return match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(wrong(&error)),
                _ => Ok(()),
            };
        }
        let text = serde_json::to_vec_pretty(&self.journal).map_err(|error| wrong(&error))?;
        let temporary = path.with_extension("new");
        let written = File::create(&temporary).and_then(|mut file| {
            file.write_all(&text)?;
            file.sync_all()
        });
        written.and_then(|()| fs::rename(&temporary, &path)).map_err(|error| wrong(&error))
    }
}

/// Undoes what is in the journal of this machine, if there is one.
///
/// # Errors
/// As of [`Changes::open`] and [`Changes::undo`].
pub fn undo_all() -> Result<Vec<Undone>, ChangeError> {
    if !Path::new(FOLDER).join("changes.json").exists() {
        return Ok(Vec::new());
    }
    Changes::open()?.undo()
}

fn failed(change: &Change, why: &dyn fmt::Display) -> ChangeError {
    ChangeError { what: format!("`{change}`"), why: why.to_string() }
}

fn undo(entry: &Entry) -> Result<Undone, ChangeError> {
    match (&entry.change, &entry.before) {
        (Change::File { path, value }, Some(before)) => {
            let back = Change::File { path: path.clone(), value: before.clone() };
            let now = match read(path) {
                Ok(now) => now,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Ok(Undone::Gone { what: back.to_string() });
                }
                Err(error) => return Err(failed(&back, &error)),
            };
            if !same(&now, value) && now != *before {
                return Ok(Undone::ChangedSince { what: back.to_string(), now });
            }
            write_setting(path, before).map_err(|why| failed(&back, &why))?;
            Ok(Undone::Back { what: back.to_string() })
        }
        (Change::File { .. }, None) => {
            Err(ChangeError { what: "reading the journal".into(), why: "a value of before is missing".into() })
        }
        (Change::Command { run, undo }, _) => {
            let back = Change::Command { run: undo.clone(), undo: run.clone() };
            execute(undo).map_err(|why| failed(&back, &why))?;
            Ok(Undone::Back { what: back.to_string() })
        }
    }
}

fn read(path: &Path) -> io::Result<String> {
    fs::read_to_string(path).map(|text| text.trim().to_owned())
}

/// Writes a setting and reads it back: the kernel may take a value and keep another.
fn write_setting(path: &Path, value: &str) -> Result<(), String> {
    fs::write(path, value).map_err(|error| error.to_string())?;
    match read(path) {
        Ok(now) if same(&now, value) => Ok(()),
        Ok(now) => Err(format!("the kernel took it and shows {now}")),
        Err(error) => Err(error.to_string()),
    }
}

/// Whether two texts of a setting mean the same: lists of processors may be written in two ways.
fn same(a: &str, b: &str) -> bool {
    let list = |text: &str| {
        let plain = text.chars().all(|c| c.is_ascii_digit() || c == ',' || c == '-') && !text.starts_with('-');
        plain.then(|| crate::look::processors(text))
    };
    a == b || matches!((list(a), list(b)), (Some(a), Some(b)) if a == b)
}

fn execute(arguments: &[String]) -> Result<(), String> {
    let (program, arguments) = arguments.split_first().ok_or("an empty command")?;
    let output = Command::new(program)
        .args(arguments)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &Path, value: &str) -> Change {
        Change::File { path: path.to_owned(), value: value.into() }
    }

    #[test]
    fn changes_are_undone_newest_first_also_by_another_process() {
        let folder = tempfile::tempdir().unwrap();
        let (setting, log) = (folder.path().join("setting"), folder.path().join("log"));
        fs::write(&setting, "1\n").unwrap();
        let journal = folder.path().join("journal");
        let word = |word: &str| vec!["sh".to_owned(), "-c".to_owned(), format!("echo {word} >> {}", log.display())];
        {
            let mut changes = Changes::open_in(&journal).unwrap();
            changes.make(&file(&setting, "2")).unwrap();
            changes.make(&Change::Command { run: word("done"), undo: word("undone") }).unwrap();
            changes.make(&file(&setting, "3")).unwrap();
            assert!(Changes::open_in(&journal).is_err(), "two at a time");
        }
        assert_eq!(fs::read_to_string(&setting).unwrap(), "3");
        let mut changes = Changes::open_in(&journal).unwrap();
        let undone = changes.undo().unwrap();
        assert!(undone.len() == 3 && undone.iter().all(|undone| matches!(undone, Undone::Back { .. })), "{undone:?}");
        assert_eq!(fs::read_to_string(&setting).unwrap(), "1");
        assert_eq!(fs::read_to_string(&log).unwrap(), "done\nundone\n");
        assert!(!journal.join("changes.json").exists());
        assert_eq!(changes.undo().unwrap(), []);
    }

    #[test]
    fn what_somebody_else_changed_since_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let setting = folder.path().join("setting");
        fs::write(&setting, "1").unwrap();
        let mut changes = Changes::open_in(&folder.path().join("journal")).unwrap();
        changes.make(&file(&setting, "2")).unwrap();
        fs::write(&setting, "7").unwrap();
        let what = format!("echo 1 > {}", setting.display());
        assert_eq!(changes.undo().unwrap(), [Undone::ChangedSince { what, now: "7".into() }]);
        assert_eq!(fs::read_to_string(&setting).unwrap(), "7");
    }

    #[test]
    fn what_is_gone_needs_no_undoing() {
        let folder = tempfile::tempdir().unwrap();
        let setting = folder.path().join("setting");
        fs::write(&setting, "1").unwrap();
        let mut changes = Changes::open_in(&folder.path().join("journal")).unwrap();
        changes.make(&file(&setting, "2")).unwrap();
        fs::remove_file(&setting).unwrap();
        assert!(matches!(changes.undo().unwrap()[..], [Undone::Gone { .. }]));
    }

    #[test]
    fn a_refused_change_leaves_no_trace() {
        let folder = tempfile::tempdir().unwrap();
        let mut changes = Changes::open_in(&folder.path().join("journal")).unwrap();
        let error = changes.make(&file(&folder.path().join("none"), "2")).unwrap_err().to_string();
        assert!(error.contains("none"), "{error}");
        let fails = Change::Command { run: vec!["false".into()], undo: vec!["false".into()] };
        changes.make(&fails).unwrap_err();
        assert_eq!(changes.undo().unwrap(), []);
    }

    #[test]
    fn a_crash_between_journal_and_change_is_undone_all_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let setting = folder.path().join("setting");
        fs::write(&setting, "1").unwrap();
        let mut changes = Changes::open_in(&folder.path().join("journal")).unwrap();
        changes.journal.entries.push(Entry { change: file(&setting, "2"), before: Some("1".into()) });
        changes.write().unwrap();
        assert!(matches!(changes.undo().unwrap()[..], [Undone::Back { .. }]));
        assert_eq!(fs::read_to_string(&setting).unwrap(), "1");
    }

    #[test]
    fn a_journal_of_an_earlier_boot_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let mut changes = Changes::open_in(folder.path()).unwrap();
        changes.journal.boot_id = "another".into();
        changes.journal.entries.push(Entry { change: file(Path::new("/none"), "2"), before: Some("1".into()) });
        changes.write().unwrap();
        drop(changes);
        assert_eq!(Changes::open_in(folder.path()).unwrap().undo().unwrap(), []);
    }

    #[test]
    fn lists_of_processors_compare_by_what_they_mean() {
        assert!(same("0-1", "0,1") && same("-1", "-1") && !same("0-2", "0,1") && !same("-1", "1"));
        assert!(!same("performance", "powersave"));
    }
}
