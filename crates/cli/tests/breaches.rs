//! Breaches in real runs: a stopped host is found by the other end, as the simulation says, and what is done about it.

mod common;

use std::path::{Path, PathBuf};

use common::{alone, can_run, downbeat, namespaces, run_json, stderr, stdout};
use serde_json::Value;

/// The template with one cycle a millisecond, under another name, with these lines for its stream.
fn scenario(folder: &Path, name: &str, lines: &str) -> PathBuf {
    let path = folder.join(format!("{name}.toml"));
    std::fs::write(&path, common::scenario_text("two-hosts", name) + lines).expect("the scenario is written");
    path
}

fn breach<'a>(run: &'a Value, end: &str, condition: &str) -> &'a Value {
    let breaches = run["streams"][0]["breaches"].as_array().unwrap_or_else(|| panic!("{}", run["streams"][0]));
    breaches.iter().find(|breach| breach["end"] == end && breach["condition"] == condition).expect("it is watched for")
}

#[test]
fn a_stopped_loopback_is_found_by_the_writer_in_a_run_as_in_the_simulation() {
    if !can_run("a_stopped_loopback") {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    // A virtual machine pauses up to 30 ms: silent is what is silent for longer.
    let lines = "receive_timeout = \"60ms\"\non_breach = { silent = \"hold\", missed = \"count\" }\n";
    let file = scenario(folder.path(), "t-breach", lines);
    let pause = ["--duration", "3s", "--pause", "loop@1s+150ms"];
    let mut found = Vec::new();
    for command in ["run", "simulate"] {
        let out = folder.path().join(command);
        let arguments = [command, file.to_str().unwrap(), "--out", out.to_str().unwrap()];
        let output = downbeat(&[&arguments[..], &pause].concat());
        assert!(matches!(output.status.code(), Some(0 | 1)), "{command}: {}", stderr(&output));
        let run = run_json(&out);
        let silent = breach(&run, "writer", "silent");
        assert_eq!(silent["action"], "hold");
        assert_eq!(silent["lasting"], false, "{command}: it came back to normal: {silent}");
        // 150 ms without answers, found after 60 of them.
        let longest = silent["longest_cycles"].as_u64().unwrap();
        assert!(silent["times"].as_u64().unwrap() >= 1 && longest >= 60, "{command}: {silent}");
        let missed = breach(&run, "writer", "missed");
        assert!(missed["times"].as_u64().unwrap() >= 1, "{command}: {missed}");
        let incidents = run["incidents"].as_array().unwrap();
        let named = incidents.iter().any(|incident| {
            incident["kind"] == "breach-silent" && incident["cause"].as_str().unwrap().starts_with("pub: stream loop")
        });
        assert!(named, "{command}: {incidents:#?}");
        assert!(stdout(&output).contains("breaches at pub: silent"), "{command}: {}", stdout(&output));
        // It comes back: counters are read to the end.
        let read = run["streams"][0]["round_trip"]["counter"]["count"].as_u64().unwrap();
        assert!(read > 1_500, "{command}: {read} readings");
        if command == "run" {
            assert!(stderr(&output).contains("breach: pub: stream loop is silent from cycle"), "{}", stderr(&output));
            assert_eq!(run["machine"]["allocations_in_cycles"], 0, "watching allocates");
        }
        let ends: Vec<_> = run["streams"][0]["breaches"].as_array().unwrap().iter().map(|b| b["end"].clone()).collect();
        found.push(ends);
    }
    assert_eq!(found[0], found[1], "both forms tell the same");
    assert!(namespaces("t-breach").is_empty());
}

#[test]
fn stop_ends_a_run_cleanly_and_hooks_are_executed() {
    if !can_run("stop_ends_a_run") {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let heard = folder.path().join("heard");
    let script =
        format!("echo $DOWNBEAT_BREACH $DOWNBEAT_CHANGE $DOWNBEAT_HOST $DOWNBEAT_STREAM >> {}", heard.display());
    let lines = format!(
        "receive_timeout = \"60ms\"\n\
         on_breach.silent = {{ action = \"stop\", at = \"writer\", hook = [\"sh\", \"-c\", '''{script}'''] }}\n"
    );
    let file = scenario(folder.path(), "t-stop", &lines);
    let pause = ["--duration", "20s", "--pause", "loop@1s+150ms"];
    for command in ["run", "simulate"] {
        let out = folder.path().join(command);
        let arguments = [command, file.to_str().unwrap(), "--out", out.to_str().unwrap()];
        let begun = std::time::Instant::now();
        let output = downbeat(&[&arguments[..], &pause].concat());
        assert_eq!(output.status.code(), Some(4), "{command}: {}", stderr(&output));
        let run = run_json(&out);
        let frames = run["streams"][0]["frames"].as_u64().unwrap();
        assert!((200..5_000).contains(&frames), "{command}: {frames} frames of 20000");
        assert_eq!(breach(&run, "writer", "silent")["times"], 1, "{command}");
        let incidents = run["incidents"].as_array().unwrap();
        let stopped = |incident: &Value| incident["cause"].as_str().unwrap().contains("it stopped the run");
        assert!(incidents.iter().any(stopped), "{command}: {incidents:#?}");
        assert!(incidents.iter().all(|incident| incident["kind"] != "process-ended"), "{command}: {incidents:#?}");
        if command == "run" {
            assert!(
                stderr(&output).contains("a breach stopped the run: pub: stream loop is silent"),
                "{}",
                stderr(&output)
            );
            assert!(begun.elapsed().as_secs() < 15, "it did not wait for the end of the 20 s");
            assert_eq!(std::fs::read_to_string(&heard).unwrap(), "silent began pub loop\n");
            assert!(namespaces("t-stop").is_empty());
        }
    }
    assert_eq!(std::fs::read_to_string(&heard).unwrap().lines().count(), 1, "a simulation executes nothing");
}

#[test]
fn safe_outputs_and_failing_hooks_are_told() {
    if !can_run("safe_outputs") {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let lines = "encoding = \"raw\"\nreceive_timeout = \"60ms\"\n\
                 on_breach = { silent = { action = \"safe\", value = 5, hook = \"/no/such/program\" } }\n";
    let file = scenario(folder.path(), "t-safe", lines);
    let out = folder.path().join("out");
    let arguments = ["run", file.to_str().unwrap(), "--out", out.to_str().unwrap()];
    let output = downbeat(&[&arguments[..], &["--duration", "3s", "--pause", "loop@1s+150ms"]].concat());
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", stderr(&output));
    let run = run_json(&out);
    let silent = breach(&run, "writer", "silent");
    assert_eq!((&silent["action"], &silent["lasting"]), (&"safe".into(), &false.into()));
    let substituted = run["streams"][0]["counters"]["substituted"].as_u64().unwrap_or(0);
    assert!(substituted >= 50, "{substituted} messages with the safe value");
    let read = run["streams"][0]["round_trip"]["counter"]["count"].as_u64().unwrap();
    assert!(read > 1_500, "counters again afterwards: {read} readings");
    assert!(stderr(&output).contains("/no/such/program could not be started"), "{}", stderr(&output));
}
