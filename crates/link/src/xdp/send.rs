//! The sending end.

use std::collections::VecDeque;
use std::sync::Arc;

use nix::errno::Errno;
use units::Tai;

use super::memory::CHUNK_BYTES;
use super::options::{SendStamps, XdpHow};
use super::pool::Pool;
use super::rings::Producer;
use super::socket::{METADATA_BYTES, Socket};
use crate::ETHERTYPE_VLAN;
use crate::error::LinkError;
use crate::socket::CAP_NET_RAW;
use crate::stamps::TxStamp;

const HEADER_BYTES: usize = 14;
const TAG_BYTES: usize = 4;
/// Where a frame lies in its chunk: a cache line, with the metadata right before it.
const FRAME_AT: usize = 64;
const _: () = assert!(METADATA_BYTES <= FRAME_AT);

// Flags of `struct xsk_tx_metadata`.
const STAMP_WANTED: u64 = 1 << 0;
const LAUNCH_TIME: u64 = 1 << 2;

/// Sends complete frames (from the destination address on, tag included) on one queue, past the stack and past its
/// queueing disciplines: neither `taprio` nor `cbs` nor `etf` sees them.
///
/// Belongs to one thread at a time.
#[derive(Debug)]
pub struct XdpSender {
    pub(super) socket: Socket,
    pub(super) queued: Producer<libc::xdp_desc>,
    pub(super) slots: Slots,
    /// The longest frame without a tag, in bytes.
    pub(super) longest_bytes: usize,
    pub(super) attempts: u32,
    pub(super) how: XdpHow,
}

impl XdpSender {
    /// Hands over one frame. Never waits and allocates nothing, also when it fails.
    ///
    /// # Errors
    /// [`LinkError::Congested`] when all slots hold frames that have not left, or when the driver is busy: in the
    /// latter case the frame stays in the ring and leaves with the next one that is sent.
    /// [`LinkError::Dropped`] by the driver. [`LinkError::TooLong`], for the MTU at opening or for a chunk (4032
    /// bytes). [`LinkError::Down`]; with zero copy the frame then leaves when the interface is back, else it is
    /// taken back. Or another refusal of the kernel, and `EINVAL` for less than a header.
    #[inline]
    pub fn send(&mut self, frame: &[u8]) -> Result<(), LinkError> {
        self.hand_over(frame, None)
    }

    /// Hands over one frame that the network card shall send at `launch`, an instant of its own clock (which
    /// `ptp4l` keeps on TAI). The frames of a queue must be handed over in the order of their launch times.
    ///
    /// The driver does so only while an offloaded `etf` queueing discipline stands on the queue.
    ///
    /// # Errors
    /// As [`Self::send`], and [`LinkError::Unsupported`] unless [`XdpHow::launch_time`]. It needs kernel 6.15, zero
    /// copy and a driver that has it (igc, stmmac); without them AF_XDP and launch time exclude each other.
    #[inline]
    pub fn send_at(&mut self, frame: &[u8], launch: Tai) -> Result<(), LinkError> {
        if !self.how.launch_time {
            self.attempts = self.attempts.wrapping_add(1);
            return Err(LinkError::Unsupported {
                interface: self.socket.interface,
                what: "launch times with AF_XDP (kernel 6.15, zero copy and a driver that offers it)",
                mend: "send at the instant itself, or use a packet socket with an etf queueing discipline",
            });
        }
        self.hand_over(frame, Some(launch))
    }

    /// When a frame left; none when no further one is known yet. They come in the order in which the frames left, but for
    /// those that another sender of the port was told of first. [`XdpHow::send_stamps`] says by whose clock. Of more than 1024 that nobody asked for the oldest are gone.
    pub fn stamp(&mut self) -> Option<TxStamp> {
        self.slots.reap();
        self.slots.stamps.pop_front()
    }

    /// What the port got.
    pub const fn how(&self) -> XdpHow {
        self.how
    }

    #[inline]
    fn hand_over(&mut self, frame: &[u8], launch: Option<Tai>) -> Result<(), LinkError> {
        let attempt = self.attempts;
        self.attempts = attempt.wrapping_add(1);
        self.check_length(frame)?;
        self.slots.reap();
        let stamped = self.how.send_stamps != SendStamps::None;
        let flags = if stamped { STAMP_WANTED } else { 0 } | if launch.is_some() { LAUNCH_TIME } else { 0 };
        let Some(slot) = self.slots.fill(frame, attempt, flags, launch) else { return self.without_slot() };
        let descriptor = libc::xdp_desc {
            addr: self.slots.address(slot),
            len: frame.len() as u32,
            options: if flags == 0 { 0 } else { libc::XDP_TX_METADATA },
        };
        // There is room: the ring has as many places as there are slots.
        if !self.queued.push(descriptor) {
            self.slots.free.push(slot);
            return Err(LinkError::Congested { interface: self.socket.interface });
        }
        if !self.queued.wakeup().is_needed() && !self.how.busy_poll {
            return Ok(());
        }
        match self.socket.wake_to_send() {
            Ok(()) => Ok(()),
            Err(errno) => self.refused(errno, slot),
        }
    }

