//! Random schedules, shapers and arrivals.

use std::ops::Range;

use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};
use scenario::{Cbs, Etf, Queue, Shaper, TaprioMode};
use units::{Nanos, Rate};

use crate::SOFTWARE;
use crate::case::{Case, Frame, classes, compare, frame, taprio};

/// Draws from `low` to `high`, both included.
pub(crate) fn source(seed: u64) -> impl FnMut(i64, i64) -> i64 {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    move |low, high| low + (random.next_u64() % (high - low + 1) as u64) as i64
}

/// Seeds of one start of the laboratory, whose messages and memory are limited.
const BATCH: usize = 50;

/// Compares the case of each of these seeds, and of others that once differed, or instead of those that `DOWNBEAT_SEEDS`
/// names, as `1000..1200`.
fn compare_seeds(seeds: Range<u64>, others: &[u64], case: impl Fn(u64) -> Case) {
    let named = std::env::var("DOWNBEAT_SEEDS").ok().map(|words| {
        let ends = words.split_once("..").and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
        ends.unwrap_or_else(|| panic!("DOWNBEAT_SEEDS={words}: expected two numbers, as 1000..1200"))
    });
    let seeds: Vec<u64> = named.map_or_else(|| seeds.chain(others.iter().copied()).collect(), Iterator::collect);
    let cases: Vec<Case> = seeds.into_iter().map(case).collect();
    // All of them are compared before one that differs ends the test.
    let failed = cases.chunks(BATCH).filter(|batch| std::panic::catch_unwind(|| compare(batch)).is_err()).count();
    assert_eq!(failed, 0, "starts of the laboratory with cases that differ, above");
}

/// A schedule of 2 to 6 entries over 2 to 4 classes.
fn entries(of: &mut impl FnMut(i64, i64) -> i64, classes: usize) -> Vec<(u8, i64)> {
    let all = (1_i64 << classes) - 1;
    (0..of(2, 6)).map(|_| (of(0, all) as u8, of(2_000, 60_000))).collect()
}

/// Frames of all sizes, in bursts and apart.
fn arrivals(of: &mut impl FnMut(i64, i64) -> i64, count: usize) -> Vec<Frame> {
    let mut at = 0;
    (0..count)
        .map(|_| {
            at += [50, 50, 3_000, 9_000, 20_000, 40_000][of(0, 5) as usize];
            frame(at, of(0, 7) as u8, [60, 146, 600, 1514][of(0, 3) as usize])
        })
        .collect()
}

/// Launch times for the frames of a class of so many, some in the past.
fn launches(of: &mut impl FnMut(i64, i64) -> i64, frames: &mut [Frame], class: usize, classes: usize) {
    for frame in frames.iter_mut().filter(|frame| usize::from(frame.priority) % classes == class) {
        frame.launch = Some(frame.at + of(-1_000, 200_000));
    }
}

fn etf(delta: i64) -> Shaper {
    Shaper::Etf(Etf { delta: Nanos(delta), offload: false, deadline_mode: false, skip_sock_check: false })
}

fn cbs(kbit: i64) -> Shaper {
    Shaper::Cbs(Cbs { idle_slope: Rate(kbit as u64 * 1_000), offload: false })
}

/// The lowest class without a shaper, the others with one.
fn shaped(of: &mut impl FnMut(i64, i64) -> i64, count: usize) -> Vec<Shaper> {
    let slopes = [5_000, 50_000, 98_688, 200_000];
    std::iter::once(Shaper::None).chain((1..count).map(|_| cbs(slopes[of(0, 3) as usize]))).collect()
}

#[test]
fn software_taprio_at_random() {
    compare_seeds(0..12, &[700_016, 700_045], |seed| {
        let mut of = source(seed);
        let count = of(2, 4) as usize;
        let base = of(-300_000, 300_000);
        let queue = taprio(vec![Shaper::None; count], SOFTWARE, base, &entries(&mut of, count));
        Case { name: format!("taprio in software, random {seed}"), queue, frames: arrivals(&mut of, 250) }
    });
}

/// Launch queues below all classes of an assisting taprio.
pub(crate) fn assisted(classes: usize, delta: i64, delay: i64, base: i64, entries: &[(u8, i64)]) -> Queue {
    let etf = Etf { delta: Nanos(delta), offload: false, deadline_mode: false, skip_sock_check: true };
    taprio(vec![Shaper::Etf(etf); classes], TaprioMode::TxtimeAssist { txtime_delay: Nanos(delay) }, base, entries)
}

