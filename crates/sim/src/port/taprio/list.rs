//! The gate control list as `taprio_change` prepares it.

use scenario::GateSchedule;
use units::{Nanos, Rate};

/// Bytes on the line that `skb->len` does not count.
pub(in crate::port) const OVERHEAD_BYTES: u32 = 24;
const OVERHEAD: i64 = OVERHEAD_BYTES as i64;
/// Bytes of an Ethernet header, `hard_header_len`.
const HEADER: i64 = 14;
/// `max_mtu` of a veth. Above it a frame of any length is taken.
const LARGEST_MTU: i64 = 65_535;
/// Traffic classes there are at most.
pub(super) const CLASSES: usize = 8;

/// One entry.
#[derive(Debug)]
pub(super) struct Entry {
    /// Bit c: the gate of class c is open.
    pub(super) gates: u8,
    pub(super) interval: i64,
    /// How long each gate stays open from the start of the entry on.
    pub(super) open: [i64; CLASSES],
}

/// A list, in nanoseconds.
#[derive(Debug)]
pub(super) struct GateList {
    entries: Vec<Entry>,
    cycle: i64,
    picos_per_byte: i64,
    /// The longest frame of each class in bytes of the line; `None` where any is taken.
    longest: [Option<i64>; CLASSES],
}

impl GateList {
    pub(super) fn new(schedule: &GateSchedule, rate: Rate) -> Self {
        // As Linux: whole megabits per second, whole picoseconds.
        let picos_per_byte = (8_000_000 / (rate.0 / 1_000_000).max(1) as i64).max(17);
        let count = schedule.entries.len();
        let mut entries: Vec<Entry> = schedule
            .entries
            .iter()
            .map(|entry| Entry { gates: entry.gates, interval: entry.interval.0, open: [0; CLASSES] })
            .collect();
        for from in 0..count {
            for class in 0..CLASSES {
                let on = (0..count).map(|n| &entries[(from + n) % count]);
                let open = on.take_while(|entry| entry.gates >> class & 1 == 1).map(|entry| entry.interval).sum();
                entries[from].open[class] = open;
            }
        }
        let cycle = schedule.cycle.0.max(1);
        let longest = std::array::from_fn(|class| {
            let open = entries.iter().map(|entry| entry.open[class]).max().unwrap_or(0);
            if open == cycle {
                return None;
            }
            let frame = (open * 1000 / picos_per_byte - OVERHEAD).max(HEADER + 1);
            (frame - HEADER <= LARGEST_MTU).then_some(frame + OVERHEAD)
        });
        Self { entries, cycle, picos_per_byte, longest }
    }

    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub(super) fn cycle(&self) -> i64 {
        self.cycle
    }

    /// Whether a frame of this length is queued at all.
    pub(super) fn takes(&self, class: usize, bytes: u32) -> bool {
        self.longest[class].is_none_or(|longest| i64::from(bytes) <= longest)
    }

    /// `length_to_duration`.
    pub(super) fn duration(&self, bytes: u32) -> i64 {
        i64::from(bytes) * self.picos_per_byte / 1000
    }

    /// `duration_to_length`, as far as it fits.
    pub(super) fn budget(&self, duration: i64) -> i32 {
        i32::try_from(duration * 1000 / self.picos_per_byte).unwrap_or(i32::MAX)
    }

    /// Whether a frame with this launch time begins and ends within one entry that is open for its class
    /// (`is_valid_interval`): its edges do not count.
    pub(super) fn is_within(&self, start: i64, launch: Nanos, class: usize, bytes: u32) -> bool {
        let span = self.duration(bytes);
        let mut from = launch.0 - (launch.0 - start) % self.cycle;
        for entry in &self.entries {
            let to = from + entry.interval;
            if entry.gates >> class & 1 == 1 && span <= entry.interval && from < launch.0 && launch.0 + span < to {
                return true;
            }
            from = to;
        }
        false
    }
}
