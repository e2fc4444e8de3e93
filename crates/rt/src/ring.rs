//! A ring of trace records in shared memory, from one cyclic thread to one reader, across processes.
//!
//! The producer never waits, never calls the kernel and survives a reader that stalls (records are then
//! counted, not kept). The reader survives a producer that is killed: what was published stays readable.
//! Every word of the shared memory is accessed as an atomic, and indices are masked with a capacity that
//! each side holds privately: a process that scribbles over the memory can spoil records, nothing else.
//! The file is sealed against resizing, so an access never faults.
//!
//! Beside the records the header has a few shared cells for what is not a stream: heartbeat, state, stop
//! flag, counters. Their meaning is the caller's.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::fcntl::{FcntlArg, fcntl};

use crate::memory::{SharedMemory, invalid};

/// Words in a record.
const WORDS: usize = 8;
/// What a ring carries: one cache line.
pub type Record = [u64; WORDS];
/// Number of shared cells.
pub const CELLS: usize = 48;
/// Largest capacity in records (64 MiB of them).
pub const MAX_CAPACITY: usize = 1 << 20;

const MAGIC: u64 = u64::from_le_bytes(*b"dbring/1");
/// Everything that two sides write often stands in lines of its own; two lines apart, because processors
/// fetch neighbours in pairs.
const LINE_WORDS: usize = 8;
const AT_MAGIC: usize = 0;
const AT_CAPACITY: usize = 1;
const AT_PRODUCERS: usize = 2;
const AT_CONSUMERS: usize = 3;
const AT_HEAD: usize = 2 * LINE_WORDS;
const AT_OVERFLOWED: usize = AT_HEAD + 1;
const AT_TAIL: usize = 4 * LINE_WORDS;
const AT_CELLS: usize = 16 * LINE_WORDS;
const AT_RECORDS: usize = AT_CELLS + CELLS * LINE_WORDS;
const HEADER_BYTES: usize = AT_RECORDS * size_of::<u64>();
const _: () = assert!(HEADER_BYTES == 4096);

/// The mapped memory of one ring.
#[derive(Debug)]
struct Memory {
    file: SharedMemory,
    capacity: usize,
}

impl Memory {
    /// A word before the records.
    #[inline]
    fn word(&self, index: usize) -> &AtomicU64 {
        &self.file.words()[index]
    }

    /// The words of a record: one look at the bounds, not one a word.
    #[inline]
    fn slot(&self, position: u64) -> &[AtomicU64] {
        let at = AT_RECORDS + (position as usize & (self.capacity - 1)) * WORDS;
        &self.file.words()[at..at + WORDS]
    }

    fn cell(&self, index: usize) -> &AtomicU64 {
        assert!(index < CELLS, "cell {index}: a ring has {CELLS} cells");
        self.word(AT_CELLS + index * LINE_WORDS)
    }

    /// Takes one end, which only one may hold at a time.
    fn take(self: &Arc<Self>, at: usize, end: &str) -> io::Result<()> {
        self.word(at).compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed).map(drop).map_err(|_| {
            io::Error::new(io::ErrorKind::ResourceBusy, format!("this ring has its {end} already; make another ring"))
        })
    }
}

/// A ring, as one process sees it. Clones share the memory.
#[derive(Debug, Clone)]
pub struct Ring(Arc<Memory>);

impl Ring {
    /// Makes a ring for `capacity` records, a power of two from 2 to [`MAX_CAPACITY`]; all pages are there
    /// when it returns. `name` is for people (`/proc/PID/maps` shows it).
    ///
    /// # Errors
    /// Another capacity, a name with a NUL byte or of more than 200 bytes, or no memory.
    pub fn create(name: &str, capacity: usize) -> io::Result<Self> {
        if !capacity_allowed(capacity) {
            return Err(invalid(format!("ring capacity {capacity}: a power of two from 2 to {MAX_CAPACITY} expected")));
        }
        let file = SharedMemory::create(name, HEADER_BYTES + capacity * size_of::<Record>())?;
        let memory = Memory { file, capacity };
        memory.word(AT_CAPACITY).store(capacity as u64, Ordering::Relaxed);
        memory.word(AT_MAGIC).store(MAGIC, Ordering::Release);
        Ok(Self(Arc::new(memory)))
    }

