//! Standing backlogs: after a hiccup every message is late by whole cycles, although everybody is punctual again.
//!
//! A queue that is filled and emptied by one message a cycle keeps the length that a hiccup gave it. What is usual is
//! taken from the run itself, so that a schedule that takes more cycles from the start is none.

use std::collections::BTreeSet;
use std::ops::Range;

use super::Seen;
use crate::collect::{NONE, Outlier};
use crate::drains::Drain;
use crate::explain::Beat;
use crate::{DrainCause, Incident, kinds, words};

/// So many readings in a row make something usual, or a backlog.
const STANDING: usize = 32;
/// So many of them may be exceptions: messages that came sooner or later by themselves.
const EXCEPTIONS: usize = 2;
/// So many are enough at the end of the run when a host was late before them.
const AT_THE_END: usize = 8;
/// How many different numbers of cycles are looked at.
const LEVELS: usize = 64;
/// A hiccup lies at most so many cycles before the first message that took too long was published.
const HICCUP_CYCLES: i64 = 8;

/// A message read, and how many cycles after its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Reading {
    cycle: i64,
    elapsed: i64,
}

/// Finds the standing backlogs of a stream.
pub(super) fn standing(seen: &Seen<'_>) -> Vec<Incident> {
    let mut found = stood(seen);
    found.append(&mut ended_by_themselves(seen, &found));
    found
}

/// Those that the readings show.
fn stood(seen: &Seen<'_>) -> Vec<Incident> {
    let readings = readings(seen);
    let Some((usual, stretches)) = stretches(&readings) else { return Vec::new() };
    let incident = |(index, stretch): (usize, &Stretch)| {
        let first = readings[stretch.range.start];
        let last = readings[stretch.range.end - 1].cycle;
        let hiccup = hiccup(seen, first);
        let certain = stretch.range.len() >= STANDING && stretch.range.start >= STANDING;
        if (!certain && hiccup.is_none()) || !punctual(seen, first.cycle, last, stretch.range.len()) {
            return None;
        }
        let frames = readings[stretch.range.clone()].iter().filter(|reading| reading.elapsed > usual).count();
        let followed = stretches.get(index + 1).is_some_and(|next| next.range.start == stretch.range.end);
        let until = match (stretch.range.end == readings.len(), followed) {
            (true, _) => "to the end of the run".to_owned(),
            (false, true) => format!("to cycle {last}, when it changed"),
            (false, false) => match drained(seen, last, stretch.level) {
                Some(drained) => format!("to cycle {last}, when {drained}"),
                None => format!("to cycle {last}, when it drained"),
            },
        };
        let at = seen.cycle_start(usize::from(!seen.stream.echo), first.cycle);
        let cause = format!(
            "stream {}: from cycle {} on {} {} instead of {usual} cycles, {until}, though the hosts are punctual; {}: a \
             queue of {} on the way is filled and emptied by one a cycle and does not drain by itself; `backlog = \
             \"drain\"` in [time] empties it, `drain_after` when it has stood for so long, `downbeat ctl drain` once",
            seen.stream.name,
            first.cycle,
            if seen.stream.echo { "counters come back after" } else { "messages are read after" },
            stretch.level,
            hiccup.unwrap_or_else(|| "no phase was late before it".to_owned()),
            words::number(stretch.level.abs_diff(usual), "message"),
        );
        let mut incident = seen.incident(kinds::STANDING_BACKLOG, at, cause, frames as u64);
        incident.lasted_ns = Some(seen.cycle_start(usize::from(!seen.stream.echo), last).saturating_sub(at));
        Some(incident)
    };
    stretches.iter().enumerate().filter_map(incident).collect()
}

