//! Figures while a run goes on: against numbers made by hand, and against the summary of the same trace.

mod common;

use common::{CYCLE, Exchange, Fate, scenario};
use downbeat_measure::live::{Aggregate, Counts, EndCounts, Quantity, Ran, What};
use downbeat_measure::{
    Collector, Dist, Event, EventKind, FrameRow, Kind, Machine, Phase, Refused, Side, flags, summarise,
};
use proptest::prelude::*;
use scenario::Scenario;
use units::{Nanos, Tai};

fn figures(scenario: &Scenario, events: &[Event]) -> Aggregate {
    let mut figures = Aggregate::new(scenario);
    events.iter().for_each(|event| figures.push(event));
    figures
}

/// Six messages, one late by 40 µs, one refused, one lost on its way out, one replaced at the reader.
fn six() -> Exchange {
    let mut exchange = Exchange::default();
    for (counter, fate, shift) in [
        (1, Fate::Fine, 0),
        (2, Fate::Fine, 40_000),
        (3, Fate::NotSent, 0),
        (4, Fate::LostOut, 0),
        (5, Fate::Superseded, 0),
        (6, Fate::Fine, 0),
    ] {
        exchange.message(counter as i64, counter, fate, shift);
        exchange.phase(counter as i64, 1_000 * counter as i64, 0);
    }
    exchange.push(Side::Reader, EventKind::Skipped { cycle: 7, cycles: 3 });
    exchange.push(Side::Writer, EventKind::NotSent { handle: 6, errno: downbeat_measure::LAUNCH_SKIPPED });
    exchange
        .push(Side::Reader, EventKind::Refused { at: Tai(0), frames: Refused { foreign: 1, ..Refused::default() } });
    exchange
}

#[test]
fn six_messages_are_counted_exactly() {
    let found = figures(&scenario(0), &six().events);
    let stream = &found.streams()[0];
    assert_eq!(
        stream.counts(),
        Counts {
            published: 6,
            answered: 3,
            lost: 3,
            ends: [
                EndCounts {
                    missed: Some(0),
                    repeated: Some(0),
                    refused: 1,
                    launches_skipped: 1,
                    ..EndCounts::default()
                },
                EndCounts { superseded: 1, foreign: 1, overruns: 1, cycles_skipped: 3, ..EndCounts::default() },
            ],
            out_of_reach: 0,
        }
    );
    // Out 1 µs; answered in the cycle after the next: T7 − T2 = two cycles and 1 µs, whatever the shift.
    let wire = stream.span(Quantity::RoundTripWire).unwrap();
    let dist = wire.window().unwrap();
    assert_eq!((dist.count, dist.min, dist.p50, dist.max), (3, 501_000, 501_000, 501_000));
    assert_eq!((wire.last(), wire.sum_ns()), (Some(Nanos(501_000)), 3 * 501_000));
    let up_to: Vec<u64> = wire.up_to().map(|(_, count)| count).collect();
    assert_eq!((up_to[8], up_to[9]), (0, 3), "more than 500 µs, at most 1 ms");
    // T1 at 150 µs of its cycle, T8 at 10 µs of the fourth after it.
    assert_eq!(stream.span(Quantity::RoundTripStack).unwrap().last(), Some(Nanos(4 * CYCLE - 140_000)));
    assert_eq!(stream.span(Quantity::OneWay).unwrap().whole().count(), 4, "the replaced one arrived");
    // 1 → 2 later by 40 µs; 5 → 6 as planned (what replaced 5 came a cycle too late, and is not 6's first arrival).
    let spacing: Vec<i64> = stream.span(Quantity::Spacing).unwrap().recent().collect();
    assert_eq!(spacing, [CYCLE + 40_000, 2 * CYCLE - CYCLE]);
    let counter = stream.round_trip_counter().whole().unwrap();
    assert_eq!((counter.count, counter.min, counter.max), (3, 4, 4));
    // The subscribe phases of the writer's host: 1 to 6 µs late, 5 µs long.
    let subscribe = &found.phases()[Phase::Subscribe as usize];
    let late = subscribe.late.whole().distribution().unwrap();
    assert_eq!((late.count, late.min, late.max, subscribe.outliers), (6, 1_000, 6_000, 0));
    assert_eq!((subscribe.late.last(), subscribe.longest), (Some(Nanos(6_000)), Nanos(5_000)));
    let ran = Ran { due: Tai(6 * CYCLE), late: Nanos(6_000), took: Nanos(5_000) };
    assert_eq!(stream.phases(Side::Writer)[0], Some(ran));
    assert_eq!(stream.phases(Side::Writer)[1], None);
    let happened: Vec<What> = found.happenings().map(|happening| happening.what).collect();
    assert_eq!(happened, [What::Refused(5), What::Skipped(3)]);
    assert_eq!(found.events(), six().events.len() as u64);
}

