//! Stand-ins for tests of what runs by a clock.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::iter::Peekable;
use std::rc::Rc;

use units::{Nanos, Tai};

use crate::clock::Clock;
use crate::events::Events;
use crate::ptp::{Ahead, Tick};

/// A clock that moves only when somebody reads it, sleeps or spins, with wake-up errors and steps from a script.
///
/// It behaves as [`SystemClock`](crate::clock::SystemClock): a step shows when [`Clock::check_step`] is called.
///
/// ```
/// use downbeat_rt::clock::Clock;
/// use downbeat_rt::testing::FakeClock;
/// use units::{Nanos, Tai};
///
/// let mut clock = FakeClock::new(Tai(0))
///     .with_wake_errors([Nanos(700), Nanos(900)])
///     .with_step(Nanos(50_000), Nanos(-1_000_000));
/// assert_eq!(clock.sleep_until(Tai(10_000)), Tai(10_700));
/// assert_eq!(clock.check_step(), None);
/// assert_eq!(clock.sleep_until(Tai(60_000)), Tai(60_900));
/// assert_eq!(clock.check_step(), Some(Nanos(-1_000_000)));
/// assert_eq!(clock.now(), Tai(-939_100));
/// ```
pub struct FakeClock {
    start: Tai,
    /// Since the start; no step changes it.
    elapsed: Cell<Nanos>,
    /// What the clock shows beyond `start + elapsed`.
    adopted: Nanos,
    read_cost: Nanos,
    /// When, since the start, and by how much; in the order of their instants.
    steps: VecDeque<(Nanos, Nanos)>,
    wake_errors: RefCell<Peekable<Box<dyn Iterator<Item = Nanos>>>>,
    slept: Cell<Nanos>,
    spun: Cell<Nanos>,
}

impl std::fmt::Debug for FakeClock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FakeClock").field("start", &self.start).field("elapsed", &self.elapsed).finish_non_exhaustive()
    }
}

impl FakeClock {
    /// A clock that shows `start`, is read at no cost, wakes exactly and is never stepped.
    pub fn new(start: Tai) -> Self {
        Self {
            start,
            elapsed: Cell::new(Nanos::ZERO),
            adopted: Nanos::ZERO,
            read_cost: Nanos::ZERO,
            steps: VecDeque::new(),
            wake_errors: script(std::iter::empty()),
            slept: Cell::new(Nanos::ZERO),
            spun: Cell::new(Nanos::ZERO),
        }
    }

    /// Every reading, those of a spin included, takes so long.
    #[must_use]
    pub fn with_read_cost(self, cost: Nanos) -> Self {
        Self { read_cost: cost, ..self }
    }

    /// How late each sleep ends, one after the other; afterwards sleeps end exactly.
    #[must_use]
    pub fn with_wake_errors(self, errors: impl IntoIterator<Item = Nanos, IntoIter: 'static>) -> Self {
        Self { wake_errors: script(errors.into_iter()), ..self }
    }

    /// TAI jumps `by` when so much has `elapsed` since the start, without regard to steps before.
    #[must_use]
    pub fn with_step(mut self, elapsed: Nanos, by: Nanos) -> Self {
        let at = self.steps.partition_point(|(before, _)| *before <= elapsed);
        self.steps.insert(at, (elapsed, by));
        self
    }

    /// Lets time pass: the work of whoever is tested.
    pub fn advance(&self, span: Nanos) {
        self.elapsed.set(self.elapsed.get() + span);
    }

    /// Time since the start, which no step changes.
    pub fn elapsed(&self) -> Nanos {
        self.elapsed.get()
    }

    /// Time spent asleep, wake-up errors included.
    pub fn slept(&self) -> Nanos {
        self.slept.get()
    }

    /// Time spent spinning.
    pub fn spun(&self) -> Nanos {
        self.spun.get()
    }

    /// Whether the script still has a wake-up error for the next sleep.
    pub fn has_wake_errors(&self) -> bool {
        self.wake_errors.borrow_mut().peek().is_some()
    }

    fn shown(&self) -> Tai {
        self.start + self.elapsed.get() + self.adopted
    }
}

fn script(errors: impl Iterator<Item = Nanos> + 'static) -> RefCell<Peekable<Box<dyn Iterator<Item = Nanos>>>> {
    let errors: Box<dyn Iterator<Item = Nanos>> = Box::new(errors);
    RefCell::new(errors.peekable())
}

impl Clock for FakeClock {
    fn now(&self) -> Tai {
        self.advance(self.read_cost);
        self.shown()
    }

