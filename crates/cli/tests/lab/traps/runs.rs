//! Traps that a run meets: its gates, its wire, its way past them.

use std::fs;
use std::path::Path;

use measure::FrameRow;
use serde_json::Value;

use crate::common::{can_run, downbeat, run_json, scenario, scenario_text, stderr, stdout};

const CYCLE: i64 = 1_000_000;
/// Of a cycle of 1 ms, class 1 has 500 µs to 700 µs.
const GATES: &str = "root = \"taprio\", map = [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0], classes = 2, schedule = [{ gates = \
                     [0], interval = \"400us\" }, { gates = [], interval = \"100us\" }, { gates = [1], interval = \"200us\" }, { \
                     gates = [0], interval = \"200us\" }, { gates = [], interval = \"100us\" }]";

/// Two hosts that launch 50 µs before the window of a schedule with this base-time: the gate holds the frames.
fn before_the_window(name: &str, base: &str) -> String {
    let text = scenario_text("two-hosts", name).replace("offset = \"600us\"", "offset = \"450us\"");
    format!("{text}\n[[ports]]\nat = \"*\"\nqueue = {{ {GATES}, base_time = \"{base}\" }}\n")
}

/// A run in the laboratory: what it said, left, and its rows.
fn run(folder: &Path, name: &str, text: &str, more: &[&str]) -> (String, Value, Vec<FrameRow>) {
    let (path, out) = (folder.join(format!("{name}.toml")), folder.join(name));
    fs::write(&path, text).unwrap();
    let arguments = ["run", path.to_str().unwrap(), "--in", "kernel-lab", "--duration", "300ms", "--out"];
    let output = downbeat(&[&arguments[..], &[out.to_str().unwrap()], more].concat());
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}{}", stdout(&output), stderr(&output));
    (format!("{}{}", stdout(&output), stderr(&output)), run_json(&out), measure::read_run(&out).unwrap().1)
}

/// How many frames of the writer arrived in this part of the cycle, and how many in all.
fn arrived(rows: &[FrameRow], part: std::ops::Range<i64>) -> (usize, usize) {
    let phases: Vec<i64> = rows.iter().filter_map(|row| row.t[2]).map(|at| at.rem_euclid(CYCLE)).collect();
    (phases.iter().filter(|phase| part.contains(phase)).count(), phases.len())
}

fn has_kernel(test: &str) -> bool {
    kernel_lab::testing::kernel(test).is_some()
}

#[test]
fn af_xdp_passes_the_gates_by() {
    if !has_kernel("AF_XDP past the gates") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // It drops every frame without a launch time, and lets the others go 100 µs before theirs.
    let queue = "root = \"etf\", delta = \"100us\"";
    let text = format!("{}\n[[ports]]\nat = \"*\"\nqueue = {{ {queue} }}\n", scenario_text("two-hosts", "traps-xdp"));
    let (said, past, rows) = run(folder.path(), "xdp", &text, &["--link", "xdp"]);
    let (inside, all) = arrived(&rows, 600_000..605_000);
    assert!(inside == all && all > 250, "{inside} of {all} passed the queue by");
    let ways = past["machine"]["ways"]["pub"].to_string();
    for told in [&said, &ways] {
        assert!(told.contains("passes by the queueing discipline of the port"), "{told}");
    }
    // Nobody has it who does not ask for it.
    let (said, held, rows) = run(folder.path(), "packet", &text, &[]);
    let (inside, all) = arrived(&rows, 500_000..505_000);
    assert!(inside == all && all > 250, "{inside} of {all} were released by the queue");
    assert!(!held["machine"]["ways"].to_string().contains("passes by") && !said.contains("passes by"), "{said}");
}

#[test]
fn a_run_begins_behind_the_base_time_of_its_gates() {
    if !has_kernel("a schedule to come") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // The laboratory begins at 1700000037 s TAI. More digits than a double has.
    let base = 1_700_000_042_000_000_123_i64;
    let text = before_the_window("traps-base", &format!("{base}ns"));
    let (said, left, rows) = run(folder.path(), "base", &text, &[]);
    assert!(said.contains("s for the base-time of the gates"), "{said}");
    let first = left["machine"]["first_cycle_at_ns"].as_i64().expect("an integer");
    assert!((base..base + 2 * CYCLE).contains(&first), "{first}");
    assert_eq!(first % CYCLE, 0, "a double would be off by up to 128 ns");
    let launched: Vec<i64> = rows.iter().filter_map(|row| row.t[1]).collect();
    assert!(launched.len() > 250 && launched.iter().all(|at| *at > base));
    // The gates of this schedule open 123 ns behind whole microseconds.
    let (inside, all) = arrived(&rows, 500_123..702_000);
    assert!(inside == all && all > 250, "{inside} of {all}");
    // Who would wait for ever is told so.
    let path = folder.path().join("never.toml");
    fs::write(&path, before_the_window("traps-never", "4000000000s")).unwrap();
    let out = folder.path().join("never");
    let output = downbeat(&["run", path.to_str().unwrap(), "--in", "kernel-lab", "--out", out.to_str().unwrap()]);
    let told = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("all gates are open until then") && told.contains("mend:"), "{told}");
    assert!(!out.exists());
}

#[test]
fn a_run_without_a_wire_says_that_no_bound_is_tested() {
    if !can_run("a run without a wire") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = scenario(folder.path(), "two-hosts", "traps-wire");
    let out = folder.path().join("out");
    let output =
        downbeat(&["run", path.to_str().unwrap(), "--cycles", "20", "--no-control", "--out", out.to_str().unwrap()]);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}{}", stdout(&output), stderr(&output));
    let wire = run_json(&out)["machine"]["wire"].to_string();
    assert!(wire.contains("no rate") && wire.contains("a bound is not put to the test"), "{wire}");
}
