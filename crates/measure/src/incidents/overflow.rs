//! Trace records that found no room: what the figures do not know.

use scenario::{HostId, Scenario};

use super::{Seen, rows_of};
use crate::collect::StreamLog;
use crate::{FrameRow, Incident, flags, kinds, words};

/// One incident a host that lost records.
pub(super) fn overflows(
    scenario: &Scenario,
    rows: &[FrameRow],
    logs: &[StreamLog],
    lost: &[(HostId, u64)],
) -> Vec<Incident> {
    lost.iter().map(|&(host, records)| overflow(scenario, rows, logs, host, records)).collect()
}

fn overflow(scenario: &Scenario, rows: &[FrameRow], logs: &[StreamLog], host: HostId, records: u64) -> Incident {
    let (mut span, mut cycles, mut unknown): (Option<(i64, i64)>, i64, u64) = (None, 0, 0);
    for (number, (stream, log)) in scenario.streams.iter().zip(logs).enumerate() {
        let rows = &rows[rows_of(rows, number)];
        let seen = Seen { scenario, stream, log, rows };
        for side in (0..2).filter(|&side| [stream.writer, stream.reader][side] == host) {
            for &(first, last) in &log.ends[side].gaps {
                let (begin, end) = (seen.cycle_start(side, first), seen.cycle_start(side, last.saturating_add(1)));
                span = Some(span.map_or((begin, end), |(from, to)| (from.min(begin), to.max(end))));
                cycles += last.saturating_sub(first).saturating_add(1);
            }
        }
        if stream.writer == host || stream.reader == host {
            unknown += rows.iter().filter(|row| row.has(flags::UNKNOWN)).count() as u64;
        }
    }
    let name = &scenario.host(host).name;
    let records = words::number(records, "trace record");
    let mut cause = format!(
        "{name}: {records} found no room, because the process that collects them did not fetch them in time; the host \
         went on, and the figures are incomplete"
    );
    if cycles > 0 {
        cause += &format!(
            ": {} of its stream ends are missing, and {} of them count neither as lost nor as complete",
            words::number(cycles.unsigned_abs(), "cycle"),
            words::number(unknown, "message")
        );
    }
    let began = rows.iter().filter_map(|row| row.t.iter().flatten().min().copied()).min();
    Incident {
        at_ns: span.map_or(began.unwrap_or(scenario.base_time.0), |(begin, _)| begin),
        kind: kinds::TRACE_OVERFLOW.to_owned(),
        cause,
        frames: unknown,
        lasted_ns: span.map(|(begin, end)| end.saturating_sub(begin)),
        place: Some(name.clone()),
    }
}
