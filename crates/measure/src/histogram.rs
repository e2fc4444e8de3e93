//! A histogram of spans with a fixed number of buckets: recording one is a few instructions and allocates nothing.
//!
//! Our own, not the crate `hdrhistogram`: its buckets are powers of two of the smallest unit, ours have edges at whole
//! tenths of a microsecond, which a file can list and a person can read, and least, greatest and sum stay exact.

use units::Nanos;

use crate::Dist;
use crate::dist::rank;

/// Below this, every bucket is [`FINE`] wide.
const EXACT_BELOW: i64 = 1_000_000;
const FINE: i64 = 100;
const FINE_BUCKETS: usize = (EXACT_BELOW / FINE) as usize;

/// Above, each doubling of the value is cut into so many equal buckets: a value is known to 0.8 %.
const PER_DOUBLING: usize = 125;
const DOUBLINGS: usize = 16;
const COARSE: i64 = EXACT_BELOW / PER_DOUBLING as i64;

/// Spans from here on (65.5 s) are counted, and enter least, greatest and sum, but share the last bucket.
const TOP: i64 = EXACT_BELOW << DOUBLINGS;

/// Counts of spans: 0.1 µs a bucket below 1 ms, at most 0.8 % of the value a bucket above, up to 65.5 s.
///
/// ```
/// use downbeat_measure::Histogram;
/// use units::Nanos;
///
/// let mut lateness = Histogram::new();
/// [3_120, 3_180, 41_000].map(|ns| lateness.record(Nanos(ns)));
/// let dist = lateness.distribution().unwrap();
/// assert_eq!((dist.count, dist.min, dist.p50, dist.max), (3, 3_120, 3_199, 41_000));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    buckets: Box<[u64]>,
    count: u64,
    overflow: u64,
    sum: i128,
    min: i64,
    max: i64,
}

