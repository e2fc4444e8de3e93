//! One stream, counted as its events come.

use scenario::{BreachChange, Stream};
use units::{Nanos, Tai};

use super::slots::{Sends, Slots, reach};
use super::span::{CycleFigures, SpanFigures};
use super::{Rate, What};
use crate::collect::{NONE, outlier_after};
use crate::{EventKind, LAUNCH_SKIPPED, Phase, Refused, Side};

/// A span between two points of a message's way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Quantity {
    /// T7 − T2, of streams with an echo.
    RoundTripWire,
    /// T8 − T1, of streams with an echo.
    RoundTripStack,
    /// T3 − T2.
    OneWay,
    /// T4 − T1.
    OneWayStack,
    /// T3 − T3 of the message before.
    Spacing,
}

impl Quantity {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::RoundTripWire, Self::RoundTripStack, Self::OneWay, Self::OneWayStack, Self::Spacing];

    /// The two points, unless it is between two messages.
    fn points(self) -> Option<(usize, usize)> {
        match self {
            Self::RoundTripWire => Some((2, 7)),
            Self::RoundTripStack => Some((1, 8)),
            Self::OneWay => Some((2, 3)),
            Self::OneWayStack => Some((1, 4)),
            Self::Spacing => None,
        }
    }
}

/// What was counted of a stream so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages that the writer published.
    pub published: u64,
    /// Messages that came back or, without an echo, arrived.
    pub answered: u64,
    /// Messages that did not although later ones did.
    pub lost: u64,
    /// What each end counted: writer, reader.
    pub ends: [EndCounts; 2],
    /// Events of messages that were too old to be remembered, or of none that the writer can have published.
    pub out_of_reach: u64,
}

/// What was counted at one end of a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EndCounts {
    /// Counters its application never saw; `None` before its first application phase.
    pub missed: Option<u64>,
    /// Application phases that found nothing new; `None` before the first.
    pub repeated: Option<u64>,
    /// Messages that a newer one replaced before the application took them.
    pub superseded: u64,
    /// Messages whose variables differed.
    pub inconsistent: u64,
    /// Messages with another VID or PCP, or untagged.
    pub wrong_tag: u64,
    /// Frames of others.
    pub foreign: u64,
    /// Sends that the operating system refused.
    pub refused: u64,
    /// Launches that an overrun skipped.
    pub launches_skipped: u64,
    /// Overruns: how often cycles were left out. Those that threads with a phase each left out together count once.
    pub overruns: u64,
    /// Cycles left out.
    pub cycles_skipped: u64,
    /// Times that receiving failed.
    pub receive_failed: u64,
}

/// A phase as it ran last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ran {
    /// When it should have begun.
    pub due: Tai,
    /// How much later it began.
    pub late: Nanos,
    /// How long it took.
    pub took: Nanos,
}

/// One stream.
#[derive(Debug)]
pub struct StreamFigures {
    spans: [Option<SpanFigures>; 5],
    counter: CycleFigures,
    counts: Counts,
    phases: [[Option<Ran>; 4]; 2],
    published: Rate,
    slots: Slots,
    sends: [Sends; 2],
    first: Option<u64>,
    newest: Option<u64>,
    /// The latest instant that each end told of.
    now: [Tai; 2],
    /// The first cycle after those that each end is known to have left out.
    skipped_until: [Option<i64>; 2],
    echo: bool,
    tag: (u16, u8),
    pub(super) outlier_after: i64,
}

/// What went wrong, and when.
type Noted = Option<(Tai, What)>;

impl StreamFigures {
    pub(super) fn new(stream: &Stream) -> Self {
        let reach = reach(stream.cycle);
        let measured =
            |quantity| stream.echo || !matches!(quantity, Quantity::RoundTripWire | Quantity::RoundTripStack);
        Self {
            spans: Quantity::ALL.map(|quantity| measured(quantity).then(SpanFigures::new)),
            counter: CycleFigures::new(),
            counts: Counts::default(),
            phases: [[None; 4]; 2],
            published: Rate::default(),
            slots: Slots::new(reach),
            sends: [Sends::new(reach), Sends::new(reach)],
            first: None,
            newest: None,
            now: [Tai(0); 2],
            skipped_until: [None; 2],
            echo: stream.echo,
            tag: (stream.vid, stream.pcp),
            outlier_after: outlier_after(stream.cycle),
        }
    }

    pub(super) fn turn(&mut self, now: Tai) {
        self.published.turn(now);
    }

    /// A span; `None` when the stream has none such, being without an echo.
    pub fn span(&self, quantity: Quantity) -> Option<&SpanFigures> {
        self.spans[quantity as usize].as_ref()
    }

    /// Round trips by the counter, at the end where the stream ends.
    pub fn round_trip_counter(&self) -> &CycleFigures {
        &self.counter
    }

