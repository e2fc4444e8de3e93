//! What a simulated round trip consists of: the parts add up, and each is what the model says.

mod common;

use common::{line, mqprio, stream, udp};
use downbeat_sim::{HostLatency, Options, Outcome, simulate};
use measure::{Kind, Parts, RunFile, summarise};
use scenario::{Fraction, Queue, Scenario, Shaper};
use units::{Nanos, Rate};

const CYCLES: u64 = 400;

fn echoed(links: usize, offset: i64, launch: bool) -> Scenario {
    let latencies = vec![Nanos(2_000); links - 1];
    let mut scenario = line(&vec![Rate::from_gbit(1); links], &latencies, Nanos(25), &Queue::Fifo);
    let stream = stream(&mut scenario, 3);
    (stream.echo, stream.launch, stream.offset) = (true, launch, Nanos(offset));
    scenario
}

fn simulated(scenario: &Scenario, latency: &str) -> (Outcome, RunFile) {
    let host_latency: HostLatency = latency.parse().unwrap();
    let outcome = simulate(scenario, &Options { cycles: CYCLES, host_latency, ..Options::default() }).unwrap();
    let run = summarise(scenario, &outcome.observations, Kind::Simulated, Default::default());
    (outcome, run)
}

/// The parts of the messages that came all the way; each adds up to its round trip.
fn parts(scenario: &Scenario, outcome: &Outcome) -> Vec<Parts> {
    let observations = &outcome.observations;
    let mut found = Vec::new();
    for (number, (stream, seen)) in scenario.streams.iter().zip(&observations.streams).enumerate() {
        let rows: Vec<_> = observations.rows.iter().filter(|row| usize::from(row.stream) == number).collect();
        assert_eq!(rows.len(), seen.parts.len());
        for (row, parts) in rows.into_iter().zip(&seen.parts) {
            let whole = if stream.echo { row.round_trip_stack() } else { row.one_way_stack() };
            assert_eq!(parts.whole, whole);
            let Some(whole) = whole else {
                assert_eq!(*parts, Parts::default());
                continue;
            };
            let all =
                [parts.schedule, parts.wire, parts.host, parts.stack].map(|part| part.expect("every part is known"));
            assert!(all.iter().all(|&part| part >= 0), "{row:?} {parts:?}");
            assert_eq!(all.iter().sum::<i64>(), whole, "{row:?} {parts:?}");
            found.push(*parts);
        }
    }
    assert!(found.len() > CYCLES as usize / 2, "{}", found.len());
    found
}

#[test]
fn the_parts_add_up_whatever_the_hosts_do() {
    let latencies = ["zero", "const:5us", "uniform:0us..60us", "uniform:0us..200us", "exp:20us,max=900us"];
    for (links, offset, launch) in [(1, 150_000, true), (3, 0, true), (2, 400_000, true), (1, 0, false), (4, 0, false)]
    {
        let mut scenario = echoed(links, offset, launch);
        stream(&mut scenario, 9).offset = Nanos(20_000);
        for port in &mut scenario.ports {
            port.queue = mqprio(Shaper::None);
        }
        udp(&mut scenario, None, 1472);
        for latency in latencies {
            let (outcome, _) = simulated(&scenario, latency);
            parts(&scenario, &outcome);
        }
    }
}

#[test]
fn a_punctual_host_owes_nothing() {
    for (links, offset, launch) in [(1, 150_000, true), (3, 0, true), (2, 400_000, true), (1, 0, false), (4, 0, false)]
    {
        let scenario = echoed(links, offset, launch);
        let (outcome, _) = simulated(&scenario, "zero");
        for parts in parts(&scenario, &outcome) {
            assert_eq!((parts.host, parts.stack), (Some(0), Some(0)), "{links} links, offset {offset}: {parts:?}");
        }
    }
}

#[test]
fn lateness_is_the_hosts_where_nothing_absorbs_it() {
    // With launch times only the two subscribe phases count: T1 comes later, and the waits for launches absorb the rest.
    let scenario = echoed(1, 150_000, true);
    let (punctual, _) = simulated(&scenario, "zero");
    let (late, _) = simulated(&scenario, "const:5us");
    let schedule = parts(&scenario, &punctual)[0].schedule.unwrap();
    for parts in parts(&scenario, &late) {
        assert_eq!((parts.host, parts.stack), (Some(10_000), Some(0)));
        // From T1, and from T4, each 5 µs later to the launch.
        assert_eq!(parts.schedule, Some(schedule - 10_000));
    }
    // Without them the publish phase of the reader counts as well; frames arrive while no window is open.
    let scenario = echoed(1, 0, false);
    let (late, _) = simulated(&scenario, "const:5us");
    assert!(parts(&scenario, &late).iter().all(|parts| parts.host == Some(15_000)));
}

