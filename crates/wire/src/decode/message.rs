//! The headers of a NetworkMessage (OPC 10000-14 §7.2.4.4).

use crate::group_header::{GroupHeader, flags as group_flags};
use crate::guid::Guid;
use crate::network_message::{UADP_VERSION, extended_flags1, extended_flags2, uadp_flags};
use crate::publisher_id::PublisherId;

use super::cursor::Cursor;
use super::data_set::DataSets;
use super::error::{DecodeError, DecodeReason};
use super::fields::FieldValue;
use super::value;

const VERSION_MASK: u8 = 0x0F;
const GROUP_FLAGS_RESERVED: u8 = 0xF0;

/// Who publishes, in any form. Equal only if type and value are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AnyPublisherId<'a> {
    /// An integer.
    Fixed(PublisherId),
    /// Type 4; never empty.
    String(&'a str),
}

/// All headers of a NetworkMessage that carries DataSetMessages in the clear.
#[derive(Debug, Clone, Copy)]
pub struct NetworkMessageView<'a> {
    /// Who publishes.
    pub publisher_id: Option<AnyPublisherId<'a>>,
    /// DataSetClassId.
    pub data_set_class_id: Option<Guid>,
    /// The GroupHeader; what it does not carry is `None`.
    pub group: Option<GroupHeader>,
    /// When the message was made: 100 ns ticks since 1601-01-01 UTC.
    pub timestamp: Option<i64>,
    /// What the timestamp leaves out, in units of 10 ps.
    pub pico_seconds: Option<u16>,
    bytes: &'a [u8],
    /// DataSetWriterIds of the PayloadHeader, two bytes each.
    writer_ids: Option<&'a [u8]>,
    promoted: Option<Cursor<'a>>,
    /// Where the payload begins.
    payload: usize,
}

impl<'a> NetworkMessageView<'a> {
    /// Reads the headers of a UADP message. Messages that are secured, chunks, discovery and actions are refused.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::new(bytes, 0);
        let first = cursor.u8()?;
        if first & VERSION_MASK != UADP_VERSION {
            return Err(DecodeError::new(0, DecodeReason::Version(first & VERSION_MASK)));
        }
        let flags1 = if first & uadp_flags::EXTENDED_FLAGS1 != 0 { cursor.u8()? } else { 0 };
        let flags2_at = cursor.position();
        let flags2 = if flags1 & extended_flags1::EXTENDED_FLAGS2 != 0 { cursor.u8()? } else { 0 };
        check_kind(flags1, flags2, flags2_at)?;
        let id_type = flags1 & extended_flags1::PUBLISHER_ID_TYPE_MASK;
        let with_id = first & uadp_flags::PUBLISHER_ID != 0;
        let publisher_id = with_id.then(|| publisher_id(&mut cursor, id_type)).transpose()?;
        let with_class = flags1 & extended_flags1::DATA_SET_CLASS_ID != 0;
        let data_set_class_id = with_class.then(|| cursor.array().map(Guid::from_wire)).transpose()?;
        let with_group = first & uadp_flags::GROUP_HEADER != 0;
        let group = with_group.then(|| group_header(&mut cursor)).transpose()?;
        let with_payload = first & uadp_flags::PAYLOAD_HEADER != 0;
        let writer_ids = with_payload.then(|| writer_ids(&mut cursor)).transpose()?;
        let with_timestamp = flags1 & extended_flags1::TIMESTAMP != 0;
        let timestamp = with_timestamp.then(|| cursor.i64()).transpose()?;
        let with_pico_seconds = flags1 & extended_flags1::PICO_SECONDS != 0;
        let pico_seconds = with_pico_seconds.then(|| cursor.u16()).transpose()?;
        let with_promoted = flags2 & extended_flags2::PROMOTED_FIELDS != 0;
        if with_promoted && writer_ids.is_some_and(|ids| ids.len() > 2) {
            // Only for one DataSetMessage alone.
            return Err(DecodeError::new(flags2_at, DecodeReason::Flags(flags2)));
        }
        let promoted = with_promoted.then(|| promoted_fields(&mut cursor)).transpose()?;
        Ok(Self {
            publisher_id,
            data_set_class_id,
            group,
            timestamp,
            pico_seconds,
            bytes,
            writer_ids,
            promoted,
            payload: cursor.position(),
        })
    }

    /// The DataSetWriterIds of the PayloadHeader, if there is one.
    pub fn writer_ids(&self) -> Option<impl ExactSizeIterator<Item = u16> + 'a> {
        let (ids, _) = self.writer_ids?.as_chunks::<2>();
        Some(ids.iter().map(|id| u16::from_le_bytes(*id)))
    }

    /// The PromotedFields, if there are any.
    pub fn promoted_fields(&self) -> Option<PromotedFields<'a>> {
        self.promoted.map(PromotedFields)
    }

    /// The DataSetMessages. Their number is only known if there is a PayloadHeader.
    pub fn data_sets(&self) -> Result<DataSets<'a>, DecodeError> {
        DataSets::new(self.bytes, self.payload, self.writer_ids)
    }
}

