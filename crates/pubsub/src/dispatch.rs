//! From the bytes of a NetworkMessage to whoever reads its WriterGroup: one receiver, many publishers.
//!
//! The key is what stands at the head of every message: PublisherId, of which type and value count, and
//! WriterGroupId. The table is an open-addressing one of at least twice as many places as keys, made once. Making
//! it tries multipliers, and twice the places, until no key is more than [`MAX_STEPS`] places away from where its hash
//! points; so no message, whatever is in it, makes a look-up touch more places than that. Hence one look-up costs the
//! same with one key and with thousands.

use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use wire::{PublisherId, extended_flags1, group_flags, uadp_flags};

/// A look-up touches at most so many places.
pub const MAX_STEPS: usize = 8;

/// Multipliers tried for one size of the table.
const MULTIPLIERS: u64 = 16;

/// WriterGroupId of a reader that takes any, and of messages that carry none: 0 is invalid on the wire.
const ANY_GROUP: u16 = 0;

/// Whose messages go to one subscriber.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DispatchKey {
    /// Who publishes.
    pub publisher_id: PublisherId,
    /// Which WriterGroup; `None` takes messages of any, and those that carry no WriterGroupId.
    pub writer_group_id: Option<u16>,
}

/// Why there is no dispatcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DispatchError {
    /// WriterGroupId 0, invalid on the wire (OPC 10000-14 §7.2.4.4).
    WriterGroupIdZero {
        /// Index of the entry.
        entry: usize,
    },
    /// More entries than can be told apart by 32 bits.
    TooMany,
    /// Ids chosen so that more than [`MAX_STEPS`] of them look the same to every hash.
    Collisions,
}

impl fmt::Display for DispatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WriterGroupIdZero { entry } => {
                write!(
                    f,
                    "entry {entry}: WriterGroupId 0; expected 1 to 65535, or None for all groups of the publisher"
                )
            }
            Self::TooMany => write!(f, "more subscribers than 32 bits can count: expected fewer"),
            Self::Collisions => write!(
                f,
                "more than {MAX_STEPS} pairs of PublisherId and WriterGroupId hash alike whatever is tried: expected ids \
                 that were not made for that; change some"
            ),
        }
    }
}

impl core::error::Error for DispatchError {}

/// Finds the subscribers of a message. Nothing after `new` allocates.
#[derive(Debug, Clone)]
pub struct Dispatcher {
    places: Vec<Place>,
    multiplier: u64,
    /// The hash is the upper bits of a product.
    shift: u32,
    /// Some subscriber takes any WriterGroup.
    any_group: bool,
    /// Subscribers, those of one key in a row.
    subscribers: Vec<u32>,
}

/// One place of the table: a key and its subscribers, a range that is empty where there is no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Place {
    publisher: u64,
    /// Type of the PublisherId and WriterGroupId.
    kind: u32,
    first: u32,
    end: u32,
}

/// The key as it is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    publisher: u64,
    kind: u32,
}

impl Key {
    fn of(publisher_id: PublisherId, writer_group_id: u16) -> Self {
        let publisher = match publisher_id {
            PublisherId::Byte(id) => id.into(),
            PublisherId::UInt16(id) => id.into(),
            PublisherId::UInt32(id) => id.into(),
            PublisherId::UInt64(id) => id,
        };
        Self::new(publisher, publisher_id.type_bits(), writer_group_id)
    }

    #[inline]
    fn new(publisher: u64, type_bits: u8, writer_group_id: u16) -> Self {
        Self { publisher, kind: u32::from(type_bits) << 16 | u32::from(writer_group_id) }
    }

    #[inline]
    fn hash(self, multiplier: u64, shift: u32) -> usize {
        // The upper bits of a product depend on all bits of the factor; the kind is spread first, since ids are small.
        let mixed = self.publisher ^ u64::from(self.kind).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let folded = mixed ^ (mixed >> 32);
        (folded.wrapping_mul(multiplier) >> shift) as usize
    }
}

