//! What happens next: a binary heap ordered by time, then by sequence number.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use units::Picos;

use crate::frames::FrameId;

/// Something that happens at an instant. Indices are `u32`, so that an entry is 32 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Happening {
    /// A frame reaches the output queue of its next hop.
    Enqueue(FrameId),
    /// The last bit of a frame is in at its last station.
    Arrive(FrameId),
    /// The last bit of the frame being sent is out.
    Sent(u32),
    /// A port looks again: credit may have risen, a launch time or a gate may be there.
    Look(u32),
    /// A traffic source sends its next frame.
    Traffic(u32),
    /// The next phase of a stream end begins.
    Phase(u32),
}

/// Sequence numbers of phases come after all others of the same instant: a frame whose last bit is in
/// exactly at the end of a receive window is still read in this cycle (netcalc: phase ≤ w).
const PHASES_LAST: u64 = 1 << 63;

/// The pending happenings.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    heap: BinaryHeap<Reverse<(Picos, u64, Happening)>>,
    sequence: u64,
}

impl Agenda {
    /// Plans `what` at `at`; at equal instants, what was planned first happens first, phases last.
    pub(crate) fn push(&mut self, at: Picos, what: Happening) {
        let late = if matches!(what, Happening::Phase(_)) { PHASES_LAST } else { 0 };
        self.heap.push(Reverse((at, late | self.sequence, what)));
        self.sequence += 1;
    }

    /// The next thing to happen.
    pub(crate) fn pop(&mut self) -> Option<(Picos, Happening)> {
        self.heap.pop().map(|Reverse((at, _, what))| (at, what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_first_then_order_of_planning_and_phases_last() {
        let mut agenda = Agenda::default();
        agenda.push(Picos(5), Happening::Phase(0));
        agenda.push(Picos(5), Happening::Sent(1));
        agenda.push(Picos(4), Happening::Phase(2));
        agenda.push(Picos(5), Happening::Sent(0));
        let order: Vec<_> = std::iter::from_fn(|| agenda.pop()).collect();
        assert_eq!(
            order,
            [
                (Picos(4), Happening::Phase(2)),
                (Picos(5), Happening::Sent(1)),
                (Picos(5), Happening::Sent(0)),
                (Picos(5), Happening::Phase(0)),
            ]
        );
    }
}
