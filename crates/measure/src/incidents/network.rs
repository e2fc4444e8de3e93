//! Losses, late launches, broken messages and missing traces.

use super::Seen;
use crate::{FrameRow, Incident, flags, kinds, words};

/// Losses and late launches this many cycles apart are one incident.
const TOGETHER_CYCLES: i64 = 10;
/// So many frames lost in a row before the reader make a silent writer.
const SILENT_FRAMES: u64 = 10;
/// Ends may stop so many cycles apart: never in the same one.
const APART_CYCLES: i64 = 40;

/// Rows of one kind that lie close together.
struct Burst {
    first: usize,
    last: usize,
    count: u64,
    /// Longest run of rows without one of another kind between.
    longest_run: u64,
    run: u64,
}

fn bursts(rows: &[FrameRow], member: impl Fn(&FrameRow) -> bool) -> Vec<Burst> {
    let mut bursts: Vec<Burst> = Vec::new();
    for (index, _) in rows.iter().enumerate().filter(|(_, row)| member(row)) {
        match bursts.last_mut() {
            Some(burst) if rows[index].cycle.saturating_sub(rows[burst.last].cycle) <= TOGETHER_CYCLES => {
                burst.run = if burst.last + 1 == index { burst.run + 1 } else { 1 };
                burst.longest_run = burst.longest_run.max(burst.run);
                burst.count += 1;
                burst.last = index;
            }
            _ => bursts.push(Burst { first: index, last: index, count: 1, longest_run: 1, run: 1 }),
        }
    }
    bursts
}

fn began(row: &FrameRow) -> i64 {
    row.at(1).or_else(|| row.t.iter().flatten().copied().min()).unwrap_or(0)
}

/// Frames lost while no host was late.
pub(super) fn lost(seen: &Seen<'_>) -> Vec<Incident> {
    let (writer, reader) = (seen.host(0), seen.host(1));
    let path = |ports: &[scenario::PortId]| {
        let names: Vec<_> = ports.iter().map(|&port| seen.scenario.port_name(port)).collect();
        names.join(", ")
    };
    let places = [
        (flags::LOST_PUBLISHER, format!("at the publisher: handed over, they never left {writer}")),
        (
            flags::LOST_OUT,
            format!("between {writer} and {reader} ({}): they left, they never arrived", path(&seen.stream.path)),
        ),
        (
            flags::LOST_LOOPBACK,
            format!(
                "at {reader}: replaced by a newer message before its application took them, the answer never left, or \
                 it had stopped"
            ),
        ),
        (
            flags::LOST_BACK,
            format!(
                "between {reader} and {writer} ({}): the answers left, they never arrived",
                path(&seen.stream.return_path)
            ),
        ),
        (
            flags::LOST_UNPLACED,
            match seen.log.ends[1].elsewhere {
                true => format!("at a place unknown: {reader} runs elsewhere, and nothing came back"),
                false => format!("at a place unknown: the trace of {reader} is missing"),
            },
        ),
    ];
    let mut incidents = Vec::new();
    for (place, text) in places {
        for burst in bursts(seen.rows, |row| row.has(place) && !row.has(flags::HOST_OUTLIER)) {
            let (first, last) = (&seen.rows[burst.first], &seen.rows[burst.last]);
            let frames = words::number(burst.count, "frame");
            let cycles = words::cycles(first.cycle, last.cycle);
            let before_reader = place & (flags::LOST_PUBLISHER | flags::LOST_OUT) != 0;
            let (kind, cause) = if before_reader && burst.longest_run >= SILENT_FRAMES {
                let heard = format!("{reader} heard nothing of stream {} though {writer} published", seen.stream.name);
                (kinds::WRITER_SILENT, format!("{heard}; {frames} of {cycles} were lost {text}"))
            } else {
                let verb = if burst.count == 1 { "was" } else { "were" };
                (kinds::FRAMES_LOST, format!("stream {}: {frames} of {cycles} {verb} lost {text}", seen.stream.name))
            };
            let mut incident = seen.incident(kind, began(first), cause, burst.count);
            incident.lasted_ns = Some(began(last).saturating_sub(began(first)));
            incidents.push(incident);
        }
    }
    incidents
}

