//! What drives an end in one thread: its whole endpoint, or the part of it whose phase the thread runs.

use pubsub::{BreachChanges, Condition, Delivered, Endpoint, Outgoing, Reception, Status, Step};
use units::{Nanos, Tai};

use crate::parts::{ComputingPart, ReadingPart, WritingPart};

/// An endpoint, or one of its parts. What the part is not for does nothing: its thread never runs that phase.
#[derive(Debug)]
pub struct Engine(Kind);

#[derive(Debug)]
enum Kind {
    Whole(Box<Endpoint>),
    Reading(Box<ReadingPart>),
    Computing(Box<ComputingPart>),
    Writing(Box<WritingPart>),
}

impl From<Endpoint> for Engine {
    fn from(endpoint: Endpoint) -> Self {
        Self(Kind::Whole(Box::new(endpoint)))
    }
}

impl Engine {
    /// The endpoint in three parts, by phase: subscribe, application, publish. Parts stay as they are.
    ///
    /// # Errors
    /// As for [`parts`](crate::parts::parts).
    pub(crate) fn apart(self, outside: bool) -> Result<[Self; 3], String> {
        let Kind::Whole(endpoint) = self.0 else { return Err("this end is in parts already".into()) };
        let (reading, computing, writing) = crate::parts::parts(*endpoint, outside)?;
        let kinds =
            [Kind::Reading(Box::new(reading)), Kind::Computing(Box::new(computing)), Kind::Writing(Box::new(writing))];
        Ok(kinds.map(Self))
    }

    /// Takes a message: [`Endpoint::receive`]. [`Self::decoded`] has to follow.
    #[inline]
    pub(crate) fn receive(&mut self, uadp: &[u8]) -> Reception {
        match &mut self.0 {
            Kind::Whole(endpoint) => endpoint.receive(uadp),
            Kind::Reading(part) => part.receive(uadp),
            Kind::Computing(_) | Kind::Writing(_) => {
                Reception::Foreign(pubsub::Mismatch { offset: 0, expected: None, found: None })
            }
        }
    }

    /// When that was decoded: [`Endpoint::decoded`]. Tells what the message was, which may be known only now.
    #[inline]
    pub(crate) fn decoded(&mut self, at: Tai, reception: Reception) -> Reception {
        match &mut self.0 {
            Kind::Whole(endpoint) => {
                endpoint.decoded(at);
                reception
            }
            Kind::Reading(part) => part.decoded(at, reception),
            Kind::Computing(_) | Kind::Writing(_) => reception,
        }
    }

    /// The counter of a message that could be read: [`Endpoint::peek`].
    pub(crate) fn peek(&self, uadp: &[u8]) -> Option<u64> {
        match &self.0 {
            Kind::Whole(endpoint) => endpoint.peek(uadp),
            Kind::Reading(part) => part.peek(uadp),
            Kind::Computing(_) | Kind::Writing(_) => None,
        }
    }

    /// A subscribe phase begins: timeouts, where no application phase of this thread looks at them.
    #[inline]
    pub(crate) fn poll(&mut self, now: Tai) {
        if let Kind::Reading(part) = &mut self.0 {
            part.poll(now);
        }
    }

    /// Before the application phase: [`Endpoint::supervise`].
    #[inline]
    pub(crate) fn supervise(&mut self, cycle: i64, now: Tai, tai_minus_utc: Nanos) -> BreachChanges {
        match &mut self.0 {
            Kind::Whole(endpoint) => endpoint.supervise(cycle, now, tai_minus_utc),
            Kind::Computing(part) => part.supervise(cycle, now, tai_minus_utc),
            Kind::Reading(_) | Kind::Writing(_) => BreachChanges::NONE,
        }
    }

    /// The application phase: [`Endpoint::application`].
    #[inline]
    pub(crate) fn application(&mut self, cycle: i64) -> Step {
        match &mut self.0 {
            Kind::Whole(endpoint) => endpoint.application(cycle),
            Kind::Computing(part) => part.application(cycle),
            Kind::Reading(_) | Kind::Writing(_) => Step::of(cycle),
        }
    }

    /// The publish phase: [`Endpoint::publish`].
    #[inline]
    pub(crate) fn publish(&mut self, now_ticks: i64) -> Option<Outgoing<'_>> {
        match &mut self.0 {
            Kind::Whole(endpoint) => endpoint.publish(now_ticks),
            Kind::Writing(part) => part.publish(now_ticks),
            Kind::Reading(_) | Kind::Computing(_) => None,
        }
    }

    /// The counter with which a condition last changed: [`Endpoint::breach_counter`].
    pub(crate) fn breach_counter(&self, condition: Condition) -> u64 {
        match &self.0 {
            Kind::Whole(endpoint) => endpoint.breach_counter(condition),
            Kind::Computing(part) => part.computing().breach_counter(condition),
            Kind::Reading(_) | Kind::Writing(_) => 0,
        }
    }

    /// Lets a Source count from `first`: [`Endpoint::count_from`].
    pub(crate) fn count_from(&mut self, first: u64) {
        match &mut self.0 {
            Kind::Whole(endpoint) => endpoint.count_from(first),
            Kind::Computing(part) => part.computing_mut().count_from(first),
            Kind::Reading(_) | Kind::Writing(_) => {}
        }
    }
}

/// What an application outside gets and leaves.
pub(crate) trait Delivers {
    /// What there is for it: [`Endpoint::delivered`].
    fn delivered(&self, now: Tai) -> Delivered<'_>;

    /// Publishes these values from now on, made from the inputs of `cycle`; tells whether those are remembered.
    fn replace(&mut self, values: &[u8], cycle: i64) -> bool;

    /// The StatusCode of these values from now on: [`Endpoint::set_status`].
    fn set_status(&mut self, status: u32);
}

impl Delivers for Endpoint {
    fn delivered(&self, now: Tai) -> Delivered<'_> {
        self.delivered(now)
    }

    fn replace(&mut self, values: &[u8], cycle: i64) -> bool {
        let place = self.outputs();
        if place.len() == values.len() {
            place.copy_from_slice(values);
        }
        self.answered(cycle)
    }

    fn set_status(&mut self, status: u32) {
        self.set_status(status);
    }
}

impl Delivers for Engine {
    #[inline]
    fn delivered(&self, now: Tai) -> Delivered<'_> {
        match &self.0 {
            Kind::Whole(endpoint) => endpoint.delivered(now),
            Kind::Computing(part) => part.delivered(now),
            Kind::Reading(_) | Kind::Writing(_) => {
                Delivered { values: &[], counter: 0, status: Status::Bad, said: 0, age: None }
            }
        }
    }

    #[inline]
    fn replace(&mut self, values: &[u8], cycle: i64) -> bool {
        match &mut self.0 {
            Kind::Whole(endpoint) => Delivers::replace(&mut **endpoint, values, cycle),
            Kind::Writing(part) => part.replace(values, cycle),
            Kind::Computing(part) => part.computing_mut().answered(cycle),
            Kind::Reading(_) => false,
        }
    }

    #[inline]
    fn set_status(&mut self, status: u32) {
        match &mut self.0 {
            Kind::Whole(endpoint) => endpoint.set_status(status),
            Kind::Writing(part) => part.set_status(status),
            // Who publishes nothing has nothing to say.
            Kind::Computing(_) | Kind::Reading(_) => {}
        }
    }
}
