//! Ends of streams that keep time together: one cycle, the same phases.
//!
//! A thread may drive many ends. Those with one rhythm form a beat, so that a phase is waited for once, however many
//! writer groups it serves.

use measure::{DrainCause, Event, EventKind, Phase, Refused, Side};
use pubsub::{BreachChanges, StandingBacklog};
use rt::ring::Producer;
use scenario::Backlog;
use units::{Nanos, Tai};

use crate::engine::Engine;
use crate::inlet::Inlet;
use crate::outside::Outside;
use crate::spec::{is_asked, request_number};

/// Cycle and phases of a beat; spans count from the start of the cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Times {
    /// Length of a cycle, above zero.
    pub cycle: Nanos,
    /// The subscribe phase.
    pub subscribe: Nanos,
    /// How long the subscribe phase reads; zero reads what is there and no more.
    pub window: Nanos,
    /// The application phase.
    pub application: Nanos,
    /// The publish phase.
    pub publish: Nanos,
}

impl Times {
    pub(crate) fn of(&self, phase: Phase) -> Nanos {
        match phase {
            Phase::Subscribe => self.subscribe,
            Phase::Application => self.application,
            Phase::Publish | Phase::Launch => self.publish,
        }
    }
}

/// One end of a stream.
#[derive(Debug)]
pub struct End {
    /// Index of the stream in the scenario.
    pub stream: u16,
    /// Which end.
    pub side: Side,
    /// Image, template and reader.
    pub endpoint: Engine,
    /// The application outside, if the engine's counters are not what it runs.
    pub outside: Option<Outside>,
    /// Index of the outlet that sends its frames; `None` for an end that only reads.
    pub outlet: Option<usize>,
    /// From the start of the next cycle to the launch; `None` sends when the frame is built.
    pub launch: Option<Nanos>,
    /// No launch before `t0 + start`.
    pub start: Nanos,
    /// VID and PCP that frames of the stream carry; none over UDP.
    pub tag: Option<(u16, u8)>,
    /// What tells that a backlog has stood for long enough; none where it may stand.
    pub standing: Option<StandingBacklog>,
    /// Publications so far: the handle of the next.
    pub(crate) handle: u32,
    /// Frames of the present drain that were not taken.
    pub(crate) refused: Refused,
    /// How many of them have an event of their own: inconsistent ones, old ones, those with another tag.
    pub(crate) singly: [u32; 3],
}

impl End {
    /// An end before its first cycle.
    pub fn new(stream: u16, side: Side, tag: Option<(u16, u8)>, endpoint: impl Into<Engine>) -> Self {
        Self {
            stream,
            side,
            endpoint: endpoint.into(),
            outside: None,
            outlet: None,
            launch: None,
            start: Nanos::ZERO,
            tag,
            standing: None,
            handle: 0,
            refused: Refused::default(),
            singly: [0; 3],
        }
    }

    /// Most of its frames that wait for their launch at a time: from the publish phase to the launch, and one more.
    pub(crate) fn launch_depth(&self, times: &Times) -> usize {
        let wait = self.launch.map_or(Nanos::ZERO, |offset| times.cycle - times.publish + offset);
        wait.0.div_euclid(times.cycle.0) as usize + 2
    }

    /// Records breaches that began or ended.
    #[inline]
    pub(crate) fn record_breaches(&self, changes: BreachChanges, cycle: i64, at: Tai, trace: &mut Producer) {
        if changes.is_empty() {
            return;
        }
        for (condition, change) in changes.iter() {
            let counter = self.endpoint.breach_counter(condition);
            self.record(trace, EventKind::Breach { cycle, condition, change, counter, at });
        }
    }

    /// Gives the application outside what there is for it.
    #[inline]
    pub(crate) fn give(&mut self, cycle: i64, now: Tai, fresh: bool, trace: &mut Producer) {
        if let Some(outside) = &mut self.outside {
            outside.give(cycle, now, fresh, &self.endpoint);
            if self.outlet.is_none() && outside.takes() {
                self.take(cycle, now, trace);
            }
        }
    }

