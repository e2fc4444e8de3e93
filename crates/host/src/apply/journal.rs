//! What was applied, on disk before it is done.
//!
//! The journal outlives a reboot, because files do; what is undone by a command is gone with the boot it was done in.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::ApplyError;

/// How far an entry got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum State {
    /// It may have been done or not.
    Begun,
    /// It was done.
    Done,
}

/// What was done, and how it is undone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Entry {
    /// A file was written.
    File {
        path: String,
        /// What it said before; none when it was not there.
        before: Option<String>,
        /// What it says now.
        text: String,
        state: State,
    },
    /// A command was run.
    Command {
        /// The interface, bridge or unit that it changed.
        target: String,
        run: Vec<String>,
        /// The commands that undo it, in their order; none when another entry's undoing takes it along.
        undo: Vec<Vec<String>>,
        /// It outlives a reboot.
        lasting: bool,
        state: State,
    },
}

impl Entry {
    /// What is told of it.
    pub(super) fn told(&self) -> String {
        match self {
            Self::File { path, .. } => path.clone(),
            Self::Command { run, .. } => run.join(" "),
        }
    }

    pub(super) fn state_mut(&mut self) -> &mut State {
        match self {
            Self::File { state, .. } | Self::Command { state, .. } => state,
        }
    }
}

/// The journal of one machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// The boot in which commands were run.
    pub(super) boot_id: String,
    /// Scenario and host of the plan.
    pub(super) scenario: String,
    pub(super) host: String,
    /// The plan in words, to tell it from another.
    pub(super) plan: String,
    pub(super) entries: Vec<Entry>,
}

/// Where it is kept.
#[derive(Debug, Clone)]
pub(super) struct Journal {
    folder: PathBuf,
}

impl Journal {
    pub(super) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    fn path(&self) -> PathBuf {
        self.folder.join("applied.json")
    }

    /// What is in it; none when nothing is applied.
    pub(super) fn read(&self) -> Result<Option<Record>, ApplyError> {
        let path = self.path();
        let wrong = |error: io::Error| ApplyError::Journal { path: path.clone(), error };
        match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| wrong(error.into())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(wrong(error)),
        }
    }

    /// Writes it, to the disk itself; removes it when nothing is left in it.
    pub(super) fn write(&self, record: &Record) -> Result<(), ApplyError> {
        let path = self.path();
        let wrong = |error: io::Error| ApplyError::Journal { path: path.clone(), error };
        if record.entries.is_empty() {
            return match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(wrong(error)),
                _ => Ok(()),
            };
        }
        let text = serde_json::to_vec_pretty(record).map_err(|error| wrong(error.into()))?;
        let temporary = path.with_extension("new");
        let written = fs::create_dir_all(&self.folder).and_then(|()| {
            let mut file = File::create(&temporary)?;
            file.write_all(&text)?;
            file.sync_all()?;
            fs::rename(&temporary, &path)?;
            File::open(&self.folder)?.sync_all()
        });
        written.map_err(wrong)
    }
}
