//! Writing one item after the other, reading and patching at known offsets: bounds-checked, never panicking.

use core::fmt;

/// The buffer ends before what was to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Short {
    /// Where the item was to begin, in bytes from the start of the buffer.
    pub offset: usize,
    /// How many bytes it has.
    pub bytes: usize,
}

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the buffer has no room for {} bytes at offset {}", self.bytes, self.offset)
    }
}

impl core::error::Error for Short {}

/// Writes into a buffer from its start on.
#[derive(Debug)]
pub struct Writer<'a> {
    buffer: &'a mut [u8],
    position: usize,
}

impl<'a> Writer<'a> {
    /// A writer at the start of `buffer`.
    pub fn new(buffer: &'a mut [u8]) -> Self {
        Self { buffer, position: 0 }
    }

    /// Where the next item goes: bytes from the start of the buffer.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Appends `item`; on [`Short`] nothing is written.
    pub fn put(&mut self, item: &[u8]) -> Result<(), Short> {
        patch(self.buffer, self.position, item)?;
        self.position += item.len();
        Ok(())
    }

    /// Leaves `bytes` bytes as they are.
    pub fn skip(&mut self, bytes: usize) -> Result<(), Short> {
        let short = Short { offset: self.position, bytes };
        let end = self.position.checked_add(bytes).ok_or(short)?;
        if end > self.buffer.len() {
            return Err(short);
        }
        self.position = end;
        Ok(())
    }

    /// Appends a Byte.
    pub fn put_u8(&mut self, value: u8) -> Result<(), Short> {
        self.put(&[value])
    }

    /// Appends a UInt16.
    pub fn put_u16(&mut self, value: u16) -> Result<(), Short> {
        self.put(&value.to_le_bytes())
    }

    /// Appends a UInt32.
    pub fn put_u32(&mut self, value: u32) -> Result<(), Short> {
        self.put(&value.to_le_bytes())
    }
}

/// Overwrites the bytes from `offset` on with `item`; on [`Short`] nothing is written.
#[inline]
pub fn patch(buffer: &mut [u8], offset: usize, item: &[u8]) -> Result<(), Short> {
    let short = Short { offset, bytes: item.len() };
    let end = offset.checked_add(item.len()).ok_or(short)?;
    buffer.get_mut(offset..end).ok_or(short)?.copy_from_slice(item);
    Ok(())
}

/// The `N` bytes from `offset` on; `None` when `bytes` ends before.
#[inline]
pub fn array_at<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..)?.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_up_to_the_end_and_not_beyond() {
        let mut buffer = [0xEE; 4];
        let mut w = Writer::new(&mut buffer);
        w.put_u8(1).unwrap();
        w.put_u16(0x0302).unwrap();
        assert_eq!(w.put_u16(9), Err(Short { offset: 3, bytes: 2 }));
        assert_eq!(w.skip(2), Err(Short { offset: 3, bytes: 2 }));
        assert_eq!(w.skip(usize::MAX), Err(Short { offset: 3, bytes: usize::MAX }));
        w.skip(1).unwrap();
        assert_eq!(w.position(), 4);
        assert_eq!(buffer, [1, 2, 3, 0xEE]);
    }

    #[test]
    fn reads_within_bounds_only() {
        let bytes = [1, 2, 3];
        assert_eq!(array_at::<2>(&bytes, 1), Some([2, 3]));
        assert_eq!(array_at::<2>(&bytes, 2), None);
        assert_eq!(array_at::<1>(&bytes, usize::MAX), None);
        assert_eq!(patch(&mut [0; 3], usize::MAX, &[1, 2]), Err(Short { offset: usize::MAX, bytes: 2 }));
    }
}
