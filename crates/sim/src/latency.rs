//! How late a host wakes up.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use measure::Histogram;
use rand_chacha::ChaCha8Rng;
use rand_core::RngCore;
use units::{Nanos, QuantityError};

use crate::world::random;

/// How late after its instant each phase of an application begins. Sampled anew for every phase.
///
/// Written `zero`, `const:5us`, `uniform:0us..20us` or `exp:5us,max=100us`; a measured one comes out of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum HostLatency {
    /// Every phase begins on time.
    #[default]
    Zero,
    /// Always so late.
    Constant(Nanos),
    /// Any value between the two, both included, equally likely.
    Uniform {
        /// The least.
        min: Nanos,
        /// The most.
        max: Nanos,
    },
    /// Exponentially distributed; values above `max` become `max`.
    Exponential {
        /// Mean before the cut at `max`.
        mean: Nanos,
        /// The most.
        max: Nanos,
    },
    /// As it was measured on a host.
    Measured(Measured),
}

/// A measured distribution: any value of a bucket of its histogram, equally likely within the bucket, none above the
/// greatest that was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measured {
    steps: Arc<[Step]>,
    median: Nanos,
    max: Nanos,
}

/// A bucket: what it can give, and how many values are in it and below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Step {
    least: i64,
    greatest: i64,
    up_to: u64,
}

impl Measured {
    /// The distribution of a histogram; `None` when it is empty.
    pub fn of(histogram: &Histogram) -> Option<Self> {
        let dist = histogram.distribution()?;
        let mut up_to = 0;
        let steps = histogram.buckets().map(|bucket| {
            up_to += bucket.count;
            let greatest = (bucket.to.0 - 1).min(dist.max);
            Step { least: bucket.from.0.max(dist.min).min(greatest), greatest, up_to }
        });
        Some(Self { steps: steps.collect(), median: Nanos(dist.p50), max: Nanos(dist.max.min(LONGEST.0)) })
    }

    fn count(&self) -> u64 {
        self.steps.last().map_or(0, |step| step.up_to)
    }

    fn sample(&self, random: &mut ChaCha8Rng) -> Nanos {
        let rank = below(random, self.count());
        let place = self.steps.partition_point(|step| step.up_to <= rank);
        // Both draws always happen, so that every phase takes the same from the generator.
        let Some(step) = self.steps.get(place) else { return Nanos::ZERO };
        let value = step.least + below(random, (step.greatest - step.least) as u64 + 1) as i64;
        Nanos(value).min(self.max)
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "measured ({} wake-ups, median {}, largest {})", self.count(), self.median, self.max)
    }
}

impl HostLatency {
    /// One value. Integer arithmetic only, so that one seed gives the same bytes on every machine.
    pub(crate) fn sample(&self, random: &mut ChaCha8Rng) -> Nanos {
        match *self {
            Self::Zero => Nanos::ZERO,
            Self::Constant(span) => span,
            Self::Measured(ref measured) => measured.sample(random),
            Self::Uniform { min, max } => Nanos(min.0 + below(random, (max - min).0 as u64 + 1) as i64),
            Self::Exponential { mean, max } => Nanos(exponential(random, mean.0 as u64).min(max.0 as u64) as i64),
        }
    }

    /// `count` values, drawn as for the phases of a simulated host of this name.
    pub fn draws(&self, seed: u64, host: &str, count: usize) -> Vec<Nanos> {
        let mut random = random(seed, &["host", host]);
        (0..count).map(|_| self.sample(&mut random)).collect()
    }

    /// The greatest value it can give.
    pub fn max(&self) -> Nanos {
        match *self {
            Self::Zero => Nanos::ZERO,
            Self::Measured(ref measured) => measured.max,
            Self::Constant(max) | Self::Uniform { max, .. } | Self::Exponential { max, .. } => max,
        }
    }

