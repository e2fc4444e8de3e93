//! Rolling back: what the journal tells, undone from the last to the first.

use super::carry_out::unwritten;
use super::journal::{Entry, Record, State};
use super::{Apply, ApplyError, run, setting, standing};
use crate::look::Act;

impl<M: Act> Apply<M> {
    /// Undoes entries from the last to the one with this index.
    pub(super) fn undo_to(&self, record: &mut Record, first: usize) -> Result<Vec<String>, ApplyError> {
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
    pub(super) fn again(&self, former: Record) -> Result<(), ApplyError> {
        let mut record = Record { entries: Vec::new(), ..former.clone() };
        for entry in former.entries {
            record.entries.push(entry.clone());
            self.journal.write(&record)?;
            match &entry {
                Entry::File { path, text, .. } => {
                    let written = self.machine.write_file(path.as_ref(), text);
                    written.map_err(|error| unwritten(path, &error))?;
                }
                Entry::Command { run, .. } => self.act(run)?,
            }
        }
        Ok(())
    }
}
