//! The folder of one side, before it is joined.

use std::path::{Path, PathBuf};

use scenario::Scenario;
use units::Nanos;

use super::{JoinError, refused};
use crate::store::{RUN, read_run_file, read_scenario_text};
use crate::{Machine, fingerprint};

/// What one role left.
#[derive(Debug)]
pub(super) struct Half {
    pub(super) dir: PathBuf,
    /// Folders with its rows: its parts, or itself.
    pub(super) parts: Vec<PathBuf>,
    pub(super) machine: Machine,
    /// The most that its stamps may be off its `CLOCK_TAI`, nanoseconds.
    pub(super) stamp_error: i64,
    /// The text of its scenario.
    scenario: String,
    /// When its cycle 0 began, nanoseconds TAI.
    pub(super) begun: Option<i64>,
    /// What is not here of it, in words.
    pub(super) missing: Option<String>,
}

impl Half {
    /// Opens a folder. Of a process that was killed, or a disk that was full, the parts that are whole are taken.
    pub(super) fn open(dir: &Path) -> Result<Self, JoinError> {
        let whole = dir.join(RUN).exists().then(|| read_run_file(&dir.join(RUN))).transpose()?;
        let named = whole.as_ref().map(|run| run.parts.iter().map(|part| part.folder.clone()).collect());
        let named: Vec<String> = named.unwrap_or_else(|| finished(dir));
        let run = match (whole, named.first()) {
            (Some(whole), _) => whole,
            (None, Some(first)) => read_run_file(&dir.join(first).join(RUN))?,
            (None, None) if dir.is_dir() => return Err(nothing_written(dir)),
            (None, None) => read_run_file(&dir.join(RUN))?,
        };
        let scenario_of = if dir.join(RUN).exists() { dir.to_owned() } else { dir.join(&named[0]) };
        let scenario = read_scenario_text(&scenario_of, &run)?;
        let parts: Vec<_> = match named.as_slice() {
            [] => vec![dir.to_owned()],
            parts => parts.iter().map(|part| dir.join(part)).collect(),
        };
        if let Some(missing) = parts.iter().find(|part| !part.join(RUN).exists()) {
            return Err(refused(
                format!("{}: a part of the run is missing, {} names it", missing.display(), dir.join(RUN).display()),
                "copy the run folder again, with all its parts",
            ));
        }
        let machine = run.machine;
        let mut stamp_error = crate::stamp_clock::stamp_error(&machine);
        if !dir.join(RUN).exists() {
            // Nobody has summed its parts up.
            for part in &parts {
                stamp_error =
                    stamp_error.max(crate::stamp_clock::stamp_error(&read_run_file(&part.join(RUN))?.machine));
            }
        }
        let begun = machine.get("first_cycle_at_ns").and_then(serde_json::Value::as_i64);
        let missing = missing(dir, &named);
        Ok(Self { dir: dir.to_owned(), parts, machine, stamp_error, scenario, begun, missing })
    }

    /// The host that it is of, for words.
    pub(super) fn host(&self) -> Option<&str> {
        self.machine.get("role")?.get("host")?.as_str()
    }

    /// By how many cycles its count is behind that which begins at `base`.
    pub(super) fn shift(&self, base: Option<i64>, cycle: Nanos) -> i64 {
        let (Some(base), Some(begun)) = (base, self.begun) else { return 0 };
        begun.saturating_sub(base).div_euclid(cycle.0.max(1))
    }

    /// The folder with the ends that it is of.
    pub(super) fn told(&self) -> String {
        let role = |key: &str| self.machine.get("role").and_then(|role| role.get(key)?.as_str());
        match (role("command"), role("host")) {
            (Some(command), Some(host)) => format!("{} is {command} of {host}", self.dir.display()),
            _ => self.dir.display().to_string(),
        }
    }
}

fn part_name(number: u32) -> String {
    format!("part-{number:04}")
}

/// The parts of a run that are whole, in their order: of one whose process could not write what it names.
fn finished(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut parts: Vec<_> = names.filter(|name| number(name).is_some() && dir.join(name).join(RUN).exists()).collect();
    parts.sort_by_key(|name| number(name));
    parts
}