    #[inline]
    fn check_length(&self, frame: &[u8]) -> Result<(), LinkError> {
        let interface = self.socket.interface;
        let Some([t0, t1]) = frame.get(HEADER_BYTES - 2..).and_then(|rest| rest.first_chunk()) else {
            return Err(LinkError::System { call: "sending less than a header", errno: Errno::EINVAL });
        };
        let tag_bytes = if u16::from_be_bytes([*t0, *t1]) == ETHERTYPE_VLAN { TAG_BYTES } else { 0 };
        if frame.len() > (self.longest_bytes + tag_bytes).min(CHUNK_BYTES - FRAME_AT) {
            return Err(LinkError::TooLong { bytes: frame.len(), interface });
        }
        Ok(())
    }

    /// Gives what waits in the ring another push.
    #[cold]
    fn without_slot(&mut self) -> Result<(), LinkError> {
        _ = self.socket.wake_to_send();
        Err(LinkError::Congested { interface: self.socket.interface })
    }

    #[cold]
    fn refused(&mut self, errno: Errno, slot: u32) -> Result<(), LinkError> {
        let interface = self.socket.interface;
        match errno {
            // It stops after a number of frames, and when the driver is busy.
            Errno::EAGAIN | Errno::ENOBUFS => {
                _ = self.socket.wake_to_send();
                if self.queued.is_drained() { Ok(()) } else { Err(LinkError::Congested { interface }) }
            }
            // In copy mode: the driver had no use for the frame, and its slot comes back as if it had left.
            Errno::EBUSY if self.queued.is_drained() => Err(LinkError::Dropped { interface }),
            Errno::EBUSY => Err(LinkError::Congested { interface }),
            errno => {
                // `xsk_sendmsg` asks whether the interface is up before it looks into the ring, and in copy mode nobody
                // else looks: the frame can be taken back, and is not sent stale when the interface is up again.
                if matches!(errno, Errno::ENETDOWN | Errno::ENXIO) && !self.how.zero_copy {
                    self.queued.retract();
                    self.slots.free.push(slot);
                }
                Err(LinkError::of(errno, "sending over AF_XDP", CAP_NET_RAW, interface))
            }
        }
    }
}

/// The chunks frames are sent from: free, or with the kernel.
#[derive(Debug)]
pub(super) struct Slots {
    pool: Arc<Pool>,
    /// Which sender's they are, from 0.
    sender: u32,
    /// Never longer than the number of slots, for which it has room.
    free: Vec<u32>,
    /// Which send each slot holds.
    attempts: Box<[u32]>,
    /// Never longer than its first capacity.
    stamps: VecDeque<TxStamp>,
}

/// Stamps kept for the one who asks; older ones go.
const STAMPS_KEPT: usize = 1024;

impl Slots {
    pub(super) fn new(pool: Arc<Pool>, sender: u32) -> Self {
        let slots = pool.shares.send_chunks;
        Self {
            pool,
            sender,
            free: (0..slots).rev().collect(),
            attempts: vec![0; slots as usize].into_boxed_slice(),
            stamps: VecDeque::with_capacity(STAMPS_KEPT),
        }
    }

    /// Where the frame of a slot lies in the memory, as the kernel names it.
    #[inline]
    fn address(&self, slot: u32) -> u64 {
        let shares = self.pool.shares;
        let chunk = shares.received() + self.sender * shares.send_chunks + slot;
        u64::from(chunk) * CHUNK_BYTES as u64 + FRAME_AT as u64
    }

