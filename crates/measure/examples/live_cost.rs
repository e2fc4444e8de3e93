//! What an event costs the live figures: prints nanoseconds an event, over the events of a million messages.
//!
//! `cargo run --release -p downbeat-measure --example live_cost`

use std::time::Instant;

use downbeat_measure::live::Aggregate;
use downbeat_measure::{Event, EventKind, Phase, Side};
use scenario::{LineSpec, line};
use units::{Nanos, Tai};

const CYCLE: i64 = 250_000;
const MESSAGES: u64 = 1_000_000;

fn main() {
    let mut figures = Aggregate::new(&line(&LineSpec::default()));
    let (mut events, mut spent) = (0, std::time::Duration::ZERO);
    // In portions of 20 ms, as a run's parent takes them.
    for first in (1..=MESSAGES).step_by(80) {
        let portion: Vec<Event> = (first..first + 80).flat_map(message).collect();
        let begun = Instant::now();
        portion.iter().for_each(|event| figures.push(event));
        spent += begun.elapsed();
        events += portion.len();
    }
    let begun = Instant::now();
    let snapshot: Vec<_> = figures.streams().iter().map(|stream| stream.counts()).collect();
    println!("{:.0} ns an event, over {events} events", spent.as_nanos() as f64 / events as f64);
    println!("{} messages counted, read in {:?}", snapshot[0].published, begun.elapsed());
}

/// The events of one message with an echo, four cycles on its way, and of the phases of a cycle.
fn message(counter: u64) -> impl Iterator<Item = Event> {
    let cycle = counter as i64;
    // Some jitter, so that not one bucket alone is met.
    let jitter = (counter.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as i64;
    let at = move |cycles: i64, offset: i64| Tai((cycle + cycles) * CYCLE + offset + jitter);
    let (sequence, handle) = (counter as u16, counter as u32);
    let published = move |cycles| EventKind::Published {
        cycle: cycle + cycles,
        counter,
        sequence,
        handle,
        at: at(cycles, 150_000),
        launch: None,
        bytes: 77,
        repeated: false,
    };
    let arrived = move |cycles| EventKind::Arrived {
        cycle: cycle + cycles,
        counter,
        stamp: Some(at(cycles, -90_000)),
        decoded: at(cycles, 10_000),
        tag: Some((3000, 7)),
        superseded: None,
        inconsistent: false,
    };
    let application = EventKind::Application {
        cycle: cycle + 4,
        wrote: None,
        read: Some(counter),
        repeated: false,
        missed: 0,
        round_trip_cycles: Some(4),
    };
    let phases = Phase::ALL.into_iter().flat_map(move |phase| {
        let kind = EventKind::Phase { cycle, phase, due: Tai(cycle * CYCLE), late: Nanos(jitter), took: Nanos(5_000) };
        [(Side::Writer, kind), (Side::Reader, kind)]
    });
    let own = [
        (Side::Writer, published(0)),
        (Side::Writer, EventKind::Left { handle, at: at(1, 150_000) }),
        (Side::Reader, arrived(2)),
        (Side::Reader, published(2)),
        (Side::Reader, EventKind::Left { handle, at: at(3, 150_000) }),
        (Side::Writer, arrived(4)),
        (Side::Writer, application),
    ];
    own.into_iter().chain(phases).map(|(side, kind)| Event { stream: 0, side, kind })
}
