//! Collecting trace events: what both ends of every stream report becomes one row a message.
//!
//! Events may come in any order across ends and within them, twice, or not at all from an end that was killed.
//! Memory is linear in the number of messages and phases.

use std::collections::BTreeMap;

use scenario::{HostId, Scenario};
use units::{Nanos, Tai};

use crate::breaches::{LiveBreach, Noticed, note_live};
use crate::drains::Drain;
use crate::index::Index;
use crate::outside::Glance;
use crate::{
    ApplicationResult, BreachResult, Counters, DrainResult, Event, EventKind, FrameRow, HostResult, Incident,
    LAUNCH_REFUSED, Loss, Margins, Parts, Side, flags,
};

mod end;

pub(crate) use end::{EndLog, First, Outlier, Ran, Send, outlier_after};

/// "No instant" inside the collector: half the size of an option.
pub(crate) const NONE: i64 = i64::MIN;
const NO_HANDLE: u32 = u32::MAX;
/// How many round trips the live median is of.
const RECENT: usize = 256;

/// Takes trace events, gives live figures, and joins everything at the end.
#[derive(Debug)]
pub struct Collector {
    pub(crate) streams: Vec<StreamLog>,
    /// Hosts of whose records some found no room, and how many.
    pub(crate) lost_records: Vec<(HostId, u64)>,
    recent: Vec<i64>,
    recent_next: usize,
    last_round_trip: Option<Nanos>,
    breaches: Vec<LiveBreach>,
}

/// Figures while a run goes on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Live {
    /// Messages published by all writers.
    pub frames: u64,
    /// Messages that came back or, without an echo, arrived.
    pub answered: u64,
    /// Messages that did not although later ones did.
    pub lost: u64,
    /// The last round trip T7 − T2.
    pub last_round_trip: Option<Nanos>,
    /// Median of the last round trips T7 − T2.
    pub recent_p50: Option<Nanos>,
    /// How many round trips that median is of, at most 256.
    pub recent_count: usize,
    /// Breaches that have begun so far, one entry an end and condition.
    pub breaches: Vec<LiveBreach>,
}

/// What one stream has counted so far. What no end here can know is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StreamCounts {
    /// Messages the writer published.
    pub published: Option<u64>,
    /// Messages that arrived at the reader.
    pub arrived: Option<u64>,
    /// Messages that came back to the writer or, without an echo, arrived.
    pub answered: Option<u64>,
    /// Published messages that did not although later ones did.
    pub lost: Option<u64>,
    /// Counters that the application which ends the stream here never read.
    pub missed: Option<u64>,
}

/// What was observed of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observations {
    /// One row a message, by stream and counter.
    pub rows: Vec<FrameRow>,
    /// One entry a stream of the scenario.
    pub streams: Vec<StreamObservations>,
    /// Lateness of the phases.
    pub hosts: Vec<HostResult>,
    /// What went wrong, in the order of time, at most 200.
    pub incidents: Vec<Incident>,
    /// How many of each kind are left out; the kept ones cost the most frames.
    pub incidents_left_out: BTreeMap<String, u64>,
}

/// What was observed of a stream beside its rows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StreamObservations {
    /// Losses.
    pub loss: Loss,
    /// What the applications counted.
    pub counters: Counters,
    /// Elapsed cycles of the counters read back for the first time, in the order of cycles.
    pub round_trip_cycles: Vec<i64>,
    /// What each round trip (or, without an echo, way) consists of: one entry a row of the stream, in their order.
    pub parts: Vec<Parts>,
    /// What the phases left of their time, at both ends.
    pub margins: Margins,
    /// Messages that arrived at the reader; none without its trace.
    pub arrived: Option<u64>,
    /// Whether the writer, the reader were not to be observed here: what only they know is absent, not missing.
    pub elsewhere: [bool; 2],
    /// What the ends watched for.
    pub breaches: Vec<BreachResult>,
    /// What came from applications outside.
    pub applications: Vec<ApplicationResult>,
    /// Queues that were emptied.
    pub drains: Vec<DrainResult>,
}

/// One stream while events come in.
#[derive(Debug, Default)]
pub(crate) struct StreamLog {
    pub(crate) messages: Vec<Message>,
    pub(crate) index: Index,
    /// Cut off from what went on: nothing in it is under way.
    pub(crate) part: bool,
    /// First and last cycle in which both ends were there, where they were told apart and did not begin or end together.
    pub(crate) together: Option<(i64, i64)>,
    /// Writer, reader.
    pub(crate) ends: [EndLog; 2],
    tag: Option<(u16, u8)>,
    echo: bool,
    published: u64,
    arrived: u64,
    answered: u64,
    missed: [u64; 2],
    /// Lowest published and highest complete counter, for the live loss.
    first: Option<u64>,
    newest: Option<u64>,
}

