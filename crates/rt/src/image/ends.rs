//! The two ends of one direction.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use units::{Nanos, Tai};

use super::layout::{
    AT_APPLICATION_HEARTBEAT, AT_ENGINE_HEARTBEAT, Place, SLOT_AT, SLOT_CYCLE, SLOT_HEAD_WORDS, SLOT_SEQUENCE,
    SLOT_STATUS, WORD_BYTES,
};
use super::triple::{FRESH, SLOTS, Seat};
use super::{Life, Memory, claim, futex};
use crate::clock;

/// What both ends have: a seat at the exchange, and a private copy of the data.
///
/// The copy costs a few ten nanoseconds a kilobyte and buys two things: every access to shared memory is an atomic one,
/// so that no foreign process can do worse than spoil values; and a writer goes on from what it wrote last, not from
/// what happens to stand in the slot it was given.
#[derive(Debug)]
struct End {
    memory: Arc<Memory>,
    place: Place,
    seat: Seat,
    claim_at: usize,
    claim: u64,
    heartbeat_at: usize,
    /// Whole words, so longer than the data by up to 7 bytes.
    copy: Box<[u8]>,
}

impl End {
    fn new(memory: Arc<Memory>, place: Place, seat: Seat, held: Held) -> Self {
        let heartbeat_at = if held.engine { AT_ENGINE_HEARTBEAT } else { AT_APPLICATION_HEARTBEAT } / WORD_BYTES;
        let copy = vec![0; place.data_words() * WORD_BYTES].into_boxed_slice();
        Self { memory, place, seat, claim_at: held.at, claim: held.claim, heartbeat_at, copy }
    }

    #[inline]
    fn half(&self, index: usize) -> &AtomicU32 {
        &self.memory.file.halves()[index]
    }

    fn beat(&self) {
        self.memory.file.words()[self.heartbeat_at].fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for End {
    fn drop(&mut self) {
        claim::give_back(&self.memory.file.words()[self.claim_at], self.claim);
    }
}

/// The slot that an end may use now, head and data.
#[inline]
fn slot<'a>(memory: &'a Memory, place: &Place, seat: &Seat) -> (&'a [AtomicU64], &'a [AtomicU64]) {
    let begin = place.slot(seat.slot());
    memory.file.words()[begin..begin + SLOT_HEAD_WORDS + place.data_words()].split_at(SLOT_HEAD_WORDS)
}

/// The word of a direction's exchange.
#[inline]
pub(super) fn word<'a>(memory: &'a Memory, place: &Place) -> &'a AtomicU32 {
    &memory.file.halves()[place.state]
}

/// A claim that was taken.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) engine: bool,
    pub(super) at: usize,
    pub(super) claim: u64,
}

/// Writes one direction of a process image; all variables change together.
///
/// One process at a time holds it. Given back when dropped; when its process dies, the next one may take it.
#[derive(Debug)]
pub struct Writer {
    end: End,
    published: u64,
    status: u32,
}

impl Writer {
    pub(super) fn new(memory: Arc<Memory>, place: Place, seat: Seat, held: Held) -> Self {
        // Goes on behind the last number of whoever wrote before.
        let number = |slot| memory.file.words()[place.slot(slot) + SLOT_SEQUENCE].load(Ordering::Relaxed);
        let published = (0..SLOTS as usize).map(number).max().unwrap_or(0);
        Self { end: End::new(memory, place, seat, held), published, status: 0 }
    }

    /// The OPC UA StatusCode (OPC 10000-4 §7.39) that goes with the values from the next [`Self::write`] on, at first 0
    /// (Good). A writer that has nothing new says so here instead of stopping to write.
    pub fn set_status(&mut self, status: u32) {
        self.status = status;
    }

    /// Publishes a set of values: of this `cycle`, valid at `at`. `fill` gets the data as it was written last (0 at
    /// first) and changes what it likes.
    ///
    /// Wait-free: no lock, no allocation, and no system call unless the other side sleeps in [`Reader::wait`].
    #[inline]
    pub fn write(&mut self, cycle: i64, at: Tai, fill: impl FnOnce(&mut [u8])) {
        let end = &mut self.end;
        fill(&mut end.copy[..end.place.data_bytes]);
        self.published = self.published.wrapping_add(1).max(1);
        let (head, data) = slot(&end.memory, &end.place, &end.seat);
        head[SLOT_CYCLE].store(cycle as u64, Ordering::Relaxed);
        head[SLOT_AT].store(at.0 as u64, Ordering::Relaxed);
        head[SLOT_SEQUENCE].store(self.published, Ordering::Relaxed);
        head[SLOT_STATUS].store(u64::from(self.status), Ordering::Relaxed);
        for (word, bytes) in data.iter().zip(end.copy.chunks_exact(WORD_BYTES)) {
            word.store(u64::from_le_bytes(std::array::from_fn(|byte| bytes[byte])), Ordering::Relaxed);
        }
        end.seat.publish(word(&end.memory, &end.place));
        end.beat();
        notify(&end.memory, &end.place);
    }
}

