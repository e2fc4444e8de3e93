//! Messages of a known layout: compare the constant bytes, read values at known offsets.

use core::ops::Range;

use alloc::vec::Vec;
use wire::{MIN_PAYLOAD_BYTES, Value, array_at};

use crate::constants::Constants;
use crate::error::{LayoutError, Mismatch};
use crate::image::{ImageLayout, ImageSize};
use crate::layout::NetworkMessageLayout;
use crate::moves::Moves;
use crate::plan::Plan;
use crate::run::UInt64Run;

/// A layout prepared for reading.
#[derive(Debug, Clone)]
pub struct ReaderLayout {
    plan: Plan,
    /// All but those that comparing the repeated fields with each other covers.
    constants: Constants,
    moves: Moves,
    /// The Variant byte to compare while the run of eight-byte Variants is read; where there are others to compare at
    /// that distance, or they are not all the same, none.
    eights: Option<u8>,
}

impl ReaderLayout {
    /// A reader of messages of `layout`, with all its DataSets in the image ([`ImageLayout::of`]).
    pub fn new(layout: &NetworkMessageLayout) -> Result<Self, LayoutError> {
        Self::with_image(layout, &ImageLayout::of(layout), Some)
    }

    /// A reader whose image has other DataSets than the message or fields that share a place: `image_of` tells which
    /// DataSet of `image` gets the values of a DataSetMessage, `None` for one that nobody wants.
    pub fn with_image(
        layout: &NetworkMessageLayout,
        image: &ImageLayout,
        image_of: impl Fn(usize) -> Option<usize>,
    ) -> Result<Self, LayoutError> {
        let plan = Plan::new(layout)?;
        let moves = Moves::new(&plan.data_sets, image, 0, image_of);
        let constants = match moves.repeated() {
            None => Constants::new(&plan.bytes, &plan.constants),
            Some(run) => {
                let covered = run.covered();
                let outside = |range: &Range<usize>| {
                    [range.start..range.end.min(covered.start), range.start.max(covered.end)..range.end]
                };
                let others = plan.constants.iter().flat_map(outside).filter(|range| !range.is_empty());
                Constants::new(&plan.bytes, &others.collect::<Vec<_>>())
            }
        };
        let eights = moves
            .type_of_eights(&plan.bytes)
            .filter(|_| constants.nines().is_none_or(|region| moves.eights_in(region)));
        Ok(Self { plan, constants, moves, eights })
    }

    /// Length of a message.
    pub fn bytes(&self) -> usize {
        self.plan.bytes.len()
    }

    /// Whether `uadp` is a message of this layout: long enough, all constant bytes as they have to be, and nothing
    /// after them but the zeros that fill an Ethernet frame up to its minimum.
    #[inline]
    pub fn check(&self, uadp: &[u8]) -> Result<(), Mismatch> {
        self.examine(uadp).map(drop)
    }

    /// The same, and whether fields that share a place in the image are equal.
    #[inline]
    pub(crate) fn examine(&self, uadp: &[u8]) -> Result<bool, Mismatch> {
        if self.matches(uadp) {
            return Ok(true);
        }
        self.check_slowly(uadp)?;
        // All constants are right: what differs are repeated fields.
        Ok(self.moves.repeated().is_none())
    }

    /// Whether length, padding and constants are right, and repeated fields equal.
    #[inline]
    fn matches(&self, uadp: &[u8]) -> bool {
        let expected = self.plan.bytes.as_slice();
        let Some((message, rest)) = uadp.split_at_checked(expected.len()) else { return false };
        self.constants.match_bytes(message, expected)
            && self.moves.repeated().is_none_or(|run| run.all_equal(message))
            && (rest.is_empty() || is_padding(uadp, rest))
    }

    /// The same for what is not obviously good: byte by byte, so that the first difference is found.
    #[cold]
    fn check_slowly(&self, uadp: &[u8]) -> Result<(), Mismatch> {
        let expected = self.plan.bytes.as_slice();
        for range in &self.plan.constants {
            for offset in range.clone() {
                let (expected, found) = (expected.get(offset).copied(), uadp.get(offset).copied());
                if found.is_none() {
                    return Err(self.ends_early(uadp));
                }
                if expected != found {
                    return Err(Mismatch { offset, expected, found });
                }
            }
        }
        let Some(rest) = uadp.get(expected.len()..) else { return Err(self.ends_early(uadp)) };
        let (offset, expected) = match rest.iter().position(|&byte| byte != 0) {
            Some(at) => (self.bytes() + at, (uadp.len() <= MIN_PAYLOAD_BYTES).then_some(0)),
            None if rest.is_empty() || uadp.len() <= MIN_PAYLOAD_BYTES => return Ok(()),
            None => (self.bytes().max(MIN_PAYLOAD_BYTES), None),
        };
        Err(Mismatch { offset, expected, found: uadp.get(offset).copied() })
    }

    #[cold]
    fn ends_early(&self, uadp: &[u8]) -> Mismatch {
        let offset = uadp.len();
        let constant = self.plan.constants.iter().any(|range| range.contains(&offset));
        let expected = self.plan.bytes.get(offset).copied().filter(|_| constant);
        Mismatch { offset, expected, found: None }
    }

