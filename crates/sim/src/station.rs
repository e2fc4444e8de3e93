//! One end of a stream: the engine, driven at the phases of its host.

use std::collections::VecDeque;
use std::ops::Range;

use measure::{DrainCause, Event, EventKind, Phase, Refused, Side};
use pubsub::{Endpoint, Reception, StandingBacklog};
use rand_chacha::ChaCha8Rng;
use scenario::{Backlog, HostId, Scenario};
use units::{Nanos, Picos, Tai};

use crate::engine;
use crate::frames::{FrameId, Frames};
use crate::latency::HostLatency;
use crate::outcome::{Options, SimError};
use crate::world::random;

/// How far TAI is ahead of UTC, for the timestamps in messages.
const TAI_MINUS_UTC: Nanos = Nanos(37_000_000_000);
/// Destination, source, 802.1Q tag and EtherType.
const HEADER_BYTES: usize = 18;

/// What a phase hands over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hand {
    /// No frame.
    Nothing,
    /// A frame, to enter the queue of the port at this instant or, if that has passed, at once.
    Over(FrameId, Picos),
    /// A frame, to a queue of the port that keeps this launch time.
    ToLaunch(FrameId, Picos),
}

/// One end of a stream. It runs its phases one after the other, as one thread does: a phase that begins late delays
/// the next, and when the last of a cycle ends after the first of the next cycle was due, cycles are skipped.
pub(crate) struct StreamEnd {
    endpoint: Endpoint,
    stream: u16,
    side: Side,
    tag: Option<(u16, u8)>,
    /// What stands before the message in its frames.
    header_bytes: usize,
    /// Index of the flow it sends.
    flow: u32,
    base_time: Tai,
    cycle_span: Picos,
    /// Launch = next cycle start + this.
    launch: Option<Picos>,
    /// A queue of its port keeps launch times, not its own thread.
    queue_launches: bool,
    window: Picos,
    /// Phases in the order of their instants in the cycle.
    order: [(Picos, Phase); 3],
    /// The phase that comes next: its cycle and index into `order`.
    cycle: i64,
    next: usize,
    /// Frames are read as they arrive until then; `None` outside the window.
    open_until: Option<Picos>,
    backlog: Backlog,
    /// What tells that a backlog has stood for long enough; none where it may stand.
    standing: Option<StandingBacklog>,
    /// Frames that wait to be read, with their time of arrival.
    socket: VecDeque<(FrameId, Picos)>,
    sends: u32,
    latency: HostLatency,
    random: ChaCha8Rng,
    /// When its host stands still.
    pauses: Vec<Range<Picos>>,
}

impl StreamEnd {
    /// The writer (`direction` 0) or reader (1) of a stream, before its first cycle.
    pub(crate) fn new(
        scenario: &Scenario,
        options: &Options,
        index: usize,
        direction: usize,
    ) -> Result<Self, SimError> {
        let stream = &scenario.streams[index];
        let (host, side) = if direction == 0 { (stream.writer, Side::Writer) } else { (stream.reader, Side::Reader) };
        let endpoint = engine::endpoint(scenario, stream, side)
            .map_err(|why| SimError::Layout { stream: stream.name.clone(), why: why.to_string() })?;
        let phases = scenario.host(host).phases;
        let at = |fraction: scenario::Fraction| fraction.of(stream.cycle).to_picos();
        let mut order = [
            (at(phases.subscribe), Phase::Subscribe),
            (at(phases.application), Phase::Application),
            (at(phases.publish), Phase::Publish),
        ];
        // Stable: phases at one instant keep this order.
        order.sort_by_key(|&(at, _)| at);
        let launch = stream.launch.then(|| stream.offset.to_picos());
        // The first cycle whose frame departs at or after the start; both ends begin with it.
        let writer_publish = scenario.host(stream.writer).phases.publish.of(stream.cycle);
        let departure = if stream.launch { stream.cycle + stream.offset } else { writer_publish };
        let cycle = -(departure - stream.start).0.div_euclid(stream.cycle.0.max(1));
        let (name, path) = if direction == 0 { ("writer", &stream.path) } else { ("reader", &stream.return_path) };
        Ok(Self {
            endpoint,
            stream: index as u16,
            side,
            tag: stream.tag(),
            header_bytes: if stream.tag().is_some() { HEADER_BYTES } else { 0 },
            flow: (2 * index + direction) as u32,
            base_time: scenario.base_time,
            cycle_span: stream.cycle.to_picos(),
            launch,
            queue_launches: scenario.launch_queue(path, stream.pcp).is_some(),
            window: at(phases.window),
            order,
            cycle: cycle.max(0),
            next: 0,
            open_until: None,
            backlog: scenario.backlog,
            standing: scenario.backlog.drain_after().map(StandingBacklog::new),
            socket: VecDeque::new(),
            sends: 0,
            latency: options.latency_of(host).clone(),
            random: random(options.seed, &["stream", &stream.name, name]),
            pauses: pauses(options, host),
        })
    }

