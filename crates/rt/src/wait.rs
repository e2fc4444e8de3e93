//! Waiting for the instants of a cycle: asleep, awake, or asleep until shortly before.

use std::fmt;
use std::str::FromStr;

use units::{Nanos, Tai};

use crate::clock::{Clock, Woken};

/// How a thread waits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Wait {
    /// Asleep: costs no processor time; late by the wake-up error.
    Sleep,
    /// Asleep until shortly before, then awake: late only when the wake-up error exceeds the [`Margin`].
    #[default]
    Hybrid,
    /// Awake: takes a processor for itself.
    Spin,
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sleep => "sleep",
            Self::Hybrid => "hybrid",
            Self::Spin => "spin",
        })
    }
}

impl FromStr for Wait {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Self::Sleep, Self::Hybrid, Self::Spin];
        all.into_iter().find(|wait| wait.to_string() == text).ok_or_else(|| "expected sleep, hybrid or spin".into())
    }
}

/// How long before an instant a sleep ends, learned from how late the sleeps so far have ended.
///
/// It follows a high quantile of the wake-up error, in ratios: an error that, with an eighth of headroom, exceeds the
/// margin raises it to that, but at most doubles it; every other one lowers it by 1/4096. Where rises and falls balance,
/// roughly one wake-up in a thousand exceeds it. This was taken instead of a maximum, because one pause of the host
/// moves it by no more than a factor of two, and that has gone after some 3 000 cycles; instead of mean and deviation,
/// because wake-up errors have a long tail; and instead of a sorted window, because it costs a comparison.
///
/// It stays between a floor and a ceiling: never less than what even a good host needs, never more than a share of the
/// cycle, so that a host that cannot keep time at all does not spin for ever.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Margin {
    value: Nanos,
    floor: Nanos,
    ceiling: Nanos,
}

impl Margin {
    /// What even a quiet, tuned host needs.
    const FLOOR: Nanos = Nanos::from_micros(10);
    /// What a rather ordinary host needs: where learning begins.
    const FIRST: Nanos = Nanos::from_micros(100);
    /// A host that wakes up later than this is no host for a short cycle, and a long one should not be spun through.
    const CEILING: Nanos = Nanos::from_micros(500);
    /// What a wake-up within the margin takes off it: one part in so many.
    const FALL: i64 = 4_096;
    /// Most of the cycle that may be spun through: one part in so many.
    const SHARE: i64 = 4;

    /// For a wait in every `cycle`: from 10 µs to 500 µs, and never more than a quarter of the cycle.
    pub fn for_cycle(cycle: Nanos) -> Self {
        let ceiling = Self::CEILING.min(cycle / Self::SHARE).max(Nanos::ZERO);
        Self::between(Self::FLOOR.min(ceiling), ceiling)
    }

    /// With other limits; a floor above the ceiling counts as the ceiling.
    pub fn between(floor: Nanos, ceiling: Nanos) -> Self {
        let floor = floor.min(ceiling);
        Self { value: Self::FIRST.clamp(floor, ceiling), floor, ceiling }
    }

    /// The margin now.
    #[inline]
    pub fn value(&self) -> Nanos {
        self.value
    }

    /// Learns from a sleep that ended so late.
    #[inline]
    pub fn observe(&mut self, error: Nanos) {
        let wanted = Nanos(error.0.saturating_add(error.0 / 8));
        self.value = if wanted > self.value {
            wanted.min(self.value * 2).min(self.ceiling)
        } else {
            (self.value - Nanos((self.value.0 / Self::FALL).max(1))).max(self.floor)
        };
    }
}

