//! CBS in software, below mqprio and at the root.

use downbeat_sim::{Passed, pass};
use scenario::{Cbs, Classes, Queue, Shaper};
use units::Rate;

use crate::lab::credits::{told, words};
use crate::lab::{self, Port, Sent};
use crate::{mqprio_words, random};

fn shaper(mbit: f64) -> Shaper {
    Shaper::Cbs(Cbs { idle_slope: Rate((mbit * 1e6) as u64), offload: false })
}

/// Priorities 6 and 7 in the highest class, 4 and 5 in the next, the rest below, unshaped.
pub(crate) fn classes(high_mbit: f64, low_mbit: Option<f64>) -> Queue {
    let mut map = [0; 16];
    map[4..6].fill(1);
    map[6..8].fill(2);
    Queue::Mqprio(Classes {
        map,
        shapers: vec![Shaper::None, low_mbit.map_or(Shaper::None, shaper), shaper(high_mbit)],
    })
}

struct Case {
    queue: Queue,
    port: Port,
}

fn case(name: &'static str, queue: Queue, frames: Vec<Sent>) -> Case {
    let credits = told(&queue);
    let (queues, qdiscs) = match &queue {
        Queue::Cbs(_) => (1, vec![format!("root handle 100: {}", words(&credits[0].unwrap()))]),
        _ => (8, mqprio_words(&queue, |class| credits[usize::from(class)].as_ref().map(words))),
    };
    Case { queue, port: Port { name, queues, wire: true, qdiscs, frames } }
}

fn frame(after_ns: i64, priority: u32, bytes: u32) -> Sent {
    Sent { after_ns, priority, bytes }
}

/// Bursts of both classes beside a busy third, then idle for long, and again.
fn bursts() -> Vec<Sent> {
    let mut frames = Vec::new();
    for round in 0..6 {
        frames.push(frame(900_000 + round * 137, 0, 1514));
        frames.extend((0..8).map(|_| frame(40, 7, 146)));
        frames.extend((0..5).map(|k| frame(60, 5, 300 + 100 * k)));
        frames.extend((0..20).map(|k| frame(11_000 + 97 * k, 0, 1514 - 60 * k as u32)));
        // One of the class, and one as its credit ends.
        frames.push(frame(400_000, 7, 146));
        frames.push(frame(3_000 + round, 7, 146));
        frames.push(frame(1_000, 6, 60));
    }
    frames
}

#[test]
fn cbs_is_equal_frame_by_frame() {
    const SIZES: [u32; 4] = [60, 146, 600, 1514];
    let (busy, loose) = ([50, 3_000, 9_000, 13_000], [50, 9_000, 30_000, 200_000]);
    let every = crate::PRIORITIES;
    let root = |mbit: u64| Queue::Cbs(Cbs { idle_slope: Rate::from_mbit(mbit), offload: false });
    let cases = [
        case("cbs 20 and 100 Mbit/s, hand-made bursts", classes(20.0, Some(100.0)), bursts()),
        case("cbs 300 and 200 Mbit/s, hand-made bursts", classes(300.0, Some(200.0)), bursts()),
        case("cbs 5 Mbit/s, random and busy", classes(5.0, None), random(2, 300, &busy, &every, &SIZES)),
        case("cbs 98.7 and 50 Mbit/s, random", classes(98.688, Some(50.0)), random(3, 400, &loose, &every, &SIZES)),
        case(
            "cbs 600 and 250 Mbit/s, random and busy",
            classes(600.0, Some(250.0)),
            random(4, 400, &busy, &every, &SIZES),
        ),
        case("cbs 100 Mbit/s at the root", root(100), random(5, 300, &loose, &every, &SIZES)),
        case("cbs 900 Mbit/s at the root", root(900), random(6, 300, &busy, &every, &SIZES)),
    ];
    let ports: Vec<Port> = cases.iter().map(|case| case.port.clone()).collect();
    let Some(seen) = lab::observe("cbs", &ports) else { return };
    for (case, seen) in cases.iter().zip(&seen) {
        let credits = told(&case.queue);
        let passage = lab::passage(Passed::Queue(&case.queue, &credits));
        lab::compare(&case.port, seen, &pass(&passage, &lab::arrivals(&case.port, seen)).unwrap());
    }
}
