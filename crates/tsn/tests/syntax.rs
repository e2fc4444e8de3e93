//! What the real programs make of what is rendered: `tc`, `ip`, `bridge`, `ethtool`, `ptp4l`, `ts2phc`, `systemd-analyze`.
//!
//! A kernel without these qdiscs refuses the commands, but only after the program has understood them. Refusals of the
//! kernel begin with `Error:`, `RTNETLINK answers:` or `netlink error:`; anything else is a mistake of ours.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Output};

use common::{has, plans, require};
use downbeat_tsn::{Form, Plan};

/// How messages begin that come from the kernel, or about something that it refused to make before.
const REFUSALS: [&str; 5] =
    ["Error:", "RTNETLINK answers:", "netlink error:", "We have an error talking to the kernel", "Cannot find device"];

/// A network namespace with interfaces of the names that a plan uses; gone when dropped.
struct Namespace(String);

impl Namespace {
    fn new(name: &str, plan: &Plan) -> Option<Self> {
        let name = format!("db-tsn-{name}-{}", std::process::id());
        let made = run("ip", &["netns", "add", &name]).is_some_and(|output| output.status.success());
        if !require(made, "network namespaces cannot be made (root is needed)") {
            return None;
        }
        let namespace = Self(name);
        let devices: BTreeSet<&str> = plan
            .steps
            .iter()
            .map(|step| step.target.as_str())
            .filter(|device| !device.contains('.') && *device != "systemd" && *device != downbeat_tsn::BRIDGE)
            .collect();
        for (index, device) in devices.iter().enumerate() {
            let peer = format!("peer{index}");
            let words =
                ["link", "add", device, "numtxqueues", "8", "numrxqueues", "8", "type", "veth", "peer", "name", &peer];
            namespace.ip(&words);
        }
        // Not every kernel has bridges that filter VLANs; `ip` looks the name up before it asks the kernel.
        namespace.ip(&["link", "add", downbeat_tsn::BRIDGE, "type", "bridge"]);
        Some(namespace)
    }

    fn ip(&self, words: &[&str]) {
        let words: Vec<&str> = ["-n", &self.0].into_iter().chain(words.iter().copied()).collect();
        let output = run("ip", &words).expect("ip ran before");
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        _ = run("ip", &["netns", "del", &self.0]);
    }
}

fn run(program: &str, words: &[&str]) -> Option<Output> {
    Command::new(program).args(words).output().ok()
}

/// Messages of a batch that are not the kernel's.
fn misunderstood(stderr: &str) -> Vec<&str> {
    stderr
        .lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with("Command failed"))
        .filter(|line| !REFUSALS.iter().any(|refusal| line.starts_with(refusal)))
        .collect()
}

/// Version of iproute2, of "tc utility, iproute2-6.1.0, libbpf 1.1.2".
fn iproute2() -> (u32, u32) {
    let output = run("tc", &["-V"]).expect("tc is there");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = text.split("iproute2-").nth(1).unwrap_or_default();
    let mut parts = version.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}

fn batch(form: Form, program: &str, name: &str, plan: &Plan, namespace: &Namespace) -> Vec<String> {
    let Some(mut text) = plan.text(form) else { return Vec::new() };
    if iproute2() < (6, 3) && text.contains(" fp ") {
        eprintln!("left out: `fp` of {name}, this tc is older than 6.3");
        text = text.lines().map(|line| line.split(" fp ").next().unwrap_or(line)).collect::<Vec<_>>().join("\n") + "\n";
    }
    let folder = tempfile(name, form.name());
    fs::write(&folder, &text).unwrap();
    let path = folder.to_string_lossy().into_owned();
    let output = run(program, &["-n", &namespace.0, "-force", "-batch", &path]).unwrap();
    _ = fs::remove_file(&folder);
    let stderr = String::from_utf8_lossy(&output.stderr);
    misunderstood(&stderr).into_iter().map(|line| format!("{name}, {program}: {line}")).collect()
}

fn tempfile(name: &str, form: &str) -> std::path::PathBuf {
    std::env::temp_dir().join(format!("downbeat-tsn-{name}.{form}.{}", std::process::id()))
}

