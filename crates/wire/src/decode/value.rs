//! Where a value of any built-in type ends (OPC 10000-6 §5.2.2).

use crate::built_in::BuiltInType;

use super::cursor::Cursor;
use super::error::{DecodeError, DecodeReason};
use super::fields::FieldValue;

/// Variants, DataValues and DiagnosticInfos within each other.
pub(crate) const MAX_NESTING: usize = 64;

const STRING: u8 = 12;
const BYTE_STRING: u8 = 15;
const XML_ELEMENT: u8 = 16;
const NODE_ID: u8 = 17;
const EXPANDED_NODE_ID: u8 = 18;
const QUALIFIED_NAME: u8 = 20;
const LOCALIZED_TEXT: u8 = 21;
const EXTENSION_OBJECT: u8 = 22;
const DATA_VALUE: u8 = 23;
const VARIANT: u8 = 24;
const DIAGNOSTIC_INFO: u8 = 25;
/// Reserved up to 31: to be read as ByteString (OPC 10000-6 §5.2.2.16).
const RESERVED: core::ops::RangeInclusive<u8> = 26..=31;

/// Encoding byte of a Variant.
mod variant_flags {
    pub(super) const TYPE_MASK: u8 = 0x3F;
    pub(super) const DIMENSIONS: u8 = 0x40;
    pub(super) const ARRAY: u8 = 0x80;
}

/// Mask of a DataValue (OPC 10000-6 §5.2.2.17); bits 6 and 7 are reserved.
pub(super) mod data_value_flags {
    pub(crate) const VALUE: u8 = 0x01;
    pub(crate) const STATUS: u8 = 0x02;
    pub(crate) const SOURCE_TIMESTAMP: u8 = 0x04;
    pub(crate) const SERVER_TIMESTAMP: u8 = 0x08;
    pub(crate) const SOURCE_PICOSECONDS: u8 = 0x10;
    pub(crate) const SERVER_PICOSECONDS: u8 = 0x20;
    pub(crate) const RESERVED: u8 = 0xC0;
}

/// A Variant.
pub(super) fn variant<'a>(cursor: &mut Cursor<'a>, depth: usize) -> Result<FieldValue<'a>, DecodeError> {
    if depth > MAX_NESTING {
        return Err(cursor.error(DecodeReason::Nesting));
    }
    let at = cursor.position();
    let byte = cursor.u8()?;
    let type_id = byte & variant_flags::TYPE_MASK;
    let dimensions = byte & variant_flags::DIMENSIONS != 0;
    if byte & variant_flags::ARRAY != 0 {
        return array(cursor, type_id, at, dimensions, depth);
    }
    if dimensions {
        return Err(DecodeError::new(at, DecodeReason::Dimensions));
    }
    if byte == 0 {
        return Ok(FieldValue::Null);
    }
    if type_id == VARIANT {
        // Only as the element of an array.
        return Err(DecodeError::new(at, DecodeReason::Type(type_id)));
    }
    scalar(cursor, type_id, at, depth)
}

fn scalar<'a>(cursor: &mut Cursor<'a>, type_id: u8, at: usize, depth: usize) -> Result<FieldValue<'a>, DecodeError> {
    if let Some(ty) = BuiltInType::from_id(type_id) {
        return Ok(FieldValue::Fixed { ty, bytes: cursor.slice(ty.bytes())? });
    }
    match type_id {
        STRING | XML_ELEMENT => Ok(FieldValue::Bytes { type_id, bytes: cursor.string()?.map(str::as_bytes) }),
        BYTE_STRING => Ok(FieldValue::Bytes { type_id, bytes: cursor.byte_string()? }),
        id if RESERVED.contains(&id) => Ok(FieldValue::Bytes { type_id, bytes: cursor.byte_string()? }),
        _ => {
            let start = cursor.position();
            skip(cursor, type_id, at, depth)?;
            Ok(FieldValue::Other { type_id, bytes: cursor.since(start) })
        }
    }
}

fn array<'a>(
    cursor: &mut Cursor<'a>,
    type_id: u8,
    at: usize,
    dimensions: bool,
    depth: usize,
) -> Result<FieldValue<'a>, DecodeError> {
    let count = cursor.length()?;
    let start = cursor.position();
    let elements = count.unwrap_or(0);
    // Every element has a byte at least: a count beyond that is refused before anything is counted.
    if elements > cursor.left() {
        return Err(cursor.error(DecodeReason::Short { wanted: elements, left: cursor.left() }));
    }
    match BuiltInType::from_id(type_id) {
        Some(ty) => {
            cursor.slice(elements.saturating_mul(ty.bytes()))?;
        }
        None => {
            // An empty array of a type that does not exist is no better than one with elements.
            if !matches!(type_id, STRING | BYTE_STRING..=EXPANDED_NODE_ID | QUALIFIED_NAME..=31) {
                return Err(DecodeError::new(at, DecodeReason::Type(type_id)));
            }
            for _ in 0..elements {
                skip(cursor, type_id, at, depth)?;
            }
        }
    }
    let bytes = cursor.since(start);
    if dimensions {
        check_dimensions(cursor, elements)?;
    }
    Ok(FieldValue::Array { type_id, count, bytes })
}

fn check_dimensions(cursor: &mut Cursor<'_>, elements: usize) -> Result<(), DecodeError> {
    let at = cursor.position();
    let wrong = DecodeError::new(at, DecodeReason::Dimensions);
    let count = cursor.length()?.filter(|&count| count > 0).ok_or(wrong)?;
    let mut product = 1_usize;
    for _ in 0..count {
        let dimension = cursor.length()?.filter(|&dimension| dimension > 0).ok_or(wrong)?;
        product = product.checked_mul(dimension).ok_or(wrong)?;
    }
    if product == elements { Ok(()) } else { Err(wrong) }
}

