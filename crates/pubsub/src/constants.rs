//! Comparing the constant bytes of a message, many at a time.

use alloc::vec::Vec;
use core::ops::Range;

use wire::array_at;

use crate::moves::REST;

/// Distance from Variant byte to Variant byte of eight-byte values, the common case.
const VARIANT64: usize = 9;

/// The constant bytes of a message, in the forms in which they are compared.
#[derive(Debug, Clone)]
pub(crate) struct Constants {
    /// 32 bytes at a time, those that change masked out: for headers, whose constants come in short pieces.
    block: Option<Block>,
    /// Variant bytes of neighbouring eight-byte values.
    nines: Option<Nines>,
    /// There is something in the members below.
    more: bool,
    /// All other blocks.
    blocks: Vec<Block>,
    /// Many constant bytes in a row.
    spans: Vec<Range<usize>>,
    /// Single constant bytes at a fixed distance: the Variant bytes of neighbouring fields of one type.
    combs: Vec<Comb>,
}

/// The bytes `mask` of the 32 at `offset`.
#[derive(Debug, Clone, Copy)]
struct Block {
    offset: usize,
    expected: [u64; Block::WORDS],
    mask: [u64; Block::WORDS],
}

/// The first of every nine bytes of `region` is `byte`.
#[derive(Debug, Clone)]
struct Nines {
    region: Range<usize>,
    byte: u8,
}

/// `count` bytes of the same value, `stride` apart.
#[derive(Debug, Clone, Copy)]
struct Comb {
    first: usize,
    stride: usize,
    count: usize,
    byte: u8,
}

impl Constants {
    /// The bytes of `ranges`, ascending: as combs where there are enough alike at one distance, as spans where there are
    /// many in a row, else as words.
    pub(crate) fn new(bytes: &[u8], ranges: &[Range<usize>]) -> Self {
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
            if range.len() >= WORTH_A_SPAN || bytes.len() < Block::BYTES {
                spans.push(range.clone());
            } else {
                short.push(range.clone());
            }
        }
        let nines = combs.iter().position(|comb: &Comb| comb.stride == VARIANT64).map(|first| {
            let Comb { first, stride, count, byte } = combs.remove(first);
            Nines { region: first..first + count * stride, byte }
        });
        let mut blocks = Block::cover(bytes, &short);
        let block = (!blocks.is_empty()).then(|| blocks.remove(0));
        let more = !(blocks.is_empty() && spans.is_empty() && combs.is_empty());
        Self { block, nines, more, blocks, spans, combs }
    }

    #[inline]
    pub(crate) fn match_bytes(&self, message: &[u8], expected: &[u8]) -> bool {
        self.match_others(message, expected) && self.nines.as_ref().is_none_or(|nines| nines.matches(message))
    }

    /// All but the Variant bytes that [`Self::nines`] tells.
    #[inline]
    pub(crate) fn match_others(&self, message: &[u8], expected: &[u8]) -> bool {
        self.block.as_ref().is_none_or(|block| block.matches(message))
            && (!self.more || self.match_more(message, expected))
    }

    /// The first of every nine bytes of this region is always the same.
    pub(crate) fn nines(&self) -> Option<&Range<usize>> {
        self.nines.as_ref().map(|nines| &nines.region)
    }

    fn match_more(&self, message: &[u8], expected: &[u8]) -> bool {
        self.blocks.iter().all(|block| block.matches(message))
            && self.spans.iter().all(|span| message.get(span.clone()) == expected.get(span.clone()))
            && self.combs.iter().all(|comb| comb.matches(message))
    }
}

impl Block {
    const WORDS: usize = 4;
    const BYTES: usize = 8 * Self::WORDS;

    /// The blocks that cover `ranges`, which are ascending, of at least [`Self::BYTES`] bytes.
    fn cover(bytes: &[u8], ranges: &[Range<usize>]) -> Vec<Self> {
        let last = bytes.len().saturating_sub(Self::BYTES);
        let mut blocks: Vec<Self> = Vec::new();
        let mut covered = 0;
        for at in ranges.iter().cloned().flatten() {
            if at >= covered {
                let offset = at.min(last);
                blocks.push(Self { offset, expected: [0; Self::WORDS], mask: [0; Self::WORDS] });
                covered = offset + Self::BYTES;
            }
            if let (Some(block), Some(&byte)) = (blocks.last_mut(), bytes.get(at)) {
                let (word, bit) = ((at - block.offset) / 8, 8 * ((at - block.offset) % 8));
                if let (Some(expected), Some(mask)) = (block.expected.get_mut(word), block.mask.get_mut(word)) {
                    *expected |= u64::from(byte) << bit;
                    *mask |= 0xFF << bit;
                }
            }
        }
        blocks
    }

    #[inline]
    fn matches(&self, message: &[u8]) -> bool {
        let Some(bytes) = array_at::<{ Self::BYTES }>(message, self.offset) else { return false };
        let (words, _) = bytes.as_chunks::<8>();
        let mut difference = 0;
        for ((word, expected), mask) in words.iter().zip(&self.expected).zip(&self.mask) {
            difference |= (u64::from_le_bytes(*word) ^ expected) & mask;
        }
        difference == 0
    }
}

impl Nines {
    #[inline]
    fn matches(&self, message: &[u8]) -> bool {
        let Some(mut teeth) = message.get(self.region.clone()) else { return false };
        let (byte, mut difference) = (self.byte, 0);
        // Four at a time: their differences do not wait for each other.
        while let Some((four, rest)) = teeth.split_first_chunk::<{ 4 * VARIANT64 }>() {
            let (four, _) = four.as_chunks::<VARIANT64>();
            difference |= four.iter().fold(0, |difference, [tooth, ..]| difference | (tooth ^ byte));
            teeth = rest;
        }
        for _ in 0..REST {
            let Some(([tooth, ..], rest)) = teeth.split_first_chunk::<VARIANT64>() else { break };
            difference |= tooth ^ byte;
            teeth = rest;
        }
        difference == 0
    }
}

impl Comb {
    fn matches(&self, uadp: &[u8]) -> bool {
        let teeth = uadp.get(self.first..).unwrap_or_default().iter().step_by(self.stride.max(1)).take(self.count);
        teeth.len() == self.count && teeth.fold(0, |difference, byte| difference | (byte ^ self.byte)) == 0
    }
}
