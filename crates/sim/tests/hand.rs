//! Cases small enough to be computed by hand.

mod common;

use common::{cbs, line, mqprio, stream, udp};
use downbeat_sim::{HostLatency, Network, Options, SimError, simulate, trace};
use measure::{Dist, DrainCause, DrainResult, Event, EventKind, Kind, Phase, Side, summarise};
use scenario::{Backlog, Fraction, HostId, Pause, Queue, Scenario, Shaper};
use units::{Nanos, Picos, Rate};

const GIGABIT: Rate = Rate::from_gbit(1);

fn run(scenario: &Scenario, cycles: u64) -> (Network, Vec<Event>) {
    let options = Options { cycles, keep_delays: true, ..Options::default() };
    let mut events = Vec::new();
    let network = trace(scenario, &options, &mut |event| events.push(event)).unwrap();
    (network, events)
}

fn delays(scenario: &Scenario, cycles: u64) -> Vec<Picos> {
    run(scenario, cycles).0.delays[0].forward.all.clone()
}

/// (counter, T7 − T2) of each echo in the order of arrival, T2 of its first departure.
fn round_trips(events: &[Event]) -> Vec<(u64, i64)> {
    let mut left = std::collections::BTreeMap::new();
    let mut counters = std::collections::BTreeMap::new();
    let mut trips = Vec::new();
    for event in events.iter().filter(|event| event.side == Side::Writer) {
        match event.kind {
            EventKind::Published { counter, handle, repeated: false, .. } => _ = counters.insert(handle, counter),
            EventKind::Left { handle, at } => _ = counters.get(&handle).map(|&counter| left.insert(counter, at)),
            EventKind::Arrived { counter, stamp: Some(at), .. } => {
                trips.extend(left.remove(&counter).map(|t2| (counter, (at - t2).0)));
            }
            _ => {}
        }
    }
    trips
}

fn elapsed_cycles(events: &[Event]) -> Vec<u64> {
    let of = |event: &Event| match event.kind {
        EventKind::Application { round_trip_cycles, .. } => round_trip_cycles,
        _ => None,
    };
    events.iter().filter_map(of).collect()
}

#[test]
fn a_lone_frame_is_stored_and_forwarded() {
    for links in 1..=7_usize {
        let latencies: Vec<Nanos> = (1..links as i64).map(|bridge| Nanos(1_000 * bridge)).collect();
        let mut scenario = line(&vec![GIGABIT; links], &latencies, Nanos(25), &Queue::Fifo);
        stream(&mut scenario, 3);
        let bridges: i64 = latencies.iter().map(|latency| latency.0 * 1_000).sum();
        let expected = Picos(links as i64 * (808_000 + 25_000) + bridges);
        let found = delays(&scenario, 20);
        // Launched in cycles 1 to 20, the last at the very end.
        assert_eq!(found, vec![expected; 20], "{links} links");
    }
}

#[test]
fn each_link_has_its_rate_and_fractions_are_cut() {
    let rates = [Rate::from_mbit(10), Rate::from_mbit(2500), Rate::from_gbit(10), Rate(3_000_000_000)];
    let mut scenario = line(&rates, &[Nanos::ZERO; 3], Nanos::ZERO, &Queue::Fifo);
    stream(&mut scenario, 3);
    // 808 bits: 80.8 µs, 323.2 ns, 80.8 ns, 269.333… ns.
    assert_eq!(delays(&scenario, 5), vec![Picos(80_800_000 + 323_200 + 80_800 + 269_333); 5]);
}

#[test]
fn one_lower_frame_blocks_and_no_more() {
    let mut scenario = line(&[GIGABIT], &[], Nanos::ZERO, &mqprio(Shaper::None));
    stream(&mut scenario, 3);
    // Two lower frames, built earlier at the same instant: 1481 + 42 = 1523 bytes. The second has to let pass.
    scenario.streams.clear();
    for _ in 0..2 {
        stream(&mut scenario, 161).pcp = 0;
    }
    stream(&mut scenario, 3).pcp = 7;
    let (network, _) = run(&scenario, 10);
    let max = |index: usize| network.delays[index].forward.max.unwrap();
    assert_eq!(max(0), Picos(1523 * 8_000));
    assert_eq!(max(2), Picos((1523 + 101) * 8_000));
    assert_eq!(max(1), Picos((1523 + 101 + 1523) * 8_000));
    // In one queue it waits for both.
    for port in &mut scenario.ports {
        port.queue = Queue::Fifo;
    }
    assert_eq!(run(&scenario, 10).0.delays[2].forward.max, Some(Picos((2 * 1523 + 101) * 8_000)));
}