/// First readings in the order of time: of the writer's application with an echo, else of the reader.
fn readings(seen: &Seen<'_>) -> Vec<Reading> {
    let [writer, reader] = &seen.log.ends;
    if seen.stream.echo {
        let elapsed = |elapsed: u64| i64::try_from(elapsed).unwrap_or(i64::MAX);
        return writer.round_trips.iter().map(|&(cycle, cycles)| Reading { cycle, elapsed: elapsed(cycles) }).collect();
    }
    let phases = &seen.scenario.host(seen.stream.reader).phases;
    let beat = Beat::new(phases, seen.stream, reader.origin.unwrap_or(seen.scenario.base_time.0));
    let read = seen.log.messages.iter().filter(|message| message.published() && message.t[3] != NONE);
    read.filter_map(|message| {
        let cycle = i64::try_from(beat.cycle_of(message.t[3].into())).ok()?;
        Some(Reading { cycle, elapsed: cycle.checked_sub(message.cycle)? })
    })
    .collect()
}

/// A stretch of readings on one level above the usual.
#[derive(Debug, PartialEq, Eq)]
struct Stretch {
    range: Range<usize>,
    level: i64,
}

/// What is usual, and the stretches that took longer; `None` when nothing is usual.
fn stretches(readings: &[Reading]) -> Option<(i64, Vec<Stretch>)> {
    let levels: BTreeSet<i64> = readings.iter().map(|reading| reading.elapsed).collect();
    let levels: Vec<i64> = levels.into_iter().take(LEVELS).collect();
    let usual = levels.iter().copied().find(|&level| !held(readings, |elapsed| elapsed <= level).is_empty())?;
    let mut level_of = vec![usual; readings.len()];
    let beyond = levels.iter().copied().filter(|&level| level > usual);
    for level in beyond {
        let held = held(readings, |elapsed| elapsed >= level);
        if held.is_empty() {
            break;
        }
        held.into_iter().for_each(|range| level_of[range].fill(level));
    }
    let mut found = Vec::new();
    let mut start = 0;
    for run in level_of.chunk_by(|a, b| a == b) {
        let range = start..start + run.len();
        start = range.end;
        if run[0] > usual && (range.len() + EXCEPTIONS >= STANDING || range.end == readings.len()) {
            found.push(Stretch { range, level: run[0] });
        }
    }
    let tail = readings.iter().rev().take_while(|reading| reading.elapsed > usual).count();
    let level = readings.iter().rev().take(tail).map(|reading| reading.elapsed).min();
    if let (AT_THE_END..STANDING, Some(level), &[.., usual_still]) = (tail, level, &level_of[..])
        && usual_still == usual
    {
        found.push(Stretch { range: readings.len() - tail..readings.len(), level });
    }
    Some((usual, found))
}

/// The ranges in which something holds for [`STANDING`] readings on end, but for [`EXCEPTIONS`].
fn held(readings: &[Reading], holds: impl Fn(i64) -> bool) -> Vec<Range<usize>> {
    let holds: Vec<bool> = readings.iter().map(|reading| holds(reading.elapsed)).collect();
    let mut ranges: Vec<Range<usize>> = Vec::new();
    let mut exceptions = 0;
    for (index, &held) in holds.iter().enumerate() {
        exceptions += usize::from(!held);
        if let Some(left) = index.checked_sub(STANDING) {
            exceptions -= usize::from(!holds[left]);
        }
        if index + 1 >= STANDING && exceptions <= EXCEPTIONS {
            let window = index + 1 - STANDING..index + 1;
            match ranges.last_mut() {
                Some(last) if window.start <= last.end => last.end = window.end,
                _ => ranges.push(window),
            }
        }
    }
    // Exceptions at an edge do not belong to it.
    for range in &mut ranges {
        while range.start < range.end && !holds[range.start] {
            range.start += 1;
        }
        while range.start < range.end && !holds[range.end - 1] {
            range.end -= 1;
        }
    }
    ranges
}

