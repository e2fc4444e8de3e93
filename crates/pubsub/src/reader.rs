//! Messages of a known layout: compare the constant bytes, read values at known offsets.

use alloc::vec::Vec;
use core::ops::Range;

use wire::{MIN_PAYLOAD_BYTES, Value, array_at};

use crate::error::{LayoutError, Mismatch};
use crate::layout::NetworkMessageLayout;
use crate::plan::Plan;
use crate::run::UInt64Run;

/// Distance from Variant byte to Variant byte of eight-byte values, the common case.
const VARIANT64: usize = 9;

/// A layout prepared for reading.
#[derive(Debug, Clone)]
pub struct ReaderLayout {
    plan: Plan,
    constants: Constants,
}

/// The constant bytes of a message, in the forms in which they are compared.
#[derive(Debug, Clone)]
struct Constants {
    /// Eight bytes at a time, those that change masked out: for headers, whose constants come in short pieces.
    words: Vec<Word>,
    /// Many constant bytes in a row.
    spans: Vec<Range<usize>>,
    /// Single constant bytes at a fixed distance: the Variant bytes of neighbouring fields of one type.
    combs: Vec<Comb>,
}

/// The bytes `mask` of the word at `offset`.
#[derive(Debug, Clone, Copy)]
struct Word {
    offset: usize,
    expected: u64,
    mask: u64,
}

/// `count` bytes of the same value, `stride` apart.
#[derive(Debug, Clone, Copy)]
struct Comb {
    first: usize,
    stride: usize,
    count: usize,
    byte: u8,
}

impl ReaderLayout {
    /// A reader of messages of `layout`.
    pub fn new(layout: &NetworkMessageLayout) -> Result<Self, LayoutError> {
        let plan = Plan::new(layout)?;
        let constants = Constants::new(&plan.bytes, &plan.constants);
        Ok(Self { plan, constants })
    }

    /// Length of a message.
    pub fn bytes(&self) -> usize {
        self.plan.bytes.len()
    }

    /// Whether `uadp` is a message of this layout: long enough, all constant bytes as they have to be, and nothing
    /// after them but the zeros that fill an Ethernet frame up to its minimum.
    #[inline]
    pub fn check(&self, uadp: &[u8]) -> Result<(), Mismatch> {
        if self.matches(&self.constants, uadp) { Ok(()) } else { self.check_slowly(uadp) }
    }

    /// Whether length, padding and these constants are right.
    #[inline]
    fn matches(&self, constants: &Constants, uadp: &[u8]) -> bool {
        let expected = self.plan.bytes.as_slice();
        uadp.split_at_checked(expected.len()).is_some_and(|(message, rest)| {
            constants.match_bytes(message, expected)
                && (rest.is_empty() || (uadp.len() <= MIN_PAYLOAD_BYTES && rest.iter().all(|&byte| byte == 0)))
        })
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

    /// The number that tells newer messages from older ones: of the GroupHeader, else of the first DataSetMessage.
    #[inline]
    pub(crate) fn any_sequence_number(&self, uadp: &[u8]) -> Option<u16> {
        self.sequence_number(uadp).or_else(|| self.data_set_sequence_number(uadp, 0))
    }
}

impl Constants {
    /// The bytes of `ranges`, ascending: as combs where there are enough alike at one distance, as spans where there are
    /// many in a row, else as words.
    fn new(bytes: &[u8], ranges: &[Range<usize>]) -> Self {
        const WORTH_A_COMB: usize = 3;
        const WORTH_A_SPAN: usize = 64;
        let single = |range: &Range<usize>| (range.len() == 1).then(|| bytes.get(range.start).copied()).flatten();
        let (mut short, mut spans, mut combs) = (Vec::new(), Vec::new(), Vec::new());
        let mut rest = ranges;
        while let [range, tail @ ..] = rest {
            rest = tail;
            if let (Some(byte), Some(next)) = (single(range), tail.first()) {
                let stride = next.start - range.start;
                let alike = |(index, other): &(usize, &Range<usize>)| {
                    single(other) == Some(byte) && other.start == range.start + (index + 1) * stride
                };
                let count = 1 + tail.iter().enumerate().take_while(alike).count();
                // The last tooth has a full stride of bytes after it only if its value, of the same type, has.
                if count >= WORTH_A_COMB && range.start + count * stride <= bytes.len() {
                    combs.push(Comb { first: range.start, stride, count, byte });
                    rest = tail.get(count - 1..).unwrap_or_default();
                    continue;
                }
            }
            if range.len() >= WORTH_A_SPAN || bytes.len() < Word::BYTES {
                spans.push(range.clone());
            } else {
                short.push(range.clone());
            }
        }
        Constants { words: Word::cover(bytes, &short), spans, combs }
    }