/// Past a value of a type that has no fixed size; `at` is where its type was told.
fn skip(cursor: &mut Cursor<'_>, type_id: u8, at: usize, depth: usize) -> Result<(), DecodeError> {
    match type_id {
        STRING | XML_ELEMENT => cursor.string().map(drop),
        BYTE_STRING => cursor.byte_string().map(drop),
        NODE_ID => node_id(cursor, 0),
        EXPANDED_NODE_ID => expanded_node_id(cursor),
        QUALIFIED_NAME => {
            cursor.u16()?;
            cursor.string().map(drop)
        }
        LOCALIZED_TEXT => localized_text(cursor),
        EXTENSION_OBJECT => extension_object(cursor),
        DATA_VALUE => data_value(cursor, depth + 1).map(drop),
        VARIANT => variant(cursor, depth + 1).map(drop),
        DIAGNOSTIC_INFO => diagnostic_info(cursor, depth + 1),
        id if RESERVED.contains(&id) => cursor.byte_string().map(drop),
        id => Err(DecodeError::new(at, DecodeReason::Type(id))),
    }
}

/// Form and value of a NodeId; `flags` are the bits that an ExpandedNodeId may have besides. (§5.2.2.9)
fn node_id(cursor: &mut Cursor<'_>, flags: u8) -> Result<(), DecodeError> {
    let at = cursor.position();
    let byte = cursor.u8()?;
    match byte & !flags {
        0 => cursor.slice(1).map(drop),
        1 => cursor.slice(3).map(drop),
        2 => cursor.slice(6).map(drop),
        3 => {
            cursor.u16()?;
            cursor.string().map(drop)
        }
        4 => cursor.slice(18).map(drop),
        5 => {
            cursor.u16()?;
            cursor.byte_string().map(drop)
        }
        _ => Err(DecodeError::new(at, DecodeReason::Form(byte))),
    }
}

fn expanded_node_id(cursor: &mut Cursor<'_>) -> Result<(), DecodeError> {
    const NAMESPACE_URI: u8 = 0x80;
    const SERVER_INDEX: u8 = 0x40;
    let byte = cursor.rest().first().copied().unwrap_or(0);
    node_id(cursor, NAMESPACE_URI | SERVER_INDEX)?;
    if byte & NAMESPACE_URI != 0 {
        cursor.string()?;
    }
    if byte & SERVER_INDEX != 0 {
        cursor.u32()?;
    }
    Ok(())
}

fn localized_text(cursor: &mut Cursor<'_>) -> Result<(), DecodeError> {
    const LOCALE: u8 = 1;
    const TEXT: u8 = 2;
    let at = cursor.position();
    let mask = cursor.u8()?;
    if mask & !(LOCALE | TEXT) != 0 {
        return Err(DecodeError::new(at, DecodeReason::Form(mask)));
    }
    for part in [LOCALE, TEXT] {
        if mask & part != 0 {
            cursor.string()?;
        }
    }
    Ok(())
}

fn extension_object(cursor: &mut Cursor<'_>) -> Result<(), DecodeError> {
    node_id(cursor, 0)?;
    let at = cursor.position();
    match cursor.u8()? {
        0 => Ok(()),
        1 => cursor.byte_string().map(drop),
        2 => cursor.string().map(drop),
        form => Err(DecodeError::new(at, DecodeReason::Form(form))),
    }
}

/// A DataValue: its value, and the status if there is one.
pub(super) fn data_value<'a>(
    cursor: &mut Cursor<'a>,
    depth: usize,
) -> Result<(FieldValue<'a>, Option<u32>), DecodeError> {
    use data_value_flags::{
        RESERVED, SERVER_PICOSECONDS, SERVER_TIMESTAMP, SOURCE_PICOSECONDS, SOURCE_TIMESTAMP, STATUS, VALUE,
    };
    let at = cursor.position();
    let mask = cursor.u8()?;
    if mask & RESERVED != 0 {
        return Err(DecodeError::new(at, DecodeReason::Form(mask)));
    }
    let value = if mask & VALUE != 0 { variant(cursor, depth)? } else { FieldValue::Null };
    let status = if mask & STATUS != 0 { Some(cursor.u32()?) } else { None };
    // In this order on the wire, which is not that of the bits.
    for (flag, bytes) in
        [(SOURCE_TIMESTAMP, 8), (SOURCE_PICOSECONDS, 2), (SERVER_TIMESTAMP, 8), (SERVER_PICOSECONDS, 2)]
    {
        if mask & flag != 0 {
            cursor.slice(bytes)?;
        }
    }
    Ok((value, status))
}

fn diagnostic_info(cursor: &mut Cursor<'_>, depth: usize) -> Result<(), DecodeError> {
    const INTEGERS: [u8; 4] = [0x01, 0x02, 0x08, 0x04];
    const ADDITIONAL_INFO: u8 = 0x10;
    const INNER_STATUS: u8 = 0x20;
    const INNER: u8 = 0x40;
    const RESERVED: u8 = 0x80;
    if depth > MAX_NESTING {
        return Err(cursor.error(DecodeReason::Nesting));
    }
    let at = cursor.position();
    let mask = cursor.u8()?;
    if mask & RESERVED != 0 {
        return Err(DecodeError::new(at, DecodeReason::Form(mask)));
    }
    for flag in INTEGERS {
        if mask & flag != 0 {
            cursor.slice(4)?;
        }
    }
    if mask & ADDITIONAL_INFO != 0 {
        cursor.string()?;
    }
    if mask & INNER_STATUS != 0 {
        cursor.u32()?;
    }
    if mask & INNER != 0 {
        diagnostic_info(cursor, depth + 1)?;
    }
    Ok(())
}
