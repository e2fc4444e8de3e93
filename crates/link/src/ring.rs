//! Receiving through memory shared with the kernel.
//!
//! TPACKET_V2: each frame is seen as soon as it is there. V3 hands over whole blocks, when they are full or when a
//! timer of whole milliseconds ends, and so would keep one frame a cycle waiting.

mod memory;

use std::io;
use std::os::fd::OwnedFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::PollFlags;
use units::{Nanos, Tai};

use crate::ETHERTYPE_VLAN;
use crate::error::LinkError;
use crate::frame::{Tag, split};
use crate::packet::{LONGEST_FRAME_BYTES, duration};
use crate::receiver::{Received, ReceiverOptions, TagUse};
use crate::socket::{CAP_NET_RAW, PacketSocket, noted_error, receive_plain};
use crate::stampmode::Stamps;
use crate::wait::{Ready, wait};

pub(crate) use memory::{RingMemory, Slot};

const TAGGED: u32 = libc::TP_STATUS_VLAN_VALID | libc::TP_STATUS_VLAN_TPID_VALID;
/// The most empty looks in a row without asking whether the interface went down.
const LOOKS: u32 = 1024;
/// How long a frame may take from the kernel's word that it comes to its being there.
const FILLING: Duration = Duration::from_millis(1);

/// What belongs to receiving through a ring. What every frame needs comes first, in one cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct RingReceiver {
    /// The slot that the kernel fills next.
    next: NonNull<Slot>,
    /// The slot of the frame that was taken last; null when it has been given back.
    held: AtomicPtr<Slot>,
    ring: RingMemory,
    /// Added to a stamp.
    to_tai: Nanos,
    /// The status bit that tells of a stamp of the kind asked for; 0 for none.
    stamp_bit: u32,
    reports_tag: bool,
    /// `next` at the last look that found nothing, and the number of such looks in a row.
    empty_at: NonNull<Slot>,
    empty_looks: u32,
    /// A frame longer than a slot.
    long: Box<[u8]>,
    /// Such frames that came without their end.
    cut: u64,
}

// SAFETY: the pointers lead into `ring`, which may be sent and shared. Through `&self` only the status words are reached,
// by atomic operations, and a slot is given back by whoever takes it out of `held`, once.
unsafe impl Send for RingReceiver {}
// SAFETY: as above.
unsafe impl Sync for RingReceiver {}

/// What became of a frame longer than its slot.
enum Long {
    /// It is in the buffer for such frames, with so many bytes.
    Whole(usize),
    /// It came without its end.
    Cut,
    Failed(Errno),
}

impl RingReceiver {
    /// Makes the ring of a socket that is not bound yet.
    pub(crate) fn new(
        socket: &PacketSocket,
        interface: &str,
        options: &ReceiverOptions<'_>,
    ) -> Result<Self, LinkError> {
        // A frame longer than a slot comes whole through the socket as well, if its buffer has room.
        socket.set(libc::SOL_PACKET, libc::PACKET_COPY_THRESH, &1_i32, "PACKET_COPY_THRESH", CAP_NET_RAW)?;
        let ring = RingMemory::new(socket, interface, options.buffer_bytes)?;
        let (stamp_bit, to_tai) = match options.stamps {
            Stamps::Off => (0, Nanos::ZERO),
            // Every slot that is ours has one, whether the kernel says so (`TP_STATUS_TS_SOFTWARE`) or not: where a frame
            // brought none, or its launch time in that place, `tpacket_rcv` takes the time itself.
            Stamps::Software => (libc::TP_STATUS_USER, options.tai_minus_utc),
            Stamps::Hardware => (libc::TP_STATUS_TS_RAW_HARDWARE, Nanos::ZERO),
        };
        Ok(Self {
            next: ring.first(),
            held: AtomicPtr::new(ptr::null_mut()),
            empty_at: ring.first(),
            ring,
            reports_tag: options.tag == TagUse::Report,
            stamp_bit,
            to_tai,
            empty_looks: 0,
            long: vec![0; LONGEST_FRAME_BYTES].into_boxed_slice(),
            cut: 0,
        })
    }

