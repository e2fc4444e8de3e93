//! What two hosts have measured, joined, against what one collector of all events gives.

mod common;

use std::path::{Path, PathBuf};

use common::trace::Trace;
use common::{CYCLE, Exchange, Fate, scenario};
use downbeat_measure::{
    Collector, Event, EventKind, JoinError, Joined, Kind, Machine, Phase, Side, flags, join_folders, summarise,
    write_run,
};
use proptest::prelude::*;
use scenario::{Limit, LimitValue, Quantity, Scenario};
use units::{Nanos, Tai};

/// Writes what one side has, `earlier` cycles before the other one began to count.
fn half(dir: &Path, scenario: &Scenario, side: Side, events: &[Event], begun: i64) {
    let mut collector = Collector::of_ends(scenario, |_, end| end == side);
    events.iter().filter(|event| event.side == side).for_each(|event| collector.push(*event));
    let machine = || {
        let mut machine = Machine::new();
        machine.insert("first_cycle_at_ns".into(), begun.into());
        machine.insert("role".into(), side_of(side).into());
        machine
    };
    collector.write_ends(dir, scenario).unwrap();
    let seen = collector.finish(scenario);
    write_run(dir, scenario, &summarise(scenario, &seen, Kind::Measured, machine()), &seen.rows).unwrap();
}

fn side_of(side: Side) -> &'static str {
    if side == Side::Writer { "publish" } else { "loopback" }
}

fn halves(scenario: &Scenario, events: &[Event]) -> (tempfile::TempDir, [PathBuf; 2]) {
    let folder = tempfile::tempdir().unwrap();
    let dirs = ["pub", "loop"].map(|name| folder.path().join(name));
    for (dir, side) in dirs.iter().zip([Side::Writer, Side::Reader]) {
        half(dir, scenario, side, events, 0);
    }
    (folder, dirs)
}

fn join(scenario: &Scenario, events: &[Event], error: Nanos) -> Joined {
    let (_folder, dirs) = halves(scenario, events);
    join_folders(&dirs, error).unwrap()
}

fn refusal(dirs: &[PathBuf]) -> String {
    let error = join_folders(dirs, Nanos::ZERO).unwrap_err();
    assert!(matches!(error, JoinError::Results(_) | JoinError::Refused { .. }));
    error.to_string()
}

/// A scenario that was read, so that its text is that of the model.
fn read(text: &str) -> Scenario {
    scenario::read(text, "test.toml").unwrap()
}

fn two_hosts() -> Scenario {
    read(scenario::template("two-hosts").unwrap())
}

/// Both ends run all their phases, late now and then, and messages meet their fates.
fn events(fates: &[Fate], late: &[u32]) -> Vec<Event> {
    let mut exchange = Exchange::run(fates.len() as u64, |counter| fates[counter as usize - 1]);
    // Beyond whatever else is told: ends that stop one after the other are another test's.
    let last = 240;
    let late = |cycle: i64, side: Side| {
        let index = 2 * cycle as usize + side as usize;
        i64::from(late[index % late.len()])
    };
    let mut trace = Trace::default();
    trace.phases(0..last, |side, cycle, phase| if phase == Phase::Publish { late(cycle, side) } else { 0 });
    exchange.events.extend(trace.exchange.events);
    exchange.events
}

fn fate() -> impl Strategy<Value = Fate> {
    use Fate::*;
    prop_oneof![20 => Just(Fine), 1 => prop::sample::select(vec![NotSent, Dropped, LostOut, AnswerDropped, LostBack])]
}

fn stray() -> impl Strategy<Value = (bool, EventKind)> {
    let at = 0..200i64;
    let kind = prop_oneof![
        (at.clone(), 1..400u32).prop_map(|(at, stale)| {
            let frames = downbeat_measure::Refused { stale, foreign: stale / 3, ..Default::default() };
            EventKind::Refused { at: Tai(at * CYCLE), frames }
        }),
        (at.clone(), 1..9i32).prop_map(|(at, errno)| EventKind::ReceiveFailed { at: Tai(at * CYCLE), errno }),
        (at.clone(), any::<i32>())
            .prop_map(|(at, by)| EventKind::ClockStepped { at: Tai(at * CYCLE), by: Nanos(by.into()) }),
        (at.clone(), 1..5u32).prop_map(|(cycle, cycles)| EventKind::Skipped { cycle, cycles }),
        (at, any::<Option<u64>>(), 0..3u64).prop_map(|(cycle, read, missed)| EventKind::Application {
            cycle,
            wrote: None,
            read,
            repeated: read.is_none(),
            missed,
            round_trip_cycles: read.map(|read| read % 9),
        }),
        (0..220i64, 1..250u64, 0..5i64, any::<bool>()).prop_map(|(cycle, counter, late, inconsistent)| {
            let decoded = Tai(cycle * CYCLE + 90_000 + late);
            let tag = (late > 0).then_some((3000, 7));
            EventKind::Arrived { cycle, counter, stamp: None, decoded, tag, superseded: None, inconsistent }
        }),
    ];
    (any::<bool>(), kind)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn halves_joined_are_the_whole(
        fates in prop::collection::vec(fate(), 20..200),
        late in prop::collection::vec(prop_oneof![9 => 0..20_000u32, 1 => 100_000..1_000_000u32], 30..60),
        strays in prop::collection::vec(stray(), 0..20),
    ) {
        let scenario = two_hosts();
        let mut events = events(&fates, &late);
        events.extend(strays.into_iter().map(|(reader, kind)| Event {
            stream: 0,
            side: if reader { Side::Reader } else { Side::Writer },
            kind,
        }));
        let mut collector = Collector::new(&scenario);
        events.iter().for_each(|event| collector.push(*event));
        let whole = collector.finish(&scenario);
        let mut joined = join(&scenario, &events, Nanos(i64::MAX));
        prop_assert_eq!(&joined.rows, &whole.rows);
        joined.run.machine = Machine::new();
        let expected = summarise(&scenario, &whole, Kind::Measured, Machine::new());
        prop_assert_eq!(&joined.run.streams, &expected.streams);
        prop_assert_eq!(&joined.run.hosts, &expected.hosts);
        for (found, expected) in joined.run.incidents.iter().zip(&expected.incidents) {
            prop_assert_eq!(found, expected);
        }
        prop_assert_eq!(joined.run.incidents.len(), expected.incidents.len());
        prop_assert_eq!(&joined.run.incidents_left_out, &expected.incidents_left_out);
    }
}

