//! One item after the other out of borrowed bytes.

use super::error::{DecodeError, DecodeReason};

/// A place in a message, and the end up to which it may go.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor<'a> {
    /// From the start of the message to the end of the part.
    bytes: &'a [u8],
    /// At most the length of `bytes`.
    position: usize,
}

impl<'a> Cursor<'a> {
    /// From `start` on to the end of `bytes`.
    pub(crate) fn new(bytes: &'a [u8], start: usize) -> Self {
        Self { bytes, position: start.min(bytes.len()) }
    }

    pub(crate) fn position(&self) -> usize {
        self.position
    }

    pub(crate) fn end(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn left(&self) -> usize {
        self.bytes.len() - self.position
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.position..).unwrap_or_default()
    }

    /// The bytes from `start`, an earlier position, to here.
    pub(crate) fn since(&self, start: usize) -> &'a [u8] {
        self.bytes.get(start..self.position).unwrap_or_default()
    }

    /// The same up to `bytes` from here.
    pub(crate) fn part(&self, bytes: usize) -> Result<Self, DecodeError> {
        let part = self.bytes.get(..self.position.saturating_add(bytes)).ok_or(self.short(bytes))?;
        Ok(Self { bytes: part, position: self.position })
    }

    pub(crate) fn error(&self, reason: DecodeReason) -> DecodeError {
        DecodeError::new(self.position, reason)
    }

    fn short(&self, wanted: usize) -> DecodeError {
        self.error(DecodeReason::Short { wanted, left: self.left() })
    }

    pub(crate) fn slice(&mut self, bytes: usize) -> Result<&'a [u8], DecodeError> {
        let (slice, _) = self.rest().split_at_checked(bytes).ok_or(self.short(bytes))?;
        self.position += bytes;
        Ok(slice)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let array = *self.rest().first_chunk().ok_or(self.short(N))?;
        self.position += N;
        Ok(array)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, DecodeError> {
        self.array().map(u8::from_le_bytes)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, DecodeError> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, DecodeError> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn i64(&mut self) -> Result<i64, DecodeError> {
        self.array().map(i64::from_le_bytes)
    }

    /// An Int32 length or count; `None` for −1.
    pub(crate) fn length(&mut self) -> Result<Option<usize>, DecodeError> {
        let at = self.position;
        match i32::from_le_bytes(self.array()?) {
            -1 => Ok(None),
            length => match usize::try_from(length) {
                Ok(length) => Ok(Some(length)),
                Err(_) => Err(DecodeError::new(at, DecodeReason::Length(length))),
            },
        }
    }

    /// A ByteString; `None` for null.
    pub(crate) fn byte_string(&mut self) -> Result<Option<&'a [u8]>, DecodeError> {
        self.length()?.map(|length| self.slice(length)).transpose()
    }

    /// A String; `None` for null.
    pub(crate) fn string(&mut self) -> Result<Option<&'a str>, DecodeError> {
        let at = self.position;
        let Some(bytes) = self.byte_string()? else { return Ok(None) };
        core::str::from_utf8(bytes).map(Some).map_err(|_| DecodeError::new(at, DecodeReason::Text))
    }

    /// That only zeros are left; tells how many.
    pub(crate) fn padding(&self) -> Result<usize, DecodeError> {
        match self.rest().iter().position(|&byte| byte != 0) {
            None => Ok(self.left()),
            Some(at) => {
                let byte = self.rest().get(at).copied().unwrap_or_default();
                Err(DecodeError::new(self.position + at, DecodeReason::Rest(byte)))
            }
        }
    }
}