    /// `Err` says what is wrong with the values, which are public and may have been put together by hand.
    pub(crate) fn check(&self) -> Result<(), LatencyError> {
        let (least, greatest) = match *self {
            // Taken from a histogram, which holds no wrong values.
            Self::Zero | Self::Measured(_) => return Ok(()),
            Self::Constant(span) => (span, span),
            Self::Uniform { min, max } => (min, max),
            Self::Exponential { mean, max } => (mean, max),
        };
        if least.0 < 0 {
            return Err(LatencyError::Negative(least));
        }
        if greatest < least {
            return Err(LatencyError::Order(least, greatest));
        }
        if greatest > LONGEST {
            return Err(LatencyError::Long(greatest));
        }
        Ok(())
    }
}

/// Longer latencies are a slip of the unit.
const LONGEST: Nanos = Nanos(3_600_000_000_000);

/// A whole number below `limit` (multiply and shift; the bias is below limit/2⁶⁴).
pub(crate) fn below(random: &mut ChaCha8Rng, limit: u64) -> u64 {
    ((u128::from(random.next_u64()) * u128::from(limit)) >> 64) as u64
}

/// Exponentially distributed with `mean`, by von Neumann's comparisons (1951): the whole part counts rejected
/// rounds, a round being accepted when a run of falling uniform numbers has odd length. No logarithm, whose last
/// bit would depend on the machine.
fn exponential(random: &mut ChaCha8Rng, mean: u64) -> u64 {
    let mut whole: u128 = 0;
    loop {
        let first = random.next_u64();
        let mut last = first;
        let mut length = 1_u32;
        loop {
            let value = random.next_u64();
            if value >= last {
                break;
            }
            last = value;
            length += 1;
        }
        if length % 2 == 1 {
            let value = whole * u128::from(mean) + ((u128::from(first) * u128::from(mean)) >> 64);
            return u64::try_from(value).unwrap_or(u64::MAX);
        }
        whole += 1;
    }
}

/// Why a host latency could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LatencyError {
    /// None of the known forms; the text as given.
    Form(String),
    /// A span in it could not be read.
    Span(String, QuantityError),
    /// A latency before the instant.
    Negative(Nanos),
    /// The greatest is below the least (or the mean).
    Order(Nanos, Nanos),
    /// More than an hour.
    Long(Nanos),
}

impl fmt::Display for LatencyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const FORMS: &str = "write \"zero\", \"const:5us\", \"uniform:0us..20us\" or \"exp:5us,max=100us\"";
        match self {
            Self::Form(text) => write!(f, "host latency {text:?} has no known form; {FORMS}"),
            Self::Span(text, why) => write!(f, "host latency: {text:?} {why}; {FORMS}"),
            Self::Negative(span) => {
                write!(f, "host latency {span} is negative; a phase never begins before its instant")
            }
            Self::Order(least, greatest) => {
                write!(f, "host latency: the greatest value {greatest} is below {least}; exchange or raise it")
            }
            Self::Long(span) => write!(f, "host latency {span} is longer than an hour; check its unit"),
        }
    }
}

impl std::error::Error for LatencyError {}

impl FromStr for HostLatency {
    type Err = LatencyError;

    fn from_str(text: &str) -> Result<Self, LatencyError> {
        let form = || LatencyError::Form(text.to_owned());
        let span = |part: &str| part.parse().map_err(|why| LatencyError::Span(part.trim().to_owned(), why));
        let latency = match text.trim().split_once(':') {
            None if text.trim() == "zero" => Self::Zero,
            Some(("const", value)) => Self::Constant(span(value)?),
            Some(("uniform", range)) => {
                let (min, max) = range.split_once("..").ok_or_else(form)?;
                Self::Uniform { min: span(min)?, max: span(max)? }
            }
            Some(("exp", values)) => {
                let (mean, max) = values.split_once(',').ok_or_else(form)?;
                let max = max.trim().strip_prefix("max=").ok_or_else(form)?;
                Self::Exponential { mean: span(mean)?, max: span(max)? }
            }
            _ => return Err(form()),
        };
        latency.check()?;
        Ok(latency)
    }
}