fn number(part: &str) -> Option<u32> {
    part.strip_prefix("part-")?.parse().ok()
}

/// What is missing of a run of these parts, if anything is.
fn missing(dir: &Path, parts: &[String]) -> Option<String> {
    let mut expected = 1..;
    let mut gaps = Vec::new();
    for found in parts.iter().filter_map(|part| number(part)) {
        gaps.extend(expected.by_ref().take_while(|number| *number < found).map(part_name));
    }
    let killed = !dir.join(RUN).exists();
    let mut words = Vec::new();
    if !gaps.is_empty() {
        words.push(format!("{} could not be written", gaps.join(", ")));
    }
    if killed {
        let last = parts.last().map_or("", String::as_str);
        words.push(format!("its process was killed, what came after {last} was never written"));
    }
    (!words.is_empty()).then(|| words.join("; "))
}

/// A folder in which a role began and nothing else.
fn nothing_written(dir: &Path) -> JoinError {
    refused(
        format!(
            "{}: not found: {RUN}, or a part of the run: its process was killed before it had written anything, so nothing of \
             its side is known",
            dir.display()
        ),
        "the other side's folder stands for itself (`downbeat report`); a role with --rotate-every leaves the parts that it \
         had finished when it is killed",
    )
}

/// Why a folder has no `ends.parquet`.
pub(super) fn without_ends(dir: &Path, machine: &Machine) -> JoinError {
    if machine.contains_key("joined") {
        return refused(format!("{}: it is joined already", dir.display()), "name the folders that the roles left");
    }
    if machine.contains_key("role") {
        return refused(
            format!("{}: it has no ends.parquet, which a role writes since joining exists", dir.display()),
            "copy the run folder again; if an older version of Downbeat wrote it, play the role again",
        );
    }
    refused(
        format!("{}: it is a run of all its hosts, there is nothing to join", dir.display()),
        "name folders of `downbeat publish`, `loopback` and `subscribe`",
    )
}

/// The scenario of all halves.
pub(super) fn one_scenario(halves: &[Half]) -> Result<Scenario, JoinError> {
    let Some((first, others)) = halves.split_first().filter(|(_, others)| !others.is_empty()) else {
        return Err(refused("one folder cannot be joined", "name the folders of both sides"));
    };
    let scenario = read(first)?;
    for other in others.iter().filter(|other| fingerprint(&other.scenario) != fingerprint(&first.scenario)) {
        if !alike(&scenario, &read(other)?) {
            let (line, mine, theirs) = difference(&first.scenario, &other.scenario);
            return Err(refused(
                format!(
                    "{} and {} are of different scenarios: line {line} of scenario.toml is `{mine}` in the one and \
                     `{theirs}` in the other",
                    first.dir.display(),
                    other.dir.display()
                ),
                "all hosts play one scenario file; only what the machines are (`interface` and the like) may differ",
            ));
        }
    }
    Ok(scenario)
}

fn read(half: &Half) -> Result<Scenario, JoinError> {
    let path = half.dir.join("scenario.toml");
    scenario::read(&half.scenario, &path.display().to_string()).map_err(|errors| {
        refused(
            format!("{}: this version of Downbeat does not read it:\n{}", path.display(), errors.render()),
            "join with the version of Downbeat that wrote the folders",
        )
    })
}

/// Whether two scenarios are the same but for their texts and for what the machines are.
fn alike(one: &Scenario, other: &Scenario) -> bool {
    let plain = |scenario: &Scenario| {
        let mut plain = scenario.clone();
        plain.source.clear();
        plain.installation = Default::default();
        plain.ports.iter_mut().for_each(|port| port.interface = None);
        // A scenario holds nothing but plain values, so what it prints is all that it is.
        format!("{plain:?}")
    };
    plain(one) == plain(other)
}

/// The first line in which two texts differ.
fn difference<'a>(one: &'a str, other: &'a str) -> (usize, &'a str, &'a str) {
    let (mut mine, mut theirs) = (one.lines(), other.lines());
    for line in 1.. {
        match (mine.next(), theirs.next()) {
            (None, None) => break,
            (one, other) if one != other => return (line, one.unwrap_or("").trim(), other.unwrap_or("").trim()),
            _ => {}
        }
    }
    (1, "", "")
}
