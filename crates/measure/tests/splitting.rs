//! What a message's time consists of, where the answer is known.

mod common;

use common::trace::Trace;
use common::{CYCLE, scenario};
use downbeat_measure::{EventKind, Parts, Phase, RunFile, Side};
use proptest::prelude::*;

fn parts(schedule: i64, wire: i64, host: i64, stack: i64) -> Parts {
    let whole = schedule + wire + host + stack;
    Parts { whole: Some(whole), schedule: Some(schedule), wire: Some(wire), host: Some(host), stack: Some(stack) }
}

/// In µs: hand-over 151 (1 late) in cycle 0, launch 400 left 403 (2 late, 1 stack), arrives 408, read 504 (3 late, 1
/// stack), answered 655 (5 late), launch 900 left 907 (4 late, 3 stack), arrives 910, read 1008 (6 late, 2 stack).
const T: [i64; 8] = [151, 403, 408, 504, 655, 907, 910, 1_008];

fn late(side: Side, cycle: i64, phase: Phase) -> i64 {
    1_000
        * match (side, cycle, phase) {
            (Side::Writer, 0, Phase::Publish) => 1,
            (Side::Writer, 1, Phase::Launch) => 2,
            (Side::Reader, 2, Phase::Subscribe) => 3,
            (Side::Reader, 2, Phase::Publish) => 5,
            (Side::Reader, 3, Phase::Launch) => 4,
            (Side::Writer, 4, Phase::Subscribe) => 6,
            _ => 0,
        }
}

fn stamps(us: [i64; 8]) -> [Option<i64>; 8] {
    us.map(|at| Some(at * 1_000))
}

fn usual() -> Trace {
    let mut trace = Trace::default();
    trace.phases(0..6, late);
    trace.message(1, Some(400_000), stamps(T));
    trace
}

#[test]
fn every_part_gets_its_own() {
    // Schedule: 249 to the launch, 92 to the window, 396 from decoded to the launch (which absorbs the late publish
    // phase), 90 to the window. Wire 5 + 3. Host 2 + 3 + 4 + 6. Stack 1 + 1 + 3 + 2.
    assert_eq!(usual().parts(&scenario(0)), parts(827_000, 8_000, 15_000, 7_000));
}

#[test]
fn without_launch_time_the_publish_phases_count() {
    let mut scenario = scenario(0);
    scenario.streams[0].launch = false;
    let mut trace = Trace::default();
    trace.phases(
        0..6,
        |side, cycle, phase| {
            if (side, cycle, phase) == (Side::Reader, 1, Phase::Publish) { 5_000 } else { 0 }
        },
    );
    // Handed over 151, left 153; read 253, answered 405 (5 late), left 408, read 506 (6 stack).
    trace.message(1, None, stamps([151, 153, 158, 253, 405, 408, 410, 506]));
    // Schedule: 92 to the window, 147 to the publish phase, 90 to the window; host: 5 of the publish phase.
    assert_eq!(trace.parts(&scenario), parts(92_000 + 147_000 + 90_000, 7_000, 5_000, 2_000 + 3_000 + 3_000 + 6_000));
}

#[test]
fn an_open_window_reads_at_once() {
    let mut scenario = scenario(0);
    scenario.streams[0].echo = false;
    let mut trace = Trace::default();
    // The subscribe phase of cycle 1 is 20 µs late; the message arrives 8 µs after it was due.
    trace.phases(
        0..4,
        |side, cycle, phase| {
            if (side, cycle, phase) == (Side::Reader, 1, Phase::Subscribe) { 20_000 } else { 0 }
        },
    );
    let launch = CYCLE;
    trace.phase(Side::Writer, 1, Phase::Launch, launch, 0, 1_000);
    trace.message(
        1,
        Some(launch),
        [150_000, launch + 1_000, launch + 8_000, launch + 23_000]
            .map(Some)
            .into_iter()
            .chain([None; 4])
            .collect::<Vec<_>>()
            .try_into()
            .unwrap(),
    );
    assert_eq!(trace.parts(&scenario), parts(100_000, 7_000, 12_000, 1_000 + 3_000));
}

