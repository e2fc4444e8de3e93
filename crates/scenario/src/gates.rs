//! When gates are open.

use units::Nanos;

use crate::queue::{GateEntry, GateSchedule};

/// A time in the cycle during which a gate is open without a break. It may reach past the end of the cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// From here, counted from the start of the cycle of the schedule.
    pub start: Nanos,
    /// To here, above `start`; past the cycle where the window goes on into the next.
    pub end: Nanos,
}

impl Window {
    /// How long it is.
    pub fn length(self) -> Nanos {
        self.end - self.start
    }
}

/// When the gate of a class is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Open {
    /// Always.
    Always,
    /// In these windows, none when it never opens.
    In(Vec<Window>),
}

impl GateSchedule {
    /// When the gate of `class` is open.
    pub fn open(&self, class: u8) -> Open {
        let is_open = |entry: &GateEntry| entry.gates >> class & 1 == 1;
        // An entry of no length opens nothing.
        if self.entries.iter().all(|entry| is_open(entry) || entry.interval <= Nanos::ZERO) {
            return Open::Always;
        }
        let mut windows: Vec<Window> = Vec::new();
        let mut at = Nanos::ZERO;
        for entry in &self.entries {
            let end = at + entry.interval;
            if is_open(entry) && entry.interval > Nanos::ZERO {
                match windows.last_mut() {
                    Some(last) if last.end == at => last.end = end,
                    _ => windows.push(Window { start: at, end }),
                }
            }
            at = end;
        }
        // A window up to the end of the cycle and one from its start are one.
        if let [first, .., last] = windows.as_mut_slice()
            && first.start == Nanos::ZERO
            && last.end == at
        {
            last.end = at + first.end;
            windows.remove(0);
        }
        Open::In(windows)
    }
}
