//! Breaches in results: spells of begin and end, counts, incidents, live figures.

mod common;

use common::{CYCLE, Exchange, Fate};
use downbeat_measure::{BreachResult, Collector, Event, EventKind, Kind, Machine, RunFile, Side, Whole, summarise};
use proptest::prelude::*;
use scenario::{Action, BreachChange, BreachPlan, BreachRule, Breaches, Condition, Scenario};
use units::{Nanos, Tai};

use BreachChange::{Began, Ended};
use Condition::{Missed, Silent};

/// A line of two hosts whose ends watch for missing counters and silences.
fn scenario(actions: [Action; 2]) -> Scenario {
    let mut scenario = common::scenario(0);
    let mut plans = [const { None }; Condition::COUNT];
    for (condition, action) in [Missed, Silent].into_iter().zip(actions) {
        plans[condition.index()] =
            Some(BreachPlan { rule: BreachRule { action, recover: 3 }, at: None, hook: Vec::new() });
    }
    let breaches = Breaches { plans, allowed_missing: 0, receive_timeout: Nanos(2_500_000) };
    scenario.streams[0].breaches = Some(breaches);
    scenario
}

fn breach(condition: Condition, change: BreachChange, cycle: i64, counter: u64) -> EventKind {
    EventKind::Breach { cycle, condition, change, counter, at: Tai(cycle * CYCLE + 75_000) }
}

fn exchange() -> Exchange {
    let mut exchange = Exchange::run(400, |_| Fate::Fine);
    (0..=405).for_each(|cycle| exchange.phase(cycle, 0, 0));
    exchange
}

fn of<'a>(run: &'a RunFile, end: &str, condition: &str) -> &'a BreachResult {
    let mut found = run.streams[0].breaches.iter();
    found
        .find(|breach| (breach.end.as_str(), breach.condition.as_str()) == (end, condition))
        .expect("it is watched for")
}

#[test]
fn spells_are_counted_and_each_is_an_incident() {
    let scenario = scenario([Action::Hold, Action::Safe(7)]);
    let mut exchange = exchange();
    for (side, kind) in [
        (Side::Writer, breach(Silent, Began, 100, 90)),
        (Side::Writer, breach(Silent, Ended, 160, 151)),
        (Side::Writer, breach(Missed, Began, 157, 151)),
        (Side::Writer, breach(Missed, Ended, 160, 154)),
        (Side::Writer, breach(Silent, Began, 200, 190)),
        (Side::Writer, breach(Silent, Ended, 210, 201)),
        (Side::Reader, breach(Silent, Began, 396, 390)),
        // Not watched for: not counted.
        (Side::Reader, breach(Condition::Late, Began, 5, 1)),
    ] {
        exchange.push(side, kind);
        exchange.push(side, kind);
    }
    exchange.events.reverse();
    let run = exchange.summarise(&scenario);
    assert_eq!(run.streams[0].breaches.len(), 4, "two conditions, two ends");
    let silent = of(&run, "writer", "silent");
    assert_eq!((silent.host.as_str(), silent.action.as_str()), ("pub", "safe"));
    assert_eq!((silent.times, silent.cycles, silent.longest_cycles, silent.lasting), (2, 70, 60, false));
    let missed = of(&run, "writer", "missed");
    assert_eq!((missed.times, missed.cycles, missed.lasting), (1, 3, false));
    let lasting = of(&run, "reader", "silent");
    assert_eq!((lasting.times, lasting.cycles, lasting.lasting), (1, 10, true), "until the last cycle, 405");
    assert_eq!(of(&run, "reader", "missed").times, 0);

    let incidents: Vec<_> = run.incidents.iter().filter(|incident| incident.kind.starts_with("breach-")).collect();
    let kinds: Vec<_> = incidents.iter().map(|incident| (incident.kind.as_str(), incident.lasted_ns)).collect();
    assert_eq!(
        kinds,
        [
            ("breach-silent", Some(60 * CYCLE)),
            ("breach-missed", Some(3 * CYCLE)),
            ("breach-silent", Some(10 * CYCLE)),
            ("breach-silent", Some(10 * CYCLE - 75_000)),
        ]
    );
    assert_eq!(
        incidents[0].cause,
        "pub: stream flow1: no message for longer than 2.5 ms after counter 90, noticed in cycle 100; the safe value 7 \
         was published for 60 cycles; normal again in cycle 160, after 3 good cycles"
    );
    assert!(incidents[1].cause.contains("counters before 151 never came"), "{}", incidents[1].cause);
    assert!(incidents[1].cause.contains("the last usable values were held for 3 cycles"), "{}", incidents[1].cause);
    assert!(incidents[3].cause.ends_with("for 10 cycles; it went on when the run ended"), "{}", incidents[3].cause);
    assert!(incidents.iter().all(|incident| incident.frames == 0), "what was lost is counted where it was lost");

    let text = serde_json::to_string(&run).unwrap();
    assert_eq!(serde_json::from_str::<RunFile>(&text).unwrap(), run);
}

#[test]
fn a_breach_that_stopped_the_run_says_so() {
    let scenario = scenario([Action::Stop, Action::Count]);
    let mut exchange = exchange();
    exchange.push(Side::Reader, breach(Missed, Began, 404, 402));
    let run = exchange.summarise(&scenario);
    let stop = run.incidents.iter().find(|incident| incident.kind == "breach-missed").unwrap();
    assert!(stop.cause.ends_with("it stopped the run (action stop)"), "{}", stop.cause);
    assert!(of(&run, "reader", "missed").lasting);
}

