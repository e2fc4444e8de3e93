//! Reading a NetworkMessage of any form, with nothing known beforehand: flags say what is where.
//!
//! Bytes are borrowed, nothing is allocated, and no input panics. A caller goes from the
//! [`NetworkMessageView`] to its [`DataSets`], from each [`DataSetView`] to its [`Fields`]; what is malformed is
//! a [`DecodeError`] with offset and reason, as soon as it is reached.

mod cursor;
mod data_set;
mod error;
mod fields;
mod message;
mod value;

pub use data_set::{DataSetKind, DataSetView, DataSets, Encoding};
pub use error::{DecodeError, DecodeReason};
pub use fields::{Field, FieldValue, Fields, RawField};
pub use message::{AnyPublisherId, NetworkMessageView, PromotedFields};
