//! Joining sides that are too long for the memory, part by part.
//!
//! A role that goes on for long leaves parts. They are taken in the order of time, of whichever side has got least far;
//! what all sides have got beyond is cut off, as a run that goes on cuts off its parts, and written. So the memory that it
//! takes is that of a part of each side, however many there are.

use std::path::{Path, PathBuf};

use units::Tai;

use super::clocks::Known;
use super::{Half, JoinClocks, JoinError, Joining, concluded, folder, instants, lasted, machine, whole};
use crate::store::{RUN, read_run_file};
use crate::{Collector, OneWayRange, RunFile, Whole, write_run, write_whole};

/// Sides of more messages are joined part by part: as many take some 2 GB at once.
pub const MOST_MESSAGES: u64 = 4_000_000;

/// So long before all sides have got to an instant, messages handed over are no longer under way.
const UNDER_WAY_NS: i64 = 1_000_000_000;

/// Joins run folders as [`join_folders`](super::join_folders) does, and writes the run into `out`. Where they hold more
/// than `most` messages, in parts, it is one of parts too, as a rotated run is. `command` is the command line, for the
/// result.
///
/// # Errors
/// As for [`join_folders`](super::join_folders); or the run cannot be written.
pub fn join_into(
    folders: &[PathBuf],
    clocks: impl Into<JoinClocks>,
    (out, command): (&Path, &str),
    most: u64,
) -> Result<RunFile, JoinError> {
    let clocks = clocks.into().known()?;
    let halves = folders.iter().map(|dir| Half::open(dir)).collect::<Result<Vec<_>, _>>()?;
    let clocks = clocks.with_stamps(halves.iter().map(|half| half.stamp_error));
    let complete = halves.iter().all(|half| half.missing.is_none());
    let rotated = halves.iter().any(|half| half.parts.len() > 1);
    if complete && rotated && messages(&halves)? > most {
        return in_parts(&halves, &clocks, out, command);
    }
    let mut joined = whole(&halves, &clocks)?;
    joined.run.machine.insert("command".into(), command.into());
    write_run(out, &joined.scenario, &joined.run, &joined.rows)?;
    Ok(joined.run)
}

/// How many messages the side knows of that knows most.
fn messages(halves: &[Half]) -> Result<u64, JoinError> {
    let mut most = 0;
    for half in halves {
        let mut known = 0_u64;
        for part in &half.parts {
            let run = read_run_file(&part.join(RUN))?;
            known += run.streams.iter().map(|stream| stream.frames.max(stream.arrived.unwrap_or(0))).sum::<u64>();
        }
        most = most.max(known);
    }
    Ok(most)
}

fn in_parts(halves: &[Half], clocks: &Known, out: &Path, command: &str) -> Result<RunFile, JoinError> {
    let scenario = folder::one_scenario(halves)?;
    let mut joining = Joining::of(halves, &scenario);
    let mut machine = machine(halves, joining.base, scenario.base_time.0, scenario.cycle, clocks.error);
    machine.insert("command".into(), command.into());
    let mut writing = Writing { out, whole: Whole::new(), ranges: Vec::new(), instants: None, number: 0 };
    // How many parts of each side were taken, and until when it is known.
    let mut taken = vec![(0, i64::MIN); halves.len()];
    let mut ends = vec![[None::<(i64, i64)>; 2]; scenario.streams.len()];
    let mut cut = joining.base.unwrap_or(0);
    let behind = |taken: &[(usize, i64)]| {
        let left = |number: &usize| taken[*number].0 < halves[*number].parts.len();
        (0..halves.len()).filter(left).min_by_key(|number| taken[*number].1)
    };
    while let Some(number) = behind(&taken) {
        let parts = &halves[number].parts;
        let told = joining.absorb(number, &parts[taken[number].0])?;
        let until = told.get("part").and_then(|part| part["until_ns"].as_i64());
        let last = taken[number].0 + 1 == parts.len();
        taken[number] = (taken[number].0 + 1, if last { i64::MAX } else { until.unwrap_or(taken[number].1) });
        joining.note(number, last, &mut ends);
        let known = taken.iter().map(|(_, until)| *until).min().unwrap_or(i64::MIN);
        let before = known.saturating_sub(UNDER_WAY_NS);
        // Not before all sides have begun, nor for next to nothing.
        if known == i64::MAX || before < cut.saturating_add(UNDER_WAY_NS) {
            continue;
        }
        cut = before;
        joining.meet(&ends)?;
        let part = joining.collector.cut(Tai(before));
        writing.part(&mut joining, part, (&machine, clocks))?;
    }
    joining.meet(&ends)?;
    let rest = std::mem::replace(&mut joining.collector, Collector::of_ends(&scenario, |_, _| false));
    writing.part(&mut joining, rest, (&machine, clocks))?;
    writing.finish(&joining, (machine, clocks))
}

