//! From events to rows, losses and figures.

mod common;

use common::{CYCLE, Exchange, Fate, observe, scenario};
use downbeat_measure::{Collector, Event, EventKind, Refused, Side, flags, summarise};
use proptest::prelude::*;
use scenario::{Limit, LimitValue, Quantity};
use units::{Nanos, Tai};

#[test]
fn an_undisturbed_exchange() {
    let mut scenario = scenario(0);
    scenario.requirement = vec![
        Limit { quantity: Quantity::RoundTripWire, value: LimitValue::Span(Nanos(501_000)) },
        Limit { quantity: Quantity::OneWay, value: LimitValue::Span(Nanos(999)) },
        Limit { quantity: Quantity::LossSum, value: LimitValue::Share(1e-5) },
        Limit { quantity: Quantity::MissedCounters, value: LimitValue::Count(0) },
    ];
    let run = Exchange::run(1_000, |_| Fate::Fine).summarise(&scenario);
    let stream = &run.streams[0];
    let wire = stream.round_trip.wire.as_ref().unwrap();
    assert_eq!((wire.count, wire.min, wire.max), (1_000, 501_000, 501_000));
    assert_eq!(stream.round_trip.stack.as_ref().unwrap().max, 860_000);
    assert_eq!(stream.round_trip.counter.as_ref().unwrap().max, 4);
    assert_eq!(stream.round_trip.counter_used.as_ref().unwrap().max, 5);
    assert_eq!(stream.spacing.as_ref().unwrap().mean, CYCLE as f64);
    assert_eq!(stream.jitter.spacing_error.as_ref().unwrap().max, 0);
    assert_eq!(stream.loss.dSum, Some(0));
    assert_eq!((stream.loss.dLinkL, stream.loss.dbL), (Some(0), None));
    assert_eq!(stream.loss.under_way, 0);
    assert_eq!(stream.launch.as_ref().unwrap().error.as_ref().unwrap().max, 0);
    let stages: f64 = stream.stages.iter().map(|stage| stage.spent.mean).sum();
    assert_eq!((stream.stages.len(), stages), (7, 860_000.0));
    assert!(stream.without_host_outliers.is_none());
    assert!(run.incidents.is_empty(), "{:?}", run.incidents);
    let met: Vec<_> = run.verdict.items.iter().map(|item| item.met).collect();
    assert_eq!((run.verdict.met, met), (false, vec![true, false, true, true]));
    assert!(run.verdict.items[1].why.contains("above the limit of 999 ns"), "{}", run.verdict.items[1].why);
}

#[test]
fn every_loss_has_its_place() {
    use Fate::*;
    let fates = [NotSent, Dropped, LostOut, Superseded, AnswerDropped, LostBack];
    let exchange = Exchange::run(1_000, |counter| match counter {
        100 | 200 | 300 | 400 | 500 | 600 => fates[counter as usize / 100 - 1],
        _ => Fine,
    });
    for bridges in [0, 2] {
        let scenario = scenario(bridges);
        let run = exchange.summarise(&scenario);
        let loss = &run.streams[0].loss;
        assert_eq!((loss.published, loss.dP, loss.dL, loss.dSum), (1_000, Some(2), Some(2), Some(6)));
        let links = [loss.dLinkL, loss.dLinkP, loss.dbL, loss.dbP];
        let one = Some(1);
        assert_eq!(links, if bridges == 0 { [one, one, None, None] } else { [None, None, one, one] });
        assert_eq!(loss.dSum_share, Some(0.006));
        let (refused, lost): (Vec<_>, Vec<_>) = run.incidents.iter().partition(|one| one.kind == "send-refused");
        assert_eq!((refused.len(), lost.len()), (1, 6), "{:?}", run.incidents);
        assert!(refused[0].cause.contains("pub: sending 1 frame"), "{}", refused[0].cause);
        assert!(lost.iter().all(|incident| incident.kind == "frames-lost" && incident.frames == 1));
        assert!(lost[2].cause.contains("between pub and loop"), "{}", lost[2].cause);
    }
}

#[test]
fn what_is_under_way_at_the_end_is_not_lost() {
    let scenario = scenario(0);
    let exchange = Exchange::run(100, |counter| match counter {
        98 => Fate::NotSent, // certain even at the end
        97.. => Fate::LostOut,
        _ => Fate::Fine,
    });
    let loss = &exchange.summarise(&scenario).streams[0].loss;
    assert_eq!((loss.published, loss.under_way, loss.dP, loss.dSum), (97, 3, Some(1), Some(1)));
}

/// A stream whose answers leave at 61 % of the rate at which they are made: they queue up. `broken` ends their way.
fn shaped(count: i64, lost: impl Fn(i64) -> bool, broken: i64) -> Exchange {
    let mut exchange = Exchange::default();
    for cycle in 1..=count {
        exchange.phase(cycle, 0, 0);
        let counter = cycle as u64;
        // Its answer is handed over; when it arrives, if it does, is another matter.
        exchange.message(cycle, counter, Fate::LostBack, 0);
        let arrives = cycle + 4 + cycle * 39 / 61;
        if !lost(cycle) && arrives <= count && arrives < broken {
            exchange.arrive(Side::Writer, arrives, counter, 0, None);
        }
    }
    exchange
}

