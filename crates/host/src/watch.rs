//! A plan kept true: what stops a schedule or changes the plan is heard from the kernel, and mended.
//!
//! Linux cancels the timer of a software taprio whenever the disciplines of its device are deactivated, and shows no sign
//! of it: the schedule reads back the same, and its gates stay as they were. Nobody can look at it; but each cause is
//! told by the kernel as it happens, in the order in which it happened. So a schedule is issued again when something that
//! stops it came after it was issued last; children stay, and waiting frames go out.
//!
//! A cause that nobody tells of, such as another number of queues, is seen by its effect, if that is asked for: frames
//! are sent, and when they leave shows whether gates move.
//!
//! Everything else that is told has the plan compared with the machine once more, as does the passing of time: settings
//! of ethtool, files and units change without a word.

mod effect;
mod heard;
mod keeper;

use std::fs::File;
use std::time::{Duration, Instant};

use nix::fcntl::Flock;
use serde::Serialize;
use tsn::Plan;

use crate::apply::{Applied, Apply, ApplyError, Refused};
use crate::lock::exclusive;
use crate::look::ThisMachine;
use effect::Probing;
use heard::Ear;
use keeper::Keeper;

/// For so long nothing more is told before the plan is compared: a change comes as several messages, and a look takes
/// dozens of programs.
const QUIET: Duration = Duration::from_millis(50);
/// However much is told, it is compared this long after the first of it.
const AT_LATEST: Duration = Duration::from_secs(1);

/// What is done when the machine is no longer as planned. A schedule that was stopped is issued again in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnChange {
    /// It is made as planned again.
    #[default]
    Mend,
    /// It is told.
    Tell,
}

/// What a watch did or saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// A schedule was issued again, because something had stopped its timer.
    IssuedAgain,
    /// The machine was not as planned, and is again.
    Mended,
    /// The machine is not as planned, and is left so.
    Differs,
    /// The machine is as planned again, by somebody else's doing.
    AsPlanned,
    /// Something could not be mended; it is tried again when something changes, and at the next look.
    NotMended,
    /// The link of an interface with a schedule is down.
    Down,
    /// An interface of the plan is gone.
    Gone,
    /// Whether a schedule runs cannot be seen by frames.
    Unseen,
}

/// One thing that a watch tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Told {
    /// When it was done or seen, ns TAI.
    pub at_ns: i64,
    /// From when its cause was heard until it was done, ns.
    pub took_ns: i64,
    /// The interface, bridge, unit or file.
    pub device: String,
    /// What was done.
    pub what: What,
    /// What had happened.
    pub cause: String,
    /// Commands and files, in their order; in what the machine differs; why it could not be mended.
    pub lines: Vec<String>,
}

/// A plan that is kept true. Nobody else changes the machine by `downbeat` meanwhile.
#[derive(Debug)]
pub struct Watch {
    keeper: Keeper<ThisMachine>,
    ear: Ear,
    /// Between two looks when nothing is told; none without end.
    every: Option<Duration>,
    looked: Instant,
    /// When the first and the last of what was not yet compared was heard.
    heard: Option<(Instant, Instant)>,
    /// Frames that show whether gates move; none when nobody asked for them.
    probing: Option<Probing>,
    _lock: Flock<File>,
}

impl Watch {
    /// Applies a plan and keeps it from then on.
    ///
    /// # Errors
    /// Those of [`Apply::apply`]; another watch is there; the kernel cannot be listened to.
    pub fn begin(plan: Plan, on_change: OnChange, every: Option<Duration>) -> Result<(Self, Applied), ApplyError> {
        let apply = Apply::here();
        let lock = exclusive(apply.folder(), Some("keeps a plan true (downbeat apply --watch)"))?;
        // Before the first look, so that nothing falls between.
        let mut ear = Ear::open().map_err(unheard)?;
        let applied = apply.apply_held(&plan)?;
        let mut keeper = Keeper::new(apply, plan, on_change, &applied);
        keeper.hear_our_own(&ear.hear().map_err(unheard)?);
        let now = Instant::now();
        Ok((Self { keeper, ear, every, looked: now, heard: Some((now, now)), probing: None, _lock: lock }, applied))
    }

    /// From now on has frames sent this often that show whether gates move. Tells in words which ports it cannot be
    /// seen of, and why.
    pub fn probe(&mut self, every: Duration) -> Vec<String> {
        let (probing, unprobed) = Probing::new(self.keeper.plan(), every);
        self.probing = Some(probing);
        unprobed
    }

    /// Waits for something to happen, at most for so long, or until a signal comes; mends it, and tells of it.
    ///
    /// # Errors
    /// The kernel cannot be listened to.
    pub fn turn(&mut self, longest: Duration) -> Result<Vec<Told>, ApplyError> {
        let mut told = self.keeper.issue();
        let due = self.due();
        if self.heard.is_none() && self.probing.as_ref().is_some_and(|probing| probing.due() <= Instant::now()) {
            told.extend(self.look_at_effects()?);
            return Ok(told);
        }
        let wait = due.map_or(longest, |due| longest.min(due.saturating_duration_since(Instant::now())));
        if self.ear.wait(wait).map_err(unheard)? {
            told.extend(self.take_in()?.1);
        } else if self.look_is_due() {
            told.extend(self.keeper.look());
            self.looked = Instant::now();
            self.heard = None;
            if told.iter().any(|one| one.what == What::Mended) {
                told.extend(self.keeper.hear_our_own(&self.ear.hear().map_err(unheard)?));
                self.heard = Some((self.looked, self.looked));
            }
        }
        Ok(told)
    }

    /// Whether the plan is to be compared with the machine now.
    fn look_is_due(&self) -> bool {
        let now = Instant::now();
        let by_time = self.every.is_some_and(|every| self.looked + every <= now);
        by_time || self.heard.is_some_and(|(first, last)| (last + QUIET).min(first + AT_LATEST) <= now)
    }

    /// Takes in what was told, and issues what it has stopped. Whether anything was, and what is to be told of it.
    fn take_in(&mut self) -> Result<(bool, Vec<Told>), ApplyError> {
        let heard = self.ear.hear().map_err(unheard)?;
        let mut told = self.keeper.hear(&heard);
        told.extend(self.keeper.issue());
        if self.keeper.has_something_to_look_at() {
            let now = Instant::now();
            self.heard = Some((self.heard.map_or(now, |(first, _)| first), now));
        }
        Ok((!heard.is_empty(), told))
    }

    /// When to compare the plan with the machine, or to send frames.
    fn due(&self) -> Option<Instant> {
        let by_time = self.every.map(|every| self.looked + every);
        let by_ear = self.heard.map(|(first, last)| (last + QUIET).min(first + AT_LATEST));
        let by_probe = self.probing.as_ref().filter(|_| self.heard.is_none()).map(Probing::due);
        by_time.into_iter().chain(by_ear).chain(by_probe).min()
    }

    /// Ends the watch and undoes what is applied; tells what was undone.
    ///
    /// # Errors
    /// Those of [`Apply::restore`].
    pub fn restore(self) -> Result<Vec<String>, ApplyError> {
        self.keeper.restore()
    }
}

fn unheard(error: std::io::Error) -> ApplyError {
    Refused::Deaf(error).into()
}

#[cfg(test)]
mod tests;
