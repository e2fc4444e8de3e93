//! Axes: from values to places, and where the ticks stand.

/// How values spread along an axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Scale {
    /// Evenly.
    Linear,
    /// By their logarithm; values must be positive.
    Log,
    /// Evenly up to `linear` on both sides of zero, by logarithm beyond.
    Symlog {
        /// Where the logarithm takes over.
        linear: f64,
    },
}

/// An axis from `low` to `high`, drawn from `start` to `end`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Axis {
    /// How values spread.
    pub(crate) scale: Scale,
    /// Value at `start`.
    pub(crate) low: f64,
    /// Value at `end`.
    pub(crate) high: f64,
    /// Place of `low`.
    pub(crate) start: f64,
    /// Place of `high`.
    pub(crate) end: f64,
}

impl Axis {
    /// An axis for spans from `low` to `high`: by logarithm when they lie wide apart, with a margin on both sides.
    pub(crate) fn spans(low: f64, high: f64, start: f64, end: f64) -> Self {
        if low > 0.0 && high / low > 12.0 {
            return Self { scale: Scale::Log, low: low / 1.15, high: high * 1.15, start, end };
        }
        let margin = ((high - low) * 0.06).max(high.abs() * 1e-3).max(1.0);
        Self { scale: Scale::Linear, low: low - margin, high: high + margin, start, end }
    }

    /// An axis of deviations, zero in the middle, `inner` being where most of them end and `outer` where all do.
    pub(crate) fn deviations(inner: f64, outer: f64, start: f64, end: f64) -> Self {
        let outer = (outer * 1.12).max(1.0);
        let inner = inner.max(1.0);
        let scale = if outer / inner > 12.0 { Scale::Symlog { linear: inner } } else { Scale::Linear };
        Self { scale, low: -outer, high: outer, start, end }
    }

    /// Where `value` stands; values outside stand on the edge.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let (low, high) = (self.bend(self.low), self.bend(self.high));
        if high <= low {
            return f64::midpoint(self.start, self.end);
        }
        let share = (self.bend(value) - low) / (high - low);
        self.start + share.clamp(0.0, 1.0) * (self.end - self.start)
    }

    fn bend(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Linear => value,
            Scale::Log => value.max(f64::MIN_POSITIVE).ln(),
            Scale::Symlog { linear } => (value / linear).asinh(),
        }
    }

    /// About `wanted` round values inside the axis, in units of `unit`.
    pub(crate) fn ticks(&self, unit: f64, wanted: usize) -> Vec<f64> {
        let (low, high) = (self.low / unit, self.high / unit);
        let values = match self.scale {
            Scale::Linear => linear_ticks(low, high, wanted),
            Scale::Log if high / low < 8.0 => linear_ticks(low, high, wanted),
            Scale::Log => log_ticks(low, high, wanted),
            Scale::Symlog { linear } => {
                let wing = log_ticks(linear / unit, high, wanted.div_ceil(2));
                wing.iter().rev().map(|v| -v).chain([0.0]).chain(wing.iter().copied()).collect()
            }
        };
        values.into_iter().filter(|v| (low..=high).contains(v)).map(|v| v * unit).collect()
    }
}

fn linear_ticks(low: f64, high: f64, wanted: usize) -> Vec<f64> {
    let raw = (high - low) / wanted.max(1) as f64;
    if raw <= 0.0 || !raw.is_finite() {
        return vec![low];
    }
    let power = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().map(|m| m * power).find(|s| *s >= raw * 0.999).unwrap_or(raw);
    let first = (low / step).ceil();
    (0..64).map(|i| (first + f64::from(i)) * step).take_while(|v| *v <= high + step * 1e-9).collect()
}

