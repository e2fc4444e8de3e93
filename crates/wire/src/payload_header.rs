//! PayloadHeader of DataSetMessages (OPC 10000-14 §7.2.4.4).

use crate::bytes::{Short, Writer};

/// Most DataSetMessages that the Count byte can tell.
pub const MAX_DATA_SET_MESSAGES: usize = 255;

/// A PayloadHeader: Count, then as many DataSetWriterIds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PayloadHeader {
    /// Number of DataSetMessages, at least 1.
    pub count: u8,
}

impl PayloadHeader {
    /// Length on the wire.
    pub const fn bytes(&self) -> usize {
        1 + 2 * self.count as usize
    }

    /// Writes Count and the first `count` of the DataSetWriterIds.
    pub fn emit(&self, writer_ids: impl Iterator<Item = u16>, w: &mut Writer<'_>) -> Result<(), Short> {
        w.put_u8(self.count)?;
        for id in writer_ids.take(usize::from(self.count)) {
            w.put_u16(id)?;
        }
        Ok(())
    }
}
