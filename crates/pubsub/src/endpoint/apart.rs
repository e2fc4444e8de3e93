//! What parts of an endpoint pass to each other when they live apart: copies, to be carried from thread to thread by whoever
//! drives them. All are allocated at the start and filled again and again.

use alloc::boxed::Box;
use core::ops::Range;

use super::passed::{Inputs, Instead, Outputs, Signs};
use super::{Computing, Reading};
use crate::image::ImageLayout;

/// From [`Reading`] to [`Computing`]: the newest values, and what messages told.
#[derive(Debug, Clone, Default)]
pub struct InputCopy {
    image: Box<[u8]>,
    messages: u64,
    resynchronised: u64,
    signs: Option<Signs>,
}

impl InputCopy {
    /// As the computing part wants it that has taken so many messages.
    pub fn inputs(&self, taken: u64) -> Inputs<'_> {
        Inputs { image: &self.image, fresh: self.messages > taken, signs: self.signs.as_ref() }
    }

    /// Messages so far.
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// How often reading said to [forget](Computing::forget).
    pub fn resynchronised(&self) -> u64 {
        self.resynchronised
    }
}

impl Reading {
    /// Copies what there is for the computing part.
    pub fn copy_to(&self, copy: &mut InputCopy) {
        let inputs = self.inputs();
        if copy.image.len() == inputs.image.len() {
            copy.image.copy_from_slice(inputs.image);
        }
        (copy.messages, copy.resynchronised) = (self.messages(), self.resynchronised);
        copy.signs = inputs.signs.copied();
    }

    /// A copy with room for what [`Self::copy_to`] copies.
    pub fn copied(&self) -> InputCopy {
        let mut copy = InputCopy { image: self.inputs().image.into(), ..InputCopy::default() };
        self.copy_to(&mut copy);
        copy
    }
}

/// From [`Computing`] to [`Writing`](super::Writing): what is to be published.
#[derive(Debug, Clone, Default)]
pub struct OutputCopy {
    image: Box<[u8]>,
    counter: u64,
    instead: Option<Instead>,
    /// Where the counter is, and the values behind it if there are any.
    counter_at: usize,
    values: Range<usize>,
}

impl OutputCopy {
    /// As the writing part wants it.
    pub fn outputs(&self) -> Outputs<'_> {
        Outputs { image: &self.image, counter: self.counter, instead: self.instead }
    }

    /// How many bytes of values there are behind the counter.
    pub fn values(&self) -> usize {
        self.values.len()
    }

    /// Puts other values behind the counter, if they are as many, and if one is given another counter, unless it is 0.
    pub fn replace(&mut self, values: &[u8], counter: Option<u64>) {
        if let Some(place) = self.image.get_mut(self.values.clone()).filter(|place| place.len() == values.len()) {
            place.copy_from_slice(values);
        }
        if let Some(counter) = counter.filter(|counter| *counter != 0) {
            self.counter = counter;
            ImageLayout::set_uint64(&mut self.image, self.counter_at, counter);
        }
    }
}

impl Computing {
    /// Copies what there is to be published.
    pub fn copy_to(&self, copy: &mut OutputCopy) {
        let outputs = self.outputs();
        if copy.image.len() == outputs.image.len() {
            copy.image.copy_from_slice(outputs.image);
        }
        (copy.counter, copy.instead) = (outputs.counter, outputs.instead);
    }

    /// A copy with room for what [`Self::copy_to`] copies.
    pub fn copied(&self) -> OutputCopy {
        let mut copy = OutputCopy {
            image: self.output.clone(),
            counter_at: self.application.places().1,
            values: self.values.as_ref().map_or(0..0, |values| values.output()),
            ..OutputCopy::default()
        };
        self.copy_to(&mut copy);
        copy
    }
}
