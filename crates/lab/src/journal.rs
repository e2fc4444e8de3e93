//! What runs have made on this machine, on disk before it is made, so that it can be undone after a crash.
//!
//! One file a run in `/run/downbeat`; `/run` is empty after a reboot, and so is the kernel.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::LabError;
use crate::stamp_setting;
use crate::topology::remove_namespaces;

pub(crate) const FOLDER: &str = "/run/downbeat";

/// A process, told apart from a later one of the same number by its start time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Process {
    /// Its number.
    pub pid: u32,
    /// Clock ticks between boot and its start (`/proc/PID/stat`, field 22).
    pub start_time: u64,
}

impl Process {
    /// The process of a number, if it is alive.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        rt::process::start_time(pid).map(|start_time| Self { pid, start_time })
    }

    /// Whether it is alive: this one, not another of its number.
    pub(crate) fn is_alive(self) -> bool {
        Self::of(self.pid) == Some(self)
    }

    /// Ends it at once, if it is still this one.
    fn kill(self) {
        if self.is_alive() {
            let pid = nix::unistd::Pid::from_raw(self.pid as i32);
            // It may end between the look and the signal; either way it is gone.
            _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
        }
    }
}

/// One run's entry.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Entry {
    scenario: String,
    owner: Process,
    namespaces: Vec<String>,
    processes: Vec<Process>,
}

/// The open entry of a run.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    entry: Entry,
}

/// What [`restore`] found of one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum Restored {
    /// The run is still going and was left alone.
    Alive {
        /// Its scenario.
        scenario: String,
        /// Its process.
        pid: u32,
    },
    /// The run was gone and what it left is undone.
    Undone {
        /// Its scenario.
        scenario: String,
        /// The namespaces that were removed.
        namespaces: Vec<String>,
        /// The processes that were ended.
        processes: Vec<u32>,
    },
    /// What the network card of an interface stamps is what it was before.
    StampsBack {
        /// The interface.
        interface: String,
    },
}

impl Journal {
    /// Writes the entry of this process's run, before anything of it exists.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub(crate) fn open(scenario: &str, namespaces: &[String]) -> Result<Self, LabError> {
        fs::create_dir_all(FOLDER).map_err(LabError::io(format!("making {FOLDER}")))?;
        let pid = std::process::id();
        let owner = Process::of(pid).unwrap_or(Process { pid, start_time: 0 });
        let entry = Entry { scenario: scenario.into(), owner, namespaces: namespaces.to_vec(), processes: Vec::new() };
        let journal = Self { path: Path::new(FOLDER).join(format!("{pid}.json")), entry };
        journal.write()?;
        Ok(journal)
    }

    /// Adds a process that the run started.
    ///
    /// # Errors
    /// The entry cannot be written.
    pub(crate) fn started(&mut self, pid: u32) -> Result<(), LabError> {
        if let Some(process) = Process::of(pid) {
            self.entry.processes.push(process);
            self.write()?;
        }
        Ok(())
    }

    /// Undoes the run and removes the entry.
    ///
    /// # Errors
    /// A namespace could not be removed; the entry then stays for a later try.
    pub(crate) fn undo(&self) -> Result<(), LabError> {
        undo(&self.entry)?;
        remove(&self.path)
    }

    fn write(&self) -> Result<(), LabError> {
        let what = || format!("writing {}", self.path.display());
        let text = serde_json::to_string_pretty(&self.entry).map_err(|error| LabError::io(what())(error.into()))?;
        let temporary = self.path.with_extension("new");
        fs::write(&temporary, text).map_err(LabError::io(what()))?;
        fs::rename(&temporary, &self.path).map_err(LabError::io(what()))
    }
}

/// The run that owns a namespace and is alive.
pub(crate) fn owner_of(namespace: &str) -> Option<u32> {
    entries()
        .into_iter()
        .filter_map(|(_, entry)| entry)
        .find(|entry| entry.owner.is_alive() && entry.namespaces.iter().any(|name| name == namespace))
        .map(|entry| entry.owner.pid)
}

/// Undoes what runs that are gone left on this machine.
///
/// # Errors
/// Something could not be removed.
pub fn restore() -> Result<Vec<Restored>, LabError> {
    let mut found = Vec::new();
    for (path, entry) in entries() {
        let Some(entry) = entry else {
            // Cut short before its rename: nothing was made on its word.
            remove(&path)?;
            continue;
        };
        if entry.owner.is_alive() {
            found.push(Restored::Alive { scenario: entry.scenario, pid: entry.owner.pid });
            continue;
        }
        let namespaces = existing(&entry.namespaces);
        let processes =
            entry.processes.iter().filter(|process| process.is_alive()).map(|process| process.pid).collect();
        undo(&entry)?;
        remove(&path)?;
        found.push(Restored::Undone { scenario: entry.scenario, namespaces, processes });
    }
    found.extend(stamp_setting::restore().into_iter().map(|interface| Restored::StampsBack { interface }));
    Ok(found)
}

fn undo(entry: &Entry) -> Result<(), LabError> {
    for process in &entry.processes {
        process.kill();
    }
    remove_namespaces(&entry.namespaces)
}

fn existing(names: &[String]) -> Vec<String> {
    names.iter().filter(|name| Path::new("/run/netns").join(name).exists()).cloned().collect()
}

fn remove(path: &Path) -> Result<(), LabError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(LabError::io(format!("removing {}", path.display()))(error))
        }
        _ => Ok(()),
    }
}

/// All entries, in the order of their names; `None` where one cannot be read.
fn entries() -> Vec<(PathBuf, Option<Entry>)> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(FOLDER).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    paths
        .into_iter()
        .map(|path| {
            let entry = fs::read(&path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
            (path, entry)
        })
        .collect()
}
