//! The exchange of slots behind a process image: a triple buffer that survives the death of one side.
//!
//! There are three slots. The engine owns one, the application owns one, and the third lies *in the middle*. One word
//! says which is which, and whether the writer put the middle one there since the reader last took it (*fresh*). To
//! publish, the writer exchanges its slot with the middle one; to take, the reader does. Either is one compare-and-swap
//! of the word, so no slot is ever on two sides, and what is taken is the newest that was published.
//!
//! Neither side waits for the other. The swap fails only when the other side's came between: the reader's at most once
//! into one publication of the writer, since it takes each only once; the writer's into a take only when it publishes
//! anew within a few nanoseconds. A side that fails [`ATTEMPTS`] times in a row, which takes somebody who breaks these
//! rules, goes on with the slot it has.
//!
//! Because one word holds all three owners, the slot of a process that died is known at whatever instruction it died:
//! [`Seat::succeed`] gives it to the successor.
//!
//! Nothing here touches a slot. The word is whatever implements [`Word`]: shared memory in the process image, and
//! loom's model of memory in `tests/loom_image.rs`, which goes through the interleavings of this very code.

use std::sync::atomic::{AtomicU32, Ordering};

/// Number of slots.
pub const SLOTS: u32 = 3;
/// The bit of the word that says that the reader has not yet taken the middle slot.
pub const FRESH: u32 = 4;
/// How often a side tries to exchange before it goes on with what it has.
pub const ATTEMPTS: u32 = 16;
/// The bits of the word that hold the index of the middle slot; …
const MIDDLE: u32 = 3;
/// … and, this far to the left, those that hold the index of the engine's.
const ENGINE_SHIFT: u32 = 3;
const ENGINE: u32 = 3 << ENGINE_SHIFT;

/// A shared word of 32 bits.
pub trait Word {
    /// Reads it.
    fn load(&self, order: Ordering) -> u32;
    /// Writes it.
    fn store(&self, value: u32, order: Ordering);
    /// Writes `new` if it is `current`, in one step; says whether it was. Never fails for another reason. `order` is
    /// for success; a failure orders nothing.
    fn replace(&self, current: u32, new: u32, order: Ordering) -> bool;
}

impl Word for AtomicU32 {
    #[inline]
    fn load(&self, order: Ordering) -> u32 {
        Self::load(self, order)
    }

    #[inline]
    fn store(&self, value: u32, order: Ordering) {
        Self::store(self, value, order);
    }

    #[inline]
    fn replace(&self, current: u32, new: u32, order: Ordering) -> bool {
        self.compare_exchange(current, new, order, Ordering::Relaxed).is_ok()
    }
}

/// What a new exchange begins with: the engine owns slot 0, slot 1 lies in the middle, the application owns slot 2,
/// nothing is published.
pub fn reset(word: &impl Word) {
    word.store(1, Ordering::Release);
}

/// One side's hold on its slot.
///
/// Not `Clone`: two seats on one side would share a slot.
#[derive(Debug)]
pub struct Seat {
    own: u32,
    engine: bool,
}

impl Seat {
    /// The engine's seat, first or after an earlier one was given up. None when the word gives no three different
    /// slots: somebody else has written there. The caller makes sure that nobody else has this seat.
    pub fn of_engine(word: &impl Word) -> Option<Self> {
        owners(word).map(|[engine, _, _]| Self { own: engine, engine: true })
    }

    /// The application's seat, first or after its predecessor ended, however it did; else as [`Self::of_engine`].
    pub fn succeed(word: &impl Word) -> Option<Self> {
        owners(word).map(|[_, _, application]| Self { own: application, engine: false })
    }

    /// The engine's seat at a word that was [reset] and that nobody has used.
    pub(crate) const fn first_of_engine() -> Self {
        Self { own: 0, engine: true }
    }

    /// The application's there.
    pub(crate) const fn first_of_application() -> Self {
        Self { own: 2, engine: false }
    }

    /// Index of the slot this side may use, always below [`SLOTS`].
    #[inline]
    pub fn slot(&self) -> usize {
        self.own as usize
    }

    /// Writer: hands its filled slot over and gets another one, whose content is old. Tells whether the reader had taken
    /// the one before: true also before the first.
    #[inline]
    pub fn publish(&mut self, word: &impl Word) -> bool {
        for _ in 0..ATTEMPTS {
            let current = word.load(Ordering::Relaxed);
            if self.exchange(word, current, FRESH) {
                return current & FRESH == 0;
            }
        }
        false
    }

    /// Reader: takes the middle slot when it is fresh; else keeps what it has and returns false.
    #[inline]
    pub fn take(&mut self, word: &impl Word) -> bool {
        for _ in 0..ATTEMPTS {
            let current = word.load(Ordering::Relaxed);
            if current & FRESH == 0 {
                return false;
            }
            if self.exchange(word, current, 0) {
                return true;
            }
        }
        false
    }

