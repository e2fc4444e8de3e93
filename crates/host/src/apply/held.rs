//! A plan that is applied and not yet decided on: as long as others, elsewhere, may still fail.

use std::fs::File;

use nix::fcntl::Flock;
use tsn::Plan;

use super::journal::Record;
use super::{Applied, Apply, ApplyError};
use crate::look::Act;

/// What was applied before a plan, and up to where the journal is not this plan's.
#[derive(Debug)]
pub(super) struct Before {
    pub(super) record: Record,
    kept: usize,
    former: Option<Record>,
}

impl Before {
    pub(super) fn new(record: Record, former: Option<Record>) -> Self {
        Self { kept: record.entries.len(), record, former }
    }
}

/// A plan that is applied, and can be undone to what was there before: an earlier plan included. Nobody else changes the
/// machine by `downbeat` meanwhile.
#[derive(Debug)]
#[must_use]
pub struct Held {
    before: Before,
    _lock: Flock<File>,
}

impl<M: Act> Apply<M> {
    /// Applies a plan that may still be undone, as if it had never been applied, by [`Self::undo_held`]. Dropping what this
    /// gives keeps the plan.
    ///
    /// # Errors
    /// Those of [`Self::apply`].
    pub fn hold(&self, plan: &Plan) -> Result<(Applied, Held), ApplyError> {
        let lock = self.lock_for("applies a plan on several hosts")?;
        let (applied, before) = self.apply_over(plan)?;
        Ok((applied, Held { before, _lock: lock }))
    }

    /// Undoes a plan that was held; tells what was undone.
    ///
    /// # Errors
    /// Something could not be undone, or an earlier plan not be applied again.
    pub fn undo_held(&self, held: Held) -> Result<Vec<String>, ApplyError> {
        self.back_to(held.before)
    }

    /// Undoes what was applied since, and applies again what took its place.
    pub(super) fn back_to(&self, before: Before) -> Result<Vec<String>, ApplyError> {
        let Before { mut record, kept, former } = before;
        let undone = self.undo_to(&mut record, kept)?;
        if let Some(former) = former.filter(|former| former.plan != record.plan) {
            self.again(former)?;
        }
        Ok(undone)
    }
}