#[test]
fn iproute2_understands_every_line() {
    if !has("tc", "-V") {
        return;
    }
    let mut wrong = Vec::new();
    for (name, plan) in plans() {
        let Some(namespace) = Namespace::new(&name, &plan) else { return };
        for (form, program) in [(Form::Ip, "ip"), (Form::Bridge, "bridge"), (Form::Tc, "tc")] {
            wrong.extend(batch(form, program, &name, &plan, &namespace));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The test above can fail: what `tc` does not understand is not taken for a refusal of the kernel.
#[test]
fn a_line_that_iproute2_does_not_understand_is_seen() {
    if !has("tc", "-V") {
        return;
    }
    let (name, mut plan) = plans().into_iter().find(|(name, _)| name.starts_with("lab-taprio")).unwrap();
    let Some(namespace) = Namespace::new("wrong", &plan) else { return };
    for (from, to) in [("sched-entry", "sched-entri"), ("idleslope", "idle-slope"), ("num_tc", "num-tc")] {
        let before = plan.clone();
        let words = plan.steps.iter_mut().flat_map(|step| &mut step.command.words);
        words.filter(|word| *word == from).for_each(|word| *word = to.to_owned());
        assert_ne!(plan, before, "no `{from}` in the plan");
        assert!(!batch(Form::Tc, "tc", &name, &plan, &namespace).is_empty(), "`{to}` passed");
        plan = before;
    }
}

#[test]
fn ethtool_understands_every_line() {
    if !has("ethtool", "--version") {
        return;
    }
    let knows_mm =
        run("ethtool", &["--help"]).is_some_and(|output| String::from_utf8_lossy(&output.stdout).contains("--set-mm"));
    let mut wrong = Vec::new();
    for (name, plan) in plans() {
        let Some(namespace) = Namespace::new(&format!("e{name}"), &plan) else { return };
        for step in plan.steps.iter().filter(|step| step.command.program == downbeat_tsn::Program::Ethtool) {
            if step.command.words[0] == "--set-mm" && !knows_mm {
                eprintln!("left out: `--set-mm` of {name}, this ethtool does not know it");
                continue;
            }
            let mut words = vec!["netns", "exec", &namespace.0, "ethtool"];
            words.extend(step.command.words.iter().map(String::as_str));
            let output = run("ip", &words).unwrap();
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            if text.contains("bad command line") || text.contains("unknown parameter") {
                wrong.push(format!("{name}: {}: {text}", step.command.line()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// linuxptp reads all of a configuration before it opens an interface. None of these exists.
#[test]
fn linuxptp_understands_its_configuration() {
    if !has("ptp4l", "-v") {
        return;
    }
    let read = |program: &str, name: &str, text: &str| {
        // A name that no machine has, so that no clock of this one is touched.
        let text: String = text
            .lines()
            .map(|line| match line.starts_with('[') && line != "[global]" {
                true => "[no-such-nic]\n".to_owned(),
                false => format!("{line}\n"),
            })
            .collect();
        let path = tempfile(name, program);
        fs::write(&path, text).unwrap();
        let file = path.to_string_lossy().into_owned();
        let words: &[&str] = match program {
            "ts2phc" => &["-f", &file, "-s", "generic", "-m"],
            _ => &["-f", &file, "-m"],
        };
        let output = run(program, words).unwrap();
        _ = fs::remove_file(&path);
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    };
    let mut seen = 0;
    for (name, plan) in plans() {
        for file in plan.files.iter().filter(|file| file.path.ends_with(".conf")) {
            // phc2sys waits for ptp4l when it has nothing to say against its file; ptp4l reads the same keys.
            let program = if file.path.contains("ts2phc") { "ts2phc" } else { "ptp4l" };
            let said = read(program, &name, &file.text);
            assert!(!said.contains("unknown option") && !said.contains("failed to parse"), "{name}: {said}");
            assert!(!said.contains("is out of range") && !said.contains("bad value"), "{name}: {said}");
            seen += 1;
        }
    }
    assert!(seen > 4, "{seen} configurations");
    let wrong = read("ptp4l", "wrong", "[global]\nlogSinkInterval -3\n");
    assert!(wrong.contains("unknown option"), "a wrong key passed: {wrong}");
}

#[test]
fn systemd_understands_the_units() {
    if !has("systemd-analyze", "--version") || !has("ptp4l", "-v") {
        return;
    }
    let folder = std::env::temp_dir().join(format!("downbeat-tsn-units-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let (_, plan) =
        plans().into_iter().find(|(_, plan)| plan.files.iter().any(|file| file.path.contains("ts2phc"))).unwrap();
    let mut paths = Vec::new();
    for file in plan.files.iter().filter(|file| file.path.ends_with(".service")) {
        let path = folder.join(file.path.rsplit('/').next().unwrap());
        fs::write(&path, &file.text).unwrap();
        paths.push(path.to_string_lossy().into_owned());
    }
    let words: Vec<&str> = std::iter::once("verify").chain(paths.iter().map(String::as_str)).collect();
    let output = run("systemd-analyze", &words).unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    _ = fs::remove_dir_all(&folder);
    assert_eq!(paths.len(), 3, "{paths:?}");
    assert!(!said.contains("downbeat-"), "{said}");
}
