//! From counters and handles to positions.

use std::collections::HashMap;

const ABSENT: u32 = u32::MAX;
/// How far a key may lie beyond the dense part and still extend it.
const REACH: usize = 1 << 12;

/// A map from keys that mostly count up from near the first one to positions in a vector.
///
/// Keys near the others cost four bytes; a stray one (a counter out of a broken frame) goes to a hash map instead
/// of stretching the vector, so memory stays linear in the number of keys.
#[derive(Debug, Default)]
pub(crate) struct Index {
    /// The key of the first place, [`REACH`] below the first key that came: events come in any order.
    base: Option<u64>,
    dense: Vec<u32>,
    stray: HashMap<u64, u32>,
}

impl Index {
    /// The position of `key`.
    pub(crate) fn get(&self, key: u64) -> Option<usize> {
        let dense = self.base.and_then(|base| place(base, key)).and_then(|place| self.dense.get(place)).copied();
        match dense {
            Some(position) if position != ABSENT => Some(position as usize),
            _ => self.stray.get(&key).map(|&position| position as usize),
        }
    }

    /// Sets the position of a key that has none.
    pub(crate) fn insert(&mut self, key: u64, position: usize) {
        let position = position as u32;
        let base = *self.base.get_or_insert(key.saturating_sub(REACH as u64 - 1));
        match place(base, key) {
            Some(place) if place < self.dense.len() + REACH => {
                if place >= self.dense.len() {
                    self.dense.resize(place + 1, ABSENT);
                }
                self.dense[place] = position;
            }
            _ => {
                self.stray.insert(key, position);
            }
        }
    }
}

fn place(base: u64, key: u64) -> Option<usize> {
    usize::try_from(key.checked_sub(base)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_far_from_zero_stay_dense() {
        let mut index = Index::default();
        let base = 1_800_000_000_000;
        for key in 0..10_000 {
            index.insert(base + key, key as usize);
        }
        index.insert(base - 7, 10_000);
        assert!(index.stray.is_empty() && index.dense.len() < 10_000 + REACH + 1);
        assert_eq!(index.get(base + 9_999), Some(9_999));
        assert_eq!((index.get(base - 7), index.get(base - 8), index.get(3)), (Some(10_000), None, None));
    }

    #[test]
    fn near_and_stray_keys_are_found() {
        let mut index = Index::default();
        for (position, key) in [1, 0, u64::MAX, 5_000, 4_000, 6_000].into_iter().enumerate() {
            assert_eq!(index.get(key), None);
            index.insert(key, position);
            assert_eq!(index.get(key), Some(position));
        }
        // 5 000 was stray when it came; it is still found now that the dense part reaches past it.
        assert_eq!(index.get(5_000), Some(3));
        assert!(index.dense.len() < 10_000);
    }
}
