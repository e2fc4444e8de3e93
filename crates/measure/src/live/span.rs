//! Spans and numbers of cycles, counted.

use units::Nanos;

use crate::dist::rank;
use crate::{Dist, Histogram};

/// How many of the last values are kept as they are.
pub const RECENT: usize = 1024;

/// Upper ends (inclusive) of the coarse buckets that [`SpanFigures::up_to`] counts in.
pub const BOUNDS: [Nanos; 22] = {
    let mut bounds = [Nanos(0); 22];
    let (mut index, mut decade) = (0, 1_000);
    while index < bounds.len() {
        bounds[index] = Nanos(decade * [1, 2, 5][index % 3]);
        if index % 3 == 2 {
            decade *= 10;
        }
        index += 1;
    }
    bounds
};

/// Upper ends (inclusive) of the coarse buckets that [`CycleFigures::up_to`] counts in.
pub const CYCLE_BOUNDS: [u64; 14] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 15, 20, 50, 100];

/// Numbers of cycles below are counted one by one.
const CYCLES: usize = 256;

/// The last values, as they came.
#[derive(Debug)]
struct Recent {
    values: Box<[i64]>,
    count: u64,
}

impl Recent {
    fn new() -> Self {
        Self { values: vec![0; RECENT].into_boxed_slice(), count: 0 }
    }

    fn push(&mut self, value: i64) {
        self.values[(self.count % RECENT as u64) as usize] = value;
        self.count += 1;
    }

    fn last(&self) -> Option<i64> {
        let last = self.count.checked_sub(1)?;
        Some(self.values[(last % RECENT as u64) as usize])
    }

    /// Oldest first.
    fn iter(&self) -> impl Iterator<Item = i64> + '_ {
        let kept = self.count.min(RECENT as u64);
        (self.count - kept..self.count).map(|place| self.values[(place % RECENT as u64) as usize])
    }
}

/// A quantity of time: the last values exactly, all of them in a histogram.
#[derive(Debug)]
pub struct SpanFigures {
    whole: Histogram,
    coarse: [u64; BOUNDS.len()],
    sum: i128,
    recent: Recent,
}

impl SpanFigures {
    pub(super) fn new() -> Self {
        Self { whole: Histogram::new(), coarse: [0; BOUNDS.len()], sum: 0, recent: Recent::new() }
    }

    pub(super) fn record(&mut self, span: Nanos) {
        self.whole.record(span);
        // As the histogram, so that count and sum are of the same values.
        let counted = span.max(Nanos::ZERO);
        if let Some(bucket) = self.coarse.get_mut(BOUNDS.partition_point(|bound| *bound < counted)) {
            *bucket += 1;
        }
        self.sum += i128::from(counted.0);
        self.recent.push(span.0);
    }

    /// All values of the run so far. One below zero counts as zero in it.
    pub fn whole(&self) -> &Histogram {
        &self.whole
    }

    /// The last value.
    pub fn last(&self) -> Option<Nanos> {
        self.recent.last().map(Nanos)
    }

    /// The last values, at most [`RECENT`], in nanoseconds, in the order they became known.
    pub fn recent(&self) -> impl Iterator<Item = i64> + '_ {
        self.recent.iter()
    }

    /// Their distribution.
    pub fn window(&self) -> Option<Dist> {
        Dist::of(self.recent())
    }

    /// How many values did not exceed each of [`BOUNDS`].
    pub fn up_to(&self) -> impl Iterator<Item = (Nanos, u64)> + '_ {
        let mut below = 0;
        BOUNDS.iter().zip(&self.coarse).map(move |(bound, count)| {
            below += count;
            (*bound, below)
        })
    }

    /// Sum of all values, nanoseconds.
    pub fn sum_ns(&self) -> i128 {
        self.sum
    }
}

/// A round trip by the counter, in cycles: the last values exactly, all of them counted.
#[derive(Debug)]
pub struct CycleFigures {
    counts: Box<[u64]>,
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
    recent: Recent,
}

impl CycleFigures {
    pub(super) fn new() -> Self {
        let counts = vec![0; CYCLES + 1].into_boxed_slice();
        Self { counts, count: 0, sum: 0, min: u64::MAX, max: 0, recent: Recent::new() }
    }

