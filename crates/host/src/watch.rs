//! A plan kept true: what stops a schedule or changes the plan is heard from the kernel, and mended.
//!
//! Linux cancels the timer of a software taprio whenever the disciplines of its device are deactivated, and shows no sign
//! of it: the schedule reads back the same, and its gates stay as they were. Nobody can look at it; but each cause is
//! told by the kernel as it happens, in the order in which it happened. So a schedule is issued again when something that
//! stops it came after it was issued last; children stay, and waiting frames go out.
//!
//! Everything else that is told has the plan compared with the machine once more, as does the passing of time: settings
//! of ethtool, files and units change without a word.

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
        Ok((Self { keeper, ear, every, looked: now, heard: Some((now, now)), _lock: lock }, applied))
    }

    /// Waits for something to happen, at most for so long, or until a signal comes; mends it, and tells of it.
    ///
    /// # Errors
    /// The kernel cannot be listened to.
    pub fn turn(&mut self, longest: Duration) -> Result<Vec<Told>, ApplyError> {
        let mut told = self.keeper.issue();
        let due = self.due();
        let wait = due.map_or(longest, |due| longest.min(due.saturating_duration_since(Instant::now())));
        if self.ear.wait(wait).map_err(unheard)? {
            let heard = self.ear.hear().map_err(unheard)?;
            told.extend(self.keeper.hear(&heard));
            told.extend(self.keeper.issue());
            if self.keeper.has_something_to_look_at() {
                let now = Instant::now();
                self.heard = Some((self.heard.map_or(now, |(first, _)| first), now));
            }
        } else if due.is_some_and(|due| due <= Instant::now()) {
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

    /// When to compare the plan with the machine.
    fn due(&self) -> Option<Instant> {
        let by_time = self.every.map(|every| self.looked + every);
        let by_ear = self.heard.map(|(first, last)| (last + QUIET).min(first + AT_LATEST));
        by_time.into_iter().chain(by_ear).min()
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
