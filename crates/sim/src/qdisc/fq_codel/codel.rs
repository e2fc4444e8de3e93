//! CoDel (RFC 8289) as Linux computes it: times of 1024 ns in 32 bits that wrap, and 1/√count in 16 bits.

use units::Nanos;

use crate::port::Packet;

/// The kernel's time for CoDel.
pub(super) fn time(now: i64) -> u32 {
    (now >> 10) as u32
}

/// What it is told.
#[derive(Debug)]
pub(super) struct Controls {
    target: u32,
    interval: u32,
    mtu: u64,
}

impl Controls {
    pub(super) fn new(target: Nanos, interval: Nanos, mtu: u32) -> Self {
        Self { target: time(target.0), interval: time(interval.0), mtu: mtu.into() }
    }
}

/// State of one queue.
#[derive(Debug, Default)]
pub(super) struct Codel {
    count: u32,
    last_count: u32,
    dropping: bool,
    inverse_root: u16,
    /// 0 while waits are short.
    first_above: u32,
    drop_next: u32,
}

fn after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

impl Codel {
    /// Frames were dropped for other reasons.
    pub(super) fn dropped(&mut self, frames: u32) {
        self.count = self.count.wrapping_add(frames);
    }

    /// One step of Newton's towards 1/√count.
    fn newton(&mut self) {
        let inverse = u64::from(self.inverse_root) << 16;
        let square = (inverse * inverse) >> 32;
        let value = (3_u64 << 32).wrapping_sub(u64::from(self.count).wrapping_mul(square)) >> 2;
        self.inverse_root = ((value.wrapping_mul(inverse) >> 31) as u32 >> 16) as u16;
    }

    /// The control law: `from` and interval/√count.
    fn after_drop(&self, from: u32, controls: &Controls) -> u32 {
        let step = (u64::from(controls.interval) * (u64::from(self.inverse_root) << 16)) >> 32;
        from.wrapping_add(step as u32)
    }

    fn should_drop(&mut self, came: Option<u32>, now: u32, bytes: u64, controls: &Controls) -> bool {
        let Some(came) = came else {
            self.first_above = 0;
            return false;
        };
        if after(controls.target, now.wrapping_sub(came)) || bytes <= controls.mtu {
            self.first_above = 0;
            return false;
        }
        if self.first_above == 0 {
            self.first_above = now.wrapping_add(controls.interval);
            return false;
        }
        after(now, self.first_above)
    }

    /// The next frame of the queue that `pop` empties, while `bytes` wait in all queues; what it drops goes to `lost`.
    pub(super) fn dequeue(
        &mut self,
        now: u32,
        controls: &Controls,
        bytes: &mut u64,
        pop: &mut dyn FnMut(&mut u64) -> Option<(u32, Packet)>,
        lost: &mut dyn FnMut(Packet),
    ) -> Option<Packet> {
        let Some(mut head) = pop(bytes) else {
            self.first_above = 0;
            self.dropping = false;
            return None;
        };
        let drop = self.should_drop(Some(head.0), now, *bytes, controls);
        if self.dropping {
            if !drop {
                self.dropping = false;
            }
            while self.dropping && !after(self.drop_next, now) {
                self.count = self.count.wrapping_add(1);
                self.newton();
                lost(head.1);
                let next = pop(bytes);
                if self.should_drop(next.map(|(came, _)| came), now, *bytes, controls) {
                    self.drop_next = self.after_drop(self.drop_next, controls);
                } else {
                    self.dropping = false;
                }
                head = next?;
            }
        } else if drop {
            lost(head.1);
            let next = pop(bytes);
            self.should_drop(next.map(|(came, _)| came), now, *bytes, controls);
            self.dropping = true;
            let grown = self.count.wrapping_sub(self.last_count);
            if grown > 1 && after(16_u32.wrapping_mul(controls.interval), now.wrapping_sub(self.drop_next)) {
                // Not long since: as often as then.
                self.count = grown;
                self.newton();
            } else {
                self.count = 1;
                self.inverse_root = u16::MAX;
            }
            self.last_count = self.count;
            self.drop_next = self.after_drop(now, controls);
            head = next?;
        }
        Some(head.1)
    }
}
