//! Reading back: how each step of a plan stands on the machine.

use tsn::{Plan, Program, Step, Undo};

use super::journal::Entry;
use super::standing::standing;
use super::{Apply, Standing, StepState, line_of, loses_its_timer, typed};
use crate::look::Act;

impl<M: Act> Apply<M> {
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
}