impl Dispatcher {
    /// A dispatcher in which subscriber i is that of `keys[i]`. Several may have the same key, and those that take any
    /// WriterGroup of a publisher also get the messages of the others.
    pub fn new(keys: &[DispatchKey]) -> Result<Self, DispatchError> {
        if u32::try_from(keys.len()).is_err() {
            return Err(DispatchError::TooMany);
        }
        if let Some(entry) = keys.iter().position(|key| key.writer_group_id == Some(ANY_GROUP)) {
            return Err(DispatchError::WriterGroupIdZero { entry });
        }
        let (groups, subscribers) = group(keys);
        let bits = (2 * groups.len()).next_power_of_two().trailing_zeros().max(3);
        let any_group = keys.iter().any(|key| key.writer_group_id.is_none());
        // Two keys have the same hash for all multipliers only if they mix to the same 64 bits, which needs ids made
        // for it, and even then MAX_STEPS of them find a place.
        let tables = (bits..bits + 4).flat_map(|bits| (1..=MULTIPLIERS).map(move |attempt| (bits, attempt)));
        for (bits, attempt) in tables {
            let multiplier = 0xD6E8_FEB8_6659_FD93_u64.wrapping_mul(2 * attempt + 1) | 1;
            let mut table = Self {
                places: vec![Place::default(); 1 << bits],
                multiplier,
                shift: u64::BITS - bits,
                any_group,
                subscribers: subscribers.clone(),
            };
            if groups.iter().all(|(key, range)| table.put(*key, range.clone())) {
                return Ok(table);
            }
        }
        Err(DispatchError::Collisions)
    }

    /// Puts a key near to where its hash points; `false` if there is no place.
    fn put(&mut self, key: Key, range: Range<u32>) -> bool {
        let start = key.hash(self.multiplier, self.shift);
        let mask = self.places.len() - 1;
        for step in 0..MAX_STEPS {
            if let Some(place) = self.places.get_mut((start + step) & mask)
                && place.first == place.end
            {
                *place = Place { publisher: key.publisher, kind: key.kind, first: range.start, end: range.end };
                return true;
            }
        }
        false
    }

    /// The subscribers of a UADP message, by their index in [`Self::new`]; none for messages that nobody reads or
    /// whose head is cut. Only the head is looked at.
    #[inline]
    pub fn find(&self, uadp: &[u8]) -> &[u32] {
        let Some((publisher, type_bits, group)) = head(uadp) else { return &[] };
        let found = self.look_up(Key::new(publisher, type_bits, group));
        if found.is_empty() && self.any_group && group != ANY_GROUP {
            return self.look_up(Key::new(publisher, type_bits, ANY_GROUP));
        }
        found
    }

    #[inline]
    fn look_up(&self, key: Key) -> &[u32] {
        let start = key.hash(self.multiplier, self.shift);
        let mask = self.places.len().wrapping_sub(1);
        for step in 0..MAX_STEPS {
            let Some(place) = self.places.get((start + step) & mask) else { return &[] };
            if place.first == place.end {
                return &[];
            }
            if place.publisher == key.publisher && place.kind == key.kind {
                return self.subscribers.get(place.first as usize..place.end as usize).unwrap_or_default();
            }
        }
        &[]
    }

    /// Places of the table.
    pub fn places(&self) -> usize {
        self.places.len()
    }
}

/// Every key once, with the range of its subscribers.
fn group(keys: &[DispatchKey]) -> (Vec<(Key, Range<u32>)>, Vec<u32>) {
    let key = |entry: &DispatchKey| Key::of(entry.publisher_id, entry.writer_group_id.unwrap_or(ANY_GROUP));
    let mut sorted: Vec<(Key, u32)> = keys.iter().map(key).zip(0..).collect();
    sorted.sort_unstable();
    let any = |of: Key| {
        let wanted = Key { publisher: of.publisher, kind: of.kind & !u32::from(u16::MAX) };
        let from = sorted.partition_point(|(key, _)| *key < wanted);
        let to = sorted.partition_point(|(key, _)| *key <= wanted);
        sorted.get(from..to).unwrap_or_default().iter().map(|(_, subscriber)| *subscriber)
    };
    let (mut groups, mut subscribers) = (Vec::new(), Vec::new());
    for chunk in sorted.chunk_by(|(a, _), (b, _)| a == b) {
        let Some(&(key, _)) = chunk.first() else { continue };
        let first = subscribers.len() as u32;
        subscribers.extend(chunk.iter().map(|(_, subscriber)| *subscriber));
        if key.kind & u32::from(u16::MAX) != u32::from(ANY_GROUP) {
            subscribers.extend(any(key));
        }
        groups.push((key, first..subscribers.len() as u32));
    }
    (groups, subscribers)
}

