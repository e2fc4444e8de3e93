//! One end of a stream at one station: subscriber, application and publisher, phase by phase.
//!
//! As a rule the process image is one counter that all variables repeat. A message whose variables differ is
//! [`Reception::Inconsistent`] then and never reaches the image, so the image need not hold them one by one. Where
//! [variables are values of their own](Endpoint::with_values) only the first of them is the counter.

mod apart;
mod computing;
mod passed;
mod reading;
mod values;
mod watched;
mod writing;

use alloc::boxed::Box;
use alloc::vec;
use core::ops::Range;

use units::Tai;
use wire::{BuiltInType, EthernetHeader, Value};

use crate::application::Step;
use crate::counter::{CounterApplication, Role};
use crate::error::{LayoutError, Mismatch};
use crate::image::ImageLayout;
use crate::layout::NetworkMessageLayout;
use crate::publisher::Publisher;
use crate::subscriber::Subscriber;
use crate::subscription::SubscriberConfig;

pub use apart::{InputCopy, OutputCopy};
pub use computing::Computing;
pub use passed::{Inputs, Outputs, Progress};
pub(crate) use passed::{Instead, Newest, Signs};
pub use reading::Reading;
pub use values::{Delivered, OUTSIDE_CYCLES};
pub use writing::Writing;

/// After this many application phases without news an endpoint takes the next message with another counter than the
/// last, whatever its counter and sequence number: a restarted writer is heard again, which the rule of the standard
/// alone would lock out.
pub const RESYNC_PHASES: u32 = 128;

/// An endpoint that watches nothing has no MessageReceiveTimeout: its time is the application phase.
const NO_TIME: Tai = Tai(0);

/// What an [`Endpoint`] is made from.
#[derive(Debug, Clone)]
pub struct EndpointConfig {
    /// What it does.
    pub role: Role,
    /// What it writes, and what stands before it: for a Source and an Echo. Without a header frames are bare messages.
    pub write: Option<(NetworkMessageLayout, Option<EthernetHeader>)>,
    /// What it reads: for an Echo and a Sink, and for a Source that has an echo.
    pub read: Option<NetworkMessageLayout>,
    /// How many counters a message carries: the last fields, all UInt64, of its first DataSetMessage.
    pub variables: u16,
}

/// What a received message was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reception {
    /// Not of the layout that is read here.
    Foreign(Mismatch),
    /// Its variables are not all equal: it is not read.
    Inconsistent {
        /// The first of them.
        counter: u64,
    },
    /// What its writer publishes in place of a counter ([`Action::Override`](crate::Action::Override),
    /// [`Action::Safe`](crate::Action::Safe)): it is not read. Only an endpoint that watches tells it from a counter.
    Substitute {
        /// What its variables hold.
        value: u64,
    },
    /// Older than a message that was there before, or the same again: it is not read.
    Old {
        /// What its variables hold.
        counter: u64,
        /// Not older: it holds the newest counter once more.
        repeated: bool,
    },
    /// A good message, and news.
    Message {
        /// What its variables hold.
        counter: u64,
        /// Counter of an earlier message that the application phase had not taken yet and now never will.
        superseded: Option<u64>,
    },
}

/// A frame to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outgoing<'a> {
    /// The frame with its Ethernet header.
    pub frame: &'a [u8],
    /// Counter in all its variables, or what they hold instead.
    pub counter: u64,
    /// They hold no counter.
    pub substitute: bool,
    /// Number of this publication, from 0; also on the wire where the layout has sequence numbers.
    pub sequence: u16,
    /// The same counter as in the publication before.
    pub repeated: bool,
}