    #[inline]
    fn match_bytes(&self, message: &[u8], expected: &[u8]) -> bool {
        self.words.iter().fold(0, |difference, word| difference | word.difference(message)) == 0
            && self.spans.iter().all(|span| message.get(span.clone()) == expected.get(span.clone()))
            && self.combs.iter().all(|comb| comb.matches(message))
    }
}

impl Word {
    const BYTES: usize = 8;

    /// The words that cover `ranges`, which are ascending, of at least [`Self::BYTES`] bytes.
    fn cover(bytes: &[u8], ranges: &[Range<usize>]) -> Vec<Self> {
        let last = bytes.len().saturating_sub(Self::BYTES);
        let mut words: Vec<Self> = Vec::new();
        let mut covered = 0;
        for at in ranges.iter().cloned().flatten() {
            if at >= covered {
                let offset = at.min(last);
                words.push(Self { offset, expected: 0, mask: 0 });
                covered = offset + Self::BYTES;
            }
            if let (Some(word), Some(&byte)) = (words.last_mut(), bytes.get(at)) {
                let bit = 8 * (at - word.offset);
                word.expected |= u64::from(byte) << bit;
                word.mask |= 0xFF << bit;
            }
        }
        words
    }

    /// 0 when the bytes are as expected.
    #[inline]
    fn difference(&self, message: &[u8]) -> u64 {
        array_at(message, self.offset).map_or(u64::MAX, |bytes| (u64::from_le_bytes(bytes) ^ self.expected) & self.mask)
    }
}

impl Comb {
    #[inline]
    fn matches(&self, uadp: &[u8]) -> bool {
        match self.stride {
            VARIANT64 => self.matches_at_nine(uadp),
            stride => {
                let teeth = uadp.get(self.first..).unwrap_or_default().iter().step_by(stride.max(1)).take(self.count);
                teeth.len() == self.count && teeth.fold(0, |difference, byte| difference | (byte ^ self.byte)) == 0
            }
        }
    }

    #[inline]
    fn matches_at_nine(&self, uadp: &[u8]) -> bool {
        let region = uadp.get(self.first..).unwrap_or_default().as_chunks::<VARIANT64>().0;
        let Some(teeth) = region.get(..self.count) else { return false };
        let byte = self.byte;
        // Four at a time: their differences do not wait for each other.
        let (fours, rest) = teeth.as_chunks::<4>();
        let mut difference = rest.iter().fold(0, |difference, [tooth, ..]| difference | (tooth ^ byte));
        for [[a, ..], [b, ..], [c, ..], [d, ..]] in fours {
            difference |= ((a ^ byte) | (b ^ byte)) | ((c ^ byte) | (d ^ byte));
        }
        difference == 0
    }
}

/// A reader of messages with a run of counters that have to be equal: one comparison for the Variant bytes of the
/// run and its values.
#[derive(Debug, Clone)]
pub(crate) struct CounterReader {
    layout: ReaderLayout,
    run: UInt64Run,
    /// The constants that comparing the counters with each other leaves out.
    others: Constants,
}

impl CounterReader {
    pub(crate) fn new(layout: ReaderLayout, run: UInt64Run) -> Self {
        let covered = run.after_first_type();
        let outside =
            |range: &Range<usize>| [range.start..range.end.min(covered.start), range.start.max(covered.end)..range.end];
        let others: Vec<_> = layout.plan.constants.iter().flat_map(outside).filter(|range| !range.is_empty()).collect();
        let others = Constants::new(&layout.plan.bytes, &others);
        Self { layout, run, others }
    }

    /// The first counter of a message of the layout, and whether all are equal.
    #[inline]
    pub(crate) fn read(&self, uadp: &[u8]) -> Result<(u64, bool), Mismatch> {
        if let Some((counter, true)) = self.run.read(uadp).filter(|_| self.layout.matches(&self.others, uadp)) {
            return Ok((counter, true));
        }
        self.layout.check(uadp)?;
        Ok(self.run.read(uadp).unwrap_or((0, false)))
    }

    #[inline]
    pub(crate) fn layout(&self) -> &ReaderLayout {
        &self.layout
    }
}
