//! The time of every message in four parts that add up to it.
//!
//! A message's way is cut at its stamps, and each piece is attributed in this order:
//!
//! 1. `wire`: T2→T3 and T6→T7, whole.
//! 2. `schedule`: up to the instant the plan of the host gives: the launch (T1→T2, T4→T6), the publish phase without
//!    launch time (T4→T5), the subscribe phase or, while the receive window is open, the arrival itself (T3→T4, T7→T8).
//! 3. `host`: of what is left, the time in which a phase on the way was due and had not begun, or cycles were left out.
//! 4. `stack`: the rest. As each piece is cut, never filled up, it is never negative.
//!
//! A message that missed its application phase at the reader waits for a later launch. What it waits beyond the wait that
//! the plan has is no part of the schedule: it goes to the host as far as the answer would have departed earlier without
//! what the host owed before T4, or cycles were left out; else to the stack, where it queued. Lateness before T1 is not on the message's way, and lateness that the wait for a launch
//! absorbs costs nothing: both stay in the schedule.
//!
//! What cannot be told is absent, never 0: `wire` without its stamps; `schedule` without the stamp a wait begins with;
//! `host` also without the event of a phase on the way; `stack` unless all others are known. A message whose stamps run
//! backwards (clocks that disagree) has no parts.

use scenario::{Scenario, Stream};

use super::Beat;
use crate::Phase;
use crate::collect::{EndLog, Message, NONE, Ran, StreamLog};

/// What the time of one message consists of, nanoseconds. `schedule + wire + host + stack = whole` where all are known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Parts {
    /// T8 − T1 or, of a stream without an echo, T4 − T1; `None` when it did not come all the way.
    pub whole: Option<i64>,
    /// Waiting that a punctual host with a stack of zero cost would also have.
    pub schedule: Option<i64>,
    /// T3 − T2 and, with an echo, T7 − T6.
    pub wire: Option<i64>,
    /// Phases on its way were due and had not begun.
    pub host: Option<i64>,
    /// The rest: system calls, decoding, queueing.
    pub stack: Option<i64>,
}

/// The parts of every message of a stream, in the order of its messages.
pub(crate) fn parts(scenario: &Scenario, stream: &Stream, log: &StreamLog) -> Vec<Parts> {
    let ends = [stream.writer, stream.reader].into_iter().zip(&log.ends);
    let ends: Vec<Option<End<'_>>> = ends
        .map(|(host, log)| Some(End::new(Beat::new(&scenario.host(host).phases, stream, log.origin?), log)))
        .collect();
    log.messages.iter().map(|message| of_message(message, stream.echo, &ends)).collect()
}