/// PublisherId with its type, and WriterGroupId or [`ANY_GROUP`], out of the head of a message.
#[inline]
pub(crate) fn head(uadp: &[u8]) -> Option<(u64, u8, u16)> {
    const DATA_SET_CLASS_ID_BYTES: usize = 16;
    let (&first, mut rest) = uadp.split_first()?;
    if first & uadp_flags::PUBLISHER_ID == 0 {
        return None;
    }
    let mut extended = 0;
    if first & uadp_flags::EXTENDED_FLAGS1 != 0 {
        let (&flags, more) = rest.split_first()?;
        (extended, rest) = (flags, more);
        if extended & extended_flags1::EXTENDED_FLAGS2 != 0 {
            rest = rest.get(1..)?;
        }
    }
    let type_bits = extended & extended_flags1::PUBLISHER_ID_TYPE_MASK;
    let publisher = match type_bits {
        0 => u64::from(take(&mut rest).map(u8::from_le_bytes)?),
        1 => u64::from(take(&mut rest).map(u16::from_le_bytes)?),
        2 => u64::from(take(&mut rest).map(u32::from_le_bytes)?),
        3 => take(&mut rest).map(u64::from_le_bytes)?,
        _ => return None,
    };
    if first & uadp_flags::GROUP_HEADER == 0 {
        return Some((publisher, type_bits, ANY_GROUP));
    }
    if extended & extended_flags1::DATA_SET_CLASS_ID != 0 {
        rest = rest.get(DATA_SET_CLASS_ID_BYTES..)?;
    }
    let [flags] = take(&mut rest)?;
    if flags & group_flags::WRITER_GROUP_ID == 0 {
        return Some((publisher, type_bits, ANY_GROUP));
    }
    Some((publisher, type_bits, take(&mut rest).map(u16::from_le_bytes)?))
}

