//! What two hosts have measured, joined, against what one collector of all events gives.

mod common;

use std::path::{Path, PathBuf};

use common::trace::Trace;
use common::{CYCLE, Exchange, Fate, scenario};
use downbeat_measure::{
    ClockError, ClocksFrom, Collector, Event, EventKind, JoinClocks, JoinError, Joined, Kind, Machine, PTP_FORMAT,
    Phase, PtpFile, Side, Whole, flags, join_folders, summarise, write_ptp, write_run, write_whole,
};
use proptest::prelude::*;
use scenario::{Limit, LimitValue, Quantity, Scenario};
use serde_json::json;
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

/// Cycle in which something was seen.
fn cycle_of(event: &Event) -> i64 {
    match event.kind {
        EventKind::Published { at, .. } | EventKind::Left { at, .. } | EventKind::Outside { at, .. } => {
            at.0.div_euclid(CYCLE)
        }
        EventKind::Arrived { decoded, .. } => decoded.0.div_euclid(CYCLE),
        EventKind::Application { cycle, .. } | EventKind::Phase { cycle, .. } => cycle,
        _ => 0,
    }
}

/// Both sides of 2000 messages, of which every tenth is lost on the way out, the reader's in three parts. `whole` says which of them its process named at its end; none:
/// it was killed behind the second.
fn in_parts(whole: Option<&[u32]>) -> (tempfile::TempDir, [PathBuf; 2]) {
    let scenario = read(&scenario::template("two-hosts").unwrap().replace("cycle = \"1ms\"", "cycle = \"250us\""));
    let mut exchange = Exchange::run(2_000, |counter| if counter % 10 == 0 { Fate::LostOut } else { Fate::Fine });
    let mut trace = Trace::default();
    trace.phases(0..2_010, |_, _, _| 0);
    exchange.events.extend(trace.exchange.events);
    exchange.events.sort_by_key(cycle_of);
    let folder = tempfile::tempdir().unwrap();
    let dirs = ["pub", "loop"].map(|name| folder.path().join(name));
    half(&dirs[0], &scenario, Side::Writer, &exchange.events, 0);
    let mut collector = Collector::of_ends(&scenario, |_, end| end == Side::Reader);
    let mut all = Whole::default();
    let mut events = exchange.events.iter().filter(|event| event.side == Side::Reader).peekable();
    for (number, until) in [(1, 1_000), (2, 1_700), (3, 3_000)] {
        while let Some(event) = events.next_if(|event| cycle_of(event) < until) {
            collector.push(*event);
        }
        let part = collector.cut(Tai((until - 200) * CYCLE));
        if whole.is_none_or(|kept| kept.contains(&number)) && (number < 3 || whole.is_some()) {
            let name = format!("part-{number:04}");
            part.write_ends(&dirs[1].join(&name), &scenario).unwrap();
            let seen = part.finish(&scenario);
            let mut machine = Machine::new();
            machine.insert("first_cycle_at_ns".into(), 0.into());
            machine.insert("role".into(), serde_json::json!({ "command": "loopback", "host": "loop" }));
            let run = summarise(&scenario, &seen, Kind::Measured, machine.clone());
            write_run(&dirs[1].join(&name), &scenario, &run, &seen.rows).unwrap();
            all.add(name, run, &seen.streams);
        }
    }
    if whole.is_some() {
        let mut machine = Machine::new();
        machine.insert("first_cycle_at_ns".into(), 0.into());
        machine.insert("role".into(), serde_json::json!({ "command": "loopback", "host": "loop" }));
        write_whole(&dirs[1], &scenario, &all.finish(&scenario, machine).unwrap()).unwrap();
    }
    (folder, dirs)
}

