//! Runs of streams over UDP: to hosts and groups, of both versions of the Internet Protocol, beside Ethernet frames.

mod common;

use std::path::{Path, PathBuf};

use common::{alone, can_run, downbeat, namespaces, run_json, stderr};
use serde_json::Value;

/// The first stream of a template over UDP; `more` are further keys of it.
fn over_udp(folder: &Path, template: &str, name: &str, more: &str) -> PathBuf {
    let text = common::scenario_text(template, name);
    let tag = text.lines().find(|line| line.starts_with("vid =")).unwrap().to_string();
    let file = folder.join(format!("{name}.toml"));
    std::fs::write(&file, text.replace(&tag, &format!("transport = \"udp\"\n{more}"))).unwrap();
    file
}

fn run(file: &Path, out: &Path, more: &[&str]) -> Value {
    let arguments = ["run", file.to_str().unwrap(), "--out", out.to_str().unwrap(), "--duration", "2s"];
    let output = downbeat(&[&arguments[..], more].concat());
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", stderr(&output));
    run_json(out)
}

/// That most messages of a stream came to where it ends, with the stamps of both sides, and none was wrong.
fn assert_carried(stream: &Value, echo: bool) {
    let frames = stream["frames"].as_u64().unwrap();
    assert!((700..=2000).contains(&frames), "{frames} frames");
    let last = if echo { &stream["round_trip"]["wire"] } else { &stream["one_way"] };
    let count = last["count"].as_u64().unwrap_or(0);
    assert!(count > frames / 2, "{count} of {frames} frames: {stream}");
    for counter in ["inconsistent", "wrong_tag", "foreign"] {
        assert_eq!(stream["counters"][counter], 0, "{counter} of {}", stream["name"]);
    }
}

