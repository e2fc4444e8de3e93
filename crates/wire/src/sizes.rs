//! The Sizes array at the start of the payload (OPC 10000-14 §7.2.4.4): lengths of the DataSetMessages,
//! there only if there is a PayloadHeader and more than one DataSetMessage.

use crate::bytes::{Short, Writer};

/// A Sizes array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sizes {
    /// Number of DataSetMessages.
    pub count: u8,
}

impl Sizes {
    /// The array that a message with this PayloadHeader setting and number of DataSetMessages has.
    pub const fn of(payload_header: bool, count: u8) -> Option<Self> {
        if payload_header && count > 1 { Some(Self { count }) } else { None }
    }

    /// Length on the wire.
    pub const fn bytes(&self) -> usize {
        2 * self.count as usize
    }

    /// Writes the first `count` of the sizes, each in bytes including the header of its DataSetMessage.
    pub fn emit(&self, sizes: impl Iterator<Item = u16>, w: &mut Writer<'_>) -> Result<(), Short> {
        for size in sizes.take(usize::from(self.count)) {
            w.put_u16(size)?;
        }
        Ok(())
    }
}
