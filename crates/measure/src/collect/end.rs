//! What one end of a stream reported.

use std::collections::BTreeMap;

use units::Nanos;

use super::NONE;
use crate::breaches::BreachLog;
use crate::drains::Drain;
use crate::gaps::Gaps;
use crate::index::Index;
use crate::outside::OutsideLog;
use crate::refusals::Refusals;
use crate::{Phase, Refused};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Send {
    pub(crate) handle: u32,
    pub(crate) message: u32,
    /// When it was handed over, and when it left.
    pub(crate) at: i64,
    pub(crate) left: i64,
    /// Error number, if it failed.
    pub(crate) failed: Option<i32>,
}

/// What one end reported.
#[derive(Debug, Default)]
pub(crate) struct EndLog {
    pub(crate) sends: Vec<Send>,
    pub(crate) send_index: Index,
    /// Whether anything came from this end.
    pub(crate) seen: bool,
    /// Nothing is to come from it: it runs on another machine.
    pub(crate) elsewhere: bool,
    /// Parts of what came from it are missing.
    pub(crate) incomplete: bool,
    /// Last cycle in which a phase ran.
    pub(crate) last_cycle: Option<i64>,
    /// Highest handle with a transmit timestamp.
    pub(crate) last_left: Option<u32>,
    /// Frames that were read and not taken.
    pub(crate) refusals: Refusals,
    pub(crate) wrong_tag: Option<First<Option<(u16, u8)>>>,
    pub(crate) inconsistent: Option<First<u64>>,
    /// Counters missed and phases repeated, once an application phase ran.
    pub(crate) application: Option<(u64, u64)>,
    /// Cycle of reading and elapsed cycles.
    pub(crate) round_trips: Vec<(i64, u64)>,
    /// Each phase as it ran, by [`Phase`]; in the order of time once both ends are joined.
    pub(crate) phases: [Vec<Ran>; 4],
    pub(crate) outliers: Vec<Outlier>,
    /// First cycle and number of cycles left out.
    pub(crate) skipped: Vec<(i64, u32)>,
    /// Cycles in which all that waited was read.
    pub(crate) drained: Vec<Drain>,
    /// When receiving first failed, by error number.
    pub(crate) receive_failed: BTreeMap<i32, i64>,
    /// When the time was set, and how far it went.
    pub(crate) steps: Vec<(i64, i64)>,
    pub(crate) breaches: BreachLog,
    /// What an application outside did.
    pub(crate) outside: OutsideLog,
    /// Cycles that are missing from the trace, once both ends are joined.
    pub(crate) gaps: Gaps,
    /// Start of cycle 0, as the phases imply it.
    pub(crate) origin: Option<i64>,
    pub(crate) outlier_after: i64,
    pub(crate) cycle: i64,
    /// Begin of each phase within the cycle; none for the launch.
    pub(crate) phase_offsets: [Option<i64>; 4],
}

/// The first of several alike, and how many there are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct First<T> {
    pub(crate) at: i64,
    pub(crate) what: T,
    pub(crate) count: u64,
}

/// A phase that ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ran {
    pub(crate) due: i64,
    pub(crate) late: i64,
    pub(crate) took: i64,
}

/// A phase that began late beyond the rule of [`outlier_after`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outlier {
    pub(crate) cycle: i64,
    pub(crate) phase: Phase,
    pub(crate) due: i64,
    pub(crate) late: i64,
    pub(crate) took: i64,
}

/// From where on a phase's lateness is an outlier of the host: max(a tenth of the cycle, 100 µs).
pub(crate) fn outlier_after(cycle: Nanos) -> i64 {
    (cycle.0 / 10).max(100_000)
}

impl<T> First<T> {
    pub(super) fn note(this: &mut Option<Self>, at: i64, what: T) {
        match this {
            Some(first) => {
                first.count += 1;
                if at < first.at {
                    (first.at, first.what) = (at, what);
                }
            }
            None => *this = Some(Self { at, what, count: 1 }),
        }
    }

    /// Adds what another part of the trace has.
    pub(crate) fn sum(this: &mut Option<Self>, other: Self) {
        match this {
            Some(first) => {
                first.count += other.count;
                if other.at < first.at {
                    (first.at, first.what) = (other.at, other.what);
                }
            }
            None => *this = Some(other),
        }
    }
}

impl EndLog {
    /// The same end with nothing logged; what it has reached stays known.
    pub(crate) fn without_log(&self) -> Self {
        Self {
            seen: self.seen,
            elsewhere: self.elsewhere,
            last_cycle: self.last_cycle,
            last_left: self.last_left,
            origin: self.origin,
            outlier_after: self.outlier_after,
            cycle: self.cycle,
            phase_offsets: self.phase_offsets,
            ..Self::default()
        }
    }

    /// The cycle at an instant, once a phase told when cycle 0 was.
    pub(crate) fn cycle_at(&self, at: i64) -> Option<i64> {
        self.origin.map(|origin| at.saturating_sub(origin).div_euclid(self.cycle.max(1)))
    }

    pub(super) fn send(&mut self, handle: u32) -> &mut Send {
        let position = self.send_index.get(u64::from(handle)).unwrap_or_else(|| {
            self.sends.push(Send { handle, message: u32::MAX, at: NONE, left: NONE, failed: None });
            self.send_index.insert(u64::from(handle), self.sends.len() - 1);
            self.sends.len() - 1
        });
        &mut self.sends[position]
    }

    /// Sends that failed: when they were handed over, if that is known, and the error number.
    pub(crate) fn failed_sends(&self) -> impl Iterator<Item = (Option<i64>, i32)> + '_ {
        self.sends.iter().filter_map(|send| Some(((send.at != NONE).then_some(send.at), send.failed?)))
    }

    pub(super) fn refused(&mut self, at: i64, frames: &Refused) {
        self.refusals.note(at, frames, Nanos(self.cycle));
        // The first ones had events of their own.
        if let Some(first) = &mut self.wrong_tag {
            first.count += u64::from(frames.wrong_tag);
        }
        if let Some(first) = &mut self.inconsistent {
            first.count += u64::from(frames.inconsistent);
        }
    }

    pub(super) fn ran(&mut self, cycle: i64) {
        self.last_cycle = self.last_cycle.max(Some(cycle));
    }

    pub(super) fn phase(&mut self, phase: Outlier) {
        self.ran(phase.cycle);
        let index = phase.phase as usize;
        self.phases[index].push(Ran { due: phase.due, late: phase.late, took: phase.took });
        if let Some(offset) = self.phase_offsets[index] {
            let start = phase.cycle.checked_mul(self.cycle).and_then(|span| span.checked_add(offset));
            self.origin = self.origin.or_else(|| phase.due.checked_sub(start?));
        }
        if phase.late > self.outlier_after {
            self.outliers.push(phase);
        }
    }
}
