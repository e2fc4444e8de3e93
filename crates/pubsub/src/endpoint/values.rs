//! An endpoint whose variables are values of their own: the first is the counter by which a message is known, the others
//! are what an application makes of them. That application may be outside, beyond an image that the caller carries.

use alloc::boxed::Box;
use alloc::vec;
use core::ops::Range;

use units::{Nanos, Tai};

use super::{Endpoint, EndpointConfig, Reception};
use crate::application::{Status, Step};
use crate::counter::Role;
use crate::error::LayoutError;
use crate::image::ImageLayout;

/// For how many cycles it is remembered which counter the inputs had: an outside application that takes longer to answer
/// answers nothing.
pub const OUTSIDE_CYCLES: usize = 1024;

/// Where the variables stand, and who makes them.
#[derive(Debug, Clone)]
pub(super) struct Values {
    /// Bytes of those behind the counter in the image that is read; empty where nothing is.
    input: Range<usize>,
    /// The same in the image that is published.
    output: Range<usize>,
    outside: Option<Box<Outside>>,
}

/// What an endpoint keeps for an application outside.
#[derive(Debug, Clone)]
struct Outside {
    /// From when on, without a message, inputs are Bad.
    timeout: Nanos,
    /// The message received last is news, or at least of the stream, and nobody has told yet when it was decoded.
    undated: Option<bool>,
    /// When the newest values, and when any message of the stream, was decoded.
    newest_at: Option<Tai>,
    heard_at: Option<Tai>,
    /// Which counter the inputs of a cycle had, at the cycle's number modulo the length.
    given: Box<[(i64, u64)]>,
    /// The newest inputs that were answered.
    answered: i64,
}

/// What there is for an application outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivered<'a> {
    /// The newest values behind the counter, as an image has them: UInt64, little-endian. Zeros before the first message,
    /// empty at an end that reads nothing.
    pub values: &'a [u8],
    /// The counter of the message they came with; 0 before the first. At an end that reads nothing the one it writes.
    pub counter: u64,
    /// Whether they may be used: a message came within the timeout, and no breach says otherwise.
    pub status: Status,
    /// How long ago the newest was decoded; `None` before the first.
    pub age: Option<Nanos>,
}

impl Endpoint {
    /// An endpoint of the same frames, of whose variables only the first is the counter. The others need not be equal, so
    /// no message is inconsistent. Without an application outside a Source writes its counter into all of them, and an Echo
    /// answers with what it read.
    ///
    /// # Errors
    /// As for [`Self::new`].
    pub fn with_values(config: EndpointConfig) -> Result<Self, LayoutError> {
        let bytes = usize::from(config.variables.saturating_sub(1)) * size_of::<u64>();
        let (reads, writes) = (config.read.is_some(), config.write.is_some());
        let mut endpoint = Self::build(config, |layout, _| Some(ImageLayout::of(layout)))?;
        let behind = |there: bool, at: usize| if there { at + 8..at + 8 + bytes } else { 0..0 };
        let (input_at, output_at) = endpoint.application.places();
        let (input, output) = (behind(reads, input_at), behind(writes, output_at));
        endpoint.values = Some(Box::new(Values { input, output, outside: None }));
        Ok(endpoint)
    }

    /// Leaves the values to an application outside, which the caller gives what [`Self::delivered`] has after every
    /// application phase, and from which it copies into [`Self::outputs`] before the publish phase. Inputs are Bad when
    /// no message of the stream came for `timeout`.
    ///
    /// A Source publishes in every cycle, whatever comes from outside. An Echo answers a counter when the application has
    /// answered the inputs that had it: [`Self::answered`].
    ///
    /// An endpoint without values of their own stays as it is.
    #[must_use]
    pub fn outside(mut self, timeout: Nanos) -> Self {
        if let Some(values) = &mut self.values {
            values.outside = Some(Box::new(Outside {
                timeout,
                undated: None,
                newest_at: None,
                heard_at: None,
                given: vec![(i64::MIN, 0); OUTSIDE_CYCLES].into_boxed_slice(),
                answered: i64::MIN,
            }));
            self.application.leave_answers();
        }
        self
    }

