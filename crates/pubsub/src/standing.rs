//! Standing backlogs, as an end sees them that takes one message a cycle.
//!
//! A queue that is filled and emptied by one message a cycle keeps whatever length a hiccup gave it: from then on every
//! message is read late by the same whole number of cycles. An end knows this from counters alone, because writers count
//! cycles: the difference of the cycle in which it reads and the counter that it reads grows by as many as wait.

use core::num::NonZeroU32;

use crate::endpoint::Reception;

/// Tells when messages have been late by the same number of cycles for so many cycles on end.
///
/// What is usual is the least difference so far. It grows without a backlog, too: when a writer left cycles out, or was
/// started again. Then one drain finds nothing, and [`Self::drained`] lets what is usual be learnt anew.
#[derive(Debug, Clone)]
pub struct StandingBacklog {
    after: NonZeroU32,
    /// Cycle less counter of a message before which nothing waited.
    usual: Option<i64>,
    /// The cycle that a message was read in last.
    last: Option<i64>,
    /// How much later than usual the message of that cycle was.
    late: i64,
    /// In so many cycles on end.
    cycles: u32,
}

impl StandingBacklog {
    /// A backlog stands once messages were late in `after` cycles on end.
    pub const fn new(after: NonZeroU32) -> Self {
        Self { after, usual: None, last: None, late: 0, cycles: 0 }
    }

    /// What was read in `cycle`. The first message of a cycle counts; what is no message of the stream does not.
    pub fn read(&mut self, cycle: i64, reception: Reception) {
        let counter = match reception {
            Reception::Message { counter, .. } => Some(counter),
            Reception::Old { repeated, .. } => {
                // A writer that had no news sent something all the same: the counters after it come a cycle later, and
                // nothing waits for it.
                if repeated {
                    self.usual = self.usual.map(|usual| usual.saturating_add(1));
                }
                None
            }
            Reception::Substitute { .. } => None,
            Reception::Foreign(_) | Reception::Inconsistent { .. } => return,
        };
        let before = self.last.replace(cycle);
        if before == Some(cycle) {
            return;
        }
        if before.is_none_or(|before| before.checked_add(1) != Some(cycle)) {
            // Nothing was there to be read in a cycle, or it was left out.
            self.cycles = 0;
        }
        if let Some(counter) = counter {
            self.message(cycle.wrapping_sub(counter.cast_signed()));
        }
    }

    fn message(&mut self, difference: i64) {
        let usual = self.usual.filter(|usual| *usual < difference);
        let Some(usual) = usual else {
            (self.usual, self.late, self.cycles) = (Some(difference), 0, 0);
            return;
        };
        let late = difference.wrapping_sub(usual);
        self.cycles = if late == self.late { self.cycles.saturating_add(1) } else { 1 };
        self.late = late;
    }

    /// By how many cycles messages are late, once that stands.
    #[inline]
    pub fn stands(&self) -> Option<u32> {
        (self.cycles >= self.after.get()).then(|| u32::try_from(self.late).unwrap_or(u32::MAX))
    }

    /// All that waited was read: the next message tells what is usual.
    pub fn drained(&mut self) {
        *self = Self { last: self.last, ..Self::new(self.after) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(counter: u64) -> Reception {
        Reception::Message { counter, superseded: None }
    }

    fn standing(after: u32) -> StandingBacklog {
        StandingBacklog::new(NonZeroU32::new(after).unwrap())
    }

    /// Reads counters, one a cycle from cycle 0 on, `None` for a cycle without: the first cycle in which a backlog stands, and by how
    /// many cycles.
    fn first(after: u32, read: impl IntoIterator<Item = Option<u64>>) -> Option<(i64, u32)> {
        let mut standing = standing(after);
        (0..).zip(read).find_map(|(cycle, counter)| {
            counter.into_iter().for_each(|counter| standing.read(cycle, message(counter)));
            standing.stands().map(|late| (cycle, late))
        })
    }

    #[test]
    fn what_is_late_by_the_same_for_long_enough_stands() {
        let punctual = (1..=10).map(Some);
        assert_eq!(first(5, punctual.clone().chain((11..99).map(Some))), None);
        // Three cycles are left out by the reader, and what came then waits: eleven is read in cycle 13.
        let late = punctual.clone().chain([None; 3]).chain((11..=15).map(Some));
        assert_eq!(first(5, late.clone()), Some((17, 3)));
        assert_eq!(first(6, late), None, "not long enough");
        assert_eq!(first(1, punctual.chain([None, Some(11)])), Some((11, 1)));
    }

    #[test]
    fn what_comes_and_goes_does_not_stand() {
        let jitter = (1_u64..200).map(|counter| (counter % 3 > 0).then_some(counter));
        assert_eq!(first(3, jitter), None, "a cycle without a message: nothing waited");
        // Later by two, by three, by two cycles: not the same.
        let wandering = (0..60_u64).map(|cycle| Some(100 + cycle - [0, 2, 3][cycle as usize % 3]));
        assert_eq!(first(2, wandering), None);
    }

    #[test]
    fn what_is_sent_again_makes_nothing_late() {
        let mut standing = standing(4);
        standing.read(0, message(1));
        standing.read(1, Reception::Old { counter: 1, repeated: true });
        (2..50).for_each(|cycle| standing.read(cycle, message(cycle as u64)));
        assert_eq!(standing.stands(), None);
        // One that is older than what was read takes the cycle of another.
        standing.read(50, Reception::Old { counter: 3, repeated: false });
        (51..54).for_each(|cycle| standing.read(cycle, message(cycle as u64 - 1)));
        assert_eq!(standing.stands(), None);
        standing.read(54, message(53));
        assert_eq!(standing.stands(), Some(1));
    }

    #[test]
    fn strangers_and_torn_messages_are_not_read() {
        let mut standing = standing(2);
        standing.read(0, message(1));
        (1..9).for_each(|cycle| standing.read(cycle, Reception::Inconsistent { counter: 0 }));
        standing.read(9, message(9));
        assert_eq!(standing.stands(), None);
        standing.read(10, message(10));
        assert_eq!(standing.stands(), Some(1));
    }

    #[test]
    fn a_drain_is_done_once_and_what_is_usual_learnt_anew() {
        let mut standing = standing(3);
        (0..3).for_each(|cycle| standing.read(cycle, message(cycle as u64 + 100)));
        (3..6).for_each(|cycle| standing.read(cycle, message(cycle as u64)));
        assert_eq!(standing.stands(), Some(100));
        standing.drained();
        (6..600).for_each(|cycle| standing.read(cycle, message(cycle as u64)));
        assert_eq!(standing.stands(), None, "a writer that counts from the beginning is drained for once");
    }

    #[test]
    fn no_numbers_are_too_large() {
        let mut standing = standing(1);
        for (cycle, counter) in [(i64::MIN, u64::MAX), (i64::MAX, 0), (i64::MAX, u64::MAX), (0, u64::MAX / 2), (1, 0)] {
            standing.read(cycle, message(counter));
            standing.read(cycle, Reception::Old { counter, repeated: true });
        }
        assert!(standing.stands().is_none_or(|late| late > 0));
    }
}
