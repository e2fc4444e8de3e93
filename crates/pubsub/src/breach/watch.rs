//! What one end watches: it gathers what came since the last application phase, and makes evidence of it.

use alloc::boxed::Box;
use alloc::vec;
use core::ops::Range;

use units::{Nanos, Tai};
use wire::BuiltInType;

use super::{Action, Breach, BreachChange, BreachChanges, BreachRules, Condition, Evidence};
use crate::data_set_reader::SEVERITY_BAD;
use crate::image::ImageLayout;

/// How far back it is remembered when a Source handed a counter over: beyond any round trip that is worth waiting for.
const REMEMBERED: usize = 1024;

/// Length of a tick of DateTime: a hundred nanoseconds.
const TICK_NS: i64 = 100;

/// The rules of an end, their states, and what they need to know.
#[derive(Debug, Clone)]
pub(crate) struct Watch {
    rules: BreachRules,
    breaches: [Option<Breach>; Condition::COUNT],
    /// The counter with which each last changed.
    counters: [u64; Condition::COUNT],
    seen: Seen,
    /// Newest counter of the application phases so far; none after a message that had no counter.
    last: Option<u64>,
    /// The latest instant that it was told.
    pub(crate) now: Tai,
    /// The message that was received last is of the stream, and nobody has told yet when it was decoded.
    undated: bool,
    /// What a Source has published; empty at other ends.
    sent: Box<[Sent]>,
    publications: u64,
    stopped: bool,
    /// What the application goes on with, if not with what it reads.
    input: Option<Input>,
    /// What is published, if not what the application wrote.
    safe: Option<u64>,
    withheld: Option<u64>,
    /// The values that the application last took.
    held: Box<[u8]>,
    overriding: Box<[u8]>,
    /// Places of values in what is read.
    reading: Places,
    pub(crate) substitute: Substitute,
}

/// What goes out in the place of what the application wrote.
#[derive(Debug, Clone, Default)]
pub(crate) struct Substitute {
    image: Box<[u8]>,
    places: Places,
    /// The last message published was one.
    pub(crate) published: bool,
}

/// Where an image has its variables and the Booleans before them.
#[derive(Debug, Clone, Default)]
struct Places {
    /// One UInt64 that all variables share, or all of them.
    variables: Range<usize>,
    running: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Input {
    Held,
    Override(u64),
}

/// What came since the last application phase.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    heard: bool,
    inconsistent: Option<u64>,
    substitute: bool,
    newest: Option<Newest>,
}

#[derive(Debug, Clone, Copy)]
struct Newest {
    counter: u64,
    /// Timestamp of its DataSetMessage.
    stamped: Option<i64>,
    decoded: Option<Tai>,
}

/// A counter that was handed over.
#[derive(Debug, Clone, Copy, Default)]
struct Sent {
    /// 0 for none.
    counter: u64,
    /// Number of its publication among those of counters.
    number: u64,
    ticks: i64,
}

/// What a watch is told once a cycle, before the application runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cycle {
    pub(crate) tai_minus_utc: Nanos,
    /// The reader is in Timeout.
    pub(crate) timed_out: bool,
    /// Cycles since the newest counter was written.
    pub(crate) elapsed: Option<u64>,
}

impl Watch {
    /// `reads` and `writes` are the images of the end, `counters` the places of the counter in them.
    pub(crate) fn new(
        rules: BreachRules,
        source: bool,
        reads: &ImageLayout,
        writes: Option<&ImageLayout>,
        counters: (usize, usize),
    ) -> Self {
        let breach = |condition| rules.rule(condition).map(|rule| Breach::new(rule.recover));
        let sent = if source { REMEMBERED } else { 0 };
        let image = |layout: &ImageLayout| vec![0; layout.bytes()].into_boxed_slice();
        Self {
            rules,
            breaches: Condition::ALL.map(breach),
            counters: [0; Condition::COUNT],
            seen: Seen::default(),
            last: None,
            now: Tai(0),
            undated: false,
            sent: vec![Sent::default(); sent].into_boxed_slice(),
            publications: 0,
            stopped: false,
            input: None,
            safe: None,
            withheld: None,
            held: image(reads),
            overriding: image(reads),
            reading: Places::of(reads, counters.0),
            substitute: writes.map_or_else(Substitute::default, |layout| Substitute {
                image: image(layout),
                places: Places::of(layout, counters.1),
                published: false,
            }),
        }
    }

