//! Where everything stands in the memory file of a process image. `docs/process-image.md` gives the same to people.
//!
//! A file that comes from outside is believed in nothing: [`Layout::read`] checks every number against the size of the
//! file before anything is derived from it, and takes a private copy.

use std::io;
use std::sync::atomic::Ordering;

use super::spec::{Direction, Field, ImageSpec, MAX_DATA_BYTES, MAX_FIELDS, MAX_NAME_BYTES};
use super::triple::SLOTS;
use crate::memory::{SharedMemory, invalid};

const MAGIC: u64 = u64::from_le_bytes(*b"dbimage1");
const VERSION: u64 = 1;
/// What stands apart begins in a cache line of its own.
const LINE_BYTES: usize = 64;
pub(super) const WORD_BYTES: usize = size_of::<u64>();
const HALF_BYTES: usize = size_of::<u32>();

// Offsets in bytes. The head.
const AT_MAGIC: usize = 0x00;
const AT_VERSION_AND_HEAD: usize = 0x08;
const AT_FILE_BYTES: usize = 0x10;
const AT_FIELDS: usize = 0x18;
const AT_FIELD_COUNT: usize = 0x20;
pub(super) const AT_ENGINE: usize = 0x28;
pub(super) const AT_LIFE: usize = 0x40;
pub(super) const AT_ENGINE_HEARTBEAT: usize = 0x80;
pub(super) const AT_APPLICATION_HEARTBEAT: usize = 0xC0;
const AT_DIRECTIONS: [usize; 2] = [0x100, 0x200];
const HEAD_BYTES: usize = 0x300;

// Within the block of a direction.
const IN_DATA_BYTES: usize = 0x00;
const IN_SLOT_BYTES: usize = 0x08;
const IN_SLOTS: usize = 0x10;
const IN_STATE: usize = 0x40;
const IN_CHANGES: usize = 0x80;
const IN_WAITERS: usize = 0x84;
const IN_ENGINE_CLAIM: usize = 0xC0;
const IN_APPLICATION_CLAIM: usize = 0xC8;
const DIRECTION_BYTES: usize = 0x100;
const _: () = assert!(AT_DIRECTIONS[0] + DIRECTION_BYTES <= AT_DIRECTIONS[1]);
const _: () = assert!(AT_DIRECTIONS[1] + DIRECTION_BYTES <= HEAD_BYTES);

// Within the entry of a field.
const IN_NAME: usize = 0x00;
const IN_TYPE_AND_DIRECTION: usize = 0x70;
const IN_OFFSET: usize = 0x74;
const IN_BYTES: usize = 0x78;
const FIELD_BYTES: usize = 0x80;
const _: () = assert!(MAX_NAME_BYTES == IN_TYPE_AND_DIRECTION - IN_NAME);

// Within the head of a slot.
pub(super) const SLOT_CYCLE: usize = 0;
pub(super) const SLOT_AT: usize = 1;
pub(super) const SLOT_SEQUENCE: usize = 2;
pub(super) const SLOT_STATUS: usize = 3;
/// Words in the head of a slot; its data follows.
pub(super) const SLOT_HEAD_WORDS: usize = LINE_BYTES / WORD_BYTES;

/// Largest file there can be.
const MAX_FILE_BYTES: usize = HEAD_BYTES
    + MAX_FIELDS * FIELD_BYTES
    + 2 * SLOTS as usize * (LINE_BYTES + MAX_DATA_BYTES.next_multiple_of(LINE_BYTES))
    + 4 * LINE_BYTES;

/// Where a direction's words and slots stand: indices of 64-bit words, or of 32-bit halves where it says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// Half: the word of the exchange.
    pub(super) state: usize,
    /// Half: goes up with every publication and change of life; what is waited on.
    pub(super) changes: usize,
    /// Half: not 0 when somebody waits.
    pub(super) waiters: usize,
    /// The process that holds the engine's end.
    pub(super) engine_claim: usize,
    /// The process that holds the application's end.
    pub(super) application_claim: usize,
    /// First word of slot 0.
    slots: usize,
    /// Words in a slot.
    slot_words: usize,
    /// Bytes of variables.
    pub(super) data_bytes: usize,
}