/// Refuses what carries no DataSetMessages in the clear, and flags that do not exist.
fn check_kind(flags1: u8, flags2: u8, flags2_at: usize) -> Result<(), DecodeError> {
    const NO_TIMESTAMP: u8 = extended_flags1::PICO_SECONDS;
    let at_flags2 = |reason| Err(DecodeError::new(flags2_at, reason));
    if flags2 & extended_flags2::RESERVED != 0 {
        return at_flags2(DecodeReason::NoData(flags2));
    }
    if flags2 & (extended_flags2::TYPE_MASK | extended_flags2::ACTION_HEADER) != 0 {
        return at_flags2(DecodeReason::NoData(flags2));
    }
    if flags2 & extended_flags2::CHUNK != 0 {
        return at_flags2(DecodeReason::Chunk);
    }
    if flags1 & extended_flags1::SECURITY != 0 {
        return Err(DecodeError::new(1, DecodeReason::Secured));
    }
    if flags1 & (extended_flags1::TIMESTAMP | extended_flags1::PICO_SECONDS) == NO_TIMESTAMP {
        return Err(DecodeError::new(1, DecodeReason::Flags(flags1)));
    }
    Ok(())
}

fn publisher_id<'a>(cursor: &mut Cursor<'a>, id_type: u8) -> Result<AnyPublisherId<'a>, DecodeError> {
    let at = cursor.position();
    let wrong = DecodeError::new(at, DecodeReason::PublisherId);
    Ok(AnyPublisherId::Fixed(match id_type {
        0 => PublisherId::Byte(cursor.u8()?),
        1 => PublisherId::UInt16(cursor.u16()?),
        2 => PublisherId::UInt32(cursor.u32()?),
        3 => PublisherId::UInt64(cursor.array().map(u64::from_le_bytes)?),
        4 => return cursor.string()?.filter(|id| !id.is_empty()).map(AnyPublisherId::String).ok_or(wrong),
        _ => return Err(wrong),
    }))
}

fn group_header(cursor: &mut Cursor<'_>) -> Result<GroupHeader, DecodeError> {
    let at = cursor.position();
    let flags = cursor.u8()?;
    if flags & GROUP_FLAGS_RESERVED != 0 {
        return Err(DecodeError::new(at, DecodeReason::Flags(flags)));
    }
    let mut header = GroupHeader::default();
    if flags & group_flags::WRITER_GROUP_ID != 0 {
        header.writer_group_id = Some(cursor.u16()?);
    }
    if flags & group_flags::GROUP_VERSION != 0 {
        header.group_version = Some(cursor.u32()?);
    }
    if flags & group_flags::NETWORK_MESSAGE_NUMBER != 0 {
        header.network_message_number = Some(cursor.u16()?);
    }
    if flags & group_flags::SEQUENCE_NUMBER != 0 {
        header.sequence_number = Some(cursor.u16()?);
    }
    Ok(header)
}

fn writer_ids<'a>(cursor: &mut Cursor<'a>) -> Result<&'a [u8], DecodeError> {
    let at = cursor.position();
    match cursor.u8()? {
        0 => Err(DecodeError::new(at, DecodeReason::NoDataSets)),
        count => cursor.slice(2 * usize::from(count)),
    }
}

fn promoted_fields<'a>(cursor: &mut Cursor<'a>) -> Result<Cursor<'a>, DecodeError> {
    let bytes = usize::from(cursor.u16()?);
    let part = cursor.part(bytes)?;
    cursor.slice(bytes)?;
    Ok(part)
}

/// The PromotedFields of a message, as an iterator that ends after an error.
#[derive(Debug, Clone, Copy)]
pub struct PromotedFields<'a>(Cursor<'a>);

impl<'a> Iterator for PromotedFields<'a> {
    type Item = Result<FieldValue<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.left() == 0 {
            return None;
        }
        let field = value::variant(&mut self.0, 0);
        if field.is_err() {
            self.0 = Cursor::new(&[], 0);
        }
        Some(field)
    }
}
