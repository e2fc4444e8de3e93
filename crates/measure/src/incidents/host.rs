//! Late hosts: phases that began late, cycles left out, and the frames they held up.

use scenario::{HostId, Scenario};

use super::rows_of;
use crate::collect::{Outlier, StreamLog};
use crate::dist::median;
use crate::{FrameRow, Incident, flags, kinds, words};

/// A stretch of time in which a host did not do what was due.
#[derive(Debug, Clone)]
struct Stop {
    begin: i64,
    end: i64,
    worst: Option<Outlier>,
    late_phases: u64,
    skipped: u64,
    cycles: (i64, i64),
    frames: u64,
}

/// Finds the stops of every host and marks the rows that were under way meanwhile.
pub(super) fn late(scenario: &Scenario, rows: &mut [FrameRow], logs: &[StreamLog]) -> Vec<Incident> {
    let mut incidents = Vec::new();
    let typical: Vec<_> = (0..logs.len())
        .map(|number| Typical::of(&rows[rows_of(rows, number)], scenario.streams[number].cycle.0))
        .collect();
    for host in (0..scenario.hosts.len()).map(HostId) {
        let mut stops = stops(scenario, logs, host);
        if stops.is_empty() {
            continue;
        }
        for (number, stream) in scenario.streams.iter().enumerate() {
            if stream.writer == host || stream.reader == host {
                let range = rows_of(rows, number);
                mark(&mut stops, &mut rows[range], &typical[number]);
            }
        }
        // A late phase that made no frame late is an outlier of the host, counted there, and no incident.
        stops.retain(|stop| stop.frames > 0 || stop.skipped > 0);
        incidents.extend(stops.into_iter().map(|stop| incident(&scenario.host(host).name, &stop)));
    }
    incidents
}

/// Stops of a host over all its streams, merged and in order.
fn stops(scenario: &Scenario, logs: &[StreamLog], host: HostId) -> Vec<Stop> {
    let mut all = Vec::new();
    let mut longest_cycle = 0;
    for (stream, log) in scenario.streams.iter().zip(logs) {
        for (_, end) in [stream.writer, stream.reader].into_iter().zip(&log.ends).filter(|&(at, _)| at == host) {
            longest_cycle = longest_cycle.max(stream.cycle.0);
            all.extend(end.outliers.iter().map(|&phase| Stop {
                begin: phase.due,
                end: phase.due.saturating_add(phase.late).saturating_add(phase.took),
                worst: Some(phase),
                late_phases: 1,
                skipped: 0,
                cycles: (phase.cycle, phase.cycle),
                frames: 0,
            }));
            let origin = end.origin.unwrap_or(scenario.base_time.0);
            all.extend(end.skipped.iter().map(|&(cycle, cycles)| {
                let begin = origin.saturating_add(cycle.saturating_mul(stream.cycle.0));
                Stop {
                    begin,
                    end: begin.saturating_add(i64::from(cycles).saturating_mul(stream.cycle.0)),
                    worst: None,
                    late_phases: 0,
                    skipped: u64::from(cycles),
                    cycles: (cycle, cycle.saturating_add(i64::from(cycles) - 1)),
                    frames: 0,
                }
            }));
        }
    }
    all.sort_by_key(|stop| (stop.begin, stop.end));
    let mut merged: Vec<Stop> = Vec::new();
    for stop in all {
        match merged.last_mut() {
            Some(last) if stop.begin <= last.end.saturating_add(2 * longest_cycle) => last.take(stop),
            _ => merged.push(stop),
        }
    }
    merged
}

impl Stop {
    fn take(&mut self, other: Self) {
        self.end = self.end.max(other.end);
        self.late_phases += other.late_phases;
        self.skipped += other.skipped;
        self.cycles = (self.cycles.0.min(other.cycles.0), self.cycles.1.max(other.cycles.1));
        let late = |worst: &Option<Outlier>| worst.map(|phase| phase.late);
        if late(&other.worst) > late(&self.worst) {
            self.worst = other.worst;
        }
    }
}

