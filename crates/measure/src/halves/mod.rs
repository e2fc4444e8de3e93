//! Joining what hosts on machines of their own have measured.
//!
//! A role leaves a run folder with what its ends know: `frames.parquet` has the instants of its side of every message,
//! `ends.parquet` the rest. Both together are the logs of these ends as the [`Collector`] had them, so the logs of all
//! sides put together give what one collector of all events would have given.
//!
//! Two things are different on two machines. Cycle 0 of each began when it was started: cycles are put on the count of
//! the one that was started first. And an end that was not there yet, or not any more, took nothing: messages of such
//! cycles count as neither lost nor complete.

mod absorb;
mod clock;
mod clocks;
mod facts;
mod file;
mod folder;
mod long;

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};

use scenario::Scenario;
use serde_json::json;
use units::Nanos;

use crate::frames_file::FramesError;
use crate::store::{ENDS_FILE, broken_table, failed, write_file};
use crate::{Collector, FrameRow, Incident, Kind, Machine, Observations, ResultsError, RunFile, kinds, summarise};
pub use clocks::{Clocks, ClocksFrom, JoinClocks, OneWayRange, WatchedClock};

pub use long::{MOST_MESSAGES, join_into};

use clocks::Known;
use facts::{Fact, What};
use folder::Half;

/// Incidents that the process beside the ends found, not their traces.
const OF_THE_PROCESS: [&str; 3] = [kinds::PROCESS_ENDED, kinds::RECEIVE_OVERFLOW, kinds::PART_MISSING];

/// Keys of `machine` that are of one host even where all have the same.
const OF_ONE_HOST: [&str; 6] = ["role", "command", "part", "first_cycle", "first_cycle_at_ns", "granted"];

/// Why folders could not be joined.
#[derive(Debug)]
pub enum JoinError {
    /// A folder could not be read.
    Results(ResultsError),
    /// They do not belong together, or hold nothing to join.
    Refused {
        /// What is in the way.
        what: String,
        /// How to mend it.
        mend: String,
    },
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Results(error) => error.fmt(f),
            Self::Refused { what, mend } => write!(f, "{what}\n  mend: {mend}"),
        }
    }
}

impl std::error::Error for JoinError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Results(error) => Some(error),
            Self::Refused { .. } => None,
        }
    }
}

impl From<ResultsError> for JoinError {
    fn from(error: ResultsError) -> Self {
        Self::Results(error)
    }
}

fn refused(what: impl Into<String>, mend: impl Into<String>) -> JoinError {
    JoinError::Refused { what: what.into(), mend: mend.into() }
}

/// A run out of the folders of its sides.
#[derive(Debug)]
pub struct Joined {
    /// What was run.
    pub scenario: Scenario,
    /// The result, as for `run.json`.
    pub run: RunFile,
    /// The messages, as for `frames.parquet`.
    pub rows: Vec<FrameRow>,
}

impl Collector {
    /// Writes `ends.parquet` into a run folder: what the ends that are observed here know beside their messages. With
    /// it [`join_folders`] can join the folder with those of other hosts.
    ///
    /// # Errors
    /// When the operating system refuses; a full disk is told as such.
    pub fn write_ends(&self, dir: &Path, scenario: &Scenario) -> Result<(), ResultsError> {
        std::fs::create_dir_all(dir).map_err(|source| failed(dir, "create", source))?;
        let names: Vec<_> = scenario.streams.iter().map(|stream| stream.name.as_str()).collect();
        write_file(dir, ENDS_FILE, |out| file::write(out, &names, self.facts(scenario)))
    }

    fn facts<'a>(&'a self, scenario: &'a Scenario) -> impl Iterator<Item = Fact> + 'a {
        let logs = || self.streams.iter().zip(0..);
        let ends = logs().flat_map(|(log, number)| (0..2).flat_map(move |side| facts::of_end(number, log, side)));
        let lost = self.lost_records.iter().filter_map(move |&(host, records)| {
            let here = |(number, side): &(u16, u8)| {
                let stream = &scenario.streams[usize::from(*number)];
                let end = [stream.writer, stream.reader][usize::from(*side)];
                end == host && !self.streams[usize::from(*number)].ends[usize::from(*side)].elsewhere
            };
            let (stream, end) = logs().flat_map(|(_, number)| [(number, 0), (number, 1)]).find(here)?;
            let mut values = [crate::collect::NONE; facts::VALUES];
            values[0] = i64::try_from(records).unwrap_or(i64::MAX);
            Some(Fact { stream, end, what: What::LostRecords, values })
        });
        ends.chain(lost)
    }
}