fn log_ticks(low: f64, high: f64, wanted: usize) -> Vec<f64> {
    if low <= 0.0 || high <= low {
        return vec![high];
    }
    let decades = (low.log10().floor() as i32)..=(high.log10().ceil() as i32);
    for steps in [&[1.0, 2.0, 5.0][..], &[1.0, 3.0], &[1.0]] {
        let ticks: Vec<f64> = decades
            .clone()
            .flat_map(|d| steps.iter().map(move |s| s * 10f64.powi(d)))
            .filter(|v| (low..=high).contains(v))
            .collect();
        if ticks.len() <= wanted.max(2) {
            return ticks;
        }
    }
    decades.step_by(2).map(|d| 10f64.powi(d)).filter(|v| (low..=high).contains(v)).collect()
}

/// How shares of samples spread along the upright axis of a distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tails {
    /// Each step up is ten times rarer: 50 %, 90 %, 99 %, 99.9 % …
    Upper,
    /// The same on both sides of the median.
    Both,
}

impl Tails {
    /// Height of the share `p` of `count` samples. The last sample of n stands at 1 − 1/2n: it has been seen
    /// once, so nothing says that it is the largest there is.
    pub(crate) fn height(self, p: f64, count: usize) -> f64 {
        let edge = 0.5 / count.max(1) as f64;
        let p = p.clamp(0.0, 1.0 - edge);
        match self {
            Self::Upper => -(1.0 - p).log10(),
            Self::Both => {
                let p = p.max(edge);
                (p / (1.0 - p)).log10()
            }
        }
    }

    /// The shares to rule, as far as `count` samples reach, each with its label.
    pub(crate) fn rules(self, count: usize) -> Vec<(f64, String)> {
        let reach = (count.max(2) as f64).log10();
        let upper: [(f64, &str); 8] = [
            (0.5, "50"),
            (0.9, "90"),
            (0.99, "99"),
            (0.999, "99.9"),
            (0.9999, "99.99"),
            (0.99999, "99.999"),
            (0.999999, "99.9999"),
            (0.9999999, "99.99999"),
        ];
        let lower: [(f64, &str); 6] =
            [(0.1, "10"), (0.01, "1"), (0.001, "0.1"), (0.0001, "0.01"), (0.00001, "0.001"), (1e-6, "0.0001")];
        let mut rules: Vec<(f64, String)> = match self {
            Self::Upper => vec![(0.0, "0".into())],
            Self::Both => {
                lower.iter().filter(|(p, _)| -p.log10() <= reach).map(|(p, l)| (*p, (*l).to_owned())).collect()
            }
        };
        rules.extend(
            upper.iter().filter(|(p, _)| -(1.0 - p).log10() <= reach + 1e-6).map(|(p, l)| (*p, (*l).to_owned())),
        );
        rules.sort_by(|a, b| a.0.total_cmp(&b.0));
        rules
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        let axis = Axis::spans(251.0, 499.0, 0.0, 100.0);
        let ticks = axis.ticks(1.0, 5);
        assert_eq!(ticks, [300.0, 400.0, 500.0]);
        let wide = Axis::spans(1e3, 5e6, 0.0, 100.0);
        assert_eq!(wide.scale, Scale::Log);
        assert!(wide.ticks(1e3, 6).len() <= 6);
        assert!(wide.ticks(1e3, 6).iter().all(|t| *t >= wide.low && *t <= wide.high));
    }

    #[test]
    fn nothing_to_spread_does_no_harm() {
        let axis = Axis::spans(0.0, 0.0, 0.0, 100.0);
        assert!(axis.at(0.0).is_finite());
        assert!(!axis.ticks(1.0, 5).is_empty());
        let axis = Axis::deviations(0.0, 0.0, 0.0, 100.0);
        assert!((axis.at(0.0) - 50.0).abs() < 1e-9);
    }

    #[test]
    fn the_largest_of_n_samples_stands_within_reach() {
        assert!(Tails::Upper.height(1.0, 1000).is_finite());
        assert!(Tails::Both.height(0.0, 1000).is_finite());
        assert!(Tails::Upper.height(0.99, 1000) > Tails::Upper.height(0.9, 1000));
        assert_eq!(Tails::Upper.rules(100).last().unwrap().1, "99");
    }
}
