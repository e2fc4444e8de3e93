//! What the ends of streams found that watch for breaches.

use scenario::{BreachChange, Condition, Scenario, Stream, StreamEnd};
use units::Tai;

use crate::collect::{EndLog, StreamLog};
use crate::{BreachResult, Event, EventKind, Side};

/// Begins and ends that one end of a stream reported.
#[derive(Debug, Default)]
pub(crate) struct BreachLog {
    noticed: Vec<Noticed>,
    /// The first cycle that is not of this part of the run, where it was cut.
    until: Option<i64>,
    /// Messages published that had no counter.
    pub(crate) substituted: u64,
}

/// A begin or end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Noticed {
    pub(crate) condition: Condition,
    pub(crate) cycle: i64,
    pub(crate) change: BreachChange,
    pub(crate) counter: u64,
    pub(crate) at: i64,
    /// It began in an earlier part of the run, and goes on in this one.
    pub(crate) carried: bool,
}

/// A breach from its begin to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spell {
    pub(crate) began: Noticed,
    /// Its last cycle's successor, or where the trace ends.
    pub(crate) until: i64,
    /// When it ended; `None` if it did not.
    pub(crate) ended_at: Option<i64>,
}

impl Spell {
    pub(crate) fn cycles(&self) -> u64 {
        u64::try_from(self.until.saturating_sub(self.began.cycle)).unwrap_or(0)
    }
}

impl BreachLog {
    pub(crate) fn push(&mut self, noticed: Noticed) {
        self.noticed.push(noticed);
    }

    pub(crate) fn noticed(&self) -> &[Noticed] {
        &self.noticed
    }

    /// Puts everything into the order of time; what came twice counts once.
    pub(crate) fn sort(&mut self) {
        let key = |noticed: &Noticed| (noticed.condition, noticed.at, noticed.cycle);
        self.noticed.sort_by_key(key);
        self.noticed.dedup();
    }

    /// Cuts off what was noticed before `before`, an instant in `cycle`; what had not ended by then goes on in the rest.
    pub(crate) fn cut(&mut self, before: i64, cycle: Option<i64>) -> Self {
        self.sort();
        let (old, kept): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.noticed).into_iter().partition(|noticed| noticed.at < before);
        for condition in Condition::ALL {
            let last = old.iter().rev().find(|noticed| noticed.condition == condition);
            if let Some(open) = last.filter(|noticed| noticed.change == BreachChange::Began) {
                self.noticed.push(Noticed { cycle: cycle.unwrap_or(open.cycle), at: before, carried: true, ..*open });
            }
        }
        self.noticed.extend(kept);
        Self { noticed: old, until: cycle, substituted: std::mem::take(&mut self.substituted) }
    }

    /// The breaches of a condition, in the order of time; `last` is the last cycle of the end.
    pub(crate) fn spells(&self, condition: Condition, last: Option<i64>) -> Vec<Spell> {
        let mut spells: Vec<Spell> = Vec::new();
        for noticed in self.noticed.iter().filter(|noticed| noticed.condition == condition) {
            let open = spells.last_mut().filter(|spell| spell.ended_at.is_none());
            match (noticed.change, open) {
                (BreachChange::Began, None) => {
                    let until = self.until.unwrap_or(last.unwrap_or(noticed.cycle).saturating_add(1));
                    spells.push(Spell { began: *noticed, until, ended_at: None });
                }
                (BreachChange::Ended, Some(spell)) => {
                    (spell.until, spell.ended_at) = (noticed.cycle, Some(noticed.at));
                }
                // Of a trace with holes.
                (BreachChange::Began, Some(_)) | (BreachChange::Ended, None) => {}
            }
        }
        spells
    }
}

/// The ends of a stream with their names.
pub(crate) const ENDS: [(StreamEnd, &str); 2] = [(StreamEnd::Writer, "writer"), (StreamEnd::Reader, "reader")];

/// One entry an end and condition that it watches for.
pub(crate) fn results(scenario: &Scenario, stream: &Stream, log: &StreamLog) -> Vec<BreachResult> {
    let mut found = Vec::new();
    for ((end, name), log) in ENDS.into_iter().zip(&log.ends) {
        for condition in Condition::ALL {
            let Some(plan) = stream.watches(scenario, condition, end).filter(|_| log.seen) else { continue };
            let spells = spells(log, condition);
            let host = if end == StreamEnd::Writer { stream.writer } else { stream.reader };
            found.push(BreachResult {
                host: scenario.host(host).name.clone(),
                end: name.to_owned(),
                condition: condition.key().to_owned(),
                action: plan.rule.action.key().to_owned(),
                times: spells.iter().filter(|spell| !spell.began.carried).count() as u64,
                cycles: spells.iter().map(Spell::cycles).sum(),
                longest_cycles: spells.iter().map(Spell::cycles).max().unwrap_or(0),
                lasting: spells.last().is_some_and(|spell| spell.ended_at.is_none()),
            });
        }
    }
    found
}

/// The breaches of a condition at one end.
pub(crate) fn spells(log: &EndLog, condition: Condition) -> Vec<Spell> {
    log.breaches.spells(condition, log.last_cycle)
}

/// A condition at one end of a stream, while a run goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveBreach {
    /// Index of the stream in the scenario.
    pub stream: u16,
    /// Which end watches.
    pub side: Side,
    /// What it found.
    pub condition: Condition,
    /// How often it has begun.
    pub times: u64,
    /// Whether it goes on.
    pub on: bool,
    /// In which cycle it last began.
    pub cycle: i64,
    /// The counter with which it last began.
    pub counter: u64,
    /// When it last began.
    pub at: Tai,
}

/// Keeps the live figures of breaches.
pub(crate) fn note_live(breaches: &mut Vec<LiveBreach>, event: &Event) {
    let EventKind::Breach { cycle, condition, change, counter, at } = event.kind else { return };
    let key = (event.stream, event.side, condition);
    let found = breaches.iter().position(|known| (known.stream, known.side, known.condition) == key);
    let known = found.unwrap_or_else(|| {
        let (stream, side) = (event.stream, event.side);
        breaches.push(LiveBreach { stream, side, condition, times: 0, on: false, cycle, counter, at });
        breaches.len() - 1
    });
    let Some(known) = breaches.get_mut(known) else { return };
    known.on = change == BreachChange::Began;
    if known.on {
        known.times += 1;
        (known.cycle, known.counter, known.at) = (cycle, counter, at);
    }
}