/// Writes the form that is read, or describes what was measured.
impl fmt::Display for HostLatency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zero => f.write_str("zero"),
            Self::Constant(span) => write!(f, "const:{span}"),
            Self::Uniform { min, max } => write!(f, "uniform:{min}..{max}"),
            Self::Exponential { mean, max } => write!(f, "exp:{mean},max={max}"),
            Self::Measured(measured) => measured.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_core::SeedableRng;

    #[test]
    fn forms_are_read_and_written_back() {
        for text in ["zero", "const:5us", "uniform:0s..20us", "exp:5us,max=100us"] {
            assert_eq!(text.parse::<HostLatency>().unwrap().to_string(), text);
        }
        assert_eq!("uniform:0us..20us".parse(), Ok(HostLatency::Uniform { min: Nanos(0), max: Nanos(20_000) }));
    }

    #[test]
    fn wrong_forms_say_what_is_right() {
        for (text, part) in [
            ("", "no known form"),
            ("5us", "const:5us"),
            ("exp:5us", "max=100us"),
            ("uniform:5us", "no known form"),
            ("const:5", "needs a unit"),
            ("uniform:20us..5us", "below 20us"),
            ("const:-1us", "negative"),
            ("const:2h", "hour"),
        ] {
            let message = text.parse::<HostLatency>().unwrap_err().to_string();
            assert!(message.contains(part), "{text}: {message}");
        }
    }

    #[test]
    fn samples_have_the_right_mean_and_stay_in_range() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let mut mean = |latency: HostLatency| {
            let samples: Vec<i64> = (0..20_000).map(|_| latency.sample(&mut random).0).collect();
            assert!(samples.iter().all(|&s| s >= 0 && s <= latency.max().0));
            samples.iter().sum::<i64>() as f64 / samples.len() as f64
        };
        let uniform = mean(HostLatency::Uniform { min: Nanos(10_000), max: Nanos(20_000) });
        assert!((uniform - 15_000.0).abs() < 100.0, "{uniform}");
        let exponential = mean(HostLatency::Exponential { mean: Nanos(5_000), max: Nanos(1_000_000) });
        assert!((exponential - 5_000.0).abs() < 150.0, "{exponential}");
    }

    #[test]
    fn a_measured_distribution_gives_what_was_measured() {
        let mut histogram = Histogram::new();
        (0..900).for_each(|ns| histogram.record(Nanos(3_000 + ns)));
        (0..100).for_each(|_| histogram.record(Nanos(50_000)));
        let latency = HostLatency::Measured(Measured::of(&histogram).unwrap());
        assert_eq!(latency.max(), Nanos(50_000));
        assert_eq!(latency.to_string(), "measured (1000 wake-ups, median 3.499us, largest 50us)");
        let samples = |seed| {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            (0..10_000).map(|_| latency.sample(&mut random).0).collect::<Vec<_>>()
        };
        let found = samples(1);
        assert!(found.iter().all(|ns| (3_000..3_900).contains(ns) || *ns == 50_000));
        let late = found.iter().filter(|ns| **ns == 50_000).count();
        assert!((850..1_150).contains(&late), "{late} of 10 000 where 1000 are expected");
        let below_half = found.iter().filter(|ns| **ns < 3_500).count();
        assert!((4_700..5_300).contains(&below_half), "{below_half}");
        assert_eq!((samples(1) == found, samples(2) == found), (true, false));
        assert!(Measured::of(&Histogram::new()).is_none());
    }

    #[test]
    fn a_latency_beyond_reason_is_cut() {
        let mut histogram = Histogram::new();
        histogram.record(Nanos(i64::MAX));
        let latency = HostLatency::Measured(Measured::of(&histogram).unwrap());
        let mut random = ChaCha8Rng::seed_from_u64(1);
        assert!((0..10).all(|_| latency.sample(&mut random) <= LONGEST));
        assert_eq!(latency.max(), LONGEST);
    }
}
