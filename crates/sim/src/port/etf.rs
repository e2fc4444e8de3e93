//! A class released by launch time, as `sch_etf` of Linux 6.12 does it.

use std::collections::VecDeque;

use units::Picos;

use super::{Cause, Packet};
use crate::frames::FrameId;

const NANOSECOND: Picos = Picos(1000);

/// Frames in the order of their launch times.
#[derive(Debug)]
pub(crate) struct Launches {
    delta: Picos,
    offload: bool,
    deadline_mode: bool,
    skip_sock_check: bool,
    /// Launch time of the last frame that left the queue.
    last: Option<Picos>,
    waiting: VecDeque<(Picos, Packet)>,
    /// The instant to which its timer is set, though it may be over.
    timer: Option<Picos>,
}

/// What a look at the queue gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// This frame may go.
    Ready(Packet),
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
            skip_sock_check: etf.skip_sock_check,
            last: None,
            waiting: VecDeque::new(),
            timer: None,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether a frame may come from a socket without SO_TXTIME, with a launch time that taprio gave it.
    pub(crate) fn takes_any_socket(&self) -> bool {
        self.skip_sock_check
    }

    /// The frame with the earliest launch time, and that.
    pub(crate) fn first(&self) -> Option<(Picos, Packet)> {
        self.waiting.front().copied()
    }

    /// Takes a frame in. A frame without launch time is lost even with `skip_sock_check`: Linux then compares a launch
    /// time of 0 with the clock.
    pub(crate) fn enqueue(&mut self, now: Picos, packet: Packet) -> Result<(), Cause> {
        let launch = packet.launch.ok_or(Cause::LaunchInvalid)?;
        // The clock of Linux counts nanoseconds.
        if launch.to_nanos_floor() < now.to_nanos_floor() || self.last.is_some_and(|last| launch < last) {
            return Err(Cause::LaunchInvalid);
        }
        let place = self.waiting.partition_point(|&(other, _)| other <= launch);
        self.waiting.insert(place, (launch, packet));
        self.set_timer();
        Ok(())
    }

    /// `reset_watchdog`, whenever a frame comes or is looked at.
    fn set_timer(&mut self) {
        self.timer = self.first().map(|(launch, _)| launch - self.delta);
    }

    /// The instant to which its timer is set.
    pub(crate) fn timer(&self) -> Option<Picos> {
        self.timer
    }

    /// An interrupt, in which its timer goes off if it is due; whether it is.
    pub(crate) fn interrupt(&mut self, now: Picos) -> bool {
        self.timer.take_if(|at| *at <= now).is_some()
    }

    /// When the frame in front may go, if it has to wait.
    pub(crate) fn wakes_at(&self, now: Picos) -> Option<Picos> {
        let (launch, _) = self.first()?;
        let at = self.release(now, launch);
        (at > now).then_some(at)
    }

    /// What can go now; frames whose launch time has passed are put into `lost`.
    pub(crate) fn look(&mut self, now: Picos, lost: &mut Vec<FrameId>) -> Look {
        let Some(&(launch, packet)) = self.waiting.front() else { return Look::Empty };
        let clock = now.to_nanos_floor();
        if !self.offload && launch.to_nanos_floor() < clock {
            // One look drops all that are not after the clock, and gives nothing; the timer then looks at the next.
            while let Some(&(launch, packet)) = self.waiting.front() {
                if launch.to_nanos_floor() > clock {
                    break;
                }
                lost.push(packet.frame);
                self.waiting.pop_front();
            }
            self.set_timer();
            return match self.is_empty() {
                true => Look::Empty,
                false => Look::At(self.wakes_at(now).unwrap_or(now + NANOSECOND)),
            };
        }
        self.set_timer();
        match self.wakes_at(now) {
            Some(at) => Look::At(at),
            None => Look::Ready(packet),
        }
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
        self.set_timer();
    }
}
