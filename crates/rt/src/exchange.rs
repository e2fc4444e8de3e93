//! A triple buffer between two threads of one process: one gives, the other takes the newest.
//!
//! Neither ever waits. It is the exchange of the process image ([`crate::image::triple`]) around slots of any type, for
//! what need not outlive the process; each slot is in one hand at a time.
//!
//! ```
//! let (mut giver, mut taker) = downbeat_rt::exchange::exchange([0; 3]);
//! *giver.slot() = 1;
//! assert!(giver.give(), "nothing before it was left untaken");
//! *giver.slot() = 2;
//! assert!(!giver.give(), "the one was not taken");
//! assert!(taker.take());
//! assert_eq!(*taker.slot(), 2);
//! assert!(!taker.take(), "nothing new");
//! assert_eq!(*taker.slot(), 2);
//! ```

use std::cell::UnsafeCell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use crate::image::triple::{Seat, reset};

/// What two threads share.
struct Shared<T> {
    word: Line<AtomicU32>,
    slots: [Line<UnsafeCell<T>>; 3],
}

/// In cache lines of its own; two, because processors fetch neighbours in pairs.
#[repr(align(128))]
struct Line<T>(T);

// SAFETY: a slot is touched only through a `Giver` or a `Taker`, each of which exists once, and only the slot that its seat
// has. The word gives no slot to two seats, and orders what one side did with a slot before what the other does.
// `T: Send` because values are made and dropped on one side and changed on the other.
unsafe impl<T: Send> Sync for Shared<T> {}

/// The side that gives.
pub struct Giver<T> {
    shared: Arc<Shared<T>>,
    seat: Seat,
}

/// The side that takes.
pub struct Taker<T> {
    shared: Arc<Shared<T>>,
    seat: Seat,
}

/// Both sides of an exchange of these slots. The taker begins with the last of them, and nothing is given.
pub fn exchange<T>(slots: [T; 3]) -> (Giver<T>, Taker<T>) {
    let shared =
        Arc::new(Shared { word: Line(AtomicU32::new(0)), slots: slots.map(|slot| Line(UnsafeCell::new(slot))) });
    reset(&shared.word.0);
    let [giver, taker] = [Seat::first_of_engine(), Seat::first_of_application()];
    (Giver { shared: Arc::clone(&shared), seat: giver }, Taker { shared, seat: taker })
}

impl<T> Giver<T> {
    /// What is to be given next: with the content of some earlier one.
    #[inline]
    pub fn slot(&mut self) -> &mut T {
        // SAFETY: the slot of this seat is nobody else's until it is given, which takes `&mut self`, too.
        unsafe { &mut *self.shared.slots[self.seat.slot()].0.get() }
    }

    /// Gives the slot. Tells whether the one given before had been taken; true also before the first.
    #[inline]
    pub fn give(&mut self) -> bool {
        self.seat.publish(&self.shared.word.0)
    }
}

impl<T> Taker<T> {
    /// Takes the newest if it has not been taken; tells whether there was one.
    #[inline]
    pub fn take(&mut self) -> bool {
        self.seat.take(&self.shared.word.0)
    }

    /// What was taken last.
    #[inline]
    pub fn slot(&self) -> &T {
        // SAFETY: the slot of this seat is nobody else's until it is given back, which takes `&mut self`.
        unsafe { &*self.shared.slots[self.seat.slot()].0.get() }
    }

    /// The same, to be changed.
    #[inline]
    pub fn slot_mut(&mut self) -> &mut T {
        // SAFETY: as for `slot`, and nobody else has it from this seat, which is borrowed.
        unsafe { &mut *self.shared.slots[self.seat.slot()].0.get() }
    }
}

impl<T> fmt::Debug for Giver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Giver").field("seat", &self.seat).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Taker<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Taker").field("seat", &self.seat).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_torn_and_what_was_taken_is_known() {
        const LAST: u64 = 200_000;
        let (mut giver, mut taker) = exchange([[0_u64; 20]; 3]);
        std::thread::scope(|scope| {
            let giving = scope.spawn(move || {
                let mut taken = 0;
                for value in 1..=LAST {
                    giver.slot().fill(value);
                    taken += u64::from(giver.give() && value > 1);
                }
                (giver, taken)
            });
            let (mut last, mut fresh) = (0, 0);
            while last < LAST {
                fresh += u64::from(taker.take());
                let [first, .., end] = *taker.slot();
                assert!(first == end && first >= last, "{first} and {end} after {last}");
                last = first;
            }
            let (mut giver, taken) = giving.join().unwrap();
            // The last one was taken, too.
            assert_eq!(fresh, taken + u64::from(giver.give()));
        });
    }

    #[test]
    fn slots_are_dropped_once() {
        let counted = Arc::new(());
        let (giver, taker) = exchange([(); 3].map(|()| Arc::clone(&counted)));
        drop(giver);
        assert_eq!(Arc::strong_count(&counted), 4);
        drop(taker);
        assert_eq!(Arc::strong_count(&counted), 1);
    }
}
