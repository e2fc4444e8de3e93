//! Neighbouring UInt64 fields: values at a fixed stride, written and read in one tight loop.

use core::ops::Range;

use wire::{BuiltInType, FieldEncoding, VARIANT_TYPE_BYTES};

/// Length of a UInt64 on the wire.
const VALUE_BYTES: usize = 8;

/// Some neighbouring UInt64 fields of a DataSetMessage.
///
/// Get it from the template or reader that it is to be used with; with another one it does no harm, but means nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UInt64Run {
    /// Offset in the UADP message of the first Variant byte (Variant) or value (RawData).
    start: usize,
    /// Offset of what is behind the last value: worked out once, a cycle has no time for it.
    end: usize,
    encoding: FieldEncoding,
}

impl UInt64Run {
    /// `count` fields, the value of the first at `offset`.
    pub(crate) fn new(offset: usize, encoding: FieldEncoding, count: usize) -> Self {
        let start = match encoding {
            FieldEncoding::Variant => offset.saturating_sub(VARIANT_TYPE_BYTES),
            FieldEncoding::RawData => offset,
        };
        Self { start, end: start + count * stride(encoding), encoding }
    }

    /// Number of fields.
    pub fn len(&self) -> usize {
        (self.end - self.start) / stride(self.encoding)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.end == self.start
    }

    /// The same run in a buffer with `header` bytes before the UADP message.
    pub(crate) fn moved(self, header: usize) -> Self {
        Self { start: self.start + header, end: self.end + header, ..self }
    }

    /// One more field.
    pub(crate) fn grow(&mut self) {
        self.end += stride(self.encoding);
    }

    /// All bytes of the run.
    #[inline]
    pub(crate) fn covered(&self) -> Range<usize> {
        self.start..self.end
    }

    /// Sets all values; nothing when `buffer` is too short.
    #[inline]
    pub(crate) fn fill(&self, buffer: &mut [u8], value: u64) {
        match self.encoding {
            FieldEncoding::Variant => fill::<9, 36>(self, buffer, value),
            FieldEncoding::RawData => fill::<8, 32>(self, buffer, value),
        }
    }

    /// The bytes of the first value; `None` when `bytes` is too short.
    #[inline]
    pub(crate) fn first(&self, bytes: &[u8]) -> Option<[u8; VALUE_BYTES]> {
        let type_bytes = match self.encoding {
            FieldEncoding::Variant => VARIANT_TYPE_BYTES,
            FieldEncoding::RawData => 0,
        };
        wire::array_at(bytes, self.start + type_bytes)
    }

    /// Whether all values are equal, and all Variant bytes right.
    #[inline]
    pub(crate) fn all_equal(&self, bytes: &[u8]) -> bool {
        let right = match self.encoding {
            FieldEncoding::Variant => bytes.get(self.start) == Some(&BuiltInType::UInt64.id()),
            FieldEncoding::RawData => true,
        };
        right && self.read(bytes).is_some_and(|(_, equal)| equal)
    }

    /// The first value, and whether all others equal it, Variant bytes included; `None` when `bytes` is too short.
    #[inline]
    pub(crate) fn read(&self, bytes: &[u8]) -> Option<(u64, bool)> {
        match self.encoding {
            FieldEncoding::Variant => read::<{ VALUE_BYTES + VARIANT_TYPE_BYTES }>(self, bytes),
            FieldEncoding::RawData => read::<VALUE_BYTES>(self, bytes),
        }
    }
}

/// Bytes from value to value.
const fn stride(encoding: FieldEncoding) -> usize {
    match encoding {
        FieldEncoding::Variant => VALUE_BYTES + VARIANT_TYPE_BYTES,
        FieldEncoding::RawData => VALUE_BYTES,
    }
}

/// `STRIDE` a constant, so that the loop has constant offsets: the value is the last eight bytes of each stride.
#[inline]
fn fill<const STRIDE: usize, const STRIDE4: usize>(run: &UInt64Run, buffer: &mut [u8], value: u64) {
    let Some(region) = buffer.get_mut(run.covered()) else { return };
    let value = value.to_le_bytes();
    // Four at a time, the last four first: what is left then was among them, and need not be counted.
    let Some(last) = region.last_chunk_mut::<STRIDE4>() else { return fill_each::<STRIDE>(region, value) };
    fill_each::<STRIDE>(last, value);
    let mut region = region;
    while let Some((fields, rest)) = core::mem::take(&mut region).split_first_chunk_mut::<STRIDE4>() {
        fill_each::<STRIDE>(fields, value);
        region = rest;
    }
}

#[inline(always)]
fn fill_each<const STRIDE: usize>(region: &mut [u8], value: [u8; VALUE_BYTES]) {
    for field in region.as_chunks_mut::<STRIDE>().0 {
        put(field, value);
    }
}

#[inline]
fn put<const STRIDE: usize>(field: &mut [u8; STRIDE], value: [u8; VALUE_BYTES]) {
    if let Some(place) = field.last_chunk_mut() {
        *place = value;
    }
}

#[inline]
fn read<const STRIDE: usize>(run: &UInt64Run, bytes: &[u8]) -> Option<(u64, bool)> {
    /// So many fields are compared one by one: no call is worth its while.
    const FEW: usize = 8;
    let region = bytes.get(run.covered())?;
    let first = region.first_chunk::<STRIDE>()?;
    let equal = if region.len() <= FEW * STRIDE {
        let (mut rest, mut equal) = (region, true);
        while let Some((field, more)) = rest.split_first_chunk::<STRIDE>() {
            equal &= field == first;
            rest = more;
        }
        equal
    } else {
        // All fields are equal if each equals the one before: the region, and the region one stride on. That is one
        // comparison of slices, several fields at a time, and includes the Variant bytes.
        region.get(STRIDE..)? == region.get(..region.len().checked_sub(STRIDE)?)?
    };
    Some((first.last_chunk().copied().map(u64::from_le_bytes)?, equal))
}