#[test]
fn cycles_that_several_threads_left_out_are_one_overrun() {
    let mut exchange = Exchange::default();
    // The host stood still twice; each time one of its three threads came to itself a cycle later than the others.
    for (cycle, cycles) in [(50, 4), (50, 4), (50, 5), (70, 3), (71, 2), (70, 2)] {
        exchange.push(Side::Reader, EventKind::Skipped { cycle, cycles });
    }
    // Late again at once, a thread leaves out the next cycle too: an overrun of its own.
    exchange.push(Side::Reader, EventKind::Skipped { cycle: 73, cycles: 1 });
    let found = figures(&scenario(0), &exchange.events);
    let [writer, reader] = found.streams()[0].counts().ends;
    assert_eq!((writer.overruns, writer.cycles_skipped), (0, 0));
    assert_eq!((reader.overruns, reader.cycles_skipped), (3, 9));
}

#[test]
fn rates_are_of_the_last_second() {
    let mut figures = Aggregate::new(&scenario(0));
    assert_eq!(figures.events_per_second(), None);
    let mut counter = 0;
    for turn in 0..200_i64 {
        // Ten messages a turn at first, five later.
        for _ in 0..if turn < 100 { 10 } else { 5 } {
            counter += 1;
            figures.push(&published(counter));
        }
        figures.turn(Tai(turn * 20_000_000));
    }
    assert_eq!(figures.streams()[0].published_per_second(), Some(250.0));
    assert_eq!(figures.events_per_second(), Some(250.0));
}

fn published(counter: u64) -> Event {
    let kind = EventKind::Published {
        cycle: counter as i64,
        counter,
        sequence: counter as u16,
        handle: counter as u32,
        at: Tai(counter as i64 * CYCLE),
        launch: None,
        bytes: 77,
        repeated: false,
    };
    Event { stream: 0, side: Side::Writer, kind }
}

#[test]
fn what_is_out_of_reach_is_said_and_memory_stays() {
    let mut figures = Aggregate::new(&scenario(0));
    (1..=100_000).for_each(|counter| figures.push(&published(counter)));
    let left = |handle| Event { stream: 0, side: Side::Writer, kind: EventKind::Left { handle, at: Tai(0) } };
    figures.push(&left(5));
    assert_eq!((figures.streams()[0].counts().published, figures.streams()[0].counts().out_of_reach), (100_000, 1));
    figures.push(&left(99_999));
    assert_eq!(figures.streams()[0].counts().out_of_reach, 1);
    // A stream that the scenario lacks.
    figures.push(&Event { stream: 9, ..left(7) });
    assert_eq!(figures.events(), 100_003);
}

/// What a generated message does beside its fate.
#[derive(Debug, Clone)]
struct Step {
    fate: Fate,
    shift: i64,
    late: (i64, i64),
    /// Counters missed, whether nothing new was there: the application at either end.
    applications: [(u64, bool); 2],
    inconsistent: bool,
    tag: Option<(u16, u8)>,
    foreign: bool,
    skipped: u32,
}

fn step() -> impl Strategy<Value = Step> {
    let fate = prop_oneof![
        4 => Just(Fate::Fine),
        1 => Just(Fate::NotSent),
        1 => Just(Fate::Dropped),
        1 => Just(Fate::LostOut),
        1 => Just(Fate::Superseded),
        1 => Just(Fate::AnswerDropped),
        1 => Just(Fate::LostBack),
    ];
    let application = || (prop_oneof![3 => Just(0_u64), 1 => 1..9_u64], any::<bool>());
    (
        (fate, 0..60_000_i64, (0..150_000_i64, 0..150_000_i64), [application(), application()]),
        (proptest::bool::weighted(0.1), proptest::bool::weighted(0.1), proptest::bool::weighted(0.1), 0..3_u32),
    )
        .prop_map(|((fate, shift, late, applications), (inconsistent, wrong_tag, foreign, skipped))| {
            let tag = if wrong_tag { None } else { Some((3000, 7)) };
            Step { fate, shift, late, applications, inconsistent, tag, foreign, skipped }
        })
}