#[test]
fn credit_of_one_frame_a_cycle() {
    // 808 bits every 250 µs: 3.232 Mbit/s.
    let slopes = |per_mille: u64| 3_232_000 * per_mille / 1_000;
    for per_mille in [1_000, 1_100, 1_200] {
        for queue in [Queue::Cbs(cbs(slopes(per_mille))), mqprio(Shaper::Cbs(cbs(slopes(per_mille))))] {
            let mut scenario = line(&[GIGABIT], &[], Nanos::ZERO, &queue);
            stream(&mut scenario, 3);
            assert_eq!(delays(&scenario, 200), vec![Picos(808_000); 200], "{per_mille}");
        }
    }
    let mut scenario = line(&[GIGABIT], &[], Nanos::ZERO, &Queue::Cbs(cbs(slopes(800))));
    stream(&mut scenario, 3);
    let expected: Vec<Picos> = (0..200).map(|frame| Picos(808_000 + frame * 62_500_000)).collect();
    assert_eq!(delays(&scenario, 200), expected, "x = 0.8 slips by a quarter of the cycle");
}

#[test]
fn a_starved_shaper_fills_its_queue_and_then_loses_its_share() {
    let mut scenario = line(&[GIGABIT], &[], Nanos::ZERO, &Queue::Cbs(cbs(3_232_000 * 8 / 10)));
    stream(&mut scenario, 3);
    let (network, events) = run(&scenario, 20_000);
    let not_sent = events.iter().filter(|event| matches!(event.kind, EventKind::NotSent { errno: 105, .. })).count();
    // 1000 frames are waiting when 5000 were handed over; of the 15 000 after them a fifth is lost.
    assert!((2_995..=3_005).contains(&not_sent), "{not_sent}");
    // Frames launched at the very end of the run are dropped too, but no longer told.
    assert!(network.drops[0].stream_frames - not_sent as u64 <= 1);
    assert_eq!((network.drops.len(), network.drops[0].class), (1, 0));
}

#[test]
fn credit_spreads_a_burst_at_idle_slope() {
    // Three frames of 808 bits at once, idleSlope 100 Mbit/s: one every 8.08 µs.
    let mut scenario = line(&[GIGABIT], &[], Nanos::ZERO, &mqprio(Shaper::Cbs(cbs(100_000_000))));
    for _ in 0..3 {
        stream(&mut scenario, 3);
    }
    let (network, _) = run(&scenario, 5);
    for (index, delays) in network.delays.iter().enumerate() {
        assert_eq!(delays.forward.all, vec![Picos(808_000 + 8_080_000 * index as i64); 5]);
    }
}

#[test]
fn round_trips_of_the_papers_cycle() {
    for (offset_us, launch, wire_us, elapsed) in [(150, true, 500, 4), (0, true, 250, 2), (0, false, 250, 2)] {
        let mut scenario = line(&[GIGABIT], &[], Nanos::ZERO, &Queue::Fifo);
        let stream = stream(&mut scenario, 3);
        (stream.offset, stream.launch, stream.echo) = (Nanos::from_micros(offset_us), launch, true);
        let (_, events) = run(&scenario, 100);
        let trips = round_trips(&events);
        assert!(trips.len() > 90);
        assert!(trips.iter().all(|&(_, trip)| trip == wire_us * 1_000 + 808), "{offset_us} {launch}: {trips:?}");
        let cycles = elapsed_cycles(&events);
        assert!(
            cycles.len() > 90 && cycles.iter().all(|&cycles| cycles == elapsed),
            "{offset_us} {launch}: {cycles:?}"
        );
    }
}

