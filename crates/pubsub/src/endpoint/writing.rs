//! The writing part of an endpoint: frames of what the application wrote, or of what is published in its place.

use alloc::boxed::Box;

use super::Outgoing;
use super::passed::{Instead, Outputs};
use crate::breach::Substitute;
use crate::data_set_reader::{OUT_OF_SERVICE, SEVERITY_BAD};
use crate::publisher::Publisher;

/// The part of an endpoint that makes frames, of what a [`Computing`](super::Computing) part has left to be published.
#[derive(Debug, Clone)]
pub struct Writing {
    pub(super) publisher: Option<Publisher>,
    last_published: Option<u64>,
    /// Of what the application wrote: the upper half of a StatusCode.
    status: u16,
    /// What goes out in the place of a counter: where there is a watch.
    substitute: Option<Box<Substitute>>,
}

impl Writing {
    pub(super) fn new(publisher: Option<Publisher>) -> Self {
        Self { publisher, last_published: None, status: 0, substitute: None }
    }

    pub(super) fn watched(&mut self, substitute: Substitute) {
        self.substitute = Some(Box::new(substitute));
    }

    /// The frame to send: [`Endpoint::publish`](super::Endpoint::publish).
    pub fn publish(&mut self, outputs: Outputs<'_>, now_ticks: i64) -> Option<Outgoing<'_>> {
        if let Some(instead) = outputs.instead {
            return self.publish_instead(instead, now_ticks);
        }
        if let Some(substitute) = &mut self.substitute
            && core::mem::take(&mut substitute.published)
            && let Some(publisher) = &mut self.publisher
        {
            // A layout without Status has nothing to take back.
            let _ = publisher.set_status(0, self.status);
        }
        self.publish_counter(outputs.image, outputs.counter, now_ticks)
    }

    /// The Status of what the application wrote, from now on: [`Endpoint::set_status`](super::Endpoint::set_status).
    pub fn set_status(&mut self, status: u32) {
        // That one says that there is no counter.
        let status = Some((status >> 16) as u16).filter(|status| *status != OUT_OF_SERVICE).unwrap_or(SEVERITY_BAD);
        if core::mem::replace(&mut self.status, status) == status {
            return;
        }
        let instead = self.substitute.as_ref().is_some_and(|substitute| substitute.published);
        if let Some(publisher) = self.publisher.as_mut().filter(|_| !instead) {
            // A layout without Status says nothing of it.
            let _ = publisher.set_status(0, status);
        }
    }

    /// The same where there is no watch.
    #[inline(always)]
    pub(super) fn publish_counter(&mut self, image: &[u8], counter: u64, now_ticks: i64) -> Option<Outgoing<'_>> {
        let publisher = self.publisher.as_mut()?;
        if counter == 0 {
            return None;
        }
        let repeated = self.last_published.replace(counter) == Some(counter);
        let published = publisher.publish(image, now_ticks).ok()?;
        Some(Outgoing { frame: published.frame, counter, substitute: false, sequence: published.sequence, repeated })
    }

    #[cold]
    fn publish_instead(&mut self, instead: Instead, now_ticks: i64) -> Option<Outgoing<'_>> {
        let Instead::Value(value) = instead else { return None };
        let Self { publisher: Some(publisher), substitute: Some(substitute), .. } = self else { return None };
        substitute.published = true;
        // A layout without Status tells it by its running state alone.
        let _ = publisher.set_status(0, OUT_OF_SERVICE);
        let published = publisher.publish(substitute.image(value), now_ticks).ok()?;
        Some(Outgoing {
            frame: published.frame,
            counter: value,
            substitute: true,
            sequence: published.sequence,
            repeated: false,
        })
    }
}