/// A bucket of a [`Histogram`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    /// The least span in it.
    pub from: Nanos,
    /// The first span that is no more in it.
    pub to: Nanos,
    /// How many spans are in it.
    pub count: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// An empty one: the only place that allocates, 96 kB.
    pub fn new() -> Self {
        let buckets = vec![0; FINE_BUCKETS + DOUBLINGS * PER_DOUBLING].into_boxed_slice();
        Self { buckets, count: 0, overflow: 0, sum: 0, min: i64::MAX, max: i64::MIN }
    }

    /// Counts a span; one below zero counts as zero.
    #[inline]
    pub fn record(&mut self, span: Nanos) {
        let span = span.0.max(0);
        self.buckets[index(span)] += 1;
        self.count += 1;
        self.overflow += u64::from(span >= TOP);
        self.sum += i128::from(span);
        self.min = self.min.min(span);
        self.max = self.max.max(span);
    }

    /// Adds what another one counted.
    pub fn merge(&mut self, other: &Self) {
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(own, others)| *own += others);
        self.count += other.count;
        self.overflow += other.overflow;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// How many spans were counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// How many of them were 65.5 s or longer and share the last bucket.
    pub fn overflow(&self) -> u64 {
        self.overflow
    }

    /// The longest span, exact; `None` when nothing was counted.
    pub fn max(&self) -> Option<Nanos> {
        (self.count > 0).then_some(Nanos(self.max))
    }

    /// The distribution; `None` when nothing was counted.
    ///
    /// Count, least, mean and greatest are exact. A percentile is the longest span that its bucket can hold, so that
    /// it is never too small and at most 0.1 µs (from 1 ms on 0.8 %) too large.
    pub fn distribution(&self) -> Option<Dist> {
        (self.count > 0).then(|| Dist {
            count: self.count,
            min: self.min,
            mean: self.sum as f64 / self.count as f64,
            p50: self.percentile(5_000),
            p90: self.percentile(9_000),
            p99: self.percentile(9_900),
            p99_9: self.percentile(9_990),
            p99_99: self.percentile(9_999),
            max: self.max,
        })
    }

    /// The nearest rank of `per_10_000`, in nanoseconds.
    fn percentile(&self, per_10_000: u128) -> i64 {
        let rank = rank(self.count as usize, per_10_000) as u64;
        let mut below = 0;
        for (index, count) in self.buckets.iter().enumerate() {
            below += count;
            if below >= rank {
                return if index + 1 == self.buckets.len() { self.max } else { (to(index) - 1).min(self.max) };
            }
        }
        self.max
    }

    /// The buckets that hold anything, in ascending order.
    pub fn buckets(&self) -> impl Iterator<Item = Bucket> {
        let filled = self.buckets.iter().enumerate().filter(|(_, count)| **count > 0);
        filled.map(|(index, &count)| Bucket { from: Nanos(from(index)), to: Nanos(to(index)), count })
    }

    /// The buckets as files keep them: the least span in microseconds, and the count.
    pub fn to_list(&self) -> Vec<(f64, u64)> {
        self.buckets().map(|bucket| (bucket.from.0 as f64 / 1e3, bucket.count)).collect()
    }

    /// A histogram out of [`Self::to_list`] and the distribution beside it. Lists with other buckets than ours are
    /// taken too: each entry goes to the bucket that holds its span.
    ///
    /// # Errors
    /// What is wrong with the list, in words: a span that is none, a count that is no count, or one that does not fit
    /// the distribution.
    pub fn from_list(list: &[(f64, u64)], dist: &Dist) -> Result<Self, String> {
        let mut histogram = Self::new();
        for &(us, count) in list {
            if !(0.0..=3.6e9).contains(&us) {
                return Err(format!("the histogram has a bucket at {us} µs; expected 0 µs to one hour"));
            }
            let span = (us * 1e3).round() as i64;
            let sum = histogram.count.checked_add(count).filter(|sum| *sum <= i64::MAX as u64);
            histogram.count = sum.ok_or("the counts of the histogram are too large to be added")?;
            histogram.buckets[index(span)] += count;
            histogram.overflow += if span >= TOP { count } else { 0 };
            if count > 0 && (span > dist.max || index(span) < index(dist.min.max(0))) {
                return Err(format!("the histogram has a bucket at {us} µs, outside of its min and max"));
            }
        }
        if histogram.count != dist.count || histogram.count == 0 {
            let counted = histogram.count;
            return Err(format!("the histogram counts {counted} spans, its distribution {}", dist.count));
        }
        if dist.min < 0 || histogram.buckets[index(dist.min)] == 0 || histogram.buckets[index(dist.max)] == 0 {
            return Err("min or max of the distribution is in no bucket of the histogram".into());
        }
        (histogram.min, histogram.max) = (dist.min, dist.max);
        histogram.sum = (dist.mean * dist.count as f64) as i128;
        Ok(histogram)
    }
}

/// The bucket of a span that is not negative.
#[inline]
fn index(span: i64) -> usize {
    if span < EXACT_BELOW {
        return (span / FINE) as usize;
    }
    let doubling = ((span / EXACT_BELOW).ilog2() as usize).min(DOUBLINGS - 1);
    let place = ((span - (EXACT_BELOW << doubling)) / COARSE) >> doubling;
    FINE_BUCKETS + doubling * PER_DOUBLING + (place as usize).min(PER_DOUBLING - 1)
}

/// The least span of a bucket, ns.
fn from(index: usize) -> i64 {
    match index.checked_sub(FINE_BUCKETS) {
        None => index as i64 * FINE,
        Some(above) => {
            let (doubling, place) = (above / PER_DOUBLING, (above % PER_DOUBLING) as i64);
            (EXACT_BELOW + place * COARSE) << doubling
        }
    }
}