impl Place {
    fn new(direction: Direction, slots_at: usize, slot_bytes: usize, data_bytes: usize) -> Self {
        let at = AT_DIRECTIONS[direction as usize];
        Self {
            state: (at + IN_STATE) / HALF_BYTES,
            changes: (at + IN_CHANGES) / HALF_BYTES,
            waiters: (at + IN_WAITERS) / HALF_BYTES,
            engine_claim: (at + IN_ENGINE_CLAIM) / WORD_BYTES,
            application_claim: (at + IN_APPLICATION_CLAIM) / WORD_BYTES,
            slots: slots_at / WORD_BYTES,
            slot_words: slot_bytes / WORD_BYTES,
            data_bytes,
        }
    }

    /// Words of data in a slot, the last one perhaps in part.
    pub(super) const fn data_words(&self) -> usize {
        self.data_bytes.div_ceil(WORD_BYTES)
    }

    /// First word of slot `index`, which is below 3.
    #[inline]
    pub(super) const fn slot(&self, index: usize) -> usize {
        self.slots + index * self.slot_words
    }
}

/// Size and places of an image with these variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) spec: ImageSpec,
    pub(super) file_bytes: usize,
    pub(super) places: [Place; 2],
}

impl Layout {
    pub(super) fn of(spec: &ImageSpec) -> Self {
        let mut at = (HEAD_BYTES + spec.fields().len() * FIELD_BYTES).next_multiple_of(LINE_BYTES);
        let mut place = |direction| {
            let data_bytes = spec.data_bytes(direction);
            let slot_bytes = LINE_BYTES + data_bytes.next_multiple_of(LINE_BYTES);
            let place = Place::new(direction, at, slot_bytes, data_bytes);
            at += SLOTS as usize * slot_bytes;
            place
        };
        let places = [place(Direction::Input), place(Direction::Output)];
        Self { spec: spec.clone(), file_bytes: at, places }
    }

    /// Writes what never changes, but for the magic number: [`Self::finish`].
    pub(super) fn write(&self, memory: &SharedMemory) {
        let put = |at: usize, value: u64| memory.words()[at / WORD_BYTES].store(value, Ordering::Relaxed);
        put(AT_VERSION_AND_HEAD, VERSION | (HEAD_BYTES as u64) << 32);
        put(AT_FILE_BYTES, self.file_bytes as u64);
        put(AT_FIELDS, HEAD_BYTES as u64);
        put(AT_FIELD_COUNT, self.spec.fields().len() as u64 | (FIELD_BYTES as u64) << 32);
        for (place, at) in self.places.iter().zip(AT_DIRECTIONS) {
            put(at + IN_DATA_BYTES, place.data_bytes as u64);
            put(at + IN_SLOT_BYTES, (place.slot_words * WORD_BYTES) as u64);
            put(at + IN_SLOTS, (place.slots * WORD_BYTES) as u64);
        }
        for (index, field) in self.spec.fields().iter().enumerate() {
            for (word, value) in entry(field).chunks_exact(WORD_BYTES).enumerate() {
                let value = u64::from_le_bytes(std::array::from_fn(|byte| value[byte]));
                put(HEAD_BYTES + index * FIELD_BYTES + word * WORD_BYTES, value);
            }
        }
    }

    /// Marks the file as complete.
    pub(super) fn finish(memory: &SharedMemory) {
        memory.words()[AT_MAGIC / WORD_BYTES].store(MAGIC, Ordering::Release);
    }

    /// Whether a file of this size can be an image at all.
    pub(super) fn size_allowed(bytes: usize) -> Result<(), String> {
        let fits = (HEAD_BYTES..=MAX_FILE_BYTES).contains(&bytes) && bytes.is_multiple_of(LINE_BYTES);
        fits.then_some(()).ok_or_else(|| format!("a multiple of {LINE_BYTES} from {HEAD_BYTES} to {MAX_FILE_BYTES}"))
    }