/// Joins run folders that roles have left, one or more a host, into the run that they were.
///
/// The clocks of the hosts are taken to be within `clocks` of each other; nobody can know that but the user, or who
/// watched PTP. A message that arrives earlier than that allows is an incident, and one-way limits are met only with the
/// error added. Of a side whose process was killed the parts that it had finished are joined, and the result says what is
/// missing.
///
/// # Errors
/// A folder cannot be read, is of no role, of another scenario, of a side that another one has; or no stream has both
/// ends, at one time.
pub fn join_folders(folders: &[PathBuf], clocks: impl Into<JoinClocks>) -> Result<Joined, JoinError> {
    let clocks = clocks.into().known()?;
    let halves = folders.iter().map(|dir| Half::open(dir)).collect::<Result<Vec<_>, _>>()?;
    let clocks = clocks.with_stamps(halves.iter().map(|half| half.stamp_error));
    whole(&halves, &clocks)
}

/// Joins sides in one go, in memory.
fn whole(halves: &[Half], clocks: &Known) -> Result<Joined, JoinError> {
    let scenario = folder::one_scenario(halves)?;
    let mut joining = Joining::of(halves, &scenario);
    for (number, half) in halves.iter().enumerate() {
        for part in &half.parts {
            joining.absorb(number, part)?;
        }
    }
    let Joining { mut collector, owners, mut incidents, base, .. } = joining;
    incidents.extend(incomplete(&mut collector, &scenario, halves, &owners));
    meet(&mut collector, &scenario, halves)?;
    let machine = machine(halves, base, scenario.base_time.0, scenario.cycle, clocks.error);
    let (mut run, observations) = concluded(collector, &scenario, incidents, machine, clocks.error);
    let unwatched = clocks.tell(&mut run, lasted(halves, instants(&observations.rows)));
    run.incidents.extend(unwatched);
    run.incidents.sort_by_key(|incident| incident.at_ns);
    Ok(Joined { scenario, run, rows: observations.rows })
}

/// Sides on their way into one collector.
struct Joining<'a> {
    halves: &'a [Half],
    scenario: &'a Scenario,
    collector: Collector,
    /// Which side has each end.
    owners: Vec<[Option<usize>; 2]>,
    /// What processes beside the ends told of.
    incidents: Vec<Incident>,
    /// When the side began that was started first.
    base: Option<i64>,
}

impl<'a> Joining<'a> {
    fn of(halves: &'a [Half], scenario: &'a Scenario) -> Self {
        Self {
            halves,
            scenario,
            collector: Collector::of_ends(scenario, |_, _| false),
            owners: vec![[None; 2]; scenario.streams.len()],
            incidents: Vec::new(),
            base: halves.iter().filter_map(|half| half.begun).min(),
        }
    }

    /// Takes a folder with rows of a side.
    fn absorb(&mut self, number: usize, part: &Path) -> Result<Machine, JoinError> {
        let Self { halves, scenario, collector, owners, .. } = self;
        let shifts: Vec<_> =
            scenario.streams.iter().map(|stream| halves[number].shift(self.base, stream.cycle)).collect();
        let run = absorb_part(collector, scenario, part, &shifts, |stream, side| {
            claim(owners, (stream, side), number).map_err(|other| {
                let name = &scenario.streams[stream].name;
                let end = ["writer", "reader"][side];
                let [one, two] = [other, number].map(|number| halves[number].dir.display());
                refused(
                    format!("{one} and {two} both hold the {end} of stream {name}"),
                    "name one folder a side; a role that was started twice has left two runs, to be joined apart",
                )
            })
        })?;
        let of_the_process = |incident: &Incident| OF_THE_PROCESS.contains(&incident.kind.as_str());
        self.incidents.extend(run.incidents.into_iter().filter(of_the_process));
        Ok(run.machine)
    }
}