    /// The instant on the clock of the trace, rounded down to a nanosecond.
    pub(crate) fn tai(&self, at: Picos) -> Tai {
        self.base_time + at.to_nanos_floor()
    }

    /// An event of this end.
    pub(crate) fn event(&self, kind: EventKind) -> Event {
        Event { stream: self.stream, side: self.side, kind }
    }

    fn due(&self) -> Picos {
        // Saturating: a start may be beyond any run.
        Picos(self.cycle_span.0.saturating_mul(self.cycle).saturating_add(self.order[self.next].0.0))
    }

    /// When the next phase begins; `None` when it would not before `end`.
    pub(crate) fn plan(&mut self, now: Picos, end: Picos, sink: &mut dyn FnMut(Event)) -> Option<Picos> {
        if self.next == 0 && self.due() < now {
            let missed = (now - self.order[0].0 + self.cycle_span - Picos(1)) / self.cycle_span - self.cycle;
            let skipped = EventKind::Skipped { cycle: self.cycle, cycles: missed as u32 };
            sink(self.event(skipped));
            self.cycle += missed;
        }
        let due = self.due();
        if due >= end {
            return None;
        }
        let at = (due + self.latency.sample(&mut self.random).to_picos()).max(now);
        let Some(woken) = self.paused(at) else { return (at < end).then_some(at) };
        if woken - due < self.cycle_span {
            return (woken < end).then_some(woken);
        }
        // As a station does that comes a whole cycle or more late: it goes on with the next whole cycle.
        let next = woken / self.cycle_span + 1;
        let cycles = u32::try_from(next - self.cycle).unwrap_or(u32::MAX);
        sink(self.event(EventKind::Skipped { cycle: self.cycle, cycles }));
        (self.cycle, self.next, self.open_until) = (next, 0, None);
        self.plan(woken, end, sink)
    }

    /// When the host goes on, if it stands still at this instant.
    fn paused(&self, at: Picos) -> Option<Picos> {
        self.pauses.iter().find(|pause| pause.contains(&at)).map(|pause| pause.end)
    }

    /// Whether a breach has stopped it, and the run with it.
    pub(crate) fn is_stopped(&self) -> bool {
        self.endpoint.is_stopped()
    }

    /// Runs the phase that is due.
    pub(crate) fn phase(&mut self, now: Picos, frames: &mut Frames, sink: &mut dyn FnMut(Event)) -> Hand {
        let due = self.due();
        let phase = self.order[self.next].1;
        let cycle = self.cycle;
        self.open_until = None;
        self.emit_phase(cycle, phase, due, now, sink);
        let mut hand = Hand::Nothing;
        match phase {
            Phase::Subscribe => {
                self.open_until = Some(due + self.window);
                // With a backlog kept, the first message closes the window.
                while self.open_until.is_some()
                    && let Some((frame, stamp)) = self.socket.pop_front()
                {
                    self.read(stamp, now, frame, frames, sink);
                }
                self.drain_what_stands(now, frames, sink);
            }
            Phase::Application => {
                let at = self.tai(now);
                for (condition, change) in self.endpoint.supervise(cycle, at, TAI_MINUS_UTC).iter() {
                    let counter = self.endpoint.breach_counter(condition);
                    sink(self.event(EventKind::Breach { cycle, condition, change, counter, at }));
                }
                let step = self.endpoint.application(cycle);
                sink(self.event(engine::application_event(&step)));
            }
            Phase::Publish => hand = self.publish(now, frames, sink),
            Phase::Launch => {}
        }
        self.next += 1;
        if self.next == self.order.len() {
            (self.next, self.cycle) = (0, cycle + 1);
        }
        hand
    }

