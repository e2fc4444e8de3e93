//! Joining part by part, against joining in one go.

mod common;

use std::path::{Path, PathBuf};

use common::trace::Trace;
use common::{CYCLE, Exchange, Fate};
use downbeat_measure::{
    Collector, Event, EventKind, Kind, Machine, RunFile, Side, Whole, join_folders, join_into, read_run, summarise,
    write_run, write_whole,
};
use scenario::{Limit, LimitValue, Quantity, Scenario};
use units::{Nanos, Tai};

/// Cycles, and messages.
const CYCLES: i64 = 30_000;

fn cycle_of(event: &Event) -> i64 {
    match event.kind {
        EventKind::Published { at, .. } | EventKind::Left { at, .. } => at.0.div_euclid(CYCLE),
        EventKind::Arrived { decoded, .. } => decoded.0.div_euclid(CYCLE),
        EventKind::Application { cycle, .. } | EventKind::Phase { cycle, .. } => cycle,
        _ => 0,
    }
}

/// What a side leaves that begins a new part in each of these cycles.
fn side(dir: &Path, scenario: &Scenario, side: Side, events: &[Event], cuts: &[i64]) {
    let mut collector = Collector::of_ends(scenario, |_, end| end == side);
    let mut events = events.iter().filter(|event| event.side == side).peekable();
    let (mut whole, mut number) = (Whole::new(), 0);
    let machine = |until: i64| {
        let mut machine = Machine::new();
        machine.insert("first_cycle_at_ns".into(), 0.into());
        machine.insert("role".into(), if side == Side::Writer { "publish" } else { "loopback" }.into());
        machine.insert("part".into(), serde_json::json!({ "until_ns": until }));
        machine
    };
    let mut write = |part: Collector, until: i64| {
        number += 1;
        let name = format!("part-{number:04}");
        part.write_ends(&dir.join(&name), scenario).unwrap();
        let seen = part.finish(scenario);
        let run = summarise(scenario, &seen, Kind::Measured, machine(until));
        write_run(&dir.join(&name), scenario, &run, &seen.rows).unwrap();
        whole.add(name, run, &seen.streams);
    };
    for cut in cuts {
        while let Some(event) = events.next_if(|event| cycle_of(event) < *cut) {
            collector.push(*event);
        }
        // A second for what is under way.
        let until = (cut - 4_000) * CYCLE;
        write(collector.cut(Tai(until)), until);
    }
    events.for_each(|event| collector.push(*event));
    write(collector, i64::MAX);
    write_whole(dir, scenario, &whole.finish(scenario, machine(i64::MAX)).unwrap()).unwrap();
}

fn parts_of(out: &Path, run: &RunFile) -> Vec<PathBuf> {
    run.parts.iter().map(|part| out.join(&part.folder)).collect()
}

#[test]
fn part_by_part_comes_to_the_same_as_in_one_go() {
    let text = scenario::template("two-hosts").unwrap().replace("cycle = \"1ms\"", "cycle = \"250us\"");
    let mut scenario = scenario::read(&text, "test.toml").unwrap();
    scenario.requirement = vec![
        Limit { quantity: Quantity::OneWay, value: LimitValue::Span(Nanos(1_200)) },
        Limit { quantity: Quantity::LossSum, value: LimitValue::Count(100) },
    ];
    let fate = |counter: u64| match counter % 50 {
        7 => Fate::LostOut,
        23 => Fate::LostBack,
        41 => Fate::Superseded,
        _ => Fate::Fine,
    };
    let mut exchange = Exchange::run(CYCLES as u64 - 10, fate);
    let mut trace = Trace::default();
    trace.phases(0..CYCLES, |_, cycle, _| if cycle % 1_000 == 5 { 200_000 } else { 0 });
    exchange.events.extend(trace.exchange.events);
    exchange.events.sort_by_key(cycle_of);
    let folder = tempfile::tempdir().unwrap();
    let dirs = ["pub", "loop"].map(|name| folder.path().join(name));
    side(&dirs[0], &scenario, Side::Writer, &exchange.events, &[6_000, 12_000, 20_000, 26_000]);
    side(&dirs[1], &scenario, Side::Reader, &exchange.events, &[9_000, 17_000, 25_000]);

    let error = Nanos(100);
    let expected = join_folders(&dirs, error).unwrap();
    let out = folder.path().join("long");
    let run = join_into(&dirs, error, (&out, "join"), 1_000).unwrap();
    assert!(run.parts.len() >= 4, "{:?}", run.parts);
    let (one, other) = (&run.streams[0], &expected.run.streams[0]);
    assert_eq!((one.frames, one.arrived, &one.loss), (other.frames, other.arrived, &other.loss));
    assert_eq!(one.counters, other.counters);
    let judged = |run: &RunFile| -> Vec<_> {
        run.verdict.items.iter().map(|item| (item.quantity.clone(), item.found, item.met)).collect()
    };
    assert_eq!(judged(&run), judged(&expected.run));
    assert!(judged(&run).iter().any(|(_, _, met)| *met) && !run.verdict.met);
    assert_eq!(run.clocks, expected.run.clocks);
    let mut rows = Vec::new();
    for part in parts_of(&out, &run) {
        let (part, of_part, _) = read_run(&part).unwrap();
        assert!(part.streams[0].one_way.is_some() && !part.hosts.is_empty());
        rows.extend(of_part);
    }
    rows.sort_by_key(|row| row.counter);
    assert_eq!(rows.len(), expected.rows.len());
    assert!(rows.iter().zip(&expected.rows).all(|(one, other)| (one.counter, one.t) == (other.counter, other.t)));

    // Short enough, it is one.
    let out = folder.path().join("short");
    let run = join_into(&dirs, error, (&out, "join"), CYCLES as u64).unwrap();
    assert!(run.parts.is_empty() && run.streams == expected.run.streams);
    assert_eq!(run.machine["command"], "join");
}
