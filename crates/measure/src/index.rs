//! From counters and handles to positions.

use std::collections::HashMap;

const ABSENT: u32 = u32::MAX;
/// How far a key may lie beyond the dense part and still extend it.
const REACH: usize = 1 << 12;

/// A map from keys that mostly count up from near zero to positions in a vector.
///
/// Keys near the others cost four bytes; a stray one (a counter out of a broken frame) goes to a hash map instead
/// of stretching the vector, so memory stays linear in the number of keys.
#[derive(Debug, Default)]
pub(crate) struct Index {
    dense: Vec<u32>,
    stray: HashMap<u64, u32>,
}

impl Index {
    /// The position of `key`.
    pub(crate) fn get(&self, key: u64) -> Option<usize> {
        let dense = usize::try_from(key).ok().and_then(|key| self.dense.get(key)).copied();
        match dense {
            Some(position) if position != ABSENT => Some(position as usize),
            _ => self.stray.get(&key).map(|&position| position as usize),
        }
    }

    /// Sets the position of a key that has none.
    pub(crate) fn insert(&mut self, key: u64, position: usize) {
        let position = position as u32;
        match usize::try_from(key) {
            Ok(key) if key < self.dense.len() + REACH => {
                if key >= self.dense.len() {
                    self.dense.resize(key + 1, ABSENT);
                }
                self.dense[key] = position;
            }
            _ => {
                self.stray.insert(key, position);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