    /// Whether a message has no counter, but what its writer publishes in place of one.
    pub(crate) fn is_substitute(&self, image: &[u8], status: u16) -> bool {
        status & SEVERITY_BAD != 0 || self.reading.running.is_some_and(|at| image.get(at) == Some(&0))
    }

    /// A message whose variables differ: its writer is there, and no good sign otherwise.
    #[cold]
    pub(crate) fn inconsistent(&mut self, counter: u64) {
        self.seen.inconsistent.get_or_insert(counter);
        self.undated = true;
    }

    /// A message that is of no use here.
    pub(crate) fn other(&mut self) {
        self.undated = false;
    }

    /// A message without counter.
    #[cold]
    pub(crate) fn substituted(&mut self) {
        (self.seen.heard, self.seen.substitute, self.undated) = (true, true, true);
    }

    /// A message with a counter, stamped when it was published; `news` if it is the newest now.
    pub(crate) fn message(&mut self, counter: u64, stamped: Option<i64>, news: bool) {
        (self.seen.heard, self.undated) = (true, true);
        if news {
            self.seen.newest = Some(Newest { counter, stamped, decoded: None });
        }
    }

    /// When the message received last was decoded; tells whether it is of the stream.
    pub(crate) fn decoded(&mut self, at: Tai) -> bool {
        self.now = at;
        let ours = core::mem::take(&mut self.undated);
        if let Some(newest) = self.seen.newest.as_mut().filter(|newest| ours && newest.decoded.is_none()) {
            newest.decoded = Some(at);
        }
        ours
    }

    /// Counter of the newest message since the last application phase.
    pub(crate) fn fresh(&self) -> Option<u64> {
        self.seen.newest.map(|newest| newest.counter)
    }

    /// News for the application, before it is known whether it will be given it.
    pub(crate) fn delivers(&mut self, image: &[u8], counter: u64) {
        if self.input.is_some() {
            self.withheld = Some(counter);
            return;
        }
        self.withheld = None;
        self.held.copy_from_slice(image);
    }

    /// Newest counter that the application was not given.
    pub(crate) fn withheld(&self) -> Option<u64> {
        self.withheld
    }

    /// The next counter is taken whatever it is.
    pub(crate) fn forget(&mut self) {
        self.withheld = None;
    }

    /// A Source has handed over a counter for the first time.
    pub(crate) fn published(&mut self, counter: u64, ticks: i64) {
        self.publications += 1;
        let sent = Sent { counter, number: self.publications, ticks };
        if let Some(place) = self.sent.get_mut(counter as usize % REMEMBERED) {
            *place = sent;
        }
    }

    fn sent(&self, counter: u64) -> Option<&Sent> {
        self.sent.get(counter as usize % REMEMBERED).filter(|sent| sent.counter == counter && counter != 0)
    }

    /// Makes evidence of what came since the last call.
    pub(crate) fn judge(&mut self, cycle: Cycle) -> BreachChanges {
        let seen = core::mem::take(&mut self.seen);
        let mut changes = BreachChanges::NONE;
        if self.stopped {
            return changes;
        }
        let missing = seen.newest.is_some_and(|newest| self.missing(newest.counter) > self.rules.allowed_missing);
        let late = seen.newest.is_some_and(|newest| self.is_late(&newest, cycle));
        if seen.substitute {
            self.last = None;
        }
        self.last = seen.newest.map(|newest| newest.counter).or(self.last);
        for condition in Condition::ALL {
            let bad = match condition {
                Condition::Inconsistent => seen.inconsistent.is_some(),
                Condition::Missed => missing && !seen.substitute,
                Condition::Late => late,
                Condition::Silent => cycle.timed_out,
            };
            let evidence = match (bad, seen.heard) {
                (true, _) => Evidence::Bad,
                (false, true) => Evidence::Good,
                (false, false) => Evidence::None,
            };
            let Some(Some(breach)) = self.breaches.get_mut(condition.index()) else { continue };
            let Some(change) = breach.step(evidence) else { continue };
            changes.note(condition, change);
            let shown = seen.inconsistent.filter(|_| condition == Condition::Inconsistent);
            if let Some(counter) = self.counters.get_mut(condition.index()) {
                *counter = shown.filter(|_| change == BreachChange::Began).or(self.last).unwrap_or(0);
            }
        }
        if !changes.is_empty() {
            self.act();
        }
        changes
    }