/// What a host did just before a backlog, in words.
fn hiccup(seen: &Seen<'_>, first: Reading) -> Option<String> {
    let from = first.cycle.saturating_sub(first.elapsed).saturating_sub(HICCUP_CYCLES);
    let near = |cycle: i64| (from..=first.cycle).contains(&cycle);
    let late = |side: usize| {
        let outliers = seen.log.ends[side].outliers.iter().filter(move |outlier| near(outlier.cycle));
        outliers.max_by_key(|outlier| (outlier.late, -outlier.cycle)).map(move |outlier| (side, *outlier))
    };
    let left_out = |side: usize| {
        let skipped = seen.log.ends[side].skipped.iter();
        // A stop that began earlier counts when it ended near.
        let end = |&&(cycle, cycles): &&(i64, u32)| near(cycle) || near(cycle.saturating_add(cycles.into()));
        skipped.filter(end).max_by_key(|skip| skip.1).map(move |&skip| (side, skip))
    };
    if let Some((side, (cycle, cycles))) = (0..2).filter_map(left_out).max_by_key(|(_, skip)| skip.1) {
        let cycles = words::number(cycles.into(), "cycle");
        return Some(format!("it began after {} left out {cycles} from cycle {cycle} on", seen.host(side)));
    }
    let (side, Outlier { cycle, phase, late, .. }) = (0..2).filter_map(late).max_by_key(|(_, outlier)| outlier.late)?;
    Some(format!(
        "it began after the {} phase of {} was {} late in cycle {cycle}",
        phase.key(),
        seen.host(side),
        words::span(late)
    ))
}

/// The drain that ended a backlog whose last late message was read in cycle `last`, in words. A message that was under way
/// at the drain is read `level` cycles later at most.
fn drained(seen: &Seen<'_>, last: i64, level: i64) -> Option<String> {
    let near = last.saturating_sub(level)..=last.saturating_add(level);
    let emptied = drains(seen).filter(|(_, drain)| near.contains(&drain.cycle));
    let (side, drain) = emptied.max_by_key(|(_, drain)| drain.messages)?;
    let why = match drain.cause {
        DrainCause::Asked { .. } => format!("{} was asked to drain its queue", seen.host(side)),
        DrainCause::Standing { .. } => format!("{} drained its queue by itself{}", seen.host(side), after(seen)),
    };
    Some(format!("{why} and read {} more in cycle {}", words::number(drain.messages.into(), "message"), drain.cycle))
}

/// All drains of either end that found something.
fn drains<'a>(seen: &'a Seen<'_>) -> impl Iterator<Item = (usize, &'a Drain)> {
    let of = |side: usize| seen.log.ends[side].drained.iter().map(move |drain| (side, drain));
    (0..2).flat_map(of).filter(|(_, drain)| drain.messages > 0)
}

fn after(seen: &Seen<'_>) -> String {
    let cycles = seen.scenario.backlog.drain_after();
    cycles.map_or_else(String::new, |cycles| format!(" (`drain_after = {cycles}`)"))
}

/// Backlogs that a reader ended by itself, but for those of `told`: they stood for too short a time to be found by the
/// readings.
fn ended_by_themselves(seen: &Seen<'_>, told: &[Incident]) -> Vec<Incident> {
    let stood = seen.scenario.backlog.drain_after().map_or(0, |cycles| i64::from(cycles.get()));
    let incident = |(side, drain): (usize, &Drain)| {
        let DrainCause::Standing { late } = drain.cause else { return None };
        // It read the late messages in so many cycles, the last of them that of the drain.
        let at = seen.cycle_start(side, drain.cycle.saturating_sub(stood).saturating_add(1));
        let end = seen.cycle_start(side, drain.cycle);
        let known = |incident: &Incident| {
            let lasted =
                incident.lasted_ns.unwrap_or(0).saturating_add(i64::from(late).saturating_mul(seen.stream.cycle.0));
            (incident.at_ns..=incident.at_ns.saturating_add(lasted)).contains(&end)
        };
        if told.iter().any(known) {
            return None;
        }
        let cause = format!(
            "stream {}: {} read messages late by {} in {} on end{}, then drained its queue by itself and read {} more in \
             cycle {}",
            seen.stream.name,
            seen.host(side),
            words::number(late.into(), "cycle"),
            words::number(stood as u64, "cycle"),
            after(seen),
            words::number(drain.messages.into(), "message"),
            drain.cycle
        );
        let mut incident = seen.incident(kinds::STANDING_BACKLOG, at, cause, stood as u64);
        incident.lasted_ns = Some(end.saturating_sub(at));
        Some(incident)
    };
    drains(seen).filter_map(incident).collect()
}

