//! Bytes of OPC UA PubSub: Ethernet, UADP headers, built-in types.
//!
//! One file per wire structure. Each has its flags and sizes as constants, a plain value that says
//! what is in it, `bytes()` for its length and `emit()` to write it. Offsets are the business of
//! whoever puts structures one after the other: [`Writer::position`] tells them.
//!
//! Messages of any form are read by [`NetworkMessageView`] and what comes from it.
//!
//! Nothing here panics on any input: writing past the end is [`Short`], reading past the end `None`.
//! All numbers are little-endian (OPC 10000-6 §5.2.2) but Ethernet's, which are big-endian.
//!
//! The first ten bytes of the papers' frame:
//!
//! ```
//! use downbeat_wire::{GroupHeader, NetworkMessageHeader, PayloadHeader, PublisherId, Writer};
//! let mut bytes = [0; 10];
//! let mut w = Writer::new(&mut bytes);
//! let header = NetworkMessageHeader {
//!     publisher_id: PublisherId::UInt16(2234),
//!     group_header: true,
//!     payload_header: true,
//!     timestamp: false,
//! };
//! header.emit(&mut w)?;
//! GroupHeader { writer_group_id: Some(101), ..GroupHeader::default() }.emit(&mut w)?;
//! PayloadHeader { count: 1 }.emit([62541].into_iter(), &mut w)?;
//! assert_eq!(bytes, [0xF1, 0x01, 0xBA, 0x08, 0x01, 0x65, 0x00, 0x01, 0x4D, 0xF4]);
//! # Ok::<(), downbeat_wire::Short>(())
//! ```
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate alloc;

mod built_in;
mod bytes;
mod data_set_message;
mod decode;
mod ethernet;
mod extended_header;
mod group_header;
mod guid;
mod network_message;
mod payload_header;
mod publisher_id;
mod sizes;
mod variant;

pub use built_in::{BuiltInType, Value};
pub use bytes::{Short, Writer, array_at, patch};
pub use data_set_message::{
    DataSetMessageHeader, DataSetMessageOffsets, FieldEncoding, flags1 as data_set_flags1, flags2 as data_set_flags2,
};
pub use decode::{
    AnyPublisherId, DataSetKind, DataSetView, DataSets, DecodeError, DecodeReason, Encoding, Field, FieldValue, Fields,
    NetworkMessageView, PromotedFields, RawField,
};
pub use ethernet::{
    ETHERTYPE_UADP, ETHERTYPE_VLAN, EthernetError, EthernetHeader, MAX_PAYLOAD_BYTES, MIN_FRAME_BYTES,
    MIN_PAYLOAD_BYTES, VlanTag,
};
pub use extended_header::ExtendedHeader;
pub use group_header::{GroupHeader, flags as group_flags};
pub use guid::Guid;
pub use network_message::{NetworkMessageHeader, UADP_VERSION, extended_flags1, extended_flags2, uadp_flags};
pub use payload_header::{MAX_DATA_SET_MESSAGES, PayloadHeader};
pub use publisher_id::PublisherId;
pub use sizes::Sizes;
pub use variant::{VARIANT_TYPE_BYTES, emit_field_count, emit_variant_type};
