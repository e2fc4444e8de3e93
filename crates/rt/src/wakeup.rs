//! How late a thread of this host wakes up: the loop of a latency test.
//!
//! A thread waits for instants of a fixed grid and hears at each how late it was. What it makes of that is the
//! caller's; the loop itself allocates, locks and formats nothing.
//!
//! ```
//! use std::sync::atomic::AtomicBool;
//! use downbeat_rt::wakeup::{Clock, Plan, Wait, watch};
//! use units::Nanos;
//!
//! let interval = Nanos::from_micros(200);
//! let start = Clock::Monotonic.now() + interval;
//! let plan = Plan { clock: Clock::Monotonic, wait: Wait::Sleep, start, interval, wakes: Some(5), until: None };
//! let mut latest = Nanos::ZERO;
//! let totals = watch(&plan, &AtomicBool::new(false), |wake| {
//!     latest = latest.max(wake.late);
//!     true
//! });
//! assert_eq!(totals.wakes, 5);
//! ```

use std::sync::atomic::{AtomicBool, Ordering};

use nix::errno::Errno;
use nix::sched::{CpuSet, sched_getaffinity};
use nix::sys::time::{TimeSpec, TimeValLike};
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};
use nix::unistd::Pid;
use units::Nanos;

use crate::thread::{Granted, Requested, prepare};

/// Longest single sleep, so that a stop flag is seen even between instants that are far apart.
const GLANCE: Nanos = Nanos::from_millis(100);

/// A longer gap between two readings of the clock is time that something else had the processor; reading takes some
/// tens of nanoseconds.
const STOLEN_ABOVE: Nanos = Nanos(1_000);

/// A clock to wait on. Its instants are spans since its zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Clock {
    /// `CLOCK_MONOTONIC`: never set, slewed with UTC.
    #[default]
    Monotonic,
    /// `CLOCK_TAI`: the clock of launch times and gates.
    Tai,
}

impl Clock {
    const fn id(self) -> ClockId {
        match self {
            Self::Monotonic => ClockId::CLOCK_MONOTONIC,
            Self::Tai => ClockId::from_raw(libc::CLOCK_TAI),
        }
    }

    /// The present instant on it.
    #[inline]
    pub fn now(self) -> Nanos {
        // Both clocks are there on every kernel that Rust runs on.
        let time = clock_gettime(self.id()).unwrap_or(TimeSpec::new(0, 0));
        Nanos(time.tv_sec() * 1_000_000_000 + time.tv_nsec())
    }
}

/// How to wait for an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Sleep until it.
    Sleep,
    /// Sleep until `margin` before it, then read the clock until it has come.
    Hybrid {
        /// More than the usual wake-up latency.
        margin: Nanos,
    },
    /// Read the clock all the time.
    Spin,
}

/// What instants to wait for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// On which clock.
    pub clock: Clock,
    /// How.
    pub wait: Wait,
    /// The first instant.
    pub start: Nanos,
    /// From one to the next; at least 1 ns.
    pub interval: Nanos,
    /// Ends after so many wake-ups.
    pub wakes: Option<u64>,
    /// Ends before the first instant at or after this one.
    pub until: Option<Nanos>,
}

/// A wake-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wake {
    /// The instant that was waited for.
    pub due: Nanos,
    /// From it to the first reading of the clock after it. With [`Wait::Spin`] the longest gap between two readings
    /// since the instant before: at worst a spinning thread is that late.
    pub late: Nanos,
}

/// What a watch amounts to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Wake-ups.
    pub wakes: u64,
    /// Instants of the plan that had passed before the thread was done with the one before; they are left out.
    pub missed: u64,
    /// Time in gaps of more than 1 µs between two readings; with [`Wait::Spin`] only.
    pub stolen: Nanos,
}

/// Waits for one instant after the other and gives each wake-up to `each`, until the plan is done, `stop` is set or
/// `each` returns false. `stop` is seen within 100 ms.
pub fn watch(plan: &Plan, stop: &AtomicBool, mut each: impl FnMut(Wake) -> bool) -> Totals {
    let interval = plan.interval.0.max(1);
    let mut totals = Totals::default();
    let mut due = plan.start;
    let mut last = match plan.wait {
        Wait::Spin => sleep_until(plan.clock, plan.start - plan.interval, stop),
        _ => Nanos::ZERO,
    };
    while plan.wakes.is_none_or(|wakes| totals.wakes < wakes) && plan.until.is_none_or(|until| due < until) {
        let (now, late) = match plan.wait {
            Wait::Sleep => late(sleep_until(plan.clock, due, stop), due),
            Wait::Hybrid { margin } => {
                sleep_until(plan.clock, due - margin, stop);
                late(spin_until(plan.clock, due, stop), due)
            }
            Wait::Spin => watch_gaps(plan.clock, &mut last, due, stop, &mut totals.stolen),
        };
        if now < due || stop.load(Ordering::Relaxed) {
            break;
        }
        totals.wakes += 1;
        if !each(Wake { due, late }) {
            break;
        }
        due += Nanos(interval);
        if plan.wakes == Some(totals.wakes) {
            break;
        }
        // Instants behind the end of the plan are nobody's to miss.
        let passed = instants(due, plan.until.map_or(now, |until| now.min(until)), interval);
        totals.missed += passed.unsigned_abs();
        due += Nanos(interval.saturating_mul(passed));
    }
    totals
}

