//! What Variant encoding adds to the values: FieldCount (OPC 10000-14 §7.2.4.5.5) and, before each value, the
//! encoding byte of a scalar Variant (OPC 10000-6 §5.2.2.16).

use crate::built_in::BuiltInType;
use crate::bytes::{Short, Writer};

/// Length of the encoding byte before a scalar.
pub const VARIANT_TYPE_BYTES: usize = 1;

/// Writes the encoding byte of a scalar: its type id; array and dimension bits are 0.
pub fn emit_variant_type(ty: BuiltInType, w: &mut Writer<'_>) -> Result<(), Short> {
    w.put_u8(ty.id())
}

/// Writes the FieldCount of a data key frame with Variant encoding.
pub fn emit_field_count(count: u16, w: &mut Writer<'_>) -> Result<(), Short> {
    w.put_u16(count)
}
