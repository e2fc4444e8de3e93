//! What one end watches: it makes evidence of what came since the last application phase.

use alloc::boxed::Box;
use alloc::vec;
use core::ops::Range;

use units::{Nanos, Tai};
use wire::BuiltInType;

use super::{Action, Breach, BreachChange, BreachChanges, BreachRules, Condition, Evidence};
use crate::data_set_reader::{OUT_OF_SERVICE, SEVERITY_BAD};
use crate::endpoint::{Instead, Newest, Signs};
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
    /// What had come until the last application phase.
    known: Signs,
    /// Newest counter of the application phases so far; none after a message that had no counter.
    last: Option<u64>,
    /// The latest application phase.
    pub(crate) now: Tai,
    /// What a Source has published; empty at other ends.
    sent: Box<[Sent]>,
    publications: u64,
    stopped: bool,
    /// What the application goes on with, if not with what it reads.
    input: Option<Input>,
    /// What is published, if not what the application wrote.
    safe: Option<u64>,
    /// The values that the application last took.
    held: Box<[u8]>,
    overriding: Box<[u8]>,
    /// Places of values in what is read.
    reading: Places,
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
pub(crate) struct Places {
    /// One UInt64 that all variables share, or all of them.
    variables: Range<usize>,
    running: Option<usize>,
    /// The variables are values of their own, which may be Bad while the counter is good.
    values: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Input {
    Held,
    Override(u64),
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
    /// Cycles since the newest counter was written.
    pub(crate) elapsed: Option<u64>,
}

impl Watch {
    /// `reads` is the image of what the end reads, `counter_at` the place of the counter in it.
    pub(crate) fn new(rules: BreachRules, source: bool, reads: &ImageLayout, counter_at: usize) -> Self {
        let breach = |condition| rules.rule(condition).map(|rule| Breach::new(rule.recover));
        let sent = if source { REMEMBERED } else { 0 };
        let image = |layout: &ImageLayout| vec![0; layout.bytes()].into_boxed_slice();
        Self {
            rules,
            breaches: Condition::ALL.map(breach),
            counters: [0; Condition::COUNT],
            known: Signs::default(),
            last: None,
            now: Tai(0),
            sent: vec![Sent::default(); sent].into_boxed_slice(),
            publications: 0,
            stopped: false,
            input: None,
            safe: None,
            held: image(reads),
            overriding: image(reads),
            reading: Places::of(reads, counter_at),
        }
    }

    /// Counter of the newest message since the last application phase.
    pub(crate) fn fresh(&self, signs: &Signs) -> Option<u64> {
        self.newest(signs).map(|newest| newest.counter)
    }

    fn newest(&self, signs: &Signs) -> Option<Newest> {
        signs.newest.filter(|newest| self.known.newest.is_none_or(|known| known.number != newest.number))
    }

    /// Whether the writer was not heard for longer than the MessageReceiveTimeout, after it was heard.
    fn is_timed_out(&self, signs: &Signs) -> bool {
        let timeout = self.rules.receive_timeout;
        let over = |heard: Tai| self.now.0 > heard.0.saturating_add(timeout.0);
        timeout > Nanos::ZERO && signs.alive_at.is_some_and(over)
    }

    /// Whether what was read may be used, as of the last application phase.
    pub(crate) fn is_good(&self, signs: &Signs) -> bool {
        signs.alive_at.is_some() && !signs.bad && !self.is_timed_out(signs)
    }

    /// News for the application, before it is known whether it will be given it.
    pub(crate) fn delivers(&mut self, image: &[u8]) {
        if self.input.is_none() && self.held.len() == image.len() {
            self.held.copy_from_slice(image);
        }
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
    pub(crate) fn judge(&mut self, signs: &Signs, cycle: Cycle) -> BreachChanges {
        let newest = self.newest(signs);
        let known = core::mem::replace(&mut self.known, *signs);
        let (heard, substitute) = (signs.heard != known.heard, signs.substitutes != known.substitutes);
        let inconsistent = (signs.inconsistent != known.inconsistent).then_some(signs.inconsistent_counter);
        let timed_out = self.is_timed_out(signs);
        let mut changes = BreachChanges::NONE;
        if self.stopped {
            return changes;
        }
        let missing = newest.is_some_and(|newest| self.missing(newest.counter) > self.rules.allowed_missing);
        let late = newest.is_some_and(|newest| self.is_late(&newest, cycle));
        if substitute {
            self.last = None;
        }
        self.last = newest.map(|newest| newest.counter).or(self.last);
        for condition in Condition::ALL {
            let bad = match condition {
                Condition::Inconsistent => inconsistent.is_some(),
                Condition::Missed => missing && !substitute,
                Condition::Late => late,
                Condition::Silent => timed_out,
            };
            let evidence = match (bad, heard) {
                (true, _) => Evidence::Bad,
                (false, true) => Evidence::Good,
                (false, false) => Evidence::None,
            };
            let Some(Some(breach)) = self.breaches.get_mut(condition.index()) else { continue };
            let Some(change) = breach.step(evidence) else { continue };
            changes.note(condition, change);
            let shown = inconsistent.filter(|_| condition == Condition::Inconsistent);
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
    pub(crate) fn instead(&self, echo: bool) -> Option<Instead> {
        if self.stopped {
            return Some(Instead::Nothing);
        }
        let value = self.safe.or(match self.input {
            Some(Input::Override(value)) if echo => Some(value),
            _ => None,
        });
        value.map(Instead::Value)
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
    /// Of an end that writes this image, with the counter there.
    pub(crate) fn of(writes: &ImageLayout, counter_at: usize) -> Self {
        let image = vec![0; writes.bytes()].into_boxed_slice();
        Self { image, places: Places::of(writes, counter_at), published: false }
    }

    /// The image with `value` in all variables, and not running.
    pub(crate) fn image(&mut self, value: u64) -> &[u8] {
        self.places.fill(&mut self.image, value);
        &self.image
    }
}

impl Places {
    /// The counter is the first variable, and they are the last fields; a Boolean before them says whether its publisher
    /// runs.
    pub(crate) fn of(image: &ImageLayout, counter: usize) -> Self {
        let fields = image.fields(0);
        let end = fields.last().map_or(counter, |field| field.offset + field.ty.bytes());
        Self {
            variables: counter..end,
            running: fields.iter().find(|field| field.ty == BuiltInType::Boolean).map(|field| field.offset),
            values: false,
        }
    }

    /// The same of variables that are values of their own.
    pub(crate) fn of_values(self, values: bool) -> Self {
        Self { values, ..self }
    }

    /// Whether a message has no counter, but what its writer publishes in place of one.
    pub(crate) fn is_substitute(&self, image: &[u8], status: u16) -> bool {
        let bad = if self.values { status == OUT_OF_SERVICE } else { status & SEVERITY_BAD != 0 };
        bad || self.running.is_some_and(|at| image.get(at) == Some(&0))
    }

    /// Puts a value into all variables.
    fn fill(&self, image: &mut [u8], value: u64) {
        let Some(variables) = image.get_mut(self.variables.clone()) else { return };
        variables.chunks_exact_mut(size_of::<u64>()).for_each(|place| place.copy_from_slice(&value.to_le_bytes()));
    }
}