    /// [`Self::check`] and [`Self::read_image`] at once, and faster: values are compared and copied in one go. After an
    /// error `image` has anything in it. Refuses everything when `image` is too short.
    #[inline]
    pub fn take_apart(&self, uadp: &[u8], image: &mut [u8]) -> Result<(), Mismatch> {
        if self.takes(uadp, image) { Ok(()) } else { self.examine_into(uadp, image).map(drop) }
    }

    /// Takes a message of this layout apart in which fields that share a place in the image are equal. Any other it leaves
    /// to [`Self::examine_into`], which tells what is wrong with it; `image` has anything in it then.
    #[inline(always)]
    pub(crate) fn takes(&self, uadp: &[u8], image: &mut [u8]) -> bool {
        let Some(byte) = self.eights else { return self.takes_in_two_goes(uadp, image) };
        let expected = self.plan.bytes.as_slice();
        let Some((message, rest)) = uadp.split_at_checked(expected.len()) else { return false };
        let taken = self.moves.check(image).is_ok()
            && self.constants.match_others(message, expected)
            && self.moves.read_eights(message, image, byte)
            && self.moves.repeated().is_none_or(|run| run.all_equal(message))
            && (rest.is_empty() || is_padding(uadp, rest));
        if taken {
            self.moves.read_others(message, image);
        }
        taken
    }

    fn takes_in_two_goes(&self, uadp: &[u8], image: &mut [u8]) -> bool {
        self.matches(uadp) && self.read_image(uadp, image).is_ok()
    }

    /// What [`Self::takes`] does not: whether fields that share a place in the image are equal, in which case it is a message
    /// all the same.
    #[cold]
    #[inline(never)]
    pub(crate) fn examine_into(&self, uadp: &[u8], image: &mut [u8]) -> Result<bool, Mismatch> {
        let consistent = self.examine(uadp)?;
        let read = self.read_image(uadp, image);
        read.map_err(|_| Mismatch { offset: uadp.len(), expected: None, found: None })?;
        Ok(consistent)
    }

    /// Whether NetworkMessages have no SequenceNumber.
    pub(crate) fn is_plain(&self) -> bool {
        self.plan.sequence_number.is_none()
    }

    /// Places of SequenceNumber and Status of a DataSetMessage.
    pub(crate) fn places(&self, data_set: usize) -> (Option<usize>, Option<usize>) {
        self.plan.data_sets.get(data_set).map_or((None, None), |set| (set.sequence_number, set.status))
    }

    /// A field of a message that passed [`Self::check`], both indices from 0.
    #[inline]
    pub fn field(&self, uadp: &[u8], data_set: usize, field: usize) -> Option<Value> {
        let place = self.plan.data_sets.get(data_set)?.fields.get(field)?;
        Value::read(place.ty, uadp, place.offset)
    }

    /// The fields `fields` of a DataSetMessage for [`Self::uint64s`]; `None` unless all are there and UInt64.
    pub fn uint64_run(&self, data_set: usize, fields: Range<usize>) -> Option<UInt64Run> {
        self.plan.uint64_run(data_set, fields)
    }

    /// The first value of a run in a message that passed [`Self::check`], and whether all its values are equal; `None`
    /// when `uadp` is too short.
    #[inline]
    pub fn uint64s(&self, uadp: &[u8], run: &UInt64Run) -> Option<(u64, bool)> {
        run.read(uadp)
    }

    /// Copies the values of a message that passed [`Self::check`] to their places in `image`. Does nothing when `uadp`
    /// is too short.
    #[inline]
    pub fn read_image(&self, uadp: &[u8], image: &mut [u8]) -> Result<(), ImageSize> {
        self.moves.read(uadp, image)
    }

    /// SequenceNumber of the GroupHeader.
    #[inline]
    pub fn sequence_number(&self, uadp: &[u8]) -> Option<u16> {
        array_at(uadp, self.plan.sequence_number?).map(u16::from_le_bytes)
    }

    /// Timestamp of the NetworkMessage: 100 ns ticks since 1601-01-01 UTC.
    #[inline]
    pub fn timestamp(&self, uadp: &[u8]) -> Option<i64> {
        array_at(uadp, self.plan.timestamp?).map(i64::from_le_bytes)
    }

    /// SequenceNumber of a DataSetMessage.
    #[inline]
    pub fn data_set_sequence_number(&self, uadp: &[u8], data_set: usize) -> Option<u16> {
        array_at(uadp, self.plan.data_sets.get(data_set)?.sequence_number?).map(u16::from_le_bytes)
    }

    /// Timestamp of a DataSetMessage: 100 ns ticks since 1601-01-01 UTC.
    #[inline]
    pub fn data_set_timestamp(&self, uadp: &[u8], data_set: usize) -> Option<i64> {
        array_at(uadp, self.plan.data_sets.get(data_set)?.timestamp?).map(i64::from_le_bytes)
    }

    /// Status of a DataSetMessage: the upper 16 bits of a StatusCode.
    #[inline]
    pub fn data_set_status(&self, uadp: &[u8], data_set: usize) -> Option<u16> {
        array_at(uadp, self.plan.data_sets.get(data_set)?.status?).map(u16::from_le_bytes)
    }
}

/// The zeros that fill an Ethernet frame up to its minimum.
#[cold]
fn is_padding(uadp: &[u8], rest: &[u8]) -> bool {
    uadp.len() <= MIN_PAYLOAD_BYTES && rest.iter().all(|&byte| byte == 0)
}
