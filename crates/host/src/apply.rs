//! A plan put onto a machine, read back, and taken off again.
//!
//! First everything is looked at: what is as planned already is left alone, and what could not be made again is refused
//! before anything is changed. Then each step is written into the journal, with how it is undone, and done. Afterwards
//! everything is looked at once more; a step that did not take, or that failed, has all of them undone.
//!
//! Applying twice does nothing the second time. Another plan takes the place of the one that is applied, which is undone
//! first, and applied again if the other cannot be.

mod journal;
mod qdisc;
mod setting;
mod standing;
mod tools;

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};

use nix::fcntl::Flock;
use serde::Serialize;
use tsn::{Existing, Plan, Program, Step, Undo};

use crate::lock::exclusive;
use crate::look::{Act, ThisMachine};
use journal::{Entry, Journal, Record, State};
pub(crate) use setting::value_of;
pub use standing::Standing;
use standing::standing;

/// Outlives a reboot, as files do.
const FOLDER: &str = "/var/lib/downbeat";
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Why a plan was not applied or not undone.
#[derive(Debug)]
pub enum ApplyError {
    /// Things that could not be made again stand in the way: nothing was changed.
    Foreign(Vec<String>),
    /// A step failed: everything is as before.
    Step {
        /// The command.
        line: String,
        /// What it said.
        why: String,
    },
    /// A step was done and the machine shows something else: everything is as before.
    NotTaken {
        /// The command.
        line: String,
        /// What the machine shows.
        now: String,
    },
    /// A step was not undone; it is in the journal still.
    Undo {
        /// The command.
        line: String,
        /// What it said.
        why: String,
    },
    /// The journal cannot be read or written.
    Journal {
        /// The file.
        path: PathBuf,
        /// What the system said.
        why: String,
    },
    /// The machine cannot be changed by this process.
    Refused(String),
}

