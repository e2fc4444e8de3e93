//! What a processor of Linux makes of timers, interrupts and queues, computed by hand.

mod common;

use common::mqprio;
use downbeat_sim::{Arrival, Fate, Passage, Passed, Processor, Qdisc, pass};
use scenario::{Cbs, Classes, Etf, Queue, Shaper};
use units::{Nanos, Picos, Rate};

const PROCESSOR: Processor = Processor { reading: Picos(10_000), failing: Picos(10_000) };

/// A frame of so many bytes of the line; priority 7 is the highest class of [`mqprio`].
fn frame(at_ns: i64, priority: u8, bytes: u32, launch_ns: Option<i64>) -> Arrival {
    let launch = launch_ns.map(|ns| Picos(ns * 1_000));
    Arrival { at: Picos(at_ns * 1_000), priority, flow: 0, bytes, counted: bytes - 24, launch }
}

fn passed(through: Passed<'_>, arrivals: &[Arrival]) -> Vec<(i64, i64)> {
    let passage = Passage { through, rate: Rate::from_gbit(1), processor: Some(PROCESSOR) };
    let instants = |fate: Fate| match fate {
        Fate::Left { begin, end } => (begin.to_nanos_floor().0, end.to_nanos_floor().0),
        other => panic!("{other:?}"),
    };
    pass(&passage, arrivals).unwrap().into_iter().map(instants).collect()
}

fn etf(delta: i64) -> Shaper {
    Shaper::Etf(Etf { delta: Nanos(delta), offload: false, deadline_mode: false, skip_sock_check: false })
}

/// 1250 bytes are 10 µs.
#[test]
fn a_line_is_a_nanosecond_late_unless_another_timer_goes_off_then() {
    let ends = |launch| {
        let arrivals = [frame(1_000, 0, 1_250, None), frame(2_000, 7, 125, Some(launch))];
        passed(Passed::Queue(&mqprio(etf(1_000)), &[]), &arrivals)
    };
    // The line's timer is set to 11 000, and the launch queue's 2 ns, 1 ns and 0 before.
    assert_eq!(ends(11_998), [(1_000, 11_001), (11_001, 12_002)]);
    // It goes off at 11 000, when the line's is due as well.
    assert_eq!(ends(11_999), [(1_000, 11_000), (11_000, 12_001)]);
    assert_eq!(ends(12_000), [(1_000, 11_001), (11_001, 12_002)]);
    // Too late to be taken along: the line is free before.
    assert_eq!(ends(12_100), [(1_000, 11_001), (11_101, 12_102)]);
}

#[test]
fn a_timer_set_to_what_is_over_goes_off_two_nanoseconds_later() {
    // A frame that comes at its launch time less delta is not let go yet; the timer is set to now.
    let queue = mqprio(etf(20_000));
    let arrivals = [frame(1_000, 7, 125, Some(21_000)), frame(1_500, 7, 125, Some(21_100))];
    assert_eq!(passed(Passed::Queue(&queue, &[]), &arrivals), [(1_002, 2_003), (2_003, 3_004)]);
    // Set at 2497 as a frame comes to a busy line, it goes off at 2499, in vain, and takes the line's along, which is due then.
    let arrivals = [frame(1_499, 0, 125, None), frame(2_497, 7, 125, Some(20_000)), frame(9_000, 0, 125, None)];
    assert_eq!(passed(Passed::Queue(&queue, &[]), &arrivals), [(1_499, 2_499), (2_499, 3_500), (9_000, 10_001)]);
}

#[test]
fn a_sender_woken_as_the_line_gets_free_is_served_before_higher_classes() {
    let queue = mqprio(Shaper::None);
    let arrivals = |third| [frame(1_000, 0, 1_250, None), frame(2_000, 7, 125, None), frame(third, 0, 125, None)];
    let passed = |third| passed(Passed::Queue(&queue, &[]), &arrivals(third));
    assert_eq!(passed(11_010), [(1_000, 11_000), (12_011, 13_012), (11_010, 12_011)]);
    // A nanosecond later the queues have run.
    assert_eq!(passed(11_012), [(1_000, 11_001), (11_001, 12_002), (12_002, 13_003)]);
}

#[test]
fn nothing_goes_off_while_the_sender_reads_the_clock() {
    let queue = mqprio(Shaper::None);
    let arrivals = [frame(1_000, 0, 1_250, None), frame(2_000, 0, 125, None), frame(11_005, 7, 125, None)];
    // The line is found free as the third comes: the frame that waited goes before it.
    assert_eq!(passed(Passed::Queue(&queue, &[]), &arrivals), [(1_000, 11_005), (11_005, 12_006), (12_006, 13_007)]);
}

#[test]
fn a_call_that_fails_holds_timers_up() {
    let wire = Qdisc::Netem { rate: Some(Rate::from_gbit(1)), overhead: 24, delay: Nanos(0), limit: 2 };
    let passage = |through| Passage { through, rate: Rate(u64::MAX), processor: Some(PROCESSOR) };
    let through = |third| {
        let arrivals = [frame(1_000, 0, 1_250, None), frame(2_000, 0, 1_250, None), frame(third, 0, 125, None)];
        let fates = pass(&passage(Passed::Qdisc(&wire)), &arrivals).unwrap();
        let Fate::Left { end, .. } = fates[0] else { panic!("{fates:?}") };
        (end.to_nanos_floor().0, matches!(fates[2], Fate::Lost(_)))
    };
    // Its timer is set to 11 000.
    assert_eq!(through(5_000), (11_001, true));
    assert_eq!(through(10_995), (11_005, true), "refused till 11 005");
    assert_eq!(through(11_005), (11_005, false), "it reads the clock from 10 995 on");
}

#[test]
fn hardware_is_refused() {
    let cbs = Cbs { idle_slope: Rate::from_mbit(100), offload: true };
    let classes = Classes { map: [0; 16], shapers: vec![Shaper::Cbs(cbs)] };
    let passage =
        |queue| Passage { through: Passed::Queue(queue, &[]), rate: Rate::from_gbit(1), processor: Some(PROCESSOR) };
    let queue = Queue::Mqprio(classes);
    assert_eq!(pass(&passage(&queue), &[]).unwrap_err(), "cbs of hardware on a processor");
}