#[test]
fn the_window_includes_its_end() {
    // 0.808 µs on the wire: launched at 49.192 µs the frame is in at 50 µs, the end of the window.
    for (offset_ns, same_cycle) in [(49_192, true), (49_193, false)] {
        let mut scenario = line(&[GIGABIT], &[], Nanos::ZERO, &Queue::Fifo);
        stream(&mut scenario, 3).offset = Nanos(offset_ns);
        let (_, events) = run(&scenario, 20);
        let mut arrivals = 0;
        for event in &events {
            if let EventKind::Arrived { cycle, stamp: Some(stamp), decoded, .. } = event.kind {
                let since = decoded - scenario.base_time;
                let expected = if same_cycle { stamp.0 } else { scenario.base_time.0 + cycle * 250_000 };
                assert_eq!((decoded.0, since.0 / 250_000), (expected, cycle));
                arrivals += 1;
            }
        }
        assert!(arrivals >= 18);
    }
}

#[test]
fn a_window_of_zero_reads_once_what_is_there() {
    for (offset_ns, waits) in [(250_000 - 808, 0), (250_000 - 807, 249_999)] {
        let mut scenario = line(&[GIGABIT], &[], Nanos::ZERO, &Queue::Fifo);
        stream(&mut scenario, 3).offset = Nanos(offset_ns);
        scenario.hosts[1].phases.window = Fraction(0);
        let (_, events) = run(&scenario, 20);
        let wait = |event: &Event| match event.kind {
            EventKind::Arrived { stamp: Some(stamp), decoded, .. } => Some((decoded - stamp).0),
            _ => None,
        };
        let found: Vec<i64> = events.iter().filter_map(wait).collect();
        assert!(found.len() > 15 && found.iter().all(|&wait| wait == waits), "{found:?}");
    }
}

#[test]
fn the_first_launch_is_not_before_the_start_and_streams_have_their_own_cycle() {
    let mut scenario = line(&[GIGABIT], &[], Nanos::ZERO, &Queue::Fifo);
    let stream = stream(&mut scenario, 3);
    (stream.cycle, stream.start, stream.offset) = (Nanos(100_000), Nanos(520_001), Nanos(20_000));
    let (network, events) = run(&scenario, 40);
    let left: Vec<i64> = events
        .iter()
        .filter_map(|event| match event.kind {
            EventKind::Left { at, .. } => Some((at - scenario.base_time).0),
            _ => None,
        })
        .collect();
    assert_eq!(left, (6..100).map(|cycle| cycle * 100_000 + 20_000).collect::<Vec<_>>());
    assert_eq!(network.delays[0].forward.count, 95, "the launch after the end still finishes its way");
}

#[test]
fn offsets_beyond_a_cycle_keep_several_frames_pending() {
    let mut scenario = line(&[GIGABIT], &[], Nanos::ZERO, &Queue::Fifo);
    stream(&mut scenario, 3).offset = Nanos(900_000);
    let (_, events) = run(&scenario, 20);
    let mut published = std::collections::BTreeMap::new();
    for event in &events {
        match event.kind {
            EventKind::Published { handle, at, launch, .. } => _ = published.insert(handle, (at, launch)),
            EventKind::Left { handle, at } => {
                let (t1, launch) = published[&handle];
                assert_eq!((Some(at), at - t1), (launch, Nanos(100_000 + 900_000)));
            }
            _ => {}
        }
    }
}

#[test]
fn a_late_hand_over_leaves_late() {
    let mut scenario = line(&[GIGABIT], &[], Nanos::ZERO, &Queue::Fifo);
    stream(&mut scenario, 3).offset = Nanos(0);
    // Publish at 150 + 110 µs, wanted at 250: 10 µs late; the next subscribe is missed, so every other cycle is.
    let host_latency = HostLatency::Constant(Nanos(110_000));
    let mut events = Vec::new();
    trace(&scenario, &Options { cycles: 10, host_latency, ..Options::default() }, &mut |event| events.push(event))
        .unwrap();
    let writer = events.iter().filter(|event| event.side == Side::Writer);
    let mut left = 0;
    let mut skipped = 0;
    for event in writer {
        match event.kind {
            EventKind::Left { at, .. } => {
                assert_eq!((at - scenario.base_time).0 % 500_000, 260_000);
                left += 1;
            }
            EventKind::Phase { phase: Phase::Launch, late, .. } => assert_eq!(late, Nanos(10_000)),
            EventKind::Phase { late, .. } => assert_eq!(late, Nanos(110_000)),
            EventKind::Skipped { cycles, .. } => skipped += cycles,
            _ => {}
        }
    }
    assert_eq!((left, skipped), (5, 5));
}

