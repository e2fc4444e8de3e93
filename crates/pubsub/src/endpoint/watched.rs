//! An endpoint that watches for breaches: how conditions come to its watch, and how actions come into force.

use alloc::boxed::Box;

use units::{Nanos, Tai};

use super::{Endpoint, NO_TIME, Outgoing, Reception, Taken};
use crate::application::{Application, Input, ReaderInput, Status, Step};
use crate::breach::{BreachChanges, BreachRules, BreachState, Condition, Cycle, Watch};
use crate::counter::Role;
use crate::data_set_reader::SEVERITY_BAD;
use crate::publisher::Publisher;
use crate::subscriber::Admission;
use crate::supervision::ReaderState;

impl Endpoint {
    /// The same, watching for conditions by these rules; an endpoint that reads nothing watches nothing. Call
    /// [`Self::decoded`] after every reception then, and [`Self::supervise`] before every application phase.
    #[must_use]
    pub fn watched(mut self, rules: BreachRules) -> Self {
        if let Some(subscriber) = &mut self.subscriber {
            subscriber.set_receive_timeout(rules.receive_timeout);
            let writes = self.publisher.as_ref().map(Publisher::image);
            let source = self.application.role() == Role::Source;
            let counters = self.application.places();
            self.watch = Some(Box::new(Watch::new(rules, source, subscriber.image_layout(), writes, counters)));
        }
        self
    }

    /// What is staged, with a word to the watch.
    #[inline(never)]
    pub(super) fn receive_watched(&mut self, uadp: &[u8], counter: u64) -> Reception {
        let Self { subscriber: Some(subscriber), watch: Some(watch), .. } = self else {
            return Reception::Message { counter, superseded: None };
        };
        if watch.is_substitute(subscriber.staged(), subscriber.staged_status()) {
            // Its numbers count all the same.
            match subscriber.admit() {
                Admission::Stale => watch.other(),
                _ => watch.substituted(),
            }
            return Reception::Substitute { value: counter };
        }
        let stamped = subscriber.timestamp(uadp);
        let taken = self.take::<true>(counter);
        if let Some(watch) = &mut self.watch {
            match taken {
                Taken::Old => watch.other(),
                Taken::OldCounter | Taken::Repeated => watch.message(counter, stamped, false),
                Taken::News { .. } => watch.message(counter, stamped, true),
            }
        }
        taken.of(counter)
    }

    /// When what was received last had been decoded. Only an endpoint that watches, or has an application outside, wants
    /// to know.
    #[inline]
    pub fn decoded(&mut self, at: Tai) {
        if let Some(values) = &mut self.values {
            values.decoded(at);
        }
        if let Some(watch) = &mut self.watch
            && watch.decoded(at)
            && let Some(subscriber) = &mut self.subscriber
        {
            subscriber.heard(at);
        }
    }

    /// Looks at the conditions that are watched for, as of the application phase of `cycle`, which is to run next: what
    /// came since the last one, and what did not come until `now`. Tells which breaches began and which ended; from
    /// here on their actions are in force, or no longer.
    #[inline]
    pub fn supervise(&mut self, cycle: i64, now: Tai, tai_minus_utc: Nanos) -> BreachChanges {
        if self.watch.is_none() { BreachChanges::NONE } else { self.judge(cycle, now, tai_minus_utc) }
    }

    fn judge(&mut self, cycle: i64, now: Tai, tai_minus_utc: Nanos) -> BreachChanges {
        let Self { subscriber: Some(subscriber), watch: Some(watch), application, .. } = self else {
            return BreachChanges::NONE;
        };
        watch.now = now;
        while subscriber.poll(now).is_some() {}
        watch.judge(Cycle {
            tai_minus_utc,
            timed_out: subscriber.state(0) == ReaderState::Timeout,
            elapsed: watch.fresh().and_then(|counter| application.elapsed(counter, cycle)),
        })
    }

    /// Where a condition is; `None` for one that is not watched for.
    pub fn breach(&self, condition: Condition) -> Option<BreachState> {
        self.watch.as_ref()?.breach(condition).map(|breach| breach.state())
    }

    /// The counter with which a condition last changed: that of the message that showed it, of a silence the last before
    /// it. 0 when there is none.
    pub fn breach_counter(&self, condition: Condition) -> u64 {
        self.watch.as_ref().map_or(0, |watch| watch.counter(condition))
    }

    /// Whether a breach has stopped it.
    pub fn is_stopped(&self) -> bool {
        self.watch.as_ref().is_some_and(|watch| watch.is_stopped())
    }

    /// The counter that the application has for its newest, or what it goes on with instead, and whether it may be used.
    /// `None` for an endpoint that reads nothing.
    pub fn input(&self) -> Option<(u64, Status)> {
        let subscriber = self.subscriber.as_ref()?;
        let now = self.watch.as_ref().map_or(NO_TIME, |watch| watch.now);
        let input = self.watch.as_ref().and_then(|watch| watch.input());
        let of = subscriber.input(0, now);
        Some(match input {
            Some(image) => (self.application.counter(image), Status::Bad),
            None => (self.application.counter(of.image), of.status),
        })
    }

    /// The application phase where a breach may have a say in it.
    pub(super) fn application_watched(&mut self, cycle: i64) -> Step {
        let Self { subscriber: Some(subscriber), watch: Some(watch), application, output, .. } = self else {
            return Step::of(cycle);
        };
        let mut reader = subscriber.input(0, watch.now);
        let fresh = reader.fresh;
        if fresh {
            watch.delivers(reader.image, application.counter(reader.image));
        }
        let mut withheld = false;
        if let Some(image) = watch.input() {
            reader = ReaderInput { image, fresh: false, status: Status::Bad, ..reader };
            withheld = fresh;
        }
        let step = application.cycle(cycle, Input { readers: &[reader] }, output);
        if withheld {
            application.withheld();
        }
        subscriber.taken();
        step
    }

    /// Whether something else than the application's output is published, or nothing at all; if not, the watch takes note
    /// of what will be.
    pub(super) fn instead(&mut self, now_ticks: i64) -> bool {
        let Self { watch: Some(watch), publisher: Some(publisher), application, last_published, .. } = self else {
            return false;
        };
        if watch.is_stopped() || watch.output(application.role() == Role::Echo).is_some() {
            return true;
        }
        if core::mem::take(&mut watch.substitute.published) {
            // A layout without Status has nothing to take back.
            let _ = publisher.set_status(0, 0);
        }
        let counter = application.outgoing();
        if counter != 0 && *last_published != Some(counter) {
            watch.published(counter, now_ticks);
        }
        false
    }

    /// What is published where a breach has a say in it.
    pub(super) fn publish_instead(&mut self, now_ticks: i64) -> Option<Outgoing<'_>> {
        let Self { watch: Some(watch), publisher: Some(publisher), application, .. } = self else { return None };
        let value = watch.output(application.role() == Role::Echo).filter(|_| !watch.is_stopped())?;
        watch.substitute.published = true;
        // A layout without Status tells it by its running state alone.
        let _ = publisher.set_status(0, SEVERITY_BAD);
        let published = publisher.publish(watch.substitute.image(value), now_ticks).ok()?;
        Some(Outgoing {
            frame: published.frame,
            counter: value,
            substitute: true,
            sequence: published.sequence,
            repeated: false,
        })
    }
}