fn events(steps: &[Step]) -> Vec<Event> {
    let mut exchange = Exchange::default();
    for (number, step) in steps.iter().enumerate() {
        let counter = number as u64 + 1;
        let first = exchange.events.len();
        exchange.message(counter as i64, counter, step.fate, step.shift);
        for event in &mut exchange.events[first..] {
            if let EventKind::Arrived { tag, inconsistent, .. } = &mut event.kind {
                (*tag, *inconsistent) = (step.tag, step.inconsistent);
            }
        }
        exchange.phase(counter as i64, step.late.0, step.late.1);
        for (side, (missed, repeated)) in [Side::Writer, Side::Reader].into_iter().zip(step.applications) {
            let (cycle, read, round_trip_cycles) = (counter as i64, Some(counter), Some(missed + 3));
            exchange
                .push(side, EventKind::Application { cycle, wrote: None, read, repeated, missed, round_trip_cycles });
        }
        if step.foreign {
            exchange.push(
                Side::Reader,
                EventKind::Refused {
                    at: Tai(counter as i64 * CYCLE),
                    frames: Refused { foreign: 1, ..Refused::default() },
                },
            );
        }
        if step.skipped > 0 {
            exchange.push(Side::Writer, EventKind::Skipped { cycle: counter as i64, cycles: step.skipped });
        }
    }
    exchange.events
}

/// When an end reported it; `None` when the event does not tell.
fn told_at(event: &Event) -> Option<i64> {
    match event.kind {
        EventKind::Published { at, .. } | EventKind::Left { at, .. } | EventKind::Refused { at, .. } => Some(at.0),
        EventKind::Arrived { decoded, .. } => Some(decoded.0),
        EventKind::Phase { due, late, took, .. } => Some(due.0 + late.0 + took.0),
        EventKind::Skipped { cycle, .. } => Some(cycle * CYCLE),
        _ => None,
    }
}

/// As a run's parent meets it: a ring for what each end does, one for its transmit timestamps. Each ring is in the
/// order of time, and they are emptied in turn, `portions` at a time.
fn as_from_rings(events: &[Event], portions: &[usize]) -> Vec<Event> {
    let ring = |event: &Event| 2 * (event.side as usize) + usize::from(matches!(event.kind, EventKind::Left { .. }));
    let mut rings = [const { std::collections::VecDeque::new() }; 4];
    let mut last = [0; 4];
    for &event in events {
        let ring = ring(&event);
        // What does not tell when it was follows what stands before it.
        last[ring] = told_at(&event).unwrap_or(last[ring]);
        rings[ring].push_back((last[ring], event));
    }
    rings.iter_mut().for_each(|ring| ring.make_contiguous().sort_by_key(|(at, _)| *at));
    let mut merged = Vec::new();
    let mut portions = portions.iter().cycle();
    while merged.len() < events.len() {
        for ring in &mut rings {
            let portion = (*portions.next().unwrap()).min(ring.len());
            merged.extend(ring.drain(..portion).map(|(_, event)| event));
        }
    }
    merged
}