/// The result of what a collector has.
fn concluded(
    collector: Collector,
    scenario: &Scenario,
    incidents: Vec<Incident>,
    machine: Machine,
    clock_error: Nanos,
) -> (RunFile, Observations) {
    let mut observations = collector.finish(scenario);
    observations.incidents.extend(incidents);
    observations.incidents.extend(clock::disagreements(scenario, &observations.rows, clock_error));
    let (kept, left_out) = crate::incidents::most(std::mem::take(&mut observations.incidents));
    observations.incidents = kept;
    for (kind, count) in left_out {
        *observations.incidents_left_out.entry(kind).or_insert(0) += count;
    }
    let mut run = summarise(scenario, &observations, Kind::Measured, machine);
    clock::judge(&mut run.verdict, clock_error);
    (run, observations)
}

/// Notes that a folder has an end; gives the folder that has it already.
fn claim(owners: &mut [[Option<usize>; 2]], (stream, side): (usize, usize), number: usize) -> Result<(), usize> {
    let owner = &mut owners[stream][side];
    match *owner {
        Some(other) if other != number => Err(other),
        _ => {
            *owner = Some(number);
            Ok(())
        }
    }
}

/// Marks the ends of sides of which something is missing, so that what may have been there counts as unknown; tells of it.
fn incomplete(
    collector: &mut Collector,
    scenario: &Scenario,
    halves: &[Half],
    owners: &[[Option<usize>; 2]],
) -> Vec<Incident> {
    let mut incidents = Vec::new();
    for (number, half) in halves.iter().enumerate() {
        let Some(missing) = &half.missing else { continue };
        let mut last: Option<(i64, i64)> = None;
        for (stream, owners) in owners.iter().enumerate() {
            for side in (0..2).filter(|side| owners[*side] == Some(number)) {
                last = last.max(collector.streams[stream].ends[side].is_incomplete());
            }
        }
        let host = half.host().unwrap_or("a host");
        let known = match last {
            Some((_, cycle)) => {
                format!("what it was until cycle {cycle} is known, and joined, but for what is missing")
            }
            None => "nothing of it is known".to_owned(),
        };
        let streams = scenario.streams.len();
        let whose = if streams == 1 { "its end" } else { "its ends" };
        incidents.push(Incident {
            at_ns: last.map_or(0, |(at, _)| at),
            kind: kinds::PART_MISSING.to_owned(),
            cause: format!(
                "{host}: {}: {missing}. Of {whose} {known}; messages beyond count as neither lost nor complete (`unknown`)",
                half.dir.display()
            ),
            frames: 0,
            lasted_ns: None,
            place: Some(host.to_owned()),
        });
    }
    incidents
}

/// The first and last instant of rows.
fn instants(rows: &[FrameRow]) -> Option<(i64, i64)> {
    let instants = || rows.iter().flat_map(|row| row.t).flatten();
    Some((instants().min()?, instants().max()?))
}

/// From when to when the hosts ran together, nanoseconds UTC, if one says what its clock believes of that.
fn lasted(halves: &[Half], instants: Option<(i64, i64)>) -> Option<(i64, i64)> {
    let offset =
        halves.iter().find_map(|half| half.machine.get("tai_minus_utc_s")?.as_i64())?.saturating_mul(1_000_000_000);
    instants.map(|(first, last)| (first.saturating_sub(offset), last.saturating_sub(offset)))
}