/// One message while events come in.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) counter: u64,
    pub(crate) cycle: i64,
    pub(crate) sequence: Option<u16>,
    pub(crate) bytes: u32,
    pub(crate) launch: i64,
    pub(crate) t: [i64; 8],
    pub(crate) flags: u32,
    /// First send by writer and reader.
    pub(crate) sends: [FirstSend; 2],
}

/// The send a message's T1 and T2 (T5 and T6) are of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FirstSend {
    pub(crate) handle: u32,
    pub(crate) repeated: bool,
}

impl FirstSend {
    /// Whether there was one.
    pub(crate) fn is_known(&self) -> bool {
        self.handle != NO_HANDLE
    }
}

impl Message {
    fn new(counter: u64, cycle: i64) -> Self {
        let none = FirstSend { handle: NO_HANDLE, repeated: true };
        Self {
            counter,
            cycle,
            sequence: None,
            bytes: 0,
            launch: NONE,
            t: [NONE; 8],
            flags: flags::NOT_SEEN_PUBLISHED,
            sends: [none; 2],
        }
    }

    /// Whether it came all the way: back to the writer or, without an echo, to the reader.
    pub(crate) fn complete(&self, echo: bool) -> bool {
        self.t[if echo { 7 } else { 3 }] != NONE
    }

    pub(crate) fn published(&self) -> bool {
        self.flags & flags::NOT_SEEN_PUBLISHED == 0
    }
}

impl Collector {
    /// An empty collector for both ends of the streams of `scenario`.
    pub fn new(scenario: &Scenario) -> Self {
        Self::of_ends(scenario, |_, _| true)
    }

    /// An empty collector for the ends that `here` names by stream and side; the others run elsewhere, and nothing is
    /// amiss when they leave no trace.
    pub fn of_ends(scenario: &Scenario, here: impl Fn(usize, Side) -> bool) -> Self {
        let streams = scenario
            .streams
            .iter()
            .enumerate()
            .map(|(number, stream)| {
                let end = |side, host| {
                    let phases = scenario.host(host).phases;
                    EndLog {
                        elsewhere: !here(number, side),
                        outlier_after: outlier_after(stream.cycle),
                        cycle: stream.cycle.0,
                        phase_offsets: [
                            Some(phases.subscribe.of(stream.cycle).0),
                            Some(phases.application.of(stream.cycle).0),
                            Some(phases.publish.of(stream.cycle).0),
                            None,
                        ],
                        ..EndLog::default()
                    }
                };
                StreamLog {
                    ends: [end(Side::Writer, stream.writer), end(Side::Reader, stream.reader)],
                    tag: stream.tag(),
                    echo: stream.echo,
                    ..StreamLog::default()
                }
            })
            .collect();
        Self { streams, ..Self::empty() }
    }

    /// A collector of no streams.
    pub(crate) fn empty() -> Self {
        Self {
            streams: Vec::new(),
            lost_records: Vec::new(),
            recent: Vec::new(),
            recent_next: 0,
            last_round_trip: None,
            breaches: Vec::new(),
        }
    }

    /// Takes one event. Events of streams that the scenario lacks are ignored.
    pub fn push(&mut self, event: Event) {
        let Some(stream) = self.streams.get_mut(usize::from(event.stream)) else { return };
        note_live(&mut self.breaches, &event);
        if let Some(round_trip) = stream.push(event.side, event.kind) {
            if self.recent.len() < RECENT {
                self.recent.push(round_trip);
            } else {
                self.recent[self.recent_next % RECENT] = round_trip;
            }
            self.recent_next = (self.recent_next + 1) % RECENT;
            self.last_round_trip = Some(Nanos(round_trip));
        }
    }

    /// Figures so far.
    pub fn live(&self) -> Live {
        let mut live =
            Live { last_round_trip: self.last_round_trip, recent_count: self.recent.len(), ..Live::default() };
        for stream in &self.streams {
            live.frames += stream.published;
            live.answered += stream.answered;
            live.lost += stream.lost();
        }
        live.breaches.clone_from(&self.breaches);
        live.recent_p50 = crate::dist::median(&mut self.recent.clone()).map(Nanos);
        live
    }

    /// What each stream has counted so far, in the order of the scenario; parts that were cut off included.
    pub fn counts(&self) -> Vec<StreamCounts> {
        self.streams.iter().map(StreamLog::counts).collect()
    }

