//! Reading and waiting on TAI, the clock of gate schedules and launch times.
//!
//! Where nobody has told the kernel the leap seconds, its TAI offset is 0 and `CLOCK_TAI` runs with UTC:
//! all stations of one host still agree, but a base time shared with other hosts is 37 s off.
//!
//! `CLOCK_TAI` can be stepped: by whoever sets the time or the TAI offset, by a time synchronisation that starts. A
//! cyclic thread therefore takes [`SystemClock`], which goes by `CLOCK_MONOTONIC`, adds the offset between the two and
//! says when that offset has changed. It sees the clock through the trait [`Clock`], so that
//! [`FakeClock`](crate::testing::FakeClock) can stand in for the machine's in a test.

use nix::sys::time::{TimeSpec, TimeValLike};
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};
use units::{Nanos, Tai};

const CLOCK_TAI: ClockId = ClockId::from_raw(libc::CLOCK_TAI);
const SECOND: i64 = 1_000_000_000;

/// The present instant.
#[inline]
pub fn now() -> Tai {
    // Cannot fail: Linux has had CLOCK_TAI since 3.10, Rust needs 3.2 and the packet options used beside it 4.20.
    Tai(read(CLOCK_TAI))
}

/// Time since some fixed instant, which no step changes.
#[inline]
pub fn monotonic() -> Nanos {
    Nanos(read(ClockId::CLOCK_MONOTONIC))
}

#[inline]
fn read(clock: ClockId) -> i64 {
    let time = clock_gettime(clock).unwrap_or(TimeSpec::new(0, 0));
    time.tv_sec() * SECOND + time.tv_nsec()
}

/// How far the kernel's TAI is ahead of its UTC (`CLOCK_REALTIME`): whole seconds, 37 s since 2017,
/// 0 s when nobody has set it.
pub fn tai_minus_utc() -> Nanos {
    // SAFETY: all-zero bytes are a valid `timex`; it holds integers only.
    let mut timex: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: `timex` is a live, exclusively borrowed structure; `modes` 0 reads without changing anything.
    let state = unsafe { libc::adjtimex(&raw mut timex) };
    if state >= 0 {
        return Nanos(i64::from(timex.tai) * SECOND);
    }
    // Some sandboxes forbid adjtimex altogether; the clocks show the same offset, save the time between two reads.
    let difference = read(CLOCK_TAI) - read(ClockId::CLOCK_REALTIME);
    Nanos((difference + SECOND / 2).div_euclid(SECOND) * SECOND)
}

/// Sleeps until `at` whatever signals arrive; never returns early. Returns at once when `at` is past.
pub fn sleep_through(at: Tai) {
    while now() < at {
        sleep_once(CLOCK_TAI, at.0);
    }
}

/// One absolute sleep, which a signal may cut short.
fn sleep_once(clock: ClockId, at_ns: i64) {
    // The result is of no use: after EINTR the callers look at the clock again.
    _ = clock_nanosleep(clock, ClockNanosleepFlags::TIMER_ABSTIME, &TimeSpec::nanoseconds(at_ns.max(0)));
}

/// What ended a sleep before an instant, and the reading of the clock after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// A timer, set to the margin before the instant: how late it was is worth learning from.
    ByTimer(Tai),
    /// What tells of the instant itself, or the end of the patience with it.
    ByEvent(Tai),
}

/// A clock that a cyclic thread reads and waits by.
pub trait Clock {
    /// The present instant; never goes back but for a step that [`Self::check_step`] has reported.
    fn now(&self) -> Tai;

    /// Sleeps until `at`, never shorter, as a rule a little longer; returns the reading of the clock that ended it.
    /// Returns at once when `at` is past.
    fn sleep_until(&self, at: Tai) -> Tai;

    /// Sleeps until `margin` before `at`, from where on the caller is awake; or, where something else than a timer tells
    /// of `at` itself, until that does. Returns at once when the margin has begun.
    #[inline]
    fn sleep_before(&self, at: Tai, margin: Nanos) -> Woken {
        Woken::ByTimer(self.sleep_until(at - margin))
    }

