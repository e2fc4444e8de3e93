//! An application outside against an executive with a scripted clock: the application acts whenever the executive asks
//! whether it shall stop, as another process would, and not at all for some cycles.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;

use measure::{Event, EventKind, Side};
use pubsub::{
    Action, BreachRule, BreachRules, Condition, Endpoint, EndpointConfig, NetworkMessageLayout, Reception, Role,
};
use rt::clock::Clock;
use rt::image::{Image, Life};
use rt::ring::Ring;
use rt::testing::FakeClock;
use rt::wait::Wait;
use units::{Nanos, Tai};

use crate::beat::{Beat, End, Times};
use crate::executive::{Executive, Span};
use crate::outside::Outside;

const CYCLE: Nanos = Nanos::from_millis(1);
const CYCLES: i64 = 20;
/// It does nothing in these cycles.
const STILL: std::ops::Range<i64> = 8..14;

fn path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("downbeat-outside-{name}-{}", std::process::id()))
}

fn endpoint(role: Role) -> Endpoint {
    let layout = |id| NetworkMessageLayout::papers(id, 101, 3);
    let (write, read) = match role {
        Role::Source => (Some((layout(1), None)), None),
        Role::Echo => (Some((layout(2), None)), Some(layout(1))),
        Role::Sink => (None, Some(layout(1))),
    };
    Endpoint::with_values(EndpointConfig { role, write, read, variables: 3 }).unwrap().outside(CYCLE * 10)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

#[test]
fn an_application_that_stands_still_is_noticed_every_cycle_and_heard_again() {
    let path = path("still");
    let mut endpoint = endpoint(Role::Source);
    let outside = Outside::offer(&mut endpoint, &path, CYCLE * 10).unwrap();
    let mut end = End::new(0, Side::Writer, None, endpoint);
    end.outside = Some(outside);
    end.outside.as_ref().unwrap().begin();
    let times = Times {
        cycle: CYCLE,
        subscribe: Nanos::ZERO,
        window: Nanos::ZERO,
        application: CYCLE * 3 / 10,
        publish: CYCLE * 6 / 10,
    };
    let image = Image::attach(&path).unwrap();
    assert_eq!(image.life(), Life::Running);
    let (reader, writer) = (RefCell::new(image.input_reader().unwrap()), RefCell::new(image.output_writer().unwrap()));
    let seen = Cell::new(-1);
    let act = || {
        let mut reader = reader.borrow_mut();
        let Some(given) = reader.read().filter(|given| !STILL.contains(&(given.cycle + 1))) else { return false };
        if given.fresh {
            seen.set(given.cycle);
            // Inputs of an end that reads nothing: counter, age, fresh.
            assert_eq!((u64_at(given.bytes, 0), given.status), (given.cycle as u64 + 1, 0));
            assert_eq!((u64_at(given.bytes, 8) as i64, given.bytes[16]), (-1, 0));
            writer.borrow_mut().write(given.cycle, given.at, |bytes| bytes.fill(given.cycle as u8));
        }
        false
    };
    let ring = Ring::create("outside", 4096).unwrap();
    let (trace, mut events) = (ring.producer().unwrap(), ring.consumer().unwrap());
    let clock = FakeClock::new(Tai(1_000_000_000_000)).with_read_cost(Nanos(20));
    let span = Span { t0: clock.now() + CYCLE, duration: CYCLE * CYCLES, tai_minus_utc: Nanos::ZERO };
    let beats = vec![Beat::new(times, vec![end], Vec::new())];
    let mut executive = Executive::new((clock, Wait::Sleep), span, beats, Vec::new(), trace, &act);
    executive.run();
    let events = std::iter::from_fn(|| events.pop()).filter_map(|record| Event::unpack(&record));
    let looks: Vec<_> = events
        .filter_map(|event| match event.kind {
            EventKind::Outside { cycle, new, answered_after, .. } => Some((cycle, new, answered_after)),
            _ => None,
        })
        .collect();
    // Without a frame to send it is looked for in the application phase: what was given a cycle before is answered.
    let expected = |cycle: i64| {
        let new = cycle > 0 && !STILL.contains(&cycle);
        (cycle, new, new.then_some(1))
    };
    assert_eq!(looks, (0..CYCLES).map(expected).collect::<Vec<_>>());
    assert_eq!(seen.get(), CYCLES - 1);
    drop(executive);
    assert_eq!(image.life(), Life::Stopped, "applications are told to end");
    assert!(!path.exists(), "the path goes with the engine");
}

#[test]
fn what_was_written_last_is_published_on_and_answers_name_their_inputs() {
    let path = path("echo");
    let mut source = endpoint(Role::Source);
    let mut echo = endpoint(Role::Echo);
    let mut outside = Outside::offer(&mut echo, &path, CYCLE * 10).unwrap();
    let image = Image::attach(&path).unwrap();
    let names: Vec<_> = image.spec().fields().iter().map(|field| field.name.clone()).collect();
    assert_eq!(
        names,
        ["read.variable2", "read.variable3", "write.variable2", "write.variable3", "counter", "age_ns", "fresh"]
    );
    let (mut reader, mut writer) = (image.input_reader().unwrap(), image.output_writer().unwrap());
    let mut published = Vec::new();
    for cycle in 0..6 {
        let at = Tai(1_000_000 * (cycle + 1));
        source.application(cycle);
        source.outputs().fill(cycle as u8);
        echo.receive(source.publish(0).unwrap().frame);
        echo.decoded(at);
        let step = echo.application(cycle);
        outside.give(cycle, at + Nanos(7), step.read.is_some() && !step.repeated, &echo);
        // It acts in every other cycle.
        if cycle % 2 == 0 {
            let given = reader.read().unwrap();
            assert_eq!((given.cycle, given.status, u64_at(given.bytes, 16)), (cycle, 0, cycle as u64 + 1));
            assert_eq!((u64_at(given.bytes, 24), given.bytes[32]), (7, 1), "age and news");
            assert_eq!(given.bytes[..16], [cycle as u8; 16]);
            writer.write(given.cycle, given.at, |bytes| bytes.copy_from_slice(&given.bytes[..16]));
        }
        let looked = outside.take(cycle, at, &mut echo);
        let new = cycle % 2 == 0;
        let answered_after = new.then_some(0);
        assert_eq!(looked, Some(EventKind::Outside { cycle, at, new, stirred: new, answered_after, status: 0 }));
        let out = echo.publish(0).unwrap();
        published.push((out.counter, out.repeated));
        assert_eq!(echo.outputs().to_vec(), [cycle as u8 & !1; 16]);
    }
    assert_eq!(published, [(1, false), (1, true), (3, false), (3, true), (5, false), (5, true)]);
    // Nothing comes any more: the last values stay, and are Bad in the end.
    let late = Tai(6_000_000) + CYCLE * 10 + Nanos(1);
    echo.application(6);
    outside.give(6, late, false, &echo);
    let given = reader.read().unwrap();
    assert_eq!((given.status, given.bytes[32], given.bytes[0]), (0x809B_0000, 0, 5));
}

/// A source whose messages have a Status, and who reads it.
fn with_status() -> (Endpoint, Endpoint) {
    let layout = || NetworkMessageLayout::periodic_fixed(1, 101, 3);
    let config = |role, write, read| EndpointConfig { role, write, read, variables: 3 };
    let source = config(Role::Source, Some((layout(), None)), None);
    let sink = config(Role::Sink, None, Some(layout()));
    let end = |config| Endpoint::with_values(config).unwrap().outside(CYCLE * 10);
    (end(source), end(sink))
}

#[test]
fn the_status_of_outputs_goes_from_application_to_application() {
    for watched in [false, true] {
        let (from, to) = (path("status-from"), path("status-to"));
        let (mut source, mut sink) = with_status();
        let mut rules = BreachRules { receive_timeout: CYCLE * 10, ..BreachRules::default() };
        rules.rules[Condition::Missed.index()] = Some(BreachRule { action: Action::Count, recover: 1 });
        if watched {
            sink = sink.watched(rules);
        }
        let mut writes = Outside::offer(&mut source, &from, CYCLE * 10).unwrap();
        let mut reads = Outside::offer(&mut sink, &to, CYCLE * 10).unwrap();
        let [written, read] = [&from, &to].map(|path| Image::attach(path).unwrap());
        let (mut writer, mut reader) = (written.output_writer().unwrap(), read.input_reader().unwrap());
        // What the application says in a cycle; none: it does nothing.
        let says = |cycle: i64| match cycle {
            0 => None,
            1 => Some(0),
            2 => Some(0x4094_0000),
            3 => Some(0x8000_0000),
            4 => Some(0x808D_0000),
            _ => (cycle == 5 || cycle == 30).then_some(0),
        };
        for cycle in 0..40 {
            let at = Tai(1_000_000 * (cycle + 1));
            source.application(cycle);
            if let Some(status) = says(cycle) {
                writer.set_status(status);
                writer.write(cycle, at, |bytes| bytes.fill(cycle as u8));
            }
            let Some(EventKind::Outside { status, .. }) = writes.take(cycle, at, &mut source) else {
                panic!("no look")
            };
            let frame = source.publish(0).unwrap().frame.to_vec();
            // A counter is one however bad the values behind it are.
            let message = Reception::Message { counter: cycle as u64 + 1, superseded: None };
            assert_eq!(sink.receive(&frame), message, "cycle {cycle}, watched {watched}");
            sink.decoded(at);
            sink.supervise(cycle, at, Nanos::ZERO);
            let step = sink.application(cycle);
            reads.give(cycle, at, !step.repeated, &sink);
            let given = reader.read().unwrap();
            // What is kept for messages without counter goes out as Bad; who is silent for ten cycles is uncertain.
            let expected = match cycle {
                0 => 0x8032_0000,
                4 => 0x8000_0000,
                16..30 => 0x4090_0000,
                _ => says(cycle).unwrap_or(0),
            };
            assert_eq!(given.status, expected, "cycle {cycle}, watched {watched}");
            assert_eq!(status, if cycle == 4 { 0x808D_0000 } else { expected }, "cycle {cycle}");
            let last = (1..=cycle).rev().find(|cycle| says(*cycle).is_some()).unwrap_or(0);
            assert_eq!(given.bytes[..16], [last as u8; 16]);
        }
    }
}

#[test]
fn a_bad_output_of_an_application_that_is_silent_stays_bad() {
    let from = path("status-bad");
    let (mut source, _) = with_status();
    let mut writes = Outside::offer(&mut source, &from, CYCLE * 10).unwrap();
    let mut writer = Image::attach(&from).unwrap().output_writer().unwrap();
    writer.set_status(0x8000_0000);
    writer.write(0, Tai(0), |bytes| bytes.fill(1));
    let mut status = |cycle: i64| match writes.take(cycle, Tai(1_000_000 * cycle), &mut source) {
        Some(EventKind::Outside { status, .. }) => status,
        other => panic!("{other:?}"),
    };
    assert_eq!([1, 11, 12, 50].map(&mut status), [0x8000_0000; 4]);
}

#[test]
fn an_image_in_use_or_a_strange_file_is_refused_in_words() {
    let path = path("taken");
    let _held = Outside::offer(&mut endpoint(Role::Sink), &path, CYCLE * 10).unwrap();
    let error = Outside::offer(&mut endpoint(Role::Sink), &path, CYCLE * 10).unwrap_err();
    assert!(error.contains("end that one or take another path"), "{error}");
    let file = path.with_extension("file");
    std::fs::write(&file, "").unwrap();
    let error = Outside::offer(&mut endpoint(Role::Sink), &file, CYCLE * 10).unwrap_err();
    assert!(error.contains("another file is there"), "{error}");
    std::fs::remove_file(file).unwrap();
}
