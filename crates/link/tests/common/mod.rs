//! A network namespace with a pair of joined interfaces, gone when the test is over.

#[allow(dead_code, reason = "not every test needs all of them")]
pub(crate) mod frames;

use std::io::Write;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use downbeat_link::{ReceiveWay, interface};
use nix::sched::{CloneFlags, setns};
use units::Nanos;

/// The sending and the receiving interface of every namespace made here.
pub(crate) const PORT_A: &str = "port-a";
pub(crate) const PORT_B: &str = "port-b";

static MADE: AtomicU32 = AtomicU32::new(0);

/// A namespace of our own, deleted on drop.
struct Namespace {
    name: String,
}

impl Namespace {
    fn new() -> Result<Self, String> {
        let name = format!("db-link-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        ip(&["netns", "add", &name])?;
        let namespace = Self { name };
        ip(&["-n", &namespace.name, "link", "add", PORT_A, "type", "veth", "peer", "name", PORT_B])?;
        for port in [PORT_A, PORT_B] {
            ip(&["-n", &namespace.name, "link", "set", port, "up"])?;
        }
        Ok(namespace)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        _ = ip(&["netns", "del", &self.name]);
    }
}

/// Runs iproute2's `ip`.
#[allow(dead_code, reason = "not every test changes its interfaces")]
pub(crate) fn ip(arguments: &[&str]) -> Result<(), String> {
    let output = Command::new("ip").args(arguments).output().map_err(|error| format!("ip: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("ip {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim()))
}

/// Waits until both interfaces of the thread's namespace carry frames.
pub(crate) fn wait_for_ports() {
    for port in [PORT_A, PORT_B] {
        assert_eq!(interface::wait_until_running(port, Nanos::from_millis(5_000)), Ok(true), "{port}");
    }
}

/// Says that a test did nothing; not by `eprintln!`, which the test runner swallows when a test passes.
pub(crate) fn skipped(why: &str) {
    _ = writeln!(std::io::stderr(), "skipped: {why}");
}

/// Runs `body` for both ways to receive, each in a namespace of its own.
#[allow(dead_code, reason = "not every test receives")]
pub(crate) fn for_each_way(body: impl Fn(ReceiveWay) + Sync) {
    for way in [ReceiveWay::Packet, ReceiveWay::Ring] {
        in_namespace(|| body(way));
    }
}

/// Children inherit the namespace of the thread that starts them.
#[allow(dead_code, reason = "not every test changes its interfaces")]
pub(crate) fn ip_here(arguments: &[&str]) {
    ip(arguments).unwrap();
}

/// Runs `body` in a thread inside a new namespace. Where none can be made (not root, no veth) the test is skipped
/// with a line that says so, or fails when `DOWNBEAT_REQUIRE_ALL=1`.
pub(crate) fn in_namespace(body: impl FnOnce() + Send) {
    let namespace = match Namespace::new() {
        Ok(namespace) => namespace,
        Err(why) => {
            assert_ne!(std::env::var("DOWNBEAT_REQUIRE_ALL").as_deref(), Ok("1"), "{why}");
            skipped(&format!("needs a network namespace ({why})"));
            return;
        }
    };
    // A namespace belongs to a thread: a fresh one, so that the test runner's stay where they are.
    std::thread::scope(|scope| {
        let inside = scope.spawn(|| {
            let file = std::fs::File::open(format!("/run/netns/{}", namespace.name)).unwrap();
            setns(file, CloneFlags::CLONE_NEWNET).unwrap();
            wait_for_ports();
            body();
        });
        if let Err(panic) = inside.join() {
            std::panic::resume_unwind(panic);
        }
    });
}

/// Takes the calling thread's rights away.
#[allow(dead_code, reason = "not every test asks for rights")]
pub(crate) fn become_nobody() {
    // SAFETY: the raw call, unlike libc's, changes the user of this thread alone, which ends after the test.
    let result = unsafe { libc::syscall(libc::SYS_setresuid, -1_i32, 65_534_i32, -1_i32) };
    assert_eq!(result, 0);
}