    /// Reads the clock until it shows `at` or later; returns that first reading.
    #[inline]
    fn spin_until(&self, at: Tai) -> Tai {
        loop {
            let now = self.now();
            if now >= at {
                return now;
            }
            std::hint::spin_loop();
        }
    }

    /// Whether TAI was stepped since the last call, and by how much: positive when it jumped ahead. From then on the
    /// clock shows the new time; until then it went on with the old, so that a step never happens within a cycle.
    /// To be called once a cycle.
    fn check_step(&mut self) -> Option<Nanos>;
}

/// `CLOCK_MONOTONIC`, shown as TAI.
///
/// Both clocks run at the same, disciplined rate; only their distance changes, and only by steps (and by a suspend to
/// memory, which stops the monotonic one). [`Clock::now`] costs one read of the clock, without a system call where the
/// clocksource is one of the vDSO's; [`Clock::check_step`] three. Sleeps are on the monotonic clock: a step makes none
/// of them longer.
///
/// ```
/// use downbeat_rt::clock::{Clock, SystemClock};
/// use units::Nanos;
/// let mut clock = SystemClock::new();
/// let due = clock.now() + Nanos::from_millis(1);
/// assert!(clock.sleep_until(due) >= due);
/// if let Some(step) = clock.check_step() {
///     println!("somebody has set the time by {step}");
/// }
/// ```
#[derive(Debug, Clone)]
pub struct SystemClock {
    offset: Offset,
}

impl SystemClock {
    /// A clock that agrees with `CLOCK_TAI` as it is now, to a few ten nanoseconds.
    pub fn new() -> Self {
        Self { offset: Offset::measure(Bracket::take) }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[inline]
    fn now(&self) -> Tai {
        Tai(monotonic().0 + self.offset.value)
    }

    fn sleep_until(&self, at: Tai) -> Tai {
        loop {
            let now = self.now();
            if now >= at {
                return now;
            }
            sleep_once(ClockId::CLOCK_MONOTONIC, at.0 - self.offset.value);
        }
    }

    fn check_step(&mut self) -> Option<Nanos> {
        self.offset.check(Bracket::take)
    }
}

/// One look at both clocks: what TAI − monotonic was at some instant lies between the two, however long the thread was
/// kept from running in between.
#[derive(Debug, Clone, Copy)]
struct Bracket {
    low: i64,
    high: i64,
}

impl Bracket {
    #[inline]
    fn take() -> Self {
        let before = read(ClockId::CLOCK_MONOTONIC);
        let tai = read(CLOCK_TAI);
        let after = read(ClockId::CLOCK_MONOTONIC);
        Self { low: tai - after, high: tai - before }
    }
}

/// What is known of TAI − monotonic, in nanoseconds.
#[derive(Debug, Clone)]
struct Offset {
    value: i64,
    /// How far the truth may be from `value`.
    error: i64,
}

impl Offset {
    /// Looks this often for a good value …
    const LOOKS: u32 = 64;
    /// … and starts over this often when the looks contradict each other because a step fell between them.
    const STARTS: u32 = 8;
    /// Each reading is cut to whole nanoseconds.
    const ROUNDING: i64 = 2;

    /// The offset is the same in all brackets, so it lies where they meet.
    fn measure(mut take: impl FnMut() -> Bracket) -> Self {
        let mut met = take();
        for _ in 0..Self::STARTS {
            for _ in 0..Self::LOOKS {
                let next = take();
                met = Bracket { low: met.low.max(next.low), high: met.high.min(next.high) };
            }
            if met.high >= met.low - Self::ROUNDING {
                break;
            }
            met = take();
        }
        Self { value: i64::midpoint(met.low, met.high), error: ((met.high - met.low) / 2).abs() + Self::ROUNDING }
    }

