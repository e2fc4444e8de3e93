//! Counts of signed spans in classes of 10 ns, in bounded memory.

use std::collections::BTreeMap;

use super::Figures;

/// Width of the classes around 0, nanoseconds.
const FINE: i64 = 10;
/// So many of them on each side of 0, and half as many in each doubling beyond.
const FINE_CLASSES: i64 = 1024;

/// Counts spans with their sign. Beyond ±10.24 µs classes widen with the value, so that there are at most some 50 000
/// of them, however long it counts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tally {
    count: u64,
    sum: i128,
    squares: f64,
    ends: Option<(i64, i64)>,
    classes: BTreeMap<i64, u64>,
}

impl Tally {
    /// Counts a span in nanoseconds.
    pub fn record(&mut self, ns: i64) {
        self.count += 1;
        self.sum += i128::from(ns);
        self.squares += ns as f64 * ns as f64;
        let (low, high) = self.ends.unwrap_or((ns, ns));
        self.ends = Some((low.min(ns), high.max(ns)));
        *self.classes.entry(class_of(ns)).or_default() += 1;
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The figures; none when nothing was counted.
    pub fn figures(&self) -> Option<Figures> {
        let (min_ns, max_ns) = self.ends?;
        Some(Figures {
            count: self.count,
            min_ns,
            mean_ns: self.sum as f64 / self.count as f64,
            rms_ns: (self.squares / self.count as f64).sqrt(),
            max_ns,
            classes: self.classes.iter().map(|(&from, &count)| (from, count)).collect(),
        })
    }
}

/// First value and width of the class of a value from 0 on.
fn upward(value: i64) -> (i64, i64) {
    let units = value / FINE;
    if units < FINE_CLASSES {
        return (units * FINE, FINE);
    }
    let doublings = units.ilog2() - FINE_CLASSES.ilog2() + 1;
    ((units >> doublings << doublings) * FINE, FINE << doublings)
}

/// The least value of the class of `ns`. Classes below 0 are those above it, mirrored: −10 … −1 is the first.
fn class_of(ns: i64) -> i64 {
    if ns >= 0 {
        return upward(ns).0;
    }
    let (from, width) = upward(-(ns + 1));
    (-from).saturating_sub(width)
}

/// Width of the class that begins at `from`, nanoseconds.
pub fn class_width(from: i64) -> i64 {
    if from >= 0 {
        return upward(from).1;
    }
    // The value next to 0 of the mirrored class; the last one ends where numbers do.
    upward(-(from + 1)).1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn seed_003_counts_by_tens() {
        let mut tally = Tally::default();
        [0, 9, 10, 19, 20, -1, -10, -11].into_iter().for_each(|ns| tally.record(ns));
        let figures = tally.figures().unwrap();
        assert_eq!(figures.classes, [(-20, 1), (-10, 2), (0, 2), (10, 2), (20, 1)]);
        assert_eq!((figures.count, figures.min_ns, figures.max_ns, figures.max_abs()), (8, -11, 20, 20));
        assert!((figures.mean_ns - 4.5).abs() < 1e-9);
        assert_eq!(Tally::default().figures(), None);
    }

    #[test]
    fn memory_is_bounded() {
        let mut tally = Tally::default();
        for shift in 0..63 {
            for step in 0..5_000_i64 {
                let value = (1_i64 << shift).saturating_add(step.saturating_mul((1_i64 << shift) / 5_000));
                tally.record(value);
                tally.record(-value);
            }
        }
        assert!(tally.classes.len() < 60_000, "{}", tally.classes.len());
    }

    proptest! {
        #[test]
        fn a_class_holds_its_values(ns in prop_oneof![-20_000_i64..20_000, any::<i64>()]) {
            let from = class_of(ns);
            prop_assert!(from <= ns);
            prop_assert!(i128::from(ns) < i128::from(from) + i128::from(class_width(from)), "{ns} in {from}");
            prop_assert!(ns.unsigned_abs() >= 10_240 || class_width(from) == 10);
        }
    }
}
