//! What a process image holds: its variables, by direction.

use std::io;
use std::ops::Range;

use crate::memory::invalid;

/// Most bytes of variables in one direction.
pub const MAX_DATA_BYTES: usize = 1 << 20;
/// Most fields of an image.
pub const MAX_FIELDS: usize = 1 << 12;
/// Longest name of a field in bytes of UTF-8.
pub const MAX_NAME_BYTES: usize = 112;

/// Which way a variable goes, seen from the application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the engine to the application: what was received.
    Input,
    /// From the application to the engine: what will be published.
    Output,
}

/// One variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Its name, up to [`MAX_NAME_BYTES`] bytes without a NUL.
    pub name: String,
    /// Id of its BuiltInType (OPC 10000-6 §5.1.2, table 1), for instance 9 for UInt64. Its values stand here as they
    /// stand on the wire (§5.2.2), little-endian.
    pub type_id: u8,
    /// Which way it goes.
    pub direction: Direction,
    /// Where its value begins in the data of its direction, in bytes.
    pub offset: usize,
    /// Length of its value in bytes: the type's, or that times the number of elements of an array.
    pub bytes: usize,
}

impl Field {
    /// Where its value stands in the data of its direction.
    pub const fn range(&self) -> Range<usize> {
        self.offset..self.offset + self.bytes
    }
}

/// The variables of an image. Fields of one direction do not overlap.
///
/// ```
/// use downbeat_rt::image::{Direction, ImageSpec};
/// const UINT64: u8 = 9;
/// const FLOAT: u8 = 10;
/// let spec = ImageSpec::new().input("speed", FLOAT, 4)?.input("counter", UINT64, 8)?.output("torque", FLOAT, 4)?;
/// assert_eq!(spec.field("counter").unwrap().range(), 8..16);
/// assert_eq!(spec.data_bytes(Direction::Input), 16);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageSpec {
    fields: Vec<Field>,
    data_bytes: [usize; 2],
}

impl ImageSpec {
    /// An image without variables.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a variable from the engine to the application behind those that are there, at a multiple of its length (up
    /// to 8 bytes).
    ///
    /// # Errors
    /// As for [`Self::with_field`].
    pub fn input(self, name: &str, type_id: u8, bytes: usize) -> io::Result<Self> {
        self.next(name, type_id, bytes, Direction::Input)
    }

    /// Adds a variable from the application to the engine; else as [`Self::input`].
    ///
    /// # Errors
    /// As for [`Self::with_field`].
    pub fn output(self, name: &str, type_id: u8, bytes: usize) -> io::Result<Self> {
        self.next(name, type_id, bytes, Direction::Output)
    }

    fn next(self, name: &str, type_id: u8, bytes: usize, direction: Direction) -> io::Result<Self> {
        // Arrays and Guid begin at a multiple of 8 too, which suits every element.
        let align = bytes.next_power_of_two().clamp(1, 8);
        let offset = self.data_bytes(direction).next_multiple_of(align);
        self.with_field(Field { name: name.to_owned(), type_id, direction, offset, bytes })
    }

    /// Adds a variable at a place of the caller's choice, for instance where its bytes stand in a message.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`]: a name that is empty, too long, has a NUL byte or is taken; no bytes; a place
    /// behind [`MAX_DATA_BYTES`] or on another field's; more than [`MAX_FIELDS`] fields.
    pub fn with_field(mut self, field: Field) -> io::Result<Self> {
        let told = |what: String| Err(invalid(format!("field '{}' of the process image: {what}", field.name)));
        if field.name.is_empty() || field.name.len() > MAX_NAME_BYTES || field.name.contains('\0') {
            return told(format!("a name of 1 to {MAX_NAME_BYTES} bytes without NUL expected"));
        }
        let end = field.offset.checked_add(field.bytes).filter(|end| *end <= MAX_DATA_BYTES);
        let Some(end) = end.filter(|_| field.bytes > 0) else {
            return told(format!(
                "{} bytes at offset {}; at least 1, and an end up to {MAX_DATA_BYTES} expected",
                field.bytes, field.offset
            ));
        };
        if self.fields.len() >= MAX_FIELDS {
            return told(format!("an image has {MAX_FIELDS} fields at most"));
        }
        if self.fields.iter().any(|other| other.name == field.name) {
            return told("there is one of this name already".to_owned());
        }
        let meets = |other: &&Field| other.offset < end && field.offset < other.offset + other.bytes;
        if let Some(other) = self.fields.iter().filter(|other| other.direction == field.direction).find(meets) {
            return told(format!(
                "bytes {}..{end} meet those of '{}', {}..{}",
                field.offset,
                other.name,
                other.offset,
                other.offset + other.bytes
            ));
        }
        let data_bytes = &mut self.data_bytes[field.direction as usize];
        *data_bytes = end.max(*data_bytes);
        self.fields.push(field);
        Ok(self)
    }

    /// All fields, in the order they were added.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// The field with this name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// Bytes of all variables of a direction, gaps included.
    pub fn data_bytes(&self, direction: Direction) -> usize {
        self.data_bytes[direction as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(name: &str, offset: usize, bytes: usize) -> Field {
        Field { name: name.to_owned(), type_id: 9, direction: Direction::Input, offset, bytes }
    }

    #[test]
    fn fields_are_aligned_by_their_length() {
        let spec = ImageSpec::new();
        let spec = spec.input("a", 1, 1).unwrap().input("b", 5, 2).unwrap().input("c", 14, 16).unwrap();
        let spec = spec.output("d", 1, 1).unwrap().input("e", 3, 3).unwrap().input("f", 10, 4).unwrap();
        let offsets: Vec<usize> = spec.fields().iter().map(|field| field.offset).collect();
        assert_eq!(offsets, [0, 2, 8, 0, 24, 28]);
        assert_eq!((spec.data_bytes(Direction::Input), spec.data_bytes(Direction::Output)), (32, 1));
    }

    #[test]
    fn impossible_fields_are_refused_in_words() {
        let spec = ImageSpec::new().with_field(field("a", 8, 8)).unwrap();
        let refused = |field| spec.clone().with_field(field).unwrap_err().to_string();
        assert!(refused(field("b", 15, 8)).contains("meet those of 'a', 8..16"));
        assert!(refused(field("b", 0, 9)).contains("field 'b'"));
        assert!(refused(field("a", 16, 8)).contains("already"));
        assert!(refused(field("b", 16, 0)).contains("at least 1"));
        assert!(refused(field("b", usize::MAX, 8)).contains("an end up to"));
        assert!(refused(field("b", MAX_DATA_BYTES - 7, 8)).contains("an end up to"));
        for name in ["", "x\0", &"x".repeat(MAX_NAME_BYTES + 1)] {
            assert!(refused(field(name, 16, 8)).contains("without NUL"));
        }
        assert!(spec.clone().with_field(field("b", 0, 8)).is_ok());
        assert!(spec.with_field(Field { direction: Direction::Output, ..field("b", 8, 8) }).is_ok());
    }
}