fn of_message(message: &Message, echo: bool, ends: &[Option<End<'_>>]) -> Parts {
    let mut t = message.t.map(|at| (at != NONE).then_some(i128::from(at)));
    if !echo {
        t[4..].fill(None);
    }
    let last = if echo { 7 } else { 3 };
    let whole = t[last].zip(t[0]).and_then(|(end, begin)| i64::try_from(end - begin).ok());
    let none = Parts { whole, ..Parts::default() };
    let (Some(whole_span), [Some(writer), Some(reader)], true) = (whole, ends, t.iter().flatten().is_sorted()) else {
        return none;
    };
    let launch = (message.launch != NONE).then_some(i128::from(message.launch));
    let span = |from: usize, to: usize| Some(t[to]? - t[from]?);
    let wire = if echo { sum([span(1, 2), span(5, 6)]) } else { span(1, 2) };
    let pieces = if echo { echoed(&t, launch, writer, reader) } else { one_way(&t, launch, writer, reader) };
    let schedule = sum(pieces.iter().map(|piece| Some((*piece)?.schedule)));
    let host = sum(pieces.iter().map(|piece| (*piece)?.host));
    let stack = sum([Some(whole_span.into()), minus(wire), minus(schedule), minus(host)]);
    let narrow = |part: Option<i128>| part.and_then(|part| i64::try_from(part).ok());
    Parts { whole, schedule: narrow(schedule), wire: narrow(wire), host: narrow(host), stack: narrow(stack) }
}

fn sum(parts: impl IntoIterator<Item = Option<i128>>) -> Option<i128> {
    parts.into_iter().sum()
}

fn minus(part: Option<i128>) -> Option<i128> {
    part.map(|part| -part)
}

/// What is told of a piece of the way; the rest of it is stack or, where a transmit stamp is missing, not told.
#[derive(Debug, Clone, Copy)]
struct Piece {
    schedule: i128,
    /// `None` when a phase on the way left no event.
    host: Option<i128>,
}

type Times = [Option<i128>; 8];
type Pieces = [Option<Piece>; 4];

fn one_way(t: &Times, launch: Option<i128>, writer: &End<'_>, reader: &End<'_>) -> Pieces {
    let nothing = Some(Piece { schedule: 0, host: Some(0) });
    [sent(t, launch, writer), received(t, 2, reader), nothing, nothing]
}

fn echoed(t: &Times, launch: Option<i128>, writer: &End<'_>, reader: &End<'_>) -> Pieces {
    let read = received(t, 2, reader);
    [sent(t, launch, writer), read, answered(t, read, reader), received(t, 6, writer)]
}

/// T1→T2: from hand-over to departure.
fn sent(t: &Times, launch: Option<i128>, writer: &End<'_>) -> Option<Piece> {
    // Without the transmit stamp it left at the latest when it arrived.
    let (from, until) = (t[0]?, t[1].or(t[2])?);
    let due = launch.unwrap_or(from);
    let owed = launch.map_or(Some(None), |launch| writer.launch_owed(launch, until));
    Some(Piece::cut(from, due, until, owed.map(|owed| owed.into_iter().collect())))
}

/// T3→T4 or T7→T8: from arrival to decoded.
fn received(t: &Times, arrived: usize, end: &End<'_>) -> Option<Piece> {
    let (from, until) = (t[arrived]?, t[arrived + 1]?);
    let due = end.beat.read(from);
    Some(Piece::cut(from, due, until, end.reading_owed(due, until)))
}

/// T4→T6: from decoded to the departure of the answer.
fn answered(t: &Times, read: Option<Piece>, reader: &End<'_>) -> Option<Piece> {
    let (arrived, from, handed_over, until) = (t[2]?, t[3]?, t[4]?, t[5].or(t[6])?);
    let beat = &reader.beat;
    // Without the event of the phase: the last one that the plan has.
    let published = reader.published(handed_over);
    let publish = published.unwrap_or(beat.last_publish(handed_over));
    let due = beat.departure(publish);
    let owed = published.and_then(|publish| reader.answer_owed(publish, due, handed_over, until));
    let mut piece = Piece::cut(from, due, until, owed);
    // A wait longer than the plan has is not of the schedule.
    let by_plan = |ready: i128| beat.departure(beat.publish_after(ready));
    let read_by_plan = beat.read(arrived);
    let beyond = (piece.schedule - (by_plan(read_by_plan) - read_by_plan)).max(0);
    piece.schedule -= beyond;
    piece.host = piece.host.zip(read?.host).map(|(host, before)| {
        let late = (by_plan(from) - by_plan(from - before)).clamp(0, beyond);
        let left_out = covered(reader.skipped(from, due), from, due).min(beyond - late);
        host + late + left_out
    });
    Some(piece)
}

impl Piece {
    /// Cuts `from`…`until`: up to `due` the schedule; of the rest, what lies in `owed` the host.
    fn cut(from: i128, due: i128, until: i128, owed: Option<Vec<(i128, i128)>>) -> Self {
        let due = due.clamp(from, until.max(from));
        Self { schedule: due - from, host: owed.map(|owed| covered(owed, due, until)) }
    }
}

/// How much of `from`…`to` the spans cover together.
fn covered(mut spans: Vec<(i128, i128)>, from: i128, to: i128) -> i128 {
    spans.sort_unstable();
    let mut reached = from;
    let mut covered = 0;
    for (begin, end) in spans {
        let (begin, end) = (begin.max(reached), end.min(to));
        if end > begin {
            covered += end - begin;
            reached = end;
        }
    }
    covered
}

/// One end with its plan and what its phases did.
struct End<'a> {
    beat: Beat,
    log: &'a EndLog,
}

impl<'a> End<'a> {
    fn new(beat: Beat, log: &'a EndLog) -> Self {
        Self { beat, log }
    }