/// How many instants of the grid there are from `due` on that lie before `end`.
#[inline]
fn instants(due: Nanos, end: Nanos, interval: i64) -> i64 {
    let span = (end - due).0.max(0);
    span / interval + i64::from(span % interval > 0)
}

fn late(now: Nanos, due: Nanos) -> (Nanos, Nanos) {
    (now, now - due)
}

/// Returns the first reading at or after `at`, or an earlier one when `stop` is set.
#[inline]
fn sleep_until(clock: Clock, at: Nanos, stop: &AtomicBool) -> Nanos {
    loop {
        let now = clock.now();
        if now >= at || stop.load(Ordering::Relaxed) {
            return now;
        }
        let to = at.min(now + GLANCE);
        // Cut short by a signal or not, the clock is looked at again.
        _ = clock_nanosleep(clock.id(), ClockNanosleepFlags::TIMER_ABSTIME, &TimeSpec::nanoseconds(to.0.max(0)));
    }
}

#[inline]
fn spin_until(clock: Clock, at: Nanos, stop: &AtomicBool) -> Nanos {
    loop {
        let now = clock.now();
        if now >= at || stop.load(Ordering::Relaxed) {
            return now;
        }
        std::hint::spin_loop();
    }
}

/// Reads the clock until `at`; gives the last reading and the longest gap between two.
#[inline]
fn watch_gaps(clock: Clock, last: &mut Nanos, at: Nanos, stop: &AtomicBool, stolen: &mut Nanos) -> (Nanos, Nanos) {
    let mut longest = Nanos::ZERO;
    while *last < at && !stop.load(Ordering::Relaxed) {
        let now = clock.now();
        let gap = now - *last;
        longest = longest.max(gap);
        if gap > STOLEN_ABOVE {
            *stolen += gap;
        }
        *last = now;
    }
    (*last, longest)
}

/// A scheduling policy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Policy {
    /// `SCHED_FIFO`.
    #[default]
    Fifo,
    /// `SCHED_RR`.
    RoundRobin,
    /// `SCHED_OTHER`: an ordinary thread.
    Other,
    /// `SCHED_BATCH`.
    Batch,
    /// `SCHED_IDLE`.
    Idle,
}

impl Policy {
    /// Whether it has a priority from 1 to 99.
    pub const fn has_priority(self) -> bool {
        matches!(self, Self::Fifo | Self::RoundRobin)
    }

    const fn number(self) -> (i32, &'static str) {
        match self {
            Self::Fifo => (libc::SCHED_FIFO, "SCHED_FIFO"),
            Self::RoundRobin => (libc::SCHED_RR, "SCHED_RR"),
            Self::Other => (libc::SCHED_OTHER, "SCHED_OTHER"),
            Self::Batch => (libc::SCHED_BATCH, "SCHED_BATCH"),
            Self::Idle => (libc::SCHED_IDLE, "SCHED_IDLE"),
        }
    }
}

/// What a watching thread got.
#[derive(Debug)]
pub struct Rights {
    /// One line for each wish.
    pub lines: Vec<String>,
    /// Whether all were granted.
    pub complete: bool,
    _held: Granted,
}

/// Prepares the calling thread as [`prepare`] does, but with any policy. `requested` names the priority, which only a
/// policy with one makes use of.
pub fn prepare_with(policy: Policy, requested: &Requested) -> Rights {
    let fifo = policy == Policy::Fifo;
    let wishes = Requested { fifo_priority: requested.fifo_priority.filter(|_| fifo), ..requested.clone() };
    let held = prepare(&wishes);
    let mut rights = Rights { lines: held.describe(), complete: held.is_complete(), _held: held };
    if !fifo {
        let priority = requested.fifo_priority.filter(|_| policy.has_priority()).unwrap_or(0);
        let name = match priority {
            0 => policy.number().1.to_owned(),
            _ => format!("{} {priority}", policy.number().1),
        };
        rights.lines.push(match set_policy(policy, priority) {
            Ok(()) => format!("{name}: granted"),
            Err(errno) => {
                rights.complete = false;
                format!("{name}: refused ({}); runs as an ordinary thread", errno.desc())
            }
        });
    }
    rights
}

fn set_policy(policy: Policy, priority: u8) -> Result<(), Errno> {
    let parameter = libc::sched_param { sched_priority: i32::from(priority) };
    // SAFETY: `parameter` is a valid structure the kernel only reads; 0 is the calling thread.
    let result = unsafe { libc::sched_setscheduler(0, policy.number().0, &raw const parameter) };
    Errno::result(result).map(drop)
}

