//! What became of events.

use std::io;

use units::Nanos;

/// What became of the events of an [`EventClock`](super::EventClock), and of the sleeps that they should have ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Sleeps that their event ended.
    pub woken: u64,
    /// Sleeps that the clock below ended, though they were until the instant of an event: those whose event was lost or
    /// late, and those for which none was waited.
    pub fallbacks: u64,
    /// Events that were waited for and did not come.
    pub lost: u64,
    /// Events that came when the sleep had been ended without them.
    pub late: u64,
    /// Events that nobody waited for: the thread was awake, or reading, when they came.
    pub passed_over: u64,
    /// Events that came twice.
    pub doubled: u64,
    /// Events stamped with an instant at which none was due.
    pub astray: u64,
    /// Events of other channels.
    pub foreign: u64,
    /// Events that came before their instant by more than the limit.
    pub early: u64,
    /// How often the thread stopped waiting for events, because several in a row had not come.
    pub stops: u64,
    /// How often the device failed.
    pub errors: u64,
    /// The error number of the last time; 0 when it had none.
    pub last_error: i32,
    /// How far the device's clock was ahead of TAI when it was last found too far off; none when it never was.
    pub apart: Option<Nanos>,
    /// From the stamp of the event to the first reading of the clock in the thread that it woke: the shortest. The error
    /// between both clocks is in it. Zero when none was woken.
    pub after_min: Nanos,
    /// The longest.
    pub after_max: Nanos,
    /// The sum of all `woken`.
    pub after_sum: Nanos,
}

impl Counts {
    pub(super) fn woken(&mut self, after: Nanos) {
        let first = self.woken == 0;
        self.after_min = if first { after } else { self.after_min.min(after) };
        self.after_max = if first { after } else { self.after_max.max(after) };
        self.after_sum = Nanos(self.after_sum.0.saturating_add(after.0));
        self.woken += 1;
    }

    pub(super) fn failed(&mut self, error: &io::Error) {
        self.errors += 1;
        self.last_error = error.raw_os_error().unwrap_or(0);
    }
}

/// The last events that were given up, by their numbers.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct GivenUp {
    newest: i64,
    /// Bit i: number `newest - i`.
    bits: u64,
}

impl GivenUp {
    /// Adds one, newer than all before.
    pub(super) fn add(&mut self, number: i64) {
        let by = u32::try_from(number.saturating_sub(self.newest)).unwrap_or(u32::MAX);
        (self.newest, self.bits) = (number, self.bits.checked_shl(by).unwrap_or(0) | 1);
    }

    /// Whether this one is among them; it is no longer.
    pub(super) fn take(&mut self, number: i64) -> bool {
        let bit =
            u32::try_from(self.newest.saturating_sub(number)).ok().and_then(|by| 1_u64.checked_shl(by)).unwrap_or(0);
        let found = self.bits & bit != 0;
        self.bits &= !bit;
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_up_is_known_for_a_while() {
        let mut given_up = GivenUp::default();
        assert!(!given_up.take(0) && !given_up.take(-5));
        for number in [3, 4, 7] {
            given_up.add(number);
        }
        let taken: Vec<i64> = (0..10).filter(|number| given_up.take(*number)).collect();
        assert_eq!(taken, [3, 4, 7]);
        assert!(!given_up.take(7), "only once");
        given_up.add(8);
        given_up.add(80);
        assert!(!given_up.take(8) && given_up.take(80), "beyond its reach the older one is forgotten");
        given_up.add(i64::MAX);
        assert!(!given_up.take(i64::MIN) && given_up.take(i64::MAX));
    }
}
