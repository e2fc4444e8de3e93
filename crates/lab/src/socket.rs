//! The control socket of a run in the file system: where it lies, whose it is, and how to ask it.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, listen, socket};
use nix::sys::stat::{Mode, fchmod};
use serde_json::{Value, json};

use crate::error::LabError;

/// Connections that may wait to be taken.
const WAITING: i32 = 16;
/// Longest answer that a client reads.
const ANSWER_BYTES: u64 = 4 << 20;

/// A listening socket of a run. Dropped, its file is removed.
#[derive(Debug)]
pub struct ControlSocket {
    listener: UnixListener,
    path: PathBuf,
    /// The folder, so that the file is found again from other mounts: a run without root has a `/run` of its own.
    folder: Option<OwnedFd>,
}

/// The folder of control sockets: `$XDG_RUNTIME_DIR/downbeat`, for root without one `/run/downbeat`, else
/// `/tmp/downbeat-UID`.
pub fn control_folder() -> PathBuf {
    let uid = nix::unistd::geteuid();
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| Path::new(folder).is_absolute()) {
        Some(folder) => Path::new(&folder).join("downbeat"),
        None if uid.is_root() => "/run/downbeat".into(),
        None => format!("/tmp/downbeat-{uid}").into(),
    }
}

impl ControlSocket {
    /// Opens the socket at `path`, which only this user can reach. A socket that a dead process left is replaced. Call
    /// it before [`Rights::take`](crate::Rights::take), which may hide the folder.
    ///
    /// # Errors
    /// A run listens there already, the folder is somebody else's, or the system refuses.
    pub fn open(path: &Path) -> Result<Self, LabError> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        make_folder(folder, "the control socket")?;
        let what = || format!("opening the control socket {}", path.display());
        let address = UnixAddr::new(path).map_err(|_| LabError::Scenario {
            what: format!("{} is too long for a socket (107 bytes at most)", path.display()),
            mend: "name a shorter one with --control, or take --no-control".into(),
        })?;
        let listener = match bound(&address) {
            Err(Errno::EADDRINUSE) => {
                remove_stale(path)?;
                bound(&address)
            }
            other => other,
        };
        let listener = UnixListener::from(listener.map_err(|errno| LabError::io(what())(errno.into()))?);
        let folder = fs::File::open(folder).ok().map(OwnedFd::from);
        let opened = Self { listener, path: path.to_owned(), folder };
        opened.listener.set_nonblocking(true).map_err(LabError::io(what()))?;
        Ok(opened)
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn listener(&self) -> &UnixListener {
        &self.listener
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        // Gone already is as good.
        _ = match (&self.folder, self.path.file_name()) {
            (Some(folder), Some(name)) => {
                nix::unistd::unlinkat(folder, name, nix::unistd::UnlinkatFlags::NoRemoveDir).map_err(Into::into)
            }
            _ => fs::remove_file(&self.path),
        };
    }
}

fn bound(address: &UnixAddr) -> Result<OwnedFd, Errno> {
    let fd = socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    // Before it has a name: the file never exists with more rights.
    fchmod(&fd, Mode::S_IRUSR | Mode::S_IWUSR)?;
    bind(fd.as_raw_fd(), address)?;
    listen(&fd, Backlog::new(WAITING)?)?;
    Ok(fd)
}

pub(crate) fn make_folder(folder: &Path, of: &str) -> Result<(), LabError> {
    if folder.exists() && !folder.starts_with("/tmp") {
        return Ok(());
    }
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(LabError::io(format!("making {} for {of}", folder.display())))?;
    // In a folder that all may write to, somebody else can have been first.
    let foreign = fs::symlink_metadata(folder)
        .is_ok_and(|found| !found.is_dir() || found.uid() != nix::unistd::geteuid().as_raw());
    if foreign && folder == control_folder() {
        return Err(LabError::Host {
            what: format!("{} is not a folder of this user", folder.display()),
            mend: "set XDG_RUNTIME_DIR, name a socket with --control, or take --no-control".into(),
        });
    }
    Ok(())
}

/// Removes a socket on which nobody listens.
fn remove_stale(path: &Path) -> Result<(), LabError> {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    if !is_socket {
        return Err(LabError::Scenario {
            what: format!("{} exists and is no socket", path.display()),
            mend: "name another with --control".into(),
        });
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(LabError::io(format!("removing {}", path.display())))
        }
        connected => {
            let peer = connected.ok().and_then(|stream| {
                nix::sys::socket::getsockopt(&stream, nix::sys::socket::sockopt::PeerCredentials).ok()
            });
            let owner = peer.map_or_else(|| "another process".into(), |peer| format!("process {}", peer.pid()));
            Err(LabError::Scenario {
                what: format!("{owner} plays already under the name of {}", path.display()),
                mend: "end it (`downbeat ctl stop`), name another socket with --control, or take --no-control".into(),
            })
        }
    }
}

/// The control socket of a running scenario: by its name, by its path, or the only one that there is.
///
/// # Errors
/// There is none, or there are several.
pub fn find_control(name: Option<&str>) -> Result<PathBuf, LabError> {
    let folder = control_folder();
    if let Some(name) = name {
        return Ok(if name.contains('/') { name.into() } else { folder.join(format!("{name}.sock")) });
    }
    let entries = fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut living: Vec<_> = entries
        .filter(|path| path.extension().is_some_and(|extension| extension == "sock"))
        .filter(|path| UnixStream::connect(path).is_ok())
        .collect();
    living.sort();
    match (living.len(), living.pop()) {
        (1, Some(only)) => Ok(only),
        (0, _) => Err(LabError::Scenario {
            what: format!("nothing that can be controlled runs: no socket in {} answers", folder.display()),
            mend: "name the path of its socket, as given with --control".into(),
        }),
        (_, last) => {
            let names = living.iter().chain(&last).filter_map(|path| path.file_stem());
            let names: Vec<_> = names.map(|name| name.to_string_lossy()).collect();
            Err(LabError::Scenario {
                what: format!("several can be controlled: {}", names.join(", ")),
                mend: "name the one that is meant".into(),
            })
        }
    }
}

/// Asks a run to do something and gives its answer.
///
/// # Errors
/// Nobody answers at `path`, or the answer is no JSON.
pub fn ask_control(path: &Path, what: &str, named: Option<&str>) -> Result<Value, LabError> {
    let told = || format!("asking {}", path.display());
    let mut stream = UnixStream::connect(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => LabError::Scenario {
            what: format!("nothing runs behind {}", path.display()),
            mend: format!("`ls {}` shows the names of what runs", control_folder().display()),
        },
        ErrorKind::PermissionDenied => LabError::Host {
            what: format!("{} belongs to another user", path.display()),
            mend: "ask as the user who started it".into(),
        },
        _ => LabError::io(told())(error),
    })?;
    let patience = Some(Duration::from_secs(60));
    stream
        .set_read_timeout(patience)
        .and_then(|()| stream.set_write_timeout(patience))
        .map_err(LabError::io(told()))?;
    let request = named.map_or_else(|| json!({ "do": what }), |named| json!({ "do": what, "stream": named }));
    stream.write_all(format!("{}\n", request).as_bytes()).map_err(LabError::io(told()))?;
    let mut line = String::new();
    BufReader::new(stream.take(ANSWER_BYTES)).read_line(&mut line).map_err(LabError::io(told()))?;
    serde_json::from_str(&line).map_err(|_| LabError::Host {
        what: format!("no answer from {}", path.display()),
        mend: "it may just have ended; try again".into(),
    })
}