#[test]
fn cycles_left_out_are_the_hosts() {
    // The reader stands still in cycles 2 and 3 and reads in cycle 4, 3 µs late and with 1 µs of stack.
    let mut trace = Trace::default();
    trace.phases(0..2, |_, _, _| 0);
    trace.phases(4..8, |side, cycle, phase| late(side, cycle - 2, phase));
    trace.skip(Side::Reader, 2, 2);
    let [t1, t2, t3, ..] = T;
    trace.message(1, Some(400_000), stamps([t1, t2, t3, 1_004, 1_155, 1_407, 1_410, 1_508]));
    // Two cycles more than usual; the writer's launch phases were punctual, so its 3 µs are stack.
    let expected = parts(827_000, 8_000, 500_000 + 3_000 + 4_000 + 6_000, 3_000 + 1_000 + 3_000 + 2_000);
    assert_eq!(trace.parts(&scenario(0)), expected);

    // It reads in time, but leaves out the application and publish phases of cycle 2 and all of cycle 3.
    let mut trace = Trace::default();
    trace.phases(0..2, |_, _, _| 0);
    trace.phases(4..8, |_, _, _| 0);
    trace.phase(Side::Reader, 2, Phase::Subscribe, 500_000, 0, 1_000);
    trace.skip(Side::Reader, 2, 2);
    trace.message(1, Some(400_000), stamps([t1, t2, t3, 501, 1_150, 1_400, 1_403, 1_500]));
    let found = trace.parts(&scenario(0));
    assert_eq!((found.wire, found.stack), (Some(8_000), Some(4_000)));
    assert_eq!(found.host, Some(499_000), "all but the microsecond that the reader's stack took of its slack");
}

#[test]
fn a_dropped_answer_is_the_hosts() {
    // Answered in time, but the reader stands still over the launch and drops it; a repeat comes back two cycles later.
    let mut trace = Trace::default();
    trace.phases(0..3, |_, _, _| 0);
    trace.phases(5..8, |_, _, _| 0);
    trace.skip(Side::Reader, 3, 2);
    trace.skip(Side::Writer, 3, 2);
    trace.message(
        1,
        Some(400_000),
        stamps([150, 400, 403, 500, 650, 0, 1_403, 1_500]).map(|at| at.filter(|at| *at > 0)),
    );
    let found = trace.parts(&scenario(0));
    // It was wanted at 900 and was on its way at the latest at 1403; without T6 wire and stack are not known.
    assert_eq!((found.schedule, found.host), (Some(250_000 + 97_000 + 400_000 + 97_000), Some(503_000)));
    assert_eq!((found.wire, found.stack), (None, None));
}

#[test]
fn a_queue_that_nobody_was_late_for_is_of_the_stack() {
    // Read in its window, answered one cycle later than the plan has it, all phases punctual.
    let mut trace = Trace::default();
    trace.phases(0..8, |_, _, _| 0);
    trace.message(1, Some(400_000), stamps([150, 400, 403, 500, 900, 1_150, 1_153, 1_250]));
    assert_eq!(trace.parts(&scenario(0)), parts(250_000 + 97_000 + 400_000 + 97_000, 6_000, 0, 250_000));
    // Missed its window by a hair: a cycle in the socket, and nobody was late.
    let mut trace = Trace::default();
    trace.phases(0..8, |_, _, _| 0);
    trace.message(1, Some(400_000), stamps([150, 400, 499, 750, 900, 1_150, 1_153, 1_250]));
    assert_eq!(trace.parts(&scenario(0)), parts(250_000 + 1_000 + 400_000 + 97_000, 99_000 + 3_000, 0, 250_000));
}

#[test]
fn lateness_that_costs_an_application_phase_is_charged_with_the_cycle() {
    // Read 80 µs late, after the application of cycle 2 had run: answered a cycle later than by plan.
    let mut trace = Trace::default();
    trace.phases(
        0..8,
        |side, cycle, phase| {
            if (side, cycle, phase) == (Side::Reader, 2, Phase::Subscribe) { 80_000 } else { 0 }
        },
    );
    trace.message(1, Some(400_000), stamps([150, 400, 403, 581, 900, 1_150, 1_153, 1_250]));
    // Waits: 250 + 97 + 400 + 97 as by plan, no more; 250 later, all but 1 µs of it the host's.
    assert_eq!(trace.parts(&scenario(0)), parts(844_000, 6_000, 249_000, 1_000));
    // The same 80 µs spent by the stack.
    let mut trace = Trace::default();
    trace.phases(0..8, |_, _, _| 0);
    trace.message(1, Some(400_000), stamps([150, 400, 403, 581, 900, 1_150, 1_153, 1_250]));
    assert_eq!(trace.parts(&scenario(0)), parts(844_000, 6_000, 0, 250_000));
}

