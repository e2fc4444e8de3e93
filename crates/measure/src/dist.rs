//! Distributions: what is kept of many values of one quantity.

use serde::{Deserialize, Serialize};

/// The distribution of a quantity: nanoseconds, or cycles where its name says so.
///
/// Percentiles are by nearest rank: `p99` is the smallest value that at least 99 % of all values do not
/// exceed, the value of rank ⌈0.99·count⌉ in ascending order. Every percentile is therefore a value that
/// occurred, and with few values the high ones equal `max`: p99.99 says more than `max` only from
/// 10 001 values on. A quantity that was not measured has no `Dist`; it is never zero instead.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Dist {
    /// How many values there are, at least one.
    pub count: u64,
    /// The smallest.
    pub min: i64,
    /// Their sum divided by their number; no requirement is ever met by it.
    pub mean: f64,
    /// The median, nearest rank.
    pub p50: i64,
    /// 90 %.
    pub p90: i64,
    /// 99 %.
    pub p99: i64,
    /// 99.9 %.
    pub p99_9: i64,
    /// 99.99 %.
    pub p99_99: i64,
    /// The largest.
    pub max: i64,
}

impl Dist {
    /// The distribution of `values`; `None` when there are none.
    pub fn of(values: impl IntoIterator<Item = i64>) -> Option<Self> {
        Self::of_vec(values.into_iter().collect())
    }

    /// The distribution of `values`, which are sorted in place instead of copied.
    pub fn of_vec(mut values: Vec<i64>) -> Option<Self> {
        values.sort_unstable();
        let (&min, &max) = (values.first()?, values.last()?);
        let count = values.len();
        let sum: i128 = values.iter().map(|&value| i128::from(value)).sum();
        let percentile = |per_10_000: u128| values[rank(count, per_10_000) - 1];
        Some(Self {
            count: count as u64,
            min,
            mean: sum as f64 / count as f64,
            p50: percentile(5_000),
            p90: percentile(9_000),
            p99: percentile(9_900),
            p99_9: percentile(9_990),
            p99_99: percentile(9_999),
            max,
        })
    }
}

/// Nearest rank of a percentile given in hundredths of a percent: ⌈count·p⌉, from 1 to `count`.
pub(crate) fn rank(count: usize, per_10_000: u128) -> usize {
    (count as u128 * per_10_000).div_ceil(10_000).max(1) as usize
}

/// The median by nearest rank; `None` without values.
pub(crate) fn median(values: &mut [i64]) -> Option<i64> {
    if values.is_empty() {
        return None;
    }
    let index = rank(values.len(), 5_000) - 1;
    Some(*values.select_nth_unstable(index).1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn percentiles_are_nearest_ranks() {
        let dist = Dist::of((1..=10_000).rev()).unwrap();
        assert_eq!((dist.count, dist.min, dist.max), (10_000, 1, 10_000));
        assert_eq!((dist.p50, dist.p90, dist.p99, dist.p99_9, dist.p99_99), (5_000, 9_000, 9_900, 9_990, 9_999));
        assert_eq!(dist.mean, 5_000.5);
        let few = Dist::of([3, 1, 2]).unwrap();
        assert_eq!((few.p50, few.p90, few.p99_99), (2, 3, 3));
        let one = Dist::of([-7]).unwrap();
        assert_eq!((one.min, one.p50, one.p99_99, one.max, one.mean), (-7, -7, -7, -7, -7.0));
    }

    #[test]
    fn nothing_measured_is_no_distribution() {
        assert_eq!(Dist::of([]), None);
        assert_eq!(median(&mut []), None);
    }

    #[test]
    fn extreme_values_do_not_overflow() {
        let dist = Dist::of([i64::MAX, i64::MAX, i64::MIN]).unwrap();
        assert_eq!((dist.min, dist.p50, dist.max), (i64::MIN, i64::MAX, i64::MAX));
    }

    proptest! {
        #[test]
        fn a_percentile_is_the_smallest_value_that_covers_its_share(
            values in proptest::collection::vec(-50_i64..50, 1..300)
        ) {
            let dist = Dist::of(values.clone()).unwrap();
            for (value, per_10_000) in
                [(dist.p50, 5_000), (dist.p90, 9_000), (dist.p99, 9_900), (dist.p99_9, 9_990), (dist.p99_99, 9_999)]
            {
                let covered = values.iter().filter(|&&v| v <= value).count();
                let below = values.iter().filter(|&&v| v < value).count();
                prop_assert!(covered * 10_000 >= values.len() * per_10_000);
                prop_assert!(below * 10_000 < values.len() * per_10_000);
            }
            let mut copy = values.clone();
            prop_assert_eq!(median(&mut copy), Some(dist.p50));
        }
    }
}
