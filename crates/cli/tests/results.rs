//! Bound and simulation of the templates, and what they say of each other.

mod common;

use common::{downbeat, run_json, stderr, stdout};
use serde_json::Value;

#[test]
fn the_paper_table_is_printed_with_its_56_cells() {
    let text = stdout(&downbeat(&["bound", "--model", "paper"]));
    for cell in ["0.954", "3.234", "3.876", "3.851"] {
        assert!(text.contains(cell), "{cell} in {text}");
    }
}

#[test]
fn the_bound_is_above_the_simulation() {
    let folder = tempfile::tempdir().unwrap();
    for template in ["two-hosts", "bridged", "line-7"] {
        let scenario = common::scenario(folder.path(), template, &format!("sim-{template}"));
        let scenario = scenario.to_str().unwrap();
        let run = folder.path().join(template);
        let output = downbeat(&["simulate", scenario, "--cycles", "2000", "--out", run.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(0), "{template}: {}", stderr(&output));
        let bound: Value = serde_json::from_str(&stdout(&downbeat(&["bound", "--json", scenario]))).unwrap();
        assert_eq!(bound["format"], "downbeat/bound/1");
        let run = run_json(&run);
        assert_eq!(run["format"], "downbeat/run/1");
        assert_eq!(run["kind"], "simulated");
        let (bound, stream) = (&bound["streams"][0], &run["streams"][0]);
        // Two computations of one figure, the second in the run's own results.
        let best = &bound["round_trip"]["counter_best"]["used"];
        assert_eq!(best, &stream["counter_reference"]["scenario_best"], "{template}");
        assert_eq!(best, &stream["round_trip"]["counter_used"]["min"], "{template}");
        for (limit, found) in [
            (&bound["one_way"], &stream["one_way"]),
            (&bound["round_trip"]["wire"], &stream["round_trip"]["wire"]),
            (&bound["round_trip"]["stack"], &stream["round_trip"]["stack"]),
        ] {
            let limit_us: f64 = limit["us"].as_str().unwrap_or_else(|| panic!("{template}: {limit}")).parse().unwrap();
            let found_ns = found["max"].as_i64().unwrap();
            assert!(found_ns as f64 <= limit_us * 1e3 + 1e-6, "{template}: {found_ns} ns above {limit_us} µs");
        }
    }
}

#[test]
fn a_run_says_where_the_time_went() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = common::scenario(folder.path(), "two-hosts", "why");
    let latency = ["--host-latency", "const:5us"];
    let text =
        stdout(&downbeat(&[&["simulate", scenario.to_str().unwrap(), "--cycles", "300"], &latency[..]].concat()));
    let parts = "schedule 3387.614 + wire 2.386 + host 10.000 + stack 0.000";
    let line = format!("  where the time went, µs: median 3400.000 = {parts}; longest 3400.000 = {parts}");
    assert!(text.contains(&line), "{text}");
    assert!(text.contains("  counter used: 5 … 5 cycles, 5 at best by plan; Gopiga et al.: 5 best, 9 worst"), "{text}");
    let margins = "pub: transfer 295.0 of 300.0, application 295.0 of 300.0; loop: transfer 295.0 of 300.0";
    assert!(text.contains(margins), "{text}");
}

#[test]
fn two_simulations_with_one_seed_are_the_same_to_the_byte() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = common::scenario(folder.path(), "bridged", "same");
    let simulate = |name: &str, seed: &str| {
        let out = folder.path().join(name);
        let arguments = ["simulate", scenario.to_str().unwrap(), "--cycles", "500", "--seed", seed];
        let latency = ["--host-latency", "uniform:0us..50us", "--out", out.to_str().unwrap()];
        let output = downbeat(&[&arguments[..], &latency[..]].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        ["run.json", "frames.parquet", "scenario.toml"].map(|file| std::fs::read(out.join(file)).unwrap())
    };
    assert_eq!(simulate("a", "7"), simulate("b", "7"));
    assert_ne!(simulate("c", "8")[1], simulate("d", "7")[1], "another seed gives other frames");
}

#[test]
fn a_report_is_one_page_without_the_network() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = common::scenario(folder.path(), "two-hosts", "page");
    let run = folder.path().join("run");
    downbeat(&["simulate", scenario.to_str().unwrap(), "--cycles", "500", "--out", run.to_str().unwrap()]);
    let page = folder.path().join("report.html");
    let output = downbeat(&["report", run.to_str().unwrap(), "--out", page.to_str().unwrap()]);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = std::fs::read_to_string(page).unwrap();
    assert!(text.contains("<svg") && !text.contains("src=\"http") && !text.contains("url(http"));
}
