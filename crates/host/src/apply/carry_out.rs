//! Steps of a plan done: each in the journal first, and read back at the end.

use std::io;

use tsn::{Existing, Plan, Program, Step, Undo};

use super::error::StepFailure;
use super::journal::{Entry, Record, State};
use super::{Applied, Apply, ApplyError, Standing, StepState, run, setting, typed, words};
use crate::look::{Act, Look};

impl<M: Act> Apply<M> {
    pub(super) fn carry_out(&self, plan: &Plan, record: &mut Record, applied: &mut Applied) -> Result<(), ApplyError> {
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
        written.map_err(|error| unwritten(path, &error))?;
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

    pub(super) fn act(&self, line: &[String]) -> Result<(), ApplyError> {
        run(&self.machine, line).map_err(|why| {
            let failure = if may_change_networks(&self.machine) { StepFailure::Machine } else { StepFailure::NoRight };
            ApplyError::Step { line: line.join(" "), why, failure }
        })
    }

    fn done(&self, record: &mut Record) -> Result<(), ApplyError> {
        if let Some(entry) = record.entries.last_mut() {
            *entry.state_mut() = State::Done;
        }
        self.journal.write(record)
    }
}

/// A file could not be written.
pub(super) fn unwritten(path: &str, error: &io::Error) -> ApplyError {
    ApplyError::Step { line: format!("writing {path}"), why: error.to_string(), failure: StepFailure::of(error) }
}

/// Whether this process has `CAP_NET_ADMIN` (bit 12 of `linux/capability.h`); taken for granted where nobody tells.
fn may_change_networks(look: &impl Look) -> bool {
    let status = look.read("/proc/self/status".as_ref()).unwrap_or_default();
    let told = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("CapEff:")?.trim(), 16).ok());
    told.is_none_or(|capabilities| capabilities >> 12 & 1 == 1)
}
