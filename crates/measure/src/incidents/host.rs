//! Late hosts: phases that began late, cycles left out, and the frames they held up.

use scenario::{HostId, Scenario};
use units::Nanos;

use super::{Seen, rows_of};
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
    let hosts = (0..scenario.hosts.len()).map(HostId);
    let mut stops: Vec<Vec<Stop>> = hosts.map(|host| stops(scenario, logs, host)).collect();
    if stops.iter().all(Vec::is_empty) {
        return Vec::new();
    }
    for (number, stream) in scenario.streams.iter().enumerate() {
        let range = rows_of(rows, number);
        let typical = Typical::of(&rows[range.clone()], stream.cycle.0);
        mark(&mut stops, [stream.writer, stream.reader], &mut rows[range], &typical);
    }
    // A late phase that made no frame late is an outlier of the host, counted there, and no incident.
    let grave = |stop: &&Stop| stop.frames > 0 || stop.skipped > 0;
    let named = scenario.hosts.iter().zip(&stops);
    named.flat_map(|(host, stops)| stops.iter().filter(grave).map(|stop| incident(&host.name, stop))).collect()
}

/// The time was set while the ends of a stream ran. Threads tell it by their first end.
pub(super) fn clock_steps(seen: &Seen<'_>) -> Vec<Incident> {
    let mut incidents = Vec::new();
    for (side, end) in seen.log.ends.iter().enumerate() {
        for &(at, by) in &end.steps {
            let (way, span) = if by > 0 { ("forward", by) } else { ("back", -by) };
            let cause = format!(
                "{}: somebody set the time {way} by {}; cycles went on by the new time, and no span over this instant \
                 tells anything",
                seen.host(side),
                Nanos(span)
            );
            incidents.push(seen.incident(kinds::CLOCK_STEP, at, cause, 0));
        }
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

/// Marks the rows under way during a stop of either host. One that came late or never counts for the stop that held it
/// up longest.
fn mark(stops: &mut [Vec<Stop>], hosts: [HostId; 2], rows: &mut [FrameRow], typical: &Typical) {
    for row in rows {
        let Some((begin, end)) = typical.life(row) else { continue };
        let mut longest: Option<(i64, HostId, usize)> = None;
        for host in hosts {
            let own = &stops[host.0];
            let first = own.partition_point(|stop| stop.end < begin);
            for (index, stop) in own.iter().enumerate().skip(first).take_while(|(_, stop)| stop.begin <= end) {
                let overlap = stop.end.min(end).saturating_sub(stop.begin.max(begin));
                if longest.is_none_or(|(most, ..)| overlap > most) {
                    longest = Some((overlap, host, index));
                }
            }
        }
        if let Some((_, host, index)) = longest {
            row.flags |= flags::HOST_OUTLIER;
            stops[host.0][index].frames += u64::from(row.has(flags::LOST) || typical.is_late(row));
        }
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
            "{host}: stood still for {}, {} left out ({}); the host, not the network, stopped it",
            words::span(lasted),
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
