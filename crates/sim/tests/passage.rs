//! One port alone, computed by hand.

mod common;

use common::mqprio;
use downbeat_sim::{Arrival, Cause, Fate, Passage, pass};
use scenario::{Etf, Queue, Shaper};
use units::{Nanos, Picos, Rate};

fn etf(delta: i64) -> Etf {
    Etf { delta: Nanos(delta), offload: false, deadline_mode: false, skip_sock_check: false }
}

fn frame(at_ns: i64, priority: u8, bytes: u32, launch_ns: Option<i64>) -> Arrival {
    Arrival {
        at: Picos(at_ns * 1000),
        priority,
        bytes,
        flow: 0,
        counted: bytes - 24,
        launch: launch_ns.map(|ns| Picos(ns * 1000)),
    }
}

fn begins(queue: &Queue, arrivals: &[Arrival]) -> Vec<Result<i64, Cause>> {
    let fates = pass(&Passage::new(queue, Rate::from_gbit(1)), arrivals).unwrap();
    let begin = |fate| match fate {
        Fate::Left { begin, .. } => Ok(begin.0),
        Fate::Lost(cause) => Err(cause),
        Fate::Kept => panic!("kept"),
    };
    fates.into_iter().map(begin).collect()
}

#[test]
fn etf_releases_in_launch_order_a_nanosecond_after_launch_less_delta() {
    let arrivals = [frame(0, 7, 100, Some(90_000)), frame(10, 7, 100, Some(50_000)), frame(20, 7, 100, None)];
    let expected = [Ok(80_001_000), Ok(40_001_000), Err(Cause::LaunchInvalid)];
    assert_eq!(begins(&Queue::Etf(etf(10_000)), &arrivals), expected);
}

#[test]
fn etf_without_delta_loses_all_and_offload_launches_at_the_instant() {
    let arrivals = [frame(0, 7, 100, Some(50_000))];
    assert_eq!(begins(&Queue::Etf(etf(0)), &arrivals), [Err(Cause::LaunchMissed)]);
    let offload = Queue::Etf(Etf { offload: true, ..etf(1_000) });
    assert_eq!(begins(&offload, &arrivals), [Ok(50_000_000)]);
    let deadline = Queue::Etf(Etf { deadline_mode: true, ..etf(1_000) });
    assert_eq!(begins(&deadline, &arrivals), [Ok(0)]);
}

#[test]
fn a_line_that_is_busy_past_the_launch_makes_it_missed() {
    let queue = mqprio(Shaper::Etf(etf(1_000)));
    // 12.336 µs of another class, begun just before the launch queue may send.
    let arrivals = [frame(0, 7, 101, Some(50_000)), frame(45_000, 0, 1542, None)];
    assert_eq!(begins(&queue, &arrivals), [Err(Cause::LaunchMissed), Ok(45_000_000)]);
    let wide = mqprio(Shaper::Etf(etf(13_000)));
    assert_eq!(begins(&wide, &arrivals), [Ok(37_001_000), Ok(45_000_000)]);
}

#[test]
fn a_launch_in_the_past_or_before_one_that_left_is_invalid() {
    let arrivals = [frame(100, 7, 100, Some(99)), frame(100, 7, 100, Some(9_000)), frame(9_000, 7, 100, Some(9_000))];
    let found = begins(&Queue::Etf(etf(5_000)), &arrivals);
    assert_eq!(found, [Err(Cause::LaunchInvalid), Ok(4_001_000), Ok(9_000_000)]);
    let earlier = [frame(0, 7, 100, Some(9_000)), frame(5_000, 7, 100, Some(8_000))];
    assert_eq!(begins(&Queue::Etf(etf(5_000)), &earlier)[1], Err(Cause::LaunchInvalid));
}

#[test]
fn strict_priority_passes_as_before() {
    let arrivals = [frame(0, 0, 1542, None), frame(1, 0, 1542, None), frame(2, 7, 101, None)];
    assert_eq!(begins(&mqprio(Shaper::None), &arrivals), [Ok(0), Ok(12_336_000 + 808_000), Ok(12_336_000)]);
}

#[test]
fn beside_much_traffic_a_short_delta_loses_most_and_a_long_one_nothing() {
    // A launch every 250 µs beside 1472 B of payload at 900 Mbit/s: 12.336 µs on the line every 13.084 µs.
    let mut arrivals: Vec<Arrival> =
        (0..1000).map(|k| frame(k * 250_000, 7, 146, Some(k * 250_000 + 150_000))).collect();
    arrivals.extend((0..19_000).map(|k| frame(k * 13_084, 0, 1542, None)));
    arrivals.sort_by_key(|arrival| arrival.at);
    let missed = |delta| {
        let found = begins(&mqprio(Shaper::Etf(etf(delta))), &arrivals);
        found.into_iter().filter(|fate| *fate == Err(Cause::LaunchMissed)).count()
    };
    println!("{} of 1000 missed with delta 1 µs", missed(1_000));
    assert!(missed(1_000) > 800);
    assert_eq!(missed(13_000), 0);
}

#[test]
fn a_stream_leaves_its_launch_queue_early_or_is_lost_by_cause() {
    use measure::{EventKind, LAUNCH_MISSED};
    let run = |delta| {
        let mut scenario = common::line(&[Rate::from_gbit(1)], &[], Nanos::ZERO, &mqprio(Shaper::Etf(etf(delta))));
        common::stream(&mut scenario, 3);
        let mut kinds = Vec::new();
        let options = downbeat_sim::Options { cycles: 10, ..Default::default() };
        downbeat_sim::trace(&scenario, &options, &mut |event| kinds.push(event.kind)).unwrap();
        (scenario.base_time, kinds)
    };
    let (base, kinds) = run(20_000);
    let left = |kind: &EventKind| if let EventKind::Left { at, .. } = kind { Some((*at - base).0) } else { None };
    let left: Vec<i64> = kinds.iter().filter_map(left).collect();
    // Launched in cycles 1 to 10, the last of them before the run ends.
    let expected: Vec<i64> = (1..=10).map(|cycle| cycle * 250_000 - 20_000 + 1).collect();
    assert_eq!(left, expected);
    let (_, kinds) = run(0);
    let missed = kinds.iter().filter(|kind| matches!(kind, EventKind::NotSent { errno: LAUNCH_MISSED, .. })).count();
    // The tenth would be told at the very end.
    assert_eq!(missed, 9);
}
