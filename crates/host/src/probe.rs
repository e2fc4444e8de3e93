//! Whether gates move, seen by what they do to frames.
//!
//! A schedule that Linux has stopped reads back as one that runs. So small frames are handed over while the gate of
//! their class is to be shut, and their transmit timestamps tell when they left: a schedule that runs keeps them until
//! the next window. Frames that leave before it, or none that leaves at all, are those of a schedule that stands still.
//!
//! Probed are schedules that the kernel keeps by a timer. Where a driver stamps no frames nothing can be said, and
//! neither of a class with launch times, which takes no frame without one.

mod gates;
mod round;

use std::fmt;
use std::io;

use link::interface;
use tsn::Plan;
use units::{Nanos, Tai};

use crate::apply::loses_its_timer;
use gates::{Gates, Span};
use round::{Sent, Underway};

/// Frames of a round in each class, one a cycle.
const FRAMES: usize = 8;
/// Fewer than this of a class say nothing.
const ENOUGH: usize = 4;
/// A round that would take longer is not begun: the plan is not watched meanwhile.
const LONGEST_ROUND: Nanos = Nanos(1_000_000_000);
/// After the last frame of a round, its stamps have this many cycles and this time to come.
const CYCLES_TO_LEAVE: i64 = 8;
const TIME_TO_LEAVE: Nanos = Nanos(50_000_000);

/// What a round has shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Frames left in their windows.
    Gated,
    /// They did not: the schedule stands still.
    Dead(Why),
    /// Too few frames could be handed over in time, or none at all: nothing is known.
    Untold,
}

/// By what a schedule is known to stand still.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// Frames of a class left while its gate is to be shut.
    Outside {
        /// The traffic class.
        tc: u8,
        /// How many of how many.
        frames: (usize, usize),
        /// The phase in the cycle at which the first of them left.
        phase: Nanos,
    },
    /// None left, of any class.
    Nothing {
        /// How many were handed over.
        frames: usize,
    },
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Outside { tc, frames: (outside, all), phase } => write!(
                f,
                "{outside} of {all} probes of tc {tc} left outside its windows, the first at {:.3} µs of the cycle",
                phase.0 as f64 / 1e3
            ),
            Self::Nothing { frames } => write!(f, "of {frames} probes none left"),
        }
    }
}

/// The probe of one port.
#[derive(Debug)]
pub(crate) struct Probe {
    device: String,
    gates: Gates,
    /// The classes that say something.
    classes: Vec<Class>,
}

/// A class that is probed.
#[derive(Debug, Clone)]
struct Class {
    tc: u8,
    priority: u8,
    /// When its gate is shut, by the phase in the cycle.
    shut: Vec<Span>,
}

impl Probe {
    /// One for each port of a plan with a schedule that can be probed; and in words what cannot, and why.
    pub(crate) fn of(plan: &Plan) -> (Vec<Self>, Vec<String>) {
        let (mut probes, mut unprobed) = (Vec::new(), Vec::new());
        let mut known: Vec<&str> = Vec::new();
        for step in plan.steps.iter().filter(|step| loses_its_timer(step)) {
            if known.contains(&step.target.as_str()) {
                continue;
            }
            known.push(&step.target);
            match Self::at(plan, &step.target, &step.command.words) {
                Ok(probe) => probes.push(probe),
                Err(why) => unprobed.push(format!("{}: {why}", step.target)),
            }
        }
        (probes, unprobed)
    }

    fn at(plan: &Plan, device: &str, words: &[String]) -> Result<Self, String> {
        let gates = Gates::read(words).ok_or("its schedule has words that are not known here")?;
        let timed = gates.classes_with_launch_times(plan, device);
        let classes: Vec<Class> = gates
            .priorities()
            .filter(|(tc, _)| !timed.contains(tc))
            .map(|(tc, priority)| Class { tc, priority, shut: gates.shut(tc) })
            .filter(|class| !class.shut.is_empty() && class.shut != [Span { start: Nanos::ZERO, end: gates.cycle }])
            .collect();
        if classes.is_empty() {
            return Err("no class has a gate that shuts and opens and takes frames without launch times".into());
        }
        if Nanos(gates.cycle.0.saturating_mul((ENOUGH * classes.len()) as i64)) > LONGEST_ROUND {
            return Err(format!("a cycle of {} is too long to wait for frames", gates.cycle));
        }
        Ok(Self { device: device.to_owned(), gates, classes })
    }

    pub(crate) fn device(&self) -> &str {
        &self.device
    }

    /// Two cycles: one that was just issued begins with the next.
    pub(crate) fn settled(&self) -> Nanos {
        self.gates.cycle + self.gates.cycle
    }

    /// Sends a round of frames and waits for what becomes of them.
    ///
    /// # Errors
    /// No frame can be sent, or none is stamped; in words. Whether the interface is there is not asked here.
    pub(crate) fn round(&self) -> Result<Effect, String> {
        let stamping = interface::stamping(&self.device).map_err(|error| error.to_string())?;
        if !stamping.transmit_software {
            return Err("the driver does not stamp the frames that it sends".into());
        }
        // Until its base-time a schedule lets all frames pass.
        if rt::clock::now() < self.gates.base + self.settled() {
            return Ok(Effect::Untold);
        }
        let room = LONGEST_ROUND.0 / self.gates.cycle.0.max(1) / self.classes.len() as i64;
        let frames = FRAMES.min(usize::try_from(room).unwrap_or(FRAMES));
        let send = |class| Ok((class, round::send(&self.device, &self.gates, class, frames)?));
        let underway: io::Result<Vec<_>> = self.classes.iter().map(send).collect();
        let patience = Nanos(self.gates.cycle.0.saturating_mul(CYCLES_TO_LEAVE)) + TIME_TO_LEAVE;
        let deadline = rt::clock::now() + patience;
        let wait = |(class, frames): (_, Underway)| Ok((class, frames.wait(deadline)?));
        let sent: io::Result<Vec<_>> = underway.and_then(|all| all.into_iter().map(wait).collect());
        Ok(self.judge(&sent.map_err(|error| error.to_string())?))
    }

    /// One class is enough whose frames leave at the wrong time. That nothing leaves may be a class that others keep
    /// from the line; all of them, and the gates are shut.
    fn judge(&self, of_classes: &[(&Class, Vec<Sent>)]) -> Effect {
        let (mut telling_in_all, mut shut) = (0, true);
        for (class, sent) in of_classes {
            let telling: Vec<&Sent> = sent.iter().filter(|sent| self.gates.is_telling(class, sent)).collect();
            if telling.len() < ENOUGH {
                continue;
            }
            telling_in_all += telling.len();
            let outside = |sent: &&&Sent| sent.left.is_some_and(|left| !self.gates.is_open_at(class, left));
            let wrong: Vec<Tai> = telling.iter().filter(outside).filter_map(|sent| sent.left).collect();
            if wrong.len() * 2 > telling.len() {
                let phase = self.gates.phase(wrong[0]);
                return Effect::Dead(Why::Outside { tc: class.tc, frames: (wrong.len(), telling.len()), phase });
            }
            shut &= telling.iter().filter(|sent| sent.left.is_none()).count() * 2 > telling.len();
        }
        match (telling_in_all, shut) {
            (0, _) => Effect::Untold,
            (frames, true) => Effect::Dead(Why::Nothing { frames }),
            (_, false) => Effect::Gated,
        }
    }
}

#[cfg(test)]
mod tests;
