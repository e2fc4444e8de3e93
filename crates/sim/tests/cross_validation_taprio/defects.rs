//! Where taprio does not do what it is for: each seen in the real one.

use downbeat_sim::{Cause, Fate};
use scenario::Shaper;

use crate::SOFTWARE;
use crate::case::{Frame, compare_one, frame, taprio};
use crate::random::assisted;

/// Kernel defect: a root of several queues hands up to nine frames on at once, each of which fits for itself, and the
/// account of a window is that of all of it, however late a burst comes (`try_bulk_dequeue_skb_slow`, `taprio_set_budgets`).
#[test]
fn defect_a_bulk_goes_on_beyond_its_window() {
    let queue = taprio(vec![Shaper::None; 2], SOFTWARE, 0, &[(0b10, 100_000), (0b01, 100_000)]);
    let mut frames = Vec::new();
    for cycle in 1..5 {
        let from = cycle * 400_000 + 70_000;
        frames.extend((0..14).map(|n| frame(from + n, 1, 1_000)));
        // Its own window waits for them.
        frames.push(frame(from + 30_500, 0, 200));
    }
    if let Some(found) = compare_one("defect: a bulk beyond its window", &queue, &frames) {
        let beyond = |index: &usize| found.begin(*index).is_some_and(|at| at % 200_000 >= 100_000);
        let late = (0..frames.len()).filter(|index| frames[*index].priority == 1).filter(beyond).count();
        println!("{late} of {} frames began after their gate had shut", frames.len() - 4);
        assert!(late >= 4 * 6, "{late}");
    }
}

/// Kernel defect: a frame exactly as long as the longest window is queued, but may only leave if it ends before the
/// window does (`taprio_skb_exceeds_queue_max_sdu` against `taprio_entry_allows_tx`), so its class stands still for ever.
#[test]
fn defect_a_frame_as_long_as_its_window_stands_for_ever() {
    let queue = taprio(vec![Shaper::None; 3], SOFTWARE, 0, &[(0b001, 50_000), (0b010, 8_192), (0b000, 10_000)]);
    let frames = [frame(0, 1, 999), frame(200_000, 1, 1_001), frame(400_000, 1, 1_000), frame(600_000, 1, 60)];
    if let Some(found) = compare_one("defect: as long as its window", &queue, &frames) {
        assert!(found.begin(0).is_some());
        assert_eq!(found.fates[1..], [Fate::Lost(Cause::Gate), Fate::Kept, Fate::Kept]);
    }
}

/// Kernel defect: a frame that is refused because its class has used its bytes is counted in the accounts of all classes,
/// each time it is looked at (`taprio_update_budgets`); so others stand still whose gate is open and who sent nothing.
#[test]
fn defect_a_refused_frame_costs_other_classes() {
    // Class 2 may send 10 µs, class 1 and 0 90 µs.
    let queue = taprio(vec![Shaper::None; 3], SOFTWARE, 0, &[(0b111, 10_000), (0b011, 80_000), (0b000, 10_000)]);
    let mut frames: Vec<Frame> = (0..12).map(|n| frame(95_000 + n, 2, 500)).collect();
    frames.extend((0..40).map(|n| frame(100_500 + n * 200, 1, 60)));
    compare_one("defect: refused frames cost others", &queue, &frames);
}

/// Kernel defect: a launch time is looked for in one entry of the list (`is_valid_interval`), so one at the edge of two, or a
/// frame over it, is dropped though its gate stays open: at the start of a cycle into which a window goes on, too.
#[test]
fn defect_a_launch_at_the_edge_of_an_entry_is_dropped_in_an_open_window() {
    let entries = [(0b10, 26_000), (0b01, 47_000), (0b00, 13_000), (0b10, 14_000)];
    let queue = assisted(2, 5_000, 50_000, 0, &entries);
    // 1.168 µs from before the end of a cycle on, over it, at the start of the next, and within.
    let launches = [98_800, 98_900, 99_999, 100_000, 100_001, 110_000];
    let frames: Vec<Frame> = (1..)
        .zip(launches)
        .map(|(k, launch)| Frame { launch: Some(k * 300_000 + launch), ..frame(k * 300_000, 1, 122) })
        .collect();
    if let Some(found) = compare_one("defect: a launch at the edge of an entry", &queue, &frames) {
        let taken: Vec<bool> = (0..frames.len()).map(|index| found.begin(index).is_some()).collect();
        assert_eq!(taken, [true, false, false, false, true, true]);
    }
}
