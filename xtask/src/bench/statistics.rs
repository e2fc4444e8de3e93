//! Medians and what can be said about them.

use serde_json::{Value, json};

/// A median with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Median {
    pub(super) value: f64,
    /// The interval; the whole range when there are too few values for 95 %.
    pub(super) low: f64,
    pub(super) high: f64,
}

/// A median and how far the values lie apart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) quarter: f64,
    pub(super) three_quarters: f64,
    pub(super) least: f64,
    pub(super) most: f64,
}

impl Median {
    /// Of `values`, which need no particular distribution: the interval comes from their order alone, as the chance
    /// that a coin thrown for each value shows how many lie below the true median.
    pub(super) fn of(values: &[f64]) -> Self {
        let sorted = sorted(values);
        let below = places_below(sorted.len());
        let low = sorted.get(below).copied().unwrap_or(f64::NAN);
        let high = sorted.iter().rev().nth(below).copied().unwrap_or(f64::NAN);
        Self { value: quantile(&sorted, 0.5), low, high }
    }

    pub(super) fn json(self) -> Value {
        json!({ "median": round(self.value), "low95": round(self.low), "high95": round(self.high) })
    }
}

impl Spread {
    pub(super) fn of(values: &[f64]) -> Self {
        let sorted = sorted(values);
        let at = |part| quantile(&sorted, part);
        Self { median: at(0.5), quarter: at(0.25), three_quarters: at(0.75), least: at(0.0), most: at(1.0) }
    }

    pub(super) fn json(self) -> Value {
        json!({
            "median": round(self.median), "q1": round(self.quarter), "q3": round(self.three_quarters),
            "min": round(self.least), "max": round(self.most),
        })
    }
}

/// `left / right`, block by block: what slowed the whole machine down slowed both.
pub(super) fn ratios(left: &[f64], right: &[f64]) -> Vec<f64> {
    left.iter().zip(right).map(|(left, right)| left / right).collect()
}

/// `left − right`, block by block.
pub(super) fn differences(left: &[f64], right: &[f64]) -> Vec<f64> {
    left.iter().zip(right).map(|(left, right)| left - right).collect()
}

/// The median alone.
pub(super) fn median(values: &[f64]) -> f64 {
    quantile(&sorted(values), 0.5)
}

/// The value below which such a part of the values lies; NaN of nothing.
pub(super) fn quantile_of(values: &[f64], part: f64) -> f64 {
    quantile(&sorted(values), part)
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// Between two values in proportion; NaN of nothing.
fn quantile(sorted: &[f64], part: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let place = part * last as f64;
    let (lower, upper) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    lower + (upper - lower) * place.fract()
}

/// How many of `count` sorted values may be left out at each end so that the true median lies between the rest with
/// 95 %: fewer than the number of heads that `count` coins undershoot with 2.5 %.
fn places_below(count: usize) -> usize {
    let mut chance = 0.5_f64.powi(count.min(1000) as i32);
    let mut sum = 0.0;
    for heads in 0..count {
        sum += chance;
        if sum > 0.025 {
            return heads.saturating_sub(1);
        }
        chance *= (count - heads) as f64 / (heads + 1) as f64;
    }
    0
}

fn round(value: f64) -> f64 {
    (value * 10_000.0).round() / 10_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_that_of_the_tables() {
        // Tables of the sign test: ranks 6 and 15 of 20, 2 and 9 of 10, 1 and 6 of 6, 40 and 61 of 100.
        for (count, left_out) in [(20, 5), (10, 1), (6, 0), (5, 0), (100, 39), (1, 0), (0, 0)] {
            assert_eq!(places_below(count), left_out, "{count}");
        }
        let values: Vec<f64> = (1..=20).rev().map(f64::from).collect();
        assert_eq!(Median::of(&values), Median { value: 10.5, low: 6.0, high: 15.0 });
    }

    #[test]
    fn spreads_and_pairs() {
        let spread = Spread::of(&[4.0, 1.0, 3.0, 2.0, 5.0]);
        assert_eq!((spread.least, spread.quarter, spread.median), (1.0, 2.0, 3.0));
        assert_eq!((spread.three_quarters, spread.most), (4.0, 5.0));
        assert_eq!(ratios(&[2.0, 9.0], &[1.0, 3.0]), [2.0, 3.0]);
        assert_eq!(differences(&[2.0, 9.0], &[1.0, 3.0]), [1.0, 6.0]);
        assert!(median(&[]).is_nan() && Median::of(&[]).low.is_nan());
    }
}
