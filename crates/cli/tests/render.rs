//! `downbeat render`, and what `check` says of the plan for Linux.

mod common;

use common::{downbeat, stderr, stdout};

/// A bridge with gates at one port, and a NIC that takes no gates over.
const SCENARIO: &str = r#"
name = "rendered"
[time]
cycle = "250us"
offset = "150us"
[hosts.pub]
clock = "grandmaster"
machine = { kernel = "6.12", driver = "igb" }
[hosts.br]
kind = "bridge"
[hosts.loop]
[[links]]
between = ["pub", "br"]
[[links]]
between = ["br", "loop"]
[[ports]]
at = "*"
queue = { root = "mqprio", map = [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0], classes = 2 }
[[ports]]
at = "pub"
queue = { root = "taprio", map = [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0], classes = 2, schedule = [{ gates = [0], interval = "120us" }, { gates = [], interval = "15us" }, { gates = [1], interval = "60us" }, { gates = [0], interval = "55us" }] }
[[streams]]
name = "s"
writer = "pub"
reader = "loop"
variables = 3
vid = 8
pcp = 7
launch = true
"#;

fn file(folder: &tempfile::TempDir, text: &str) -> String {
    let path = folder.path().join("rendered.toml");
    std::fs::write(&path, text).unwrap();
    path.to_string_lossy().into_owned()
}

/// The scenario without clocks that no class has room for.
fn sound() -> String {
    SCENARIO.replace("clock = \"grandmaster\"\n", "")
}

#[test]
fn a_form_is_what_its_program_reads() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, &sound());
    let tc = downbeat(&["render", &path, "--host", "pub", "--form", "tc"]);
    assert_eq!(tc.status.code(), Some(0), "{}", stderr(&tc));
    let tc = stdout(&tc);
    let commands: Vec<&str> = tc.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).collect();
    assert_eq!(commands.len(), 1, "{tc}");
    assert!(commands[0].contains("sched-entry S 01 120000") && commands[0].contains("cycle-time 250000"), "{tc}");
    let bridge = stdout(&downbeat(&["render", &path, "--host", "br", "--form", "tc"]));
    assert_eq!(bridge.matches("flower vlan_prio 7 action skbedit priority 7").count(), 2, "{bridge}");
    let none = downbeat(&["render", &path, "--host", "pub", "--form", "bridge"]);
    assert!(stdout(&none).is_empty() && stderr(&none).contains("nothing to be done"), "{}", stderr(&none));
}

#[test]
fn files_go_into_a_folder_for_each_host() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, &sound().replace("[hosts.loop]", "[hosts.loop]\nclock = \"grandmaster\""));
    let out = folder.path().join("plan");
    let output = downbeat(&["render", &path, "--out", out.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    for name in
        ["pub/tc.batch", "pub/ethtool.sh", "br/ip.batch", "br/bridge.batch", "loop/etc/linuxptp/downbeat-ptp4l.conf"]
    {
        assert!(out.join(name).is_file(), "no {name}: {}", stdout(&output));
    }
    std::fs::write(folder.path().join("taken"), "").unwrap();
    let refused = downbeat(&["render", &path, "--out", folder.path().join("taken").to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("mend:"), "{}", stderr(&refused));
}

#[test]
fn a_plan_in_json_has_steps_with_their_undoing() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, &sound());
    let form: serde_json::Value =
        serde_json::from_str(&stdout(&downbeat(&["render", &path, "--host", "br", "--json"]))).unwrap();
    assert_eq!(form["format"], "downbeat/plan/1");
    let steps = form["plans"][0]["steps"].as_array().unwrap();
    assert_eq!(steps[0]["command"]["program"], "ip");
    assert_eq!(steps[0]["undo"]["run"]["words"], serde_json::json!(["link", "del", "br0"]));
    assert!(steps.iter().all(|step| !step["undo"].is_null() && step["existing"].is_string()));
}

#[test]
fn what_linux_would_refuse_is_said_by_check_and_by_render() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, SCENARIO);
    let check = downbeat(&["check", &path]);
    assert_eq!(check.status.code(), Some(2), "{}", stdout(&check));
    let text = stdout(&check);
    assert!(text.contains("ptp-without-seat") && text.contains("mend:") && text.contains("source:"), "{text}");
    let json: serde_json::Value = serde_json::from_str(&stdout(&downbeat(&["check", &path, "--json"]))).unwrap();
    assert_eq!(json["ok"], false);
    assert!(json["plan"]["findings"].as_array().unwrap().iter().any(|finding| finding["severity"] == "error"));
    let render = downbeat(&["render", &path, "--host", "pub"]);
    assert_eq!(render.status.code(), Some(2));
    assert!(stderr(&render).contains("ptp-without-seat") && stdout(&render).contains("taprio"), "{}", stderr(&render));
    let fine = downbeat(&["check", &file(&folder, &sound())]);
    assert_eq!(fine.status.code(), Some(0), "{}", stdout(&fine));
}

#[test]
fn an_unknown_host_names_the_known_ones() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(&folder, SCENARIO);
    let output = downbeat(&["render", &path, "--host", "pup"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("pub, br, loop"), "{}", stderr(&output));
    assert_eq!(downbeat(&["render", "no-such-file.toml"]).status.code(), Some(2));
}