#[inline]
fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (bytes, more) = rest.split_first_chunk()?;
    *rest = more;
    Some(*bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{GroupHeaderLayout, NetworkMessageLayout};
    use crate::template::WriterTemplate;

    fn key(publisher_id: PublisherId, writer_group_id: impl Into<Option<u16>>) -> DispatchKey {
        DispatchKey { publisher_id, writer_group_id: writer_group_id.into() }
    }

    fn message(publisher_id: PublisherId, writer_group_id: Option<u16>) -> Vec<u8> {
        let group_header =
            writer_group_id.map(|id| GroupHeaderLayout { writer_group_id: Some(id), ..GroupHeaderLayout::default() });
        let layout = NetworkMessageLayout { publisher_id, group_header, ..NetworkMessageLayout::papers(1, 1, 3) };
        WriterTemplate::new(&layout, None).unwrap().frame().to_vec()
    }

    #[test]
    fn finds_every_publisher_and_no_other() {
        for count in [1, 2, 10, 100, 1_000, 4_096] {
            let id = |i: usize| PublisherId::UInt16((i / 4) as u16);
            let keys: Vec<_> = (0..count).map(|i| key(id(i), 100 + (i % 4) as u16)).collect();
            let dispatcher = Dispatcher::new(&keys).unwrap();
            for i in 0..count {
                let found = dispatcher.find(&message(id(i), Some(100 + (i % 4) as u16)));
                assert_eq!(found, [i as u32], "{i} of {count}");
            }
            assert!(dispatcher.find(&message(id(0), Some(99))).is_empty());
            assert!(dispatcher.find(&message(PublisherId::UInt16(60_000), Some(100))).is_empty());
            assert!(dispatcher.find(&message(PublisherId::UInt32(0), Some(100))).is_empty(), "another type");
            assert!(dispatcher.find(&message(id(0), None)).is_empty(), "no WriterGroupId");
            assert!(dispatcher.places() <= 16 * count.max(4), "{} places for {count}", dispatcher.places());
        }
    }

    #[test]
    fn all_types_of_publisher_and_all_forms_of_header() {
        let ids = [PublisherId::Byte(7), PublisherId::UInt16(7), PublisherId::UInt32(7), PublisherId::UInt64(7)];
        let keys: Vec<_> = ids.into_iter().map(|id| key(id, 5)).collect();
        let dispatcher = Dispatcher::new(&keys).unwrap();
        for (id, subscriber) in ids.into_iter().zip(0_u32..) {
            let good = message(id, Some(5));
            assert_eq!(dispatcher.find(&good), [subscriber]);
            // With DataSetClassId and ExtendedFlags2, before and after the PublisherId.
            let (head, tail) = (1 + usize::from(subscriber > 0), 1 + usize::from(subscriber > 0) + id.bytes());
            let extended = id.type_bits() | extended_flags1::DATA_SET_CLASS_ID | extended_flags1::EXTENDED_FLAGS2;
            let other = [&[good[0] | 0x80, extended, 0][..], &good[head..tail], &[0xAA; 16], &good[tail..]].concat();
            assert_eq!(dispatcher.find(&other), [subscriber]);
            for end in 0..tail + 3 {
                assert!(dispatcher.find(&good[..end]).is_empty(), "{id:?} cut at {end}");
            }
        }
        assert!(dispatcher.find(&[0x91, 0x04, 1, 0, 0, 0, b'a']).is_empty(), "a String");
    }

    #[test]
    fn several_subscribers_of_one_key_and_those_of_any_group() {
        let id = PublisherId::UInt64(u64::MAX);
        let keys = [key(id, 5), key(id, None), key(id, 5), key(PublisherId::Byte(1), 5), key(id, 6)];
        let dispatcher = Dispatcher::new(&keys).unwrap();
        assert_eq!(dispatcher.find(&message(id, Some(5))), [0, 2, 1]);
        assert_eq!(dispatcher.find(&message(id, Some(6))), [4, 1]);
        assert_eq!(dispatcher.find(&message(id, Some(7))), [1]);
        assert_eq!(dispatcher.find(&message(id, None)), [1]);
        assert_eq!(dispatcher.find(&message(PublisherId::Byte(1), Some(5))), [3]);
        assert_eq!(
            Dispatcher::new(&[key(id, 1), key(id, 0)]).unwrap_err(),
            DispatchError::WriterGroupIdZero { entry: 1 }
        );
        assert!(Dispatcher::new(&[]).unwrap().find(&message(id, Some(5))).is_empty());
    }

    #[test]
    fn ids_made_to_collide_are_refused_not_slow() {
        let alike = |group: u16| {
            let kind = u64::from(Key::of(PublisherId::UInt64(0), group).kind);
            key(PublisherId::UInt64(kind.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x1234_5678), group)
        };
        let keys: Vec<_> = (1..=MAX_STEPS as u16 + 1).map(alike).collect();
        assert_eq!(Dispatcher::new(&keys).unwrap_err(), DispatchError::Collisions);
        let dispatcher = Dispatcher::new(&keys[1..]).unwrap();
        for (key, subscriber) in keys[1..].iter().zip(0_u32..) {
            assert_eq!(dispatcher.find(&message(key.publisher_id, key.writer_group_id)), [subscriber]);
        }
    }

    #[test]
    fn ids_of_any_pattern_stay_near_to_their_place() {
        let patterns: [fn(u64) -> u64; 4] =
            [|i| i, |i| i << 48, |i| i * 0x1_0001, |i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15)];
        for pattern in patterns {
            let keys: Vec<_> = (0..4_096).map(|i| key(PublisherId::UInt64(pattern(i)), 1)).collect();
            assert!(Dispatcher::new(&keys).is_ok_and(|dispatcher| dispatcher.places() <= 1 << 16));
        }
    }
}
