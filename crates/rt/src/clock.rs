//! Reading and waiting on `CLOCK_TAI`, the clock of gate schedules and launch times.
//!
//! Where nobody has told the kernel the leap seconds, its TAI offset is 0 and `CLOCK_TAI` runs with UTC:
//! all stations of one host still agree, but a base time shared with other hosts is 37 s off.

use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::time::{TimeSpec, TimeValLike};
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};
use units::{Nanos, Tai};

const CLOCK_TAI: ClockId = ClockId::from_raw(libc::CLOCK_TAI);
const SECOND: i64 = 1_000_000_000;

/// Longest single sleep while a stop flag is watched: a flag raised by another thread or process
/// interrupts no sleep by itself.
const GLANCE: Nanos = Nanos::from_millis(50);

/// The present instant.
#[inline]
pub fn now() -> Tai {
    // Cannot fail: Linux has had CLOCK_TAI since 3.10, Rust needs 3.2 and the packet options used beside it 4.20.
    Tai(read(CLOCK_TAI))
}

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

/// Sleeps until `at` and returns true, or returns false once `stop` is set.
///
/// Never returns true early. A signal handler that sets `stop` ends the sleep at once, any other writer
/// of it within 50 ms.
pub fn sleep_until(at: Tai, stop: &AtomicBool) -> bool {
    loop {
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        let now = now();
        if now >= at {
            return true;
        }
        sleep_once(at.min(now + GLANCE));
    }
}

/// Sleeps until `at` whatever signals arrive; never returns early. Returns at once when `at` is past.
pub fn sleep_through(at: Tai) {
    while now() < at {
        sleep_once(at);
    }
}

/// One absolute sleep, which a signal may cut short.
fn sleep_once(at: Tai) {
    // The result is of no use: after EINTR the callers look at the clock again.
    _ = clock_nanosleep(CLOCK_TAI, ClockNanosleepFlags::TIMER_ABSTIME, &TimeSpec::nanoseconds(at.0.max(0)));
}

/// Reads the clock until it shows `at` or later; returns that first reading.
#[inline]
pub fn spin_until(at: Tai) -> Tai {
    loop {
        let now = now();
        if now >= at {
            return now;
        }
        std::hint::spin_loop();
    }
}

/// Waits for instants by sleeping to shortly before and spinning the rest.
#[derive(Debug, Clone)]
pub struct Pacer {
    /// How long before the instant the sleep ends: more than the host's usual wake-up latency.
    /// Zero only sleeps.
    pub margin: Nanos,
}

impl Pacer {
    /// A pacer that spins for the last `margin`.
    pub const fn new(margin: Nanos) -> Self {
        Self { margin }
    }

    /// Waits until `at`; returns the first reading of the clock at or after it.
    pub fn wait(&mut self, at: Tai) -> Tai {
        sleep_through(at - self.margin);
        spin_until(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    #[test]
    fn sleeping_never_ends_early() {
        let stop = AtomicBool::new(false);
        for micros in [0, 1, 10, 100, 500, 2_000] {
            let at = now() + Nanos::from_micros(micros);
            assert!(sleep_until(at, &stop));
            assert!(now() >= at);
            let at = now() + Nanos::from_micros(micros);
            sleep_through(at);
            assert!(now() >= at);
            let at = now() + Nanos::from_micros(micros);
            assert!(spin_until(at) >= at);
            let at = now() + Nanos::from_micros(micros);
            assert!(Pacer::new(Nanos::from_micros(80)).wait(at) >= at);
        }
        assert!(sleep_until(Tai(-1), &stop), "the past needs no sleep");
    }

    #[test]
    fn the_stop_flag_ends_a_long_sleep() {
        let stop = Arc::new(AtomicBool::new(false));
        let setter = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            setter.store(true, Ordering::Relaxed);
        });
        let began = Instant::now();
        assert!(!sleep_until(now() + Nanos(60 * SECOND), &stop));
        assert!(began.elapsed() < Duration::from_secs(10));
        thread.join().unwrap();
    }

    #[test]
    fn the_offset_is_the_difference_of_the_clocks() {
        let offset = tai_minus_utc();
        assert_eq!(offset.0 % SECOND, 0);
        let utc = read(ClockId::CLOCK_REALTIME);
        let difference = now().0 - utc - offset.0;
        assert!((0..SECOND / 2).contains(&difference), "{difference} ns");
    }
}