/// Whether the hosts were punctual from cycle `first` to `last`: late in at most a quarter of the cycles.
fn punctual(seen: &Seen<'_>, first: i64, last: i64, readings: usize) -> bool {
    let outliers = seen.log.ends.iter().flat_map(|end| &end.outliers);
    let late: BTreeSet<i64> =
        outliers.map(|outlier| outlier.cycle).filter(|cycle| (first..=last).contains(cycle)).collect();
    late.len() * 4 <= readings
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Readings with so many cycles each, one a cycle.
    fn readings(parts: &[(usize, i64)]) -> Vec<Reading> {
        let elapsed = parts.iter().flat_map(|&(count, elapsed)| std::iter::repeat_n(elapsed, count));
        elapsed.zip(0..).map(|(elapsed, cycle)| Reading { cycle, elapsed }).collect()
    }

    fn found(parts: &[(usize, i64)]) -> Vec<(Range<usize>, i64)> {
        let (_, stretches) = stretches(&readings(parts)).unwrap();
        stretches.into_iter().map(|stretch| (stretch.range, stretch.level)).collect()
    }

    #[test]
    fn levels_that_hold_are_stretches() {
        assert_eq!(found(&[(1_000, 4)]), []);
        assert_eq!(found(&[(100, 4), (300, 5)]), [(100..400, 5)]);
        assert_eq!(found(&[(100, 4), (300, 7)]), [(100..400, 7)]);
        assert_eq!(found(&[(100, 4), (1, 9), (60, 5), (100, 4)]), [(100..161, 5)]);
        assert_eq!(found(&[(100, 4), (50, 5), (50, 6), (100, 4)]), [(100..150, 5), (150..200, 6)]);
        assert_eq!(found(&[(100, 4), (50, 6), (100, 4), (50, 5), (100, 4)]), [(100..150, 6), (250..300, 5)]);
    }

    #[test]
    fn single_messages_and_other_schedules_are_none() {
        // Late ones now and then, and a few together.
        assert_eq!(found(&[(50, 4), (1, 6), (50, 4), (9, 5), (50, 4), (20, 6), (50, 4)]), []);
        // Another schedule from the start, or one message that came sooner by chance.
        assert_eq!(found(&[(500, 6)]), []);
        assert_eq!(found(&[(200, 5), (1, 4), (200, 5)]), []);
        // A single reading sooner does not end a backlog.
        assert_eq!(found(&[(100, 4), (40, 5), (1, 4), (40, 5)]), [(100..181, 5)]);
        // Nothing is usual in so few.
        assert_eq!(stretches(&readings(&[(20, 4)])), None);
        assert_eq!(found(&[(100, 4), (12, 5)]), [(100..112, 5)]);
        assert_eq!(found(&[(100, 4), (7, 5)]), []);
    }

    #[test]
    fn a_message_on_the_boundary_is_none() {
        for share in [2, 3, 5] {
            let jitter: Vec<(usize, i64)> = (0..2_000).map(|k| (1, 4 + i64::from(k * 7 % share == 0))).collect();
            assert_eq!(found(&jitter), [], "one in {share}");
        }
        // With one in two at 5 cycles that is usual; a backlog of two on top is seen.
        let mut jitter: Vec<(usize, i64)> = (0..200).map(|k| (1, 4 + k % 2)).collect();
        jitter.extend((0..200).map(|k| (1, 6 + k % 2)));
        assert_eq!(found(&jitter), [(200..400, 6)]);
    }
}