/// What is usual for a stream, to tell which frames were late.
struct Typical {
    cycle: i64,
    /// T8 − T1, or T4 − T1 where nothing comes back.
    whole_way: Option<i64>,
    /// T1 within its cycle, up to a constant.
    hand_over: Option<i64>,
}

impl Typical {
    fn of(rows: &[FrameRow], cycle: i64) -> Self {
        let mut whole: Vec<_> = rows.iter().filter_map(whole_way).collect();
        let mut hand_over: Vec<_> = rows.iter().filter_map(|row| phase(row, cycle)).collect();
        Self { cycle, whole_way: median(&mut whole), hand_over: median(&mut hand_over) }
    }

    /// Half a cycle more than usual.
    fn is_late(&self, row: &FrameRow) -> bool {
        let beyond = |found: Option<i64>, usual: Option<i64>| {
            found.zip(usual).is_some_and(|(found, usual)| found.saturating_sub(usual) > self.cycle / 2)
        };
        beyond(whole_way(row), self.whole_way) || beyond(phase(row, self.cycle), self.hand_over)
    }

    /// From when to when a message was under way.
    fn life(&self, row: &FrameRow) -> Option<(i64, i64)> {
        let begin = row.t.iter().flatten().copied().min()?;
        let end = row.t.iter().flatten().copied().max()?;
        let unfinished = row.has(flags::LOST | flags::UNDER_WAY);
        let usual = if unfinished { self.whole_way.unwrap_or(self.cycle) } else { 0 };
        Some((begin, end.max(begin.saturating_add(usual))))
    }
}

fn whole_way(row: &FrameRow) -> Option<i64> {
    row.round_trip_stack().or_else(|| row.one_way_stack())
}

fn phase(row: &FrameRow, cycle: i64) -> Option<i64> {
    if row.has(flags::NOT_SEEN_PUBLISHED) {
        return None;
    }
    row.at(1)?.checked_sub(row.cycle.checked_mul(cycle)?)
}

/// Marks the rows under way during a stop and counts those that it made late or lost.
fn mark(stops: &mut [Stop], rows: &mut [FrameRow], typical: &Typical) {
    for row in rows {
        let Some((begin, end)) = typical.life(row) else { continue };
        let first = stops.partition_point(|stop| stop.end < begin);
        let Some(stop) = stops.get_mut(first).filter(|stop| stop.begin <= end) else { continue };
        row.flags |= flags::HOST_OUTLIER;
        stop.frames += u64::from(row.has(flags::LOST) || typical.is_late(row));
    }
}

fn incident(host: &str, stop: &Stop) -> Incident {
    let lasted = stop.end.saturating_sub(stop.begin);
    let mut cause = match stop.worst {
        Some(worst) => format!(
            "{host}: the {} phase of cycle {} began {} late; the host, not the network, stopped it",
            worst.phase.key(),
            worst.cycle,
            words::span(worst.late),
        ),
        None => format!(
            "{host}: {} left out ({}); the host, not the network, stopped it",
            words::number(stop.skipped, "cycle"),
            words::cycles(stop.cycles.0, stop.cycles.1),
        ),
    };
    if stop.late_phases > 1 {
        cause += &format!(
            " ({} late in {}, {} in all)",
            words::number(stop.late_phases, "phase"),
            words::cycles(stop.cycles.0, stop.cycles.1),
            words::span(lasted)
        );
    }
    if stop.worst.is_some() && stop.skipped > 0 {
        cause += &format!("; {} left out", words::number(stop.skipped, "cycle"));
    }
    Incident {
        at_ns: stop.begin,
        kind: kinds::HOST_LATE.to_owned(),
        cause,
        frames: stop.frames,
        lasted_ns: Some(lasted),
        place: Some(host.to_owned()),
    }
}
