//! The rings a socket shares with the kernel: one side writes entries and its index, the other follows.
//!
//! The crates that have this were no choice: xdpilone is under the EUPL, xsk-rs links the C libraries libxdp and
//! libbpf.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::memory::Mapping;

/// Where a ring lies in its mapping, from `XDP_MMAP_OFFSETS`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) producer: usize,
    pub(super) consumer: usize,
    pub(super) flags: usize,
    pub(super) entries: usize,
    /// How many entries, a power of two.
    pub(super) count: u32,
}

/// What may lie in a ring: plain numbers, valid for every bit pattern.
pub(super) trait Entry: Copy {}
impl Entry for u64 {}
impl Entry for libc::xdp_desc {}

/// What both sides have.
#[derive(Debug)]
struct Ring<T> {
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    wakeup: Wakeup,
    entries: NonNull<T>,
    count: u32,
}

/// Where the kernel says that it needs a system call; it can be looked at without the ring.
#[derive(Debug, Clone)]
pub(super) struct Wakeup {
    flags: NonNull<AtomicU32>,
    _mapping: Arc<Mapping>,
}

// SAFETY: the pointer leads into the mapping that is kept alive, to a word that is only ever reached atomically.
unsafe impl Send for Wakeup {}
// SAFETY: as above.
unsafe impl Sync for Wakeup {}

impl Wakeup {
    /// Whether the kernel asks for a system call before it goes on.
    #[inline]
    pub(super) fn is_needed(&self) -> bool {
        // SAFETY: aligned and within the mapping (`Ring::new`), which lives as long as this.
        let flags = unsafe { self.flags.as_ref() };
        flags.load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }
}

// SAFETY: the pointers lead into the mapping that the ring keeps alive, to memory no other Rust object uses.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T: Entry> Ring<T> {
    /// None when `layout` does not lie within the mapping, or not where such numbers may.
    fn new(mapping: Arc<Mapping>, layout: Layout) -> Option<Self> {
        if !layout.count.is_power_of_two() {
            return None;
        }
        Some(Self {
            producer: mapping.place(layout.producer, 1)?,
            consumer: mapping.place(layout.consumer, 1)?,
            entries: mapping.place(layout.entries, layout.count as usize)?,
            count: layout.count,
            wakeup: Wakeup { flags: mapping.place(layout.flags, 1)?, _mapping: mapping },
        })
    }

    #[inline]
    fn producer(&self) -> &AtomicU32 {
        // SAFETY: aligned and within the mapping (`new`), which lives as long as the ring; both sides use it atomically.
        unsafe { self.producer.as_ref() }
    }

    #[inline]
    fn consumer(&self) -> &AtomicU32 {
        // SAFETY: as above.
        unsafe { self.consumer.as_ref() }
    }

    #[inline]
    fn entry(&self, index: u32) -> *mut T {
        // SAFETY: the masked index is below `count`, and so many entries lie within the mapping (`new`).
        unsafe { self.entries.as_ptr().add((index & (self.count - 1)) as usize) }
    }
}

/// The side that writes entries.
#[derive(Debug)]
pub(super) struct Producer<T> {
    ring: Ring<T>,
    next: u32,
}

impl<T: Entry> Producer<T> {
    pub(super) fn new(mapping: Arc<Mapping>, layout: Layout) -> Option<Self> {
        let ring = Ring::new(mapping, layout)?;
        let next = ring.producer().load(Ordering::Relaxed);
        Some(Self { ring, next })
    }

    /// Adds an entry, which the other side sees at once; false when there is no room.
    #[inline]
    pub(super) fn push(&mut self, entry: T) -> bool {
        // Acquire: the other side has read the entry before it moved its index past it.
        if self.next.wrapping_sub(self.ring.consumer().load(Ordering::Acquire)) >= self.ring.count {
            return false;
        }
        // SAFETY: in bounds (`entry`), and the kernel does not read it before the index below says so.
        unsafe { self.ring.entry(self.next).write(entry) };
        self.next = self.next.wrapping_add(1);
        // Release: whoever sees the index sees the entry.
        self.ring.producer().store(self.next, Ordering::Release);
        true
    }

    /// Takes the newest entry back. The other side must not have looked since it was added.
    pub(super) fn retract(&mut self) {
        self.next = self.next.wrapping_sub(1);
        self.ring.producer().store(self.next, Ordering::Release);
    }

    /// Whether the other side has taken everything.
    #[inline]
    pub(super) fn is_drained(&self) -> bool {
        self.ring.consumer().load(Ordering::Acquire) == self.next
    }

    /// Where the kernel says that it needs a system call before it goes on.
    pub(super) fn wakeup(&self) -> &Wakeup {
        &self.ring.wakeup
    }
}

/// The side that takes entries.
#[derive(Debug)]
pub(super) struct Consumer<T> {
    ring: Ring<T>,
    next: u32,
}

impl<T: Entry> Consumer<T> {
    pub(super) fn new(mapping: Arc<Mapping>, layout: Layout) -> Option<Self> {
        let ring = Ring::new(mapping, layout)?;
        let next = ring.consumer().load(Ordering::Relaxed);
        Some(Self { ring, next })
    }

