//! Frames that wait for their launch time: what an ETF queue does where the kernel has one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use units::{Nanos, Tai};

use crate::sends::Publication;

/// Largest frame a socket takes: header, tag and 1500 bytes.
const MAX_FRAME_BYTES: usize = 1518;

/// A frame that waits.
#[derive(Debug)]
struct Slot {
    publication: Publication,
    len: usize,
    bytes: [u8; MAX_FRAME_BYTES],
}

/// When a frame is due; of two due together the one that came first goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    at: Tai,
    arrival: u64,
    slot: usize,
}

/// A queue of frames by launch time, with room for a fixed number, all of it allocated at the start.
#[derive(Debug)]
pub(crate) struct LaunchQueue {
    slots: Box<[Slot]>,
    free: Vec<usize>,
    waiting: BinaryHeap<Reverse<Due>>,
    arrivals: u64,
}

impl LaunchQueue {
    /// A queue for `depth` frames.
    pub(crate) fn new(depth: usize) -> Self {
        let empty = || Slot { publication: Publication::default(), len: 0, bytes: [0; MAX_FRAME_BYTES] };
        Self {
            slots: (0..depth).map(|_| empty()).collect(),
            free: (0..depth).rev().collect(),
            waiting: BinaryHeap::with_capacity(depth),
            arrivals: 0,
        }
    }

    /// Adds a frame; false when the queue is full or the frame too long.
    pub(crate) fn push(&mut self, at: Tai, publication: Publication, frame: &[u8]) -> bool {
        if frame.len() > MAX_FRAME_BYTES {
            return false;
        }
        let Some(index) = self.free.pop() else { return false };
        let slot = &mut self.slots[index];
        (slot.publication, slot.len) = (publication, frame.len());
        slot.bytes[..frame.len()].copy_from_slice(frame);
        self.waiting.push(Reverse(Due { at, arrival: self.arrivals, slot: index }));
        self.arrivals += 1;
        true
    }

    /// When the first frame is due.
    #[inline]
    pub(crate) fn first_due(&self) -> Option<Tai> {
        self.waiting.peek().map(|Reverse(due)| due.at)
    }

    /// The first frame and what it is.
    pub(crate) fn first(&self) -> Option<(Publication, &[u8])> {
        let Reverse(due) = self.waiting.peek()?;
        let slot = &self.slots[due.slot];
        Some((slot.publication, &slot.bytes[..slot.len]))
    }

    /// Removes the first frame.
    pub(crate) fn pop(&mut self) {
        if let Some(Reverse(due)) = self.waiting.pop() {
            self.free.push(due.slot);
        }
    }

    /// Moves all launches, because the time was set.
    pub(crate) fn shift(&mut self, by: Nanos) {
        // In place: all move by the same span, and nothing is allocated.
        let mut all = std::mem::take(&mut self.waiting).into_vec();
        all.iter_mut().for_each(|Reverse(due)| due.at += by);
        self.waiting = all.into();
    }

    /// Removes the frames of these ends, and tells what each was.
    pub(crate) fn discard(&mut self, ends: Range<u32>, mut discarded: impl FnMut(Publication)) {
        let Self { slots, free, waiting, .. } = self;
        // Works in place: nothing is allocated.
        waiting.retain(|Reverse(due)| {
            let publication = slots[due.slot].publication;
            let goes = ends.contains(&publication.end);
            if goes {
                free.push(due.slot);
                discarded(publication);
            }
            !goes
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn publication(end: u32, handle: u32) -> Publication {
        Publication { end, handle }
    }

    #[test]
    fn frames_leave_by_launch_time_and_then_as_they_came() {
        let mut queue = LaunchQueue::new(3);
        assert_eq!(queue.first_due(), None);
        assert!(queue.push(Tai(20), publication(0, 0), &[1]));
        assert!(queue.push(Tai(10), publication(1, 0), &[2, 2]));
        assert!(queue.push(Tai(10), publication(2, 0), &[3]));
        assert!(!queue.push(Tai(5), publication(3, 0), &[4]), "full");
        assert_eq!((queue.first_due(), queue.first()), (Some(Tai(10)), Some((publication(1, 0), &[2_u8, 2][..]))));
        queue.pop();
        assert_eq!(queue.first(), Some((publication(2, 0), &[3_u8][..])));
        queue.pop();
        assert!(queue.push(Tai(20), publication(4, 0), &[4]), "there is room again");
        assert_eq!(queue.first().map(|first| first.0), Some(publication(0, 0)));
        queue.pop();
        queue.pop();
        assert_eq!(queue.first(), None);
        queue.pop();
        assert_eq!(queue.first_due(), None);
    }

    #[test]
    fn frames_of_one_end_can_be_removed() {
        let mut queue = LaunchQueue::new(4);
        for handle in 0..2 {
            assert!(queue.push(Tai(10 + i64::from(handle)), publication(0, handle), &[0]));
            assert!(queue.push(Tai(20 + i64::from(handle)), publication(1, handle), &[1]));
        }
        let mut removed = Vec::new();
        queue.discard(1..2, |publication| removed.push(publication.handle));
        assert_eq!(removed.len(), 2);
        assert_eq!(queue.first_due(), Some(Tai(10)));
        assert!(queue.push(Tai(1), publication(1, 9), &[1]) && queue.push(Tai(1), publication(1, 10), &[1]));
    }

    #[test]
    fn all_launches_move_together() {
        let mut queue = LaunchQueue::new(2);
        assert!(queue.push(Tai(20), publication(0, 0), &[0]) && queue.push(Tai(10), publication(0, 1), &[1]));
        queue.shift(Nanos(-1_000));
        assert_eq!((queue.first_due(), queue.first().map(|first| first.0.handle)), (Some(Tai(-990)), Some(1)));
        queue.pop();
        assert_eq!(queue.first_due(), Some(Tai(-980)));
    }

    #[test]
    fn a_frame_too_long_is_refused() {
        assert!(!LaunchQueue::new(1).push(Tai(0), publication(0, 0), &[0; MAX_FRAME_BYTES + 1]));
    }
}
