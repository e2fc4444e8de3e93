//! Frames that wait for their launch time: what an ETF queue does where the kernel has one.

use units::Tai;

/// Largest frame a socket takes: header, tag and 1500 bytes.
const MAX_FRAME_BYTES: usize = 1518;

struct Slot {
    due: Tai,
    handle: u32,
    len: usize,
    bytes: [u8; MAX_FRAME_BYTES],
}

/// A first-in first-out queue of frames with room for a fixed number, all of it allocated at the start.
pub(crate) struct LaunchQueue {
    slots: Box<[Slot]>,
    first: usize,
    waiting: usize,
}

impl LaunchQueue {
    /// A queue for `depth` frames.
    pub(crate) fn new(depth: usize) -> Self {
        let slots = (0..depth).map(|_| Slot { due: Tai(0), handle: 0, len: 0, bytes: [0; MAX_FRAME_BYTES] }).collect();
        Self { slots, first: 0, waiting: 0 }
    }

    /// Adds a frame; false when the queue is full or the frame too long.
    pub(crate) fn push(&mut self, due: Tai, handle: u32, frame: &[u8]) -> bool {
        if self.waiting == self.slots.len() || frame.len() > MAX_FRAME_BYTES {
            return false;
        }
        let index = (self.first + self.waiting) % self.slots.len();
        let slot = &mut self.slots[index];
        (slot.due, slot.handle, slot.len) = (due, handle, frame.len());
        slot.bytes[..frame.len()].copy_from_slice(frame);
        self.waiting += 1;
        true
    }

    /// When the first frame is due.
    pub(crate) fn first_due(&self) -> Option<Tai> {
        (self.waiting > 0).then(|| self.slots[self.first].due)
    }

    /// The first frame and its handle.
    pub(crate) fn first(&self) -> Option<(u32, &[u8])> {
        let slot = &self.slots[self.first];
        (self.waiting > 0).then(|| (slot.handle, &slot.bytes[..slot.len]))
    }

    /// Removes the first frame.
    pub(crate) fn pop(&mut self) {
        if self.waiting > 0 {
            self.first = (self.first + 1) % self.slots.len();
            self.waiting -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_leave_in_the_order_they_came() {
        let mut queue = LaunchQueue::new(2);
        assert_eq!(queue.first_due(), None);
        assert!(queue.push(Tai(10), 0, &[1]));
        assert!(queue.push(Tai(20), 1, &[2, 2]));
        assert!(!queue.push(Tai(30), 2, &[3]), "full");
        assert_eq!((queue.first_due(), queue.first()), (Some(Tai(10)), Some((0, &[1_u8][..]))));
        queue.pop();
        assert!(queue.push(Tai(30), 2, &[3]));
        assert_eq!(queue.first(), Some((1, &[2_u8, 2][..])));
        queue.pop();
        queue.pop();
        assert_eq!(queue.first(), None);
        queue.pop();
        assert_eq!(queue.first_due(), None);
    }

    #[test]
    fn a_frame_too_long_is_refused() {
        assert!(!LaunchQueue::new(1).push(Tai(0), 0, &[0; MAX_FRAME_BYTES + 1]));
    }
}
