//! `check --here`: the machine is looked at, set right where that is wanted, and set back.

mod common;

use std::process::Command;

use common::{DOWNBEAT, can_run, downbeat, stderr, stdout};
use serde_json::Value;

#[test]
fn a_machine_is_looked_at_without_a_scenario() {
    let output = downbeat(&["check", "--here", "--interface", "lo", "--json"]);
    assert!(matches!(output.status.code(), Some(0 | 1 | 3)), "{}", stderr(&output));
    let form: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(form["format"], "downbeat/check/1");
    let findings = form["machine"]["findings"].as_array().unwrap();
    for rule in ["preempt-rt", "isolcpus", "irq-affinity", "tai-offset", "link"] {
        assert!(findings.iter().any(|finding| finding["rule"] == rule), "{rule} was not looked at");
    }
    let worst = ["error", "warning"].map(|severity| findings.iter().any(|finding| finding["severity"] == severity));
    let code = if worst[0] { 3 } else { i32::from(worst[1]) };
    assert_eq!(output.status.code(), Some(code));
    // What is wrong is told with what is needed and how to mend it.
    for finding in findings.iter().filter(|finding| finding["severity"] != "good") {
        assert!(["found", "needed", "mend"].iter().all(|key| finding[key] != ""), "{finding}");
    }
    let text = stdout(&downbeat(&["check", "--here"]));
    assert!(text.contains("this machine:") && text.contains("errors") && text.contains("needed: "), "{text}");
}

#[test]
fn a_host_of_a_scenario_says_what_is_needed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("two.toml");
    std::fs::write(&path, stdout(&downbeat(&["init", "two-hosts"]))).unwrap();
    let path = path.to_str().unwrap();
    let check = |arguments: &[&str]| downbeat(&[&["check", path, "--here"], arguments].concat());
    let missing = check(&["--host", "pub", "--interface", "no-such-if"]);
    let text = stdout(&missing);
    assert_eq!(missing.status.code(), Some(3), "{text}");
    assert!(text.contains("this machine, as pub") && text.contains("no-such-if"), "{text}");
    for (arguments, words) in [
        (&["--host", "pubb"][..], "no host \"pubb\""),
        (&["--host", "pub", "--interface", "nobody=eth1"], "nobody"),
        (&["--cpu", "4096"], "--cpu 4096"),
        (&["--fix=no-such-rule"], "no-such-rule"),
    ] {
        let output = check(arguments);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
        assert!(text.contains(words) && text.contains("mend:"), "{arguments:?}: {text}");
    }
    // These belong to --here.
    assert_eq!(downbeat(&["check", path, "--fix"]).status.code(), Some(2));
    assert_eq!(downbeat(&["check"]).status.code(), Some(2));
    // A file that is wrong comes first.
    let broken = downbeat(&["check", "no-such-file.toml", "--here", "--json"]);
    assert_eq!(broken.status.code(), Some(2));
    assert!(stdout(&broken).contains("no-such-file.toml"));
}

/// A network namespace that goes with the test.
struct Namespace(String);

impl Namespace {
    fn with_veth() -> Self {
        let namespace = Self(format!("doctor-{}", std::process::id()));
        let ip = |arguments: &[&str]| assert!(Command::new("ip").args(arguments).status().unwrap().success());
        ip(&["netns", "add", &namespace.0]);
        ip(&["-n", &namespace.0, "link", "add", "va", "type", "veth", "peer", "name", "vb"]);
        namespace
    }

    fn run(&self, arguments: &[&str]) -> std::process::Output {
        Command::new("ip").args(["netns", "exec", &self.0]).args(arguments).output().unwrap()
    }

    fn timeout(&self) -> String {
        stdout(&self.run(&["cat", "/sys/class/net/va/gro_flush_timeout"])).trim().to_owned()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

#[test]
fn what_is_set_right_is_set_back() {
    if !can_run("what_is_set_right_is_set_back") {
        return;
    }
    let namespace = Namespace::with_veth();
    namespace.run(&["sh", "-c", "echo 2000000 > /sys/class/net/va/gro_flush_timeout"]);
    assert_eq!(namespace.timeout(), "2000000");
    let check = ["check", "--here", "--interface", "va", "--fix=gro-flush-timeout"];
    let fixed = namespace.run(&[&[DOWNBEAT], &check[..]].concat());
    let text = stdout(&fixed);
    assert!(text.contains("changed: echo 0 > /sys/class/net/va/gro_flush_timeout"), "{text}{}", stderr(&fixed));
    assert_eq!(namespace.timeout(), "0");
    // Nothing is left to do, and nothing is done twice.
    let again = stdout(&namespace.run(&[&[DOWNBEAT], &check[..]].concat()));
    assert!(!again.contains("changed:"), "{again}");
    let restored = stdout(&namespace.run(&[DOWNBEAT, "restore"]));
    assert!(restored.contains("set back: echo 2000000 >"), "{restored}");
    assert_eq!(namespace.timeout(), "2000000");
}
