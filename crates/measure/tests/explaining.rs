//! What a message's time consists of, standing backlogs, and safety margins, where the answer is known.

mod common;

use common::{CYCLE, Exchange, scenario};
use downbeat_measure::{EventKind, Kind, Machine, Observations, Parts, Phase, RunFile, Side, summarise};
use proptest::prelude::*;
use scenario::{Fraction, Scenario};
use units::{Nanos, Tai};

/// Phases of the scenario within the cycle: subscribe 0 with a window of 50 µs, application 75 µs, publish 150 µs; the
/// launch is 150 µs into the next cycle.
const OFFSETS: [i64; 4] = [0, 75_000, 150_000, 150_000];

/// A trace in which every instant is chosen.
#[derive(Default)]
struct Trace {
    exchange: Exchange,
    handles: [u32; 2],
}

impl Trace {
    /// Both ends run their phases in these cycles, `late` after each was due.
    fn phases(&mut self, cycles: std::ops::Range<i64>, late: impl Fn(Side, i64, Phase) -> i64) {
        for cycle in cycles {
            for side in [Side::Writer, Side::Reader] {
                for (phase, offset) in Phase::ALL.into_iter().zip(OFFSETS) {
                    self.phase(side, cycle, phase, cycle * CYCLE + offset, late(side, cycle, phase), 1_000);
                }
            }
        }
    }

    fn phase(&mut self, side: Side, cycle: i64, phase: Phase, due: i64, late: i64, took: i64) {
        let (due, late, took) = (Tai(due), Nanos(late), Nanos(took));
        self.exchange.push(side, EventKind::Phase { cycle, phase, due, late, took });
    }

    fn skip(&mut self, side: Side, cycle: i64, cycles: u32) {
        self.exchange.push(side, EventKind::Skipped { cycle, cycles });
    }

    /// A message with these stamps; what is `None` was not stamped.
    fn message(&mut self, counter: u64, launch: Option<i64>, t: [Option<i64>; 8]) {
        for (side, out, home) in [(Side::Writer, 0, 6), (Side::Reader, 4, 2)] {
            let handle = self.handles[side as usize];
            self.handles[side as usize] += 1;
            if let Some(at) = t[out] {
                self.exchange.push(
                    side,
                    EventKind::Published {
                        cycle: at.div_euclid(CYCLE),
                        counter,
                        sequence: counter as u16,
                        handle,
                        at: Tai(at),
                        launch: launch.map(Tai),
                        bytes: 77,
                        repeated: false,
                    },
                );
            }
            if let Some(at) = t[out + 1] {
                self.exchange.push(side, EventKind::Left { handle, at: Tai(at) });
            }
            if let Some(decoded) = t[home + 1] {
                self.exchange.push(
                    side,
                    EventKind::Arrived {
                        cycle: decoded.div_euclid(CYCLE),
                        counter,
                        stamp: t[home].map(Tai),
                        decoded: Tai(decoded),
                        tag: Some((3000, 7)),
                        superseded: None,
                        inconsistent: false,
                    },
                );
            }
        }
    }

    fn parts(&self, scenario: &Scenario) -> Parts {
        let observations = self.exchange.observe(scenario);
        assert_eq!(observations.rows.len(), 1);
        observations.streams[0].parts[0]
    }
}

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

/// Readings at the writer, by cycle, and phases that are punctual but for `late`.
fn readings(parts: &[(i64, u64)], late: &[(i64, i64)]) -> (Observations, RunFile) {
    let scenario = scenario(0);
    let mut exchange = Exchange::default();
    let mut cycle = 10;
    for &(count, elapsed) in parts {
        for _ in 0..count {
            exchange.read_back(cycle, cycle as u64, elapsed);
            let late = late.iter().find(|(at, _)| *at == cycle).map_or(500, |&(_, late)| late);
            exchange.phase(cycle, 500, late);
            cycle += 1;
        }
    }
    let observations = exchange.observe(&scenario);
    let run = summarise(&scenario, &observations, Kind::Measured, Machine::new());
    (observations, run)
}

