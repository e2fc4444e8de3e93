//! The engine without I/O: templates, reader layouts, the cyclic application.
//!
//! A [`NetworkMessageLayout`] says what a NetworkMessage of fixed form has in it. From it come a
//! [`WriterTemplate`], the frame with all constant bytes in place, patched where something changes,
//! and a [`ReaderLayout`], which compares the constant bytes of what arrives and reads values at known
//! offsets. An [`Endpoint`] puts both to work as one station's end of a stream, phase by phase.
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
//!     let (write, read) = (Some((write.clone(), header(source))), Some(read.clone()));
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
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod application;
mod constants;
mod counter;
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
mod subscriber;
mod supervision;
mod template;

pub use application::{Application, Input, ReaderInput, Status, Step};
pub use counter::{CounterApplication, Role};
pub use dispatch::{DispatchError, DispatchKey, Dispatcher, MAX_STEPS};
pub use endpoint::{Counts, Endpoint, EndpointConfig, Outgoing, RESYNC_PHASES, Reception};
pub use error::{LayoutError, Mismatch, PatchError};
pub use general::Rejected;
pub use image::{ImageField, ImageLayout, ImageSize};
pub use layout::{DataSetLayout, GroupHeaderLayout, NetworkMessageLayout};
pub use publisher::{Published, Publisher};
pub use reader::ReaderLayout;
pub use run::UInt64Run;
pub use sequence::{SequenceWindow, Verdict};
pub use subscriber::{Received, Subscriber, SubscriberConfig, SubscriberCounts};
pub use supervision::{Change, ReaderState};
pub use template::WriterTemplate;
pub use wire::{
    AnyPublisherId, BuiltInType as FieldType, DataSetKind, DataSetView, DecodeError, DecodeReason, Encoding,
    EthernetHeader, Field, FieldEncoding, FieldValue, Guid, NetworkMessageView, PublisherId, RawField, Value, VlanTag,
};
