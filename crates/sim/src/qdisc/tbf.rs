//! A bucket of tokens, `sch_tbf`, without peak rate. Tokens are nanoseconds at its rate.

use units::Rate;

use super::{Discipline, Dropped};
use crate::port::{Cause, Packet};

/// How the kernel divides by a rate: times so much, shifted right (`psched_ratecfg_precompute`).
#[derive(Debug)]
struct Reciprocal {
    factor: u64,
    shift: u32,
}

impl Reciprocal {
    fn new(bytes_per_second: u64) -> Self {
        let (mut dividend, mut shift) = (1_000_000_000_u64, 0);
        loop {
            let factor = dividend.checked_div(bytes_per_second).unwrap_or(1);
            if factor & (1 << 31) != 0 || dividend >> 63 != 0 || bytes_per_second == 0 {
                return Self { factor: factor & u64::from(u32::MAX), shift };
            }
            dividend <<= 1;
            shift += 1;
        }
    }

    fn nanoseconds(&self, bytes: u32) -> i64 {
        (u64::from(bytes).wrapping_mul(self.factor) >> self.shift) as i64
    }
}

#[derive(Debug)]
pub(super) struct Tbf {
    rate: Reciprocal,
    longest: u32,
    buffer: i64,
    tokens: i64,
    last: i64,
    child: Box<dyn Discipline>,
    timer: Option<i64>,
}

impl Tbf {
    pub(super) fn new(rate: Rate, burst: u32, child: Box<dyn Discipline>) -> Self {
        let rate = Reciprocal::new(rate.0 / 8);
        let buffer = rate.nanoseconds(burst);
        Self { rate, longest: burst, buffer, tokens: buffer, last: 0, child, timer: None }
    }
}

impl Discipline for Tbf {
    fn enqueue(&mut self, now: i64, packet: Packet, dropped: &mut Dropped) -> bool {
        if packet.counted > self.longest {
            dropped.push((packet.frame, Cause::TooLong));
            return false;
        }
        self.child.enqueue(now, packet, dropped)
    }

    fn peek(&mut self, now: i64, dropped: &mut Dropped) -> Option<Packet> {
        self.child.peek(now, dropped)
    }

    fn dequeue(&mut self, now: i64, dropped: &mut Dropped) -> Option<Packet> {
        let packet = self.child.peek(now, dropped)?;
        let gained = (now - self.last).min(self.buffer);
        let tokens = (gained + self.tokens).min(self.buffer) - self.rate.nanoseconds(packet.counted);
        if tokens < 0 {
            self.timer = Some(now - tokens);
            return None;
        }
        let packet = self.child.dequeue(now, dropped)?;
        (self.last, self.tokens) = (now, tokens);
        Some(packet)
    }

    fn len(&self) -> usize {
        self.child.len()
    }

    fn timer(&mut self) -> &mut Option<i64> {
        &mut self.timer
    }
}