    /// Reads and checks the layout of a file whose size is allowed.
    pub(super) fn read(memory: &SharedMemory) -> io::Result<Self> {
        let get = |at: usize| memory.words()[at / WORD_BYTES].load(Ordering::Relaxed);
        if memory.words()[AT_MAGIC / WORD_BYTES].load(Ordering::Acquire) != MAGIC {
            return Err(bad("it does not begin with \"dbimage1\""));
        }
        let (version, head_bytes) = halves(get(AT_VERSION_AND_HEAD));
        if version != VERSION || head_bytes != HEAD_BYTES as u64 {
            return Err(bad(format!("version {version} found, {VERSION} expected: both sides need the same release")));
        }
        let (count, field_bytes) = halves(get(AT_FIELD_COUNT));
        if count > MAX_FIELDS as u64 || field_bytes != FIELD_BYTES as u64 || get(AT_FIELDS) != HEAD_BYTES as u64 {
            return Err(bad(format!("{count} fields of {field_bytes} bytes announced at {}", get(AT_FIELDS))));
        }
        let count = count as usize;
        if HEAD_BYTES + count * FIELD_BYTES > memory.bytes() {
            return Err(bad(format!("{count} fields announced, more than the file holds")));
        }
        let mut spec = ImageSpec::new();
        for index in 0..count {
            let at = HEAD_BYTES + index * FIELD_BYTES;
            let mut bytes = [0; FIELD_BYTES];
            for (word, target) in bytes.chunks_exact_mut(WORD_BYTES).enumerate() {
                target.copy_from_slice(&get(at + word * WORD_BYTES).to_le_bytes());
            }
            let field = field(&bytes).ok_or_else(|| bad(format!("field {index} at offset {at} is unreadable")))?;
            spec = spec.with_field(field)?;
        }
        // The layout follows from the fields: what the file says of itself must be just that.
        let layout = Self::of(&spec);
        let told = [AT_DIRECTIONS[0], AT_DIRECTIONS[1]]
            .map(|at| [get(at + IN_DATA_BYTES), get(at + IN_SLOT_BYTES), get(at + IN_SLOTS)]);
        let expected = layout.places.map(|place| {
            [place.data_bytes, place.slot_words * WORD_BYTES, place.slots * WORD_BYTES].map(|value| value as u64)
        });
        if told != expected || get(AT_FILE_BYTES) != layout.file_bytes as u64 || memory.bytes() != layout.file_bytes {
            return Err(bad(format!(
                "its {} bytes and the places of its slots do not follow from its fields, which make {} bytes",
                memory.bytes(),
                layout.file_bytes
            )));
        }
        Ok(layout)
    }
}

fn bad(text: impl AsRef<str>) -> io::Error {
    invalid(format!("not a process image: {}", text.as_ref()))
}

fn halves(word: u64) -> (u64, u64) {
    (word & u64::from(u32::MAX), word >> 32)
}

fn entry(field: &Field) -> [u8; FIELD_BYTES] {
    let mut bytes = [0; FIELD_BYTES];
    bytes[IN_NAME..field.name.len()].copy_from_slice(field.name.as_bytes());
    bytes[IN_TYPE_AND_DIRECTION] = field.type_id;
    bytes[IN_TYPE_AND_DIRECTION + 1] = field.direction as u8;
    bytes[IN_OFFSET..IN_OFFSET + 4].copy_from_slice(&(field.offset as u32).to_le_bytes());
    bytes[IN_BYTES..IN_BYTES + 4].copy_from_slice(&(field.bytes as u32).to_le_bytes());
    bytes
}

fn field(bytes: &[u8; FIELD_BYTES]) -> Option<Field> {
    let name = &bytes[IN_NAME..IN_NAME + MAX_NAME_BYTES];
    let name = &name[..name.iter().position(|byte| *byte == 0).unwrap_or(MAX_NAME_BYTES)];
    let number = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte])) as usize;
    Some(Field {
        name: std::str::from_utf8(name).ok()?.to_owned(),
        type_id: bytes[IN_TYPE_AND_DIRECTION],
        direction: match bytes[IN_TYPE_AND_DIRECTION + 1] {
            0 => Direction::Input,
            1 => Direction::Output,
            _ => return None,
        },
        offset: number(IN_OFFSET),
        bytes: number(IN_BYTES),
    })
}