#[test]
fn a_stream_over_udp_comes_and_goes_to_hosts_and_groups_through_a_bridge() {
    if !can_run("a_stream_over_udp") {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let to = |there: &str, back: &str| {
        format!("destination = \"opc.udp://{there}\"\nanswer_destination = \"opc.udp://{back}\"")
    };
    let cases = [
        ("t-udp-v4", to("10.9.0.2", "10.9.0.1:5000")),
        ("t-udp-v6", to("[fd00:9::2]:5000", "[fd00:9::1]")),
        ("t-udp-own", to("192.0.2.3", "192.0.2.1")),
        ("t-udp-local", to("[fe80::2]", "[fe80::1]")),
        ("t-udp-group", String::new()),
        ("t-udp-group6", "destination = \"opc.udp://[ff02::1:2]\"".into()),
    ];
    for (name, more) in cases {
        let file = over_udp(folder.path(), "bridged", name, &more);
        let result = run(&file, &folder.path().join(name), &[]);
        assert_carried(&result["streams"][0], true);
        assert_eq!(result["streams"][0]["round_trip"]["counter"]["p50"], 4, "{name}");
        assert_eq!(result["machine"]["allocations_in_cycles"], 0, "{name}: the cyclic path allocates");
        for host in ["pub", "loop"] {
            let reached = &result["machine"]["ways"][host];
            assert_eq!(reached.as_array().map(Vec::len), Some(1), "{name}: {reached}");
            let reached = &reached[0];
            assert_eq!((&reached["receive"], &reached["send"]), (&"UDP socket".into(), &"UDP socket".into()));
            assert!(reached["why"].as_str().unwrap().contains("stream loop goes over UDP"), "{name}: {reached}");
        }
        assert!(namespaces(name).is_empty(), "{name}");
    }
}

/// One writer, an Ethernet stream to one reader and a stream over UDP to each of two, all of a host in one thread. Both
/// streams over UDP have one group, and each its port.
const MIXED: &str = r#"
requirement = { dSum = "1" }
[time]
cycle = "1ms"
phases = { subscribe = 0.0, application = 0.3, publish = 0.6 }
window = 0.2
offset = "600us"
threads = "host"
[hosts.pub]
[hosts.bridge]
kind = "bridge"
latency = "2us"
[hosts.one]
[hosts.two]
[[links]]
between = ["pub", "bridge"]
[[links]]
between = ["bridge", "one"]
[[links]]
between = ["bridge", "two"]
[[streams]]
name = "frames"
writer = "pub"
reader = "one"
echo = true
variables = 3
vid = 5
pcp = 6
[[streams]]
name = "first"
writer = "pub"
reader = "one"
variables = 4
transport = "udp"
destination = "opc.udp://239.1.2.3:4840"
pcp = 6
[[streams]]
name = "second"
writer = "pub"
reader = "two"
echo = true
variables = 5
transport = "udp"
destination = "opc.udp://239.1.2.3:4850"
pcp = 6
"#;

#[test]
fn frames_and_datagrams_share_an_interface_and_a_thread_whatever_the_way() {
    if !can_run("frames_and_datagrams_share") {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    for (link, receive) in [("ring", "packet ring"), ("packet", "packet socket"), ("xdp", "AF_XDP")] {
        let name = format!("t-mix-{link}");
        let file = folder.path().join(format!("{name}.toml"));
        std::fs::write(&file, format!("name = \"{name}\"{MIXED}")).unwrap();
        let result = run(&file, &folder.path().join(&name), &["--link", link]);
        let streams = result["streams"].as_array().unwrap();
        let echo = [link != "xdp", false, true];
        for (stream, echo) in streams.iter().zip(echo) {
            if link == "xdp" && stream["name"] == "frames" {
                // AF_XDP tells no departure in copy mode.
                let back = stream["round_trip"]["stack"]["count"].as_u64().unwrap_or(0);
                assert!(back > 350, "{stream}");
                continue;
            }
            assert_carried(stream, echo);
        }
        let ways = &result["machine"]["ways"]["pub"];
        assert!(ways[0]["receive"].as_str().unwrap().starts_with(receive), "{ways}");
        let why = ways[0]["why"].as_str().unwrap();
        assert!(why.contains("the way of the Ethernet frames of stream frames, not of streams first, second"), "{why}");
        assert_eq!((&ways[1]["interface"], &ways[1]["send"]), (&"eth0".into(), &"UDP socket".into()), "{ways}");
        let why = ways[1]["why"].as_str().unwrap();
        assert!(why.contains(&format!("{link} was asked for, which is a way of Ethernet frames")), "{why}");
        // Of two streams it only writes the second; the answers to it come by UDP, too.
        assert_eq!(ways[1]["receive"], "UDP socket");
        assert_eq!(result["machine"]["ways"]["two"].as_array().map(Vec::len), Some(1));
        assert_eq!(result["machine"]["allocations_in_cycles"], 0, "{name}: the cyclic path allocates");
    }
}

#[test]
fn addresses_that_cannot_be_are_refused_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let check = |name: &str, more: &str| {
        let file = over_udp(folder.path(), "two-hosts", name, more);
        downbeat(&["check", file.to_str().unwrap()])
    };
    let output = check("t-udp-self", "destination = \"opc.udp://10.9.0.2\"");
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("would go to 10.9.0.2, an address of host \"loop\""), "{}", stderr(&output));
    let output = check("t-udp-all", "destination = \"opc.udp://255.255.255.255\"");
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));

    if !can_run("addresses_that_cannot_be") {
        return;
    }
    let _alone = alone();
    let more = "destination = \"opc.udp://127.0.0.1\"\nanswer_destination = \"opc.udp://10.9.0.1\"";
    let file = over_udp(folder.path(), "two-hosts", "t-udp-lo", more);
    let out = folder.path().join("out");
    let output = downbeat(&["run", file.to_str().unwrap(), "--out", out.to_str().unwrap(), "--duration", "1s"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("127.0.0.1, which never leaves its host"), "{}", stderr(&output));
    assert!(namespaces("t-udp-lo").is_empty() && !out.exists());
}
