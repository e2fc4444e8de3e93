//! A line that is played, `sch_netem`: a rate and a delay, nothing random.

use std::collections::VecDeque;

use units::{Nanos, Rate};

use super::{Discipline, Dropped};
use crate::port::{Cause, Packet};

#[derive(Debug)]
pub(super) struct Netem {
    /// Bytes a second.
    rate: Option<u64>,
    overhead: u32,
    delay: i64,
    limit: usize,
    /// With the instant to send.
    waiting: VecDeque<(i64, Packet)>,
    timer: Option<i64>,
}

impl Netem {
    pub(super) fn new(rate: Option<Rate>, overhead: u32, delay: Nanos, limit: usize) -> Self {
        let rate = rate.map(|rate| (rate.0 / 8).max(1));
        Self { rate, overhead, delay: delay.0, limit, waiting: VecDeque::new(), timer: None }
    }
}

impl Discipline for Netem {
    fn enqueue(&mut self, now: i64, packet: Packet, dropped: &mut Dropped) -> bool {
        if self.waiting.len() >= self.limit {
            dropped.push((packet.frame, Cause::Full));
            return false;
        }
        let (mut from, mut delay) = (now, self.delay);
        if let Some(rate) = self.rate {
            // Behind the last that still waits; what has left has left the line, too.
            if let Some((last, _)) = self.waiting.back() {
                delay = (delay - (last - now)).max(0);
                from = *last;
            }
            let bytes = u64::from(packet.counted) + u64::from(self.overhead);
            delay += (bytes * 1_000_000_000 / rate) as i64;
        }
        self.waiting.push_back((from + delay, packet));
        true
    }

    fn peek(&mut self, now: i64, _dropped: &mut Dropped) -> Option<Packet> {
        self.waiting.front().filter(|(at, _)| *at <= now).map(|(_, packet)| *packet)
    }

    fn dequeue(&mut self, now: i64, _dropped: &mut Dropped) -> Option<Packet> {
        let (at, packet) = *self.waiting.front()?;
        if at > now {
            self.timer = Some(at);
            return None;
        }
        self.waiting.pop_front();
        Some(packet)
    }

    fn len(&self) -> usize {
        self.waiting.len()
    }

    fn timer(&mut self) -> &mut Option<i64> {
        &mut self.timer
    }
}