/// Frames that left late while no host was late.
pub(super) fn launched_late(seen: &Seen<'_>) -> Vec<Incident> {
    let late = |row: &FrameRow| row.has(flags::LATE_LAUNCH) && !row.has(flags::HOST_OUTLIER);
    let after = |row: &FrameRow| {
        row.at(2).or(row.at(1)).zip(row.launch).map_or(0, |(left, launch)| left.saturating_sub(launch))
    };
    let describe = |burst: Burst| {
        let (first, last) = (&seen.rows[burst.first], &seen.rows[burst.last]);
        let rows = seen.rows[burst.first..=burst.last].iter().filter(|row| late(row));
        let worst = rows.map(after).max().unwrap_or(0);
        let cause = format!(
            "{}: {} of stream {} in {} left up to {} after the launch time; no phase was late, so its port or what \
             launches held them back",
            seen.host(0),
            words::number(burst.count, "frame"),
            seen.stream.name,
            words::cycles(first.cycle, last.cycle),
            words::span(worst)
        );
        let mut incident = seen.incident(kinds::LAUNCH_LATE, began(first), cause, burst.count);
        incident.lasted_ns = Some(began(last).saturating_sub(began(first)));
        incident
    };
    bursts(seen.rows, late).into_iter().map(describe).collect()
}

/// Messages whose variables differ or whose tag is another.
pub(super) fn broken(seen: &Seen<'_>) -> Vec<Incident> {
    let mut incidents = Vec::new();
    for (side, end) in seen.log.ends.iter().enumerate() {
        let (host, stream) = (seen.host(side), seen.stream);
        if let Some(first) = end.inconsistent {
            let cause = format!(
                "{host}: {} of stream {} held variables of different cycles, the first with counter {}",
                words::number(first.count, "message"),
                stream.name,
                first.what
            );
            incidents.push(seen.incident(kinds::INCONSISTENT_SET, first.at, cause, first.count));
        }
        if let Some(first) = end.wrong_tag {
            let found = match first.what {
                Some((vid, pcp)) => format!("with VID {vid} and PCP {pcp}"),
                None => "without a tag".to_owned(),
            };
            let cause = format!(
                "{host}: {} of stream {} came {found} instead of VID {} and PCP {}; something on the way changed or \
                 removed the tag",
                words::number(first.count, "message"),
                stream.name,
                stream.vid,
                stream.pcp
            );
            incidents.push(seen.incident(kinds::WRONG_TAG, first.at, cause, first.count));
        }
    }
    incidents
}

/// Ends that left no trace or stopped early.
pub(super) fn trace_missing(seen: &Seen<'_>) -> Vec<Incident> {
    let ends = &seen.log.ends;
    if ends.iter().all(|end| !end.seen) {
        return Vec::new();
    }
    let at = seen.rows.first().map_or(seen.scenario.base_time.0, began);
    let mut incidents = Vec::new();
    for side in 0..2 {
        let (host, name) = (seen.host(side), &seen.stream.name);
        if !ends[side].seen && ends[side].elsewhere {
            continue;
        }
        if !ends[side].seen {
            let cause = format!(
                "{host} left no trace of stream {name}: what happened there is not known and not counted; did it start?"
            );
            incidents.push(seen.incident(kinds::TRACE_MISSING, at, cause, 0));
            continue;
        }
        // Hosts that were stopped one after the other did not stop each other.
        if seen.log.together.is_some() {
            continue;
        }
        // Where records found no room the trace has gaps, and another incident says so.
        if let (Some(last), Some(other), true) =
            (ends[side].last_cycle, ends[1 - side].last_cycle, ends[side].gaps.is_empty())
        {
            let behind = other.saturating_sub(last);
            if behind > APART_CYCLES && behind > other.saturating_sub(first_cycle(seen)) / 20 {
                let cause = format!(
                    "{host}: its trace of stream {name} ends with cycle {last}, {behind} cycles before that of {}; \
                     it stopped or was stopped",
                    seen.host(1 - side)
                );
                let frames = seen.rows.iter().filter(|row| row.cycle > last && row.has(flags::LOST)).count() as u64;
                incidents.push(seen.incident(kinds::TRACE_MISSING, seen.cycle_start(side, last), cause, frames));
            }
        }
    }
    incidents
}

fn first_cycle(seen: &Seen<'_>) -> i64 {
    seen.rows.first().map_or(0, |row| row.cycle)
}