    /// Counters between the last one and `counter` that should have come and did not.
    fn missing(&self, counter: u64) -> u64 {
        let Some(last) = self.last else { return 0 };
        if self.sent.is_empty() {
            return counter.saturating_sub(last).saturating_sub(1);
        }
        // A Source misses only what it has published itself.
        let number = |counter| self.sent(counter).map(|sent| sent.number);
        match (number(last), number(counter)) {
            (Some(last), Some(newest)) => newest.saturating_sub(last).saturating_sub(1),
            // Longer ago than is remembered; before that many publications it was of an earlier life of this writer.
            (None, Some(newest)) if newest > REMEMBERED as u64 => REMEMBERED as u64,
            _ => 0,
        }
    }

    fn is_late(&self, newest: &Newest, cycle: Cycle) -> bool {
        let cycles = self.rules.longest_round_trip_cycles.zip(cycle.elapsed);
        if cycles.is_some_and(|(longest, elapsed)| elapsed > longest) {
            return true;
        }
        let (Some(longest), Some(decoded)) = (self.rules.longest_way, newest.decoded) else { return false };
        let began =
            if self.sent.is_empty() { newest.stamped } else { self.sent(newest.counter).map(|sent| sent.ticks) };
        // Both ends are rounded down to a tick: what is longer by one tick than the ticks tell is not certain.
        let ticks = began.map(|began| decoded.to_date_time(cycle.tai_minus_utc).saturating_sub(began));
        ticks.is_some_and(|ticks| ticks.saturating_sub(1).saturating_mul(TICK_NS) >= longest.0)
    }

    /// Brings into force what the rules of all conditions that are not Normal say. Where several have a say the first of
    /// them has it; an override comes before what is held.
    fn act(&mut self) {
        let (mut overriding, mut held, mut safe) = (None, false, None);
        for condition in Condition::ALL {
            let on = self.breaches.get(condition.index()).is_some_and(|breach| breach.is_some_and(|it| it.is_on()));
            match self.rules.rule(condition).filter(|_| on).map(|rule| rule.action) {
                None | Some(Action::Count) => {}
                Some(Action::Stop) => self.stopped = true,
                Some(Action::Hold) => held = true,
                Some(Action::Override(value)) => overriding = overriding.or(Some(value)),
                Some(Action::Safe(value)) => safe = safe.or(Some(value)),
            }
        }
        self.input = overriding.map(Input::Override).or(held.then_some(Input::Held));
        self.safe = safe;
        if let Some(value) = overriding {
            self.reading.fill(&mut self.overriding, value);
        }
    }

    /// What the application goes on with; `None` for what it reads.
    pub(crate) fn input(&self) -> Option<&[u8]> {
        self.input.map(|input| match input {
            Input::Held => &*self.held,
            Input::Override(_) => &*self.overriding,
        })
    }

    /// What is published; `None` for what the application wrote. What an Echo makes of an overriding value is no counter
    /// either.
    pub(crate) fn output(&self, echo: bool) -> Option<u64> {
        self.safe.or(match self.input {
            Some(Input::Override(value)) if echo => Some(value),
            _ => None,
        })
    }

    /// Whether nothing is published and taken any more.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped
    }

    pub(crate) fn breach(&self, condition: Condition) -> Option<&Breach> {
        self.breaches.get(condition.index())?.as_ref()
    }

    pub(crate) fn counter(&self, condition: Condition) -> u64 {
        self.counters.get(condition.index()).copied().unwrap_or(0)
    }
}

impl Substitute {
    /// The image with `value` in all variables, and not running.
    pub(crate) fn image(&mut self, value: u64) -> &[u8] {
        self.places.fill(&mut self.image, value);
        &self.image
    }
}

impl Places {
    /// The counter is the first variable, and they are the last fields; a Boolean before them says whether its publisher
    /// runs.
    fn of(image: &ImageLayout, counter: usize) -> Self {
        let fields = image.fields(0);
        let end = fields.last().map_or(counter, |field| field.offset + field.ty.bytes());
        Self {
            variables: counter..end,
            running: fields.iter().find(|field| field.ty == BuiltInType::Boolean).map(|field| field.offset),
        }
    }

    /// Puts a value into all variables.
    fn fill(&self, image: &mut [u8], value: u64) {
        let Some(variables) = image.get_mut(self.variables.clone()) else { return };
        variables.chunks_exact_mut(size_of::<u64>()).for_each(|place| place.copy_from_slice(&value.to_le_bytes()));
    }
}