#[test]
fn a_stopped_host_is_charged_for_the_cycles_it_leaves_out() {
    // Up to 400 µs late, an end leaves out a cycle now and then: what waited meanwhile was held up by the host alone.
    let scenario = echoed(1, 150_000, true);
    let usual = parts(&scenario, &simulated(&scenario, "zero").0)[0];
    let (late, run) = simulated(&scenario, "exp:60us,max=400us");
    let all = parts(&scenario, &late);
    assert!(all.iter().all(|parts| parts.schedule <= usual.schedule));
    assert!(all.iter().all(|parts| parts.stack == Some(0)));
    assert!(all.iter().any(|parts| parts.whole > Some(usual.whole.unwrap() + 250_000)));
    assert!(run.incidents.iter().any(|incident| incident.cause.contains("left out")), "{:?}", run.incidents);
}

#[test]
fn frames_wait_for_others_in_the_wire_part_or_the_stack() {
    let mut scenario = echoed(2, 0, true);
    for port in &mut scenario.ports {
        port.queue = mqprio(Shaper::None);
    }
    let alone = parts(&scenario, &simulated(&scenario, "zero").0)[0].wire;
    udp(&mut scenario, None, 1472);
    let (outcome, _) = simulated(&scenario, "zero");
    let all = parts(&scenario, &outcome);
    // In the writer's own port before T2: stack. In the bridge: wire.
    assert!(all.iter().any(|parts| parts.stack > Some(0)));
    assert!(all.iter().any(|parts| parts.wire > alone));
    assert!(all.iter().all(|parts| parts.host == Some(0)));
}

#[test]
fn the_best_case_of_the_plan_is_what_punctual_hosts_reach() {
    for links in 1..=5 {
        for offset in [0, 30_000, 48_000, 55_000, 150_000, 249_000, 400_000] {
            for (launch, poll) in [(true, false), (true, true), (false, false)] {
                let mut scenario = echoed(links, offset, launch);
                if poll {
                    scenario.hosts.iter_mut().for_each(|host| {
                        (host.phases.subscribe, host.phases.window) = (Fraction(100_000_000), Fraction(0));
                    });
                }
                let (_, run) = simulated(&scenario, "zero");
                let stream = &run.streams[0];
                let (reference, used) =
                    (stream.counter_reference.as_ref().unwrap(), stream.round_trip.counter_used.as_ref().unwrap());
                assert_eq!(reference.scenario_best, used.min, "{links} links, offset {offset}, {launch}, {poll}");
                assert_eq!((reference.seed_001_best, reference.seed_001_worst), (Some(5), Some(9)));
                assert_eq!(reference.seen.iter().map(|seen| seen.readings).sum::<u64>(), used.count);
            }
        }
    }
}

#[test]
fn the_form_shows_the_longest_messages_and_the_margins() {
    let scenario = echoed(1, 150_000, true);
    let (_, run) = simulated(&scenario, "uniform:0us..90us");
    let stream = &run.streams[0];
    let split = stream.split.as_ref().unwrap();
    assert_eq!((split.of.as_str(), split.worst.len()), ("round_trip.stack", 10));
    let stack = stream.round_trip.stack.as_ref().unwrap();
    assert_eq!(split.worst[0].whole_ns, stack.max);
    assert_eq!(split.median.as_ref().unwrap().whole_ns, stack.p50);
    assert_eq!(split.p99.as_ref().unwrap().whole_ns, stack.p99);
    let means: f64 =
        [&split.schedule, &split.stack, &split.wire, &split.host].map(|d| d.as_ref().unwrap().mean).iter().sum();
    assert!((means - stack.mean).abs() < 0.01, "{means} {}", stack.mean);
    // Up to 90 µs late, 75 µs from the subscribe to the application phase.
    let reader = stream.margins.reader.as_ref().unwrap();
    let margin = reader.transfer_safety_margin.as_ref().unwrap();
    assert_eq!(margin.found_ns, 75_000 - margin.late_max_ns - margin.took_max_ns);
    assert!(margin.found_ns < 0 && margin.violated > 0 && margin.violated < margin.count, "{margin:?}");
    assert_eq!(reader.held_ns, 0);
}