fn backlogs(parts: &[(i64, u64)], late: &[(i64, i64)]) -> Vec<(i64, u64, String)> {
    let found = readings(parts, late).1.incidents;
    let backlogs = found.into_iter().filter(|incident| incident.kind == "standing-backlog");
    backlogs.map(|incident| (incident.at_ns / CYCLE, incident.frames, incident.cause)).collect()
}

#[test]
fn a_backlog_is_named_with_its_hiccup_and_its_end() {
    assert_eq!(backlogs(&[(400, 4)], &[]), []);
    assert_eq!(backlogs(&[(400, 4)], &[(200, 180_000)]), []);
    for (elapsed, queue) in [(5, "1 message "), (7, "3 messages ")] {
        let found = backlogs(&[(190, 4), (200, elapsed)], &[(199, 180_000)]);
        assert_eq!((found.len(), found[0].0, found[0].1), (1, 200, 200), "{found:?}");
        let cause = &found[0].2;
        assert!(cause.contains(&format!("after {elapsed} instead of 4 cycles, to the end of the run")), "{cause}");
        assert!(cause.contains("the subscribe phase of loop was 180 µs late in cycle 199"), "{cause}");
        assert!(cause.contains(&format!("a queue of {queue}")) && cause.contains("`backlog = \"drain\"`"), "{cause}");
    }
    let drained = backlogs(&[(190, 4), (100, 5), (100, 4)], &[]);
    assert_eq!((drained[0].0, drained[0].1), (200, 100));
    assert!(drained[0].2.contains("to cycle 299, when it drained"), "{}", drained[0].2);
    assert!(drained[0].2.contains("no phase was late before it"), "{}", drained[0].2);
    let two = backlogs(&[(190, 4), (60, 5), (60, 6), (60, 4)], &[(199, 180_000), (258, 170_000)]);
    assert_eq!(two.iter().map(|(at, frames, _)| (*at, *frames)).collect::<Vec<_>>(), [(200, 60), (260, 60)]);
    assert!(two[0].2.contains("to cycle 259, when it changed") && two[0].2.contains("in cycle 199"), "{}", two[0].2);
    assert!(two[1].2.contains("6 instead of 4") && two[1].2.contains("in cycle 258"), "{}", two[1].2);
}

#[test]
fn a_schedule_of_its_own_and_late_hosts_are_no_backlog() {
    // From the start: with nothing late before, that is how the schedule is.
    assert_eq!(backlogs(&[(400, 6)], &[]), []);
    assert_eq!(backlogs(&[(100, 6), (400, 4)], &[]), []);
    let start = backlogs(&[(100, 6), (400, 4)], &[(10, 180_000)]);
    assert_eq!((start.len(), start[0].0, start[0].1), (1, 10, 100), "{start:?}");
    // A message on the boundary of a cycle, late by itself.
    let jitter: Vec<(i64, u64)> = (0..400).map(|k| (1, 4 + k % 3 / 2)).collect();
    assert_eq!(backlogs(&jitter, &[]), []);
    // A host that is late all the time is no standing backlog.
    let late: Vec<(i64, i64)> = (200..400).map(|cycle| (cycle, 180_000)).collect();
    assert_eq!(backlogs(&[(190, 4), (200, 5)], &late), []);
    // Shortly before the end it takes a late host to call it one.
    assert_eq!(backlogs(&[(190, 4), (10, 5)], &[]), []);
    assert_eq!(backlogs(&[(190, 4), (10, 5)], &[(198, 180_000)]).len(), 1);
}

#[test]
fn a_backlog_without_an_echo_is_seen_at_the_reader() {
    let mut scenario = scenario(0);
    scenario.streams[0].echo = false;
    let mut trace = Trace::default();
    trace.phases(
        0..400,
        |side, cycle, phase| {
            if (side, cycle, phase) == (Side::Reader, 201, Phase::Subscribe) { 200_000 } else { 0 }
        },
    );
    for cycle in 0..300_i64 {
        let launch = (cycle + 1) * CYCLE + 150_000;
        let read = (cycle + if cycle < 200 { 2 } else { 3 }) * CYCLE + 5_000;
        let t = [Some(launch - CYCLE), Some(launch), Some(launch + 3_000), Some(read), None, None, None, None];
        trace.message(cycle as u64 + 1, Some(launch), t);
    }
    let found = trace.exchange.summarise(&scenario).incidents;
    let found: Vec<_> = found.iter().filter(|incident| incident.kind == "standing-backlog").collect();
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].at_ns / CYCLE, found[0].frames), (203, 100));
    assert!(found[0].cause.contains("messages are read after 3 instead of 2 cycles"), "{}", found[0].cause);
    assert!(found[0].cause.contains("late in cycle 201"), "{}", found[0].cause);
}

