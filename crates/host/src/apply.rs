//! A plan put onto a machine, read back, and taken off again.
//!
//! First everything is looked at: what is as planned already is left alone, and what could not be made again is refused
//! before anything is changed. Then each step is written into the journal, with how it is undone, and done. Afterwards
//! everything is looked at once more; a step that did not take, or that failed, has all of them undone.
//!
//! Applying twice does nothing the second time. Another plan takes the place of the one that is applied, which is undone
//! first, and applied again if the other cannot be.

mod carry_out;
mod error;
mod held;
mod journal;
mod qdisc;
mod read_back;
mod setting;
mod standing;
mod tools;
mod undo;

use std::fs::File;
use std::path::{Path, PathBuf};

use nix::fcntl::Flock;
use serde::Serialize;
use tsn::{Plan, Program, Step};

use crate::lock::exclusive;
use crate::look::{Act, ThisMachine};
use crate::unit;
pub use error::{ApplyError, Refused, StepFailure};
use held::Before;
pub use held::Held;
use journal::{Entry, Journal, Record};
pub(crate) use setting::value_of;
pub use standing::Standing;

/// Outlives a reboot, as files do.
const FOLDER: &str = "/var/lib/downbeat";
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// How one step of a plan stands, for people and scripts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StepState {
    /// The command, or the file.
    pub line: String,
    /// How it stands.
    #[serde(flatten)]
    pub standing: Standing,
    /// It is to be done.
    pub due: bool,
}

/// What was done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Applied {
    /// Commands and files, in their order.
    pub done: Vec<String>,
    /// What was as planned already.
    pub kept: usize,
    /// What the device has no word for and was left out.
    pub left_out: Vec<String>,
    /// What was undone before, of an earlier plan.
    pub undone: Vec<String>,
}

/// A plan and the machine under it.
#[derive(Debug)]
pub struct Apply<M> {
    machine: M,
    journal: Journal,
    folder: PathBuf,
}

impl Apply<ThisMachine> {
    /// On this machine.
    pub fn here() -> Self {
        Self::on(ThisMachine, Path::new(FOLDER))
    }
}

impl<M: Act> Apply<M> {
    pub(crate) fn on(machine: M, folder: &Path) -> Self {
        Self { machine, journal: Journal::new(folder), folder: folder.to_owned() }
    }

    /// Applies a plan.
    ///
    /// # Errors
    /// See [`ApplyError`]. Whatever it is, the machine is as before, but for [`ApplyError::Undo`].
    pub fn apply(&self, plan: &Plan) -> Result<Applied, ApplyError> {
        let _lock = self.lock()?;
        self.apply_held(plan)
    }

    fn lock(&self) -> Result<Flock<File>, ApplyError> {
        Ok(exclusive(&self.folder, None)?)
    }

    fn lock_for(&self, what: &str) -> Result<Flock<File>, ApplyError> {
        Ok(exclusive(&self.folder, Some(what))?)
    }

    /// Applies a plan for who has the lock.
    pub(crate) fn apply_held(&self, plan: &Plan) -> Result<Applied, ApplyError> {
        Ok(self.apply_over(plan)?.0)
    }

    /// The same, with what is needed to go back.
    fn apply_over(&self, plan: &Plan) -> Result<(Applied, Before), ApplyError> {
        tools::check(&self.machine, plan)?;
        let mut applied = Applied::default();
        let former = self.record()?;
        let record = match &former {
            Some(former) if former.plan == plan.all() => former.clone(),
            Some(former) => {
                let mut former = former.clone();
                applied.undone = self.undo_to(&mut former, 0)?;
                self.empty(plan)
            }
            None => self.empty(plan),
        };
        let mut before = Before::new(record, former);
        let done = self.carry_out(plan, &mut before.record, &mut applied);
        let Err(error) = done else { return Ok((applied, before)) };
        self.back_to(before)?;
        Err(error)
    }

    /// Undoes what is applied, the newest first; tells what was undone.
    ///
    /// # Errors
    /// Something could not be undone; it stays in the journal with what is older.
    pub fn restore(&self) -> Result<Vec<String>, ApplyError> {
        if self.journal.read()?.is_none() {
            return Ok(Vec::new());
        }
        let stopped = self.stop_watch()?;
        let _lock = self.lock()?;
        let undone = self.restore_held()?;
        Ok(stopped.into_iter().map(|unit| format!("systemctl stop {unit}")).chain(undone).collect())
    }

