//! The simulated port against the real queueing discipline in the kernel laboratory, frame by frame, to the nanosecond.
//!
//! With `DOWNBEAT_SEED=1000` random frames are others: so much is added to each seed.

#[path = "cross_validation/cbs.rs"]
mod cbs;
mod common;
mod lab;
#[path = "cross_validation/peculiar.rs"]
mod peculiar;
#[path = "cross_validation/qdiscs.rs"]
mod qdiscs;

use common::mqprio;
use downbeat_sim::{Passed, pass};
use lab::{Port, Sent};
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};
use scenario::{Queue, Shaper};

/// `count` frames at random distances of these, in ns, of random priorities and sizes of these.
fn random(seed: u64, count: usize, distances: &[i64], priorities: &[u32], sizes: &[u32]) -> Vec<Sent> {
    let others = std::env::var("DOWNBEAT_SEED").map_or(0, |words| {
        words.parse().unwrap_or_else(|_| panic!("DOWNBEAT_SEED={words}: expected a number, as 1000"))
    });
    let mut random = ChaCha8Rng::seed_from_u64(seed + others);
    let mut of = |n: usize| random.next_u32() as usize % n;
    let frame = |_| Sent {
        after_ns: distances[of(distances.len())],
        priority: priorities[of(priorities.len())],
        bytes: sizes[of(sizes.len())],
    };
    (0..count).map(frame).collect()
}

/// mqprio as `tsn` renders it, with pfifo leaves: those that mqprio makes itself are pfifo_fast, three bands by priority, so
/// that one class overtakes itself. `shaped` is what stands below a class instead.
fn mqprio_words(queue: &Queue, shaped: impl Fn(u8) -> Option<String>) -> Vec<String> {
    let classes = (0..16).map(|priority| queue.class_of(priority)).max().unwrap() + 1;
    let map: Vec<String> = (0..16).map(|priority| (classes - 1 - queue.class_of(priority)).to_string()).collect();
    let queues: Vec<String> = (0..classes).map(|tc| format!("1@{tc}")).collect();
    let root =
        format!("root handle 100: mqprio num_tc {classes} map {} queues {} hw 0", map.join(" "), queues.join(" "));
    let leaf = |leaf: u8| {
        let words = shaped(classes - leaf).unwrap_or_else(|| "pfifo limit 1000".into());
        format!("parent 100:{leaf} {words}")
    };
    std::iter::once(root).chain((1..=classes).map(leaf)).collect()
}

const PRIORITIES: [u32; 8] = [0, 1, 2, 3, 4, 5, 6, 7];

#[test]
fn mqprio_is_equal_frame_by_frame() {
    let queue = mqprio(Shaper::None);
    let port = Port {
        name: "mqprio",
        queues: 8,
        wire: true,
        qdiscs: mqprio_words(&queue, |_| None),
        frames: random(1, 400, &[50, 3_000, 9_000, 20_000], &PRIORITIES, &[60, 146, 600, 1514]),
    };
    let Some(seen) = lab::observe("mqprio", std::slice::from_ref(&port)) else { return };
    lab::compare(
        &port,
        &seen[0],
        &pass(&lab::passage(Passed::Queue(&queue, &[])), &lab::arrivals(&port, &seen[0])).unwrap(),
    );
}
