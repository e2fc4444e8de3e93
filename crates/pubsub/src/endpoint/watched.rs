//! An endpoint that watches for breaches: how conditions come to its watch, and how actions come into force.

use alloc::boxed::Box;

use units::{Nanos, Tai};

use super::{Endpoint, Outgoing};
use crate::application::Status;
use crate::breach::{BreachChanges, BreachRules, BreachState, Condition, Places, Substitute, Watch};
use crate::counter::Role;

impl Endpoint {
    /// The same, watching for conditions by these rules; an endpoint that reads nothing watches nothing. Call
    /// [`Self::decoded`] after every reception then, and [`Self::supervise`] before every application phase.
    #[must_use]
    pub fn watched(mut self, rules: BreachRules) -> Self {
        let Self { reading, computing, writing } = &mut self;
        let Some(subscriber) = &reading.subscriber else { return self };
        let source = computing.role() == Role::Source;
        let (read_at, written_at) = computing.application.places();
        // Values of their own may be Bad with a good counter.
        let places = Places::of(subscriber.image_layout(), read_at).of_values(computing.values.is_some());
        computing.watch = Some(Box::new(Watch::new(rules, source, subscriber.image_layout(), read_at)));
        if let Some(publisher) = &writing.publisher {
            let substitute = Substitute::of(publisher.image(), written_at);
            writing.watched(substitute);
        }
        reading.set_receive_timeout(rules.receive_timeout);
        reading.watched(places);
        self
    }

    /// When what was received last had been decoded. Only an endpoint that watches, or has an application outside, wants
    /// to know.
    #[inline]
    pub fn decoded(&mut self, at: Tai) {
        self.reading.decoded(at);
    }

    /// Looks at the conditions that are watched for, as of the application phase of `cycle`, which is to run next: what
    /// came since the last one, and what did not come until `now`. Tells which breaches began and which ended; from
    /// here on their actions are in force, or no longer.
    #[inline]
    pub fn supervise(&mut self, cycle: i64, now: Tai, tai_minus_utc: Nanos) -> BreachChanges {
        let Self { reading, computing, .. } = self;
        reading.poll(now);
        computing.supervise(cycle, now, tai_minus_utc, reading.inputs())
    }

    /// The publish phase where a breach may have a say in it.
    pub(super) fn publish_watched(&mut self, now_ticks: i64) -> Option<Outgoing<'_>> {
        let Self { computing, writing, .. } = self;
        let outgoing = writing.publish(computing.outputs(), now_ticks)?;
        if !(outgoing.repeated || outgoing.substitute) {
            computing.published(outgoing.counter, now_ticks);
        }
        Some(outgoing)
    }

    /// Where a condition is; `None` for one that is not watched for.
    pub fn breach(&self, condition: Condition) -> Option<BreachState> {
        self.computing.breach(condition)
    }

    /// The counter with which a condition last changed: that of the message that showed it, of a silence the last before
    /// it. 0 when there is none.
    pub fn breach_counter(&self, condition: Condition) -> u64 {
        self.computing.breach_counter(condition)
    }

    /// Whether a breach has stopped it.
    pub fn is_stopped(&self) -> bool {
        self.computing.is_stopped()
    }

    /// The counter that the application has for its newest, or what it goes on with instead, and whether it may be used.
    /// `None` for an endpoint that reads nothing.
    pub fn input(&self) -> Option<(u64, Status)> {
        let Self { reading, computing, .. } = self;
        let of = reading.subscriber.as_ref()?.input(0, reading.now());
        let counter = |image| computing.application.counter(image);
        Some(match computing.watch.as_ref().and_then(|watch| watch.input()) {
            Some(image) => (counter(image), Status::Bad),
            None => (counter(of.image), of.status),
        })
    }
}
