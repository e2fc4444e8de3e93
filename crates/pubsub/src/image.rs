//! The process image: the values of DataSets as plain bytes, each at a fixed, naturally aligned place.
//!
//! It is what lies between an application and its reader or writer, in one thread or between two. Numbers are
//! little-endian, as on the wire and in the memory of every machine that this runs on in practice; a Boolean is 0 or
//! 1; a Guid has its sixteen bytes as on the wire. Floating-point numbers are moved bit by bit, NaNs too.

use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use wire::{BuiltInType, Value, array_at};

use crate::layout::NetworkMessageLayout;

/// Where every DataSet begins, and a multiple of which the whole image is long: the largest alignment of a value.
const DATA_SET_ALIGNMENT: usize = 8;

/// A type and its place in the image, in bytes from the start of the whole image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageField {
    /// Type of the value.
    pub ty: BuiltInType,
    /// Offset in the image.
    pub offset: usize,
}

/// The places of all values of one or several DataSets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageLayout {
    data_sets: Vec<DataSetImage>,
    bytes: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct DataSetImage {
    range: Range<usize>,
    fields: Vec<ImageField>,
}

impl ImageLayout {
    /// One range for each DataSet, given the types of its fields.
    pub fn new<'a>(data_sets: impl IntoIterator<Item = &'a [BuiltInType]>) -> Self {
        Self::build(data_sets, None)
    }

    /// All DataSets of a NetworkMessage.
    pub fn of(layout: &NetworkMessageLayout) -> Self {
        Self::new(types(layout))
    }

    /// The same, but the fields `repeated` of DataSet `data_set`, which have to be UInt64, share one place: what is
    /// written there goes into all of them, and a message in which they differ is inconsistent. `None` when such
    /// fields are not there.
    pub fn repeating(layout: &NetworkMessageLayout, data_set: usize, repeated: Range<usize>) -> Option<Self> {
        let fields = layout.data_sets.get(data_set)?.fields.get(repeated.clone())?;
        let good = !fields.is_empty() && fields.iter().all(|&ty| ty == BuiltInType::UInt64);
        good.then(|| Self::build(types(layout), Some((data_set, repeated))))
    }

    fn build<'a>(
        data_sets: impl IntoIterator<Item = &'a [BuiltInType]>,
        repeated: Option<(usize, Range<usize>)>,
    ) -> Self {
        let mut bytes = 0_usize;
        let mut placed = Vec::new();
        for (data_set, types) in data_sets.into_iter().enumerate() {
            bytes = bytes.next_multiple_of(DATA_SET_ALIGNMENT);
            let start = bytes;
            let mut fields: Vec<ImageField> = Vec::with_capacity(types.len());
            for (index, &ty) in types.iter().enumerate() {
                let shares = repeated
                    .as_ref()
                    .is_some_and(|(set, range)| *set == data_set && index > range.start && range.contains(&index));
                match fields.last() {
                    Some(&before) if shares => fields.push(before),
                    _ => {
                        let offset = bytes.next_multiple_of(alignment(ty));
                        fields.push(ImageField { ty, offset });
                        bytes = offset + ty.bytes();
                    }
                }
            }
            placed.push(DataSetImage { range: start..bytes, fields });
        }
        Self { data_sets: placed, bytes: bytes.next_multiple_of(DATA_SET_ALIGNMENT) }
    }

    /// Length of the image, a multiple of 8.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Number of DataSets.
    pub fn data_sets(&self) -> usize {
        self.data_sets.len()
    }

    /// The bytes of a DataSet in the image.
    pub fn range(&self, data_set: usize) -> Option<Range<usize>> {
        self.data_sets.get(data_set).map(|set| set.range.clone())
    }

    /// The fields of a DataSet; none for one that is not there.
    pub fn fields(&self, data_set: usize) -> &[ImageField] {
        self.data_sets.get(data_set).map_or(&[], |set| &set.fields)
    }

    /// Puts a value into an image; `false`, and nothing done, when there is no such field, it is of another type, or
    /// `image` is too short.
    pub fn set(&self, image: &mut [u8], data_set: usize, field: usize, value: Value) -> bool {
        let Some(place) = self.fields(data_set).get(field).filter(|place| place.ty == value.ty()) else { return false };
        value.patch(image, place.offset).is_ok()
    }

    /// The value of a field; `None` when there is no such field or `image` is too short.
    pub fn get(&self, image: &[u8], data_set: usize, field: usize) -> Option<Value> {
        let place = self.fields(data_set).get(field)?;
        Value::read(place.ty, image, place.offset)
    }

    /// Puts a UInt64 at an offset of an image, if it has room there.
    pub(crate) fn set_uint64(image: &mut [u8], at: usize, value: u64) {
        if let Some(place) = image.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
            *place = value.to_le_bytes();
        }
    }

    /// The UInt64 that lies at `offset`; `None` when `image` is too short.
    #[inline]
    pub(crate) fn uint64(image: &[u8], offset: usize) -> Option<u64> {
        array_at(image, offset).map(u64::from_le_bytes)
    }
}