    /// Takes note that `records` events of a host never came because its trace had no room: cycles of which nothing is
    /// known are then a gap in the trace, and what was under way in them is not taken for lost.
    pub fn lost_records(&mut self, host: HostId, records: u64) {
        match self.lost_records.iter_mut().find(|(known, _)| *known == host) {
            Some((_, lost)) => *lost += records,
            None if records > 0 => self.lost_records.push((host, records)),
            None => {}
        }
    }

    /// Joins everything into rows, counters and incidents.
    pub fn finish(self, scenario: &Scenario) -> Observations {
        crate::join::join(scenario, self.streams, &self.lost_records)
    }
}

impl StreamLog {
    /// Published messages that did not come all the way although later ones did.
    fn lost(&self) -> u64 {
        let (Some(first), Some(newest)) = (self.first, self.newest) else { return 0 };
        newest.saturating_sub(first).saturating_add(1).min(self.published).saturating_sub(self.answered)
    }

    fn counts(&self) -> StreamCounts {
        let [writer, reader] = [&self.ends[0], &self.ends[1]].map(|end| !end.elsewhere);
        let whole = writer && (self.echo || reader);
        StreamCounts {
            published: writer.then_some(self.published),
            arrived: reader.then_some(self.arrived),
            answered: whole.then_some(self.answered),
            lost: whole.then_some(self.lost()),
            missed: if self.echo && writer { Some(self.missed[0]) } else { reader.then_some(self.missed[1]) },
        }
    }

    pub(crate) fn message(&mut self, counter: u64, cycle: i64) -> usize {
        if let Some(position) = self.index.get(counter) {
            let message = &mut self.messages[position];
            if !message.published() {
                message.cycle = message.cycle.min(cycle);
            }
            return position;
        }
        let position = self.messages.len();
        self.messages.push(Message::new(counter, cycle));
        self.index.insert(counter, position);
        position
    }

    /// Takes an event; gives the round trip T7 − T2 that it completed.
    fn push(&mut self, side: Side, kind: EventKind) -> Option<i64> {
        let end = side as usize;
        self.ends[end].seen = true;
        match kind {
            EventKind::Published { cycle, counter, sequence, handle, at, launch, bytes, repeated } => {
                let position = self.message(counter, cycle);
                let send = self.ends[end].send(handle);
                (send.message, send.at) = (position as u32, at.0);
                let send = *send;
                let message = &mut self.messages[position];
                let first = message.sends[end];
                if first.handle == handle {
                    return None;
                }
                if first.handle != NO_HANDLE {
                    message.flags |= [flags::REPEATED_WRITER, flags::REPEATED_READER][end];
                }
                if (repeated, handle) >= (first.repeated, first.handle) {
                    return None;
                }
                message.sends[end] = FirstSend { handle, repeated };
                message.t[4 * end] = at.0;
                if side == Side::Writer {
                    if !message.published() {
                        self.published += 1;
                        self.first = Some(self.first.map_or(counter, |first| first.min(counter)));
                    }
                    message.flags &= !flags::NOT_SEEN_PUBLISHED;
                    message.cycle = cycle;
                    message.sequence = Some(sequence);
                    message.bytes = bytes;
                    message.launch = launch.map_or(NONE, |launch| launch.0);
                }
                self.settle(end, send)
            }
            EventKind::Left { handle, at } => {
                let log = &mut self.ends[end];
                log.last_left = log.last_left.max(Some(handle));
                let send = log.send(handle);
                if send.left == NONE || at.0 < send.left {
                    send.left = at.0;
                }
                let send = *send;
                self.settle_handle(end, handle, send)
            }
            EventKind::NotSent { handle, errno } => {
                let send = self.ends[end].send(handle);
                // The queue's explanation may come before or after the failure of the call that it explains.
                if errno != LAUNCH_REFUSED || send.failed.is_none() {
                    send.failed = Some(errno);
                }
                let send = *send;
                self.settle_handle(end, handle, send)
            }
            EventKind::Arrived { cycle, counter, stamp, decoded, tag, superseded, inconsistent } => {
                self.arrived(side, cycle, counter, stamp, decoded, tag, superseded, inconsistent)
            }
            EventKind::Refused { at, frames } => {
                self.ends[end].refused(at.0, &frames);
                None
            }
            EventKind::Application { cycle, read, repeated, missed, round_trip_cycles, .. } => {
                let log = &mut self.ends[end];
                log.ran(cycle);
                let (all_missed, all_repeated) = log.application.get_or_insert((0, 0));
                *all_missed = all_missed.saturating_add(missed);
                self.missed[end] = self.missed[end].saturating_add(missed);
                *all_repeated += u64::from(repeated);
                if let (Some(elapsed), Some(_), false) = (round_trip_cycles, read, repeated) {
                    log.round_trips.push((cycle, elapsed));
                }
                None
            }
            EventKind::Phase { cycle, phase, due, late, took } => {
                self.ends[end].phase(Outlier { cycle, phase, due: due.0, late: late.0, took: took.0 });
                None
            }
            EventKind::Skipped { cycle, cycles } => {
                let log = &mut self.ends[end];
                log.ran(cycle.saturating_add(i64::from(cycles)));
                log.skipped.push((cycle, cycles));
                None
            }
            EventKind::Drained { cycle, messages, cause, .. } => {
                self.ends[end].drained.push(Drain { cycle, messages, cause });
                None
            }
            EventKind::ClockStepped { at, by } => {
                self.ends[end].steps.push((at.0, by.0));
                None
            }
            EventKind::ReceiveFailed { at, errno } => {
                let first = self.ends[end].receive_failed.entry(errno).or_insert(at.0);
                *first = at.0.min(*first);
                None
            }
            EventKind::Breach { cycle, condition, change, counter, at } => {
                self.ends[end].breaches.push(Noticed { condition, cycle, change, counter, at: at.0, carried: false });
                None
            }
            EventKind::Substitute { handle, .. } => {
                self.ends[end].breaches.substituted += u64::from(handle.is_some());
                None
            }
            EventKind::Outside { cycle, at, new, stirred, answered_after, status } => {
                let log = &mut self.ends[end];
                log.outside.push(Glance { cycle, at: at.0, new, stirred, answered_after, status });
                None
            }
        }
    }