#[test]
fn what_nobody_watched_for_is_absent() {
    let run = exchange().summarise(&common::scenario(0));
    assert!(run.streams[0].breaches.is_empty());
    let text = serde_json::to_string(&run).unwrap();
    assert!(!text.contains("breach") && !text.contains("substituted"));
    // An end without a trace has watched nothing that we know of.
    let mut exchange = exchange();
    exchange.events.retain(|event| event.side == Side::Writer);
    let run = exchange.summarise(&scenario([Action::Count; 2]));
    assert!(run.streams[0].breaches.iter().all(|breach| breach.end == "writer"), "{:?}", run.streams[0].breaches);
}

#[test]
fn messages_without_counter_are_no_frames() {
    let scenario = scenario([Action::Count; 2]);
    let plain = exchange().summarise(&scenario);
    let mut exchange = exchange();
    for number in 0..9 {
        let (at, value) = (Tai(number * CYCLE), 77);
        let handle = 1_000 + number as u32;
        exchange.push(Side::Writer, EventKind::Substitute { at, value, handle: Some(handle) });
        exchange.push(Side::Writer, EventKind::Left { handle, at });
        exchange.push(Side::Reader, EventKind::Substitute { at, value, handle: None });
    }
    let mut run = exchange.summarise(&scenario);
    assert_eq!(run.streams[0].counters.substituted, 9);
    run.streams[0].counters.substituted = 0;
    assert_eq!(run, plain, "nothing else has changed");
}

#[test]
fn live_figures_tell_what_has_begun() {
    let mut collector = Collector::new(&scenario([Action::Count; 2]));
    assert!(collector.live().breaches.is_empty());
    for (change, cycle) in [(Began, 4), (Ended, 9), (Began, 20)] {
        collector.push(Event { stream: 0, side: Side::Reader, kind: breach(Silent, change, cycle, 3) });
    }
    let live = collector.live().breaches;
    assert_eq!(live.len(), 1);
    let expected = (Side::Reader, Silent, 2, true, 20);
    assert_eq!((live[0].side, live[0].condition, live[0].times, live[0].on, live[0].cycle), expected);
}

#[test]
fn a_breach_over_a_cut_is_counted_once_and_its_cycles_in_both_parts() {
    let scenario = scenario([Action::Count; 2]);
    let mut exchange = exchange();
    for (side, kind) in [
        (Side::Writer, breach(Silent, Began, 100, 90)),
        (Side::Writer, breach(Silent, Ended, 160, 151)),
        (Side::Reader, breach(Silent, Began, 190, 180)),
        (Side::Reader, breach(Silent, Ended, 320, 310)),
        (Side::Reader, breach(Missed, Began, 300, 180)),
    ] {
        exchange.push(side, kind);
    }
    let whole = exchange.summarise(&scenario);
    let mut collector = Collector::new(&scenario);
    exchange.events.iter().for_each(|&event| collector.push(event));
    // The reader's silence of cycles 190 to 320 is cut twice.
    let cuts = [200, 250].map(|cycle| collector.cut(Tai(cycle * CYCLE)));
    let mut sum = Whole::new();
    let mut parts = Vec::new();
    for part in cuts.into_iter().chain([collector]) {
        let seen = part.finish(&scenario);
        let run = summarise(&scenario, &seen, Kind::Measured, Machine::new());
        parts.push(run.clone());
        sum.add("part".to_owned(), run, &seen.streams);
    }
    let figures = |run: &RunFile, end| {
        let found = of(run, end, "silent");
        (found.times, found.cycles, found.lasting)
    };
    let silent: Vec<_> = parts.iter().map(|part| figures(part, "reader")).collect();
    assert_eq!(silent, [(1, 10, true), (0, 50, true), (0, 70, false)]);
    let writer: Vec<_> = parts.iter().map(|part| figures(part, "writer")).collect();
    assert_eq!(writer, [(1, 60, false), (0, 0, false), (0, 0, false)]);
    let sum = sum.finish(&scenario, Machine::new()).unwrap();
    for end in ["writer", "reader"] {
        assert_eq!(figures(&sum, end), figures(&whole, end), "{end}");
    }
    assert!(of(&sum, "reader", "missed").lasting);
    let told = |run: &RunFile| run.incidents.iter().filter(|incident| incident.kind.starts_with("breach-")).count();
    assert_eq!((told(&sum), told(&whole)), (3, 3));
}

proptest! {
    /// Begins and ends of any trace, with holes, in any order: nothing panics, and what is counted fits together.
    #[test]
    fn any_trace_of_begins_and_ends_adds_up(
        events in proptest::collection::vec((any::<bool>(), 0..2_usize, any::<bool>(), -10..500_i64), 0..60),
        far: bool,
    ) {
        let mut exchange = exchange();
        for (reader, condition, ended, cycle) in events {
            let side = if reader { Side::Reader } else { Side::Writer };
            let change = if ended { Ended } else { Began };
            let cycle = if far && cycle > 400 { i64::MAX - cycle } else { cycle };
            let kind = EventKind::Breach { cycle, condition: [Missed, Silent][condition], change, counter: 1, at: Tai(cycle) };
            exchange.push(side, kind);
        }
        let run = exchange.summarise(&scenario([Action::Count; 2]));
        let times: u64 = run.streams[0].breaches.iter().map(|breach| breach.times).sum();
        let told = run.incidents.iter().filter(|incident| incident.kind.starts_with("breach-")).count();
        prop_assert_eq!(times, told as u64);
        for breach in &run.streams[0].breaches {
            prop_assert!(breach.longest_cycles <= breach.cycles && (breach.times > 0 || breach.cycles == 0));
        }
    }
}
