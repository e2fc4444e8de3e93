//! DataSetMessage header of a data key frame (OPC 10000-14 §7.2.4.5.4).

use crate::bytes::{Short, Writer};

/// DataSetFlags1.
pub mod flags1 {
    /// Bit 0: the message is valid.
    pub const VALID: u8 = 0x01;
    /// Bits 1–2: field encoding.
    pub const ENCODING_MASK: u8 = 0x06;
    /// Bit 3: SequenceNumber present.
    pub const SEQUENCE_NUMBER: u8 = 0x08;
    /// Bit 4: Status present.
    pub const STATUS: u8 = 0x10;
    /// Bit 5: MajorVersion present.
    pub const MAJOR_VERSION: u8 = 0x20;
    /// Bit 6: MinorVersion present.
    pub const MINOR_VERSION: u8 = 0x40;
    /// Bit 7: DataSetFlags2 present; must be 0 if that byte would be 0.
    pub const FLAGS2: u8 = 0x80;
}

/// DataSetFlags2, above the message type in bits 0–3 (0: data key frame).
pub mod flags2 {
    /// Bits 0–3: type of the DataSetMessage.
    pub const TYPE_MASK: u8 = 0x0F;
    /// Bit 4: Timestamp present.
    pub const TIMESTAMP: u8 = 0x10;
    /// Bit 5: PicoSeconds present; only with Timestamp.
    pub const PICO_SECONDS: u8 = 0x20;
    /// Bits 6 and 7: reserved.
    pub const RESERVED: u8 = 0xC0;
}

/// How the fields are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FieldEncoding {
    /// Each field as a Variant: its type, then its value; a FieldCount before them.
    Variant,
    /// The values alone, types known from the metadata (§7.2.4.5.11).
    RawData,
}

impl FieldEncoding {
    /// Bits 1–2 of DataSetFlags1.
    pub const fn bits(self) -> u8 {
        match self {
            Self::Variant => 0x00,
            Self::RawData => 0x02,
        }
    }
}

/// Header of a valid data key frame; members that are `None` are not on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DataSetMessageHeader {
    /// How the fields are encoded.
    pub encoding: FieldEncoding,
    /// Plus one per DataSetMessage of the writer.
    pub sequence_number: Option<u16>,
    /// When the values were sampled, in 100 ns ticks since 1601-01-01 UTC.
    pub timestamp: Option<i64>,
    /// The upper 16 bits of the StatusCode.
    pub status: Option<u16>,
    /// ConfigurationVersion.MajorVersion (VersionTime).
    pub major_version: Option<u32>,
    /// ConfigurationVersion.MinorVersion (VersionTime).
    pub minor_version: Option<u32>,
}

/// Where the members that change from message to message went, in bytes from the start of the buffer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DataSetMessageOffsets {
    /// SequenceNumber, UInt16.
    pub sequence_number: Option<usize>,
    /// Timestamp, DateTime.
    pub timestamp: Option<usize>,
    /// Status, UInt16.
    pub status: Option<usize>,
}

impl DataSetMessageHeader {
    const fn flags2(&self) -> u8 {
        if self.timestamp.is_some() { flags2::TIMESTAMP } else { 0 }
    }

    /// Length on the wire.
    pub const fn bytes(&self) -> usize {
        1 + (self.flags2() != 0) as usize
            + 2 * self.sequence_number.is_some() as usize
            + 8 * self.timestamp.is_some() as usize
            + 2 * self.status.is_some() as usize
            + 4 * self.major_version.is_some() as usize
            + 4 * self.minor_version.is_some() as usize
    }

    /// Writes the header and tells where the changing members are.
    pub fn emit(&self, w: &mut Writer<'_>) -> Result<DataSetMessageOffsets, Short> {
        let mut first = flags1::VALID | self.encoding.bits();
        for (present, flag) in [
            (self.sequence_number.is_some(), flags1::SEQUENCE_NUMBER),
            (self.status.is_some(), flags1::STATUS),
            (self.major_version.is_some(), flags1::MAJOR_VERSION),
            (self.minor_version.is_some(), flags1::MINOR_VERSION),
            (self.flags2() != 0, flags1::FLAGS2),
        ] {
            if present {
                first |= flag;
            }
        }
        w.put_u8(first)?;
        if self.flags2() != 0 {
            w.put_u8(self.flags2())?;
        }
        let mut offsets = DataSetMessageOffsets::default();
        if let Some(number) = self.sequence_number {
            offsets.sequence_number = Some(w.position());
            w.put_u16(number)?;
        }
        if let Some(ticks) = self.timestamp {
            offsets.timestamp = Some(w.position());
            w.put(&ticks.to_le_bytes())?;
        }
        if let Some(status) = self.status {
            offsets.status = Some(w.position());
            w.put_u16(status)?;
        }
        if let Some(version) = self.major_version {
            w.put_u32(version)?;
        }
        if let Some(version) = self.minor_version {
            w.put_u32(version)?;
        }
        Ok(offsets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_sequence_timestamp_status_versions() {
        let header = DataSetMessageHeader {
            encoding: FieldEncoding::RawData,
            sequence_number: Some(0x0102),
            timestamp: Some(3),
            status: Some(0x8031),
            major_version: Some(4),
            minor_version: Some(5),
        };
        let mut bytes = [0; 22];
        let offsets = header.emit(&mut Writer::new(&mut bytes)).unwrap();
        assert_eq!(
            bytes,
            [0xFB, 0x10, 2, 1, 3, 0, 0, 0, 0, 0, 0, 0, 0x31, 0x80, 4, 0, 0, 0, 5, 0, 0, 0],
            "flags, sequence, timestamp, status, major, minor"
        );
        assert_eq!(header.bytes(), bytes.len());
        assert_eq!((offsets.sequence_number, offsets.timestamp, offsets.status), (Some(2), Some(4), Some(12)));
    }

    #[test]
    fn second_flag_byte_only_if_not_zero() {
        let header = DataSetMessageHeader {
            encoding: FieldEncoding::Variant,
            sequence_number: None,
            timestamp: None,
            status: None,
            major_version: None,
            minor_version: None,
        };
        let mut bytes = [0; 1];
        header.emit(&mut Writer::new(&mut bytes)).unwrap();
        assert_eq!(bytes, [0x01]);
    }
}