#[test]
fn traffic_is_paced_or_always_there() {
    let mut scenario = line(&[GIGABIT], &[], Nanos::ZERO, &mqprio(Shaper::None));
    stream(&mut scenario, 3);
    udp(&mut scenario, Some(Rate::from_mbit(100)), 1250);
    let (network, _) = run(&scenario, 400);
    // 10 000 bits at 100 Mbit/s: one every 100 µs, in 100 ms 1000.
    assert_eq!(network.traffic[0].sent, 1000);
    scenario.traffic.clear();
    udp(&mut scenario, None, 1472);
    let (network, _) = run(&scenario, 400);
    // 1472 + 8 + 20 + 18 + 20 = 1538 bytes, 12.304 µs: the line is full but for 400 frames of 0.808 µs.
    let expected = (100_000_000 - 400 * 808) / 12_304;
    assert!(network.traffic[0].received.abs_diff(expected) < 30, "{:?}", network.traffic);
    assert_eq!(network.traffic[0].dropped, 0);
    let max = network.delays[0].forward.max.unwrap();
    assert!(max > Picos(808_000) && max <= Picos(808_000 + 12_304_000), "{max:?}");
}

#[test]
fn disciplines_that_are_not_modelled_are_refused_where_they_matter() {
    let mut scenario = line(&[GIGABIT; 2], &[Nanos::ZERO], Nanos::ZERO, &Queue::Fifo);
    stream(&mut scenario, 3);
    let gates = || {
        // Of a NIC's shaper that the kernel's gates come before nobody has told how.
        let classes = scenario::Classes { map: [0; 16], shapers: vec![Shaper::Cbs(cbs(1_000_000))] };
        let (base_time, cycle) = (units::Tai(0), Nanos(250_000));
        let entries = vec![scenario::GateEntry { gates: 1, interval: cycle }];
        let schedule = scenario::GateSchedule { base_time, cycle, entries, mode: scenario::TaprioMode::Software };
        Queue::Taprio { classes, schedule }
    };
    scenario.ports[0].queue = gates();
    let error = simulate(&scenario, &Options::default()).unwrap_err();
    assert_eq!(
        error,
        SimError::Unsupported { port: "n0 → n1".into(), discipline: "cbs of a NIC below gates of Linux" }
    );
    assert!(error.to_string().contains("simulate models fifo, fq_codel, mqprio, cbs, etf and taprio"));
    // Nothing passes the way back.
    scenario.ports[0].queue = Queue::Fifo;
    scenario.ports[3].queue = gates();
    assert!(simulate(&scenario, &Options::default()).is_ok());
}

#[test]
fn runs_without_cycles_or_beyond_the_clock_are_refused() {
    let mut scenario = line(&[GIGABIT], &[], Nanos::ZERO, &Queue::Fifo);
    stream(&mut scenario, 3);
    let error = |cycles| simulate(&scenario, &Options { cycles, ..Options::default() }).unwrap_err();
    assert_eq!(error(0), SimError::NoCycles);
    assert!(matches!(error(u64::MAX), SimError::TooLong { most, .. } if most > 1_000_000_000));
}

#[test]
fn results_are_joined_as_those_of_a_run() {
    let mut scenario = line(&[GIGABIT; 2], &[Nanos(2_000)], Nanos::ZERO, &Queue::Fifo);
    let stream = stream(&mut scenario, 3);
    (stream.offset, stream.echo) = (Nanos(150_000), true);
    let outcome = simulate(&scenario, &Options { cycles: 200, ..Options::default() }).unwrap();
    let run = summarise(&scenario, &outcome.observations, Kind::Simulated, outcome.machine);
    let result = &run.streams[0];
    // One way 2 · 808 + 2000 ns; T1 is 250 µs before T2.
    let range = |dist: &Option<Dist>| dist.as_ref().map(|dist| (dist.min, dist.max));
    assert_eq!(range(&result.one_way), Some((3_616, 3_616)));
    assert_eq!(range(&result.round_trip.wire), Some((503_616, 503_616)));
    assert_eq!(range(&result.round_trip.counter), Some((4, 4)));
    assert_eq!(range(&result.jitter.spacing_error), Some((0, 0)));
    assert_eq!(result.launch.as_ref().map(|launch| (launch.late, range(&launch.error))), Some((0, Some((0, 0)))));
    assert_eq!((result.loss.dSum, result.counters.missed), (Some(0), Some(0)));
    assert!(result.loss.published > 180);
}

