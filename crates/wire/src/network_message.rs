//! The first bytes of a NetworkMessage: version, flags, PublisherId (OPC 10000-14 §7.2.4.4).

use crate::bytes::{Short, Writer};
use crate::publisher_id::PublisherId;

/// UADPVersion, bits 0–3 of the first byte.
pub const UADP_VERSION: u8 = 1;

/// Flags of the first byte, above the version.
pub mod uadp_flags {
    /// Bit 4: PublisherId present.
    pub const PUBLISHER_ID: u8 = 0x10;
    /// Bit 5: GroupHeader present.
    pub const GROUP_HEADER: u8 = 0x20;
    /// Bit 6: PayloadHeader present.
    pub const PAYLOAD_HEADER: u8 = 0x40;
    /// Bit 7: ExtendedFlags1 present; must be 0 if that byte would be 0.
    pub const EXTENDED_FLAGS1: u8 = 0x80;
}

/// Flags of the second byte, above the type of the PublisherId in bits 0–2.
pub mod extended_flags1 {
    /// Bits 0–2: type of the PublisherId.
    pub const PUBLISHER_ID_TYPE_MASK: u8 = 0x07;
    /// Bit 3: DataSetClassId present.
    pub const DATA_SET_CLASS_ID: u8 = 0x08;
    /// Bit 4: SecurityHeader present.
    pub const SECURITY: u8 = 0x10;
    /// Bit 5: Timestamp present.
    pub const TIMESTAMP: u8 = 0x20;
    /// Bit 6: PicoSeconds present; only with Timestamp.
    pub const PICO_SECONDS: u8 = 0x40;
    /// Bit 7: ExtendedFlags2 present; must be 0 if that byte would be 0.
    pub const EXTENDED_FLAGS2: u8 = 0x80;
}

/// Flags of the third byte.
pub mod extended_flags2 {
    /// Bit 0: a chunk of a message.
    pub const CHUNK: u8 = 0x01;
    /// Bit 1: PromotedFields present.
    pub const PROMOTED_FIELDS: u8 = 0x02;
    /// Bits 2–4: type of the NetworkMessage; 0 carries DataSetMessages.
    pub const TYPE_MASK: u8 = 0x1C;
    /// Bit 5: ActionHeader present.
    pub const ACTION_HEADER: u8 = 0x20;
    /// Bits 6 and 7: reserved.
    pub const RESERVED: u8 = 0xC0;
}

/// What the flag bytes tell of the rest, and the PublisherId.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NetworkMessageHeader {
    /// Who publishes.
    pub publisher_id: PublisherId,
    /// A GroupHeader follows.
    pub group_header: bool,
    /// A PayloadHeader follows.
    pub payload_header: bool,
    /// The extended header has a Timestamp.
    pub timestamp: bool,
}

impl NetworkMessageHeader {
    const fn extended_flags1(&self) -> u8 {
        self.publisher_id.type_bits() | if self.timestamp { extended_flags1::TIMESTAMP } else { 0 }
    }

    /// Length on the wire.
    pub const fn bytes(&self) -> usize {
        1 + (self.extended_flags1() != 0) as usize + self.publisher_id.bytes()
    }

    /// Writes flags and PublisherId.
    pub fn emit(&self, w: &mut Writer<'_>) -> Result<(), Short> {
        let extended = self.extended_flags1();
        let mut first = UADP_VERSION | uadp_flags::PUBLISHER_ID;
        for (present, flag) in [
            (self.group_header, uadp_flags::GROUP_HEADER),
            (self.payload_header, uadp_flags::PAYLOAD_HEADER),
            (extended != 0, uadp_flags::EXTENDED_FLAGS1),
        ] {
            if present {
                first |= flag;
            }
        }
        w.put_u8(first)?;
        if extended != 0 {
            w.put_u8(extended)?;
        }
        self.publisher_id.emit(w)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn emitted(publisher_id: PublisherId, timestamp: bool) -> alloc::vec::Vec<u8> {
        let header = NetworkMessageHeader { publisher_id, group_header: true, payload_header: false, timestamp };
        let mut bytes = alloc::vec![0; header.bytes()];
        let mut w = Writer::new(&mut bytes);
        header.emit(&mut w).unwrap();
        assert_eq!(w.position(), header.bytes());
        bytes
    }

    #[test]
    fn extended_flags_only_if_not_zero() {
        assert_eq!(emitted(PublisherId::Byte(7), false), [0x31, 7]);
        assert_eq!(emitted(PublisherId::Byte(7), true), [0xB1, 0x20, 7]);
        assert_eq!(emitted(PublisherId::UInt16(0x0102), false), [0xB1, 0x01, 2, 1]);
        assert_eq!(emitted(PublisherId::UInt32(5), true), [0xB1, 0x22, 5, 0, 0, 0]);
        assert_eq!(emitted(PublisherId::UInt64(1 << 56), false), [0xB1, 0x03, 0, 0, 0, 0, 0, 0, 0, 1]);
    }
}