#[test]
fn margins_say_what_is_left_and_what_would_hold() {
    let mut trace = Trace::default();
    // The application of the reader takes 70 µs once in cycle 7, and is 20 µs late in cycle 9.
    for cycle in 0..100 {
        for (side, late, took) in [(Side::Writer, 2_000, 3_000), (Side::Reader, 4_000, 6_000)] {
            trace.phase(side, cycle, Phase::Subscribe, cycle * CYCLE, late, took);
            let reader = side == Side::Reader;
            let took = if reader && cycle == 7 { 70_000 } else { 5_000 };
            let late = if reader && cycle == 9 { 20_000 } else { 1_000 };
            trace.phase(side, cycle, Phase::Application, cycle * CYCLE + 75_000, late, took);
        }
    }
    let scenario = scenario(0);
    let run = trace.exchange.summarise(&scenario);
    let margins = &run.streams[0].margins;
    let reader = margins.reader.as_ref().unwrap();
    let transfer = reader.transfer_safety_margin.as_ref().unwrap();
    assert_eq!((transfer.configured_ns, transfer.found_ns, transfer.violated), (75_000, 65_000, 0));
    assert_eq!((transfer.configured_share, transfer.found_share, transfer.count), (0.3, 0.26, 100));
    let application = reader.application_safety_margin.as_ref().unwrap();
    // The largest of both together, though they were never together: 75 − 20 − 70.
    assert_eq!((application.found_ns, application.violated), (-15_000, 0));
    assert_eq!((application.late_max_ns, application.took_max_ns), (20_000, 70_000));
    // The window closes at 50 µs: no earlier. 50 + 90 µs are 0.56 of the cycle.
    let smallest = &reader.smallest_phases[0];
    assert_eq!((smallest.application, smallest.publish), (Some(0.2), Some(0.56)));
    assert!(
        reader.advice.starts_with("application = 0.2, publish = 0.56 would hold with the largest"),
        "{}",
        reader.advice
    );
    assert_eq!(margins.writer.as_ref().unwrap().host, "pub");

    // With a poll the reading itself decides: 10 µs are 0.04.
    let mut poll = scenario.clone();
    poll.hosts.iter_mut().for_each(|host| host.phases.window = Fraction(0));
    let run = trace.exchange.summarise(&poll);
    let smallest = &run.streams[0].margins.reader.as_ref().unwrap().smallest_phases;
    assert_eq!((smallest[0].application, smallest[0].publish), (Some(0.04), Some(0.4)));

    // Without an echo the writer reads nothing and the reader publishes nothing.
    let mut one_way = scenario.clone();
    one_way.streams[0].echo = false;
    let run = trace.exchange.summarise(&one_way);
    let margins = &run.streams[0].margins;
    assert!(margins.reader.as_ref().unwrap().application_safety_margin.is_none());
    assert!(margins.writer.as_ref().unwrap().transfer_safety_margin.is_none());
    assert!(run.streams[0].counter_reference.is_none());
    // Phases too long for any cycle.
    trace.phase(Side::Reader, 100, Phase::Application, 100 * CYCLE + 75_000, 100_000, 200_000);
    let run = trace.exchange.summarise(&scenario);
    let reader = run.streams[0].margins.reader.as_ref().unwrap();
    assert_eq!(reader.application_safety_margin.as_ref().unwrap().violated, 1);
    assert!(
        reader.advice.starts_with("no phases within the cycle would hold with the largest values"),
        "{}",
        reader.advice
    );
    assert!(reader.smallest_phases[0].publish.is_none());
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
