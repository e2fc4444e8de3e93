//! GroupHeader (OPC 10000-14 §7.2.4.4).

use crate::bytes::{Short, Writer};

/// GroupFlags: which members follow. Bits 4–7 are zero.
pub mod flags {
    /// Bit 0: WriterGroupId present.
    pub const WRITER_GROUP_ID: u8 = 0x01;
    /// Bit 1: GroupVersion present.
    pub const GROUP_VERSION: u8 = 0x02;
    /// Bit 2: NetworkMessageNumber present.
    pub const NETWORK_MESSAGE_NUMBER: u8 = 0x04;
    /// Bit 3: SequenceNumber present.
    pub const SEQUENCE_NUMBER: u8 = 0x08;
}

/// A GroupHeader; members that are `None` are not on the wire.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct GroupHeader {
    /// Unique per PublisherId; 0 is invalid on the wire.
    pub writer_group_id: Option<u16>,
    /// VersionTime: changes when the layout of the group changes.
    pub group_version: Option<u32>,
    /// Number of the NetworkMessage within its PublishingInterval, from 1.
    pub network_message_number: Option<u16>,
    /// Plus one per NetworkMessage of the group.
    pub sequence_number: Option<u16>,
}

impl GroupHeader {
    /// Length on the wire.
    pub const fn bytes(&self) -> usize {
        1 + 2 * self.writer_group_id.is_some() as usize
            + 4 * self.group_version.is_some() as usize
            + 2 * self.network_message_number.is_some() as usize
            + 2 * self.sequence_number.is_some() as usize
    }

    /// Writes the header. The SequenceNumber, if there is one, is its last two bytes.
    pub fn emit(&self, w: &mut Writer<'_>) -> Result<(), Short> {
        let mut byte = 0;
        for (present, flag) in [
            (self.writer_group_id.is_some(), flags::WRITER_GROUP_ID),
            (self.group_version.is_some(), flags::GROUP_VERSION),
            (self.network_message_number.is_some(), flags::NETWORK_MESSAGE_NUMBER),
            (self.sequence_number.is_some(), flags::SEQUENCE_NUMBER),
        ] {
            if present {
                byte |= flag;
            }
        }
        w.put_u8(byte)?;
        if let Some(id) = self.writer_group_id {
            w.put_u16(id)?;
        }
        if let Some(version) = self.group_version {
            w.put_u32(version)?;
        }
        if let Some(number) = self.network_message_number {
            w.put_u16(number)?;
        }
        if let Some(number) = self.sequence_number {
            w.put_u16(number)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_id_version_number_sequence() {
        let header = GroupHeader {
            writer_group_id: Some(1),
            group_version: Some(0x2AB5_CDEF),
            network_message_number: Some(1),
            sequence_number: Some(7),
        };
        let mut bytes = [0; 11];
        header.emit(&mut Writer::new(&mut bytes)).unwrap();
        assert_eq!(bytes, [0x0F, 1, 0, 0xEF, 0xCD, 0xB5, 0x2A, 1, 0, 7, 0]);
        assert_eq!(header.bytes(), bytes.len());
        assert_eq!(GroupHeader::default().bytes(), 1);
    }
}
