//! Gates by timers: `advance_sched` and what a dequeue asks.

use units::{Nanos, Picos};

use super::list::{CLASSES, GateList};

/// The running entry.
#[derive(Debug)]
struct Running {
    index: usize,
    /// When its gates close; `None` when never.
    close: [Option<i64>; CLASSES],
    /// Bytes that may still leave; `i32::MAX` is any number. One account for all: what leaves counts in each.
    budget: [i32; CLASSES],
}

/// Where the list stands.
#[derive(Debug)]
pub(super) struct Timers {
    start: i64,
    /// How late a timer is.
    late: Picos,
    /// None until the first cycle begins.
    running: Option<Running>,
    /// When the next entry begins, timers being exact.
    until: i64,
}

impl Timers {
    pub(super) fn new(start: Nanos, late: Picos) -> Self {
        Self { start: start.0, late, running: None, until: start.0 }
    }

    pub(super) fn has_started(&self) -> bool {
        self.running.is_some()
    }

    pub(super) fn start(&self) -> i64 {
        self.start
    }

    /// When the timer fires next.
    pub(super) fn next(&self) -> Picos {
        self.timer() + self.late
    }

    /// The instant to which it is set.
    pub(super) fn timer(&self) -> Picos {
        Nanos(self.until).to_picos()
    }

    /// What timers have done up to `now`.
    pub(super) fn advance(&mut self, list: &GateList, now: Picos) {
        self.fire(list, now - self.late);
    }

    /// An interrupt at `now`, in which all timers that are due fire.
    pub(super) fn fire(&mut self, list: &GateList, now: Picos) {
        while Nanos(self.until).to_picos() <= now {
            // Nothing is left of an entry when the next has begun, so whole cycles may be passed over.
            let cycles = ((now - Nanos(self.until).to_picos()).0 / (list.cycle() * 1000) - 1).max(0);
            self.until += cycles * list.cycle();
            let index = self.running.as_ref().map_or(0, |running| (running.index + 1) % list.entries().len());
            let entry = &list.entries()[index];
            let begin = self.until;
            let never = |class: usize| entry.open[class] == list.cycle();
            self.running = Some(Running {
                index,
                close: std::array::from_fn(|class| (!never(class)).then_some(begin + entry.open[class])),
                budget: std::array::from_fn(
                    |class| {
                        if never(class) { i32::MAX } else { list.budget(entry.open[class]) }
                    },
                ),
            });
            self.until = begin + entry.interval;
        }
    }

    /// Whether the gate of a class is open: all are before the start.
    pub(super) fn is_open(&self, list: &GateList, class: usize) -> bool {
        self.running.as_ref().is_none_or(|running| list.entries()[running.index].gates >> class & 1 == 1)
    }

    /// Whether a frame may leave; its bytes are counted when the gate stays open for it, even if too many have left.
    pub(super) fn allows(&mut self, list: &GateList, clock: Nanos, class: usize, bytes: u32) -> bool {
        let Some(running) = &mut self.running else { return true };
        if running.close[class].is_some_and(|close| clock.0 + list.duration(bytes) >= close) {
            return false;
        }
        for budget in running.budget.iter_mut().filter(|budget| **budget != i32::MAX) {
            *budget = budget.wrapping_sub(bytes as i32);
        }
        running.budget[class] >= 0
    }
}
