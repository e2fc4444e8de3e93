//! Extended NetworkMessage header (OPC 10000-14 §7.2.4.4): between PayloadHeader and SecurityHeader.

use crate::bytes::{Short, Writer};

/// The part of the extended header that a fixed layout has. PicoSeconds and PromotedFields are not written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct ExtendedHeader {
    /// When the NetworkMessage was made, in 100 ns ticks since 1601-01-01 UTC.
    pub timestamp: Option<i64>,
}

impl ExtendedHeader {
    /// Length on the wire.
    pub const fn bytes(&self) -> usize {
        8 * self.timestamp.is_some() as usize
    }

    /// Writes the header.
    pub fn emit(&self, w: &mut Writer<'_>) -> Result<(), Short> {
        self.timestamp.map_or(Ok(()), |ticks| w.put(&ticks.to_le_bytes()))
    }
}
