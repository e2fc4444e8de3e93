//! Built-in types of fixed size (OPC 10000-6 §5.1.2, §5.2.2) and their values.

use core::fmt;

use crate::bytes::{Short, array_at, patch};
use crate::guid::Guid;

/// A built-in type whose values all have the same length: what a fixed layout may have as a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum BuiltInType {
    /// One byte.
    Boolean = 1,
    /// One byte.
    SByte = 2,
    /// One byte.
    Byte = 3,
    /// Two bytes.
    Int16 = 4,
    /// Two bytes.
    UInt16 = 5,
    /// Four bytes.
    Int32 = 6,
    /// Four bytes.
    UInt32 = 7,
    /// Eight bytes.
    Int64 = 8,
    /// Eight bytes.
    UInt64 = 9,
    /// Four bytes, IEEE 754 binary32.
    Float = 10,
    /// Eight bytes, IEEE 754 binary64.
    Double = 11,
    /// Eight bytes, 100 ns ticks since 1601-01-01 UTC.
    DateTime = 13,
    /// Sixteen bytes.
    Guid = 14,
    /// Four bytes.
    StatusCode = 19,
}

impl BuiltInType {
    /// All of them, by id.
    pub const ALL: [Self; 14] = [
        Self::Boolean,
        Self::SByte,
        Self::Byte,
        Self::Int16,
        Self::UInt16,
        Self::Int32,
        Self::UInt32,
        Self::Int64,
        Self::UInt64,
        Self::Float,
        Self::Double,
        Self::DateTime,
        Self::Guid,
        Self::StatusCode,
    ];

    /// The type id: the encoding byte of a scalar Variant.
    pub const fn id(self) -> u8 {
        self as u8
    }

    /// The type with this id, if it is one of fixed size.
    pub fn from_id(id: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|ty| ty.id() == id)
    }

    /// Length of a value on the wire.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Boolean | Self::SByte | Self::Byte => 1,
            Self::Int16 | Self::UInt16 => 2,
            Self::Int32 | Self::UInt32 | Self::Float | Self::StatusCode => 4,
            Self::Int64 | Self::UInt64 | Self::Double | Self::DateTime => 8,
            Self::Guid => 16,
        }
    }
}

impl fmt::Display for BuiltInType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A value of a [`BuiltInType`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// Written as 0 or 1; any other byte than 0 reads as true.
    Boolean(bool),
    /// A signed byte.
    SByte(i8),
    /// An unsigned byte.
    Byte(u8),
    /// A 16-bit integer.
    Int16(i16),
    /// An unsigned 16-bit integer.
    UInt16(u16),
    /// A 32-bit integer.
    Int32(i32),
    /// An unsigned 32-bit integer.
    UInt32(u32),
    /// A 64-bit integer.
    Int64(i64),
    /// An unsigned 64-bit integer.
    UInt64(u64),
    /// Single precision; every NaN is written as the quiet one.
    Float(f32),
    /// Double precision; every NaN is written as the quiet one.
    Double(f64),
    /// 100 ns ticks since 1601-01-01 UTC.
    DateTime(i64),
    /// An identifier.
    Guid(Guid),
    /// All 32 bits of a StatusCode.
    StatusCode(u32),
}

impl Value {
    /// The type it is of.
    pub const fn ty(self) -> BuiltInType {
        match self {
            Self::Boolean(_) => BuiltInType::Boolean,
            Self::SByte(_) => BuiltInType::SByte,
            Self::Byte(_) => BuiltInType::Byte,
            Self::Int16(_) => BuiltInType::Int16,
            Self::UInt16(_) => BuiltInType::UInt16,
            Self::Int32(_) => BuiltInType::Int32,
            Self::UInt32(_) => BuiltInType::UInt32,
            Self::Int64(_) => BuiltInType::Int64,
            Self::UInt64(_) => BuiltInType::UInt64,
            Self::Float(_) => BuiltInType::Float,
            Self::Double(_) => BuiltInType::Double,
            Self::DateTime(_) => BuiltInType::DateTime,
            Self::Guid(_) => BuiltInType::Guid,
            Self::StatusCode(_) => BuiltInType::StatusCode,
        }
    }