    pub(super) fn record(&mut self, cycles: u64) {
        self.counts[usize::try_from(cycles).map_or(CYCLES, |cycles| cycles.min(CYCLES))] += 1;
        self.count += 1;
        self.sum += u128::from(cycles);
        self.min = self.min.min(cycles);
        self.max = self.max.max(cycles);
        self.recent.push(i64::try_from(cycles).unwrap_or(i64::MAX));
    }

    /// How many values there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their sum.
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// The last value.
    pub fn last(&self) -> Option<i64> {
        self.recent.last()
    }

    /// The last values, at most [`RECENT`], in their order.
    pub fn recent(&self) -> impl Iterator<Item = i64> + '_ {
        self.recent.iter()
    }

    /// Their distribution, in cycles.
    pub fn window(&self) -> Option<Dist> {
        Dist::of(self.recent())
    }

    /// The distribution of all values, in cycles. A percentile of 256 cycles or more is given as the maximum.
    pub fn whole(&self) -> Option<Dist> {
        let whole = |cycles: u64| i64::try_from(cycles).unwrap_or(i64::MAX);
        let percentile = |per_10_000| {
            let mut left = rank(self.count as usize, per_10_000) as u64;
            let place = self.counts[..CYCLES].iter().position(|&count| match left.checked_sub(count) {
                Some(rest) if rest > 0 => {
                    left = rest;
                    false
                }
                _ => true,
            });
            place.map_or(whole(self.max), |cycles| cycles as i64)
        };
        (self.count > 0).then(|| Dist {
            count: self.count,
            min: whole(self.min),
            mean: self.sum as f64 / self.count as f64,
            p50: percentile(5_000),
            p90: percentile(9_000),
            p99: percentile(9_900),
            p99_9: percentile(9_990),
            p99_99: percentile(9_999),
            max: whole(self.max),
        })
    }

    /// How many values did not exceed each of [`CYCLE_BOUNDS`].
    pub fn up_to(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        CYCLE_BOUNDS.iter().map(|&bound| (bound, self.counts[..=bound as usize].iter().sum()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bounds_go_by_one_two_five() {
        let shown = [0, 1, 2, 3, 9, 21].map(|index: usize| BOUNDS[index].0);
        assert_eq!(shown, [1_000, 2_000, 5_000, 10_000, 1_000_000, 10_000_000_000]);
    }

    #[test]
    fn a_bound_includes_its_own_value() {
        let mut figures = SpanFigures::new();
        [-5, 1_000, 1_001, 20_000_000_000].into_iter().for_each(|ns| figures.record(Nanos(ns)));
        let up_to: Vec<u64> = figures.up_to().map(|(_, count)| count).collect();
        assert_eq!((up_to[0], up_to[1], up_to[21]), (2, 3, 3), "the rest is only in the count");
        assert_eq!((figures.whole().count(), figures.sum_ns()), (4, 20_000_002_001));
        assert_eq!(figures.window().unwrap().min, -5);
    }

    proptest! {
        #[test]
        fn cycles_are_those_of_the_sorted_list(cycles in proptest::collection::vec(0..300_u64, 1..2_000)) {
            let mut figures = CycleFigures::new();
            cycles.iter().for_each(|&cycles| figures.record(cycles));
            let exact = Dist::of(cycles.iter().map(|&cycles| cycles as i64)).unwrap();
            let found = figures.whole().unwrap();
            prop_assert_eq!((found.count, found.min, found.max), (exact.count, exact.min, exact.max));
            for (found, exact) in [(found.p50, exact.p50), (found.p99, exact.p99), (found.p99_99, exact.p99_99)] {
                prop_assert_eq!(found, if exact < CYCLES as i64 { exact } else { figures.max as i64 });
            }
            let last: Vec<i64> = cycles.iter().rev().take(RECENT).rev().map(|&cycles| cycles as i64).collect();
            prop_assert!(figures.recent().eq(last));
            for (bound, count) in figures.up_to() {
                prop_assert_eq!(count, cycles.iter().filter(|&&cycles| cycles <= bound).count() as u64);
            }
        }
    }
}
