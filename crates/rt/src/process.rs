//! Placing and telling apart the processes of a laboratory.

use std::fs::File;
use std::io;
use std::path::Path;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;

/// Moves the calling thread, and threads it starts later, into the network namespace at `path`
/// (`/run/netns/NAME` of a named one, `/proc/PID/ns/net` of a process).
///
/// # Errors
/// The path does not exist or is no network namespace, or the right (`CAP_SYS_ADMIN`) is missing; the
/// message names the path.
pub fn enter_network_namespace(path: &Path) -> io::Result<()> {
    let told = |error: io::Error| {
        let mend = match error.kind() {
            io::ErrorKind::PermissionDenied => "; needs CAP_SYS_ADMIN: run as root",
            io::ErrorKind::InvalidInput => "; not a network namespace",
            _ => "",
        };
        io::Error::new(error.kind(), format!("network namespace {}: {error}{mend}", path.display()))
    };
    let namespace = File::open(path).map_err(told)?;
    setns(namespace, CloneFlags::CLONE_NEWNET).map_err(|errno| told(errno.into()))
}

/// Makes this process root of a user namespace of its own, with network and mounts of its own and an empty `/run`:
/// enough to make network namespaces, where the distribution allows it to ordinary users. What belongs to the real
/// root (SCHED_FIFO, locked memory beyond the limit) stays out of reach, and all of it goes with the process.
///
/// Call it before the first thread is started.
///
/// # Errors
/// The kernel or the distribution does not allow it; the message says which step. The process may then be left without
/// any rights: end it.
pub fn enter_own_user_namespace() -> io::Result<()> {
    let told = |what: &str| {
        let what = what.to_owned();
        move |error: io::Error| io::Error::new(error.kind(), format!("{what}: {error}"))
    };
    let (uid, gid) = (nix::unistd::geteuid(), nix::unistd::getegid());
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWNET)
        .map_err(|errno| told("making a user namespace")(errno.into()))?;
    // The kernel lets a process map its group only after it has given up changing its groups.
    std::fs::write("/proc/self/setgroups", "deny").map_err(told("/proc/self/setgroups"))?;
    std::fs::write("/proc/self/uid_map", format!("0 {uid} 1")).map_err(told("/proc/self/uid_map"))?;
    std::fs::write("/proc/self/gid_map", format!("0 {gid} 1")).map_err(told("/proc/self/gid_map"))?;
    let none = None::<&str>;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)
        .map_err(|errno| told("keeping mounts to this process")(errno.into()))?;
    mount(Some("tmpfs"), "/run", Some("tmpfs"), MsFlags::MS_NOSUID | MsFlags::MS_NODEV, none)
        .map_err(|errno| told("mounting an own /run")(errno.into()))
}

/// Asks the kernel to end this process with SIGTERM when the *thread* that started it ends.
///
/// Call it first in the child: a parent that died before the call is not noticed. The thread that starts
/// children must therefore live as long as they shall.
pub fn die_with_parent() {
    // Fails only for a signal number that does not exist.
    _ = set_pdeathsig(Signal::SIGTERM);
}

/// Lets a write to a closed pipe end this process quietly, as other programs do: Rust's runtime ignores SIGPIPE,
/// so that `println!` panics instead. Not for a process that must clean up behind itself.
pub fn die_on_broken_pipe() {
    // SAFETY: the default action replaces no handler of ours and runs no code of this process.
    _ = unsafe { nix::sys::signal::signal(Signal::SIGPIPE, nix::sys::signal::SigHandler::SigDfl) };
}

/// When process `pid` started, in clock ticks since boot (field 22 of `/proc/PID/stat`); none when there is
/// no such process. Together with the number it names one process for good: a number alone may be used again.
///
/// A process that has ended but was not waited for yet counts as gone.
pub fn start_time(pid: u32) -> Option<u64> {
    parse_stat(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Field 2 is the name in parentheses and may hold spaces and parentheses itself: count from the last one.
fn parse_stat(stat: &str) -> Option<u64> {
    let after_name = &stat[stat.rfind(')')? + 1..];
    let mut fields = after_name.split_ascii_whitespace();
    match fields.next()? {
        "Z" | "X" | "x" => None,
        _ => fields.nth(22 - 4)?.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn the_start_time_survives_odd_names() {
        let stat = "7 (a) R (b) S 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1000 20 18446744073709551615";
        assert_eq!(parse_stat(stat), Some(987_654));
        assert_eq!(parse_stat(&stat.replace(" S ", " Z ")), None);
        assert_eq!(parse_stat("7 (a"), None);
        assert_eq!(parse_stat("7 (a) S 1"), None);
        assert_eq!(parse_stat(""), None);
    }

    #[test]
    fn a_process_is_known_until_it_ends() {
        let own = start_time(std::process::id()).unwrap();
        let mut child = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
        let started = start_time(child.id()).unwrap();
        assert!(started >= own);
        assert_eq!(start_time(child.id()), Some(started), "it does not change");
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(start_time(child.id()), None);
    }

    #[test]
    fn a_wrong_namespace_is_named() {
        let error = enter_network_namespace(Path::new("/run/netns/no-such-namespace")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().contains("no-such-namespace"), "{error}");
        let error = enter_network_namespace(Path::new("/proc/self/stat")).unwrap_err();
        assert!(error.to_string().contains("/proc/self/stat"), "{error}");
    }
}