    #[inline(always)]
    pub(crate) fn receive(&mut self, fd: &OwnedFd) -> io::Result<Option<Received<'_>>> {
        loop {
            if let Some(slot) = NonNull::new(*self.held.get_mut()) {
                give_back(slot);
            }
            let slot = self.next;
            let status = status(slot);
            if status & libc::TP_STATUS_USER == 0 {
                *self.held.get_mut() = ptr::null_mut();
                return match self.nothing(fd) {
                    None => Ok(None),
                    Some(errno) => Err(errno.into()),
                };
            }
            *self.held.get_mut() = slot.as_ptr();
            self.next = self.ring.after(slot);
            // SAFETY: the status says that the kernel has filled the slot and leaves it alone; the borrow of `self`
            // that the header and the frame carry ends before the slot is given back.
            let header = unsafe { slot.as_ref() };
            if header.tp_snaplen == header.tp_len {
                // SAFETY: the kernel has put so many bytes there, inside the slot, to stay as the header does.
                let frame = unsafe {
                    let start = slot.as_ptr().cast::<u8>().add(header.tp_mac.into());
                    std::slice::from_raw_parts(start, header.tp_snaplen as usize)
                };
                return Ok(Some(self.received(header, status, frame)));
            }
            match self.fetch_long(slot, status, fd) {
                Long::Whole(bytes) => return Ok(Some(self.received(header, status, &self.long[..bytes]))),
                Long::Cut => {}
                Long::Failed(errno) => return Err(errno.into()),
            }
        }
    }

    /// A frame with what its slot tells of it.
    #[inline(always)]
    fn received<'a>(&self, header: &Slot, status: u32, frame: &'a [u8]) -> Received<'a> {
        let (inner_tag, uadp) = split(frame);
        let mut tag = None;
        if self.reports_tag {
            let stripped = status & TAGGED == TAGGED && header.tp_vlan_tpid == ETHERTYPE_VLAN;
            tag = if stripped { Some(Tag::new(header.tp_vlan_tci)) } else { inner_tag };
        }
        let stamp = (status & self.stamp_bit != 0).then(|| {
            let at = Tai(i64::from(header.tp_sec) * 1_000_000_000 + i64::from(header.tp_nsec));
            at + self.to_tai
        });
        Received { frame, uadp, tag, stamp }
    }

    /// The look that found nothing. An interface that went down leaves no word in the ring; asking the socket is a
    /// system call, so it is asked after 2, 4, 8 … such looks in a row.
    #[inline(never)]
    fn nothing(&mut self, fd: &OwnedFd) -> Option<Errno> {
        if self.empty_at != self.next {
            self.empty_at = self.next;
            self.empty_looks = 0;
        }
        self.empty_looks += 1;
        if self.empty_looks > 1 && self.empty_looks.is_power_of_two() {
            // Not further apart than that.
            self.empty_looks = if self.empty_looks >= 2 * LOOKS { LOOKS } else { self.empty_looks };
            return noted_error(fd).err();
        }
        None
    }

    /// Fetches a frame longer than its slot out of the socket's own queue.
    #[cold]
    fn fetch_long(&mut self, slot: NonNull<Slot>, status: u32, fd: &OwnedFd) -> Long {
        if status & libc::TP_STATUS_COPY != 0 {
            match receive_plain(fd, &mut self.long) {
                Ok(Some(bytes)) => return Long::Whole(bytes),
                Ok(None) => {}
                Err(errno) => {
                    // A noted error came first; the frame is still there for the next time.
                    self.next = slot;
                    *self.held.get_mut() = ptr::null_mut();
                    return Long::Failed(errno);
                }
            }
        }
        self.cut += 1;
        Long::Cut
    }

    /// Frames longer than a slot for whose rest there was no room.
    pub(crate) fn cut(&self) -> u64 {
        self.cut
    }

    pub(crate) fn wait(&self, fd: &OwnedFd, timeout: Nanos) -> io::Result<bool> {
        // `poll` looks at the slot that was filled last: it must not be one that is still held. Nobody has a frame
        // of it, for that would borrow the receiver.
        if let Some(slot) = NonNull::new(self.held.swap(ptr::null_mut(), Ordering::Relaxed)) {
            give_back(slot);
        }
        if self.is_ready() {
            return Ok(true);
        }
        if wait(fd, PollFlags::POLLIN, duration(timeout))? != Ready::Input {
            return Ok(false);
        }
        // Several processors may fill slots at once, and a later one be ready first.
        let found = Instant::now();
        while !self.is_ready() && found.elapsed() < FILLING {
            std::hint::spin_loop();
        }
        Ok(self.is_ready())
    }

    fn is_ready(&self) -> bool {
        status(self.next) & libc::TP_STATUS_USER != 0
    }
}

/// The status of a slot of a ring that is mapped. What the kernel wrote before it is seen after it.
#[inline]
fn status(slot: NonNull<Slot>) -> u32 {
    status_word(slot).load(Ordering::Acquire)
}

/// Leaves a slot of a ring that is mapped to the kernel; what was read of it was read before.
#[inline]
fn give_back(slot: NonNull<Slot>) {
    status_word(slot).store(libc::TP_STATUS_KERNEL, Ordering::Release);
}

#[inline]
fn status_word<'a>(slot: NonNull<Slot>) -> &'a AtomicU32 {
    // SAFETY: slots come from `RingMemory` alone, aligned and mapped as long as the receiver lives that calls this; the
    // status is their first word, which is only ever reached atomically, here and by the kernel.
    unsafe { AtomicU32::from_ptr(slot.as_ptr().cast()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_is_the_first_word() {
        assert_eq!(std::mem::offset_of!(Slot, tp_status), 0);
        assert_eq!((size_of::<Slot>(), align_of::<Slot>()), (32, 4));
        assert!(std::mem::offset_of!(RingReceiver, empty_at) <= 64, "one cache line for what every frame needs");
    }
}