#[test]
fn parts_of_a_side_are_joined_as_far_as_they_are_there() {
    let told = |dirs: &[PathBuf; 2]| {
        let joined = join_folders(dirs, Nanos::ZERO).unwrap();
        let missing: Vec<_> = joined.run.incidents.iter().filter(|one| one.kind == "part-missing").cloned().collect();
        let stream = joined.run.streams[0].clone();
        assert_eq!((stream.frames, stream.loss.dSum), (2_000, stream.loss.dLinkL), "{:?}", stream.loss);
        assert_eq!(stream.loss.published + stream.loss.unknown + stream.loss.under_way, 2_000, "{:?}", stream.loss);
        (missing, stream, joined.run.machine)
    };
    let (_kept, dirs) = in_parts(Some(&[1, 2, 3]));
    let (missing, stream, _) = told(&dirs);
    assert!(missing.is_empty() && stream.loss.unknown == 0, "{missing:?} {:?}", stream.loss);
    // A cut keeps what was sent last.
    assert!(stream.arrived >= Some(1_799) && stream.loss.dSum >= Some(198), "{:?}", stream.loss);

    // Killed: what it had finished is there, what it had not is unknown, and lost is nothing.
    let (_kept, dirs) = in_parts(None);
    let (missing, stream, machine) = told(&dirs);
    let cause = &missing[0].cause;
    assert!(missing.len() == 1 && missing[0].place.as_deref() == Some("loop"), "{missing:?}");
    assert!(
        cause.contains("was killed") && cause.contains("after part-0002") && cause.contains("cycle 1499"),
        "{cause}"
    );
    // What came back all the same is complete.
    assert!((48..=52).contains(&stream.loss.unknown), "{:?}", stream.loss);
    assert!(stream.arrived.is_some_and(|arrived| (1_335..=1_355).contains(&arrived)), "{:?}", stream.arrived);
    assert!(stream.one_way.as_ref().is_some_and(|one_way| one_way.count > 1_335));
    assert!(machine["joined"][1]["missing"].as_str().is_some_and(|text| text.contains("killed")), "{machine:?}");

    // A full disk: a part in the middle is missing.
    let (_kept, dirs) = in_parts(Some(&[1, 3]));
    let (missing, stream, _) = told(&dirs);
    assert!(missing.len() == 1 && missing[0].cause.contains("part-0002 could not be written"), "{missing:?}");
    assert!((69..=72).contains(&stream.loss.unknown), "{:?}", stream.loss);

    // Nothing finished: nothing to join, and what to do.
    let (_kept, dirs) = in_parts(None);
    for part in ["part-0001", "part-0002"] {
        std::fs::remove_file(dirs[1].join(part).join("run.json")).unwrap();
    }
    let text = refusal(&dirs);
    assert!(text.contains("killed before it had written anything") && text.contains("--rotate-every"), "{text}");
}

#[test]
fn what_applications_outside_did_is_joined_too() {
    let text = scenario::template("two-hosts").unwrap();
    let scenario = read(&text.replacen("[[streams]]", "[[streams]]\napplication = \"image\"", 1));
    let mut events = events(&[Fate::Fine; 200], &[0]);
    for side in [Side::Writer, Side::Reader] {
        events.extend((0..240).map(|cycle| {
            let (new, at) = (!(20..150).contains(&cycle), Tai(cycle * CYCLE));
            let status = [0, 0x4090_0000, 0x8000_0000][cycle as usize % 3];
            let answered_after = new.then_some(cycle as u64 % 4);
            Event { stream: 0, side, kind: EventKind::Outside { cycle, at, new, stirred: new, answered_after, status } }
        }));
    }
    let mut collector = Collector::new(&scenario);
    events.iter().for_each(|event| collector.push(*event));
    let whole = summarise(&scenario, &collector.finish(&scenario), Kind::Measured, Machine::new());
    let joined = join(&scenario, &events, Nanos(i64::MAX)).run;
    let applications = &joined.streams[0].applications;
    assert_eq!(applications, &whole.streams[0].applications);
    assert_eq!(applications.len(), 2);
    let one = &applications[0];
    assert_eq!((one.cycles, one.without_new, one.uncertain, one.bad, one.status_sent), (240, 130, 80, 80, Some(false)));
    assert_eq!(one.answered_after.as_ref().map(|after| after.count), Some(110));
    let silent = |run: &downbeat_measure::RunFile| {
        run.incidents.iter().filter(|one| one.kind == "application-silent").cloned().collect::<Vec<_>>()
    };
    assert_eq!(silent(&joined), silent(&whole));
    assert_eq!(silent(&joined).len(), 2);
}

