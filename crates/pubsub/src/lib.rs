//! The engine without I/O: templates, reader layouts, the cyclic application.
//!
//! A [`NetworkMessageLayout`] says what a NetworkMessage of fixed form has in it, an [`ImageLayout`] where its values
//! are as plain bytes. From them come a [`WriterTemplate`], the frame with all constant bytes in place, patched where
//! something changes, and a [`ReaderLayout`], which compares the constant bytes of what arrives and copies values from
//! known offsets.
//!
//! Around them are three parts, which may live in different threads with an image between them: a [`Publisher`] writes
//! the DataSets of one or several DataSetWriters, numbers and stamps them; an [`Application`] makes one image of others,
//! once a cycle; a [`Subscriber`] has the newest values of a WriterGroup, its sequence windows and timeouts, and takes
//! messages of other forms too, through the general decoder of `wire`. A [`Dispatcher`] finds the subscriber of a
//! message among many. An [`Endpoint`] puts the three to work as one station's end of a stream, phase by phase, with
//! a counter as its application, or with values that come [from outside](Endpoint::outside); it may [watch](Endpoint::watched) for [conditions](Condition) that call for an
//! [`Action`].
//!
//! No clock, no socket: `cycle`, the time and received bytes come in, frames go out. So the same
//! engine runs on a network card, in virtual time and in a test. Nothing after `new` allocates,
//! and no input makes anything panic.
//!
//! ```
//! use downbeat_pubsub::{Endpoint, EndpointConfig, EthernetHeader, NetworkMessageLayout, Reception, Role, VlanTag};
//! let there = NetworkMessageLayout::papers(2234, 101, 3);
//! let back = NetworkMessageLayout::papers(2235, 102, 3);
//! let header = |source| EthernetHeader {
//!     destination: [0x01, 0x00, 0x5E, 0x7F, 0x00, 0x01],
//!     source: [2, 0, 0, 0, 0, source],
//!     vlan: Some(VlanTag { pcp: 3, dei: false, vid: 8 }),
//! };
//! let end = |role, write: &NetworkMessageLayout, read: &NetworkMessageLayout, source| {
//!     let (write, read) = (Some((write.clone(), Some(header(source)))), Some(read.clone()));
//!     Endpoint::new(EndpointConfig { role, write, read, variables: 3 })
//! };
//! let (mut source, mut echo) = (end(Role::Source, &there, &back, 1)?, end(Role::Echo, &back, &there, 2)?);
//! source.application(0);
//! let frame = source.publish(133_500_000_000_000_000).unwrap().frame;
//! assert_eq!(frame.len(), 18 + 59);
//! assert_eq!(echo.receive(&frame[18..]), Reception::Message { counter: 1, superseded: None });
//! echo.application(0);
//! source.receive(&echo.publish(133_500_000_000_002_500).unwrap().frame[18..]);
//! assert_eq!(source.application(1).round_trip_cycles, Some(1));
//! # Ok::<(), downbeat_pubsub::LayoutError>(())
//! ```
//!
//! The same without an endpoint, with values of one's own:
//!
//! ```
//! use downbeat_pubsub::{NetworkMessageLayout, Publisher, Received, Subscriber, SubscriberConfig, Value};
//! use units::Tai;
//! let layout = NetworkMessageLayout::papers(2234, 101, 3);
//! let mut publisher = Publisher::new(&layout, None)?;
//! let mut subscriber = Subscriber::new(SubscriberConfig::strict(layout))?;
//! let mut image = vec![0; publisher.image().bytes()];
//! publisher.image().set(&mut image, 0, 2, Value::UInt64(42));
//! let message = publisher.publish(&image, 133_500_000_000_000_000)?.frame;
//! assert_eq!(subscriber.receive(message, Tai(0)), Received::Message { superseded: false });
//! assert_eq!(subscriber.image_layout().get(subscriber.image(), 0, 2), Some(Value::UInt64(42)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod application;
mod breach;
mod constants;
mod counter;
mod data_set_reader;
mod dispatch;
mod endpoint;
mod error;
mod general;
mod image;
mod layout;
mod moves;
mod plan;
mod publisher;
mod reader;
mod run;
mod sequence;
mod standing;
mod subscriber;
mod subscription;
mod supervision;
mod template;

pub use application::{Application, Input, ReaderInput, Status, Step};
pub use breach::{
    Action, Breach, BreachChange, BreachChanges, BreachRule, BreachRules, BreachState, Condition, Evidence,
};
pub use counter::{CounterApplication, Role};
pub use dispatch::{DispatchError, DispatchKey, Dispatcher, MAX_STEPS};
pub use endpoint::{
    Computing, Counts, Delivered, Endpoint, EndpointConfig, InputCopy, Inputs, OUTSIDE_CYCLES, Outgoing, OutputCopy,
    Outputs, Progress, RESYNC_PHASES, Reading, Reception, Writing,
};
pub use error::{LayoutError, Mismatch, PatchError};
pub use general::Rejected;
pub use image::{ImageField, ImageLayout, ImageSize};
pub use layout::{DataSetLayout, GroupHeaderLayout, NetworkMessageLayout};
pub use publisher::{Published, Publisher};
pub use reader::ReaderLayout;
pub use run::UInt64Run;
pub use sequence::{SequenceWindow, Verdict};
pub use standing::StandingBacklog;
pub use subscriber::Subscriber;
pub use subscription::{Received, SubscriberConfig, SubscriberCounts};
pub use supervision::{Change, ReaderState};
pub use template::WriterTemplate;
pub use wire::{
    AnyPublisherId, BuiltInType as FieldType, DataSetKind, DataSetView, DecodeError, DecodeReason, Encoding,
    EthernetHeader, Field, FieldEncoding, FieldValue, Guid, NetworkMessageView, PublisherId, RawField, Value, VlanTag,
};