#[test]
fn an_end_that_was_not_there_loses_nothing() {
    let scenario = two_hosts();
    let events = events(&[Fate::Fine; 200], &[0]);
    let cycle_of = |event: &Event| match event.kind {
        EventKind::Published { at, .. } | EventKind::Left { at, .. } => at.0.div_euclid(CYCLE),
        EventKind::Arrived { cycle, .. } | EventKind::Application { cycle, .. } => cycle,
        EventKind::Phase { cycle, .. } => cycle,
        _ => 0,
    };
    // The reader came in cycle 50 and went in cycle 150.
    let kept: Vec<_> = events
        .iter()
        .filter(|event| event.side == Side::Writer || (50..150).contains(&cycle_of(event)))
        .filter(|event| {
            let gone = event.side == Side::Writer && matches!(event.kind, EventKind::Arrived { .. });
            !gone || (54..150).contains(&cycle_of(event))
        })
        .copied()
        .collect();
    let joined = join(&scenario, &kept, Nanos::ZERO);
    let stream = &joined.run.streams[0];
    assert_eq!((stream.frames, stream.loss.dSum), (200, Some(0)), "{:?}", stream.loss);
    assert!(stream.loss.unknown > 80 && stream.loss.published > 80, "{:?}", stream.loss);
    assert!(stream.one_way.as_ref().unwrap().count > 80);
    assert!(joined.run.incidents.iter().all(|incident| incident.kind != "trace-missing"), "{:?}", joined.run.incidents);
}

#[test]
fn cycles_are_put_on_one_count() {
    let scenario = two_hosts();
    let events = events(&[Fate::Fine; 100], &[0]);
    let folder = tempfile::tempdir().unwrap();
    let dirs = ["pub", "loop"].map(|name| folder.path().join(name));
    half(&dirs[0], &scenario, Side::Writer, &events, 0);
    // The reader's cycles count from its own start, seven of the scenario's cycles later.
    let by = 7;
    let cycle = scenario.streams[0].cycle.0;
    let shifted: Vec<_> = events
        .iter()
        .map(|event| {
            let kind = match event.kind {
                EventKind::Arrived { cycle, counter, stamp, decoded, tag, superseded, inconsistent } => {
                    EventKind::Arrived { cycle: cycle - by, counter, stamp, decoded, tag, superseded, inconsistent }
                }
                EventKind::Phase { cycle, phase, due, late, took } => {
                    EventKind::Phase { cycle: cycle - by, phase, due, late, took }
                }
                other => other,
            };
            Event { kind, ..*event }
        })
        .collect();
    half(&dirs[1], &scenario, Side::Reader, &shifted, by * cycle);
    let joined = join_folders(&dirs, Nanos::ZERO).unwrap();
    let expected = join(&scenario, &events, Nanos::ZERO);
    assert_eq!(joined.rows, expected.rows);
    assert_eq!(joined.run.streams, expected.run.streams);
}

#[test]
fn clocks_that_disagree_are_told_and_limits_are_met_with_the_error_added() {
    let mut scenario = two_hosts();
    scenario.requirement = vec![Limit { quantity: Quantity::OneWay, value: LimitValue::Span(Nanos(1_500)) }];
    let events = events(&[Fate::Fine; 100], &[0]);
    // The reader's clock is 5 µs behind: messages take 1 µs and arrive 4 µs before they left.
    let behind: Vec<_> = events
        .iter()
        .map(|event| {
            let kind = match event.kind {
                EventKind::Arrived { cycle, counter, stamp, decoded, tag, superseded, inconsistent }
                    if event.side == Side::Reader =>
                {
                    let stamp = stamp.map(|at| at - Nanos(5_000));
                    EventKind::Arrived { cycle, counter, stamp, decoded, tag, superseded, inconsistent }
                }
                other => other,
            };
            Event { kind, ..*event }
        })
        .collect();
    let told = |events: &[Event], error: i64| {
        let joined = join(&scenario, events, Nanos(error));
        assert_eq!(joined.run.machine["clock_error_ns"], error);
        let found = joined.run.incidents.into_iter().filter(|incident| incident.kind == "clock-disagreement");
        found.collect::<Vec<_>>()
    };
    assert!(told(&events, 0).is_empty() && told(&behind, 4_000).is_empty());
    let found = told(&behind, 3_999);
    assert_eq!((found.len(), found[0].frames), (1, 100));
    assert!(found[0].cause.contains("loop was behind that of pub"), "{}", found[0].cause);
}