/// Takes a folder with rows into the collector; `claim` is asked about every end that it holds.
fn absorb_part(
    collector: &mut Collector,
    scenario: &Scenario,
    dir: &Path,
    shifts: &[i64],
    mut claim: impl FnMut(usize, usize) -> Result<(), JoinError>,
) -> Result<RunFile, JoinError> {
    let (run, rows, _) = crate::read_run(dir)?;
    // The scenarios are the same but for interfaces, so the streams are.
    for row in &rows {
        if let (Some(log), Some(shift)) =
            (collector.streams.get_mut(usize::from(row.stream)), shifts.get(usize::from(row.stream)))
        {
            log.row(row, *shift);
        }
    }
    drop(rows);
    let path = dir.join(ENDS_FILE);
    let file = File::open(&path).map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => folder::without_ends(dir, &run.machine),
        _ => failed(&path, "read", source).into(),
    })?;
    let bytes = file.metadata().map_err(|source| failed(&path, "read", source))?.len();
    let names: Vec<_> = scenario.streams.iter().map(|stream| stream.name.as_str()).collect();
    let mut claimed = Ok(());
    let mut lost = Vec::new();
    let read = file::read(file, &names, |fact| {
        let (stream, side) = (usize::from(fact.stream), usize::from(fact.end));
        let (Some(log), Some(shift)) = (collector.streams.get_mut(stream), shifts.get(stream)) else { return Ok(()) };
        match fact.what {
            What::End if claimed.is_ok() => {
                claimed = claim(stream, side);
                log.ends[side].elsewhere = false;
            }
            What::LostRecords => {
                let ends = &scenario.streams[stream];
                lost.push(([ends.writer, ends.reader][side], u64::try_from(fact.values[0]).unwrap_or(0)));
            }
            _ => {}
        }
        facts::take(log, &fact, *shift)
    });
    claimed?;
    read.map_err(|error: FramesError| broken_table(&path, bytes, error, file::ENDS_FORMAT))?;
    lost.into_iter().for_each(|(host, records)| collector.lost_records(host, records));
    Ok(run)
}

/// Looks when the ends of each stream were there together.
fn meet(collector: &mut Collector, scenario: &Scenario, halves: &[Half]) -> Result<(), JoinError> {
    let (mut whole, mut apart) = (0, None);
    for (stream, log) in scenario.streams.iter().zip(&mut collector.streams) {
        if log.ends.iter().any(|end| end.elsewhere) {
            continue;
        }
        whole += 1;
        let lasted = log.lasted();
        if let Err(lasted) = log.meet(lasted) {
            apart = apart.or(Some((stream, lasted)));
            whole -= 1;
        }
    }
    if whole > 0 {
        return Ok(());
    }
    if let Some((stream, [writer, reader])) = apart {
        let told = |(first, last): (i64, i64)| format!("cycles {first} to {last}");
        return Err(refused(
            format!(
                "they were not there at one time: the writer of stream {} ran in {}, its reader in {}, counted from the \
                 start of the first",
                stream.name,
                told(writer),
                told(reader)
            ),
            "join folders of one test; cycles are numbered by TAI, so look whether `machine.tai_minus_utc_s` in \
             run.json is the same in all",
        ));
    }
    let held: Vec<_> = halves.iter().map(Half::told).collect();
    Err(refused(
        format!("no stream has both its ends in these folders: {}", held.join("; ")),
        "name the folder of the other side too, of `publish` and of `loopback` or `subscribe`",
    ))
}

/// What the joined run ran on: what all hosts have in common, and each for itself.
fn machine(halves: &[Half], base: Option<i64>, base_time: i64, cycle: Nanos, clock_error: Nanos) -> Machine {
    let mut machine = Machine::new();
    if let Some((first, others)) = halves.split_first() {
        let shared = first.machine.iter().filter(|(key, value)| {
            !OF_ONE_HOST.contains(&key.as_str()) && others.iter().all(|half| half.machine.get(*key) == Some(value))
        });
        machine.extend(shared.map(|(key, value)| (key.clone(), value.clone())));
    }
    let each: Vec<_> = halves
        .iter()
        .map(|half| {
            let mut told = json!({ "folder": half.dir.display().to_string(), "machine": half.machine });
            if let Some(missing) = &half.missing {
                told["missing"] = missing.as_str().into();
            }
            told
        })
        .collect();
    machine.insert("joined".into(), each.into());
    machine.insert("clock_error_ns".into(), clock_error.0.into());
    if let Some(base) = base {
        machine.insert("first_cycle_at_ns".into(), base.into());
        machine.insert("first_cycle".into(), base.saturating_sub(base_time).div_euclid(cycle.0.max(1)).into());
    }
    machine
}
