//! The simulated port against taprio and etf of the kernel laboratory, frame by frame, to the nanosecond.
//!
//! `cargo test -p downbeat-sim --test cross_validation_taprio -- --nocapture` prints what docs/cross-validation.md says;
//! with `SHOW=1` each frame, too, and with `DOWNBEAT_SEEDS=1000..1200` these seeds instead of a few.

#[path = "cross_validation_taprio/case.rs"]
mod case;
#[path = "lab/credits.rs"]
mod credits;
#[path = "cross_validation_taprio/defects.rs"]
mod defects;
#[path = "cross_validation_taprio/random.rs"]
mod random;

use case::{Frame, classes, compare_one, frame, taprio};
use downbeat_sim::{Cause, Fate};
use random::{assisted, source};
use scenario::{Etf, Queue, Shaper, TaprioMode};
use units::Nanos;

pub(crate) const SOFTWARE: TaprioMode = TaprioMode::Software;

/// Class 2 has no window; 1 has 20 µs in the middle of class 0's.
pub(crate) const EDGES: [(u8, i64); 4] = [(0b001, 20_000), (0b010, 20_000), (0b001, 45_000), (0b000, 15_000)];

#[test]
fn software_taprio_at_its_edges() {
    let queue = taprio(vec![Shaper::None; 3], SOFTWARE, 0, &EDGES);
    let mut frames = Vec::new();
    let mut cycle = 10;
    let mut next = || {
        cycle += 2;
        cycle * 100_000
    };
    for ns in -32..8 {
        // As its gate opens, and as a frame of 1024 bytes on the line, 8.192 µs, fits no more.
        frames.push(frame(next() + 20_000 + ns, 1, 200));
        frames.push(frame(next() + 40_000 - 8_192 + ns, 1, 1_000));
    }
    // Bursts in the middle of a window, before it and beside others.
    for _ in 0..4 {
        let from = next();
        frames.extend((0..12).map(|n| frame(from + 30_000 + n, 1, 1_000)));
        frames.extend((0..3).map(|n| frame(from + 30_020 + n, 0, 300)));
        let from = next();
        frames.extend((0..30).map(|n| frame(from + 52_000 + n, (n % 2) as u8, 1_000)));
    }
    // Without a window.
    let shut = frames.len();
    frames.push(frame(next(), 2, 60));
    if let Some(found) = compare_one("taprio in software, edges of gates", &queue, &frames) {
        assert_eq!(found.fates[shut], Fate::Lost(Cause::Gate));
    }
}

#[test]
fn software_taprio_of_classes_that_are_open_together() {
    // Gates that stay open over entries, with accounts of their own in each; class 3 is open always.
    let entries = [(0b1111, 30_000), (0b1011, 25_000), (0b1110, 40_000), (0b1000, 20_000)];
    let queue = taprio(vec![Shaper::None; 4], SOFTWARE, 50_000, &entries);
    let mut of = source(77);
    let mut frames = Vec::new();
    for burst in 0..24 {
        let from = burst * 200_000 + of(0, 115_000);
        frames.extend((0..of(4, 20)).map(|n| frame(from + n, of(0, 3) as u8, [300, 1_514][of(0, 1) as usize])));
    }
    compare_one("taprio in software, classes together", &queue, &frames);
}

#[test]
fn software_taprio_before_its_first_cycle() {
    let queue = taprio(vec![Shaper::None; 3], SOFTWARE, 300_000, &EDGES);
    // All gates are open till then, also of the class that has no window; what came before passes the next gates.
    let frames: Vec<Frame> = (0..120).map(|n| frame(n * 4_000 + n / 40 * 50, (n % 3) as u8, 400)).collect();
    if let Some(found) = compare_one("taprio in software, before its start", &queue, &frames) {
        assert!(found.begin(2).is_some());
        assert_eq!(found.fates[119], Fate::Lost(Cause::Gate));
    }
}

#[test]
fn assisting_taprio_at_its_edges() {
    let queue = assisted(3, 5_000, 50_000, 0, &EDGES);
    let mut frames = Vec::new();
    let mut cycle = 10;
    let mut next = || {
        cycle += 2;
        cycle * 100_000
    };
    // What has no launch time gets one 50 µs after it came: as its window opens, and as it fits no more.
    for ns in -32..8 {
        frames.push(frame(next() + 20_000 - 50_000 + ns, 1, 200));
        frames.push(frame(next() + 40_000 - 8_192 - 50_000 + ns, 1, 1_000));
    }
    // Launch times of its own: refused at both edges of a window, whoever asks.
    let (bare, own) = (frames.len(), [19_999, 20_000, 20_001, 31_807, 31_808, 31_809]);
    for launch in own {
        let from = next();
        frames.push(Frame { launch: Some(from + launch), ..frame(from, 1, 1_000) });
    }
    let after = frames.len();
    // More than fit, of two classes that share an entry and of one that has none.
    let from = next();
    frames.extend((0..40).map(|n| frame(from + n * 100, (n % 3) as u8, [300, 1_514][n as usize % 2])));
    if let Some(found) = compare_one("taprio with txtime-assist, edges", &queue, &frames) {
        let taken: Vec<bool> = (bare..after).map(|index| found.begin(index).is_some()).collect();
        assert_eq!(taken, [false, false, true, true, false, false]);
        assert!(found.lost(Cause::Gate) > 4);
    }
}

/// A launch every 250 µs beside 900 Mbit/s of others, as in a run.
#[test]
fn etf_beside_900_mbit() {
    for delta in [1_000, 14_000] {
        let etf = Etf { delta: Nanos(delta), offload: false, deadline_mode: false, skip_sock_check: false };
        let queue = Queue::Mqprio(classes(vec![Shaper::None, Shaper::Etf(etf)]));
        let mut frames: Vec<Frame> = (0..5_000 / 13).map(|k| frame(k * 13_084, 0, 1_514)).collect();
        frames
            .extend((0..20).map(|k| Frame { launch: Some(k * 250_000 + 150_000), ..frame(k * 250_000 + 20, 1, 122) }));
        frames.sort_by_key(|frame| frame.at);
        if let Some(found) = compare_one(&format!("etf beside 900 Mbit/s, delta {delta} ns"), &queue, &frames) {
            println!("{} of 20 missed", found.lost(Cause::LaunchMissed));
        }
    }
}
