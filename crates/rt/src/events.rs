//! A clock whose sleeps are ended by events of a device: by the periodic one of a network interface's own clock.
//!
//! Events come at the instants of a [`Grid`]. A sleep until such an instant is ended by its event; any other by the clock
//! below, [`SystemClock`](crate::clock::SystemClock) outside tests, which is also what is read. So a thread may have one
//! event a cycle and reach its other phases by the usual waits.
//!
//! **Which event it is** is told by its stamp, not by when it was read: what was not waited for, came late, twice, or
//! belongs to nothing is taken out of the queue, counted ([`Counts`]) and passed over.
//!
//! **When one does not come.** The sleep ends an eighth of the period after its instant, by the clock below, and the event
//! is counted as lost (or late, when it comes after all). After three in a row the thread goes by the clock below alone,
//! punctually, and once a second tries one event again.
//!
//! **When the clocks disagree.** An event that comes before its instant by the clock below is waited out, by no more than
//! [`Grid::limit`]; by more than that it is counted as early. When somebody sets the time, the device's clock is
//! compared with it: as long as they are further apart than the limit, events end nothing; once a second they are compared again.
//!
//! Nothing here allocates, locks or formats after [`EventClock::new`].

use std::cell::RefCell;
use std::io;

use units::{Nanos, Tai};

use crate::clock::{Clock, Woken};
use crate::ptp::{Ahead, Tick};

mod counts;

pub use counts::Counts;
use counts::GivenUp;

/// Where events come from: a device, or a script.
pub trait Events {
    /// Waits for the next event, for no longer than `patience`; zero looks whether one is there.
    ///
    /// # Errors
    /// The device has gone, or gave something that is no event. To be told without allocating.
    fn next(&mut self, patience: Nanos) -> io::Result<Option<Tick>>;

    /// How far the clock that stamps them is ahead of this machine's TAI.
    ///
    /// # Errors
    /// It cannot be read.
    fn ahead(&mut self) -> io::Result<Ahead>;
}

/// When events come: at `first` and every `period` before and after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    /// The instant of one of them.
    pub first: Tai,
    /// From one to the next, above zero.
    pub period: Nanos,
}

impl Grid {
    /// How far the device's clock and TAI may be apart for its events to end sleeps: 10 µs, and no more than a
    /// twentieth of the period.
    pub fn limit(period: Nanos) -> Nanos {
        Nanos::from_micros(10).min(period / 20)
    }

    /// How long after its instant an event is waited for.
    fn patience(&self) -> Nanos {
        self.period / 8
    }

    /// The number of the event at exactly this instant, if there is one.
    #[inline]
    fn number(&self, at: Tai) -> Option<i64> {
        let since = (at - self.first).0;
        (since % self.period.0 == 0).then(|| since / self.period.0)
    }

    /// The number of the event next to a stamp; none when the stamp is too far off to be that of one.
    #[inline]
    fn near(&self, stamp: Tai) -> Option<i64> {
        // A device may say anything.
        let since = stamp.0.checked_sub(self.first.0)?;
        let number = since.checked_add(self.period.0 / 2)?.div_euclid(self.period.0);
        let off = Nanos(since.checked_sub(self.period.0.checked_mul(number)?)?);
        (off.abs() <= Self::limit(self.period)).then_some(number)
    }
}

/// A clock whose sleeps end by events.
#[derive(Debug)]
pub struct EventClock<C, E> {
    clock: C,
    grid: Grid,
    channel: u32,
    state: RefCell<State<E>>,
}

#[derive(Debug)]
struct State<E> {
    events: E,
    mode: Mode,
    /// Number of the newest event that was seen.
    newest: i64,
    /// How many that were waited for did not come, since one did.
    missed: u32,
    given_up: GivenUp,
    counts: Counts,
}

/// Whether events are waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Listening,
    /// They do not come; from this instant of the clock below one is tried again.
    Stopped(Tai),
    /// The clocks are too far apart; they are compared again then.
    Apart(Tai),
}

/// What an event means for a thread that waits for a certain one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    /// It is that one.
    Awaited,
    /// That one will not come any more: this is a later one.
    Later,
    /// None.
    Nothing,
}

/// So many in a row that do not come are enough.
const ENOUGH: u32 = 3;
/// How long until another try.
const PAUSE: Nanos = Nanos::from_millis(1_000);
/// Most events that one wait looks at: the kernel queues 128 of them.
const MOST: u32 = 256;

impl<C: Clock, E: Events> EventClock<C, E> {
    /// A clock that shows what `clock` does, with the events that come on a channel at the instants of `grid`.
    ///
    /// # Panics
    /// If the period of the grid is not above zero.
    pub fn new(clock: C, events: E, channel: u32, grid: Grid) -> Self {
        assert!(grid.period > Nanos::ZERO, "events every {}", grid.period);
        let state = State {
            events,
            mode: Mode::Listening,
            newest: i64::MIN,
            missed: 0,
            given_up: GivenUp::default(),
            counts: Counts::default(),
        };
        Self { clock, grid, channel, state: RefCell::new(state) }
    }

    /// What became of the events so far.
    pub fn counts(&self) -> Counts {
        self.state.borrow().counts
    }

    /// The event that a sleep until `at` shall be ended by; none when `at` is no instant of one, or the clock below ends
    /// it, which is counted.
    fn awaited(&self, state: &mut State<E>, at: Tai) -> Option<i64> {
        let number = self.grid.number(at)?;
        if !self.listens(state) {
            state.counts.fallbacks += 1;
            return None;
        }
        // One that took the place of a lost one can be here before it is waited for.
        (number > state.newest).then_some(number)
    }

