//! Breaches in virtual time: the ends of a simulated stream find what those of a real one would.

use downbeat_sim::{Options, Outcome, simulate};
use measure::{Kind, RunFile, summarise};
use scenario::{HostId, Pause, Scenario};
use units::Nanos;

const FILE: &str = r#"
name = "watched"
requirement = { round_trip_stack = "4ms", one_way_stack = "3ms" }
time = { cycle = "1ms", offset = "600us" }
hosts = { pub = {}, loop = {} }
links = [{ between = ["pub", "loop"], cable = "5m" }]
[[streams]]
name = "loop"
writer = "pub"
reader = "loop"
echo = true
variables = 8
pcp = 7
"#;

fn scenario(lines: &str) -> Scenario {
    scenario::read(&format!("{FILE}{lines}"), "watched.toml").unwrap_or_else(|wrong| panic!("{}", wrong.render()))
}

fn pause(host: usize, at_ms: i64, lasting_ms: i64) -> Pause {
    Pause { host: HostId(host), at: Nanos::from_millis(at_ms), lasting: Nanos::from_millis(lasting_ms) }
}

fn simulated(scenario: &Scenario, pauses: Vec<Pause>) -> (Outcome, RunFile) {
    let outcome = simulate(scenario, &Options { cycles: 3_000, pauses, ..Options::default() }).unwrap();
    let run = summarise(scenario, &outcome.observations, Kind::Simulated, Default::default());
    (outcome, run)
}

/// Times, cycles, and whether it lasts, of a condition at an end.
fn found(run: &RunFile, end: &str, condition: &str) -> (u64, u64, bool) {
    let mut breaches = run.streams[0].breaches.iter();
    let breach = breaches.find(|breach| (breach.end.as_str(), breach.condition.as_str()) == (end, condition)).unwrap();
    (breach.times, breach.cycles, breach.lasting)
}

#[test]
fn a_stopped_loopback_is_silent_and_missed_at_the_writer_and_comes_back() {
    for encoding in ["variant", "raw"] {
        let scenario = scenario(&format!(
            "encoding = \"{encoding}\"\nreceive_timeout = \"10ms\"\non_breach = {{ silent = \"count\", missed = \"count\" }}\n"
        ));
        let (_, run) = simulated(&scenario, vec![pause(1, 1_000, 150)]);
        let (times, cycles, lasting) = found(&run, "writer", "silent");
        // From ten cycles after the last answer to three after the first.
        assert_eq!((times, lasting), (1, false), "{encoding}");
        assert!((130..155).contains(&cycles), "{encoding}: {cycles} cycles");
        assert_eq!(found(&run, "writer", "missed"), (1, 3, false), "{encoding}");
        // It was itself that did not listen: messages waited.
        assert_eq!(found(&run, "reader", "silent").0, 0, "{encoding}");
        assert_eq!(found(&run, "reader", "missed"), (1, 3, false), "{encoding}");
        let silent = run.incidents.iter().find(|incident| incident.kind == "breach-silent").unwrap();
        assert!(silent.cause.starts_with("pub: stream loop: no message for longer than 10 ms"), "{}", silent.cause);
        assert!(run.incidents.iter().any(|incident| incident.kind == "host-late" && incident.cause.contains("loop")));
    }
}

#[test]
fn without_a_pause_nothing_is_found_and_watching_changes_nothing() {
    let watched =
        scenario("on_breach = { silent = \"stop\", missed = \"stop\", late = \"stop\", inconsistent = \"stop\" }\n");
    let (outcome, run) = simulated(&watched, vec![]);
    assert_eq!(run.streams[0].breaches.len(), 8);
    assert!(run.streams[0].breaches.iter().all(|breach| breach.times == 0 && !breach.lasting));
    let (plain, _) = simulated(&scenario(""), vec![]);
    assert_eq!(outcome.observations.rows, plain.observations.rows);
    assert_eq!(outcome.network, plain.network);
}

