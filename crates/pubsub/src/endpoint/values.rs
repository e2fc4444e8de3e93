//! An endpoint whose variables are values of their own: the first is the counter by which a message is known, the others
//! are what an application makes of them. That application may be outside, beyond an image that the caller carries.

use alloc::boxed::Box;
use alloc::vec;
use core::ops::Range;

use units::{Nanos, Tai};

use super::passed::Inputs;
use super::{Computing, Endpoint, EndpointConfig};
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
    /// Whether they are of now: a message came within the timeout, and no breach puts anything in its place.
    pub status: Status,
    /// What the newest message says of them: the upper half of a StatusCode; 0, Good, where its layout has no Status.
    pub said: u16,
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
        let (input_at, output_at) = endpoint.computing.application.places();
        let (input, output) = (behind(reads, input_at), behind(writes, output_at));
        endpoint.computing.values = Some(Box::new(Values { input, output, outside: None }));
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
        let Self { reading, computing, .. } = &mut self;
        if let Some(values) = &mut computing.values {
            values.outside = Some(Box::new(Outside {
                timeout,
                given: vec![(i64::MIN, 0); OUTSIDE_CYCLES].into_boxed_slice(),
                answered: i64::MIN,
            }));
            computing.application.leave_answers();
            reading.outside();
        }
        self
    }

    /// What there is for the application outside, as of `now`.
    pub fn delivered(&self, now: Tai) -> Delivered<'_> {
        self.computing.delivered(now, self.reading.inputs())
    }

    /// The values that are published behind the counter, as they were left; empty at an end that publishes none.
    pub fn outputs(&mut self) -> &mut [u8] {
        self.computing.values()
    }

    /// The StatusCode of the outputs, from now on: its upper half goes out as Status of the DataSetMessage. A layout without
    /// Status says nothing of it.
    pub fn set_status(&mut self, status: u32) {
        self.writing.set_status(status);
    }

    /// Takes note that the outputs were made from the inputs of `cycle`; tells whether those are remembered. An Echo
    /// answers their counter from now on, unless newer inputs were answered before.
    pub fn answered(&mut self, cycle: i64) -> bool {
        self.computing.answered(cycle)
    }
}

impl Computing {
    /// What there is for the application outside: [`Endpoint::delivered`].
    pub fn delivered<'a>(&'a self, now: Tai, inputs: Inputs<'a>) -> Delivered<'a> {
        let Some(values) = self.values.as_ref().filter(|_| !inputs.image.is_empty()) else {
            let counter = self.application.outgoing();
            return Delivered { values: &[], counter, status: Status::Good, said: 0, age: None };
        };
        let instead = self.watch.as_ref().and_then(|watch| watch.input());
        let image = instead.unwrap_or(inputs.image);
        let timeout = values.outside.as_ref().map_or(Nanos::ZERO, |outside| outside.timeout);
        let since = inputs.signs.and_then(|signs| signs.heard_at).map(|at| now - at);
        let good = instead.is_none() && since.is_some_and(|since| since <= timeout);
        Delivered {
            values: image.get(values.input.clone()).unwrap_or(&[]),
            counter: self.application.counter(image),
            status: if good { Status::Good } else { Status::Bad },
            said: inputs.signs.map_or(0, |signs| signs.status),
            age: inputs.signs.and_then(|signs| signs.newest_at).map(|at| now - at),
        }
    }

    /// The values that are published: [`Endpoint::outputs`].
    pub fn values(&mut self) -> &mut [u8] {
        let Self { values: Some(values), output, .. } = self else { return &mut [] };
        output.get_mut(values.output.clone()).unwrap_or(&mut [])
    }

    /// The outputs were made from the inputs of `cycle`: [`Endpoint::answered`].
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
    pub(super) fn follow(&mut self, step: &Step, inputs: Inputs<'_>) {
        let Self { values: Some(values), application, output, .. } = self else { return };
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
                let read = inputs.image.get(values.input.clone());
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
    /// Where the values are in the image that is published.
    pub(super) fn output(&self) -> Range<usize> {
        self.output.clone()
    }
}

/// Where the inputs of a cycle are remembered.
fn place(cycle: i64) -> usize {
    cycle.rem_euclid(OUTSIDE_CYCLES as i64) as usize
}
