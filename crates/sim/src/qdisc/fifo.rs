//! First come, first served: `pfifo` and `bfifo`.

use std::collections::VecDeque;

use super::{Discipline, Dropped};
use crate::port::{Cause, Packet};

#[derive(Debug)]
pub(super) struct Fifo {
    waiting: VecDeque<Packet>,
    bytes: u64,
    most_frames: usize,
    most_bytes: u64,
    timer: Option<i64>,
}

impl Fifo {
    pub(super) fn frames(most: usize) -> Self {
        Self { waiting: VecDeque::new(), bytes: 0, most_frames: most, most_bytes: u64::MAX, timer: None }
    }

    pub(super) fn bytes(most: u64) -> Self {
        Self { most_frames: usize::MAX, most_bytes: most, ..Self::frames(0) }
    }

    /// Whether the frame was taken.
    pub(super) fn push(&mut self, packet: Packet) -> bool {
        let fits = self.waiting.len() < self.most_frames && self.bytes + u64::from(packet.counted) <= self.most_bytes;
        if fits {
            self.bytes += u64::from(packet.counted);
            self.waiting.push_back(packet);
        }
        fits
    }

    pub(super) fn front(&self) -> Option<Packet> {
        self.waiting.front().copied()
    }

    pub(super) fn pop(&mut self) -> Option<Packet> {
        let packet = self.waiting.pop_front()?;
        self.bytes -= u64::from(packet.counted);
        Some(packet)
    }
}

impl Discipline for Fifo {
    fn enqueue(&mut self, _now: i64, packet: Packet, dropped: &mut Dropped) -> bool {
        let fits = self.push(packet);
        if !fits {
            dropped.push((packet.frame, Cause::Full));
        }
        fits
    }

    fn peek(&mut self, _now: i64, _dropped: &mut Dropped) -> Option<Packet> {
        self.front()
    }

    fn dequeue(&mut self, _now: i64, _dropped: &mut Dropped) -> Option<Packet> {
        self.pop()
    }

    fn len(&self) -> usize {
        self.waiting.len()
    }

    fn timer(&mut self) -> &mut Option<i64> {
        &mut self.timer
    }
}
