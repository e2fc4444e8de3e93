//! What the sockets of one queue have in common: the memory, and the two rings on which its chunks come and go.
//!
//! The kernel has one of each for a queue, however many sockets are bound to it, in however many threads. None of
//! these ever waits for another one here.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, TryLockError};

use super::memory::{CHUNK_BYTES, FrameMemory};
use super::rings::{Producer, SharedConsumer, Wakeup};

/// How many sockets share a queue, and how many chunks each of them has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shares {
    pub(super) receivers: u32,
    /// Of each receiver, a power of two.
    pub(super) receive_chunks: u32,
    pub(super) senders: u32,
    /// Of each sender, a power of two.
    pub(super) send_chunks: u32,
}

impl Shares {
    /// Chunks of all receivers.
    pub(super) const fn received(self) -> u32 {
        self.receivers * self.receive_chunks
    }

    /// Chunks of all senders.
    pub(super) const fn sent(self) -> u32 {
        self.senders * self.send_chunks
    }
}

/// The memory of a queue and its rings.
#[derive(Debug)]
pub(super) struct Pool {
    pub(super) memory: FrameMemory,
    pub(super) shares: Shares,
    /// Chunks for frames to come. Only ever tried: who does not get it keeps its chunks until the next time.
    free: Mutex<Producer<u64>>,
    wakeup: Wakeup,
    /// Chunks whose frames have left.
    completed: SharedConsumer,
    /// Of these each sender's, found by another one: a bit a chunk.
    found: Box<[AtomicU64]>,
    words: usize,
}

impl Pool {
    /// Leaves all chunks for frames to come to the kernel.
    pub(super) fn new(memory: FrameMemory, shares: Shares, mut free: Producer<u64>, completed: SharedConsumer) -> Self {
        for chunk in 0..shares.received() {
            _ = free.push(u64::from(chunk) * CHUNK_BYTES as u64);
        }
        let words = shares.send_chunks.div_ceil(u64::BITS) as usize;
        let found = (0..words * shares.senders as usize).map(|_| AtomicU64::new(0)).collect();
        Self { memory, shares, wakeup: free.wakeup().clone(), free: Mutex::new(free), completed, found, words }
    }

    /// Gives chunks back to the kernel, unless another thread is at it: then they stay in `chunks`.
    #[inline]
    pub(super) fn give_back(&self, chunks: &mut Vec<u64>) {
        let mut free = match self.free.try_lock() {
            Ok(free) => free,
            // A ring is whole at every step.
            Err(TryLockError::Poisoned(free)) => free.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        for chunk in chunks.drain(..) {
            // There is room: the ring has as many places as there are chunks.
            _ = free.push(chunk);
        }
    }

    /// Whether the kernel wants to be told of chunks that were given back.
    #[inline]
    pub(super) fn needs_wakeup(&self) -> bool {
        self.wakeup.is_needed()
    }

    /// The next slot of `sender` whose frame has left. Those of the others, which it meets, it leaves for them.
    #[inline]
    pub(super) fn next_completed(&self, sender: u32) -> Option<u32> {
        let Shares { senders, send_chunks, .. } = self.shares;
        while let Some(address) = self.completed.pop() {
            let chunk = (address / CHUNK_BYTES as u64).wrapping_sub(self.shares.received().into());
            let Some(chunk) = u32::try_from(chunk).ok().filter(|chunk| *chunk < self.shares.sent()) else { continue };
            let (owner, slot) = (chunk / send_chunks, chunk % send_chunks);
            if owner == sender {
                return Some(slot);
            }
            if let Some(word) = self.found.get(owner as usize * self.words + (slot / u64::BITS) as usize) {
                // Release: what was read of the ring was read before.
                word.fetch_or(1 << (slot % u64::BITS), Ordering::Release);
            }
        }
        if senders == 1 { None } else { self.next_found(sender) }
    }

    /// The next of those that others have found.
    fn next_found(&self, sender: u32) -> Option<u32> {
        let first = sender as usize * self.words;
        let words = self.found.get(first..first + self.words)?;
        words.iter().zip((0_u32..).step_by(u64::BITS as usize)).find_map(|(word, first)| {
            let bits = word.load(Ordering::Relaxed);
            let bit = (bits != 0).then(|| bits.trailing_zeros())?;
            word.fetch_and(!(1 << bit), Ordering::Acquire);
            Some(first + bit)
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;

    use super::super::memory::Mapping;
    use super::super::rings::{Consumer, Layout};
    use super::*;

    /// A pool, and of its rings the ends that are the kernel's.
    pub(in crate::xdp) fn pool(shares: Shares) -> (Pool, Consumer<u64>, Producer<u64>) {
        let layout = |count: u32| Layout { producer: 0, consumer: 64, flags: 128, entries: 192, count };
        let (fill, completion) =
            (layout(shares.received().next_power_of_two()), layout(shares.sent().next_power_of_two()));
        let mappings = [(); 2].map(|()| Arc::new(Mapping::anonymous(8192).unwrap()));
        let [at_fill, at_completion] = [0, 1].map(|index: usize| Arc::clone(&mappings[index]));
        let memory = FrameMemory::new(shares.received(), shares.sent()).unwrap();
        let [for_fill, for_completion] = mappings;
        let pool = Pool::new(
            memory,
            shares,
            Producer::new(for_fill, fill).unwrap(),
            SharedConsumer::new(for_completion, completion).unwrap(),
        );
        (pool, Consumer::new(at_fill, fill).unwrap(), Producer::new(at_completion, completion).unwrap())
    }

    const SHARES: Shares = Shares { receivers: 3, receive_chunks: 2, senders: 2, send_chunks: 128 };

    fn address(sender: u32, slot: u32) -> u64 {
        u64::from(SHARES.received() + sender * SHARES.send_chunks + slot) * CHUNK_BYTES as u64 + 64
    }

    #[test]
    fn the_kernel_has_all_chunks_for_receiving_and_gets_them_back() {
        let (pool, mut kernel, _) = pool(SHARES);
        let mut chunks: Vec<u64> = std::iter::from_fn(|| kernel.pop()).collect();
        assert_eq!(chunks, (0..6).map(|chunk| chunk * CHUNK_BYTES as u64).collect::<Vec<_>>());
        let held = pool.free.lock().unwrap();
        pool.give_back(&mut chunks);
        assert_eq!((chunks.len(), kernel.pop()), (6, None), "another thread is at it: nobody waits");
        drop(held);
        pool.give_back(&mut chunks);
        assert_eq!((chunks.len(), std::iter::from_fn(|| kernel.pop()).count()), (0, 6));
    }

    #[test]
    fn every_sender_gets_its_own_slots_back_whoever_finds_them() {
        let (pool, _, mut kernel) = pool(SHARES);
        for (sender, slot) in [(0, 5), (1, 127), (0, 0), (1, 0), (1, 64)] {
            kernel.push(address(sender, slot));
        }
        // What is nobody's changes nothing.
        for nobody in [0, u64::MAX, address(2, 0)] {
            kernel.push(nobody);
        }
        let all = |sender| std::iter::from_fn(|| pool.next_completed(sender)).collect::<Vec<_>>();
        assert_eq!(all(0), [5, 0], "its own, in the order they left");
        assert_eq!(all(1), [0, 64, 127], "which the other one has found");
        assert_eq!((all(0), all(1)), (vec![], vec![]));
    }
}
