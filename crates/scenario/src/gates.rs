//! When gates are open, and who keeps them.

use units::{Nanos, Rate};

use crate::model::{PortId, Scenario};
use crate::queue::{GateEntry, GateSchedule, Queue, TaprioMode};

/// Frames of one queue that Linux hands to the driver at once from a root that has all queues of a device: one, and up to
/// 8 more (`try_bulk_dequeue_skb_slow`). Each fits into its window for itself, all together need not.
pub const BULK_FRAMES: u32 = 9;

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

impl GateSchedule {
    /// At which slope the credit of a class rises while its gate is open, so that it is `idle` in the mean of the cycle
    /// (operIdleSlope, 802.1Q §8.6.8.2); at most `line`.
    pub fn slope_while_open(&self, class: u8, idle: Rate, line: Rate) -> Rate {
        let Open::In(windows) = self.open(class) else { return idle };
        let open: i64 = windows.iter().map(|window| window.length().0).sum();
        let slope = u128::from(idle.0) * self.cycle.0 as u128 / open.max(1) as u128;
        Rate(u64::try_from(slope).unwrap_or(u64::MAX).min(line.0))
    }
}

impl Scenario {
    /// From the start of a cycle of the scenario to the next start of the gates' cycle at a port; zero without gates.
    pub fn gate_phase(&self, port: PortId) -> Nanos {
        match &self.port(port).queue {
            Queue::Taprio { schedule, .. } => {
                let from_base = (schedule.base_time + self.port(port).shift) - self.base_time;
                Nanos(from_base.0.rem_euclid(schedule.cycle.0.max(1)))
            }
            _ => Nanos::ZERO,
        }
    }

    /// Whether the Linux kernel keeps the gates of a port, without hardware: it hands several frames to the driver at
    /// once, which are then on the line beyond their gates. Others start a frame only if it ends within its window.
    pub fn has_linux_gates(&self, port: PortId) -> bool {
        let hardware = self.host(self.port(port).host).kind.is_hardware();
        match &self.port(port).queue {
            Queue::Taprio { schedule, .. } => !hardware && schedule.mode != TaprioMode::FullOffload,
            _ => false,
        }
    }
}