    /// Opens a ring that another process has created.
    ///
    /// # Errors
    /// The file is no such ring: not sealed, of another size, without the mark of this version.
    pub fn attach(fd: OwnedFd) -> io::Result<Self> {
        let capacity_of = |bytes: usize| bytes.saturating_sub(HEADER_BYTES) / size_of::<Record>();
        let file = SharedMemory::open(fd, "a ring", |bytes| {
            let capacity = capacity_of(bytes);
            let fits = capacity_allowed(capacity) && bytes == HEADER_BYTES + capacity * size_of::<Record>();
            fits.then_some(()).ok_or_else(|| format!("{HEADER_BYTES} + {} · a power of two", size_of::<Record>()))
        })?;
        let capacity = capacity_of(file.bytes());
        let memory = Memory { file, capacity };
        let found = (memory.word(AT_MAGIC).load(Ordering::Acquire), memory.word(AT_CAPACITY).load(Ordering::Relaxed));
        if found != (MAGIC, capacity as u64) {
            return Err(invalid("not a ring of this version: both ends must be the same program"));
        }
        Ok(Self(Arc::new(memory)))
    }

    /// Opens the ring that the parent process has left open under descriptor `number` ([`Self::inheritable`]).
    ///
    /// # Errors
    /// There is no such descriptor, or as for [`Self::attach`].
    pub fn attach_inherited(number: RawFd) -> io::Result<Self> {
        // Opened anew, not taken over: a wrong number can then not take a descriptor away from its owner.
        let path = format!("/proc/self/fd/{number}");
        let file = std::fs::File::options().read(true).write(true).open(&path).map_err(|error| {
            io::Error::new(error.kind(), format!("ring of the parent process, descriptor {number}: {error}"))
        })?;
        Self::attach(file.into())
    }

    /// A second descriptor that stays open in programs this process starts; give its number to the child
    /// and keep it until the child has been started.
    ///
    /// # Errors
    /// Too many open files.
    pub fn inheritable(&self) -> io::Result<OwnedFd> {
        let number = fcntl(self, FcntlArg::F_DUPFD(3))?;
        // SAFETY: the kernel has just made this descriptor for us; nobody else owns it.
        Ok(unsafe { OwnedFd::from_raw_fd(number) })
    }

    /// The writing end. It can be taken again after it was dropped, but not after its process was killed.
    ///
    /// # Errors
    /// [`io::ErrorKind::ResourceBusy`]: another thread or process has it.
    pub fn producer(&self) -> io::Result<Producer> {
        self.0.take(AT_PRODUCERS, "producer")?;
        let (head, tail) = self.positions();
        Ok(Producer { memory: Arc::clone(&self.0), head, tail_seen: tail })
    }

    /// The reading end. It can be taken again after it was dropped.
    ///
    /// # Errors
    /// [`io::ErrorKind::ResourceBusy`]: another thread or process has it.
    pub fn consumer(&self) -> io::Result<Consumer> {
        self.0.take(AT_CONSUMERS, "consumer")?;
        let (head, tail) = self.positions();
        Ok(Consumer { memory: Arc::clone(&self.0), tail, head_seen: head })
    }

    fn positions(&self) -> (u64, u64) {
        (self.0.word(AT_HEAD).load(Ordering::Acquire), self.0.word(AT_TAIL).load(Ordering::Acquire))
    }

    /// How many records it holds at most.
    pub fn capacity(&self) -> usize {
        self.0.capacity
    }

    /// How many records found no room so far.
    pub fn overflowed(&self) -> u64 {
        self.0.word(AT_OVERFLOWED).load(Ordering::Relaxed)
    }

