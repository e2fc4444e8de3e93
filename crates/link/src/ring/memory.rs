//! The memory that a packet socket shares with the kernel (`PACKET_RX_RING`, TPACKET_V2).

use std::ffi::c_int;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;

use nix::errno::Errno;

use crate::error::LinkError;
use crate::interface;
use crate::socket::{CAP_NET_RAW, PacketSocket};

/// Where the kernel puts a frame with an Ethernet header, from the start of its slot: its payload shall stand at a
/// multiple of 16 behind `tpacket2_hdr` and `sockaddr_ll`.
const FRAME_OFFSET_BYTES: usize = (libc::TPACKET2_HDRLEN + 16).next_multiple_of(libc::TPACKET_ALIGNMENT) - HEADER_BYTES;
const HEADER_BYTES: usize = 14;
/// Two tags: what the kernel lets pass beyond the MTU at most.
const TAGS_BYTES: usize = 8;
const LEAST_SLOT_BYTES: usize = 2048;
const DEFAULT_BYTES: usize = 512 << 10;
const MOST_BYTES: usize = 1 << 30;
/// One that is read and one that is filled.
const LEAST_SLOTS: usize = 2;
const DEFAULT_LEAST_SLOTS: usize = 16;

/// How the memory is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    slot_bytes: usize,
    block_bytes: usize,
    blocks: usize,
}

impl Shape {
    /// For frames of an interface with this MTU, in about `buffer_bytes`; 0 for the default.
    fn new(mtu_bytes: usize, buffer_bytes: usize, page_bytes: usize) -> Self {
        let longest = FRAME_OFFSET_BYTES + HEADER_BYTES + TAGS_BYTES + mtu_bytes;
        let slot_bytes = longest.next_power_of_two().max(LEAST_SLOT_BYTES);
        // Both are powers of two: slots follow one another without gaps, over the borders of blocks too.
        let block_bytes = slot_bytes.max(page_bytes);
        let bytes = match buffer_bytes {
            0 => DEFAULT_BYTES.max(DEFAULT_LEAST_SLOTS * slot_bytes),
            bytes => bytes.clamp(LEAST_SLOTS * slot_bytes, MOST_BYTES.max(LEAST_SLOTS * slot_bytes)),
        };
        Self { slot_bytes, block_bytes, blocks: bytes.div_ceil(block_bytes) }
    }

    fn bytes(self) -> usize {
        self.block_bytes * self.blocks
    }
}

/// Slots for frames, one after another, written by the kernel and read here; unmapped on drop.
#[derive(Debug)]
pub(crate) struct RingMemory {
    base: NonNull<u8>,
    end: NonNull<u8>,
    slot_bytes: usize,
}

// SAFETY: the mapping belongs to this value alone and to no thread; what is in it is reached through raw pointers, whose
// users say why they may.
unsafe impl Send for RingMemory {}
// SAFETY: as above; a shared reference gives addresses only.
unsafe impl Sync for RingMemory {}

impl RingMemory {
    /// Makes the ring of a socket that is not bound yet, with slots that hold the longest frame of the interface.
    pub(crate) fn new(socket: &PacketSocket, interface: &str, buffer_bytes: usize) -> Result<Self, LinkError> {
        // SAFETY: takes no pointers.
        let page_bytes = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
        let shape = Shape::new(interface::mtu(interface)? as usize, buffer_bytes, page_bytes);
        let version = libc::tpacket_versions::TPACKET_V2 as c_int;
        socket.set(libc::SOL_PACKET, libc::PACKET_VERSION, &version, "PACKET_VERSION", CAP_NET_RAW)?;
        let request = libc::tpacket_req {
            tp_block_size: shape.block_bytes as u32,
            tp_block_nr: shape.blocks as u32,
            tp_frame_size: shape.slot_bytes as u32,
            tp_frame_nr: (shape.bytes() / shape.slot_bytes) as u32,
        };
        socket.set(libc::SOL_PACKET, libc::PACKET_RX_RING, &request, "PACKET_RX_RING", CAP_NET_RAW)?;
        let base = map(socket.fd.as_raw_fd(), shape.bytes())
            .map_err(|errno| LinkError::of(errno, "mmap of a receive ring", CAP_NET_RAW, socket.interface))?;
        // SAFETY: the end of the mapping.
        let end = unsafe { base.byte_add(shape.bytes()) };
        Ok(Self { base, end, slot_bytes: shape.slot_bytes })
    }

    /// The first slot.
    #[inline]
    pub(crate) fn first(&self) -> NonNull<Slot> {
        self.base.cast()
    }

    /// The slot that the kernel fills after `slot`, which must be one of this ring.
    #[inline]
    pub(crate) fn after(&self, slot: NonNull<Slot>) -> NonNull<Slot> {
        // SAFETY: a slot of this mapping begins at least its length before the end, so the sum stays in bounds or at it.
        let next = unsafe { slot.byte_add(self.slot_bytes) };
        if next.cast() == self.end { self.first() } else { next }
    }
}

impl Drop for RingMemory {
    fn drop(&mut self) {
        let bytes = self.end.addr().get() - self.base.addr().get();
        // SAFETY: the mapping made in `new`, not reachable any more: frames in it borrow what owns this value.
        _ = unsafe { libc::munmap(self.base.as_ptr().cast(), bytes) };
    }
}

/// What a slot begins with. Only the status word may be looked at while the kernel owns the slot.
pub(crate) type Slot = libc::tpacket2_hdr;

/// Maps the ring, in memory that is there and stays there if that may be.
fn map(fd: c_int, bytes: usize) -> Result<NonNull<u8>, Errno> {
    let mut last = Errno::UnknownErrno;
    for flags in [libc::MAP_LOCKED | libc::MAP_POPULATE, libc::MAP_POPULATE, 0] {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice; nothing existing is touched.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, libc::MAP_SHARED | flags, fd, 0) };
        if base != libc::MAP_FAILED
            && let Some(base) = NonNull::new(base.cast())
        {
            return Ok(base);
        }
        // Locking may exceed RLIMIT_MEMLOCK.
        last = Errno::last();
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_hold_the_longest_frame_and_leave_no_gaps() {
        let default = Shape::new(1500, 0, 4096);
        assert_eq!(default, Shape { slot_bytes: 2048, block_bytes: 4096, blocks: 128 });
        for mtu in [68, 1500, 1960, 1961, 9000, 65_535] {
            for buffer_bytes in [0, 1, 4096, 100_000, 4 << 20, usize::MAX] {
                for page_bytes in [4096, 65_536] {
                    let shape = Shape::new(mtu, buffer_bytes, page_bytes);
                    let slots = shape.bytes() / shape.slot_bytes;
                    assert!(66 + 14 + 8 + mtu <= shape.slot_bytes, "{shape:?}");
                    assert!(shape.block_bytes.is_multiple_of(shape.slot_bytes), "{shape:?}");
                    assert!(shape.block_bytes.is_multiple_of(page_bytes), "{shape:?}");
                    assert!(slots >= 2 && shape.bytes() <= 1 << 30, "{shape:?}");
                    assert!(buffer_bytes > 1 << 30 || shape.bytes() >= buffer_bytes, "{shape:?}");
                }
            }
        }
        assert_eq!(Shape::new(1500, 4096, 4096).bytes(), 4096, "two slots");
    }
}
