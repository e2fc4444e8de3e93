//! What Linux is told of the shapers of a port of 1 Gbit/s.

use scenario::{Credits, LONGEST_FRAME_BYTES, Queue, Reservation, credits};
use units::Rate;

/// By class; nothing for a class without one.
pub(crate) fn told(queue: &Queue) -> Vec<Option<Credits>> {
    let count = queue.classes().map_or(1, |classes| classes.shapers.len() as u8);
    let shaped: Vec<u8> = (0..count).rev().filter(|class| queue.cbs(*class).is_some()).collect();
    let reservations: Vec<Reservation> = (shaped.iter().filter_map(|class| queue.cbs(*class)))
        .map(|cbs| Reservation { idle_slope: cbs.idle_slope, longest_frame_bytes: LONGEST_FRAME_BYTES })
        .collect();
    let mut all = vec![None; count.into()];
    for (class, credits) in shaped.iter().zip(credits(Rate::from_gbit(1), &reservations, LONGEST_FRAME_BYTES)) {
        all[usize::from(*class)] = Some(credits);
    }
    all
}

/// What follows the place of a shaper in the words of `tc`.
pub(crate) fn words(credits: &Credits) -> String {
    format!(
        "cbs idleslope {} sendslope {} hicredit {} locredit {} offload 0",
        credits.idle_slope_kbit, credits.send_slope_kbit, credits.hi_credit_bytes, credits.lo_credit_bytes
    )
}