    /// Takes what it has written last, and records whether that is new.
    #[inline]
    pub(crate) fn take(&mut self, cycle: i64, at: Tai, trace: &mut Producer) {
        if let Some(outside) = &mut self.outside
            && let Some(looked) = outside.take(cycle, at, &mut self.endpoint)
        {
            self.record(trace, looked);
        }
    }

    /// The same end in three threads: what subscribe, application and publish phase need of it.
    fn apart(self) -> Result<[Self; 3], String> {
        let Self { stream, side, tag, .. } = self;
        let [reading, computing, writing] =
            self.endpoint.apart(self.outside.is_some())?.map(|part| Self::new(stream, side, tag, part));
        // Where nothing is sent, the application phase looks at the application outside, too.
        let (gives, takes) = match self.outside.map(|outside| (outside, self.outlet)) {
            Some((outside, Some(_))) => {
                let (gives, takes) = outside.halves();
                (Some(gives), Some(takes))
            }
            Some((outside, None)) => (Some(outside), None),
            None => (None, None),
        };
        Ok([
            Self { standing: self.standing, ..reading },
            Self { outside: gives, ..computing },
            Self { outside: takes, outlet: self.outlet, launch: self.launch, start: self.start, ..writing },
        ])
    }

    /// By how many cycles its messages are late, once they have been for long enough.
    #[inline]
    fn stands(&self) -> Option<u32> {
        self.standing.as_ref()?.stands()
    }

    pub(crate) fn record(&self, trace: &mut Producer, kind: EventKind) {
        trace.push(&Event { stream: self.stream, side: self.side, kind }.pack());
    }
}

/// Why all that waits is read, and how much of it was so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Draining {
    cause: DrainCause,
    messages: u32,
}

/// Ends with one rhythm, and where their frames come in.
#[derive(Debug)]
pub struct Beat {
    /// When they do what.
    pub times: Times,
    /// What they do with messages that wait.
    pub backlog: Backlog,
    /// The ends.
    pub ends: Vec<End>,
    /// Where frames come in.
    pub inlets: Vec<Inlet>,
    /// Start of cycle 0.
    pub(crate) t0: Tai,
    pub(crate) cycle: i64,
    pub(crate) phase: Phase,
    /// The one phase that its thread runs; none when it runs all.
    pub(crate) only: Option<Phase>,
    /// Until when the receive window is open; none outside it.
    pub(crate) window_end: Option<Tai>,
    /// The last request to drain that it has seen.
    pub(crate) request: u64,
    /// What is being carried out: all that waits is read.
    pub(crate) draining: Option<Draining>,
    /// Number of its first end among all of the thread.
    pub(crate) first_end: u32,
}

impl Beat {
    /// A beat before cycle 0.
    pub fn new(times: Times, ends: Vec<End>, inlets: Vec<Inlet>) -> Self {
        Self {
            times,
            backlog: Backlog::Drain,
            ends,
            inlets,
            t0: Tai(0),
            cycle: 0,
            phase: Phase::Subscribe,
            only: None,
            window_end: None,
            request: 0,
            draining: None,
            first_end: 0,
        }
    }

    /// When its next phase begins.
    pub(crate) fn due(&self) -> Tai {
        self.start_of(self.cycle) + self.times.of(self.phase)
    }

    /// Whether the wire sees when its next phase begins: it sends frames at once.
    pub(crate) fn is_seen(&self) -> bool {
        self.phase == Phase::Publish && self.ends.iter().any(|end| end.outlet.is_some() && end.launch.is_none())
    }

    pub(crate) fn start_of(&self, cycle: i64) -> Tai {
        self.t0 + self.times.cycle * cycle
    }

    /// The cycle that `at` lies in.
    pub(crate) fn cycle_of(&self, at: Tai) -> i64 {
        (at - self.t0).0.div_euclid(self.times.cycle.0)
    }

    /// The phase with which its cycles begin.
    pub(crate) fn first(&self) -> Phase {
        self.only.unwrap_or(Phase::Subscribe)
    }