    fn publish(&mut self, now: Picos, frames: &mut Frames, sink: &mut dyn FnMut(Event)) -> Hand {
        let at = self.tai(now);
        let launch = self.launch.map(|offset| self.cycle_span * (self.cycle + 1) + offset);
        let Some(outgoing) = self.endpoint.publish(at.to_date_time(TAI_MINUS_UTC)) else {
            return Hand::Nothing;
        };
        let handle = self.sends;
        self.sends = self.sends.wrapping_add(1);
        let frame = frames.add(self.flow, handle, outgoing.frame);
        let kind = if outgoing.substitute {
            EventKind::Substitute { at, value: outgoing.counter, handle: Some(handle) }
        } else {
            EventKind::Published {
                cycle: self.cycle,
                counter: outgoing.counter,
                sequence: outgoing.sequence,
                handle,
                at,
                launch: launch.map(|launch| self.base_time + launch.to_nanos_floor()),
                bytes: outgoing.frame.len() as u32,
                repeated: outgoing.repeated,
            }
        };
        sink(self.event(kind));
        let Some(launch) = launch else {
            return Hand::Over(frame, now);
        };
        if self.queue_launches {
            return Hand::ToLaunch(frame, launch);
        }
        // Handed over in time it leaves exactly then, else late: our pacing sends what it gets.
        self.emit_phase(self.cycle, Phase::Launch, launch, now.max(launch), sink);
        Hand::Over(frame, launch)
    }

    /// A frame's last bit is in.
    pub(crate) fn arrive(&mut self, now: Picos, frame: FrameId, frames: &mut Frames, sink: &mut dyn FnMut(Event)) {
        if self.open_until.is_some_and(|until| now <= until) && self.paused(now).is_none() {
            self.read(now, now, frame, frames, sink);
            self.drain_what_stands(now, frames, sink);
        } else {
            self.socket.push_back((frame, now));
        }
    }

    /// Reads all that waits, once a backlog has stood for long enough.
    fn drain_what_stands(&mut self, now: Picos, frames: &mut Frames, sink: &mut dyn FnMut(Event)) {
        let Some(late) = self.standing.as_ref().and_then(StandingBacklog::stands) else { return };
        let mut messages = 0;
        while let Some((frame, stamp)) = self.socket.pop_front() {
            messages += u32::from(self.read(stamp, now, frame, frames, sink));
        }
        let cause = DrainCause::Standing { late };
        sink(self.event(EventKind::Drained { cycle: self.cycle, at: self.tai(now), messages, cause }));
        if let Some(standing) = &mut self.standing {
            standing.drained();
        }
    }

    /// Takes a frame; tells whether it was a message, which is what a cycle takes where a backlog is kept.
    fn read(
        &mut self,
        stamp: Picos,
        now: Picos,
        id: FrameId,
        frames: &mut Frames,
        sink: &mut dyn FnMut(Event),
    ) -> bool {
        let uadp = frames.get(id).bytes.get(self.header_bytes..).unwrap_or_default();
        let reception = self.endpoint.receive(uadp);
        self.endpoint.decoded(self.tai(now));
        if let Some(standing) = &mut self.standing {
            standing.read(self.cycle, reception);
        }
        let (counter, superseded, inconsistent) = match reception {
            Reception::Message { counter, superseded } => (counter, superseded, false),
            Reception::Inconsistent { counter } => (counter, None, true),
            Reception::Substitute { value } => {
                sink(self.event(EventKind::Substitute { at: self.tai(now), value, handle: None }));
                frames.remove(id);
                if self.backlog.is_kept() {
                    self.open_until = None;
                }
                return true;
            }
            Reception::Old { counter, repeated } => {
                let counted = Refused { stale: (!repeated).into(), repeated: repeated.into(), ..Refused::default() };
                sink(self.event(EventKind::Refused { at: self.tai(now), frames: counted }));
                (counter, None, false)
            }
            Reception::Foreign(_) => {
                let counted = Refused { foreign: 1, ..Refused::default() };
                sink(self.event(EventKind::Refused { at: self.tai(stamp), frames: counted }));
                frames.remove(id);
                return false;
            }
        };
        frames.remove(id);
        if self.backlog.is_kept() && !inconsistent {
            self.open_until = None;
        }
        let kind = EventKind::Arrived {
            cycle: self.cycle,
            counter,
            stamp: Some(self.tai(stamp)),
            decoded: self.tai(now),
            tag: self.tag,
            superseded,
            inconsistent,
        };
        sink(self.event(kind));
        !inconsistent
    }

    fn emit_phase(&self, cycle: i64, phase: Phase, due: Picos, began: Picos, sink: &mut dyn FnMut(Event)) {
        let late = (began - due).to_nanos_floor();
        sink(self.event(EventKind::Phase { cycle, phase, due: self.tai(due), late, took: Nanos::ZERO }));
    }
}

/// When a host stands still.
fn pauses(options: &Options, host: HostId) -> Vec<Range<Picos>> {
    let own = options.pauses.iter().filter(|pause| pause.host == host);
    own.map(|pause| pause.at.to_picos()..(pause.at + pause.lasting).to_picos()).collect()
}