    #[allow(clippy::too_many_arguments)] // the fields of one event
    fn arrived(
        &mut self,
        side: Side,
        cycle: i64,
        counter: u64,
        stamp: Option<Tai>,
        decoded: Tai,
        tag: Option<(u16, u8)>,
        superseded: Option<u64>,
        inconsistent: bool,
    ) -> Option<i64> {
        let end = side as usize;
        let at = stamp.unwrap_or(decoded).0;
        // T3 and T4 at the reader, T7 and T8 at the writer.
        let first = if side == Side::Reader { 2 } else { 6 };
        let wrong_tag = tag != self.tag;
        if wrong_tag {
            First::note(&mut self.ends[end].wrong_tag, at, tag);
        }
        if inconsistent {
            First::note(&mut self.ends[end].inconsistent, at, counter);
        }
        if let Some(older) = superseded {
            let position = self.message(older, cycle);
            self.messages[position].flags |= [flags::SUPERSEDED_WRITER, flags::SUPERSEDED_READER][end];
        }
        let position = self.message(counter, cycle);
        let echo = self.echo;
        let message = &mut self.messages[position];
        message.flags |= if wrong_tag { flags::WRONG_TAG } else { 0 };
        message.flags |= if inconsistent { flags::INCONSISTENT } else { 0 };
        if message.t[first + 1] != NONE && message.t[first + 1] <= decoded.0 {
            return None;
        }
        let before = message.complete(echo);
        self.arrived += u64::from(side == Side::Reader && message.t[3] == NONE);
        message.t[first + 1] = decoded.0;
        message.t[first] = stamp.map_or(NONE, |stamp| stamp.0);
        if message.complete(echo) && !before {
            self.answered += 1;
            self.newest = self.newest.max(Some(counter));
        }
        let message = &self.messages[position];
        (side == Side::Writer && !before).then(|| message.round_trip()).flatten()
    }

    /// Carries what is known of a send to its message, if the send is the one its row is of.
    fn settle_handle(&mut self, end: usize, handle: u32, send: Send) -> Option<i64> {
        let message = self.messages.get(send.message as usize)?;
        if message.sends[end].handle != handle {
            return None;
        }
        self.settle(end, send)
    }

    fn settle(&mut self, end: usize, send: Send) -> Option<i64> {
        let message = &mut self.messages[send.message as usize];
        let failed = [flags::NOT_SENT_WRITER, flags::NOT_SENT_READER][end];
        message.flags = message.flags & !failed | if send.failed.is_some() { failed } else { 0 };
        let known = message.round_trip().is_some();
        message.t[1 + 4 * end] = send.left;
        if known { None } else { message.round_trip() }
    }
}

impl Message {
    fn round_trip(&self) -> Option<i64> {
        if self.t[1] == NONE || self.t[6] == NONE { None } else { self.t[6].checked_sub(self.t[1]) }
    }
}

impl StreamLog {
    /// The same stream with nothing logged and nothing counted.
    pub(crate) fn without_log(&self) -> Self {
        Self { tag: self.tag, echo: self.echo, ..Self::default() }
    }
}
