//! A class released by launch time, as `sch_etf` of Linux 6.12 does it.

use std::collections::VecDeque;

use units::Picos;

use super::Cause;
use crate::frames::FrameId;

const NANOSECOND: Picos = Picos(1000);

/// Frames in the order of their launch times.
#[derive(Debug)]
pub(crate) struct Launches {
    delta: Picos,
    offload: bool,
    deadline_mode: bool,
    /// Launch time of the last frame that left the queue.
    last: Option<Picos>,
    waiting: VecDeque<(Picos, FrameId)>,
}

/// What a look at the queue gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// This frame may go.
    Ready(FrameId),
    /// Nothing before this instant.
    At(Picos),
    /// Nothing waits.
    Empty,
}

impl Launches {
    pub(crate) fn new(etf: &scenario::Etf) -> Self {
        Self {
            delta: etf.delta.to_picos(),
            offload: etf.offload,
            deadline_mode: etf.deadline_mode,
            last: None,
            waiting: VecDeque::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes a frame in. A frame without launch time is lost even with `skip_sock_check`: Linux then compares a launch
    /// time of 0 with the clock.
    pub(crate) fn enqueue(&mut self, now: Picos, frame: FrameId, launch: Option<Picos>) -> Result<(), Cause> {
        let launch = launch.ok_or(Cause::LaunchInvalid)?;
        // The clock of Linux counts nanoseconds.
        if launch.to_nanos_floor() < now.to_nanos_floor() || self.last.is_some_and(|last| launch < last) {
            return Err(Cause::LaunchInvalid);
        }
        let place = self.waiting.partition_point(|&(other, _)| other <= launch);
        self.waiting.insert(place, (launch, frame));
        Ok(())
    }

    /// What can go now; frames whose launch time has passed are put into `lost`.
    pub(crate) fn look(&mut self, now: Picos, lost: &mut Vec<FrameId>) -> Look {
        let Some(&(launch, frame)) = self.waiting.front() else { return Look::Empty };
        let clock = now.to_nanos_floor();
        if !self.offload && launch.to_nanos_floor() < clock {
            // One look drops all that are not after the clock, and gives nothing; the timer then looks again.
            while let Some(&(launch, frame)) = self.waiting.front() {
                if launch.to_nanos_floor() > clock {
                    break;
                }
                lost.push(frame);
                self.waiting.pop_front();
            }
            return if self.waiting.is_empty() { Look::Empty } else { Look::At(now + NANOSECOND) };
        }
        let from = self.release(now, launch);
        if from > now { Look::At(from) } else { Look::Ready(frame) }
    }

    /// When a frame that is there at `now` may go.
    pub(crate) fn release(&self, now: Picos, launch: Picos) -> Picos {
        // `sch_etf` wants the clock after launch − delta, not at it; a NIC launches at the instant itself.
        let from = match (self.offload, self.deadline_mode) {
            // Linux then makes the launch time now, for a NIC too.
            (_, true) => now,
            (true, false) => launch,
            (false, false) => launch - self.delta + NANOSECOND,
        };
        from.max(now)
    }

    /// The frame that [`Self::look`] gave goes.
    pub(crate) fn take(&mut self) {
        if let Some((launch, _)) = self.waiting.pop_front() {
            self.last = Some(launch);
        }
    }
}
