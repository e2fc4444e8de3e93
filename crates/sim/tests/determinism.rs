//! One seed, one result, to the byte; and adding a stream does not change what is random for the others.

mod common;

use common::{cbs, line, mqprio, stream, udp};
use downbeat_sim::{HostLatency, Measured, Options, simulate, trace};
use measure::{Event, EventKind, Histogram, Kind, Phase, summarise};
use scenario::{QUEUE_FRAMES, Scenario, Shaper};
use units::{Nanos, Rate};

fn scenario() -> Scenario {
    let queue = mqprio(Shaper::Cbs(cbs(20_000_000)));
    let mut scenario = line(&[Rate::from_mbit(100); 3], &[Nanos(2_000); 2], Nanos(25), &queue);
    for offset in [0, 40_000, 150_000] {
        let stream = stream(&mut scenario, 8);
        (stream.offset, stream.echo) = (Nanos(offset), true);
    }
    udp(&mut scenario, Some(Rate::from_mbit(40)), 1_000);
    udp(&mut scenario, Some(Rate::from_mbit(7)), 333);
    scenario
}

fn options(seed: u64) -> Options {
    let host_latency = HostLatency::Exponential { mean: Nanos(8_000), max: Nanos(200_000) };
    Options { cycles: 500, seed, host_latency, keep_delays: true, ..Options::default() }
}

#[test]
fn equal_inputs_give_equal_bytes() {
    let scenario = scenario();
    let result = |seed| {
        let outcome = simulate(&scenario, &options(seed)).unwrap();
        let run = summarise(&scenario, &outcome.observations, Kind::Simulated, outcome.machine.clone());
        (serde_json::to_string_pretty(&run).unwrap(), outcome)
    };
    let (first, second, other) = (result(7), result(7), result(8));
    assert_eq!(first.0, second.0);
    assert_eq!(first.1, second.1);
    assert!(first.1.observations.rows.len() > 1_000);
    assert_ne!(first.0, other.0);
    assert_eq!(first.1.machine["queue_frames"], QUEUE_FRAMES.to_string());
}

#[test]
fn another_stream_does_not_change_when_the_first_wakes_up() {
    let wake_ups = |scenario: &Scenario| {
        let mut found = Vec::new();
        let mut sink = |event: Event| {
            // Launches depend on nothing but the phase before.
            if let EventKind::Phase { cycle, phase, late, .. } = event.kind
                && event.stream == 0
                && phase != Phase::Launch
            {
                found.push((event.side, cycle, phase, late));
            }
        };
        trace(scenario, &options(1), &mut sink).unwrap();
        found
    };
    let mut scenario = scenario();
    let before = wake_ups(&scenario);
    assert!(before.len() > 1_000);
    stream(&mut scenario, 20);
    udp(&mut scenario, Some(Rate::from_mbit(1)), 100);
    assert_eq!(before, wake_ups(&scenario));
}

#[test]
fn a_measured_latency_is_repeated_by_its_seed_and_makes_frames_late() {
    let scenario = scenario();
    let measured = |us: i64| {
        let mut histogram = Histogram::new();
        (0..1_000).for_each(|step| histogram.record(Nanos(us * 1_000 + step * 7)));
        HostLatency::Measured(Measured::of(&histogram).unwrap())
    };
    let lateness = |options: &Options, wanted: &str| {
        let outcome = simulate(&scenario, options).unwrap();
        let run = summarise(&scenario, &outcome.observations, Kind::Simulated, outcome.machine.clone());
        let phases = run.hosts.iter().filter(|entry| entry.host == wanted && entry.phase != "launch");
        (phases.map(|entry| entry.late.min).min().unwrap(), serde_json::to_string(&run).unwrap())
    };
    let names: Vec<&str> =
        [scenario.streams[0].writer, scenario.streams[0].reader].map(|id| &*scenario.host(id).name).into();
    let all = |us| Options { cycles: 300, seed: 3, host_latency: measured(us), ..Options::default() };
    for name in &names {
        let (quick, slow) = (lateness(&all(2), name), lateness(&all(30), name));
        assert_eq!(lateness(&all(2), name), quick, "one seed, one result");
        assert!((2_000..9_000).contains(&quick.0) && (30_000..37_000).contains(&slow.0), "{} {}", quick.0, slow.0);
        assert!(quick.1.contains("measured (1000 wake-ups"), "the result names what it was computed with");
    }
    // One host alone is slow.
    let mut one = all(2);
    one.hosts.push((scenario.streams[0].reader, measured(30)));
    assert!(lateness(&one, names[0]).0 < 9_000 && lateness(&one, names[1]).0 >= 30_000);
}