fn types(layout: &NetworkMessageLayout) -> impl Iterator<Item = &[BuiltInType]> {
    layout.data_sets.iter().map(|set| set.fields.as_slice())
}

/// That of the type in memory: the Guid's largest part has four bytes.
const fn alignment(ty: BuiltInType) -> usize {
    match ty {
        BuiltInType::Guid => 4,
        _ => ty.bytes(),
    }
}

/// An image of another length than the layout says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageSize {
    /// Least length that the layout needs, in bytes.
    pub expected: usize,
    /// Length of what was given.
    pub found: usize,
}

impl fmt::Display for ImageSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process image of {} bytes: expected {}, the bytes of its ImageLayout", self.found, self.expected)
    }
}

impl core::error::Error for ImageSize {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_aligned_and_data_sets_apart() {
        use BuiltInType::{Boolean, Byte, Double, Guid, Int16, UInt64};
        let layout = ImageLayout::new([&[Boolean, UInt64, Byte, Int16][..], &[Byte, Guid, Double][..]]);
        let offsets = |set| layout.fields(set).iter().map(|field| field.offset).collect::<Vec<_>>();
        assert_eq!(offsets(0), [0, 8, 16, 18]);
        assert_eq!((layout.range(0), layout.range(1)), (Some(0..20), Some(24..56)));
        assert_eq!(offsets(1), [24, 28, 48]);
        assert_eq!((layout.bytes(), layout.range(2)), (56, None));
    }

    #[test]
    fn repeated_fields_share_their_place() {
        let message = NetworkMessageLayout::papers(1, 1, 5);
        let layout = ImageLayout::repeating(&message, 0, 2..5).unwrap();
        let offsets: Vec<_> = layout.fields(0).iter().map(|field| field.offset).collect();
        assert_eq!((offsets, layout.bytes()), ([0, 8, 16, 16, 16, 24].to_vec(), 32));
        assert_eq!(ImageLayout::repeating(&message, 0, 0..2), None, "a Boolean");
        assert_eq!(ImageLayout::repeating(&message, 0, 4..8), None, "beyond the last");
    }

    #[test]
    fn sets_and_gets_only_what_is_there() {
        let layout = ImageLayout::new([&[BuiltInType::Byte, BuiltInType::Int32][..]]);
        let mut image = [0; 8];
        assert!(layout.set(&mut image, 0, 1, Value::Int32(-2)));
        assert!(!layout.set(&mut image, 0, 1, Value::UInt32(2)), "another type");
        assert!(!layout.set(&mut image[..7], 0, 1, Value::Int32(1)), "too short");
        assert!(!layout.set(&mut image, 0, 2, Value::Int32(1)));
        assert_eq!(layout.get(&image, 0, 1), Some(Value::Int32(-2)));
        assert_eq!((layout.get(&image[..7], 0, 1), layout.get(&image, 1, 0)), (None, None));
    }
}
