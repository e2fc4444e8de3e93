//! The messages and sends that are remembered: the newest ones, each at the place its number gives it.

use units::Nanos;

use crate::collect::NONE;

/// For how long messages are remembered. Traces are 20 ms apart; a host may stand still for some more.
const REACH: i64 = 500_000_000;

/// How many messages are remembered of a stream with this cycle.
pub(super) fn reach(cycle: Nanos) -> usize {
    let messages = (REACH / cycle.0.max(1)).clamp(256, 8192);
    (messages as usize).next_power_of_two()
}

/// One message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    pub(super) counter: u64,
    used: bool,
    pub(super) published: bool,
    /// T1 to T8.
    pub(super) t: [i64; 8],
    /// The send that T1 and T2 (T5 and T6) are of: not repeated before repeated, then the lower handle.
    pub(super) sends: [Option<(bool, u32)>; 2],
    /// Replaced by a newer one at the writer, at the reader.
    pub(super) superseded: [bool; 2],
    /// Which quantities have been counted, a bit each.
    counted: u8,
}

impl Slot {
    const EMPTY: Self = Self {
        counter: 0,
        used: false,
        published: false,
        t: [NONE; 8],
        sends: [None; 2],
        superseded: [false; 2],
        counted: 0,
    };

    /// T`to` − T`from`.
    pub(super) fn span(&self, (from, to): (usize, usize)) -> Option<i64> {
        let (from, to) = (self.t[from - 1], self.t[to - 1]);
        if from == NONE || to == NONE { None } else { to.checked_sub(from) }
    }

    /// Whether this is the first time.
    pub(super) fn count(&mut self, quantity: u8) -> bool {
        let bit = 1 << quantity;
        let first = self.counted & bit == 0;
        self.counted |= bit;
        first
    }
}

/// The newest messages of a stream.
#[derive(Debug)]
pub(super) struct Slots {
    slots: Box<[Slot]>,
    /// The highest counter published.
    newest: Option<u64>,
}

impl Slots {
    pub(super) fn new(reach: usize) -> Self {
        Self { slots: vec![Slot::EMPTY; reach].into_boxed_slice(), newest: None }
    }

    fn place(&self, counter: u64) -> usize {
        (counter % self.slots.len() as u64) as usize
    }

    /// What was published is what others are measured by: a counter far above it is none of the writer's.
    pub(super) fn published(&mut self, counter: u64) {
        self.newest = self.newest.max(Some(counter));
    }

    fn far_above(&self, counter: u64) -> bool {
        self.newest.is_some_and(|newest| counter > newest.saturating_add(self.slots.len() as u64))
    }

    /// The message with this counter, in the place of an older one if need be; `None` when it is out of reach.
    pub(super) fn take(&mut self, counter: u64) -> Option<&mut Slot> {
        let place = self.place(counter);
        let Slot { counter: found, used, .. } = self.slots[place];
        if !used || found != counter {
            if self.far_above(counter) || (used && found > counter && !self.far_above(found)) {
                return None;
            }
            self.slots[place] = Slot { counter, used: true, ..Slot::EMPTY };
        }
        Some(&mut self.slots[place])
    }

    /// The message with this counter, if it is remembered.
    pub(super) fn get(&self, counter: u64) -> Option<&Slot> {
        Some(&self.slots[self.place(counter)]).filter(|slot| slot.used && slot.counter == counter)
    }
}

/// One send of an end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Send {
    handle: u32,
    used: bool,
    /// The message it carried, once that is known.
    pub(super) counter: Option<u64>,
    pub(super) left: i64,
    pub(super) failed: bool,
}

impl Send {
    const EMPTY: Self = Self { handle: 0, used: false, counter: None, left: NONE, failed: false };
}

/// The newest sends of an end.
#[derive(Debug)]
pub(super) struct Sends(Box<[Send]>);

impl Sends {
    pub(super) fn new(reach: usize) -> Self {
        Self(vec![Send::EMPTY; reach].into_boxed_slice())
    }

    /// The send with this handle, in the place of an older one if need be; `None` when it is out of reach. Handles
    /// wrap.
    pub(super) fn take(&mut self, handle: u32) -> Option<&mut Send> {
        let place = handle as usize % self.0.len();
        let send = &mut self.0[place];
        if !send.used || send.handle != handle {
            let older = (handle.wrapping_sub(send.handle) as i32) < 0;
            if send.used && older {
                return None;
            }
            *send = Send { handle, used: true, ..Send::EMPTY };
        }
        Some(send)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_second_is_remembered_within_limits() {
        let reaches = [1_000, 31_250, 250_000, 1_000_000, 1_000_000_000].map(|ns| reach(Nanos(ns)));
        assert_eq!(reaches, [8192, 8192, 2048, 512, 256]);
    }

    #[test]
    fn newer_ones_take_the_place_of_older_ones_and_not_the_other_way() {
        let mut slots = Slots::new(256);
        slots.published(300);
        slots.take(44).unwrap().t[0] = 7;
        assert_eq!(slots.take(300).unwrap().t[0], NONE);
        assert!(slots.take(44).is_none() && slots.get(44).is_none() && slots.get(300).is_some());
        let mut sends = Sends::new(256);
        sends.take(u32::MAX).unwrap().left = 7;
        assert_eq!(sends.take(255).unwrap().left, NONE, "handles wrap");
        assert!(sends.take(u32::MAX).is_none());
    }

    #[test]
    fn a_counter_out_of_nowhere_blocks_nothing() {
        let mut slots = Slots::new(256);
        assert!(slots.take(1 << 60).is_some(), "nothing tells yet that it is none");
        slots.published(256);
        assert!(slots.take(256).is_some() && slots.take(1 << 60).is_none());
    }
}