    /// Whether nothing is there.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.ring.producer().load(Ordering::Acquire) == self.next
    }

    /// Takes the oldest entry; its place is free at once.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<T> {
        // Acquire: the entry was written before the index moved past it.
        if self.ring.producer().load(Ordering::Acquire) == self.next {
            return None;
        }
        // SAFETY: in bounds (`entry`), written, and valid whatever its bits (`Entry`); the kernel does not write it
        // again before the index below says so.
        let entry = unsafe { self.ring.entry(self.next).read() };
        self.next = self.next.wrapping_add(1);
        // Release: the entry has been read.
        self.ring.consumer().store(self.next, Ordering::Release);
        Some(entry)
    }
}

/// The side that takes entries, in several threads at once: whoever moves the index past one has it.
#[derive(Debug)]
pub(super) struct SharedConsumer(Ring<u64>);

// SAFETY: through `&self` the indices and the entries are reached by atomic operations only.
unsafe impl Sync for SharedConsumer {}

impl SharedConsumer {
    pub(super) fn new(mapping: Arc<Mapping>, layout: Layout) -> Option<Self> {
        Ring::new(mapping, layout).map(Self)
    }

    /// Takes the oldest entry. A thread that is interrupted here holds up no other.
    #[inline]
    pub(super) fn pop(&self) -> Option<u64> {
        let mut next = self.0.consumer().load(Ordering::Relaxed);
        // Acquire: the entry was written before the index moved past it.
        while self.0.producer().load(Ordering::Acquire) != next {
            // SAFETY: in bounds and aligned (`entry`); only the kernel writes it. If it did since `next` was read,
            // others have taken the entry, and the exchange fails.
            let entry = unsafe { AtomicU64::from_ptr(self.0.entry(next)) }.load(Ordering::Relaxed);
            let moved = next.wrapping_add(1);
            // Release: the entry has been read.
            match self.0.consumer().compare_exchange_weak(next, moved, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Some(entry),
                Err(now) => next = now,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: Layout = Layout { producer: 0, consumer: 64, flags: 128, entries: 192, count: 4 };

    fn pair() -> (Producer<u64>, Consumer<u64>) {
        let mapping = Arc::new(Mapping::anonymous(4096).unwrap());
        (Producer::new(Arc::clone(&mapping), LAYOUT).unwrap(), Consumer::new(mapping, LAYOUT).unwrap())
    }

    #[test]
    fn entries_come_in_order_and_a_full_ring_takes_none() {
        let (mut producer, mut consumer) = pair();
        for round in 0..5_u64 {
            assert!(producer.is_drained() && consumer.is_empty());
            for entry in 0..4 {
                assert!(producer.push(10 * round + entry));
            }
            assert!(!producer.push(99));
            for entry in 0..4 {
                assert_eq!(consumer.pop(), Some(10 * round + entry));
            }
            assert_eq!(consumer.pop(), None);
        }
        producer.push(7);
        producer.push(8);
        producer.retract();
        assert_eq!((consumer.pop(), consumer.pop()), (Some(7), None));
    }

    #[test]
    fn indices_wrap() {
        let mapping = Arc::new(Mapping::anonymous(4096).unwrap());
        for place in [LAYOUT.producer, LAYOUT.consumer] {
            let index: NonNull<AtomicU32> = mapping.place(place, 1).unwrap();
            // SAFETY: within the mapping, which is alive.
            unsafe { index.as_ref() }.store(u32::MAX - 1, Ordering::Relaxed);
        }
        let mut producer = Producer::<u64>::new(Arc::clone(&mapping), LAYOUT).unwrap();
        let mut consumer = Consumer::<u64>::new(mapping, LAYOUT).unwrap();
        for entry in 0..20 {
            assert!(producer.push(entry));
            assert_eq!(consumer.pop(), Some(entry));
        }
    }

    #[test]
    fn what_several_threads_take_each_has_once() {
        const ENTRIES: u64 = 20_000;
        let mapping = Arc::new(Mapping::anonymous(4096).unwrap());
        let mut producer = Producer::<u64>::new(Arc::clone(&mapping), LAYOUT).unwrap();
        let consumer = &SharedConsumer::new(mapping, LAYOUT).unwrap();
        assert_eq!(consumer.pop(), None);
        let (done, taken) = (&AtomicU64::new(0), &std::sync::Mutex::new(Vec::new()));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let mut mine = Vec::new();
                    while done.load(Ordering::Relaxed) < ENTRIES {
                        match consumer.pop() {
                            Some(entry) => {
                                mine.push(entry);
                                done.fetch_add(1, Ordering::Relaxed);
                            }
                            None => std::thread::yield_now(),
                        }
                    }
                    assert!(mine.is_sorted());
                    taken.lock().unwrap().extend(mine);
                });
            }
            for entry in 0..ENTRIES {
                while !producer.push(entry) {
                    std::thread::yield_now();
                }
            }
        });
        let mut taken = taken.lock().unwrap().clone();
        taken.sort_unstable();
        assert!(taken.into_iter().eq(0..ENTRIES));
    }

    #[test]
    fn what_does_not_lie_in_the_mapping_is_refused() {
        let mapping = Arc::new(Mapping::anonymous(4096).unwrap());
        for layout in [
            Layout { producer: 4096, ..LAYOUT },
            Layout { consumer: 2, ..LAYOUT },
            Layout { entries: 4096 - 31, ..LAYOUT },
            Layout { entries: 4096 - 24, ..LAYOUT },
            Layout { flags: usize::MAX, ..LAYOUT },
            Layout { count: 3, ..LAYOUT },
            Layout { count: 0, ..LAYOUT },
            Layout { count: 1 << 31, ..LAYOUT },
        ] {
            assert!(Producer::<u64>::new(Arc::clone(&mapping), layout).is_none(), "{layout:?}");
        }
    }
}