/// What an endpoint has seen so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages of the layout, consistent or not.
    pub received: u64,
    /// Messages of another layout.
    pub foreign: u64,
    /// Messages whose variables were not all equal.
    pub inconsistent: u64,
    /// Messages older than one that was there before, by counter or by sequence number, and therefore not read.
    pub stale: u64,
    /// Messages replaced by a newer one before the application phase took them.
    pub superseded: u64,
    /// Messages that never came, by sequence number.
    pub lost: u64,
    /// Sum of [`Step::missed`].
    pub missed: u64,
    /// Number of phases that were [`Step::repeated`].
    pub repeated: u64,
    /// How often a message was taken because nothing newer had come for [`RESYNC_PHASES`] application phases.
    pub resynchronised: u64,
    /// Frames given out to be sent.
    pub published: u64,
}

/// One stream's end at one station: subscriber, application, publisher and the image between them. It is three parts, which
/// may also [live apart](Self::into_parts).
#[derive(Debug, Clone)]
pub struct Endpoint {
    reading: Reading,
    computing: Computing,
    writing: Writing,
}

impl Endpoint {
    /// An endpoint before its first cycle. Everything is allocated here.
    ///
    /// # Errors
    /// The role lacks what it needs or has what it does not, or the frames have no such variables.
    pub fn new(config: EndpointConfig) -> Result<Self, LayoutError> {
        Self::build(config, |layout, counters| ImageLayout::repeating(layout, 0, counters))
    }

    /// The same with an image that `place` lays out for a layout, given which fields are the variables.
    fn build(
        config: EndpointConfig,
        place: impl Fn(&NetworkMessageLayout, Range<usize>) -> Option<ImageLayout>,
    ) -> Result<Self, LayoutError> {
        let EndpointConfig { role, write, read, variables } = config;
        check(role, write.is_some(), read.is_some())?;
        let (mut output, mut output_at, mut publisher) = (Box::default(), 0, None);
        if let Some((layout, ethernet)) = &write {
            let (image, counter_at) = counter_image(layout, variables, &place)?;
            let mut values = vec![0; image.bytes()].into_boxed_slice();
            // The fields before the counters: the Boolean of the papers' frames is the publisher's running state.
            for field in 0..image.fields(0).len() {
                let _ = image.set(&mut values, 0, field, Value::Boolean(true));
            }
            (output, output_at) = (values, counter_at);
            publisher = Some(Publisher::with_image(layout, ethernet.as_ref(), image)?);
        }
        let (mut subscriber, mut input_at, mut counter_field) = (None, 0, 0);
        if let Some(layout) = read {
            let (image, counter_at) = counter_image(&layout, variables, &place)?;
            input_at = counter_at;
            counter_field = counter_fields(&layout, variables)?.start;
            subscriber = Some(Subscriber::with_image(SubscriberConfig::strict(layout), image)?);
        }
        Ok(Self {
            reading: Reading::new(subscriber, input_at, counter_field),
            computing: Computing::new(CounterApplication::new(role, input_at, output_at), output),
            writing: Writing::new(publisher),
        })
    }

    /// Its parts, to be driven by threads of their own, which carry what one has to the next: [`Reading::copy_to`],
    /// [`Computing::copy_to`]; and back the [`Progress`] of the computing part, and what was published where it
    /// [wants to know](Computing::is_told_publications).
    pub fn into_parts(self) -> (Reading, Computing, Writing) {
        (self.reading, self.computing, self.writing)
    }

    /// Lets the counter of a Source begin with `first` instead of 1; before its first application phase. A writer that is
    /// started again then goes on above its earlier counters, and each names one message.
    pub fn count_from(&mut self, first: u64) {
        self.computing.count_from(first);
    }

    /// Takes the UADP bytes of a received frame (no Ethernet header). The newest message since the last application
    /// phase wins. An endpoint without a layout to read finds everything foreign.
    #[inline]
    pub fn receive(&mut self, uadp: &[u8]) -> Reception {
        let Self { reading, computing, .. } = self;
        reading.receive(uadp, computing.phases_without_news(), || computing.forget())
    }

    /// The counter of a message that this endpoint could read, without taking it: for frames that must not be taken,
    /// because they came with another VLAN tag, but have to be counted. `None` for a foreign message.
    pub fn peek(&self, uadp: &[u8]) -> Option<u64> {
        self.reading.peek(uadp)
    }