#[test]
fn what_is_not_known_is_absent() {
    let scenario = scenario(0);
    let with = |change: &dyn Fn(&mut [Option<i64>; 8])| {
        let mut trace = Trace::default();
        trace.phases(0..6, late);
        let mut t = stamps(T);
        change(&mut t);
        trace.message(1, Some(400_000), t);
        trace.parts(&scenario)
    };
    let whole = Some(857_000);
    // No transmit stamps: waits and lateness are known, the wire and hence the rest are not.
    let found = with(&|t| (t[1], t[5]) = (None, None));
    assert_eq!(found, Parts { whole, schedule: Some(827_000), wire: None, host: Some(15_000), stack: None });
    // No receive stamps: nobody knows how long it waited for the window.
    assert_eq!(with(&|t| t[2] = None), Parts { whole, ..Parts::default() });
    assert_eq!(with(&|t| t[6] = None), Parts { whole, ..Parts::default() });
    // It did not come back.
    assert_eq!(with(&|t| (t[6], t[7]) = (None, None)), Parts::default());
    // Clocks that disagree.
    assert_eq!(with(&|t| t[2] = Some(300_000)), Parts { whole, ..Parts::default() });

    // No event of a phase on the way: its lateness is not known.
    for (side, cycle, phase) in [
        (Side::Writer, 1, Phase::Launch),
        (Side::Reader, 2, Phase::Subscribe),
        (Side::Reader, 2, Phase::Publish),
        (Side::Reader, 3, Phase::Launch),
        (Side::Writer, 4, Phase::Subscribe),
    ] {
        let mut trace = usual();
        trace.exchange.events.retain(|event| {
            event.side != side
                || !matches!(event.kind, EventKind::Phase { cycle: c, phase: p, .. } if (c, p) == (cycle, phase))
        });
        let found = trace.parts(&scenario);
        let expected = Parts { whole, schedule: Some(827_000), wire: Some(8_000), host: None, stack: None };
        assert_eq!(found, expected, "{side:?} {cycle} {phase:?}");
    }
    // Launches that are no phase of the host: what they take is of the stack.
    let mut trace = usual();
    trace.exchange.events.retain(|event| !matches!(event.kind, EventKind::Phase { phase: Phase::Launch, .. }));
    assert_eq!(trace.parts(&scenario), parts(827_000, 8_000, 9_000, 13_000));
    // No phases at all: the plan cannot be laid beside the trace.
    let mut trace = usual();
    trace.exchange.events.retain(|event| !matches!(event.kind, EventKind::Phase { .. }));
    assert_eq!(trace.parts(&scenario), Parts { whole, wire: None, ..Parts::default() });
}

proptest! {
    #[test]
    fn parts_never_exceed_the_whole(
        gaps in proptest::collection::vec(0..400_000_i64, 8),
        absent in proptest::collection::vec(0..8_usize, 0..2),
        late in proptest::collection::vec(0..500_000_i64, 64),
        missing in proptest::collection::vec(0..64_usize, 0..4),
        skips in proptest::collection::vec((0..12_i64, 1..4_u32), 0..3),
        (launch, has_launch, echo) in (0..800_000_i64, any::<bool>(), any::<bool>()),
    ) {
        let mut scenario = scenario(0);
        (scenario.streams[0].launch, scenario.streams[0].echo) = (has_launch, echo);
        let mut trace = Trace::default();
        trace.phases(0..12, |_, cycle, phase| late[(cycle as usize * 4 + phase as usize) % late.len()]);
        let mut number = 0;
        trace.exchange.events.retain(|_| {
            number += 1;
            !missing.contains(&number)
        });
        skips.iter().for_each(|&(cycle, cycles)| trace.skip(Side::Reader, cycle, cycles));
        let mut at = 0;
        let mut t: Vec<_> = gaps.iter().map(|gap| { at += gap; Some(at) }).collect();
        absent.iter().for_each(|&index| t[index] = None);
        // What nobody handed over or decoded leaves no row.
        (t[0], t[3]) = (Some(gaps[0]), Some(gaps[..4].iter().sum()));
        trace.message(1, has_launch.then_some(launch), t.try_into().unwrap());
        let Parts { whole, schedule, wire, host, stack } = trace.parts(&scenario);
        let all = [schedule, wire, host, stack];
        prop_assert!(all.iter().flatten().all(|&part| part >= 0), "{all:?}");
        match (whole, all.iter().copied().sum::<Option<i64>>()) {
            (Some(whole), Some(sum)) => prop_assert_eq!(sum, whole),
            (Some(whole), None) => prop_assert!(stack.is_none() && all.iter().flatten().sum::<i64>() <= whole),
            (None, _) => prop_assert_eq!(all, [None; 4]),
        }
    }
}

#[test]
fn results_keep_their_explanation() {
    let run = usual().exchange.summarise(&scenario(0));
    let text = serde_json::to_string(&run).unwrap();
    assert!(
        text.contains(r#""worst":[{"counter":1,"cycle":0,"whole_ns":857000,"schedule_ns":827000,"stack_ns":7000,"#),
        "{text}"
    );
    assert!(text.contains(r#""t1":151000,"#) && text.contains(r#""seed_001_best":5,"seed_001_worst":9"#), "{text}");
    assert_eq!(serde_json::from_str::<RunFile>(&text).unwrap(), run);
    let split = run.streams[0].split.as_ref().unwrap();
    assert_eq!(split.median, split.worst.first().cloned());
    // Results of before have none of it, and are read.
    let mut value: serde_json::Value = serde_json::from_str(&text).unwrap();
    for key in ["split", "counter_reference", "margins"] {
        value["streams"][0].as_object_mut().unwrap().remove(key).unwrap();
    }
    let before: RunFile = serde_json::from_value(value).unwrap();
    assert!(before.streams[0].split.is_none() && before.streams[0].margins.is_empty());
}
