//! One process at a time changes a machine.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};

/// Why the right to change this machine was not given.
#[derive(Debug)]
pub enum LockError {
    /// Another process has it.
    Held {
        /// Where the lock lies.
        folder: PathBuf,
        /// Who has it and what for, in words; empty of one that will be done soon.
        holder: String,
    },
    /// The folder cannot be written (as a rule: not root).
    Folder {
        /// Where the lock lies.
        folder: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}

impl LockError {
    /// What was tried.
    pub(crate) fn what(&self) -> String {
        let (Self::Held { folder, .. } | Self::Folder { folder, .. }) = self;
        format!("taking the lock in {}", folder.display())
    }

    /// Why it failed.
    pub(crate) fn why(&self) -> String {
        match self {
            Self::Held { holder, .. } if holder.is_empty() => {
                "another downbeat is changing this machine; wait until it is done".into()
            }
            Self::Held { holder, .. } => format!("another downbeat, {holder}; end that one first"),
            Self::Folder { error, .. } => error.to_string(),
        }
    }
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what(), self.why())
    }
}

impl std::error::Error for LockError {}

/// Takes the right to change this machine, for as long as what it gives lives. Who keeps it long says what for.
///
/// # Errors
/// Another process has it, or the folder cannot be written.
pub(crate) fn exclusive(folder: &Path, what_for: Option<&str>) -> Result<Flock<File>, LockError> {
    let wrong = |error: io::Error| LockError::Folder { folder: folder.to_owned(), error };
    fs::create_dir_all(folder).map_err(wrong)?;
    // What is in it is its holder's until the lock is ours.
    let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(folder.join("lock"));
    let mut lock = Flock::lock(opened.map_err(wrong)?, FlockArg::LockExclusiveNonblock).map_err(|(mut file, _)| {
        let mut holder = String::new();
        _ = file.read_to_string(&mut holder);
        LockError::Held { folder: folder.to_owned(), holder: holder.trim().to_owned() }
    })?;
    let text = what_for.map_or_else(String::new, |what| format!("process {} that {what}\n", std::process::id()));
    let written = lock.set_len(0).and_then(|()| lock.rewind()).and_then(|()| lock.write_all(text.as_bytes()));
    written.map_err(wrong)?;
    Ok(lock)
}
