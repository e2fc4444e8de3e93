//! What the ends of a stream watch for, and what they do about it.

use pubsub::{BreachRule, BreachRules, Condition, Endpoint, LayoutError};
use units::Nanos;

use crate::model::{FieldEncoding, Scenario, Stream};
use crate::requirement::{Limit, LimitValue, Quantity};

/// A writer is silent after so many cycles, if the file does not say.
pub(crate) const SILENT_CYCLES: i64 = 10;

/// Which end of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StreamEnd {
    /// The station that publishes and, with an echo, reads it back.
    Writer,
    /// The station that subscribes and, with an echo, answers.
    Reader,
}

/// What a stream is watched for. Every end watches what it reads: the reader the messages, the writer its echo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Breaches {
    /// The conditions, each at its [`Condition::index`].
    pub plans: [Option<BreachPlan>; Condition::COUNT],
    /// Most counters that may be missing between two readings.
    pub allowed_missing: u64,
    /// MessageReceiveTimeout of both ends: from when on a writer is silent.
    pub receive_timeout: Nanos,
}

/// What is done about one condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BreachPlan {
    /// What the end does itself.
    pub rule: BreachRule,
    /// Which end watches for it; `None` for both.
    pub at: Option<StreamEnd>,
    /// What the run executes besides: a program and its arguments. Empty for nothing.
    pub hook: Vec<String>,
}

impl Breaches {
    /// What `end` does about a condition; `None` if it does not watch for it.
    pub fn plan(&self, condition: Condition, end: StreamEnd) -> Option<&BreachPlan> {
        let plan = self.plans.get(condition.index())?.as_ref()?;
        plan.at.is_none_or(|at| at == end).then_some(plan)
    }
}

/// What [`Condition::Late`] compares at one end of a stream; `None` and `None` if there is nothing to compare.
///
/// The writer knows when it handed a counter over and in which cycle it was written, so its limits are those of
/// `round_trip_stack` (T8 − T1) and `round_trip_counter`. The reader knows T1 only by the Timestamp that the message
/// carries, which RawData messages do not have; its limit is that of `one_way_stack` (T4 − T1).
pub(crate) fn limits(
    requirement: &[Limit],
    echo: bool,
    encoding: FieldEncoding,
    end: StreamEnd,
) -> (Option<Nanos>, Option<u64>) {
    let limit = |quantity| requirement.iter().find(|limit| limit.quantity == quantity).map(|limit| limit.value);
    let span = |quantity| match limit(quantity) {
        Some(LimitValue::Span(span)) => Some(span),
        _ => None,
    };
    let count = |quantity| match limit(quantity) {
        Some(LimitValue::Count(count)) => Some(count),
        _ => None,
    };
    match end {
        StreamEnd::Writer if echo => (span(Quantity::RoundTripStack), count(Quantity::RoundTripCounter)),
        StreamEnd::Reader if encoding == FieldEncoding::Variant => (span(Quantity::OneWayStack), None),
        _ => (None, None),
    }
}

impl Stream {
    /// The engine at one end, watching for what the scenario says.
    ///
    /// # Errors
    /// The frames of the stream cannot be laid out.
    pub fn engine(&self, scenario: &Scenario, end: StreamEnd) -> Result<Endpoint, LayoutError> {
        let config = self.endpoint(scenario, end == StreamEnd::Writer);
        let endpoint = if self.has_values() { Endpoint::with_values(config)? } else { Endpoint::new(config)? };
        Ok(match self.breach_rules(scenario, end) {
            Some(rules) => endpoint.watched(rules),
            None => endpoint,
        })
    }

    /// What `end` does about a condition; `None` if it does not watch for it, reads nothing, or has nothing to compare.
    pub fn watches(&self, scenario: &Scenario, condition: Condition, end: StreamEnd) -> Option<&BreachPlan> {
        let reads = end == StreamEnd::Reader || self.echo;
        let comparable = condition != Condition::Late
            || limits(&scenario.requirement, self.echo, self.encoding, end) != (None, None);
        self.breaches.as_ref().filter(|_| reads && comparable)?.plan(condition, end)
    }

    /// From when on, without a message, what an end reads is Bad: the MessageReceiveTimeout, or the default of it.
    pub fn receive_timeout(&self) -> Nanos {
        self.breaches.as_ref().map_or(self.cycle * SILENT_CYCLES, |breaches| breaches.receive_timeout)
    }

    /// What one end watches for; `None` where the scenario asks for nothing.
    pub fn breach_rules(&self, scenario: &Scenario, end: StreamEnd) -> Option<BreachRules> {
        let breaches = self.breaches.as_ref()?;
        let rule = |condition| self.watches(scenario, condition, end).map(|plan| plan.rule);
        let (longest_way, longest_round_trip_cycles) = limits(&scenario.requirement, self.echo, self.encoding, end);
        let timed = rule(Condition::Silent).is_some();
        Some(BreachRules {
            rules: Condition::ALL.map(rule),
            allowed_missing: breaches.allowed_missing,
            receive_timeout: if timed { breaches.receive_timeout } else { Nanos::ZERO },
            longest_way,
            longest_round_trip_cycles,
        })
    }
}