#[test]
fn the_clock_error_is_given_or_watched_and_stated() {
    let mut scenario = two_hosts();
    scenario.requirement = vec![Limit { quantity: Quantity::OneWay, value: LimitValue::Span(Nanos(1_500)) }];
    let (folder, dirs) = halves(&scenario, &events(&[Fate::Fine; 100], &[0]));
    let scenario_of = |clocks: JoinClocks| join_folders(&dirs, clocks);
    let clocks_of = |clocks| scenario_of(clocks).unwrap().run.clocks.unwrap();
    let given = clocks_of(Nanos(400).into());
    assert_eq!((given.error_ns, given.from, given.watched.len()), (400, ClocksFrom::Given, 0));
    // Messages take 1 µs.
    let range = &given.one_way[0];
    assert_eq!((&*range.quantity, range.count, range.least_ns, range.most_ns), ("one_way", 100, 600, 1_400));
    assert_eq!(given.one_way.len(), 2);
    let watch = |name: &str, epsilon_ns: Option<i64>, grandmaster: &str| {
        let path = folder.path().join(name);
        let error = |epsilon_ns| {
            let (offset_ns, stamps) = (epsilon_ns, "hardware".to_owned());
            ClockError { epsilon_ns, offset_ns, system_ns: 0, read_ns: 0, samples: 1, lasted_ns: 1, stamps }
        };
        let file = PtpFile {
            format: PTP_FORMAT.into(),
            host: Some(name.into()),
            lasted_ns: 60_000_000_000,
            grandmaster: Some(grandmaster.into()),
            clock_error: epsilon_ns.map(error),
            clock_error_unknown: epsilon_ns.is_none().then(|| "the servo has never locked".into()),
            ..PtpFile::default()
        };
        write_ptp(&path, &file).unwrap();
        path
    };
    let watched = clocks_of(JoinClocks::Watched(vec![watch("one", Some(150), "a"), watch("two", Some(90), "a")]));
    assert_eq!((watched.error_ns, watched.from, watched.watched.len()), (240, ClocksFrom::Watched, 2));
    assert_eq!((watched.watched[0].epsilon_ns, watched.watched[0].host.as_deref()), (150, Some("one")));
    let refused = |dirs: Vec<PathBuf>, word: &str| {
        let text = scenario_of(JoinClocks::Watched(dirs)).unwrap_err().to_string();
        assert!(text.contains(word) && text.contains("mend:"), "{text}");
    };
    refused(vec![watch("one", Some(1), "a"), watch("other", Some(1), "b")], "different grandmasters");
    refused(vec![watch("never", None, "a")], "the servo has never locked");
    refused(vec![folder.path().join("pub")], "ptp.json");
    assert!(scenario_of(Nanos(-1).into()).unwrap_err().to_string().contains("below zero"));
}

#[test]
fn a_watch_that_does_not_cover_the_run_is_told() {
    let scenario = read(scenario::template("two-hosts").unwrap());
    let (folder, dirs) = halves(&scenario, &events(&[Fate::Fine; 100], &[0]));
    // The run begins at 0 s TAI and lasts some milliseconds; the clock is 37 s behind it.
    for dir in &dirs {
        let path = dir.join("run.json");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replacen("\"machine\": {", "\"machine\": { \"tai_minus_utc_s\": 37,", 1)).unwrap();
    }
    for (began_utc_s, covers) in [(-40, true), (-30, false)] {
        let clock_error = ClockError {
            epsilon_ns: 5,
            offset_ns: 5,
            system_ns: 0,
            read_ns: 0,
            samples: 1,
            lasted_ns: 1,
            stamps: "software".into(),
        };
        let file = PtpFile {
            format: PTP_FORMAT.into(),
            began_utc_s,
            lasted_ns: 10_000_000_000,
            grandmaster: Some("a".into()),
            clock_error: Some(clock_error),
            ..PtpFile::default()
        };
        let path = folder.path().join("clock");
        write_ptp(&path, &file).unwrap();
        let run = join_folders(&dirs, JoinClocks::Watched(vec![path])).unwrap().run;
        assert_eq!(run.clocks.unwrap().watched[0].covers, Some(covers));
        assert_eq!(run.incidents.iter().any(|one| one.kind == "clock-unwatched"), !covers, "{:?}", run.incidents);
    }
}

#[test]
fn clocks_of_network_cards_that_took_the_stamps_add_to_the_clock_error() {
    let scenario = two_hosts();
    let events = events(&[Fate::Fine; 100], &[0]);
    let (_folder, dirs) = halves(&scenario, &events);
    let stamped = |dir: &PathBuf, error: i64| {
        let path = dir.join("run.json");
        let mut run: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let clock = json!({ "device": "/dev/ptp0", "ahead_ns": [40, -20], "error_ns": error, "looks": 9 });
        run["machine"]["stamp_clocks"] = json!({ "eth0": clock });
        std::fs::write(&path, run.to_string()).unwrap();
    };
    let clocks = || join_folders(&dirs, Nanos(1_000)).unwrap().run.clocks.unwrap();
    assert_eq!((clocks().error_ns, clocks().stamps_ns), (1_000, None), "stamps of the kernel are by the hosts' clocks");
    let before = clocks().one_way[0].clone();
    stamped(&dirs[0], 700);
    assert_eq!((clocks().error_ns, clocks().stamps_ns), (1_700, Some(700)));
    stamped(&dirs[1], 50);
    assert_eq!((clocks().error_ns, clocks().stamps_ns), (1_750, Some(750)));
    let after = clocks().one_way[0].clone();
    assert_eq!((after.least_ns, after.most_ns), (before.least_ns - 750, before.most_ns + 750));
    assert_eq!(join_folders(&dirs, Nanos(1_000)).unwrap().run.machine["clock_error_ns"], 1_750);

    // Of a side that was killed each part counts: nobody has summed them up.
    let (_folder, [writer, reader]) = in_parts(None);
    assert!(!reader.join("run.json").exists());
    stamped(&reader.join("part-0002"), 300);
    let joined = join_folders(&[writer, reader], Nanos(1_000)).unwrap();
    assert_eq!(joined.run.clocks.unwrap().stamps_ns, Some(300));
}
