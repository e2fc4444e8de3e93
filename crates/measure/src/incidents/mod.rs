//! Incidents: what went wrong, when, and what caused it.
//!
//! | kind | rule |
//! |---|---|
//! | `host-late` | a phase began more than max(a tenth of the cycle, 100 µs) late, or cycles were left out; those within two cycles of each other are one incident. Frames under way meanwhile are outliers of the host |
//! | `payload-late` | a frame of 64 B would reach the reader within a receive window that the frames of the stream miss, by the rates alone; reported only if more than half of the arrivals confirm it |
//! | `link-overload` | streams and traffic of stated rate need at least the rate of a port |
//! | `launch-late` | frames left more than a tenth of the cycle after their launch time, no host being late |
//! | `frames-lost` | frames were lost, no host being late; those within ten cycles at one place are one incident |
//! | `writer-silent` | such a loss of ten or more frames in a row before the reader |
//! | `link-down` | an interface went down or away, as failed receiving or refused sends tell; once a stream and end |
//! | `send-refused` | sends were refused for another reason than an overrun; once a stream, end and reason |
//! | `clock-step` | the time of a host was set while it ran; its cycles went on, by the new time |
//! | `inconsistent-set`, `wrong-tag` | once a stream and end, with the number of messages |
//! | `standing-backlog` | counters come back (messages are read, without an echo) later by whole cycles than was usual, for 32 readings on end or from a late host to the end of the run, although the hosts are punctual again |
//! | `breach-…` | an end that watches for the condition found it; one a breach, from its begin to its end |
//! | `application-silent` | an application outside gave no new image (at an end that publishes nothing: did not read) for 100 cycles or more; once a stretch |
//! | `flood` | a hundred frames or more that were read and not taken, more than two a cycle (the newest message again does not count: a partner without news repeats itself), none more than ten cycles after the one before; once an end and stretch of time |
//! | `receive-overflow` | frames found no room in the receive queue of an interface; from the sockets' own counts |
//! | `trace-overflow` | trace records found no room because the collector did not fetch them: cycles of an end are unknown, and what was under way in them counts neither as lost nor as complete |
//! | `clock-disagreement` | of a joined run: by the clocks of two hosts messages arrived before they left, by more than the error that was stated; once a stream and direction |
//! | `trace-missing` | an end of a stream left no trace, or stopped early |

mod application;
mod backlog;
mod breach;
mod flood;
mod host;
mod network;
mod overflow;
mod plan;
mod sockets;

use std::collections::BTreeMap;
use std::ops::Range;

use scenario::{HostId, Scenario, Stream};

use crate::collect::StreamLog;
use crate::{FrameRow, Incident};

/// How many incidents a result keeps.
const MOST: usize = 200;

/// One stream with what was observed of it.
struct Seen<'a> {
    scenario: &'a Scenario,
    stream: &'a Stream,
    log: &'a StreamLog,
    rows: &'a [FrameRow],
}

/// Finds incidents and marks the rows that a late host held up.
pub(crate) fn find(
    scenario: &Scenario,
    rows: &mut [FrameRow],
    logs: &[StreamLog],
    lost_records: &[(HostId, u64)],
) -> (Vec<Incident>, BTreeMap<String, u64>) {
    let mut found = host::late(scenario, rows, logs);
    for (number, (stream, log)) in scenario.streams.iter().zip(logs).enumerate() {
        let rows = &rows[rows_of(rows, number)];
        let seen = Seen { scenario, stream, log, rows };
        found.extend(network::lost(&seen));
        found.extend(network::launched_late(&seen));
        found.extend(network::broken(&seen));
        found.extend(backlog::standing(&seen));
        found.extend(breach::began(&seen));
        found.extend(application::silent(&seen));
        found.extend(sockets::refused(&seen));
        found.extend(host::clock_steps(&seen));
        found.extend(flood::floods(&seen));
        found.extend(network::trace_missing(&seen));
        found.extend(plan::payload_late(&seen));
    }
    found.extend(overflow::overflows(scenario, rows, logs, lost_records));
    let begin = rows.iter().filter_map(|row| row.t.iter().flatten().min().copied()).min();
    found.extend(plan::overloaded(scenario, begin.unwrap_or(scenario.base_time.0)));
    cap(found)
}

/// The rows of a stream: they are sorted by stream.
fn rows_of(rows: &[FrameRow], stream: usize) -> Range<usize> {
    let bound = |limit: usize| rows.partition_point(|row| usize::from(row.stream) < limit);
    bound(stream)..bound(stream + 1)
}

/// The incidents of several parts of a run as one result keeps them.
pub(crate) fn most(found: Vec<Incident>) -> (Vec<Incident>, BTreeMap<String, u64>) {
    cap(found)
}

/// Keeps the incidents that cost the most frames, in the order of time, and counts the others by kind.
fn cap(mut found: Vec<Incident>) -> (Vec<Incident>, BTreeMap<String, u64>) {
    found.sort_by_key(|incident| (std::cmp::Reverse((incident.frames, incident.lasted_ns)), incident.at_ns));
    let mut left_out = BTreeMap::new();
    for incident in found.drain(MOST.min(found.len())..) {
        *left_out.entry(incident.kind).or_insert(0) += 1;
    }
    found.sort_by(|a, b| (a.at_ns, &a.kind, &a.cause).cmp(&(b.at_ns, &b.kind, &b.cause)));
    (found, left_out)
}

impl Seen<'_> {
    fn host(&self, side: usize) -> &str {
        let host = if side == 0 { self.stream.writer } else { self.stream.reader };
        &self.scenario.host(host).name
    }

    fn incident(&self, kind: &str, at_ns: i64, cause: String, frames: u64) -> Incident {
        Incident { at_ns, kind: kind.to_owned(), cause, frames, lasted_ns: None, place: Some(self.stream.name.clone()) }
    }

    /// When `cycle` began, as the phases of an end imply it, else as the scenario says.
    fn cycle_start(&self, side: usize, cycle: i64) -> i64 {
        let origin = self.log.ends[side].origin.unwrap_or(self.scenario.base_time.0);
        origin.saturating_add(cycle.saturating_mul(self.stream.cycle.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_costliest_incidents_are_kept_in_order_of_time() {
        let incident = |at_ns: i64| Incident {
            at_ns,
            kind: "host-late".to_owned(),
            cause: String::new(),
            frames: if at_ns == 7 { 0 } else { 1 },
            lasted_ns: None,
            place: None,
        };
        let (kept, left_out) = cap((0..201).rev().map(incident).collect());
        assert_eq!(kept.len(), 200);
        assert!(kept.iter().map(|incident| incident.at_ns).eq((0..201).filter(|&at| at != 7)));
        assert_eq!(left_out, BTreeMap::from([("host-late".to_owned(), 1)]));
    }
}
