//! One process at a time changes a machine.

use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::Path;

use nix::fcntl::{Flock, FlockArg};

use crate::change::ChangeError;

/// Takes the right to change this machine, for as long as what it gives lives. Who keeps it long says what for.
///
/// # Errors
/// Another process has it, or the folder cannot be written (as a rule: not root).
pub(crate) fn exclusive(folder: &Path, what_for: Option<&str>) -> Result<Flock<File>, ChangeError> {
    let wrong = |why: String| ChangeError { what: format!("taking the lock in {}", folder.display()), why };
    fs::create_dir_all(folder).map_err(|error| wrong(error.to_string()))?;
    // What is in it is its holder's until the lock is ours.
    let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(folder.join("lock"));
    let file = opened.map_err(|error| wrong(error.to_string()))?;
    let mut lock = Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(mut file, _)| {
        let mut holder = String::new();
        _ = file.read_to_string(&mut holder);
        wrong(match holder.trim() {
            "" => "another downbeat is changing this machine; wait until it is done".into(),
            holder => format!("another downbeat, {holder}; end that one first"),
        })
    })?;
    let text = what_for.map_or_else(String::new, |what| format!("process {} that {what}\n", std::process::id()));
    let written = lock.set_len(0).and_then(|()| lock.rewind()).and_then(|()| lock.write_all(text.as_bytes()));
    written.map_err(|error| wrong(error.to_string()))?;
    Ok(lock)
}
