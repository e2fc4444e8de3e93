//! Joining both ends: rows, counts of losses, and lateness of the hosts.

use std::collections::BTreeMap;

use scenario::{HostId, Scenario, Stream};

use crate::collect::{EndLog, Message, NONE, StreamLog, outlier_after};
use crate::{Counters, Dist, FrameRow, HostResult, Loss, LostLaunches, Observations, Phase, StreamObservations, flags};
use crate::{breaches, drains, explain, fates, gaps, incidents, outside};

/// Cycles left out, in order and none twice: threads with a phase each leave out the same ones when their host stands still.
fn apart(mut skipped: Vec<(i64, u32)>) -> Vec<(i64, u32)> {
    skipped.sort_unstable();
    let mut found: Vec<(i64, u32)> = Vec::with_capacity(skipped.len());
    for (cycle, cycles) in skipped {
        let known = found.last().map_or(i64::MIN, |&(first, count)| first.saturating_add(i64::from(count)));
        let begin = cycle.max(known);
        let left = cycle.saturating_add(i64::from(cycles)).saturating_sub(begin);
        if let Some(left) = u32::try_from(left).ok().filter(|left| *left > 0) {
            match found.last_mut() {
                Some(last) if cycle < known => last.1 = last.1.saturating_add(left),
                _ => found.push((begin, left)),
            }
        }
    }
    found
}

/// Joins the logs of all streams.
pub(crate) fn join(scenario: &Scenario, mut logs: Vec<StreamLog>, lost_records: &[(HostId, u64)]) -> Observations {
    let mut observations = Observations::default();
    for (number, (stream, log)) in scenario.streams.iter().zip(&mut logs).enumerate() {
        log.messages.sort_by_key(|message| message.counter);
        for end in &mut log.ends {
            end.round_trips.sort_unstable();
            end.skipped = apart(std::mem::take(&mut end.skipped));
            end.breaches.sort();
            end.phases.iter_mut().for_each(|phases| phases.sort_unstable());
        }
        find_gaps(stream, log, lost_records);
        fates::mark(stream, log);
        mark_late_launches(stream, log);
        let last = if stream.echo { &log.ends[0] } else { &log.ends[1] };
        observations.streams.push(StreamObservations {
            loss: loss(stream, log),
            counters: counters(stream, log),
            round_trip_cycles: last
                .round_trips
                .iter()
                .map(|&(_, elapsed)| i64::try_from(elapsed).unwrap_or(i64::MAX))
                .collect(),
            parts: explain::parts(scenario, stream, log),
            margins: explain::margins(scenario, stream, log),
            arrived: log.ends[1].seen.then(|| log.messages.iter().filter(|m| m.t[3] != NONE).count() as u64),
            elsewhere: [log.ends[0].elsewhere, log.ends[1].elsewhere],
            breaches: breaches::results(scenario, stream, log),
            applications: outside::results(scenario, stream, log),
            drains: drains::results(scenario, stream, log),
        });
        observations.rows.extend(log.messages.iter().map(|message| row(number, message)));
    }
    observations.hosts = hosts(scenario, &logs);
    let found = incidents::find(scenario, &mut observations.rows, &logs, lost_records);
    (observations.incidents, observations.incidents_left_out) = found;
    observations
}

fn row(stream: usize, message: &Message) -> FrameRow {
    let option = |at: i64| (at != NONE).then_some(at);
    FrameRow {
        stream: stream as u16,
        cycle: message.cycle,
        counter: message.counter,
        sequence: message.sequence.map(u32::from),
        bytes: message.bytes,
        launch: option(message.launch),
        t: message.t.map(option),
        flags: message.flags,
    }
}

/// Finds what is missing from the traces of hosts that lost records.
fn find_gaps(stream: &Stream, log: &mut StreamLog, lost_records: &[(HostId, u64)]) {
    let until = log.ends.iter().filter_map(|end| end.last_cycle).max();
    for (host, end) in [stream.writer, stream.reader].into_iter().zip(&mut log.ends) {
        if end.incomplete || lost_records.iter().any(|&(lost, _)| lost == host) {
            end.gaps = gaps::of(end, stream.cycle, until);
        }
    }
}

fn mark_late_launches(stream: &Stream, log: &mut StreamLog) {
    for message in &mut log.messages {
        let left = if message.t[1] == NONE { message.t[0] } else { message.t[1] };
        if message.launch != NONE && left.saturating_sub(message.launch) > late_after(stream) {
            message.flags |= flags::LATE_LAUNCH;
        }
    }
}

/// How long after its launch time a frame still counts as on time: a tenth of the cycle.
pub(crate) fn late_after(stream: &Stream) -> i64 {
    stream.cycle.0 / 10
}