    /// Whether events are waited for at present.
    fn listens(&self, state: &mut State<E>) -> bool {
        match state.mode {
            Mode::Listening => true,
            Mode::Stopped(again) | Mode::Apart(again) if self.clock.now() < again => false,
            // One on probation.
            Mode::Stopped(_) => {
                (state.mode, state.missed) = (Mode::Listening, ENOUGH - 1);
                true
            }
            Mode::Apart(_) => {
                state.missed = ENOUGH - 1;
                self.compare(state);
                state.mode == Mode::Listening
            }
        }
    }

    /// Looks how far the clocks are apart.
    fn compare(&self, state: &mut State<E>) {
        let again = self.clock.now() + PAUSE;
        state.mode = match state.events.ahead() {
            Ok(ahead) if ahead.by.abs() <= Grid::limit(self.grid.period) => Mode::Listening,
            Ok(ahead) => {
                state.counts.apart = Some(ahead.by);
                Mode::Apart(again)
            }
            Err(error) => {
                state.counts.failed(&error);
                Mode::Apart(again)
            }
        };
    }

    /// Sleeps until the event with this number, which is due `at`; no longer than patience allows.
    fn sleep_to_event(&self, state: &mut State<E>, number: i64, at: Tai) -> Tai {
        if at - self.clock.now() > self.grid.period {
            // The events before it are no reason to wake up.
            self.clock.sleep_until(at - self.grid.period / 2);
        }
        let end = at + self.grid.patience();
        for _ in 0..MOST {
            // Once more without waiting when time is up: whoever was kept from running finds it in the queue.
            let left = (end - self.clock.now()).max(Nanos::ZERO);
            match state.events.next(left) {
                Ok(Some(tick)) => match self.meaning(state, tick, number) {
                    Meaning::Awaited => return self.woken(state, at),
                    Meaning::Later => break,
                    Meaning::Nothing => {}
                },
                Ok(None) => break,
                Err(error) => {
                    state.counts.failed(&error);
                    state.missed = ENOUGH;
                    return self.fall_back(state, at);
                }
            }
        }
        state.counts.lost += 1;
        state.given_up.add(number);
        self.fall_back(state, at)
    }

    /// The event has come.
    fn woken(&self, state: &mut State<E>, at: Tai) -> Tai {
        state.missed = 0;
        let now = self.clock.now();
        let missing = at - now;
        if missing <= Nanos::ZERO {
            return now;
        }
        if missing <= Grid::limit(self.grid.period) {
            return self.clock.spin_until(at);
        }
        state.counts.early += 1;
        self.clock.sleep_until(at)
    }

    /// It has not.
    fn fall_back(&self, state: &mut State<E>, at: Tai) -> Tai {
        state.counts.fallbacks += 1;
        state.missed += 1;
        if state.missed >= ENOUGH {
            state.counts.stops += 1;
            state.mode = Mode::Stopped(self.clock.now() + PAUSE);
        }
        self.clock.sleep_until(at)
    }

    /// What an event is to one that waits for `awaited`; counts it.
    fn meaning(&self, state: &mut State<E>, tick: Tick, awaited: i64) -> Meaning {
        let counts = &mut state.counts;
        if tick.index != self.channel {
            counts.foreign += 1;
            return Meaning::Nothing;
        }
        let after = Nanos(self.clock.now().0.saturating_sub(tick.at.0));
        let number = match self.grid.near(tick.at) {
            Some(number) if number == state.newest => {
                counts.doubled += 1;
                return Meaning::Nothing;
            }
            // From the future, or from before one that has been: its clock was set.
            Some(number) if number > state.newest && after.0 > -(self.grid.period.0 / 2) => number,
            _ => {
                counts.astray += 1;
                return Meaning::Nothing;
            }
        };
        state.newest = number;
        if number >= awaited {
            return if number == awaited {
                counts.woken(after);
                Meaning::Awaited
            } else {
                Meaning::Later
            };
        }
        if state.given_up.take(number) {
            counts.lost -= 1;
            counts.late += 1;
        } else {
            counts.passed_over += 1;
        }
        Meaning::Nothing
    }
}

impl<C: Clock, E: Events> Clock for EventClock<C, E> {
    #[inline]
    fn now(&self) -> Tai {
        self.clock.now()
    }

    fn sleep_until(&self, at: Tai) -> Tai {
        let (Woken::ByTimer(woke) | Woken::ByEvent(woke)) = self.sleep_before(at, Nanos::ZERO);
        woke
    }

    fn sleep_before(&self, at: Tai, margin: Nanos) -> Woken {
        let now = self.clock.now();
        if now >= at - margin {
            return Woken::ByTimer(now);
        }
        let mut state = self.state.borrow_mut();
        match self.awaited(&mut state, at) {
            Some(number) => Woken::ByEvent(self.sleep_to_event(&mut state, number, at)),
            None => Woken::ByTimer(self.clock.sleep_until(at - margin)),
        }
    }

    #[inline]
    fn spin_until(&self, at: Tai) -> Tai {
        self.clock.spin_until(at)
    }

    fn check_step(&mut self) -> Option<Nanos> {
        let step = self.clock.check_step()?;
        let mut state = self.state.borrow_mut();
        // Whoever waits moves its instants with the time: numbers begin anew.
        (state.newest, state.given_up) = (i64::MIN, GivenUp::default());
        self.compare(&mut state);
        Some(step)
    }
}

#[cfg(test)]
mod tests;