/// Waits for one instant after the other.
///
/// ```
/// use downbeat_rt::clock::{Clock, SystemClock};
/// use downbeat_rt::wait::{Pacer, Wait};
/// use units::Nanos;
///
/// let cycle = Nanos::from_millis(1);
/// let clock = SystemClock::new();
/// let mut pacer = Pacer::new(Wait::Hybrid, cycle);
/// let start = clock.now() + cycle;
/// for k in 0..3 {
///     let due = start + cycle * k;
///     assert!(pacer.wait(&clock, due) >= due);
/// }
/// ```
#[derive(Debug, Clone)]
pub struct Pacer {
    how: Wait,
    margin: Margin,
}

impl Pacer {
    /// A pacer for waits in every `cycle`.
    pub fn new(how: Wait, cycle: Nanos) -> Self {
        Self { how, margin: Margin::for_cycle(cycle) }
    }

    /// How long before an instant this pacer is awake, as far as it knows by now; 0 when it only sleeps.
    #[inline]
    pub fn margin(&self) -> Nanos {
        if self.how == Wait::Sleep { Nanos::ZERO } else { self.margin.value() }
    }

    /// Waits until `at`; returns the first reading of the clock at or after it. Allocates nothing.
    #[inline]
    pub fn wait(&mut self, clock: &impl Clock, at: Tai) -> Tai {
        let awake = at - self.margin();
        if self.how != Wait::Spin && clock.now() < awake {
            let woke = match clock.sleep_before(at, self.margin()) {
                Woken::ByTimer(woke) => {
                    self.margin.observe(woke - awake);
                    woke
                }
                Woken::ByEvent(woke) => woke,
            };
            if woke >= at {
                return woke;
            }
        }
        clock.spin_until(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::FakeClock;

    const CYCLE: Nanos = Nanos::from_millis(1);

    /// Margin and waits that came late, of a pacer that meets these wake-up errors.
    fn run(how: Wait, errors: impl Iterator<Item = Nanos> + 'static) -> (Pacer, FakeClock, Vec<i64>) {
        let clock = FakeClock::new(Tai(0)).with_read_cost(Nanos(20)).with_wake_errors(errors);
        let mut pacer = Pacer::new(how, CYCLE);
        let mut late = Vec::new();
        for k in 1.. {
            let due = Tai(0) + CYCLE * k;
            // An overrun: the fake clock went past several cycles.
            if due <= clock.now() {
                continue;
            }
            if !clock.has_wake_errors() {
                return (pacer, clock, late);
            }
            let began = pacer.wait(&clock, due);
            assert!(began >= due);
            if began - due > Nanos(20) {
                late.push(k);
            }
        }
        unreachable!()
    }

    #[test]
    fn a_steady_error_is_covered_within_four_cycles_and_stays_covered() {
        for error in [12, 60, 200] {
            let error = Nanos::from_micros(error);
            let (pacer, _, late) = run(Wait::Hybrid, std::iter::repeat_n(error, 20_000));
            assert!(late.iter().all(|k| *k <= 4), "{error}: late in {late:?}");
            assert!(pacer.margin() > error && pacer.margin() < error + error / 4, "{error}: {}", pacer.margin());
        }
    }

    #[test]
    fn a_small_margin_reaches_a_large_error_in_doublings() {
        let mut margin = Margin::between(Nanos::from_micros(5), Nanos::from_micros(500));
        (0..40_000).for_each(|_| margin.observe(Nanos(1_000)));
        assert_eq!(margin.value(), Nanos::from_micros(5), "the floor holds");
        let cycles = (1..).find(|_| {
            margin.observe(Nanos::from_micros(60));
            margin.value() >= Nanos::from_micros(60)
        });
        assert_eq!(cycles, Some(4), "5 → 10 → 20 → 40 → 67.5");
    }

    #[test]
    fn one_pause_of_the_host_does_not_make_it_spin() {
        let quiet = |count| std::iter::repeat_n(Nanos::from_micros(20), count);
        let errors = quiet(10_000).chain([Nanos::from_millis(30)]).chain(quiet(10_000));
        let (before, ..) = run(Wait::Hybrid, quiet(10_000));
        let (after, clock, late) = run(Wait::Hybrid, errors);
        assert!((after.margin() - before.margin()).abs() < Nanos(100), "{} {}", after.margin(), before.margin());
        assert_eq!(late.len(), 1, "the pause itself: {late:?}");
        // 20 000 cycles of 22.5 µs margin with 20 µs error, and what the start and the pause have cost; the ceiling
        // would be 230 µs a cycle.
        assert!(clock.spun() < Nanos::from_micros(20_000 * 16), "{}", clock.spun());
        let mut margin = Margin::for_cycle(CYCLE);
        (0..10_000).for_each(|_| margin.observe(Nanos::from_micros(20)));
        let settled = margin.value();
        margin.observe(Nanos::from_millis(30));
        assert_eq!(margin.value(), settled * 2, "at most doubled");
        (0..3_200).for_each(|_| margin.observe(Nanos::from_micros(20)));
        assert!(margin.value() < settled + Nanos::from_micros(1), "and gone after some 3 000 cycles");
    }

    #[test]
    fn a_host_that_pauses_all_the_time_is_spun_for_a_quarter_of_the_cycle_at_most() {
        let (pacer, clock, _) = run(Wait::Hybrid, std::iter::repeat_n(Nanos::from_millis(30), 1_000));
        assert_eq!(pacer.margin(), CYCLE / 4);
        assert!(clock.spun() <= CYCLE / 4 * 1_000);
        assert_eq!(Margin::for_cycle(Nanos(31_250)).value(), Nanos(7_812), "a cycle shorter than the floor allows");
        assert_eq!(Margin::for_cycle(Nanos(0)).value(), Nanos::ZERO);
    }

    /// Exponential errors of this mean, the same every time.
    fn long_tail(mean_ns: f64, count: usize) -> impl Iterator<Item = Nanos> {
        let mut state = 1_u64;
        std::iter::repeat_with(move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let uniform = ((state >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
            Nanos((-mean_ns * uniform.ln()) as i64)
        })
        .take(count)
    }

    #[test]
    fn about_one_wake_up_in_a_thousand_exceeds_it() {
        const COUNT: usize = 200_000;
        let (_, _, late) = run(Wait::Hybrid, long_tail(12_000.0, COUNT));
        let share = late.len() as f64 / COUNT as f64;
        assert!((0.000_2..0.003).contains(&share), "{share}");
    }

    #[test]
    fn sleeping_never_spins_and_spinning_never_sleeps() {
        let errors = || std::iter::repeat_n(Nanos::from_micros(30), 100);
        let (pacer, clock, late) = run(Wait::Sleep, errors());
        assert_eq!((pacer.margin(), clock.spun(), late.len()), (Nanos::ZERO, Nanos::ZERO, 100));
        let clock = FakeClock::new(Tai(0)).with_read_cost(Nanos(20)).with_wake_errors(errors());
        let mut pacer = Pacer::new(Wait::Spin, CYCLE);
        for k in 1..=10 {
            let due = Tai(0) + CYCLE * k;
            assert!(pacer.wait(&clock, due) - due <= Nanos(20));
        }
        assert_eq!(clock.slept(), Nanos::ZERO);
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for how in [Wait::Sleep, Wait::Hybrid, Wait::Spin] {
            assert_eq!(how.to_string().parse(), Ok(how));
        }
        assert!("poll".parse::<Wait>().is_err());
    }

    #[test]
    fn real_waits_are_never_early() {
        let clock = crate::clock::SystemClock::new();
        for how in [Wait::Sleep, Wait::Hybrid, Wait::Spin] {
            let mut pacer = Pacer::new(how, CYCLE);
            for _ in 0..20 {
                let due = clock.now() + Nanos::from_micros(300);
                assert!(pacer.wait(&clock, due) >= due);
                assert!(pacer.wait(&clock, due) >= due, "what is past needs no wait");
            }
        }
    }
}
