//! One process at a time changes a machine.

use std::fs::{self, File};
use std::path::Path;

use nix::fcntl::{Flock, FlockArg};

use crate::change::ChangeError;

/// Takes the right to change this machine, for as long as what it gives lives.
///
/// # Errors
/// Another process has it, or the folder cannot be written (as a rule: not root).
pub(crate) fn exclusive(folder: &Path) -> Result<Flock<File>, ChangeError> {
    let wrong = |why: String| ChangeError { what: format!("taking the lock in {}", folder.display()), why };
    fs::create_dir_all(folder).map_err(|error| wrong(error.to_string()))?;
    let file = File::create(folder.join("lock")).map_err(|error| wrong(error.to_string()))?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock)
        .map_err(|_| wrong("another downbeat is changing this machine; wait until it is done".into()))
}
