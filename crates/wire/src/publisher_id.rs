//! PublisherId (OPC 10000-14 §7.2.4.4). Equal only if type and value are equal.

use crate::bytes::{Short, Writer};

/// Who publishes. The String form has no fixed place in a real-time layout and is not here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PublisherId {
    /// Type 0, one byte.
    Byte(u8),
    /// Type 1, two bytes.
    UInt16(u16),
    /// Type 2, four bytes.
    UInt32(u32),
    /// Type 3, eight bytes.
    UInt64(u64),
}

impl PublisherId {
    /// Bits 0–2 of ExtendedFlags1.
    pub const fn type_bits(self) -> u8 {
        match self {
            Self::Byte(_) => 0,
            Self::UInt16(_) => 1,
            Self::UInt32(_) => 2,
            Self::UInt64(_) => 3,
        }
    }

    /// Length on the wire.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Byte(_) => 1,
            Self::UInt16(_) => 2,
            Self::UInt32(_) => 4,
            Self::UInt64(_) => 8,
        }
    }

    /// Writes the value.
    pub fn emit(self, w: &mut Writer<'_>) -> Result<(), Short> {
        match self {
            Self::Byte(value) => w.put_u8(value),
            Self::UInt16(value) => w.put_u16(value),
            Self::UInt32(value) => w.put_u32(value),
            Self::UInt64(value) => w.put(&value.to_le_bytes()),
        }
    }
}