/// The first span behind a bucket, ns: where the next one begins.
fn to(index: usize) -> i64 {
    from(index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(spans: &[i64]) -> Histogram {
        let mut histogram = Histogram::new();
        spans.iter().for_each(|&span| histogram.record(Nanos(span)));
        histogram
    }

    #[test]
    fn buckets_touch_and_hold_what_they_say() {
        for bucket in 0..FINE_BUCKETS + DOUBLINGS * PER_DOUBLING {
            assert_eq!((index(from(bucket)), index(to(bucket) - 1)), (bucket, bucket));
            let width = to(bucket) - from(bucket);
            assert!(width == FINE || (from(bucket) >= EXACT_BELOW && width * 1_000 <= from(bucket) * 8), "{bucket}");
        }
        assert_eq!(from(FINE_BUCKETS + DOUBLINGS * PER_DOUBLING), TOP);
    }

    #[test]
    fn the_ends_are_exact_and_what_is_beyond_is_counted() {
        let histogram = of(&[-5, 7, TOP - 1, TOP, i64::MAX]);
        let dist = histogram.distribution().unwrap();
        assert_eq!((dist.count, dist.min, dist.max, histogram.overflow()), (5, 0, i64::MAX, 2));
        assert_eq!((dist.p50, dist.p99_99), (i64::MAX, i64::MAX), "the last bucket has no upper end but the maximum");
        assert_eq!(histogram.buckets().map(|bucket| bucket.count).sum::<u64>(), 5);
        assert_eq!((Histogram::new().distribution(), Histogram::new().max()), (None, None));
    }

    #[test]
    fn a_list_that_does_not_fit_is_refused_in_words() {
        let good = of(&[3_120, 3_180, 41_000]);
        let (list, dist) = (good.to_list(), good.distribution().unwrap());
        assert_eq!(list, [(3.1, 2), (41.0, 1)]);
        assert_eq!(Histogram::from_list(&list, &dist).unwrap(), good);
        let with = |change: fn(&mut Vec<(f64, u64)>, &mut Dist)| {
            let (mut list, mut dist) = (list.clone(), dist.clone());
            change(&mut list, &mut dist);
            Histogram::from_list(&list, &dist).unwrap_err()
        };
        assert!(with(|list, _| list[0].0 = f64::NAN).contains("NaN µs"));
        assert!(with(|list, _| list[0].0 = -1.0).contains("-1 µs"));
        assert!(with(|list, _| list[0].1 = u64::MAX).contains("too large"));
        assert!(with(|list, _| list[0].1 = 1).contains("counts 2 spans"));
        assert!(with(|list, _| list[1].0 = 77.0).contains("outside"));
        assert!(with(|list, dist| (list[1].0, dist.max) = (40.0, 41_000)).contains("in no bucket"));
        assert!(with(|list, dist| (*list, dist.count) = (Vec::new(), 0)).contains("counts 0"));
    }

    proptest! {
        #[test]
        fn percentiles_are_those_of_the_sorted_list_up_to_a_bucket(
            spans in proptest::collection::vec(prop_oneof![0_i64..2_000, 0_i64..3_000_000, 0..TOP], 1..400)
        ) {
            let exact = Dist::of(spans.clone()).unwrap();
            let found = of(&spans).distribution().unwrap();
            prop_assert_eq!((found.count, found.min, found.max), (exact.count, exact.min, exact.max));
            prop_assert!((found.mean - exact.mean).abs() <= exact.mean * 1e-12);
            for (found, exact) in [
                (found.p50, exact.p50), (found.p90, exact.p90), (found.p99, exact.p99),
                (found.p99_9, exact.p99_9), (found.p99_99, exact.p99_99),
            ] {
                let most = if exact < EXACT_BELOW { exact + FINE } else { exact + exact / 100 };
                prop_assert!(exact <= found && found < most, "{} for {}", found, exact);
            }
        }

        #[test]
        fn two_merged_are_one_of_all(
            first in proptest::collection::vec(0_i64..5_000_000, 0..100),
            second in proptest::collection::vec(0_i64..5_000_000, 1..100)
        ) {
            let mut merged = of(&first);
            merged.merge(&of(&second));
            let all = of(&[first, second].concat());
            prop_assert_eq!(&merged, &all);
            let again = Histogram::from_list(&all.to_list(), &all.distribution().unwrap()).unwrap();
            prop_assert!(again.buckets().eq(all.buckets()));
            prop_assert_eq!(again.max(), all.max());
        }
    }
}