#[test]
fn a_kept_backlog_is_read_one_message_a_cycle() {
    let mut scenario = line(&[GIGABIT], &[], Nanos::ZERO, &Queue::Fifo);
    let cycle = stream(&mut scenario, 3).cycle;
    let most = |scenario: &Scenario| {
        let host_latency = HostLatency::Uniform { min: Nanos::ZERO, max: cycle * 2 };
        let options = Options { cycles: 500, host_latency, ..Options::default() };
        let (mut last, mut in_cycle, mut most, mut superseded) = (i64::MIN, 0, 0, 0);
        trace(scenario, &options, &mut |event: Event| {
            if let (Side::Reader, EventKind::Arrived { cycle, superseded: replaced, .. }) = (event.side, event.kind) {
                in_cycle = if cycle == last { in_cycle + 1 } else { 1 };
                (last, most) = (cycle, most.max(in_cycle));
                superseded += u32::from(replaced.is_some());
            }
        })
        .unwrap();
        (most, superseded)
    };
    let (drained, replaced) = most(&scenario);
    assert!(drained > 1 && replaced > 0, "late hosts let messages gather: {drained} in a cycle, {replaced} replaced");
    scenario.backlog = Backlog::KEEP;
    assert_eq!(most(&scenario), (1, 0));
}

#[test]
fn a_kept_backlog_that_has_stood_is_drained_once() {
    let mut scenario = line(&[GIGABIT], &[], Nanos::ZERO, &Queue::Fifo);
    let stream = stream(&mut scenario, 3);
    (stream.echo, stream.offset) = (true, Nanos(150_000));
    let cycle = stream.cycle;
    // The reader stands still from cycle 100 on, for ten cycles and a half.
    let pause = Pause { host: HostId(1), at: cycle * 100, lasting: cycle * 21 / 2 };
    let options = Options { cycles: 400, pauses: vec![pause], ..Options::default() };
    let run = |scenario: &Scenario| {
        let (mut drained, mut trips) = (Vec::new(), Vec::new());
        trace(scenario, &options, &mut |event: Event| match event.kind {
            EventKind::Drained { cycle, messages, cause, .. } => drained.push((event.side, cycle, messages, cause)),
            EventKind::Application { cycle, round_trip_cycles: Some(cycles), .. } => trips.push((cycle, cycles)),
            _ => {}
        })
        .unwrap();
        (drained, trips)
    };
    scenario.backlog = Backlog::KEEP;
    let (drained, trips) = run(&scenario);
    assert_eq!((drained, trips.last().unwrap().1), (vec![], 4 + 11), "eleven cycles were left out");
    scenario.backlog = Backlog::Keep { drain_after: std::num::NonZeroU32::new(50) };
    let (drained, trips) = run(&scenario);
    // The first late message is read in cycle 111, the fiftieth in 160. The writer gets news in time and drains nothing.
    assert_eq!(drained, [(Side::Reader, 160, 11, DrainCause::Standing { late: 11 })]);
    assert_eq!(trips.last().unwrap().1, 4);
    let late = trips.iter().filter(|(_, cycles)| *cycles == 4 + 11).count();
    assert_eq!(late, 49, "the fiftieth is replaced by newer ones");
    let outcome = simulate(&scenario, &options).unwrap();
    let run = summarise(&scenario, &outcome.observations, Kind::Simulated, outcome.machine);
    let told = DrainResult { host: "n1".into(), end: "reader".into(), asked: 0, standing: 1, empty: 0, messages: 11 };
    assert_eq!(run.streams[0].drains, [told]);
    let causes: Vec<_> = run.incidents.iter().filter(|it| it.kind == "standing-backlog").map(|it| &it.cause).collect();
    assert!(
        causes.len() == 1 && causes[0].contains("n1 drained its queue by itself (`drain_after = 50`)"),
        "{causes:?}"
    );
}
