//! The folder that host and laboratory share, and who owns it.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;
use tempfile::TempDir;

use crate::error::KernelLabError;
use crate::room;

/// `nobody` of every distribution: root's files are not the laboratory's to change.
const NOBODY: u32 = 65_534;

/// Files of a run that the laboratory itself makes.
pub(crate) const OWN_FILES: [&str; 6] = ["linux", "lab-init", "stdout", "stderr", "console", "ended"];

/// A folder that goes when dropped.
#[derive(Debug)]
pub(crate) struct Stage {
    folder: TempDir,
    /// Whom the kernel runs as, where that is somebody else.
    pub(crate) user: Option<u32>,
}

impl Stage {
    /// A new, empty folder. Root gives it away: a mount inside the laboratory that is read-only can be made writable
    /// there, so that only the host's own permissions protect its files.
    pub(crate) fn make() -> Result<Self, KernelLabError> {
        let root = geteuid().is_root();
        let parent = room::for_files(root)?;
        let what = || format!("making a folder in {}", parent.display());
        let made = tempfile::Builder::new().prefix("downbeat-lab-").tempdir_in(&parent);
        let folder = made.map_err(KernelLabError::io(what()))?;
        // Refused where root is one of a user namespace without that user: it has no right that would need protection.
        let given = root && chown(folder.path(), Some(NOBODY), Some(NOBODY)).is_ok();
        Ok(Self { folder, user: given.then_some(NOBODY) })
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The place of a file in the folder.
    ///
    /// # Errors
    /// The name leads out of it, or is one that the laboratory needs for itself.
    pub(crate) fn place(&self, name: &str) -> Result<PathBuf, KernelLabError> {
        let plain = !name.is_empty() && !name.contains('/') && name != "." && name != "..";
        if plain && !OWN_FILES.contains(&name) {
            return Ok(self.path().join(name));
        }
        let source = std::io::Error::other(format!("expected a plain file name, none of {}", OWN_FILES.join(", ")));
        Err(KernelLabError::Io { what: format!("a file {name:?} for the laboratory"), source })
    }

    /// Writes a file.
    pub(crate) fn write(&self, place: &Path, bytes: &[u8], mode: u32) -> Result<(), KernelLabError> {
        fs::write(place, bytes)
            .and_then(|()| fs::set_permissions(place, Permissions::from_mode(mode)))
            .map_err(KernelLabError::io(format!("writing {}", place.display())))
    }

    /// Makes a program of the host available: linked where that does, else copied.
    pub(crate) fn bring(&self, program: &Path, place: &Path) -> Result<(), KernelLabError> {
        // A link has the permissions of the original, and these must not change.
        if room::is_for_everybody(program) && fs::hard_link(program, place).is_ok() {
            return Ok(());
        }
        fs::copy(program, place)
            .and_then(|_| fs::set_permissions(place, Permissions::from_mode(0o755)))
            .map_err(KernelLabError::io(format!("copying {} to {}", program.display(), place.display())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_stay_in_the_folder() {
        let stage = Stage::make().unwrap();
        assert_eq!(stage.place("batch").unwrap(), stage.path().join("batch"));
        for name in ["", "a/b", "..", "../a", "/etc/passwd", "linux", "stdout"] {
            assert!(stage.place(name).is_err(), "{name}");
        }
    }

    #[test]
    fn a_program_keeps_its_permissions() {
        let stage = Stage::make().unwrap();
        let source = tempfile::NamedTempFile::new().unwrap();
        fs::set_permissions(source.path(), Permissions::from_mode(0o700)).unwrap();
        let place = stage.place("program").unwrap();
        stage.bring(source.path(), &place).unwrap();
        assert_eq!(place.metadata().unwrap().permissions().mode() & 0o777, 0o755);
        assert_eq!(source.path().metadata().unwrap().permissions().mode() & 0o777, 0o700);
        let missing = stage.bring(Path::new("/none"), &stage.place("none").unwrap()).unwrap_err();
        assert!(missing.to_string().contains("/none"), "{missing}");
    }
}