    /// What was counted so far.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts { published: self.published.count, ..self.counts };
        if let (Some(first), Some(newest)) = (self.first, self.newest) {
            let due = newest.saturating_sub(first).saturating_add(1).min(counts.published);
            counts.lost = due.saturating_sub(counts.answered);
        }
        counts
    }

    /// Messages published a second, over the last second; `None` before the second turn.
    pub fn published_per_second(&self) -> Option<f64> {
        self.published.per_second()
    }

    /// The phases of an end as they ran last, in the order of [`Phase::ALL`].
    pub fn phases(&self, side: Side) -> &[Option<Ran>; 4] {
        &self.phases[side as usize]
    }

    /// Takes an event; gives what went wrong, if anything did.
    pub(super) fn push(&mut self, side: Side, kind: EventKind) -> Noted {
        let end = side as usize;
        match kind {
            EventKind::Published { counter, handle, at, repeated, .. } => {
                self.published(end, counter, handle, at, repeated);
                None
            }
            EventKind::Left { handle, at } => {
                self.left(end, handle, at);
                None
            }
            EventKind::NotSent { handle, errno } => self.not_sent(end, handle, errno),
            EventKind::Arrived { counter, stamp, decoded, tag, superseded, inconsistent, .. } => {
                self.seen(end, decoded);
                if let Some(older) = superseded {
                    self.superseded(end, older);
                }
                self.arrived(end, counter, stamp, decoded);
                self.flaws(end, tag, inconsistent)
            }
            EventKind::Refused { at, frames } => {
                self.seen(end, at);
                self.refused(end, &frames);
                None
            }
            EventKind::Application { read, repeated, missed, round_trip_cycles, .. } => {
                if let (Some(cycles), Some(_), false) = (round_trip_cycles, read, repeated)
                    && (side == Side::Writer) == self.echo
                {
                    self.counter.record(cycles);
                }
                self.application(end, repeated, missed)
            }
            EventKind::Phase { phase, due, late, took, .. } => self.phase(end, phase, Ran { due, late, took }),
            EventKind::Skipped { cycle, cycles } => {
                // Threads with a phase each leave out the same cycles when their host stands still.
                let until = cycle.saturating_add(i64::from(cycles));
                let known = self.skipped_until[end].replace(until.max(self.skipped_until[end].unwrap_or(until)));
                let left = until.saturating_sub(known.map_or(cycle, |known| known.max(cycle)));
                if left <= 0 {
                    return None;
                }
                let counts = &mut self.counts.ends[end];
                // What begins in cycles that are known already only lasted longer for this thread.
                counts.overruns += u64::from(known.is_none_or(|known| cycle >= known));
                counts.cycles_skipped += left.cast_unsigned();
                Some((self.now[end], What::Skipped(cycles)))
            }
            EventKind::ReceiveFailed { at, errno } => {
                self.counts.ends[end].receive_failed += 1;
                Some((at, What::ReceiveFailed(errno)))
            }
            EventKind::Breach { condition, change, at, .. } => {
                (change == BreachChange::Began).then_some((at, What::Breach(condition)))
            }
            EventKind::Substitute { at, .. } | EventKind::Outside { at, .. } | EventKind::Drained { at, .. } => {
                self.seen(end, at);
                None
            }
            EventKind::ClockStepped { at, by } => Some((at, What::TimeSet(by))),
        }
    }

    fn seen(&mut self, end: usize, at: Tai) {
        self.now[end] = self.now[end].max(at);
    }

    fn published(&mut self, end: usize, counter: u64, handle: u32, at: Tai, repeated: bool) {
        self.seen(end, at);
        if end == Side::Writer as usize {
            self.slots.published(counter);
        }
        let (Some(slot), Some(send)) = (self.slots.take(counter), self.sends[end].take(handle)) else {
            self.counts.out_of_reach += 1;
            return;
        };
        send.counter = Some(counter);
        if slot.sends[end].is_some_and(|first| (repeated, handle) >= first) {
            return;
        }
        slot.sends[end] = Some((repeated, handle));
        (slot.t[4 * end], slot.t[4 * end + 1]) = (at.0, send.left);
        if end == Side::Writer as usize && !slot.published {
            slot.published = true;
            self.published.count += 1;
            self.first = Some(self.first.map_or(counter, |first| first.min(counter)));
        }
        self.count_spans(counter);
    }

    fn left(&mut self, end: usize, handle: u32, at: Tai) {
        self.seen(end, at);
        let Some(send) = self.sends[end].take(handle) else {
            self.counts.out_of_reach += 1;
            return;
        };
        if send.left == NONE || at.0 < send.left {
            send.left = at.0;
        }
        let (left, counter) = (send.left, send.counter);
        if let Some(slot) = counter.and_then(|counter| self.slots.take(counter))
            && slot.sends[end].is_some_and(|(_, first)| first == handle)
        {
            slot.t[4 * end + 1] = left;
            let counter = slot.counter;
            self.count_spans(counter);
        }
    }

    fn not_sent(&mut self, end: usize, handle: u32, errno: i32) -> Noted {
        // Out of reach it is counted all the same: a send fails once.
        if self.sends[end].take(handle).is_some_and(|send| std::mem::replace(&mut send.failed, true)) {
            return None;
        }
        let counts = &mut self.counts.ends[end];
        if errno == LAUNCH_SKIPPED {
            // An overrun, which is noted as such.
            counts.launches_skipped += 1;
            return None;
        }
        counts.refused += 1;
        Some((self.now[end], What::Refused(errno)))
    }

    fn superseded(&mut self, end: usize, counter: u64) {
        match self.slots.take(counter) {
            Some(slot) => {
                let before = std::mem::replace(&mut slot.superseded[end], true);
                self.counts.ends[end].superseded += u64::from(!before);
            }
            None => self.counts.out_of_reach += 1,
        }
    }

    fn arrived(&mut self, end: usize, counter: u64, stamp: Option<Tai>, decoded: Tai) {
        // T3 and T4 at the reader, T7 and T8 at the writer.
        let first = if end == Side::Reader as usize { 2 } else { 6 };
        let Some(slot) = self.slots.take(counter) else {
            self.counts.out_of_reach += 1;
            return;
        };
        if slot.t[first + 1] != NONE && slot.t[first + 1] <= decoded.0 {
            return;
        }
        let last = if self.echo { 7 } else { 3 };
        let before = slot.t[last] != NONE;
        slot.t[first + 1] = decoded.0;
        slot.t[first] = stamp.map_or(NONE, |stamp| stamp.0);
        if !before && slot.t[last] != NONE {
            self.counts.answered += 1;
            self.newest = self.newest.max(Some(counter));
        }
        self.count_spans(counter);
    }

    fn flaws(&mut self, end: usize, tag: Option<(u16, u8)>, inconsistent: bool) -> Noted {
        let wrong_tag = tag != Some(self.tag);
        let counts = &mut self.counts.ends[end];
        counts.wrong_tag += u64::from(wrong_tag);
        counts.inconsistent += u64::from(inconsistent);
        let what = match (inconsistent, wrong_tag) {
            (true, _) => What::Inconsistent,
            (false, true) => What::WrongTag,
            (false, false) => return None,
        };
        Some((self.now[end], what))
    }

    /// The first few that are inconsistent or have another tag come with events of their own.
    fn refused(&mut self, end: usize, frames: &Refused) {
        let counts = &mut self.counts.ends[end];
        counts.foreign += u64::from(frames.foreign);
        counts.wrong_tag += u64::from(frames.wrong_tag);
        counts.inconsistent += u64::from(frames.inconsistent);
    }

    fn application(&mut self, end: usize, repeated: bool, missed: u64) -> Noted {
        let counts = &mut self.counts.ends[end];
        counts.missed = Some(counts.missed.unwrap_or(0).saturating_add(missed));
        counts.repeated = Some(counts.repeated.unwrap_or(0) + u64::from(repeated));
        (missed > 0).then(|| (self.now[end], What::Missed(missed)))
    }

    fn phase(&mut self, end: usize, phase: Phase, ran: Ran) -> Noted {
        let begun = Tai(ran.due.0.saturating_add(ran.late.0));
        self.seen(end, begun);
        self.phases[end][phase as usize] = Some(ran);
        (ran.late.0 > self.outlier_after).then_some((begun, What::Late(phase, ran.late)))
    }

    /// Counts what has become known of a message, each quantity once.
    fn count_spans(&mut self, counter: u64) {
        let Some(slot) = self.slots.take(counter) else { return };
        for (quantity, figures) in Quantity::ALL.into_iter().zip(&mut self.spans) {
            if let (Some(figures), Some(points)) = (figures, quantity.points())
                && let Some(span) = slot.span(points)
                && slot.count(quantity as u8)
            {
                figures.record(Nanos(span));
            }
        }
        let arrived = slot.t[2];
        if arrived == NONE || !slot.count(Quantity::Spacing as u8) {
            return;
        }
        // The later known of two neighbours counts their spacing.
        let at = |counter: Option<u64>| Some(self.slots.get(counter?)?.t[2]).filter(|&at| at != NONE);
        let spans = [
            at(counter.checked_sub(1)).and_then(|before| arrived.checked_sub(before)),
            at(counter.checked_add(1)).and_then(|after| after.checked_sub(arrived)),
        ];
        if let Some(figures) = &mut self.spans[Quantity::Spacing as usize] {
            spans.into_iter().flatten().for_each(|span| figures.record(Nanos(span)));
        }
    }
}
