//! Where the laboratory's files and its memory find room on the host.

use std::env;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::{AccessFlags, access};

use crate::error::KernelLabError;

/// A folder that everybody may use but for what is others'.
const FOR_EVERYBODY: u32 = 0o003;

/// Whether the kernel may be started from a folder below this one, by another user if `by_anybody`.
fn takes_programs(folder: &Path, by_anybody: bool) -> Result<(), String> {
    let text = folder.to_str().filter(|text| !text.contains(|c: char| c.is_whitespace() || "\"'\\".contains(c)));
    if text.is_none() {
        return Err("its name has a space or a quote, which a kernel's command line cannot hold".into());
    }
    usable(folder, by_anybody)
}

/// Whether files can be made there, and programs run from them.
fn usable(folder: &Path, by_anybody: bool) -> Result<(), String> {
    let found = folder.metadata().map_err(|error| error.to_string())?;
    if by_anybody {
        let mut above = folder.ancestors().skip(1).map(Path::metadata);
        let open = above.all(|folder| folder.is_ok_and(|folder| folder.permissions().mode() & 0o001 != 0));
        if !open || found.permissions().mode() & FOR_EVERYBODY != FOR_EVERYBODY {
            return Err("not everybody may use it".into());
        }
    } else {
        access(folder, AccessFlags::W_OK | AccessFlags::X_OK).map_err(|errno| errno.desc().to_owned())?;
    }
    let mounted = statvfs(folder).map_err(|errno| errno.desc().to_owned())?;
    if mounted.flags().contains(FsFlags::ST_NOEXEC) { Err("it is mounted noexec".into()) } else { Ok(()) }
}

fn candidates() -> Vec<PathBuf> {
    let mut all = vec![env::temp_dir(), "/tmp".into(), "/var/tmp".into()];
    all.dedup();
    all
}

/// The folder to make the laboratory's in.
pub(crate) fn for_files(by_anybody: bool) -> Result<PathBuf, KernelLabError> {
    first(candidates(), "the laboratory's files", |folder| takes_programs(folder, by_anybody))
}

/// The folder for the file that is the laboratory's memory. On tmpfs it costs nothing to write; the kernel maps it
/// executable.
pub(crate) fn for_memory(bytes: u64, by_anybody: bool) -> Result<PathBuf, KernelLabError> {
    let mut all = vec![PathBuf::from("/dev/shm")];
    all.extend(candidates());
    first(all, "the laboratory's memory", |folder| {
        usable(folder, by_anybody)?;
        let mounted = statvfs(folder).map_err(|errno| errno.desc().to_owned())?;
        let free = mounted.blocks_available().saturating_mul(mounted.fragment_size());
        if free < bytes { Err(format!("{} MB are free there, {} needed", free >> 20, bytes >> 20)) } else { Ok(()) }
    })
}

fn first(
    folders: Vec<PathBuf>,
    what: &str,
    fits: impl Fn(&Path) -> Result<(), String>,
) -> Result<PathBuf, KernelLabError> {
    let mut reasons = Vec::new();
    for folder in folders {
        match fits(&folder) {
            Ok(()) => return Ok(folder),
            Err(why) => reasons.push(format!("{}: {why}", folder.display())),
        }
    }
    Err(KernelLabError::Machine {
        what: format!("there is no place for {what}: {}", reasons.join("; ")),
        mend: "name a folder in TMPDIR that is writable, has room and is not mounted noexec".into(),
    })
}

/// Whether a file can be read and run by everybody as it is.
pub(crate) fn is_for_everybody(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.mode() & 0o555 == 0o555)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};

    #[test]
    fn a_folder_is_taken_for_what_it_is() {
        let folder = tempfile::Builder::new().prefix("room").tempdir_in("/tmp").unwrap();
        let path = folder.path();
        assert_eq!(takes_programs(path, false), Ok(()));
        assert!(takes_programs(path, true).unwrap_err().contains("not everybody"), "a folder of one's own");
        fs::set_permissions(path, Permissions::from_mode(0o1777)).unwrap();
        assert_eq!(takes_programs(path, true), Ok(()));
        let spaced = path.join("a b");
        fs::create_dir(&spaced).unwrap();
        assert!(takes_programs(&spaced, false).unwrap_err().contains("a space"));
        let inner = path.join("shut/inner");
        fs::create_dir_all(&inner).unwrap();
        fs::set_permissions(&inner, Permissions::from_mode(0o777)).unwrap();
        fs::set_permissions(path.join("shut"), Permissions::from_mode(0o700)).unwrap();
        assert!(takes_programs(&inner, true).is_err(), "behind a folder of one's own");
        assert!(takes_programs(&path.join("none"), false).is_err());
    }

    #[test]
    fn where_nothing_fits_each_reason_is_told() {
        let error = for_memory(u64::MAX, false).unwrap_err().to_string();
        assert!(error.contains("/dev/shm: ") && error.contains("/tmp: ") && error.contains("needed"), "{error}");
        assert!(error.contains("TMPDIR"), "{error}");
        assert!(for_memory(1, false).is_ok());
    }
}