    /// Goes on to the next phase.
    pub(crate) fn advance(&mut self) {
        (self.cycle, self.phase) = match self.phase {
            only if self.only.is_some() => (self.cycle + 1, only),
            Phase::Subscribe => (self.cycle, Phase::Application),
            Phase::Application => (self.cycle, Phase::Publish),
            Phase::Publish | Phase::Launch => (self.cycle + 1, Phase::Subscribe),
        };
    }

    /// Looks at the last request to drain: a new one that is to an end here is carried out by what reads next.
    #[inline]
    pub(crate) fn asked(&mut self, request: u64) {
        if std::mem::replace(&mut self.request, request) != request
            && self.backlog.is_kept()
            && !self.inlets.is_empty()
            && self.ends.iter().any(|end| is_asked(request, end.stream))
        {
            let cause = DrainCause::Asked { number: request_number(request) };
            self.draining = Some(Draining { cause, messages: self.draining.map_or(0, |draining| draining.messages) });
        }
    }

    /// Reads what has arrived, as far as the backlog rule allows and until `until`, but at least one frame an inlet;
    /// tells whether more may be there.
    #[inline]
    pub(crate) fn drain(&mut self, now: Tai, until: Tai, clock: impl Fn() -> Tai, trace: &mut Producer) -> bool {
        let cycle = self.cycle_of(now);
        let one = self.backlog.is_kept() && self.draining.is_none();
        let (mut remains, mut messages) = self.read(cycle, one, until, &clock, trace);
        if one && let Some(late) = self.ends.iter().find_map(End::stands) {
            // The message that this cycle may take is taken; the others follow at once.
            let cause = DrainCause::Standing { late };
            self.draining = Some(Draining { cause, messages });
            (remains, messages) = self.read(cycle, false, until, &clock, trace);
        }
        if self.draining.is_some() {
            self.drained(cycle, messages, remains, clock(), trace);
        }
        remains
    }

    /// Reads, one message or all; tells whether more may be there, and how many messages it were.
    #[inline]
    fn read(
        &mut self,
        cycle: i64,
        one: bool,
        until: Tai,
        clock: &impl Fn() -> Tai,
        trace: &mut Producer,
    ) -> (bool, u32) {
        let (mut remains, mut messages) = (false, 0_u32);
        for inlet in &mut self.inlets {
            let before = inlet.messages;
            remains |= inlet.drain(cycle, one, until, &mut self.ends, clock, trace);
            messages = messages.saturating_add(inlet.messages.wrapping_sub(before));
        }
        (remains, messages)
    }

    /// Goes on with what is being drained: `messages` more were read; tells the trace when nothing remains.
    #[cold]
    fn drained(&mut self, cycle: i64, messages: u32, remains: bool, at: Tai, trace: &mut Producer) {
        let Some(Draining { cause, messages: so_far }) = self.draining else { return };
        let all = so_far.saturating_add(messages);
        self.draining = remains.then_some(Draining { cause, messages: all });
        if remains {
            return;
        }
        let drained = EventKind::Drained { cycle, at, messages: all.saturating_sub(1), cause };
        for end in &mut self.ends {
            end.record(trace, drained);
            if let Some(standing) = &mut end.standing {
                standing.drained();
            }
        }
    }

    /// The same for three threads, each with one phase: subscribe, application, publish.
    ///
    /// # Errors
    /// There is no memory for what goes between them, in words.
    pub(crate) fn apart(self) -> Result<[Self; 3], String> {
        let mut ends = [const { Vec::new() }; 3];
        for end in self.ends {
            let apart = end.apart()?;
            ends.iter_mut().zip(apart).for_each(|(ends, end)| ends.push(end));
        }
        let (times, backlog) = (self.times, self.backlog);
        let beat = |phase, ends, inlets| {
            let mut beat = Self::new(times, ends, inlets);
            (beat.backlog, beat.phase, beat.only) = (backlog, phase, Some(phase));
            beat
        };
        let [reading, computing, writing] = ends;
        Ok([
            beat(Phase::Subscribe, reading, self.inlets),
            beat(Phase::Application, computing, Vec::new()),
            beat(Phase::Publish, writing, Vec::new()),
        ])
    }

    /// For how long reading may hold up the phase after it: less than what counts as late.
    pub(crate) fn grace(&self) -> Nanos {
        self.times.cycle / 20
    }
}