    #[inline]
    fn exchange(&mut self, word: &impl Word, current: u32, mark: u32) -> bool {
        let middle = current & MIDDLE;
        let engine = if self.engine { middle << ENGINE_SHIFT } else { current & ENGINE };
        // Release: what this side did with its slot comes before whatever the other side does with it.
        // Acquire: the reverse for the slot it gets.
        let exchanged = word.replace(current, self.own | engine | mark, Ordering::AcqRel);
        if exchanged {
            // A process that scribbles over the word may spoil contents, but not make us leave the slots.
            self.own = middle.min(SLOTS - 1);
        }
        exchanged
    }
}

/// The slots of the engine, in the middle and of the application.
fn owners(word: &impl Word) -> Option<[u32; 3]> {
    // Replaced by itself, because a plain load may give an old value, from before the predecessor's last exchange.
    // All changes are such replacements, hence one release sequence: this one is ordered behind each of them.
    let current = (0..ATTEMPTS).find_map(|_| {
        let current = word.load(Ordering::Relaxed);
        word.replace(current, current, Ordering::AcqRel).then_some(current)
    })?;
    let (engine, middle) = ((current & ENGINE) >> ENGINE_SHIFT, current & MIDDLE);
    (engine != middle && engine < SLOTS && middle < SLOTS).then(|| [engine, middle, SLOTS - engine - middle])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seats() -> (AtomicU32, Seat, Seat) {
        let word = AtomicU32::new(9);
        reset(&word);
        let (engine, application) = (Seat::of_engine(&word).unwrap(), Seat::succeed(&word).unwrap());
        (word, engine, application)
    }

    #[test]
    fn the_newest_is_taken_and_only_once() {
        let (word, mut writer, mut reader) = seats();
        let mut slots = [0; 3];
        assert_eq!((writer.slot(), reader.slot()), (0, 2));
        assert!(!reader.take(&word), "nothing is published");
        for value in 1..=100 {
            slots[writer.slot()] = value;
            assert_eq!(writer.publish(&word), value % 3 == 1, "the one before was taken");
            assert_ne!(writer.slot(), reader.slot());
            if value % 3 == 0 {
                assert!(reader.take(&word));
                assert_eq!(slots[reader.slot()], value);
                assert!(!reader.take(&word));
                assert_eq!(slots[reader.slot()], value);
            }
        }
    }

    #[test]
    fn a_successor_finds_the_slot_of_the_dead() {
        // W publishes, R takes: in every order of five steps, whoever writes.
        for steps in 0..32_u32 {
            for engine_writes in [false, true] {
                let (word, mut engine, mut application) = seats();
                for step in 0..5 {
                    let (writer, reader) =
                        if engine_writes { (&mut engine, &mut application) } else { (&mut application, &mut engine) };
                    if steps >> step & 1 == 0 {
                        writer.publish(&word);
                    } else {
                        _ = reader.take(&word);
                    }
                    assert_eq!(Seat::succeed(&word).unwrap().slot(), application.slot());
                    assert_eq!(Seat::of_engine(&word).unwrap().slot(), engine.slot());
                }
            }
        }
    }

    #[test]
    fn foreign_values_never_lead_out_of_the_slots() {
        for foreign in (0..64).chain([u32::MAX, u32::MAX - 4]) {
            let (word, mut engine, mut application) = seats();
            for seat in [&mut engine, &mut application] {
                word.store(foreign, Ordering::Relaxed);
                seat.publish(&word);
                assert!(seat.slot() < 3);
                word.store(foreign, Ordering::Relaxed);
                _ = seat.take(&word);
                assert!(seat.slot() < 3);
                word.store(foreign, Ordering::Relaxed);
                assert!(Seat::succeed(&word).is_none_or(|seat| seat.slot() < 3));
                assert!(Seat::of_engine(&word).is_none_or(|seat| seat.slot() < 3));
            }
        }
        let word = AtomicU32::new(1 | 1 << ENGINE_SHIFT);
        assert!(Seat::succeed(&word).is_none() && Seat::of_engine(&word).is_none(), "one slot on two sides");
    }

    /// A word that another process changes all the time.
    struct Restless(AtomicU32);

    impl Word for Restless {
        fn load(&self, order: Ordering) -> u32 {
            self.0.fetch_add(8, order) | FRESH
        }

        fn store(&self, value: u32, order: Ordering) {
            self.0.store(value, order);
        }

        fn replace(&self, _current: u32, _new: u32, _order: Ordering) -> bool {
            false
        }
    }

    #[test]
    fn nobody_is_held_up() {
        let (_, mut engine, mut application) = seats();
        let word = Restless(AtomicU32::new(1));
        engine.publish(&word);
        assert!(!application.take(&word));
        assert_eq!((engine.slot(), application.slot()), (0, 2), "both go on with what they have");
        assert!(Seat::succeed(&word).is_none());
    }
}