#[test]
fn answers_that_are_queued_at_the_end_are_not_lost() {
    let scenario = scenario(0);
    let of = |exchange: &Exchange| exchange.summarise(&scenario).streams[0].loss.clone();
    let count = 2_000;
    let back = (1..=count).filter(|cycle| cycle + 4 + cycle * 39 / 61 <= count).count() as u64;
    let loss = of(&shaped(count, |_| false, i64::MAX));
    assert_eq!((loss.dLinkP, loss.dSum, loss.published, loss.under_way), (Some(0), Some(0), back, count as u64 - back));
    // Those that later ones overtook are lost.
    let loss = of(&shaped(count, |cycle| cycle % 100 == 50, i64::MAX));
    let lost = (1..=count).filter(|cycle| cycle % 100 == 50 && cycle + 4 + cycle * 39 / 61 <= count).count() as u64;
    assert_eq!((loss.dLinkP, loss.published), (Some(lost), back));
    // A way that breaks half a run before its end holds nothing: but for the last round trips all is lost.
    let loss = of(&shaped(count, |_| false, count / 2));
    let arrived = (1..=count).filter(|cycle| cycle + 4 + cycle * 39 / 61 < count / 2).count() as u64;
    assert_eq!(loss.dSum, Some(loss.published - arrived));
    assert!(loss.under_way <= count as u64 / 5 && loss.dLinkP > Some(count as u64 * 2 / 5), "{loss:?}");
}

#[test]
fn an_end_without_a_trace_leaves_its_figures_out() {
    let mut scenario = scenario(0);
    scenario.requirement = vec![Limit { quantity: Quantity::LossLoopback, value: LimitValue::Count(0) }];
    let exchange = Exchange::run(200, |counter| if counter == 50 { Fate::LostOut } else { Fate::Fine });
    let half = |side| exchange.events.iter().copied().filter(|event| event.side == side).collect::<Vec<_>>();

    let observations = observe(&scenario, &half(Side::Writer));
    let run = summarise(&scenario, &observations, downbeat_measure::Kind::Measured, Default::default());
    let stream = &run.streams[0];
    assert_eq!((stream.loss.dP, stream.loss.dL, stream.loss.dLinkL), (Some(0), None, None));
    assert_eq!(stream.loss.dSum, Some(1));
    assert!(stream.one_way.is_none() && stream.round_trip.wire.is_some());
    assert_eq!(run.incidents.iter().filter(|incident| incident.kind == "trace-missing").count(), 1);
    assert!(!run.verdict.met);
    assert_eq!(run.verdict.items[0].why, "not measured: the trace of the reader is missing");
    assert_eq!(run.verdict.items[0].found, None);

    let observations = observe(&scenario, &half(Side::Reader));
    assert!(observations.rows.iter().all(|row| row.has(flags::NOT_SEEN_PUBLISHED) && row.sequence.is_none()));
    let run = summarise(&scenario, &observations, downbeat_measure::Kind::Measured, Default::default());
    assert_eq!((run.streams[0].frames, run.streams[0].loss.dSum), (0, None));

    let nothing = observe(&scenario, &[]);
    assert!(nothing.rows.is_empty() && nothing.incidents.is_empty());
    let run = summarise(&scenario, &nothing, downbeat_measure::Kind::Measured, Default::default());
    assert_eq!(run.verdict.items[0].why, "not measured: nothing was published");
}

#[test]
fn repeats_stale_tags_and_strangers_are_counted() {
    let scenario = scenario(0);
    let mut exchange = Exchange::run(50, |_| Fate::Fine);
    let publish = |handle, at, repeated| EventKind::Published {
        cycle: 60,
        counter: 60,
        sequence: 60,
        handle,
        at: Tai(at),
        launch: None,
        bytes: 77,
        repeated,
    };
    // Repeated first, as a ring may give it: the row is still of the first time.
    exchange.push(Side::Writer, publish(1_001, 16_000_000, true));
    exchange.push(Side::Writer, EventKind::Left { handle: 1_000, at: Tai(15_100_000) });
    exchange.push(Side::Writer, publish(1_000, 15_000_000, false));
    exchange.push(Side::Writer, EventKind::Left { handle: 1_001, at: Tai(16_100_000) });
    let arrive = |counter, decoded, tag| EventKind::Arrived {
        cycle: 62,
        counter,
        stamp: None,
        decoded: Tai(decoded),
        tag,
        superseded: None,
        inconsistent: counter == 60,
    };
    exchange.push(Side::Reader, arrive(60, 15_200_000, Some((3000, 0))));
    exchange.push(Side::Reader, arrive(59, 15_300_000, None));
    let refused = Refused { foreign: 1, stale: 1, repeated: 3, wrong_tag: 2, inconsistent: 4 };
    exchange.push(Side::Reader, EventKind::Refused { at: Tai(15_300_000), frames: refused });
    let observations = exchange.observe(&scenario);
    let row = observations.rows.iter().find(|row| row.counter == 60).unwrap();
    assert_eq!(&row.t[..4], [Some(15_000_000), Some(15_100_000), None, Some(15_200_000)]);
    assert!(row.has(flags::REPEATED_WRITER) && row.has(flags::WRONG_TAG) && row.has(flags::INCONSISTENT));
    let counters = &observations.streams[0].counters;
    assert_eq!((counters.stale, counters.received_again, counters.foreign), (1, 3, 1));
    // Those with an event of their own and those without.
    assert_eq!((counters.wrong_tag, counters.inconsistent), (2 + 2, 1 + 4));
    let kinds: Vec<_> = observations.incidents.iter().map(|incident| incident.kind.as_str()).collect();
    assert!(kinds.contains(&"wrong-tag") && kinds.contains(&"inconsistent-set"), "{kinds:?}");
}