    /// Writes the value (without Variant byte) from `offset` on.
    #[inline]
    pub fn patch(self, buffer: &mut [u8], offset: usize) -> Result<(), Short> {
        match self {
            Self::Boolean(v) => patch(buffer, offset, &[u8::from(v)]),
            Self::SByte(v) => patch(buffer, offset, &v.to_le_bytes()),
            Self::Byte(v) => patch(buffer, offset, &[v]),
            Self::Int16(v) => patch(buffer, offset, &v.to_le_bytes()),
            Self::UInt16(v) => patch(buffer, offset, &v.to_le_bytes()),
            Self::Int32(v) => patch(buffer, offset, &v.to_le_bytes()),
            Self::UInt32(v) | Self::StatusCode(v) => patch(buffer, offset, &v.to_le_bytes()),
            Self::Int64(v) | Self::DateTime(v) => patch(buffer, offset, &v.to_le_bytes()),
            Self::UInt64(v) => patch(buffer, offset, &v.to_le_bytes()),
            Self::Float(v) => patch(buffer, offset, &(if v.is_nan() { f32::NAN } else { v }).to_le_bytes()),
            Self::Double(v) => patch(buffer, offset, &(if v.is_nan() { f64::NAN } else { v }).to_le_bytes()),
            Self::Guid(v) => patch(buffer, offset, &v.to_wire()),
        }
    }

    /// Reads a value (without Variant byte) of type `ty` from `offset` on; `None` when `bytes` ends before.
    #[inline]
    pub fn read(ty: BuiltInType, bytes: &[u8], offset: usize) -> Option<Self> {
        Some(match ty {
            BuiltInType::Boolean => Self::Boolean(array_at::<1>(bytes, offset)? != [0]),
            BuiltInType::SByte => Self::SByte(i8::from_le_bytes(array_at(bytes, offset)?)),
            BuiltInType::Byte => Self::Byte(u8::from_le_bytes(array_at(bytes, offset)?)),
            BuiltInType::Int16 => Self::Int16(i16::from_le_bytes(array_at(bytes, offset)?)),
            BuiltInType::UInt16 => Self::UInt16(u16::from_le_bytes(array_at(bytes, offset)?)),
            BuiltInType::Int32 => Self::Int32(i32::from_le_bytes(array_at(bytes, offset)?)),
            BuiltInType::UInt32 => Self::UInt32(u32::from_le_bytes(array_at(bytes, offset)?)),
            BuiltInType::Int64 => Self::Int64(i64::from_le_bytes(array_at(bytes, offset)?)),
            BuiltInType::UInt64 => Self::UInt64(u64::from_le_bytes(array_at(bytes, offset)?)),
            BuiltInType::Float => Self::Float(f32::from_le_bytes(array_at(bytes, offset)?)),
            BuiltInType::Double => Self::Double(f64::from_le_bytes(array_at(bytes, offset)?)),
            BuiltInType::DateTime => Self::DateTime(i64::from_le_bytes(array_at(bytes, offset)?)),
            BuiltInType::Guid => Self::Guid(Guid::from_wire(array_at(bytes, offset)?)),
            BuiltInType::StatusCode => Self::StatusCode(u32::from_le_bytes(array_at(bytes, offset)?)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_reads_what_it_wrote_and_nothing_shorter() {
        let values = [
            Value::Boolean(true),
            Value::SByte(-92),
            Value::Byte(204),
            Value::Int16(-2),
            Value::UInt16(0x0102),
            Value::Int32(i32::MIN),
            Value::UInt32(u32::MAX),
            Value::Int64(i64::MIN),
            Value::UInt64(0x0102_0304_0506_0708),
            Value::Float(-2.25),
            Value::Double(5e-324),
            Value::DateTime(133_500_000_000_000_000),
            Value::Guid(Guid { data1: 1, data2: 2, data3: 3, data4: [4; 8] }),
            Value::StatusCode(0x8031_0000),
        ];
        for (value, ty) in values.into_iter().zip(BuiltInType::ALL) {
            assert_eq!(value.ty(), ty);
            assert_eq!(BuiltInType::from_id(ty.id()), Some(ty));
            let mut buffer = [0xEE; 18];
            value.patch(&mut buffer, 1).unwrap();
            assert_eq!(Value::read(ty, &buffer, 1), Some(value));
            assert!(buffer[1 + ty.bytes()..].iter().all(|&byte| byte == 0xEE), "{ty} writes {} bytes", ty.bytes());
            assert_eq!(Value::read(ty, &buffer[..ty.bytes()], 1), None);
            assert!(value.patch(&mut buffer[..ty.bytes()], 1).is_err());
        }
        assert_eq!(BuiltInType::from_id(12), None, "String has no fixed size");
    }

    #[test]
    fn nan_is_quiet_and_true_is_any_byte_but_zero() {
        let mut buffer = [0; 8];
        Value::Float(f32::from_bits(0xFFC0_0001)).patch(&mut buffer, 0).unwrap();
        assert_eq!(buffer[..4], 0x7FC0_0000_u32.to_le_bytes());
        Value::Double(-f64::NAN).patch(&mut buffer, 0).unwrap();
        assert_eq!(buffer, 0x7FF8_0000_0000_0000_u64.to_le_bytes());
        assert_eq!(Value::read(BuiltInType::Boolean, &[0x80], 0), Some(Value::Boolean(true)));
    }
}