    /// Shared cell `index`, at first 0; each has a cache line of its own.
    ///
    /// # Panics
    /// If `index` is not below [`CELLS`].
    pub fn cell(&self, index: usize) -> &AtomicU64 {
        self.0.cell(index)
    }
}

/// To hand the ring to another process.
impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.file.as_fd()
    }
}

fn capacity_allowed(capacity: usize) -> bool {
    capacity.is_power_of_two() && (2..=MAX_CAPACITY).contains(&capacity)
}

/// The writing end of a ring.
#[derive(Debug)]
pub struct Producer {
    memory: Arc<Memory>,
    head: u64,
    tail_seen: u64,
}

impl Producer {
    /// Publishes a record; returns false, and counts it as overflowed, when there is no room.
    /// Wait-free: no system call, no lock, no allocation.
    #[inline]
    pub fn push(&mut self, record: &Record) -> bool {
        let capacity = self.memory.capacity as u64;
        if self.head.wrapping_sub(self.tail_seen) >= capacity {
            self.tail_seen = self.memory.word(AT_TAIL).load(Ordering::Acquire);
            if self.head.wrapping_sub(self.tail_seen) >= capacity {
                self.memory.word(AT_OVERFLOWED).fetch_add(1, Ordering::Relaxed);
                return false;
            }
        }
        let slot = self.memory.slot(self.head);
        for (place, word) in slot.iter().zip(record) {
            place.store(*word, Ordering::Relaxed);
        }
        self.head = self.head.wrapping_add(1);
        // Release: whoever sees the new head sees the record.
        self.memory.word(AT_HEAD).store(self.head, Ordering::Release);
        // The next slot has left the caches since its last turn. It is fetched while the thread does other things, so
        // that the next record's stores find it there; the system call that follows a record would wait for them. Behind
        // the last slot nothing of the ring comes, once a turn.
        fetch_for_writing(slot.as_ptr_range().end);
        true
    }

    /// Shared cell `index`, as [`Ring::cell`].
    ///
    /// # Panics
    /// If `index` is not below [`CELLS`].
    pub fn cell(&self, index: usize) -> &AtomicU64 {
        self.memory.cell(index)
    }
}

/// Asks the processor to bring the cache line at `address` near, to be written; it does not wait for it. Nothing where we
/// know no such instruction.
#[inline]
fn fetch_for_writing(address: *const AtomicU64) {
    // SAFETY: a hint. It changes neither memory nor registers nor flags, and faults on no address.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!("prfm pstl1keep, [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = address;
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.memory.word(AT_PRODUCERS).store(0, Ordering::Release);
    }
}

/// The reading end of a ring.
#[derive(Debug)]
pub struct Consumer {
    memory: Arc<Memory>,
    tail: u64,
    head_seen: u64,
}

impl Consumer {
    /// Takes the oldest record; none when all were taken.
    #[inline]
    pub fn pop(&mut self) -> Option<Record> {
        if self.head_seen == self.tail {
            self.head_seen = self.memory.word(AT_HEAD).load(Ordering::Acquire);
            if self.head_seen == self.tail {
                return None;
            }
        }
        let slot = self.memory.slot(self.tail);
        let record = std::array::from_fn(|offset| slot[offset].load(Ordering::Relaxed));
        self.tail = self.tail.wrapping_add(1);
        // Release: the producer may overwrite the slot only after we have read it.
        self.memory.word(AT_TAIL).store(self.tail, Ordering::Release);
        Some(record)
    }

    /// How many records found no room so far.
    pub fn overflowed(&self) -> u64 {
        self.memory.word(AT_OVERFLOWED).load(Ordering::Relaxed)
    }

    /// Shared cell `index`, as [`Ring::cell`].
    ///
    /// # Panics
    /// If `index` is not below [`CELLS`].
    pub fn cell(&self, index: usize) -> &AtomicU64 {
        self.memory.cell(index)
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.memory.word(AT_CONSUMERS).store(0, Ordering::Release);
    }
}