    /// The unit of systemd that watches the plan that is applied.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub fn watch_unit(&self) -> Result<Option<String>, ApplyError> {
        let entries = self.record()?.map(|record| record.entries).unwrap_or_default();
        Ok(entries.iter().find_map(|entry| match entry {
            Entry::Command { run, .. } => unit::enabled_by(run).map(str::to_owned),
            Entry::File { .. } => None,
        }))
    }

    /// Ends the unit that watches, if there is one that runs: it has the right to change this machine. Tells which.
    ///
    /// # Errors
    /// The journal cannot be read, or the unit does not end.
    pub fn stop_watch(&self) -> Result<Option<String>, ApplyError> {
        let Some(unit) = self.watch_unit()? else { return Ok(None) };
        let asked = self.machine.run(&["systemctl", "is-active", &unit]);
        if !asked.is_some_and(|printed| printed.well || printed.out == "activating") {
            return Ok(None);
        }
        self.act(&["systemctl", "stop", &unit].map(str::to_owned))?;
        Ok(Some(unit))
    }

    /// Begins the unit that watches the plan that is applied, and waits until it does; tells which.
    ///
    /// # Errors
    /// There is none, or it does not begin.
    pub fn start_watch(&self) -> Result<Option<String>, ApplyError> {
        let Some(unit) = self.watch_unit()? else { return Ok(None) };
        self.act(&["systemctl", "restart", &unit].map(str::to_owned))?;
        Ok(Some(unit))
    }

    /// Undoes what is applied, for who has the lock.
    pub(crate) fn restore_held(&self) -> Result<Vec<String>, ApplyError> {
        match self.record()? {
            None => Ok(Vec::new()),
            Some(mut record) => self.undo_to(&mut record, 0),
        }
    }

    /// Does what an applied plan lacks, for who has the lock; tells what was done. Nothing is undone if it cannot be.
    pub(crate) fn mend_held(&self, plan: &Plan) -> Result<Vec<String>, ApplyError> {
        let mut record = self.record()?.unwrap_or_else(|| self.empty(plan));
        let mut applied = Applied::default();
        self.carry_out(plan, &mut record, &mut applied)?;
        Ok(applied.done)
    }

    /// Runs the command of a step that is in the journal already.
    pub(crate) fn run_step(&self, step: &Step) -> Result<(), String> {
        run(&self.machine, &typed(step))
    }

    pub(crate) fn machine(&self) -> &M {
        &self.machine
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Scenario and host of the plan that is applied.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub fn current(&self) -> Result<Option<(String, String)>, ApplyError> {
        Ok(self.record()?.map(|record| (record.scenario, record.host)))
    }

    fn boot_id(&self) -> String {
        self.machine.read(BOOT_ID.as_ref()).unwrap_or_default()
    }

    fn empty(&self, plan: &Plan) -> Record {
        Record {
            boot_id: self.boot_id(),
            scenario: plan.scenario.clone(),
            host: plan.host.clone(),
            plan: plan.all(),
            entries: Vec::new(),
        }
    }

    /// The journal, without what went with an earlier boot.
    fn record(&self) -> Result<Option<Record>, ApplyError> {
        let Some(mut record) = self.journal.read()? else { return Ok(None) };
        let boot_id = self.boot_id();
        if record.boot_id != boot_id {
            record.entries.retain(|entry| match entry {
                Entry::File { .. } => true,
                Entry::Command { lasting, .. } => *lasting,
            });
            record.boot_id = boot_id;
        }
        Ok(Some(record).filter(|record| !record.entries.is_empty()))
    }
}

/// A schedule that the kernel keeps by a timer. It stops when something changes on its device, and shows no sign of it.
pub(crate) fn loses_its_timer(step: &Step) -> bool {
    let words = &step.command.words;
    let has = |word: &str| words.iter().any(|known| known == word);
    step.command.program == Program::Tc && has("taprio") && !has("flags")
}

fn words(program: Program, words: &[String]) -> Vec<String> {
    std::iter::once(program.name().to_owned()).chain(words.iter().cloned()).collect()
}

fn typed(step: &Step) -> Vec<String> {
    words(step.command.program, &step.command.words)
}

pub(crate) fn line_of(step: &Step) -> String {
    typed(step).join(" ")
}

fn run(machine: &impl Act, line: &[String]) -> Result<(), String> {
    let words: Vec<&str> = line.iter().map(String::as_str).collect();
    match machine.run(&words) {
        Some(printed) if printed.well => Ok(()),
        Some(printed) => Err(if printed.error.is_empty() { printed.out } else { printed.error }),
        None => Err(format!("{} is missing", words.first().unwrap_or(&"the program"))),
    }
}

#[cfg(test)]
pub(crate) mod tests;
