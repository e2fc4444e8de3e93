//! A thread a phase: what a long application phase delays, and what it does not.

mod common;

use std::path::Path;

use common::{alone, can_run, downbeat, run_json, stderr};
use serde_json::Value;

/// A writer with so many streams that its application phase takes a while, and publishes at the instant at which that begins.
fn run(folder: &Path, threads: &str) -> Value {
    let text = common::scenario_text("two-hosts", &format!("t-threads-{threads}"));
    let (head, _) = text.split_once("[[streams]]").unwrap();
    let head = head
        .replace("[time]\n", &format!("[time]\nthreads = \"{threads}\"\n"))
        .replace("cycle = \"1ms\"", "cycle = \"20ms\"")
        .replace("publish = 0.6", "publish = 0.3")
        .replace("\nrequirement =", "\n# requirement =");
    let stream = |index: u32| {
        format!(
            "[[streams]]\nname = \"s{index}\"\nwriter = \"pub\"\nreader = \"loop\"\nvariables = 1\nvid = 3000\npcp = 7\n\
             launch = false\n"
        )
    };
    let scenario = folder.join(format!("{threads}.toml"));
    std::fs::write(&scenario, head.to_owned() + &(0..300).map(stream).collect::<String>()).unwrap();
    let out = folder.join(threads);
    let output = downbeat(&["run", scenario.to_str().unwrap(), "--out", out.to_str().unwrap(), "--duration", "4s"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    run_json(&out)
}

/// A figure of a phase of the writer.
fn of(run: &Value, phase: &str, quantity: &str, figure: &str) -> i64 {
    let hosts = run["hosts"].as_array().unwrap();
    let host = hosts.iter().find(|host| host["host"] == "pub" && host["phase"] == phase).unwrap();
    host[quantity][figure].as_i64().unwrap_or_else(|| panic!("{host}"))
}

#[test]
fn a_long_application_phase_delays_the_frames_of_one_thread_and_not_those_of_three() {
    if !can_run("a_long_application_phase") {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    // Shared, the thread publishes after the application: never sooner than the shortest of its phases took.
    let shared = run(folder.path(), "host");
    let shortest = of(&shared, "application", "took", "min");
    assert!(of(&shared, "publish", "late", "min") >= shortest, "{shared:#}");
    // Apart, most frames leave before the shortest application phase has ended.
    let apart = run(folder.path(), "phase");
    let shortest = of(&apart, "application", "took", "min");
    let late = of(&apart, "publish", "late", "p50");
    assert!(late < shortest, "{late} ns, the application takes {shortest} ns");
    for run in [&shared, &apart] {
        assert_eq!(run["machine"]["allocations_in_cycles"], 0);
        assert_eq!(run["machine"]["trace_records_lost"], 0);
        for stream in run["streams"].as_array().unwrap() {
            let (frames, arrived) = (stream["frames"].as_u64().unwrap(), stream["one_way"]["count"].as_u64().unwrap());
            assert!((50..=200).contains(&frames) && arrived > frames / 2, "{arrived} of {frames}: {}", stream["name"]);
        }
    }
}

#[test]
fn a_thread_a_phase_measures_round_trips_and_survives_a_host_that_stands_still() {
    if !can_run("a_thread_a_phase_measures") {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let text = common::scenario_text("two-hosts", "t-phase").replace("[time]\n", "[time]\nthreads = \"phase\"\n");
    let text = text.replace("cycle = \"1ms\"", "cycle = \"4ms\"").replace("offset = \"600us\"", "offset = \"2400us\"");
    let text = text + "on_breach = { silent = \"hold\" }\n";
    let scenario = folder.path().join("t-phase.toml");
    std::fs::write(&scenario, text).unwrap();
    let out = folder.path().join("out");
    let arguments = ["--duration", "4s", "--pause", "loop@1s+300ms"];
    let output = common::start(&scenario, &out, &arguments).wait_with_output().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", stderr(&output));
    let run = run_json(&out);
    let stream = &run["streams"][0];
    let frames = stream["frames"].as_u64().unwrap();
    assert!((300..=1000).contains(&frames), "{frames} frames");
    for path in ["wire", "stack", "counter"] {
        let count = stream["round_trip"][path]["count"].as_u64().unwrap_or(0);
        assert!(count > frames / 2, "{count} round trips {path} of {frames}");
    }
    assert_eq!(stream["round_trip"]["counter"]["p50"], 4);
    // Three threads left the same cycles out; each told of it.
    let silences = stream["breaches"].as_array().unwrap();
    let times = |breach: &Value| breach["end"] == "writer" && breach["times"].as_u64() > Some(0);
    assert!(silences.iter().any(times), "{silences:#?}");
    let phases: Vec<_> = run["hosts"].as_array().unwrap().iter().filter(|host| host["host"] == "pub").collect();
    assert_eq!(phases.len(), 4, "subscribe, application, publish, launch: {phases:#?}");
    assert_eq!(run["machine"]["allocations_in_cycles"], 0);
    assert_eq!(run["machine"]["trace_records_lost"], 0);
}