#[test]
fn live_figures_follow_the_run() {
    let scenario = scenario(0);
    let mut collector = Collector::new(&scenario);
    assert_eq!(collector.live(), downbeat_measure::Live::default());
    for event in Exchange::run(1_000, |counter| if counter == 7 { Fate::LostBack } else { Fate::Fine }).events {
        collector.push(event);
    }
    let live = collector.live();
    assert_eq!((live.frames, live.answered, live.lost), (1_000, 999, 1));
    assert_eq!((live.last_round_trip, live.recent_p50), (Some(Nanos(501_000)), Some(Nanos(501_000))));
    assert_eq!(live.recent_count, 256);
}

fn fate() -> impl Strategy<Value = Fate> {
    use Fate::*;
    prop_oneof![
        20 => Just(Fine),
        1 => Just(NotSent),
        1 => Just(Dropped),
        1 => Just(LostOut),
        1 => Just(AnswerDropped),
        1 => Just(LostBack)
    ]
}

fn exchange() -> impl Strategy<Value = (Vec<Fate>, Vec<Event>, Vec<Event>)> {
    proptest::collection::vec(fate(), 60..120).prop_flat_map(|fates| {
        let exchange = Exchange::run(fates.len() as u64, |counter| fates[counter as usize - 1]);
        let shuffled = Just(exchange.events.clone()).prop_shuffle();
        (Just(fates), Just(exchange.events), shuffled)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_order_of_events_does_not_matter((fates, events, shuffled) in exchange()) {
        let scenario = scenario(1);
        let observations = observe(&scenario, &events);
        prop_assert_eq!(&observe(&scenario, &shuffled), &observations);
        // Every message is fine, lost once, or under way.
        let loss = &observations.streams[0].loss;
        let fine = fates.iter().filter(|&&fate| fate == Fate::Fine).count() as u64;
        prop_assert_eq!(loss.published + loss.under_way, fates.len() as u64);
        prop_assert_eq!(loss.dSum.unwrap(), loss.published - fine);
        let places = [loss.dP, loss.dL, loss.dbL, loss.dbP].into_iter().flatten().sum::<u64>();
        prop_assert_eq!(places, loss.dSum.unwrap());
        prop_assert!(observations.rows.iter().all(|row| (row.flags & flags::LOST).count_ones() <= 1));
    }

    #[test]
    fn transmit_stamps_and_arrivals_may_come_twice((_, events, shuffled) in exchange()) {
        let scenario = scenario(1);
        let repeatable = |event: &&Event| matches!(
            event.kind,
            EventKind::Left { .. } | EventKind::NotSent { .. } | EventKind::Published { .. } | EventKind::Arrived { .. }
        );
        let twice: Vec<_> = shuffled.iter().chain(events.iter().filter(repeatable)).copied().collect();
        prop_assert_eq!(observe(&scenario, &twice), observe(&scenario, &events));
    }

    #[test]
    fn arbitrary_records_never_panic(records in proptest::collection::vec(any::<[u64; 8]>(), 0..200), kinds: [u8; 8]) {
        let scenario = scenario(1);
        let mut collector = Collector::new(&scenario);
        for (mut record, kind) in records.into_iter().zip(kinds.into_iter().cycle()) {
            // Any values, but a kind and a stream that exist.
            record[0] = record[0] & 0xffff_ffff_0000_1f00 | u64::from(kind % 8 + 1);
            if record[0] & 0xff == 7 {
                record[0] &= 0x3_ffff_ffff;
            }
            if let Some(event) = Event::unpack(&record) {
                collector.push(event);
                collector.live();
            }
        }
        let observations = collector.finish(&scenario);
        summarise(&scenario, &observations, downbeat_measure::Kind::Measured, Default::default());
    }
}
