//! The scheduling class of cyclic threads: what is asked for, granted and refused.

mod common;

use std::path::Path;

use common::{alone, can_run, downbeat, run_json, stderr};
use serde_json::Value;

/// Runs a scenario for some cycles: what its hosts were granted, and what was told.
fn run(scenario: &Path, out: &Path, class: &str) -> (Vec<String>, Value, String) {
    let arguments = ["run", scenario.to_str().unwrap(), "--out", out.to_str().unwrap(), "--cycles", "300"];
    let output = downbeat(&[&arguments[..], &["--no-control", "--scheduling", class]].concat());
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", stderr(&output));
    let run = run_json(out);
    assert_eq!(run["machine"]["allocations_in_cycles"], 0);
    let hosts = run["machine"]["granted"].as_object().unwrap().values();
    let lines = hosts.flat_map(|lines| lines.as_array().unwrap()).map(|line| line.as_str().unwrap().to_owned());
    (lines.collect(), run["machine"]["scheduling"].clone(), stderr(&output))
}

#[test]
fn each_class_is_asked_for_and_what_became_of_it_is_told() {
    if !can_run("each_class_is_asked_for") {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let scenario = common::scenario(folder.path(), "two-hosts", "t-class");
    for (class, expected) in [("fifo", Some("SCHED_FIFO 80")), ("none", None), ("deadline", Some("SCHED_DEADLINE"))] {
        let (lines, told, errors) = run(&scenario, &folder.path().join(class), class);
        assert_eq!(told, class);
        let found: Vec<_> = lines.iter().filter(|line| line.starts_with("SCHED_")).collect();
        let Some(expected) = expected else {
            assert_eq!(found, [] as [&String; 0]);
            continue;
        };
        assert_eq!(found.len(), 2, "one a host: {lines:?}");
        assert!(found.iter().all(|line| line.starts_with(expected)), "{lines:?}");
        if class == "deadline" {
            // The closest phases are 0.3 of the cycle apart; a quarter of it may be spun through.
            assert!(found.iter().all(|line| line.contains("550us of 1ms, within 1ms: ")), "{lines:?}");
            assert!(!lines.iter().any(|line| line.starts_with("processor")), "any processor: {lines:?}");
        }
        // A refusal is told on the terminal too.
        let refused = found.iter().filter(|line| !line.ends_with("granted"));
        assert!(refused.clone().all(|line| errors.contains(line.as_str())), "{errors}");
    }
}

#[test]
fn threads_with_a_phase_each_share_the_deadline_of_one() {
    if !can_run("threads_with_a_phase_each") {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let text = common::scenario_text("two-hosts", "t-share");
    let scenario = folder.path().join("t-share.toml");
    std::fs::write(&scenario, text.replace("[time]\n", "[time]\nthreads = \"phase\"\n")).unwrap();
    let out = folder.path().join("out");
    let (lines, _, errors) = run(&scenario, &out, "deadline");
    let mut found: Vec<_> = lines.iter().filter_map(|line| line.strip_prefix("SCHED_DEADLINE ")).collect();
    found.sort_unstable();
    // Of each host: what one thread with all phases would have, 550 µs of each cycle.
    let asked: Vec<_> = found.iter().filter_map(|line| line.split_once(" of 1ms, within 1ms: ")).collect();
    let runtimes: Vec<_> = asked.iter().map(|(runtime, _)| *runtime).collect();
    assert_eq!(runtimes, ["100us", "100us", "100us", "100us", "350us", "350us"], "{lines:?}");
    // Both hosts together take 1.1 processors of the share that the kernel leaves for such threads, 0.95 of each.
    let processors = std::thread::available_parallelism().unwrap().get();
    assert!(processors < 2 || asked.iter().all(|(_, answer)| *answer == "granted"), "{lines:?} {errors}");
    let stream = &run_json(&out)["streams"][0];
    let frames = stream["frames"].as_u64().unwrap();
    let trips = stream["round_trip"]["stack"]["count"].as_u64().unwrap_or(0);
    assert!((150..=300).contains(&frames) && trips > frames / 2, "{trips} round trips of {frames}");
}

#[test]
fn a_cycle_too_short_for_a_deadline_is_refused_by_the_kernel_and_the_run_goes_on() {
    let limit = std::fs::read_to_string("/proc/sys/kernel/sched_deadline_period_min_us");
    let limit = limit.ok().and_then(|text| text.trim().parse::<u64>().ok());
    if !can_run("a_cycle_too_short_for_a_deadline") || limit.is_none_or(|limit| limit < 60) {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let text = common::scenario_text("two-hosts", "t-short");
    let text = text.replace("cycle = \"1ms\"", "cycle = \"50us\"").replace("offset = \"600us\"", "offset = \"30us\"");
    let scenario = folder.path().join("t-short.toml");
    std::fs::write(&scenario, text).unwrap();
    let (lines, _, errors) = run(&scenario, &folder.path().join("out"), "deadline");
    let found: Vec<_> = lines.iter().filter(|line| line.starts_with("SCHED_DEADLINE")).collect();
    assert!(!found.is_empty() && found.iter().all(|line| line.contains("impossible")), "{lines:?}");
    assert!(errors.contains("sched_deadline_period_"), "{errors}");
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = common::scenario(folder.path(), "two-hosts", "t-class-bad");
    let refused = |options: &[&str], words: &str| {
        let output = downbeat(&[&["run", scenario.to_str().unwrap()], options].concat());
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    };
    refused(&["--scheduling", "deadline", "--wait", "spin"], "mend: take --wait hybrid");
    refused(&["--scheduling", "rr"], "expected fifo, deadline or none");
    refused(&["--scheduling", "fifo", "--no-realtime"], "cannot be used with");
}
