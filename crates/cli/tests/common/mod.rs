//! What the tests of the command share.
#![allow(dead_code, unreachable_pub)] // each test file uses a part of it

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

pub mod bench;
pub mod exposition;
pub mod lab;

/// The command under test.
pub const DOWNBEAT: &str = env!("CARGO_BIN_EXE_downbeat");

/// Runs the command to its end.
pub fn downbeat(arguments: &[&str]) -> Output {
    Command::new(DOWNBEAT).args(arguments).stdin(Stdio::null()).output().expect("the command starts")
}

/// What it printed to standard output.
pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What it printed to standard error.
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Whether network namespaces can be made here; without, says that the test is skipped, or fails where all tests are
/// required (`make test` as root sets the variable).
pub fn can_run(test: &str) -> bool {
    // Root and iproute2 are what a run needs.
    let root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.starts_with(b"0"));
    let able = root && Command::new("ip").args(["netns", "list"]).output().is_ok_and(|output| output.status.success());
    if !able {
        assert!(std::env::var_os("DOWNBEAT_REQUIRE_ALL").is_none(), "{test} needs root and network namespaces");
        eprintln!("skipped: {test} needs root and network namespaces");
    }
    able
}

/// What it printed to standard output, once it has ended with a result.
#[track_caller]
pub fn ended(child: Child) -> String {
    let output = child.wait_with_output().unwrap();
    let text = stderr(&output);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{:?} {text}", output.status);
    assert!(!text.contains("panicked"), "{text}");
    stdout(&output)
}

/// A template with another name, so that tests side by side do not meet in one namespace.
pub fn scenario(folder: &Path, template: &str, name: &str) -> PathBuf {
    let text = scenario_text(template, name);
    let path = folder.join(format!("{name}.toml"));
    std::fs::write(&path, text).expect("the scenario is written");
    path
}

/// The text of a template under another name.
pub fn scenario_text(template: &str, name: &str) -> String {
    let text = stdout(&downbeat(&["init", template]));
    let line = text.lines().find(|line| line.starts_with("name =")).expect("a template has a name").to_string();
    text.replacen(&line, &format!("name = \"{name}\""), 1)
}

/// Reads run.json of a folder.
pub fn run_json(folder: &Path) -> Value {
    let text = std::fs::read(folder.join("run.json")).expect("run.json is there");
    serde_json::from_slice(&text).expect("run.json is JSON")
}

/// The namespaces of a scenario that exist now.
pub fn namespaces(name: &str) -> Vec<String> {
    networks(&format!("db-{name}-"))
}

/// The namespaces whose names begin so.
pub fn networks(prefix: &str) -> Vec<String> {
    let names = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
    names
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|entry| entry.starts_with(prefix))
        .collect()
}

/// Waits until `condition` holds.
pub fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(15);
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Numbers of the processes that play the hosts of a run.
pub fn children(parent: u32) -> Vec<u32> {
    let path = format!("/proc/{parent}/task/{parent}/children");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// Sends a signal by name.
pub fn signal(pid: u32, name: &str) {
    let status = Command::new("kill").args([format!("-{name}"), pid.to_string()]).status();
    assert!(status.is_ok_and(|status| status.success()), "signal {name} to {pid}");
}

/// Runs compete for the processors: one at a time, so that medians mean something.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Holds off other runs of this test program.
pub fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a run.
pub fn start(scenario: &Path, out: &Path, more: &[&str]) -> Child {
    Command::new(DOWNBEAT)
        .args(["run", scenario.to_str().unwrap(), "--out", out.to_str().unwrap()])
        .args(more)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// A run that is under way: its processes play their hosts.
pub fn started(scenario: &Path, out: &Path, name: &str) -> (Child, Vec<u32>) {
    let child = start(scenario, out, &["--duration", "30s"]);
    wait_for("the run's processes", || children(child.id()).len() == 2 && namespaces(name).len() == 2);
    std::thread::sleep(Duration::from_millis(1500));
    let hosts = children(child.id());
    (child, hosts)
}