#[allow(non_snake_case)] // the papers' names
fn loss(stream: &Stream, log: &StreamLog) -> Loss {
    let [writer, reader] = &log.ends;
    let count = |bits: u32| log.messages.iter().filter(|m| m.published() && m.flags & bits != 0).count() as u64;
    let (under_way, unknown) = (count(flags::UNDER_WAY), count(flags::UNKNOWN));
    let published = log.messages.iter().filter(|m| m.published()).count() as u64 - under_way - unknown;
    let mut lost = LostLaunches::default();
    [writer, reader].into_iter().flat_map(EndLog::failed_sends).for_each(|(_, errno)| lost.count(errno));
    let launches = Some(lost).filter(|lost| *lost != LostLaunches::default());
    if !writer.seen || published == 0 {
        return Loss { published, under_way, unknown, launches, ..Loss::default() };
    }
    let placed = |bits: u32, seen: bool| seen.then(|| count(bits));
    let out = placed(flags::LOST_OUT, reader.seen);
    let back = placed(flags::LOST_BACK, reader.seen && stream.echo);
    let bridged = |path: &[scenario::PortId]| path.len() > 1;
    let dP = Some(count(flags::LOST_PUBLISHER));
    let dL = placed(flags::LOST_LOOPBACK, reader.seen);
    let dSum = (reader.seen || stream.echo).then(|| count(flags::LOST));
    let share = |count: Option<u64>| count.map(|count| count as f64 / published as f64);
    let [dbL, dLinkL] = if bridged(&stream.path) { [out, None] } else { [None, out] };
    let [dbP, dLinkP] = if bridged(&stream.return_path) { [back, None] } else { [None, back] };
    Loss {
        published,
        under_way,
        unknown,
        dP,
        dL,
        dbL,
        dbP,
        dLinkL,
        dLinkP,
        dSum,
        dP_share: share(dP),
        dL_share: share(dL),
        dSum_share: share(dSum),
        launches,
    }
}

fn counters(stream: &Stream, log: &StreamLog) -> Counters {
    let [writer, reader] = &log.ends;
    let last = if stream.echo { writer } else { reader };
    let at_reader = if stream.echo { reader.application } else { None };
    let both = |count: fn(&EndLog) -> u64| count(writer) + count(reader);
    Counters {
        missed: last.application.map(|(missed, _)| missed),
        repeated: last.application.map(|(_, repeated)| repeated),
        inconsistent: both(|end| end.inconsistent.map_or(0, |first| first.count)),
        stale: both(|end| end.refusals.all.stale),
        received_again: both(|end| end.refusals.all.repeated),
        wrong_tag: both(|end| end.wrong_tag.map_or(0, |first| first.count)),
        foreign: both(|end| end.refusals.all.foreign),
        missed_at_reader: at_reader.map(|(missed, _)| missed),
        repeated_at_reader: at_reader.map(|(_, repeated)| repeated),
        substituted: both(|end| end.breaches.substituted),
    }
}

/// Lateness, duration, number of outliers, and from where on they are.
type PhaseSpans = (Vec<i64>, Vec<i64>, u64, i64);

fn hosts(scenario: &Scenario, logs: &[StreamLog]) -> Vec<HostResult> {
    let mut spans: BTreeMap<(HostId, Phase), PhaseSpans> = BTreeMap::new();
    for (stream, log) in scenario.streams.iter().zip(logs) {
        for (host, end) in [stream.writer, stream.reader].into_iter().zip(&log.ends) {
            let after = outlier_after(stream.cycle);
            for (phase, ran) in Phase::ALL.into_iter().zip(&end.phases).filter(|(_, ran)| !ran.is_empty()) {
                let entry = spans.entry((host, phase)).or_insert((Vec::new(), Vec::new(), 0, after));
                entry.0.extend(ran.iter().map(|ran| ran.late));
                entry.1.extend(ran.iter().map(|ran| ran.took));
                entry.2 += end.outliers.iter().filter(|outlier| outlier.phase == phase).count() as u64;
                entry.3 = entry.3.min(after);
            }
        }
    }
    let result = |((host, phase), (late, took, outliers, outlier_after_ns)): ((HostId, Phase), PhaseSpans)| {
        Some(HostResult {
            host: scenario.host(host).name.clone(),
            phase: phase.key().to_owned(),
            late: Dist::of_vec(late)?,
            took: Dist::of_vec(took)?,
            outliers,
            outlier_after_ns,
        })
    };
    spans.into_iter().filter_map(result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_that_several_threads_left_out_count_once() {
        assert_eq!(apart(vec![(50, 4), (10, 3), (50, 4), (51, 5), (10, 3), (13, 1)]), [(10, 3), (13, 1), (50, 6)]);
        assert_eq!(apart(Vec::new()), []);
        assert_eq!(apart(vec![(i64::MAX, 9), (i64::MIN, u32::MAX)]).len(), 1);
    }
}