    /// What there is for the application outside, as of `now`.
    pub fn delivered(&self, now: Tai) -> Delivered<'_> {
        let (Some(subscriber), Some(values)) = (&self.subscriber, &self.values) else {
            let counter = self.application.outgoing();
            return Delivered { values: &[], counter, status: Status::Good, age: None };
        };
        let instead = self.watch.as_ref().and_then(|watch| watch.input());
        let image = instead.unwrap_or(subscriber.image());
        let (since, timeout) = values
            .outside
            .as_ref()
            .map_or((None, Nanos::ZERO), |outside| (outside.heard_at.map(|at| now - at), outside.timeout));
        let good = instead.is_none() && since.is_some_and(|since| since <= timeout);
        Delivered {
            values: image.get(values.input.clone()).unwrap_or(&[]),
            counter: self.application.counter(image),
            status: if good { Status::Good } else { Status::Bad },
            age: values.outside.as_ref().and_then(|outside| outside.newest_at).map(|at| now - at),
        }
    }

    /// The values that are published behind the counter, as they were left; empty at an end that publishes none.
    pub fn outputs(&mut self) -> &mut [u8] {
        let Self { values: Some(values), output, .. } = self else { return &mut [] };
        output.get_mut(values.output.clone()).unwrap_or(&mut [])
    }

    /// Takes note that the outputs were made from the inputs of `cycle`; tells whether those are remembered. An Echo
    /// answers their counter from now on, unless newer inputs were answered before.
    pub fn answered(&mut self, cycle: i64) -> bool {
        let Self { values: Some(values), application, output, .. } = self else { return false };
        let Some(outside) = &mut values.outside else { return false };
        let Some(&(_, counter)) = outside.given.get(place(cycle)).filter(|(given, _)| *given == cycle) else {
            return false;
        };
        if cycle >= outside.answered {
            outside.answered = cycle;
            if application.role() == Role::Echo && counter != 0 {
                application.answer(counter, output);
            }
        }
        true
    }

    /// What an application phase leaves to do: values follow the counter, or their inputs are remembered.
    pub(super) fn follow(&mut self, step: &Step) {
        let Self { values: Some(values), subscriber, application, output, .. } = self else { return };
        if let Some(outside) = &mut values.outside {
            if let Some(given) = outside.given.get_mut(place(step.cycle)) {
                *given = (step.cycle, step.read.unwrap_or(0));
            }
            return;
        }
        let Some(output) = output.get_mut(values.output.clone()) else { return };
        match application.role() {
            Role::Source => {
                let counter = application.outgoing().to_le_bytes();
                output.chunks_exact_mut(counter.len()).for_each(|value| value.copy_from_slice(&counter));
            }
            Role::Echo if step.read.is_some() && !step.repeated => {
                let read = subscriber.as_ref().and_then(|subscriber| subscriber.image().get(values.input.clone()));
                // Both directions have the same variables.
                if let Some(read) = read.filter(|read| read.len() == output.len()) {
                    output.copy_from_slice(read);
                }
            }
            Role::Echo | Role::Sink => {}
        }
    }
}

impl Values {
    /// A message was received; when, is told later.
    #[inline]
    pub(super) fn received(&mut self, reception: &Reception) {
        let Some(outside) = &mut self.outside else { return };
        outside.undated = match reception {
            Reception::Message { .. } => Some(true),
            Reception::Old { repeated: true, .. } => Some(false),
            _ => None,
        };
    }

    /// When the message received last was decoded.
    #[inline]
    pub(super) fn decoded(&mut self, at: Tai) {
        let Some(outside) = &mut self.outside else { return };
        if let Some(news) = outside.undated.take() {
            outside.heard_at = Some(at);
            outside.newest_at = if news { Some(at) } else { outside.newest_at };
        }
    }
}

/// Where the inputs of a cycle are remembered.
fn place(cycle: i64) -> usize {
    cycle.rem_euclid(OUTSIDE_CYCLES as i64) as usize
}
