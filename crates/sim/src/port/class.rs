//! One class of a port.

use std::collections::VecDeque;

use units::Picos;

use super::Packet;
use super::etf::{Launches, Look};
use crate::credit::{Credit, LinuxCredit};
use crate::frames::FrameId;

/// Frames of one class that wait, and what lets them go.
#[derive(Debug, Default)]
pub(super) struct Class {
    pub(super) waiting: VecDeque<Packet>,
    pub(super) credit: Option<Credit>,
    /// Instead of the standard's: that of Linux' software shaper.
    pub(super) linux: Option<LinuxCredit>,
    /// Linux looks at the class now.
    pub(super) looked: bool,
    /// Bytes that a root of Linux adds to those counted, by its size table.
    pub(super) overhead: u32,
    /// What a root of Linux has seen of a shaper, which has paid for it.
    pub(super) peeked: Option<Packet>,
    pub(super) launches: Option<Launches>,
}

impl Class {
    pub(super) fn is_empty(&self) -> bool {
        let waits = !self.waiting.is_empty() || self.peeked.is_some();
        !waits && self.launches.as_ref().is_none_or(Launches::is_empty)
    }

    /// The frame in front, whether it may go or not; that of a shaper of Linux only if its credit allows it.
    pub(super) fn peek(&mut self, now: Picos) -> Option<Packet> {
        if let Some(launches) = &self.launches {
            return launches.first().map(|(_, packet)| packet);
        }
        if self.linux.is_none() {
            return self.waiting.front().copied();
        }
        if self.peeked.is_none() {
            self.peeked = self.shaped(now);
        }
        self.peeked
    }

    /// The frame in front, if it may go now as far as the class is concerned; else when to look again.
    pub(super) fn take(&mut self, now: Picos, lost: &mut Vec<FrameId>, look: &mut Option<Picos>) -> Option<Packet> {
        let Some(launches) = &mut self.launches else {
            return match (self.peeked.take(), &self.linux) {
                (Some(packet), _) => Some(packet),
                (None, Some(_)) => self.shaped(now),
                (None, None) => self.waiting.pop_front(),
            };
        };
        match launches.look(now, lost) {
            Look::Empty => None,
            Look::At(at) => {
                *look = Some(look.map_or(at, |earlier| earlier.min(at)));
                None
            }
            Look::Ready(packet) => {
                launches.take();
                Some(packet)
            }
        }
    }

    /// Linux looks at its shaper, without frames, too: what has credit enough goes, and is charged.
    pub(super) fn shaped(&mut self, now: Picos) -> Option<Packet> {
        let linux = self.linux.as_mut()?;
        if !linux.look(clock(now)) {
            return None;
        }
        let packet = self.waiting.pop_front()?;
        linux.take(clock(now), packet.counted + self.overhead);
        Some(packet)
    }

    /// Whether the timer of Linux' shaper goes off.
    pub(super) fn woken(&mut self, now: Picos) -> bool {
        self.linux.as_mut().is_some_and(|linux| linux.woken(clock(now)))
    }

    /// When the launch time of the frame in front wakes the port.
    pub(super) fn wakes_at(&self, now: Picos) -> Option<Picos> {
        match (&self.launches, &self.linux) {
            (Some(launches), _) => launches.wakes_at(now),
            (None, Some(linux)) => linux.wakes().and_then(|at| at.checked_mul(1_000)).map(Picos),
            (None, None) => None,
        }
    }

    /// The instant to which its timer is set.
    pub(super) fn timer(&self) -> Option<Picos> {
        match (&self.launches, &self.linux) {
            (Some(launches), _) => launches.timer(),
            (None, Some(linux)) => linux.timer().and_then(|at| at.checked_mul(1_000)).map(Picos),
            (None, None) => None,
        }
    }

    /// An interrupt, in which its timer goes off if it is due; whether it is.
    pub(super) fn interrupt(&mut self, now: Picos) -> bool {
        let due = match &mut self.launches {
            Some(launches) => launches.interrupt(now),
            None => self.woken(now),
        };
        self.looked |= due;
        due
    }
}

/// The instant as Linux' clock has it.
pub(super) fn clock(now: Picos) -> i64 {
    now.to_nanos_floor().0
}
