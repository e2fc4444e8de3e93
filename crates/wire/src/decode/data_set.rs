//! The DataSetMessages of a NetworkMessage and their headers (OPC 10000-14 §7.2.4.5).

use crate::data_set_message::{flags1, flags2};

use super::cursor::Cursor;
use super::error::{DecodeError, DecodeReason};
use super::fields::{Fields, RawField};

/// What a DataSetMessage is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DataSetKind {
    /// All fields. None at all is a heartbeat.
    KeyFrame,
    /// The fields that changed.
    DeltaFrame,
    /// The fields of an event.
    Event,
    /// No fields: the writer is there. A SequenceNumber is that of the next message with data.
    KeepAlive,
}

/// How fields are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// Each with its type.
    Variant,
    /// Values alone; the metadata has their types.
    RawData,
    /// Variants with what is known of their quality and time.
    DataValue,
}

/// The header of a DataSetMessage, and the place of its fields.
#[derive(Debug, Clone, Copy)]
pub struct DataSetView<'a> {
    /// DataSetWriterId, if the PayloadHeader tells it.
    pub writer_id: Option<u16>,
    /// Where it begins in the NetworkMessage.
    pub offset: usize,
    /// The publisher had valid values; otherwise there are no fields to be read.
    pub valid: bool,
    /// What it is.
    pub kind: DataSetKind,
    /// How its fields are encoded.
    pub encoding: Encoding,
    /// SequenceNumber.
    pub sequence_number: Option<u16>,
    /// When the values were sampled: 100 ns ticks since 1601-01-01 UTC.
    pub timestamp: Option<i64>,
    /// What the timestamp leaves out, in units of 10 ps.
    pub pico_seconds: Option<u16>,
    /// The upper 16 bits of a StatusCode.
    pub status: Option<u16>,
    /// ConfigurationVersion.MajorVersion.
    pub major_version: Option<u32>,
    /// ConfigurationVersion.MinorVersion.
    pub minor_version: Option<u32>,
    /// From the fields to the end of the DataSetMessage or, where that is not known, of the NetworkMessage.
    body: Cursor<'a>,
    /// The end of the body is that of the DataSetMessage.
    sized: bool,
}

impl<'a> DataSetView<'a> {
    /// The fields, none of a keep-alive or of a message that is not valid. `raw` are the types of all fields of the
    /// DataSet, for RawData.
    pub fn fields<'m>(&self, raw: Option<&'m [RawField]>) -> Result<Fields<'a, 'm>, DecodeError> {
        Fields::new(self, self.body, self.sized, raw)
    }

    /// Bytes from the first field to the end of the DataSetMessage; `None` if its end is not known.
    pub fn body_bytes(&self) -> Option<usize> {
        self.sized.then(|| self.body.left())
    }
}

/// The DataSetMessages, one after the other.
#[derive(Debug, Clone, Copy)]
pub struct DataSets<'a> {
    bytes: &'a [u8],
    /// Where the next one begins.
    position: usize,
    writer_ids: Option<&'a [u8]>,
    sizes: Option<&'a [u8]>,
    /// Where the sizes begin.
    sizes_at: usize,
    index: usize,
}

