//! Roles of one scenario, joined: what a run of it is, also where one of them was killed.

mod common;

use std::collections::BTreeSet;
use std::path::Path;

use common::bench::Bench;
use common::{alone, can_run, ended, run_json, signal, stderr, wait_for};
use serde_json::Value;

/// Keys of a value with those of what is in it, but for what stands there only when something happened.
fn keys(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    const HAPPENED: [&str; 4] = ["without_host_outliers", "launches", "unknown", "lost"];
    for (key, value) in value.as_object().into_iter().flatten().filter(|(key, _)| !HAPPENED.contains(&key.as_str())) {
        let path = format!("{path}/{key}");
        keys(value, &path, found);
        found.insert(path);
    }
}

/// What counts in a result of `cycles` cycles have to do with each other, wherever it is from; gives frames.
fn counts_hold(run: &Value, cycles: u64) -> u64 {
    let stream = &run["streams"][0];
    let number = |pointer: &str| stream.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("{pointer}"));
    let frames = number("/frames");
    let phases = run["hosts"].as_array().unwrap().iter();
    let mut publish = phases.filter(|phase| phase["host"] == "pub" && phase["phase"] == "publish");
    let ran = publish.next().unwrap()["late"]["count"].as_u64().unwrap();
    assert!(frames <= ran && ran <= frames + 2 && ran <= cycles, "{frames} frames, {ran} phases of {cycles} cycles");
    let loss = &stream["loss"];
    let beside = number("/loss/under_way") + loss["unknown"].as_u64().unwrap_or(0);
    assert_eq!(number("/loss/published") + beside, frames, "{loss}");
    let places: u64 = ["dP", "dL", "dLinkL", "dLinkP"].iter().map(|place| number(&format!("/loss/{place}"))).sum();
    assert_eq!(number("/loss/dSum"), places, "{loss}");
    assert!(beside < 200, "under way is what the last round trips were: {loss}");
    let back = number("/round_trip/stack/count");
    assert_eq!(back, number("/loss/published") - number("/loss/dSum"), "what is not lost came back: {loss}");
    let read = number("/round_trip/counter/count");
    let missed = number("/counters/missed");
    assert!(read <= back && read + missed <= cycles, "{read} read, {missed} missed of {cycles}");
    assert!(number("/arrived") >= back && number("/one_way/count") <= number("/arrived"), "{stream}");
    frames
}

#[test]
fn joined_roles_are_what_a_run_of_the_same_scenario_is() {
    if !can_run("joined_roles_are_what_a_run") {
        return;
    }
    let _alone = alone();
    let bench = Bench::new("t-alike");
    let cycles = 1500;
    let looping = bench.start("loopback", "loop", &[]);
    let publishing = bench.role("publish", "pub", &["--cycles", "1500"]).output().unwrap();
    assert!(matches!(publishing.status.code(), Some(0 | 1)), "{}", stderr(&publishing));
    signal(looping.id(), "INT");
    ended(looping);
    let [one, other, both] = ["pub", "loop", "both"].map(|name| bench.out(name).to_str().unwrap().to_owned());
    let joined = common::downbeat(&["join", &one, &other, "--clock-error", "0us", "--out", &both]);
    assert!(matches!(joined.status.code(), Some(0 | 1)), "{}", stderr(&joined));
    let whole = bench.out("whole");
    let run = common::start(&bench.scenario, &whole, &["--cycles", "1500", "--no-control"]).wait_with_output().unwrap();
    assert!(matches!(run.status.code(), Some(0 | 1)), "{}", stderr(&run));
    let (joined, run) = (run_json(Path::new(&both)), run_json(&whole));
    let frames = [&joined, &run].map(|result| counts_hold(result, cycles));
    assert!(frames.iter().all(|frames| *frames > cycles / 2), "{frames:?}");
    // The same form, and the same limits judged for the same streams.
    let form = |result: &Value| {
        let mut found = BTreeSet::new();
        keys(&result["streams"][0], "", &mut found);
        let items = result["verdict"]["items"].as_array().unwrap().iter();
        let items: Vec<_> =
            items.map(|item| [&item["quantity"], &item["stream"], &item["limit"]].map(Value::to_string)).collect();
        let phases = result["hosts"].as_array().unwrap().iter();
        let phases: Vec<_> = phases.map(|phase| [&phase["host"], &phase["phase"]].map(Value::to_string)).collect();
        (found, items, phases)
    };
    assert_eq!(form(&joined), form(&run));
    assert_eq!(joined["scenario"], run["scenario"]);
    assert!(joined["clocks"]["from"] == "given" && run["clocks"].is_null());
}

#[test]
fn a_killed_role_is_joined_as_far_as_it_had_written() {
    if !can_run("a_killed_role_is_joined") {
        return;
    }
    let _alone = alone();
    let bench = Bench::new("t-killed");
    let mut looping = bench.start("loopback", "loop", &["--rotate-every", "2s"]);
    let publishing = bench.start("publish", "pub", &[]);
    wait_for("two parts", || bench.out("loop").join("part-0002/run.json").exists());
    looping.kill().unwrap();
    looping.wait().unwrap();
    // Another one has written nothing when it is killed.
    let mut again = bench.start("loopback", "none", &[]);
    again.kill().unwrap();
    again.wait().unwrap();
    assert!(bench.ctl("publish", "stop").status.success());
    ended(publishing);
    let join = |other: &Path, out: &str| {
        let [one, other, out] =
            [&bench.out("pub"), other, &bench.out(out)].map(|path| path.to_str().unwrap().to_owned());
        common::downbeat(&["join", &one, &other, "--clock-error", "0us", "--out", &out])
    };
    let output = join(&bench.out("loop"), "both");
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", stderr(&output));
    let joined = run_json(&bench.out("both"));
    let missing = joined["incidents"].as_array().unwrap().iter().find(|one| one["kind"] == "part-missing").unwrap();
    let cause = missing["cause"].as_str().unwrap();
    assert!(cause.contains("was killed") && cause.contains("part-000") && missing["place"] == "loop", "{cause}");
    let stream = &joined["streams"][0];
    assert!(stream["loss"]["unknown"].as_u64() > Some(100), "{}", stream["loss"]);
    let known = stream["one_way"]["count"].as_u64().unwrap();
    assert!(known > 500 && known < stream["frames"].as_u64().unwrap() - 500, "{known} of {}", stream["frames"]);
    let page = bench.out("r.html").to_str().unwrap().to_owned();
    let report = common::downbeat(&["report", bench.out("both").to_str().unwrap(), "--out", &page]);
    assert!(report.status.success(), "{}", stderr(&report));
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("are said to be within") && page.contains("was killed"), "the page says both");
    let output = join(&bench.out("none"), "nothing");
    assert_eq!(output.status.code(), Some(2));
    let text = stderr(&output);
    assert!(text.contains("killed before it had written anything") && text.contains("mend:"), "{text}");
}