#[test]
fn stop_ends_the_simulation_there() {
    let scenario = scenario("on_breach = { silent = \"stop\" }\n");
    let (outcome, run) = simulated(&scenario, vec![pause(1, 1_000, 150)]);
    assert_eq!(found(&run, "writer", "silent").0, 1);
    let last = outcome.observations.rows.iter().map(|row| row.cycle).max().unwrap();
    assert!((1_010..1_020).contains(&last), "cycle {last}");
    assert!(run.streams[0].frames < 1_020, "{}", run.streams[0].frames);
    let cause = &run.incidents.iter().find(|incident| incident.kind == "breach-silent").unwrap().cause;
    assert!(cause.ends_with("it stopped the run (action stop)"), "{cause}");
}

#[test]
fn a_late_answer_is_late_at_the_writer_only_as_long_as_it_is() {
    // The publisher stands still for half a cycle: it reads one answer 3.9 ms after the hand-over instead of 3.4.
    let limited = |limit: &str, lines: &str| {
        let text = FILE.replace("round_trip_stack = \"4ms\"", &format!("round_trip_stack = \"{limit}\"")) + lines;
        scenario::read(&text, "late.toml").unwrap_or_else(|wrong| panic!("{}", wrong.render()))
    };
    let scenario = limited("3800us", "on_breach = { late = { action = \"count\", recover = 5 } }\n");
    let short = Pause { lasting: Nanos(500_000), ..pause(0, 1_000, 0) };
    let (outcome, run) = simulated(&scenario, vec![short]);
    let late = outcome.observations.rows.iter().filter(|row| row.round_trip_stack().is_some_and(|way| way > 3_800_000));
    assert_eq!(late.count(), 1, "by the figures of the run");
    assert_eq!(found(&run, "writer", "late"), (1, 5, false), "by what the end itself saw");
    assert_eq!(found(&run, "reader", "late").0, 0);
    // Where every message is late, it lasts.
    let (_, run) = simulated(&limited("1ms", "on_breach = { late = { at = \"writer\" } }\n"), vec![]);
    let (times, cycles, lasting) = found(&run, "writer", "late");
    assert!(times == 1 && cycles > 2_900 && lasting, "{times} times, {cycles} cycles");
}

#[test]
fn safe_outputs_travel_and_are_no_counters() {
    for encoding in ["variant", "raw"] {
        let scenario = scenario(&format!(
            "encoding = \"{encoding}\"\non_breach = {{ silent = {{ action = \"safe\", value = 3 }}, missed = \"hold\" }}\n"
        ));
        let (outcome, run) = simulated(&scenario, vec![pause(1, 1_000, 150)]);
        let silent = found(&run, "writer", "silent");
        assert_eq!((silent.0, silent.2), (1, false), "{encoding}");
        let substituted = run.streams[0].counters.substituted;
        assert!((silent.1 - 2..=silent.1 + 2).contains(&substituted), "{encoding}: {substituted} of {silent:?}");
        // None of them is a row, and counters go on afterwards.
        let rows = &outcome.observations.rows;
        assert!(rows.windows(2).all(|pair| pair[0].counter < pair[1].counter), "{encoding}");
        assert_eq!(rows.len() as u64 + substituted, 3_000, "{encoding}");
        assert_eq!(run.streams[0].counters.stale, 0, "{encoding}");
        let last = rows.iter().rev().find(|row| row.round_trip_stack().is_some()).unwrap();
        assert!(last.counter > 2_990, "{encoding}: {}", last.counter);
        // One breach of each kind and end: what an end does about it is no reason for the other to begin anew.
        assert!(run.streams[0].breaches.iter().all(|breach| breach.times <= 1 && !breach.lasting), "{encoding}");
    }
}

#[test]
fn one_seed_and_one_pause_give_one_result() {
    let scenario = scenario("on_breach = { silent = \"hold\", missed = { action = \"override\", value = 9 } }\n");
    let options = Options {
        cycles: 2_000,
        seed: 3,
        host_latency: "exp:20us,max=900us".parse().unwrap(),
        pauses: vec![pause(0, 500, 40), pause(1, 1_000, 150), pause(1, 1_149, 3)],
        ..Options::default()
    };
    let once = simulate(&scenario, &options).unwrap();
    assert_eq!(once, simulate(&scenario, &options).unwrap());
    let skipped = once.observations.incidents.iter().filter(|incident| incident.kind == "host-late").count();
    assert!(skipped >= 2, "{:?}", once.observations.incidents);
}
