//! The kernel that `make kernel-lab` built, and where it is.

use std::env;
use std::path::{Path, PathBuf};

use crate::error::KernelLabError;

/// Names the folder that keeps the kernel.
const FOLDER_VARIABLE: &str = "DOWNBEAT_KERNEL_LAB";

/// A kernel that is built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    folder: PathBuf,
    release: String,
    source: String,
}

impl Kernel {
    /// The kernel in `$DOWNBEAT_KERNEL_LAB`, or in `downbeat/kernel-lab` of the user's cache folder.
    ///
    /// # Errors
    /// There is none; the words say how to get it.
    pub fn find() -> Result<Self, KernelLabError> {
        let variable = |name| env::var_os(name).filter(|value| !value.is_empty());
        let cache = || {
            let cache = variable("XDG_CACHE_HOME").map(PathBuf::from);
            cache.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".cache")))
        };
        let folder = variable(FOLDER_VARIABLE).map(PathBuf::from);
        let folder = folder.or_else(|| Some(cache()?.join("downbeat/kernel-lab")));
        Self::at(&folder.unwrap_or_else(|| "kernel-lab".into()))
    }

    /// The kernel in this folder, of which `build.sh` made the inside.
    ///
    /// # Errors
    /// There is none.
    pub fn at(folder: &Path) -> Result<Self, KernelLabError> {
        let missing = || KernelLabError::NotBuilt { folder: folder.to_owned() };
        // The link is renewed by the next build: what it leads to is not.
        let current = folder.join("current").canonicalize().map_err(|_| missing())?;
        let about = std::fs::read_to_string(current.join("about")).map_err(|_| missing())?;
        let field = |name: &str| {
            let value = about.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            value.map(str::to_owned).ok_or_else(missing)
        };
        let kernel = Self { release: field("kernel")?, source: field("source")?, folder: current };
        if kernel.linux().is_file() && kernel.init().is_file() { Ok(kernel) } else { Err(missing()) }
    }

    /// Its version, as `uname -r` tells it inside.
    pub fn release(&self) -> &str {
        &self.release
    }

    /// What it was built from: the source package and its version.
    pub fn source(&self) -> &str {
        &self.source
    }

    pub(crate) fn linux(&self) -> PathBuf {
        self.folder.join("linux")
    }

    pub(crate) fn init(&self) -> PathBuf {
        self.folder.join("lab-init")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_kernel_is_what_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let missing = |folder: &Path| matches!(Kernel::at(folder), Err(KernelLabError::NotBuilt { .. }));
        assert!(missing(folder.path()));
        let built = folder.path().join("0123");
        fs::create_dir(&built).unwrap();
        std::os::unix::fs::symlink("0123", folder.path().join("current")).unwrap();
        assert!(missing(folder.path()));
        fs::write(built.join("about"), "kernel 6.12.1\nsource linux-source-6.12 6.12.1-1\n").unwrap();
        fs::write(built.join("linux"), "").unwrap();
        assert!(missing(folder.path()), "no lab-init");
        fs::write(built.join("lab-init"), "").unwrap();
        let kernel = Kernel::at(folder.path()).unwrap();
        assert_eq!((kernel.release(), kernel.source()), ("6.12.1", "linux-source-6.12 6.12.1-1"));
        fs::write(built.join("about"), "kernel\n").unwrap();
        assert!(missing(folder.path()), "a damaged description");
    }
}