fn bounds(dist: Option<&Dist>) -> Option<(u64, i64, i64)> {
    // A span below zero counts as zero in the figures of the whole run.
    dist.map(|dist| (dist.count, dist.min.max(0), dist.max.max(0)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn counts_are_those_of_the_summary(
        steps in proptest::collection::vec(step(), 1..40),
        portions in proptest::collection::vec(1..60_usize, 1..8),
        missing in proptest::collection::vec(0..400_usize, 0..8),
        twice in proptest::collection::vec(0..400_usize, 0..4),
        echo: bool,
    ) {
        let mut scenario = scenario(0);
        scenario.streams[0].echo = echo;
        let mut number = 0;
        let mut events = events(&steps);
        events.retain(|event| {
            number += 1;
            // Answers and returns are none of a stream without an echo.
            let back = match event.kind {
                EventKind::Published { .. } | EventKind::Left { .. } => event.side == Side::Reader,
                EventKind::Arrived { .. } => event.side == Side::Writer,
                _ => false,
            };
            !missing.contains(&number) && (echo || !back)
        });
        for &place in &twice {
            if let Some(&event) = events.get(place)
                && matches!(event.kind, EventKind::Published { .. } | EventKind::Left { .. })
            {
                events.insert(place, event);
            }
        }
        let events = as_from_rings(&events, &portions);
        let mut collector = Collector::new(&scenario);
        events.iter().for_each(|&event| collector.push(event));
        let live = collector.live();
        let observations = collector.finish(&scenario);
        let run = summarise(&scenario, &observations, Kind::Measured, Machine::new());
        let result = &run.streams[0];

        let found = figures(&scenario, &events);
        let stream = &found.streams()[0];
        let counts = stream.counts();
        prop_assert_eq!((counts.published, counts.out_of_reach), (result.frames, 0));
        prop_assert_eq!((counts.answered, counts.lost), (live.answered, live.lost));

        let span = |quantity| stream.span(quantity).and_then(|figures| figures.whole().distribution());
        for (quantity, expected) in [
            (Quantity::RoundTripWire, &result.round_trip.wire),
            (Quantity::RoundTripStack, &result.round_trip.stack),
            (Quantity::OneWay, &result.one_way),
            (Quantity::OneWayStack, &result.one_way_stack),
            (Quantity::Spacing, &result.spacing),
        ] {
            prop_assert_eq!(bounds(span(quantity).as_ref()), bounds(expected.as_ref()), "{:?}", quantity);
        }
        let counter = stream.round_trip_counter().whole();
        prop_assert_eq!(bounds(counter.as_ref()), bounds(result.round_trip.counter.as_ref()));

        let [writer, reader] = counts.ends;
        let (last, other) = if echo { (writer, Some(reader)) } else { (reader, None) };
        let expected = &result.counters;
        prop_assert_eq!((last.missed, last.repeated), (expected.missed, expected.repeated));
        prop_assert_eq!(other.and_then(|end| end.missed), expected.missed_at_reader);
        prop_assert_eq!(other.and_then(|end| end.repeated), expected.repeated_at_reader);
        let both = |count: fn(&EndCounts) -> u64| count(&writer) + count(&reader);
        prop_assert_eq!(both(|end| end.inconsistent), expected.inconsistent);
        prop_assert_eq!(both(|end| end.wrong_tag), expected.wrong_tag);
        prop_assert_eq!(both(|end| end.foreign), expected.foreign);
        let rows = |flag| observations.rows.iter().filter(|row: &&FrameRow| row.has(flag)).count() as u64;
        prop_assert_eq!(writer.superseded, rows(flags::SUPERSEDED_WRITER));
        prop_assert_eq!(reader.superseded, rows(flags::SUPERSEDED_READER));
        let of = |wanted: fn(&EventKind) -> bool| events.iter().filter(|event| wanted(&event.kind)).count() as u64;
        prop_assert_eq!(both(|end| end.refused), of(|kind| matches!(kind, EventKind::NotSent { .. })));
        let left_out = events.iter().filter_map(|event| match event.kind {
            EventKind::Skipped { cycle, cycles } => Some(cycle..cycle + i64::from(cycles)),
            _ => None,
        });
        let left_out: Vec<_> = left_out.filter(|cycles| !cycles.is_empty()).collect();
        let known = |cycle| left_out.iter().any(|cycles| cycles.start < cycle && cycles.contains(&cycle));
        let begun = left_out.iter().filter(|cycles| !known(cycles.start)).count() as u64;
        let union: std::collections::BTreeSet<i64> = left_out.iter().cloned().flatten().collect();
        prop_assert_eq!(both(|end| end.overruns), begun);
        prop_assert_eq!(both(|end| end.cycles_skipped), union.len() as u64);

        for host in &run.hosts {
            let same = |figures: &&downbeat_measure::live::PhaseFigures| {
                scenario.host(figures.host).name == host.host && figures.phase.key() == host.phase
            };
            let figures = found.phases().iter().find(same).unwrap();
            let late = figures.late.whole().distribution();
            prop_assert_eq!(bounds(late.as_ref()), bounds(Some(&host.late)));
            prop_assert_eq!((figures.outliers, figures.longest.0), (host.outliers, host.took.max));
        }
    }

    #[test]
    fn nothing_panics_on_any_record(records in proptest::collection::vec(any::<[u64; 8]>(), 0..200)) {
        let mut found = Aggregate::new(&scenario(1));
        for mut record in records {
            // A kind that exists, mostly of the stream that exists.
            record[0] = record[0] & 0xffff_ffff_0000_1f00 | ((record[0] & 0xff) % 10) | (record[0] >> 3 & 1) << 16;
            if let Some(event) = Event::unpack(&record) {
                found.push(&event);
            }
        }
        let stream = &found.streams()[0];
        prop_assert!(stream.counts().answered <= found.events());
        prop_assert!(Quantity::ALL.iter().all(|&q| stream.span(q).unwrap().recent().count() <= 1024));
    }
}
