//! Where it is measured: veth pairs in a network namespace, and a thread that nobody disturbs if it can be had.

use std::io::Write as _;
use std::process::{Command, Stdio};

use nix::sched::{CloneFlags, CpuSet, sched_getaffinity, unshare};
use nix::unistd::Pid;
use rt::thread::{Granted, Requested, prepare};
use units::Nanos;

const FIFO_PRIORITY: u8 = 50;
const LINK_TIMEOUT: Nanos = Nanos::from_millis(5_000);

/// A veth pair.
pub(super) struct Pair {
    /// The end that frames are sent at.
    pub(super) near: String,
    /// The end that they come out at.
    pub(super) far: String,
}

/// Whether a network namespace can be made; tried in a thread that ends right away, and the namespace with it.
pub(super) fn check_rights() -> Result<(), String> {
    let tried = std::thread::spawn(|| unshare(CloneFlags::CLONE_NEWNET)).join();
    match tried {
        Ok(Ok(())) => Ok(()),
        Ok(Err(errno)) => Err(format!(
            "A network namespace cannot be made here ({}). Run this as root, or as\n  unshare --map-root-user --net cargo \
             xtask bench publish",
            errno.desc()
        )),
        Err(_) => Err("No thread can be started.".to_owned()),
    }
}

/// Moves the calling thread into a network namespace of its own with `count` veth pairs, all of them up.
///
/// The namespace has no name: it ends with the process however that ends, and the pairs with it.
pub(super) fn make_pairs(count: usize) -> Result<Vec<Pair>, NoNetwork> {
    try_pairs(count).map_err(NoNetwork)
}

/// Why there are no veth pairs: a matter of the machine.
#[derive(Debug)]
pub(super) struct NoNetwork(String);

impl std::fmt::Display for NoNetwork {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for NoNetwork {}

fn try_pairs(count: usize) -> Result<Vec<Pair>, String> {
    unshare(CloneFlags::CLONE_NEWNET).map_err(|errno| format!("No network namespace: {}", errno.desc()))?;
    let pairs: Vec<_> =
        (0..count).map(|number| Pair { near: format!("near{number}"), far: format!("far{number}") }).collect();
    let mut batch = String::new();
    for Pair { near, far } in &pairs {
        batch += &format!("link add {near} type veth peer name {far}\n");
        for end in [near, far] {
            // Without an IPv6 address the kernel sends nothing of its own.
            batch += &format!("link set {end} addrgenmode none\nlink set {end} up\n");
        }
    }
    ip(&batch)?;
    for Pair { near, far } in &pairs {
        for end in [near, far] {
            match link::interface::wait_until_running(end, LINK_TIMEOUT) {
                Ok(true) => {}
                Ok(false) => return Err(format!("{end} did not come up within {} s.", LINK_TIMEOUT.0 / 1_000_000_000)),
                Err(error) => return Err(error.to_string()),
            }
        }
    }
    Ok(pairs)
}

fn ip(batch: &str) -> Result<(), String> {
    let told = |error| format!("ip did not run: {error}. It is in the package iproute2.");
    let mut child = Command::new("ip")
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(told)?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(batch.as_bytes()).map_err(told)?;
    }
    let output = child.wait_with_output().map_err(told)?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("veth pairs cannot be made here: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

/// Frames that came out of an interface since it exists.
pub(super) fn frames_received(interface: &str) -> Result<u64, String> {
    let path = "/proc/thread-self/net/dev";
    let table = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    received_in(&table, interface).ok_or_else(|| format!("{path}: no frame count of {interface}"))
}

fn received_in(table: &str, interface: &str) -> Option<u64> {
    let counts = table.lines().find_map(|line| line.trim().strip_prefix(interface)?.strip_prefix(':'))?;
    counts.split_whitespace().nth(1)?.parse().ok()
}

/// Keeps the calling thread on the last processor that it may use (the first ones serve most interrupts) and asks
/// for SCHED_FIFO.
pub(super) fn settle() -> Granted {
    settle_on(last_cpu())
}

/// The same on a processor of the caller's choice.
pub(super) fn settle_on(cpu: Option<usize>) -> Granted {
    prepare(&Requested { fifo_priority: Some(FIFO_PRIORITY), cpu, ..Requested::default() })
}

/// The last processor that the calling thread may use.
pub(super) fn last_cpu() -> Option<usize> {
    cpus().pop()
}

/// All that it may use.
pub(super) fn cpus() -> Vec<usize> {
    let allowed = sched_getaffinity(Pid::from_raw(0)).unwrap_or_default();
    (0..CpuSet::count()).filter(|&cpu| allowed.is_set(cpu) == Ok(true)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_found() {
        let table =
            "Inter-|   Receive  |  Transmit\n face |bytes packets errs |bytes\n  far1: 5 7 0 0\n far10:88 9 0\n";
        assert_eq!(received_in(table, "far1"), Some(7));
        assert_eq!(received_in(table, "far10"), Some(9));
        assert_eq!(received_in(table, "far"), None);
    }
}