    fn ran(&self, phase: Phase, due: i128) -> Option<&Ran> {
        let due = i64::try_from(due).ok()?;
        let all = &self.log.phases[phase as usize];
        let index = all.binary_search_by_key(&due, |ran| ran.due).ok()?;
        Some(&all[index])
    }

    /// The cycles left out within `from`…`until`, each from its subscribe phase on.
    fn skipped(&self, from: i128, until: i128) -> Vec<(i128, i128)> {
        let span = |&(first, cycles): &(i64, u32)| {
            let begin = self.beat.subscribe_of(first);
            (begin, begin + i128::from(cycles) * self.beat.cycle())
        };
        let all = &self.log.skipped;
        let first = all.partition_point(|skip| span(skip).1 <= from);
        all[first..].iter().map(span).take_while(|&(begin, _)| begin < until).collect()
    }

    /// From when to when the launch due at `launch` was owed. Nobody owes one where launches are no phase of the host
    /// but the kernel's or the port's. An overrun drops the launches of the cycles it leaves out: such a frame is owed
    /// `until` a later one took its place. `None` if only this launch left no event.
    fn launch_owed(&self, launch: i128, until: i128) -> Option<Option<(i128, i128)>> {
        if self.log.phases[Phase::Launch as usize].is_empty() {
            return Some(None);
        }
        let dropped = || (!self.skipped(launch, launch + 1).is_empty()).then_some((launch, until));
        self.ran(Phase::Launch, launch).map(Ran::owed).or_else(dropped).map(Some)
    }

    /// The spans in which reading was owed that bear on `from`…`until`; `None` when the subscribe phase that read left
    /// no event.
    fn reading_owed(&self, from: i128, until: i128) -> Option<Vec<(i128, i128)>> {
        let mut owed = self.skipped(from, until);
        // The first cycle left out may have read before it was given up.
        for (begin, _) in &mut owed {
            *begin += if self.ran(Phase::Subscribe, *begin).is_some() { self.beat.cycle() } else { 0 };
        }
        let reader = self.beat.last_subscribe(until);
        if self.ran(Phase::Subscribe, reader).is_none()
            && !owed.iter().any(|&(begin, end)| begin <= reader && reader < end)
        {
            return None;
        }
        // The phase before the first may still be owed.
        let all = &self.log.phases[Phase::Subscribe as usize];
        let first = all.partition_point(|ran| i128::from(ran.due) <= from).saturating_sub(1);
        let until_then = all[first..].iter().take_while(|ran| i128::from(ran.due) <= until);
        owed.extend(until_then.map(Ran::owed));
        Some(owed)
    }

    /// When the publish phase was due that handed over at `at`. It may have begun more than a cycle late.
    fn published(&self, at: i128) -> Option<i128> {
        let all = &self.log.phases[Phase::Publish as usize];
        let before = &all[..all.partition_point(|ran| i128::from(ran.due) <= at)];
        let ran = before.iter().rev().take(16).find(|ran| ran.owed().1 <= at)?;
        (at <= ran.owed().1 + i128::from(ran.took).max(0)).then_some(ran.due.into())
    }

    /// The spans in which the answer was owed: its publish phase and its launch.
    fn answer_owed(&self, publish: i128, departure: i128, handed_over: i128, until: i128) -> Option<Vec<(i128, i128)>> {
        let launch = if departure == publish { None } else { self.launch_owed(departure, until)? };
        Some(std::iter::once((publish, handed_over)).chain(launch).collect())
    }
}

impl Ran {
    fn owed(&self) -> (i128, i128) {
        let due = i128::from(self.due);
        (due, due + i128::from(self.late).max(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_counted_once() {
        assert_eq!(covered(vec![(5, 10), (0, 3), (8, 12)], 1, 11), 2 + 6);
        assert_eq!(covered(vec![(0, 3)], 3, 10), 0);
        assert_eq!(covered(vec![(4, 4), (20, 10)], 0, 30), 0);
        let piece = Piece::cut(10, 5, 20, Some(vec![(0, 12)]));
        assert_eq!((piece.schedule, piece.host), (0, Some(2)));
        let early = Piece::cut(10, 50, 20, None);
        assert_eq!((early.schedule, early.host), (10, None));
    }
}