    #[inline]
    fn check(&mut self, mut take: impl FnMut() -> Bracket) -> Option<Nanos> {
        let seen = take();
        if (seen.low - self.error..=seen.high + self.error).contains(&self.value) {
            return None;
        }
        let old = self.value;
        *self = Self::measure(take);
        (self.value != old).then(|| Nanos(self.value - old))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeping_never_ends_early() {
        let clock = SystemClock::new();
        for micros in [-5, 0, 1, 10, 100, 500, 2_000] {
            let at = now() + Nanos::from_micros(micros);
            sleep_through(at);
            assert!(now() >= at);
            let at = clock.now() + Nanos::from_micros(micros);
            assert!(clock.sleep_until(at) >= at && clock.now() >= at);
            let at = clock.now() + Nanos::from_micros(micros);
            assert!(clock.spin_until(at) >= at);
        }
        assert!(clock.sleep_until(Tai(-1)) > Tai(0), "the past needs no sleep");
    }

    #[test]
    fn the_offset_is_the_difference_of_the_clocks() {
        let offset = tai_minus_utc();
        assert_eq!(offset.0 % SECOND, 0);
        let utc = read(ClockId::CLOCK_REALTIME);
        let difference = now().0 - utc - offset.0;
        assert!((0..SECOND / 2).contains(&difference), "{difference} ns");
    }

    #[test]
    fn the_system_clock_shows_tai_and_reports_no_step_that_was_none() {
        let mut clock = SystemClock::new();
        let (before, shown, after) = (now(), clock.now(), now());
        let error = Nanos(clock.offset.error);
        assert!(before - error <= shown && shown <= after + error, "{before:?} {shown:?} {after:?} ± {error}");
        // Threads that take the processor away between the reads.
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            let steps = (0..300_000).filter_map(|_| clock.check_step()).count();
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            assert_eq!(steps, 0);
        });
    }

    /// Brackets around a true offset: some narrow, some torn apart by a preemption.
    fn brackets(offset: impl Fn(u32) -> i64) -> impl FnMut() -> Bracket {
        let mut count = 0_u32;
        move || {
            count += 1;
            let (before, after) = match count % 7 {
                0 => (30_000_000, 12),
                3 => (9, 4_000_000),
                _ => (i64::from(count % 5) * 7, 31 - i64::from(count % 5) * 7),
            };
            Bracket { low: offset(count) - after, high: offset(count) + before }
        }
    }

    #[test]
    fn a_step_is_found_whatever_its_sign_and_only_once() {
        for step in [37 * SECOND, -SECOND, 1_000, -1_000] {
            let mut offset = Offset::measure(brackets(|_| 5_000));
            assert!((offset.value - 5_000).abs() <= offset.error && offset.error < 20, "{offset:?}");
            let mut quiet = brackets(|_| 5_000);
            assert!((0..1_000).all(|_| offset.check(&mut quiet).is_none()));
            let mut stepped = brackets(|_| 5_000 + step);
            let found = (0..3).find_map(|_| offset.check(&mut stepped)).expect("found at the latest by a narrow look");
            assert!((found.0 - step).abs() < 40, "{found} for {step}");
            assert!((0..1_000).all(|_| offset.check(&mut stepped).is_none()), "adopted");
        }
    }

    #[test]
    fn a_step_amid_the_measurement_does_not_spoil_it() {
        let offset = Offset::measure(brackets(|count| if count < 30 { 0 } else { SECOND }));
        assert!((offset.value - SECOND).abs() <= offset.error && offset.error < 20, "{offset:?}");
    }

    /// cargo test -p downbeat-rt --release cost_of_reading -- --ignored --nocapture
    #[test]
    #[ignore = "prints what reading costs on this machine, decides nothing"]
    fn cost_of_reading() {
        const READS: u32 = 2_000_000;
        let mut clock = SystemClock::new();
        let cost = |name: &str, read: &mut dyn FnMut() -> i64| {
            let best = (0..5).map(|_| {
                let began = monotonic();
                (0..READS).for_each(|_| _ = std::hint::black_box(read()));
                (monotonic() - began).0 as f64 / f64::from(READS)
            });
            println!("{name}: {:.1} ns, best of 5 × {READS}", best.fold(f64::INFINITY, f64::min));
        };
        cost("clock_gettime(CLOCK_TAI)", &mut || now().0);
        cost("clock_gettime(CLOCK_MONOTONIC)", &mut || monotonic().0);
        let reading = clock.clone();
        cost("SystemClock::now", &mut || reading.now().0);
        cost("SystemClock::check_step", &mut || clock.check_step().map_or(0, |step| step.0));
    }
}