/// Tells whoever sleeps on a direction that something has changed; a system call only when somebody does.
pub(super) fn notify(memory: &Memory, place: &Place) {
    let halves = memory.file.halves();
    // Behind the change and in one order with `waiters`, which a reader sets before the kernel compares this number a
    // last time: one of the two sees the other.
    halves[place.changes].fetch_add(1, Ordering::SeqCst);
    fence(Ordering::SeqCst);
    if halves[place.waiters].load(Ordering::SeqCst) != 0 {
        // Before the call: whoever wakes and wants to sleep again sets it anew.
        halves[place.waiters].store(0, Ordering::SeqCst);
        futex::wake_all(&halves[place.changes]);
    }
}

/// A set of values as it was published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Snapshot<'a> {
    /// The cycle it belongs to, by the writer's count.
    pub cycle: i64,
    /// When it was valid, by the writer.
    pub at: Tai,
    /// The OPC UA StatusCode of the set; 0 is Good.
    pub status: u32,
    /// Which publication it is, counted from 1; a gap to the one before is what was replaced unread.
    pub sequence: u64,
    /// Whether it is newer than what the last read gave.
    pub fresh: bool,
    /// All variables of the direction; a field's value stands at its `range()`.
    pub bytes: &'a [u8],
}

/// What a wait ended with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    /// There is something new to read.
    Fresh,
    /// Nothing new came in time.
    TimedOut,
    /// The engine has said stop.
    Stopped,
}

/// Reads one direction of a process image: always the newest set, always a whole one.
///
/// One process at a time holds it. Given back when dropped; when its process dies, the next one may take it.
#[derive(Debug)]
pub struct Reader {
    end: End,
    cycle: i64,
    at: Tai,
    sequence: u64,
    status: u32,
}

impl Reader {
    pub(super) fn new(memory: Arc<Memory>, place: Place, seat: Seat, held: Held) -> Self {
        let end = End::new(memory, place, seat, held);
        let mut reader = Self { end, cycle: 0, at: Tai(0), sequence: 0, status: 0 };
        // What the last reader had taken is still the newest there is until something fresh comes.
        reader.copy_out();
        reader
    }

    /// The newest set; none as long as nothing was published.
    ///
    /// Wait-free: no system call, no lock, no allocation.
    #[inline]
    pub fn read(&mut self) -> Option<Snapshot<'_>> {
        let fresh = self.end.seat.take(word(&self.end.memory, &self.end.place));
        if fresh {
            self.copy_out();
        }
        self.end.beat();
        (self.sequence != 0).then(|| Snapshot {
            cycle: self.cycle,
            at: self.at,
            status: self.status,
            sequence: self.sequence,
            fresh,
            bytes: &self.end.copy[..self.end.place.data_bytes],
        })
    }

    /// Sleeps until there is something new to read, but not longer than `timeout`.
    ///
    /// For an application that has nothing else to do; the writer then pays a system call. Not for a cyclic thread.
    pub fn wait(&mut self, timeout: Nanos) -> Waited {
        let end = &self.end;
        let until = clock::monotonic() + timeout;
        loop {
            let changes = end.half(end.place.changes).load(Ordering::SeqCst);
            if end.half(end.place.state).load(Ordering::Acquire) & FRESH != 0 {
                return Waited::Fresh;
            }
            if end.memory.life() == Life::Stopped {
                return Waited::Stopped;
            }
            let left = until - clock::monotonic();
            if left <= Nanos::ZERO {
                return Waited::TimedOut;
            }
            end.half(end.place.waiters).store(1, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            futex::wait(end.half(end.place.changes), changes, left);
        }
    }

    fn copy_out(&mut self) {
        let place = self.end.place;
        let (head, data) = slot(&self.end.memory, &place, &self.end.seat);
        self.cycle = head[SLOT_CYCLE].load(Ordering::Relaxed) as i64;
        self.at = Tai(head[SLOT_AT].load(Ordering::Relaxed) as i64);
        self.sequence = head[SLOT_SEQUENCE].load(Ordering::Relaxed);
        self.status = head[SLOT_STATUS].load(Ordering::Relaxed) as u32;
        for (bytes, word) in self.end.copy.chunks_exact_mut(WORD_BYTES).zip(data) {
            bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
        }
    }
}