impl fmt::Display for ApplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign(found) => {
                f.write_str("something else is in the way that could not be put back; nothing was changed:")?;
                found.iter().try_for_each(|line| write!(f, "\n  {line}"))
            }
            Self::Step { line, why } => write!(f, "`{line}` failed, everything is as before: {why}"),
            Self::NotTaken { line, now } => {
                write!(f, "`{line}` was taken, and yet the machine shows otherwise; everything is as before: {now}")
            }
            Self::Undo { line, why } => write!(f, "`{line}` did not undo what was applied: {why}"),
            Self::Journal { path, why } => write!(f, "the journal {}: {why}", path.display()),
            Self::Refused(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for ApplyError {}

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

    /// How each step stands, files first. Nothing is changed.
    pub fn examine(&self, plan: &Plan) -> Vec<StepState> {
        let files = plan.files.iter().map(|file| {
            let standing = match self.machine.read(file.path.as_ref()) {
                None => Standing::ToDo,
                Some(now) if now == file.text.trim() => Standing::AsPlanned,
                Some(_) => Standing::Different { now: format!("{} says something else", file.path) },
            };
            let due = standing != Standing::AsPlanned;
            StepState { line: file.path.clone(), standing, due }
        });
        let mut states: Vec<_> = files.collect();
        let first = states.len();
        for (index, step) in plan.steps.iter().enumerate() {
            let mut standing = standing(&self.machine, step);
            // What is somebody else's to the machine may be ours by the journal: then `apply` undoes it first.
            if let (Standing::Foreign { now }, true) = (&standing, self.is_ours(step)) {
                standing = Standing::Different { now: now.clone() };
            }
            let before = plan.steps[..index].iter().zip(&states[first..]);
            let changed = before.clone().any(|(other, state)| other.target == step.target && state.due);
            let due = match &standing {
                Standing::AsPlanned => changed && loses_its_timer(step),
                Standing::Untold => step.command.program != Program::Ethtool && !matches!(step.undo, Undo::Nothing),
                Standing::ToDo | Standing::Different { .. } | Standing::Foreign { .. } => true,
            };
            // A daemon reads its units anew when there is a new one.
            let due =
                due || (step.command.program == Program::Systemctl && states[..first].iter().any(|file| file.due));
            states.push(StepState { line: line_of(step), standing, due });
        }
        states
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
        exclusive(&self.folder, None).map_err(|error| ApplyError::Refused(error.to_string()))
    }

    /// Applies a plan for who has the lock.
    pub(crate) fn apply_held(&self, plan: &Plan) -> Result<Applied, ApplyError> {
        tools::check(&self.machine, plan)?;
        let mut applied = Applied::default();
        let former = self.record()?;
        let mut record = match &former {
            Some(former) if former.plan == plan.all() => former.clone(),
            Some(former) => {
                let mut former = former.clone();
                applied.undone = self.undo_to(&mut former, 0)?;
                self.empty(plan)
            }
            None => self.empty(plan),
        };
        let kept = record.entries.len();
        let done = self.carry_out(plan, &mut record, &mut applied);
        let Err(error) = done else { return Ok(applied) };
        self.undo_to(&mut record, kept)?;
        if let Some(former) = former.filter(|former| former.plan != plan.all()) {
            self.again(former)?;
        }
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
        let _lock = self.lock()?;
        self.restore_held()
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

    /// Whether what a step makes was made by an applied plan: then it can be made again.
    fn is_ours(&self, step: &Step) -> bool {
        let place = |words: &[String]| words.iter().take(5).cloned().collect::<Vec<_>>();
        let wanted = place(&typed(step));
        let record = self.record().ok().flatten();
        record.is_some_and(|record| {
            record.entries.iter().any(|entry| match entry {
                Entry::Command { target, run, .. } => *target == step.target && place(run) == wanted,
                Entry::File { .. } => false,
            })
        })
    }

    fn carry_out(&self, plan: &Plan, record: &mut Record, applied: &mut Applied) -> Result<(), ApplyError> {
        let states = self.examine(plan);
        let mut foreign: Vec<String> = states
            .iter()
            .filter_map(|state| match &state.standing {
                Standing::Foreign { now } => Some(now.clone()),
                _ => None,
            })
            .collect();
        // A schedule has two steps.
        foreign.dedup();
        if !foreign.is_empty() {
            return Err(ApplyError::Foreign(foreign));
        }
        applied.kept = states.iter().filter(|state| state.standing == Standing::AsPlanned && !state.due).count();
        let (files, steps) = states.split_at(plan.files.len());
        for (file, state) in plan.files.iter().zip(files) {
            if state.due {
                self.write_file(&file.path, &file.text, record)?;
                applied.done.push(file.path.clone());
            }
        }
        for (step, state) in plan.steps.iter().zip(steps) {
            if state.due {
                self.step(step, state, record)?;
                applied.done.push(state.line.clone());
            } else if state.standing == Standing::Untold {
                applied.left_out.push(state.line.clone());
            }
        }
        // What changed under a schedule that is as planned has stopped it: `examine` told so only of earlier steps.
        let after = self.examine(plan);
        match after.iter().find_map(|state| match &state.standing {
            Standing::ToDo => Some((state, "it is not there".to_owned())),
            Standing::Different { now } | Standing::Foreign { now } => Some((state, now.clone())),
            Standing::AsPlanned | Standing::Untold => None,
        }) {
            Some((state, now)) => Err(ApplyError::NotTaken { line: state.line.clone(), now }),
            None => Ok(()),
        }
    }

    fn write_file(&self, path: &str, text: &str, record: &mut Record) -> Result<(), ApplyError> {
        let before = self.machine.text(path.as_ref());
        // A second plan of ours finds what the first one wrote: what was there before that is what counts.
        let known =
            record.entries.iter().position(|entry| matches!(entry, Entry::File { path: known, .. } if known == path));
        let entry = Entry::File { path: path.into(), before, text: text.into(), state: State::Begun };
        if known.is_none() {
            record.entries.push(entry);
            self.journal.write(record)?;
        }
        let written = self.machine.write_file(path.as_ref(), text);
        written.map_err(|error| ApplyError::Step { line: format!("writing {path}"), why: error.to_string() })?;
        if known.is_none() {
            self.done(record)?;
        }
        Ok(())
    }

    fn step(&self, step: &Step, state: &StepState, record: &mut Record) -> Result<(), ApplyError> {
        let run = typed(step);
        let (removes, undo) = match &step.undo {
            Undo::Run(command) => {
                let undo = words(command.program, &command.words);
                (Some(undo.clone()), vec![undo])
            }
            Undo::Former(setting) => (None, setting::former(&self.machine, &step.target, *setting)),
            Undo::With(_) | Undo::Nothing => (None, Vec::new()),
        };
        // What was there as planned, and is only issued again, is not ours to remove; and nothing is removed twice.
        let known =
            record.entries.iter().any(|entry| matches!(entry, Entry::Command { run: known, .. } if *known == run));
        let again = state.standing == Standing::AsPlanned;
        if !known && !again {
            let lasting = step.command.program == Program::Systemctl;
            let target = step.target.clone();
            record.entries.push(Entry::Command { target, run: run.clone(), undo, lasting, state: State::Begun });
            self.journal.write(record)?;
        }
        match (&state.standing, &removes) {
            (Standing::Different { .. }, Some(removes)) if step.existing == Existing::RemovedFirst => {
                self.act(removes)?;
                self.act(&run)?;
            }
            // A handle that another kind has cannot be given to ours ("Invalid qdisc name").
            (Standing::Different { .. }, Some(removes)) => {
                self.act(&run).or_else(|_| self.act(removes).and_then(|()| self.act(&run)))?;
            }
            _ => self.act(&run)?,
        }
        if !known && !again {
            self.done(record)?;
        }
        Ok(())
    }

    fn act(&self, line: &[String]) -> Result<(), ApplyError> {
        run(&self.machine, line).map_err(|why| ApplyError::Step { line: line.join(" "), why })
    }

    fn done(&self, record: &mut Record) -> Result<(), ApplyError> {
        if let Some(entry) = record.entries.last_mut() {
            *entry.state_mut() = State::Done;
        }
        self.journal.write(record)
    }

    /// Undoes entries from the last to the one with this index.
    fn undo_to(&self, record: &mut Record, first: usize) -> Result<Vec<String>, ApplyError> {
        let mut undone = Vec::new();
        while record.entries.len() > first {
            let Some(entry) = record.entries.last() else { break };
            undone.extend(self.undo(entry)?);
            record.entries.pop();
            self.journal.write(record)?;
        }
        Ok(undone)
    }

    /// Undoes one entry. One that was begun only may not have been done: then there is nothing to undo.
    fn undo(&self, entry: &Entry) -> Result<Vec<String>, ApplyError> {
        let mut undone = Vec::new();
        match entry {
            Entry::File { path, before, text, .. } => {
                let now = self.machine.text(path.as_ref());
                if now.is_none() && before.is_none() {
                    return Ok(undone);
                }
                // Somebody has written it anew since.
                if now.as_ref().is_some_and(|now| now != text && Some(now) != before.as_ref()) {
                    return Ok(vec![format!("{path} was changed since and is left as it is")]);
                }
                let (done, what) = match before {
                    Some(before) => (self.machine.write_file(path.as_ref(), before), "put back"),
                    None => (self.machine.remove_file(path.as_ref()), "removed"),
                };
                let told = format!("{what} {path}");
                done.map_err(|error| ApplyError::Undo { line: told.clone(), why: error.to_string() })?;
                undone.push(told);
            }
            Entry::Command { target, undo, state, .. } => {
                for line in undo {
                    match run(&self.machine, line) {
                        Ok(()) => undone.push(line.join(" ")),
                        Err(_) if *state == State::Begun => {}
                        // With the interface everything on it is gone, and what is gone needs no undoing.
                        Err(_) if self.is_gone(target, line) => undone.push(format!("{} (was gone)", line.join(" "))),
                        Err(why) => {
                            let why = format!("{why} (it undoes `{}`)", entry.told());
                            return Err(ApplyError::Undo { line: line.join(" "), why });
                        }
                    }
                }
            }
        }
        Ok(undone)
    }

    /// Whether what a command removes is there no more.
    fn is_gone(&self, target: &str, undo: &[String]) -> bool {
        let words: Vec<&str> = undo.iter().map(String::as_str).collect();
        match words[..] {
            ["systemctl", ..] => false,
            ["tc", "qdisc", "del", "dev", device, place, ..] => {
                let shown = standing::disciplines(&self.machine, device).unwrap_or_default();
                match place {
                    "root" => !shown.iter().any(|entry| entry["root"] == true && entry["handle"] != "0:"),
                    place => !shown.iter().any(|entry| entry["kind"] == place),
                }
            }
            ["tc", "filter", "del", "dev", device, way, ref rest @ ..] => {
                let pref = rest.iter().position(|word| *word == "pref").and_then(|at| rest.get(at + 1));
                pref.is_none_or(|pref| !standing::has_filter(&self.machine, device, way, pref))
            }
            _ => setting::link(&self.machine, target).is_none(),
        }
    }

    /// Does again what a journal tells, after its undoing.
    fn again(&self, former: Record) -> Result<(), ApplyError> {
        let mut record = Record { entries: Vec::new(), ..former.clone() };
        for entry in former.entries {
            record.entries.push(entry.clone());
            self.journal.write(&record)?;
            match &entry {
                Entry::File { path, text, .. } => {
                    let written = self.machine.write_file(path.as_ref(), text);
                    written.map_err(|error| ApplyError::Step {
                        line: format!("writing {path}"),
                        why: error.to_string(),
                    })?;
                }
                Entry::Command { run, .. } => self.act(run)?,
            }
        }
        Ok(())
    }
}

/// A software schedule stops when something changes on its device, and shows no sign of it.
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