impl Joining<'_> {
    /// Notes from which cycle on the ends of a side were there, and where it was the last part, until when.
    fn note(&self, number: usize, last: bool, ends: &mut [[Option<(i64, i64)>; 2]]) {
        for ((log, ends), owners) in self.collector.streams.iter().zip(ends).zip(&self.owners) {
            for (side, lasted) in log.lasted().into_iter().enumerate().filter(|(side, _)| owners[*side] == Some(number))
            {
                let known = &mut ends[side];
                *known = known.or(lasted.map(|(first, _)| (first, i64::MAX)));
                if let (true, Some(known)) = (last, known) {
                    known.1 = log.ends[side].last_cycle.unwrap_or(i64::MAX);
                }
            }
        }
    }

    /// Notes in which cycles both ends of each stream were there.
    fn meet(&mut self, ends: &[[Option<(i64, i64)>; 2]]) -> Result<(), JoinError> {
        let both = |log: &&mut crate::collect::StreamLog| !log.ends.iter().any(|end| end.elsewhere);
        let met =
            self.collector.streams.iter_mut().zip(ends).filter(|(log, _)| both(log)).map(|(log, ends)| log.meet(*ends));
        if met.filter(Result::is_ok).count() > 0 {
            return Ok(());
        }
        // The same words as in one go, of what is here.
        super::meet(&mut self.collector, self.scenario, self.halves)
    }
}

/// Parts on their way to the disk.
struct Writing<'a> {
    out: &'a Path,
    whole: Whole,
    ranges: Vec<OneWayRange>,
    instants: Option<(i64, i64)>,
    number: u32,
}

impl Writing<'_> {
    fn part(
        &mut self,
        joining: &mut Joining<'_>,
        part: Collector,
        (machine, clocks): (&crate::Machine, &Known),
    ) -> Result<(), JoinError> {
        self.number += 1;
        let name = format!("part-{:04}", self.number);
        let incidents = std::mem::take(&mut joining.incidents);
        let (mut run, observations) = concluded(part, joining.scenario, incidents, machine.clone(), clocks.error);
        _ = clocks.tell(&mut run, None);
        run.incidents.sort_by_key(|incident| incident.at_ns);
        for range in run.clocks.iter().flat_map(|clocks| &clocks.one_way) {
            let same = |known: &&mut OneWayRange| (&known.stream, &known.quantity) == (&range.stream, &range.quantity);
            match self.ranges.iter_mut().find(same) {
                Some(known) => {
                    known.count += range.count;
                    known.least_ns = known.least_ns.min(range.least_ns);
                    known.most_ns = known.most_ns.max(range.most_ns);
                }
                None => self.ranges.push(range.clone()),
            }
        }
        let both = self.instants.into_iter().chain(instants(&observations.rows));
        self.instants = both.reduce(|(first, last), (from, to)| (first.min(from), last.max(to)));
        write_run(&self.out.join(&name), joining.scenario, &run, &observations.rows)?;
        self.whole.add(name, run, &observations.streams);
        Ok(())
    }

    fn finish(self, joining: &Joining<'_>, (machine, clocks): (crate::Machine, &Known)) -> Result<RunFile, JoinError> {
        let nothing = || super::refused("they hold nothing", "name folders of roles that have run");
        let mut run = self.whole.finish(joining.scenario, machine).ok_or_else(nothing)?;
        super::clock::judge(&mut run.verdict, clocks.error);
        let unwatched = clocks.tell(&mut run, lasted(joining.halves, self.instants));
        run.incidents.extend(unwatched);
        run.incidents.sort_by_key(|incident| incident.at_ns);
        if let Some(clocks) = &mut run.clocks {
            clocks.one_way = self.ranges;
        }
        write_whole(self.out, joining.scenario, &run)?;
        Ok(run)
    }
}
