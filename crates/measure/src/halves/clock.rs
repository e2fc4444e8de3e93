//! What the clocks of two hosts do to one-way figures.

use std::ops::Range;

use scenario::{HostId, Quantity, Scenario};
use units::Nanos;

use crate::{Amount, FrameRow, Incident, Verdict, kinds, words};

/// One incident a stream and direction in which messages arrive before they left by more than the clocks are said to be
/// apart.
pub(super) fn disagreements(scenario: &Scenario, rows: &[FrameRow], error: Nanos) -> Vec<Incident> {
    let mut found = Vec::new();
    for (number, stream) in scenario.streams.iter().enumerate() {
        let rows = &rows[rows_of(rows, number)];
        for (from, to, left, arrived) in [(2, 3, stream.writer, stream.reader), (6, 7, stream.reader, stream.writer)] {
            found.extend(
                disagreement(scenario, rows, (from, to), (left, arrived), error)
                    .map(|incident| Incident { place: Some(stream.name.clone()), ..incident }),
            );
        }
    }
    found
}

fn rows_of(rows: &[FrameRow], stream: usize) -> Range<usize> {
    let bound = |limit: usize| rows.partition_point(|row| usize::from(row.stream) < limit);
    bound(stream)..bound(stream + 1)
}

fn disagreement(
    scenario: &Scenario,
    rows: &[FrameRow],
    (from, to): (usize, usize),
    (left, arrived): (HostId, HostId),
    error: Nanos,
) -> Option<Incident> {
    let early = |row: &&FrameRow| row.span(from, to).is_some_and(|span| span < error.0.saturating_neg());
    let at = |row: &FrameRow| row.at(from);
    let first = rows.iter().filter(early).filter_map(at).min()?;
    let last = rows.iter().filter(early).filter_map(at).max()?;
    let most = rows.iter().filter_map(|row| row.span(from, to)).min()?.saturating_neg();
    let frames = rows.iter().filter(early).count() as u64;
    let [left, arrived] = [left, arrived].map(|host| scenario.host(host).name.as_str());
    let cause = format!(
        "by the clocks of {left} and {arrived} {} arrived (T{to}) before {} left (T{from}), by up to {}: the clock of {arrived} \
         was behind that of {left} by that and the time on the way, while the clocks are said to be within {} of each \
         other (--clock-error). One-way figures are wrong by as much; round trips are not. Look at ptp4l and phc2sys of \
         both hosts, and whether `machine.tai_minus_utc_s` is the same",
        words::number(frames, "message"),
        if frames == 1 { "it" } else { "they" },
        words::span(most),
        words::span(error.0),
    );
    let kind = kinds::CLOCK_DISAGREEMENT.to_owned();
    Some(Incident { at_ns: first, kind, cause, frames, lasted_ns: Some(last.saturating_sub(first)), place: None })
}

/// Judges limits of one-way figures again: they are met only if they are with the clock error added.
pub(super) fn judge(verdict: &mut Verdict, error: Nanos) {
    let one_way = [Quantity::OneWay.key(), Quantity::OneWayStack.key()];
    for item in verdict.items.iter_mut().filter(|item| one_way.contains(&item.quantity.as_str())) {
        let (Some(Amount::Whole(found)), Amount::Whole(limit)) = (item.found, item.limit) else { continue };
        item.why += &format!("; by clocks said to be within {} of each other", words::span(error.0));
        if item.met && found.saturating_add(error.0) > limit {
            item.met = false;
            item.why += ", and with that it may be above: not shown to be met";
        }
    }
    verdict.met &= verdict.items.iter().all(|item| item.met);
}