#[test]
fn assisting_taprio_at_random() {
    compare_seeds(1_000..1_008, &[700_043], |seed| {
        let mut of = source(seed);
        let count = of(2, 4) as usize;
        let (delta, delay) = (of(1, 60_000), of(0, 150_000));
        let queue = assisted(count, delta, delay, of(-300_000, 300_000), &entries(&mut of, count));
        Case { name: format!("taprio with txtime-assist, random {seed}"), queue, frames: arrivals(&mut of, 250) }
    });
}

#[test]
fn assisting_taprio_with_launch_times_of_its_own() {
    compare_seeds(2_000..2_003, &[200_003], |seed| {
        let mut of = source(seed);
        let entries = entries(&mut of, 3);
        let queue = assisted(3, of(1_000, 20_000), 60_000, 0, &entries);
        let mut frames = arrivals(&mut of, 200);
        for frame in frames.iter_mut().step_by(2) {
            frame.launch = Some(frame.at + of(-1_000, 300_000));
        }
        Case { name: format!("taprio with txtime-assist and launch times, random {seed}"), queue, frames }
    });
}

#[test]
fn software_taprio_over_launch_queues() {
    compare_seeds(3_000..3_004, &[200_045, 200_094], |seed| {
        let mut of = source(seed);
        let entries = entries(&mut of, 3);
        let queue = taprio(vec![Shaper::None, Shaper::None, etf(of(1, 40_000))], SOFTWARE, 0, &entries);
        let mut frames = arrivals(&mut of, 200);
        launches(&mut of, &mut frames, 2, 3);
        Case { name: format!("taprio in software over etf, random {seed}"), queue, frames }
    });
}

#[test]
fn etf_beside_others() {
    compare_seeds(4_000..4_006, &[200_031, 200_077, 700_022], |seed| {
        let mut of = source(seed);
        let queue = Queue::Mqprio(classes(vec![Shaper::None, Shaper::None, etf(of(1, 30_000))]));
        let mut frames = arrivals(&mut of, 250);
        launches(&mut of, &mut frames, 2, 3);
        Case { name: format!("etf below mqprio, random {seed}"), queue, frames }
    });
}

#[test]
fn software_taprio_over_shapers() {
    compare_seeds(5_000..5_008, &[200_007, 200_020, 200_038], |seed| {
        let mut of = source(seed);
        let count = of(2, 4) as usize;
        let base = of(-300_000, 300_000);
        let entries = entries(&mut of, count);
        let shapers = shaped(&mut of, count);
        let queue = taprio(shapers, SOFTWARE, base, &entries);
        Case { name: format!("taprio in software over cbs, random {seed}"), queue, frames: arrivals(&mut of, 250) }
    });
}

/// Linux takes it, and gives launch times that no shaper heeds: gates do not count.
#[test]
fn assisting_taprio_over_shapers() {
    compare_seeds(7_000..7_004, &[], |seed| {
        let mut of = source(seed);
        let count = of(2, 4) as usize;
        let mode = TaprioMode::TxtimeAssist { txtime_delay: Nanos(of(0, 150_000)) };
        let entries = entries(&mut of, count);
        let queue = taprio(shaped(&mut of, count), mode, 0, &entries);
        Case {
            name: format!("taprio with txtime-assist over cbs, random {seed}"),
            queue,
            frames: arrivals(&mut of, 250),
        }
    });
}

/// Any discipline below mqprio, also beside launches.
#[test]
fn shapers_beside_launches() {
    compare_seeds(6_000..6_006, &[200_018, 200_074, 200_081, 200_086, 800_083], |seed| {
        let mut of = source(seed);
        let delta = of(1, 30_000);
        let shapers = match of(0, 2) {
            0 => vec![Shaper::None, cbs(of(2_000, 300_000)), etf(delta)],
            1 => vec![Shaper::None, etf(delta), cbs(of(2_000, 300_000))],
            _ => vec![Shaper::None, cbs(of(2_000, 300_000)), cbs(of(2_000, 300_000))],
        };
        let launching = shapers.iter().position(|shaper| matches!(shaper, Shaper::Etf(_)));
        let queue = Queue::Mqprio(classes(shapers));
        let mut frames = arrivals(&mut of, 250);
        launching.into_iter().for_each(|class| launches(&mut of, &mut frames, class, 3));
        Case { name: format!("cbs and etf below mqprio, random {seed}"), queue, frames }
    });
}