    /// Copies a frame into a free slot; none when there is none.
    #[inline]
    fn fill(&mut self, frame: &[u8], attempt: u32, flags: u64, launch: Option<Tai>) -> Option<u32> {
        let slot = self.free.pop()?;
        let memory = &self.pool.memory;
        let first = memory.receive_chunks;
        let metadata = self.address(slot) as usize - METADATA_BYTES;
        let Some(start) = memory.within_chunk(metadata, METADATA_BYTES + frame.len(), |chunk| chunk >= first) else {
            self.free.push(slot);
            return None;
        };
        // SAFETY: within a chunk of this end that the kernel does not hold, as the slot was free; `self` is exclusively
        // borrowed. Every byte was written: the memory began zeroed.
        let chunk = unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), METADATA_BYTES + frame.len()) };
        let (metadata, place) = chunk.split_at_mut(METADATA_BYTES);
        place.copy_from_slice(frame);
        if flags != 0 {
            metadata[..8].copy_from_slice(&flags.to_ne_bytes());
            metadata[8..16].fill(0);
            metadata[16..].copy_from_slice(&launch.map_or(0, |launch| launch.0).to_ne_bytes());
        }
        self.attempts[slot as usize] = attempt;
        Some(slot)
    }

    /// Takes back the slots whose frames have left, with their stamps. No system call.
    #[inline]
    fn reap(&mut self) {
        while let Some(slot) = self.pool.next_completed(self.sender) {
            let Some(attempt) = self.attempts.get(slot as usize).copied() else { continue };
            if let Some(at) = self.take_stamp(slot) {
                if self.stamps.len() == STAMPS_KEPT {
                    self.stamps.pop_front();
                }
                self.stamps.push_back(TxStamp { id: attempt, at });
            }
            if self.free.len() < self.attempts.len() {
                self.free.push(slot);
            }
        }
    }

    /// What the driver has written into the metadata of a slot it gave back.
    #[inline]
    fn take_stamp(&mut self, slot: u32) -> Option<Tai> {
        let memory = &self.pool.memory;
        let first = memory.receive_chunks;
        let at = self.address(slot) as usize - METADATA_BYTES;
        let start = memory.within_chunk(at, METADATA_BYTES, |chunk| chunk >= first)?;
        // SAFETY: within a chunk of this end that the kernel has given back; `self` is exclusively borrowed. Every byte
        // was written: the memory began zeroed.
        let metadata = unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), METADATA_BYTES) };
        let stamp = i64::from_ne_bytes(*metadata[8..].first_chunk()?);
        metadata[8..16].fill(0);
        (stamp != 0).then_some(Tai(stamp))
    }
}

#[cfg(test)]
mod tests {
    use super::super::pool::Shares;
    use super::super::pool::tests::pool;
    use super::*;

    const COUNT: u32 = 4;

    /// Slots with a completion ring whose other end, the kernel's, is here.
    fn slots() -> (Slots, Producer<u64>) {
        let (pool, _, kernel) = pool(Shares { receivers: 1, receive_chunks: 2, senders: 1, send_chunks: COUNT });
        (Slots::new(Arc::new(pool), 0), kernel)
    }

    #[test]
    fn a_slot_is_free_again_only_when_the_kernel_gives_it_back() {
        let (mut slots, mut kernel) = slots();
        let taken: Vec<u32> = (0..COUNT).map(|attempt| slots.fill(&[1; 60], attempt, 0, None).unwrap()).collect();
        assert_eq!(slots.fill(&[1; 60], 9, 0, None), None, "no slot is free");
        kernel.push(slots.address(taken[2]));
        slots.reap();
        assert_eq!(slots.fill(&[2; 60], 10, 0, None), Some(taken[2]));
        assert_eq!(slots.fill(&[2; 60], 11, 0, None), None);
        // What is none of its chunks, and what is given back twice, changes nothing.
        for address in [0, u64::MAX, 6 * 4096] {
            kernel.push(address);
        }
        slots.reap();
        assert_eq!(slots.fill(&[2; 60], 12, 0, None), None);
        for _ in 0..3 {
            for slot in &taken {
                kernel.push(slots.address(*slot));
            }
            slots.reap();
        }
        assert_eq!(slots.free.len(), COUNT as usize);
        assert_eq!(slots.stamps.len(), 0);
    }

    #[test]
    fn stamps_carry_the_number_of_their_send() {
        let (mut slots, mut kernel) = slots();
        for (attempt, stamp) in [(7, 1111_i64), (8, 0), (9, 3333)] {
            let slot = slots.fill(&[1; 60], attempt, STAMP_WANTED, None).unwrap();
            let at = slots.address(slot) as usize - METADATA_BYTES + 8;
            let place = slots.pool.memory.mapping.place::<i64>(at, 1).unwrap();
            // SAFETY: aligned and within the memory, which nobody else uses in this test.
            unsafe { place.write(stamp) };
            kernel.push(slots.address(slot));
        }
        slots.reap();
        let stamps: Vec<TxStamp> = slots.stamps.drain(..).collect();
        assert_eq!(stamps, [TxStamp { id: 7, at: Tai(1111) }, TxStamp { id: 9, at: Tai(3333) }]);
    }

    #[test]
    fn the_launch_time_stands_where_the_kernel_looks() {
        let (mut slots, _kernel) = slots();
        let slot = slots.fill(&[1; 60], 0, LAUNCH_TIME, Some(Tai(0x1122_3344))).unwrap();
        let at = slots.address(slot) as usize - METADATA_BYTES;
        let place = slots.pool.memory.mapping.place::<[u64; 3]>(at, 1).unwrap();
        // SAFETY: aligned and within the memory, which nobody else uses in this test.
        assert_eq!(unsafe { place.read() }, [LAUNCH_TIME, 0, 0x1122_3344]);
    }
}