    /// The application phase of `cycle`. A Source counts up and writes the new counter to all variables; every
    /// endpoint reads the newest message, and an Echo copies it to what it will publish.
    pub fn application(&mut self, cycle: i64) -> Step {
        let Self { reading, computing, .. } = self;
        if !computing.is_plain() {
            return self.application_more(cycle);
        }
        // Who reads nothing has no news.
        let Some(subscriber) = &mut reading.subscriber else { return computing.application_plain(cycle, &[], false) };
        let fresh = subscriber.is_fresh();
        let step = computing.application_plain(cycle, subscriber.image(), fresh);
        subscriber.taken();
        step
    }

    #[cold]
    #[inline(never)]
    fn application_more(&mut self, cycle: i64) -> Step {
        let Self { reading, computing, .. } = self;
        let step = computing.application(cycle, reading.inputs());
        reading.taken();
        step
    }

    /// The publish phase: the frame to send, patched with the counter, the next sequence number and the time `now_ticks`
    /// (100 ns ticks since 1601-01-01 UTC). `None` while there is nothing to publish: a Sink never has, a Source not
    /// before its first application phase, an Echo not before its first reading.
    #[inline]
    pub fn publish(&mut self, now_ticks: i64) -> Option<Outgoing<'_>> {
        if self.computing.watch.is_some() {
            return self.publish_watched(now_ticks);
        }
        let Self { computing, writing, .. } = self;
        writing.publish_counter(&computing.output, computing.application.outgoing(), now_ticks)
    }

    /// What it does.
    pub fn role(&self) -> Role {
        self.computing.role()
    }

    /// What it has seen so far.
    pub fn counts(&self) -> Counts {
        let Self { reading, computing, writing } = self;
        let read = reading.subscriber.as_ref().map(Subscriber::counts).unwrap_or_default();
        Counts {
            received: read.received,
            foreign: read.foreign + reading.unread(),
            inconsistent: read.inconsistent,
            stale: read.stale + reading.stale(),
            superseded: read.superseded,
            lost: read.lost,
            missed: computing.application.missed(),
            repeated: computing.application.repeated(),
            resynchronised: reading.resynchronised,
            published: writing.publisher.as_ref().map_or(0, Publisher::published),
        }
    }
}

/// Whether the role has what it needs and nothing else.
fn check(role: Role, writes: bool, reads: bool) -> Result<(), LayoutError> {
    let missing = |part| Err(LayoutError::Missing { part, role: role.name() });
    match role {
        Role::Source | Role::Echo if !writes => missing("write"),
        Role::Sink if writes => Err(LayoutError::Unused { part: "write", role: role.name() }),
        Role::Echo | Role::Sink if !reads => missing("read"),
        _ => Ok(()),
    }
}

/// The image, and the place of the counter in it.
fn counter_image(
    layout: &NetworkMessageLayout,
    variables: u16,
    place: impl Fn(&NetworkMessageLayout, Range<usize>) -> Option<ImageLayout>,
) -> Result<(ImageLayout, usize), LayoutError> {
    let fields = counter_fields(layout, variables)?;
    let first = fields.start;
    let image = place(layout, fields);
    let placed = image.and_then(|image| image.fields(0).get(first).map(|place| place.offset).map(|at| (image, at)));
    placed.ok_or(LayoutError::Variables { variables, found: 0 })
}

/// Which fields of the first DataSetMessage are the counters: the last `variables`, all UInt64.
fn counter_fields(layout: &NetworkMessageLayout, variables: u16) -> Result<Range<usize>, LayoutError> {
    let fields = layout.data_sets.first().map_or(&[][..], |set| &set.fields);
    let found = fields.iter().rev().take_while(|&&ty| ty == BuiltInType::UInt64).count();
    let count = usize::from(variables);
    if count == 0 || count > found {
        return Err(LayoutError::Variables { variables, found });
    }
    Ok(fields.len() - count..fields.len())
}
