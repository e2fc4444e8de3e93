//! Rotating a run: what was measured so far goes into a part folder, and its rows out of memory.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use measure::{Collector, Kind, Machine, Observations, RunFile, Whole};
use scenario::Scenario;
use serde_json::json;
use units::{Nanos, Tai};

use crate::error::LabError;

/// How long a message may be under way and still be counted by the part that it began in.
const UNDER_WAY: Nanos = Nanos(1_000_000_000);

/// The parts of a run.
pub(crate) struct Rotation {
    scenario: Arc<Scenario>,
    folder: PathBuf,
    every: Option<Nanos>,
    /// Whether parts are to be joined with those of other hosts.
    pub(crate) keep_ends: bool,
    last: Tai,
    number: u32,
    writing: Option<JoinHandle<Written>>,
    whole: Whole,
}

/// What became of a part.
struct Written {
    name: String,
    path: PathBuf,
    outcome: Result<(RunFile, Observations), LabError>,
}

impl Rotation {
    pub(crate) fn new(scenario: &Scenario, folder: &Path, every: Option<Nanos>, start: Tai) -> Self {
        Self {
            scenario: Arc::new(scenario.clone()),
            folder: folder.to_owned(),
            every,
            keep_ends: false,
            last: start,
            number: 0,
            writing: None,
            whole: Whole::new(),
        }
    }

    /// Whether there are parts.
    pub(crate) fn has_begun(&self) -> bool {
        self.number > 0
    }

    /// How many parts are written.
    pub(crate) fn parts(&self) -> u32 {
        self.whole.parts() as u32
    }

    /// Whether it is time for the next part.
    pub(crate) fn is_due(&self, now: Tai) -> bool {
        self.every.is_some_and(|every| now - self.last >= every)
    }

    /// Whether a part is still being written.
    pub(crate) fn is_busy(&self) -> bool {
        self.writing.is_some()
    }

    /// Cuts off what is settled and has a thread of its own write it: the rings must be emptied meanwhile.
    pub(crate) fn cut(&mut self, collector: &mut Collector, machine: &Machine, now: Tai) {
        let before = now - UNDER_WAY;
        let part = collector.cut(before);
        self.write(part, machine.clone(), before, Vec::new());
        self.last = now;
    }

    /// The part folder that has just been written, or why it could not be.
    pub(crate) fn newly_written(&mut self) -> Option<Result<PathBuf, LabError>> {
        if self.writing.as_ref().is_none_or(|writing| !writing.is_finished()) {
            return None;
        }
        self.wait()
    }

    /// Writes what is left as the last part, then the whole.
    ///
    /// # Errors
    /// A part or the whole could not be written; a part that could not be is missing from the whole.
    pub(crate) fn finish(
        mut self,
        collector: Collector,
        machine: Machine,
        incidents: Vec<measure::Incident>,
    ) -> Result<RunFile, LabError> {
        let before = self.wait().transpose();
        self.write(collector, machine.clone(), rt::clock::now(), incidents);
        self.wait().transpose().and(before)?;
        let run = self.whole.finish(&self.scenario, machine).ok_or(LabError::Interrupted)?;
        measure::write_whole(&self.folder, &self.scenario, &run).map_err(failed(&self.folder))?;
        Ok(run)
    }

    fn write(&mut self, part: Collector, mut machine: Machine, until: Tai, incidents: Vec<measure::Incident>) {
        self.number += 1;
        let (number, scenario) = (self.number, Arc::clone(&self.scenario));
        machine.insert("part".into(), json!({ "number": number, "until_ns": until.0 }));
        let name = format!("part-{number:04}");
        let path = self.folder.join(&name);
        let keep_ends = self.keep_ends;
        self.writing = Some(std::thread::spawn(move || {
            let ends = if keep_ends { part.write_ends(&path, &scenario) } else { Ok(()) };
            let mut seen = part.finish(&scenario);
            seen.incidents.extend(incidents);
            seen.incidents.sort_by_key(|incident| incident.at_ns);
            let run = measure::summarise(&scenario, &seen, Kind::Measured, machine);
            let written = ends.and_then(|()| measure::write_run(&path, &scenario, &run, &seen.rows));
            let written = written.map_err(failed(&path));
            seen.rows = Vec::new();
            Written { name, path, outcome: written.map(|()| (run, seen)) }
        }));
    }

    /// Waits for the part that is being written and adds it to the whole.
    fn wait(&mut self) -> Option<Result<PathBuf, LabError>> {
        let written = self.writing.take()?.join().ok()?;
        Some(written.outcome.map(|(run, seen)| {
            self.whole.add(written.name, run, &seen.streams);
            written.path
        }))
    }
}

fn failed(folder: &Path) -> impl FnOnce(measure::ResultsError) -> LabError {
    let folder = folder.to_owned();
    move |source| LabError::Results { folder, source }
}
