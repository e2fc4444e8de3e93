//! The fields of a DataSetMessage (OPC 10000-14 §7.2.4.5).

use crate::built_in::{BuiltInType, Value};

use super::cursor::Cursor;
use super::data_set::{DataSetKind, DataSetView, Encoding};
use super::error::{DecodeError, DecodeReason};
use super::value;

/// What the metadata says of a field of RawData.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RawField {
    /// A value of fixed size.
    Fixed(BuiltInType),
    /// Anything else of fixed length, a padded String for example: these bytes are not looked into.
    Bytes(usize),
}

/// A value as it stands in the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldValue<'a> {
    /// The null Variant, or no value in a DataValue.
    Null,
    /// A scalar of fixed size.
    Fixed {
        /// Its type.
        ty: BuiltInType,
        /// As many bytes as the type has.
        bytes: &'a [u8],
    },
    /// A String, ByteString or XmlElement.
    Bytes {
        /// Type id.
        type_id: u8,
        /// Without the length; `None` for null.
        bytes: Option<&'a [u8]>,
    },
    /// An array.
    Array {
        /// Type id of the elements.
        type_id: u8,
        /// How many; `None` for null.
        count: Option<usize>,
        /// The elements one after the other.
        bytes: &'a [u8],
    },
    /// A scalar of any other type, walked over.
    Other {
        /// Type id.
        type_id: u8,
        /// All its bytes.
        bytes: &'a [u8],
    },
    /// A field of [`RawField::Bytes`].
    Raw(&'a [u8]),
}

impl FieldValue<'_> {
    /// The value, if it is a scalar of fixed size.
    pub fn value(&self) -> Option<Value> {
        match self {
            Self::Fixed { ty, bytes } => Value::read(*ty, bytes, 0),
            _ => None,
        }
    }
}

/// A field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field<'a> {
    /// Its place in the metadata of the DataSet, from 0.
    pub index: u16,
    /// Where it begins in the NetworkMessage.
    pub offset: usize,
    /// Its value.
    pub value: FieldValue<'a>,
    /// StatusCode of a DataValue; absent is Good.
    pub status: Option<u32>,
}

/// The fields of a DataSetMessage, as an iterator that ends after an error.
#[derive(Debug, Clone)]
pub struct Fields<'a, 'm> {
    cursor: Cursor<'a>,
    /// Fields still to come.
    left: u16,
    /// Index of the next, where it is not told.
    index: u16,
    encoding: Encoding,
    /// Of a delta frame: which there were.
    indices: Option<Indices>,
    raw: &'m [RawField],
}

impl<'a, 'm> Fields<'a, 'm> {
    pub(super) fn new(
        message: &DataSetView<'_>,
        mut cursor: Cursor<'a>,
        sized: bool,
        raw: Option<&'m [RawField]>,
    ) -> Result<Self, DecodeError> {
        let (mut left, mut types) = (0, &[][..]);
        // A key frame that ends with its header is a heartbeat, unless RawData is known to have fields.
        let no_types = message.encoding != Encoding::RawData || raw.is_none_or(<[_]>::is_empty);
        let heartbeat = sized && cursor.left() == 0 && message.kind == DataSetKind::KeyFrame && no_types;
        let empty = !message.valid || heartbeat;
        if message.kind != DataSetKind::KeepAlive && !empty {
            if message.encoding == Encoding::RawData {
                types = raw.ok_or(cursor.error(DecodeReason::NoMetadata))?;
                left = u16::try_from(types.len()).map_err(|_| cursor.error(DecodeReason::Metadata))?;
            } else {
                left = cursor.u16()?;
            }
        }
        let indices = (message.kind == DataSetKind::DeltaFrame).then(Indices::default);
        Ok(Self { cursor, left, index: 0, encoding: message.encoding, indices, raw: types })
    }

    /// How many are still to come.
    pub fn remaining(&self) -> usize {
        self.left.into()
    }

    /// Where the next one begins, or what follows the last, in the NetworkMessage.
    pub fn position(&self) -> usize {
        self.cursor.position()
    }

    /// That, after the last field, nothing but zeros follows up to the end of the DataSetMessage; tells how many. Only for
    /// one whose size is known.
    pub fn finish(&self) -> Result<usize, DecodeError> {
        self.cursor.padding()
    }

    fn field(&mut self) -> Result<Field<'a>, DecodeError> {
        let offset = self.cursor.position();
        let mut index = self.index;
        if let Some(indices) = &mut self.indices {
            index = self.cursor.u16()?;
            if !indices.is_new(index) {
                return Err(DecodeError::new(offset, DecodeReason::Index(index)));
            }
        }
        self.index = index.wrapping_add(1);
        let (value, status) = match self.encoding {
            Encoding::Variant => (value::variant(&mut self.cursor, 0)?, None),
            Encoding::DataValue => value::data_value(&mut self.cursor, 0)?,
            Encoding::RawData => (self.raw_field()?, None),
        };
        Ok(Field { index, offset, value, status })
    }

    fn raw_field(&mut self) -> Result<FieldValue<'a>, DecodeError> {
        let (field, rest) = self.raw.split_first().ok_or(self.cursor.error(DecodeReason::Metadata))?;
        self.raw = rest;
        Ok(match *field {
            RawField::Fixed(ty) => FieldValue::Fixed { ty, bytes: self.cursor.slice(ty.bytes())? },
            RawField::Bytes(bytes) => FieldValue::Raw(self.cursor.slice(bytes)?),
        })
    }
}

impl<'a> Iterator for Fields<'a, '_> {
    type Item = Result<Field<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let field = self.field();
        if field.is_err() {
            self.left = 0;
        }
        Some(field)
    }
}

/// The indices of a delta frame so far; each may be there once (OPC 10000-14 §7.2.4.5.6).
#[derive(Debug, Clone)]
struct Indices {
    /// A bit for each of the first.
    small: [u64; Self::SMALL / 64],
    /// The least that another may be.
    next_large: u16,
}

impl Indices {
    /// From here on, which is more than fit an Ethernet frame, indices have to ascend.
    const SMALL: usize = 1024;

    fn is_new(&mut self, index: u16) -> bool {
        let (word, bit) = (usize::from(index) / 64, 1 << (index % 64));
        if let Some(word) = self.small.get_mut(word) {
            let new = *word & bit == 0;
            *word |= bit;
            return new;
        }
        let new = index >= self.next_large;
        self.next_large = index.saturating_add(1);
        new
    }
}

impl Default for Indices {
    fn default() -> Self {
        Self { small: [0; Self::SMALL / 64], next_large: 0 }
    }
}
