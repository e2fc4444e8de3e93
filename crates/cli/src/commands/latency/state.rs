//! Where this host's latency is kept between commands.

use std::env;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use crate::output::Failure;

/// Where root keeps it; everyone may read it.
const MACHINE: &str = "/var/lib";

/// `$XDG_STATE_HOME`; else `/var/lib` for root and `~/.local/state` for others; none without a home.
fn own_file() -> Option<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = absolute("XDG_STATE_HOME").or_else(|| {
        // The owner of a process's folder is the user it runs as.
        let root = std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
        if root { Some(MACHINE.into()) } else { absolute("HOME").map(|home| home.join(".local/state")) }
    });
    folder.map(in_folder)
}

fn in_folder(folder: PathBuf) -> PathBuf {
    folder.join("downbeat/latency.json")
}

/// Keeps a result and says where. A folder that cannot be written costs a note, not the result on the screen.
pub(super) fn store(write: impl Fn(&PathBuf) -> Result<(), Failure>) {
    let Some(path) = own_file() else {
        eprintln!("note: not stored: neither XDG_STATE_HOME nor HOME is set; name a file with --out");
        return;
    };
    let replaced = if path.exists() { ", in place of the one before" } else { "" };
    match write(&path) {
        Ok(()) => println!("stored in {}{replaced}", path.display()),
        Err(failure) => eprintln!("note: not stored: {}", failure.text),
    }
}

/// The stored result: one's own, else the machine's.
///
/// # Errors
/// There is none.
pub(crate) fn stored() -> Result<PathBuf, Failure> {
    let places: Vec<PathBuf> = own_file().into_iter().chain([in_folder(MACHINE.into())]).collect();
    if let Some(found) = places.iter().find(|path| path.exists()) {
        return Ok(found.clone());
    }
    let places: Vec<String> = places.iter().map(|path| path.display().to_string()).collect();
    Err(Failure::input(format!(
        "--host-latency measured: no latency of this host is stored ({})\n  mend: measure it with `sudo downbeat latency`",
        places.join(", ")
    )))
}
