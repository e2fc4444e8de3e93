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
    /// The text of its scenario.
    scenario: String,
    /// When its cycle 0 began, nanoseconds TAI.
    pub(super) begun: Option<i64>,
}

impl Half {
    /// Opens a folder.
    pub(super) fn open(dir: &Path) -> Result<Self, JoinError> {
        if !dir.join(RUN).exists() && dir.join("part-0001").exists() {
            return Err(refused(
                format!(
                    "{}: it holds parts and no {RUN}: the process was killed before it could write the whole",
                    dir.display()
                ),
                "join its parts one by one with those of the other side, as folders of their own",
            ));
        }
        let run = read_run_file(&dir.join(RUN))?;
        let scenario = read_scenario_text(dir, &run)?;
        if let Some(gap) = run.parts.iter().zip(1..).find(|(part, number)| part.folder != part_name(*number)) {
            let missing = dir.join(part_name(gap.1));
            return Err(refused(
                format!("{}: a part of the run is missing: it could not be written", missing.display()),
                "join the parts that there are one by one with those of the other side",
            ));
        }
        let parts: Vec<_> = match run.parts.as_slice() {
            [] => vec![dir.to_owned()],
            parts => parts.iter().map(|part| dir.join(&part.folder)).collect(),
        };
        if let Some(missing) = parts.iter().find(|part| !part.join(RUN).exists()) {
            return Err(refused(
                format!("{}: a part of the run is missing, {} names it", missing.display(), dir.join(RUN).display()),
                "copy the run folder again, with all its parts",
            ));
        }
        let begun = run.machine.get("first_cycle_at_ns").and_then(serde_json::Value::as_i64);
        Ok(Self { dir: dir.to_owned(), parts, machine: run.machine, scenario, begun })
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