#[test]
fn what_does_not_belong_together_is_refused_in_words() {
    let scenario = two_hosts();
    let events = events(&[Fate::Fine; 50], &[0]);
    let (folder, [writer, reader]) = halves(&scenario, &events);
    let path = |name: &str| folder.path().join(name);
    let said = |dirs: &[&PathBuf], words: &[&str]| {
        let text = refusal(&dirs.iter().map(|dir| (*dir).clone()).collect::<Vec<_>>());
        for word in words {
            assert!(text.contains(word), "no `{word}` in {text}");
        }
    };
    said(&[&writer, &writer], &["both hold the writer of stream"]);
    said(&[&writer, &path("nothing")], &["run.json", "not found"]);
    std::fs::create_dir_all(path("nothing")).unwrap();
    said(&[&writer, &path("nothing")], &["run.json", "not found"]);

    let other = read(&scenario::template("two-hosts").unwrap().replace("cycle = \"1ms\"", "cycle = \"2ms\""));
    assert_ne!(other.cycle, scenario.cycle, "the template has changed");
    half(&path("other"), &other, Side::Reader, &events, 0);
    said(&[&writer, &path("other")], &["different scenarios", "`cycle = \"1ms\"", "`cycle = \"2ms\""]);
    // What its interface is called is a matter of each machine.
    let named = scenario::template("two-hosts").unwrap().replace("[hosts.loop]", "[hosts.loop]\ninterface = \"eth7\"");
    half(&path("named"), &read(&named), Side::Reader, &events, 0);
    assert!(join_folders(&[writer.clone(), path("named")], Nanos::ZERO).is_ok());

    let late: Vec<_> = events
        .iter()
        .map(|event| match event.kind {
            EventKind::Phase { cycle, phase, due, late, took } => {
                let (cycle, due) = (cycle + 10_000, due + Nanos(10_000 * scenario.cycle.0));
                Event { kind: EventKind::Phase { cycle, phase, due, late, took }, ..*event }
            }
            _ => *event,
        })
        .collect();
    half(&path("late"), &scenario, Side::Reader, &late, 0);
    said(&[&writer, &path("late")], &["not there at one time", "cycles 10000 to"]);

    std::fs::rename(reader.join("ends.parquet"), path("ends.parquet")).unwrap();
    said(&[&writer, &reader], &["no ends.parquet"]);
    let whole = std::fs::read(path("ends.parquet")).unwrap();
    std::fs::write(reader.join("ends.parquet"), &whole[..whole.len() / 2]).unwrap();
    said(&[&writer, &reader], &["ends.parquet", "cut short or damaged"]);
    std::fs::copy(reader.join("frames.parquet"), reader.join("ends.parquet")).unwrap();
    said(&[&writer, &reader], &["downbeat/frames/1", "downbeat/ends/1"]);
    std::fs::write(reader.join("ends.parquet"), &whole).unwrap();
    let run = std::fs::read_to_string(reader.join("run.json")).unwrap();
    std::fs::write(reader.join("run.json"), run.replace("downbeat/run/1", "downbeat/run/9")).unwrap();
    said(&[&writer, &reader], &["downbeat/run/9", "downbeat/run/1"]);
    let part = "\"parts\": [{\"folder\": \"part-0001\", \"frames\": 1, \"met\": true}], \"incidents\"";
    std::fs::write(reader.join("run.json"), run.replacen("\"incidents\"", part, 1)).unwrap();
    said(&[&writer, &reader], &["part-0001", "missing"]);
    std::fs::write(reader.join("run.json"), run).unwrap();
    assert!(join_folders(&[writer, reader], Nanos::ZERO).is_ok());
}

#[test]
fn a_message_has_the_flags_of_both_sides() {
    let scenario = scenario(0);
    let mut collector = Collector::new(&scenario);
    collector.push(Event { stream: 0, side: Side::Writer, kind: EventKind::Left { handle: 0, at: Tai(1) } });
    assert!(collector.finish(&scenario).rows.is_empty());
    let joined = join(&two_hosts(), &events(&[Fate::LostOut, Fate::Fine, Fate::NotSent], &[0]), Nanos::ZERO);
    let flag = |index: usize, flag: u32| joined.rows[index].has(flag);
    assert!(flag(2, flags::NOT_SENT_WRITER) && !flag(1, flags::NOT_SEEN_PUBLISHED));
}
