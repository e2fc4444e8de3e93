//! Looking at a machine: its files, its commands.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use units::Nanos;

/// What a command printed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Printed {
    /// It ended with 0.
    pub well: bool,
    /// Its standard output.
    pub out: String,
    /// Its standard error.
    pub error: String,
}

/// A machine to look at. Nothing is changed by looking.
pub trait Look {
    /// The text of a file, without space at its ends; none when it is missing or cannot be read.
    fn read(&self, path: &Path) -> Option<String>;
    /// The names in a folder, sorted; none at all when it is missing.
    fn list(&self, folder: &Path) -> Vec<String>;
    /// Where a link leads to: the last part of it.
    fn leads_to(&self, link: &Path) -> Option<String>;
    /// Runs a command to its end; none when there is no such command.
    fn run(&self, arguments: &[&str]) -> Option<Printed>;
    /// Whether this process could write to the file.
    fn writable(&self, path: &Path) -> bool;
    /// What `rt` knows of it.
    fn machine(&self) -> rt::machine::Machine;
    /// How far the kernel takes TAI to be ahead of UTC.
    fn tai_minus_utc(&self) -> Nanos;
    /// Whether this process is root's.
    fn is_root(&self) -> bool;
    /// Bytes that this process may lock into memory; none for any number.
    fn lockable_memory(&self) -> Option<u64>;

    /// A number in a file.
    fn number(&self, path: &Path) -> Option<i64> {
        self.read(path)?.parse().ok()
    }
}

/// A machine that can be changed. Commands go through [`Look::run`].
pub trait Act: Look {
    /// The text of a file as it is; none when it is missing or cannot be read.
    fn text(&self, path: &Path) -> Option<String>;
    /// Writes a file, and the folder it is in.
    ///
    /// # Errors
    /// What the system says.
    fn write_file(&self, path: &Path, text: &str) -> io::Result<()>;
    /// Removes a file.
    ///
    /// # Errors
    /// What the system says.
    fn remove_file(&self, path: &Path) -> io::Result<()>;
}

impl Act for ThisMachine {
    fn text(&self, path: &Path) -> Option<String> {
        fs::read_to_string(path).ok()
    }

    fn write_file(&self, path: &Path, text: &str) -> io::Result<()> {
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(path, text)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }
}

/// The machine that this process runs on.
#[derive(Debug, Clone, Copy, Default)]
pub struct ThisMachine;

impl Look for ThisMachine {
    fn read(&self, path: &Path) -> Option<String> {
        fs::read(path).ok().map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    fn list(&self, folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    fn leads_to(&self, link: &Path) -> Option<String> {
        let to: PathBuf = fs::read_link(link).ok()?;
        Some(to.file_name()?.to_string_lossy().into_owned())
    }

    fn run(&self, arguments: &[&str]) -> Option<Printed> {
        let (program, arguments) = arguments.split_first()?;
        let output = Command::new(program).args(arguments).env("LC_ALL", "C").stdin(Stdio::null()).output().ok()?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        Some(Printed { well: output.status.success(), out: text(&output.stdout), error: text(&output.stderr) })
    }

    fn writable(&self, path: &Path) -> bool {
        nix::unistd::access(path, nix::unistd::AccessFlags::W_OK).is_ok()
    }

    fn machine(&self) -> rt::machine::Machine {
        rt::machine::Machine::read()
    }

    fn tai_minus_utc(&self) -> Nanos {
        rt::clock::tai_minus_utc()
    }

    fn is_root(&self) -> bool {
        nix::unistd::geteuid().is_root()
    }

    fn lockable_memory(&self) -> Option<u64> {
        use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
        let (soft, _) = getrlimit(Resource::RLIMIT_MEMLOCK).ok()?;
        (soft != RLIM_INFINITY).then_some(soft)
    }
}

/// The processors of a list like `0-2,5`.
pub(crate) fn processors(list: &str) -> Vec<usize> {
    let mut found = Vec::new();
    for part in list.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>())
            && last < 1 << 16
        {
            found.extend(first..=last);
        }
    }
    found
}

/// Processors as such a list.
pub(crate) fn list_of(processors: &[usize]) -> String {
    processors.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors_are_read() {
        assert_eq!(processors("0-2,5"), [0, 1, 2, 5]);
        assert_eq!(processors(" 3 "), [3]);
        assert!(processors("").is_empty());
        assert_eq!(processors("x,2-,1"), [1]);
        assert!(processors("0-18446744073709551615").is_empty());
        assert_eq!(list_of(&[0, 2]), "0,2");
    }
}