    fn sleep_until(&self, at: Tai) -> Tai {
        let span = at - self.shown();
        if span > Nanos::ZERO {
            let error = self.wake_errors.borrow_mut().next();
            let span = span + error.unwrap_or(Nanos::ZERO);
            self.advance(span);
            self.slept.set(self.slept.get() + span);
        }
        self.now()
    }

    /// Goes to the first reading at or after `at` at once.
    fn spin_until(&self, at: Tai) -> Tai {
        let before = self.elapsed.get();
        let missing = (at - self.shown()).max(Nanos::ZERO);
        let readings = match self.read_cost.0 {
            0 => 0,
            cost => ((missing.0 + cost - 1) / cost).max(1),
        };
        self.advance(missing.max(self.read_cost * readings));
        self.spun.set(self.spun.get() + (self.elapsed.get() - before));
        self.shown()
    }

    fn check_step(&mut self) -> Option<Nanos> {
        let due = self.steps.iter().take_while(|(at, _)| *at <= self.elapsed.get()).count();
        let step: Nanos = self.steps.drain(..due).map(|(_, by)| by).sum();
        self.adopted += step;
        (step != Nanos::ZERO).then_some(step)
    }
}

/// A [`FakeClock`] that a thread and the device which wakes it have in common.
#[derive(Debug, Clone)]
pub struct SharedClock(Rc<RefCell<FakeClock>>);

impl SharedClock {
    /// Shares a clock.
    pub fn new(clock: FakeClock) -> Self {
        Self(Rc::new(RefCell::new(clock)))
    }

    /// Lets time pass: [`FakeClock::advance`].
    pub fn advance(&self, span: Nanos) {
        self.0.borrow().advance(span);
    }

    /// Time since the start, which no step changes.
    pub fn elapsed(&self) -> Nanos {
        self.0.borrow().elapsed()
    }

    /// Time spent spinning.
    pub fn spun(&self) -> Nanos {
        self.0.borrow().spun()
    }
}

impl Clock for SharedClock {
    fn now(&self) -> Tai {
        self.0.borrow().now()
    }

    fn sleep_until(&self, at: Tai) -> Tai {
        self.0.borrow().sleep_until(at)
    }

    fn spin_until(&self, at: Tai) -> Tai {
        self.0.borrow().spin_until(at)
    }

    fn check_step(&mut self) -> Option<Nanos> {
        self.0.borrow_mut().check_step()
    }
}

/// A device that gives events, or fails, at instants of a script: spans since the start of its clock. As the kernel does,
/// it keeps the newest 128 for whoever comes late.
#[derive(Debug)]
pub struct FakeEvents {
    clock: SharedClock,
    script: VecDeque<(Nanos, Result<Tick, i32>)>,
    /// From when on its clock is so far ahead of TAI.
    ahead: Vec<(Nanos, Nanos)>,
}

impl FakeEvents {
    /// A device without events, whose clock shows TAI.
    pub fn new(clock: SharedClock) -> Self {
        Self { clock, script: VecDeque::new(), ahead: Vec::new() }
    }

    /// Gives these events when so much time has passed, in the order of those spans; an error number fails instead.
    #[must_use]
    pub fn with_events(mut self, events: impl IntoIterator<Item = (Nanos, Result<Tick, i32>)>) -> Self {
        self.script.extend(events);
        self.script.make_contiguous().sort_by_key(|(at, _)| *at);
        self
    }

    /// Its clock is `by` ahead of TAI when so much time has passed.
    #[must_use]
    pub fn with_ahead(mut self, elapsed: Nanos, by: Nanos) -> Self {
        self.ahead.push((elapsed, by));
        self
    }
}

impl Events for FakeEvents {
    fn next(&mut self, patience: Nanos) -> io::Result<Option<Tick>> {
        const QUEUED: usize = 128;
        let elapsed = self.clock.elapsed();
        let waiting = self.script.partition_point(|(at, _)| *at <= elapsed);
        self.script.drain(..waiting.saturating_sub(QUEUED));
        let Some((at, event)) = self.script.front().copied().filter(|(at, _)| *at <= elapsed + patience) else {
            self.clock.advance(patience);
            return Ok(None);
        };
        self.script.pop_front();
        self.clock.advance((at - elapsed).max(Nanos::ZERO));
        event.map(Some).map_err(io::Error::from_raw_os_error)
    }

    fn ahead(&mut self) -> io::Result<Ahead> {
        let elapsed = self.clock.elapsed();
        let by = self.ahead.iter().rfind(|(from, _)| *from <= elapsed).map_or(Nanos::ZERO, |(_, by)| *by);
        Ok(Ahead { by, error: Nanos::ZERO })
    }
}
