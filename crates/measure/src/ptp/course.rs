//! A figure over time in bounded memory: least and greatest of each slot of time.

use serde::{Deserialize, Serialize};

/// Slots at most.
const SLOTS: usize = 2_000;

/// Least and greatest value of a slot of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot(
    /// Nanoseconds since the watch began, of the first sample in it.
    pub i64,
    /// Least value, nanoseconds.
    pub i64,
    /// Greatest.
    pub i64,
);

/// A figure over time. Slots begin as single samples and are joined when they become too many, so that none of the
/// extremes is ever lost.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Course {
    /// How long a slot is; 0 where each sample has its own.
    pub slot_ns: i64,
    /// The slots, by time.
    pub slots: Vec<Slot>,
}

impl Course {
    /// Adds a sample; they come by time.
    pub fn push(&mut self, at: i64, value: i64) {
        match self.slots.last_mut() {
            Some(last) if self.slot_ns > 0 && at.div_euclid(self.slot_ns) <= last.0.div_euclid(self.slot_ns) => {
                (last.1, last.2) = (last.1.min(value), last.2.max(value));
            }
            _ => self.slots.push(Slot(at, value, value)),
        }
        if self.slots.len() >= SLOTS {
            self.join();
        }
    }

    fn join(&mut self) {
        let (first, last) = (self.slots[0].0, self.slots[self.slots.len() - 1].0);
        self.slot_ns = (self.slot_ns * 2).max(last.saturating_sub(first) / (SLOTS as i64 / 2)).max(1);
        let mut joined: Vec<Slot> = Vec::with_capacity(SLOTS);
        for slot in self.slots.drain(..) {
            match joined.last_mut() {
                Some(last) if slot.0.div_euclid(self.slot_ns) <= last.0.div_euclid(self.slot_ns) => {
                    (last.1, last.2) = (last.1.min(slot.1), last.2.max(slot.2));
                }
                _ => joined.push(slot),
            }
        }
        self.slots = joined;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_fits_and_no_extreme_is_lost() {
        let mut course = Course::default();
        for index in 0..700_000_i64 {
            course.push(index * 125_000_000, if index == 345_678 { 9_000 } else { index % 7 - 3 });
        }
        assert!(course.slots.len() <= SLOTS && course.slots.len() > SLOTS / 8, "{}", course.slots.len());
        assert_eq!(course.slots.iter().map(|slot| slot.2).max(), Some(9_000));
        assert_eq!(course.slots.iter().map(|slot| slot.1).min(), Some(-3));
        assert!(course.slots.is_sorted_by_key(|slot| slot.0));
    }

    #[test]
    fn few_samples_stay_themselves_and_equal_times_do_no_harm() {
        let mut course = Course::default();
        (0..100).for_each(|index| course.push(index, index));
        assert_eq!((course.slots.len(), course.slot_ns), (100, 0));
        (0..10_000).for_each(|index| course.push(7, index));
        assert!(course.slots.len() <= SLOTS);
    }
}
