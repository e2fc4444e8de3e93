//! Standing backlogs and safety margins, where the answer is known.

mod common;

use common::trace::Trace;
use common::{CYCLE, Exchange, scenario};
use downbeat_measure::{DrainCause, EventKind, Kind, Machine, Observations, Phase, RunFile, Side, summarise};
use scenario::Fraction;
use units::Tai;

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
fn a_drain_that_ended_a_backlog_is_named_with_its_cause() {
    let run = |readings: &[(i64, u64)], cause, at: i64, drain_after: u32| {
        let mut scenario = scenario(0);
        scenario.backlog = scenario::Backlog::Keep { drain_after: std::num::NonZeroU32::new(drain_after) };
        let mut exchange = Exchange::default();
        let mut cycle = 10;
        for &(count, elapsed) in readings {
            for _ in 0..count {
                exchange.read_back(cycle, cycle as u64, elapsed);
                exchange.phase(cycle, 500, 500);
                cycle += 1;
            }
        }
        exchange.push(Side::Reader, EventKind::Drained { cycle: at, at: Tai(at * CYCLE), messages: 3, cause });
        exchange.push(Side::Writer, EventKind::Drained { cycle: at, at: Tai(at * CYCLE), messages: 0, cause });
        let run = exchange.summarise(&scenario);
        let drains = &run.streams[0].drains;
        let ends: Vec<_> = drains.iter().map(|end| (end.end.as_str(), end.messages, end.empty)).collect();
        assert_eq!(ends, [("writer", 0, 1), ("reader", 3, 0)]);
        let found = run.incidents.into_iter().filter(|incident| incident.kind == "standing-backlog");
        found.map(|incident| (incident.at_ns / CYCLE, incident.cause)).collect::<Vec<_>>()
    };
    let standing = DrainCause::Standing { late: 3 };
    let long = [(190, 4), (100, 7), (100, 4)];
    let found = run(&long, DrainCause::Asked { number: 1 }, 298, 0);
    assert!(
        found.len() == 1
            && found[0].1.contains("loop was asked to drain its queue and read 3 messages more in cycle 298"),
        "{found:?}"
    );
    let found = run(&long, standing, 298, 100);
    assert!(
        found.len() == 1 && found[0].1.contains("loop drained its queue by itself (`drain_after = 100`) and"),
        "{found:?}"
    );
    // Too short to be seen in the readings, it is named all the same.
    let found = run(&[(190, 4), (5, 7), (100, 4)], standing, 204, 5);
    assert_eq!((found.len(), found[0].0), (1, 200), "{found:?}");
    assert!(
        found[0].1.contains("loop read messages late by 3 cycles in 5 cycles on end (`drain_after = 5`)"),
        "{found:?}"
    );
    assert_eq!(run(&[(190, 4), (5, 7), (100, 4)], DrainCause::Asked { number: 1 }, 204, 0), []);
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