/// The processors this thread may run on, ascending; processor 0 when the kernel does not say.
pub fn allowed_cpus() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(Pid::from_raw(0)) else { return vec![0] };
    (0..CpuSet::count()).filter(|cpu| set.is_set(*cpu) == Ok(true)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    const INTERVAL: Nanos = Nanos(500_000);

    fn plan(clock: Clock, wait: Wait) -> Plan {
        Plan { clock, wait, start: clock.now() + INTERVAL, interval: INTERVAL, wakes: Some(40), until: None }
    }

    #[test]
    fn wake_ups_keep_to_the_grid_and_are_never_early() {
        for clock in [Clock::Monotonic, Clock::Tai] {
            for wait in [Wait::Sleep, Wait::Hybrid { margin: Nanos(100_000) }, Wait::Spin] {
                let plan = plan(clock, wait);
                let mut wakes = Vec::new();
                let totals = watch(&plan, &AtomicBool::new(false), |wake| {
                    wakes.push(wake);
                    true
                });
                assert_eq!((totals.wakes, wakes.len()), (40, 40));
                assert!(wakes.iter().all(|wake| wake.late.0 >= 0 && (wake.due - plan.start).0 % INTERVAL.0 == 0));
                assert!(wakes.is_sorted_by_key(|wake| wake.due));
                let last = wakes.last().unwrap().due;
                assert_eq!((last - plan.start) / INTERVAL, 39 + totals.missed as i64, "{wait:?}");
                assert!(wait == Wait::Spin || totals.stolen == Nanos::ZERO);
            }
        }
    }

    #[test]
    fn instants_that_passed_are_counted_not_made_up_for() {
        let mut plan = plan(Clock::Monotonic, Wait::Sleep);
        plan.start -= INTERVAL * 10;
        let mut first = None;
        let totals = watch(&plan, &AtomicBool::new(false), |wake| {
            first.get_or_insert(wake.late);
            true
        });
        assert!(totals.missed >= 8 && first.unwrap() > INTERVAL * 8, "{totals:?}");
    }

    #[test]
    fn what_is_missed_ends_with_the_plan() {
        assert_eq!([-5, 0, 1, 10, 11].map(|end| instants(Nanos(0), Nanos(end), 10)), [0, 0, 1, 1, 2]);
        let late = |plan: &Plan| {
            // Each wake-up holds the thread for three intervals and more.
            watch(plan, &AtomicBool::new(false), |_| {
                std::thread::sleep(Duration::from_millis(2));
                true
            })
        };
        let mut plan = plan(Clock::Monotonic, Wait::Sleep);
        plan.until = Some(plan.start + INTERVAL * 20);
        let totals = late(&plan);
        assert!(totals.wakes + totals.missed == 20 && totals.missed > totals.wakes, "{totals:?}");
        // One wake-up, long past: what follows it was not asked for.
        plan = Plan { wakes: Some(1), until: None, start: plan.start - INTERVAL * 1_000, ..plan };
        assert_eq!(late(&plan), Totals { wakes: 1, ..Totals::default() });
    }

    #[test]
    fn it_ends_in_time_by_flag_and_by_word() {
        let mut plan = plan(Clock::Monotonic, Wait::Sleep);
        plan.wakes = None;
        plan.until = Some(plan.start + INTERVAL * 10);
        let totals = watch(&plan, &AtomicBool::new(false), |_| true);
        assert_eq!(totals.wakes + totals.missed, 10);
        plan.until = None;
        assert_eq!(watch(&plan, &AtomicBool::new(false), |_| false).wakes, 1);
        for wait in [Wait::Sleep, Wait::Hybrid { margin: Nanos(50_000_000_000) }, Wait::Spin] {
            // The next instant is a minute away.
            let plan =
                Plan { wait, interval: Nanos(60_000_000_000), start: plan.start + INTERVAL * 120_000, ..plan.clone() };
            let stop = Arc::new(AtomicBool::new(false));
            let setter = Arc::clone(&stop);
            let thread = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(20));
                setter.store(true, Ordering::Relaxed);
            });
            let began = Instant::now();
            assert_eq!(watch(&plan, &stop, |_| true).wakes, 0);
            assert!(began.elapsed() < Duration::from_secs(20));
            thread.join().unwrap();
        }
    }

    #[test]
    fn ordinary_policies_are_granted_to_everyone() {
        for policy in [Policy::Batch, Policy::Other, Policy::Idle] {
            let rights = std::thread::spawn(move || {
                let requested = Requested { fifo_priority: Some(80), timer_slack_1ns: true, ..Requested::default() };
                prepare_with(policy, &requested)
            });
            let rights = rights.join().unwrap();
            assert!(rights.complete, "{:?}", rights.lines);
            assert_eq!(rights.lines.last().unwrap(), &format!("{}: granted", policy.number().1));
        }
        assert!(!allowed_cpus().is_empty());
    }
}