impl<'a> DataSets<'a> {
    pub(super) fn new(bytes: &'a [u8], payload: usize, writer_ids: Option<&'a [u8]>) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(bytes, payload);
        let with_sizes = writer_ids.filter(|ids| ids.len() > 2);
        let sizes = with_sizes.map(|ids| cursor.slice(ids.len())).transpose()?;
        Ok(Self { bytes, position: cursor.position(), writer_ids, sizes, sizes_at: payload, index: 0 })
    }

    /// How many there are; `None` without a PayloadHeader.
    pub fn count(&self) -> Option<usize> {
        self.writer_ids.map(|ids| ids.len() / 2)
    }

    /// The next one; `None` after the last that the PayloadHeader told. Without a PayloadHeader there is always a next
    /// one, as many as the caller knows of. `configured_bytes` is the ConfiguredSize, where the caller knows one and the
    /// message does not tell. After an error in one whose size is known, the one behind it can be read.
    pub fn next(&mut self, configured_bytes: Option<usize>) -> Option<Result<DataSetView<'a>, DecodeError>> {
        let pair = |pairs: Option<&[u8]>, index: usize| {
            pairs.and_then(|pairs| pairs.as_chunks::<2>().0.get(index).copied()).map(u16::from_le_bytes)
        };
        let writer_id = pair(self.writer_ids, self.index);
        if self.writer_ids.is_some() && writer_id.is_none() {
            return None;
        }
        let told = pair(self.sizes, self.index);
        self.index += 1;
        if told == Some(0) {
            let offset = self.sizes_at + 2 * (self.index - 1);
            return Some(Err(DecodeError::new(offset, DecodeReason::Short { wanted: 1, left: 0 })));
        }
        let size = told.map(usize::from).or(configured_bytes);
        let cursor = Cursor::new(self.bytes, self.position);
        // One alone reaches to the end of the message.
        let (body, sized) = match size {
            Some(bytes) => match cursor.part(bytes) {
                Ok(part) => (part, true),
                Err(error) => return Some(Err(error)),
            },
            None => (cursor, self.count() == Some(1)),
        };
        if sized {
            self.position = body.end();
        }
        Some(header(body, writer_id, sized))
    }

    /// Where the one before ends, for those whose size is not told: [`Fields::position`] after its last field.
    pub fn continue_at(&mut self, offset: usize) {
        self.position = offset.max(self.position);
    }

    /// That nothing but the zeros of an Ethernet frame follows; tells how many.
    pub fn finish(&self) -> Result<usize, DecodeError> {
        Cursor::new(self.bytes, self.position).padding()
    }
}

fn header(mut cursor: Cursor<'_>, writer_id: Option<u16>, sized: bool) -> Result<DataSetView<'_>, DecodeError> {
    let offset = cursor.position();
    let first = cursor.u8()?;
    let second_at = cursor.position();
    let second = if first & flags1::FLAGS2 != 0 { cursor.u8()? } else { 0 };
    let encoding = match first & flags1::ENCODING_MASK {
        0x00 => Encoding::Variant,
        0x02 => Encoding::RawData,
        0x04 => Encoding::DataValue,
        _ => return Err(DecodeError::new(offset, DecodeReason::DataSetType(first))),
    };
    let kind = match second & flags2::TYPE_MASK {
        0 => DataSetKind::KeyFrame,
        1 => DataSetKind::DeltaFrame,
        2 => DataSetKind::Event,
        3 => DataSetKind::KeepAlive,
        _ => return Err(DecodeError::new(second_at, DecodeReason::DataSetType(second))),
    };
    if second & flags2::RESERVED != 0 {
        return Err(DecodeError::new(second_at, DecodeReason::DataSetType(second)));
    }
    if second & (flags2::TIMESTAMP | flags2::PICO_SECONDS) == flags2::PICO_SECONDS {
        return Err(DecodeError::new(second_at, DecodeReason::Flags(second)));
    }
    let sequence_number = (first & flags1::SEQUENCE_NUMBER != 0).then(|| cursor.u16()).transpose()?;
    let timestamp = (second & flags2::TIMESTAMP != 0).then(|| cursor.i64()).transpose()?;
    let pico_seconds = (second & flags2::PICO_SECONDS != 0).then(|| cursor.u16()).transpose()?;
    let status = (first & flags1::STATUS != 0).then(|| cursor.u16()).transpose()?;
    let major_version = (first & flags1::MAJOR_VERSION != 0).then(|| cursor.u32()).transpose()?;
    let minor_version = (first & flags1::MINOR_VERSION != 0).then(|| cursor.u32()).transpose()?;
    let valid = first & flags1::VALID != 0;
    let allowed = match (kind, encoding) {
        (DataSetKind::Event, encoding) => encoding == Encoding::Variant,
        (DataSetKind::DeltaFrame, Encoding::RawData) => false,
        _ => true,
    };
    if valid && !allowed {
        return Err(DecodeError::new(offset, DecodeReason::DataSetType(first)));
    }
    Ok(DataSetView {
        writer_id,
        offset,
        valid,
        kind,
        encoding,
        sequence_number,
        timestamp,
        pico_seconds,
        status,
        major_version,
        minor_version,
        body: cursor,
        sized,
    })
}
