//! Memory shared with the kernel, and the frames laid out in it.

use std::num::NonZeroUsize;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use nix::errno::Errno;
use nix::sys::mman::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

/// A piece of address space, given back on drop.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping belongs to no thread; what may be read and written where is up to those who hold it.
unsafe impl Send for Mapping {}
// SAFETY: as above; a shared reference gives pointers only.
unsafe impl Sync for Mapping {}

const READ_WRITE: ProtFlags = ProtFlags::PROT_READ.union(ProtFlags::PROT_WRITE);

impl Mapping {
    /// Zeroed memory, all of it present.
    pub(super) fn anonymous(bytes: usize) -> Result<Self, Errno> {
        let length = NonZeroUsize::new(bytes).ok_or(Errno::EINVAL)?;
        let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_POPULATE;
        // SAFETY: without MAP_FIXED the kernel chooses unused addresses.
        let start = unsafe { mmap_anonymous(None, length, READ_WRITE, flags) }?;
        Ok(Self { start: start.cast(), bytes })
    }

    /// What a socket offers at `offset`.
    pub(super) fn of(socket: BorrowedFd<'_>, offset: i64, bytes: usize) -> Result<Self, Errno> {
        let length = NonZeroUsize::new(bytes).ok_or(Errno::EINVAL)?;
        let flags = MapFlags::MAP_SHARED | MapFlags::MAP_POPULATE;
        // SAFETY: without MAP_FIXED the kernel chooses unused addresses.
        let start = unsafe { mmap(None, length, READ_WRITE, flags, socket, offset) }?;
        Ok(Self { start: start.cast(), bytes })
    }

    /// Its first address.
    pub(super) fn address(&self) -> u64 {
        self.start.as_ptr() as u64
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Where `count` values lie from `offset` on; none when they are not all within, or not aligned.
    #[inline]
    pub(super) fn place<T>(&self, offset: usize, count: usize) -> Option<NonNull<T>> {
        let end = offset.checked_add(count.checked_mul(size_of::<T>())?)?;
        if end > self.bytes || !offset.is_multiple_of(align_of::<T>()) {
            return None;
        }
        // SAFETY: within the mapping. It starts at a page, so what is aligned in it is aligned.
        Some(unsafe { self.start.add(offset) }.cast())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `mmap` gave exactly this, and whoever has pointers into it keeps the mapping alive.
        _ = unsafe { munmap(self.start.cast(), self.bytes) };
    }
}

/// A frame's share of the memory. A page: the smaller 2048 would do for 1522 bytes behind the kernel's headroom of
/// 256, but not on kernels that also keep room for their own bookkeeping behind the frame.
pub(super) const CHUNK_BYTES: usize = 4096;

/// Frames received lie in the first chunks, frames to be sent in those behind: each end has its own.
#[derive(Debug)]
pub(super) struct FrameMemory {
    pub(super) mapping: Mapping,
    pub(super) receive_chunks: u32,
}

impl FrameMemory {
    pub(super) fn new(receive_chunks: u32, send_chunks: u32) -> Result<Self, Errno> {
        let mapping = Mapping::anonymous((receive_chunks as usize + send_chunks as usize) * CHUNK_BYTES)?;
        Ok(Self { mapping, receive_chunks })
    }

    /// Where `bytes` bytes from `offset` on lie; none unless all of them are in the same chunk, and that chunk
    /// satisfies `whose`.
    #[inline]
    pub(super) fn within_chunk(&self, offset: usize, bytes: usize, whose: impl Fn(u32) -> bool) -> Option<NonNull<u8>> {
        let chunk = offset / CHUNK_BYTES;
        let fits = bytes <= CHUNK_BYTES - offset % CHUNK_BYTES;
        (fits && whose(u32::try_from(chunk).ok()?)).then(|| self.mapping.place(offset, bytes)).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_outside_a_chunk_is_reached() {
        let memory = FrameMemory::new(2, 1).unwrap();
        let received = |chunk| chunk < 2;
        assert!(memory.within_chunk(0, CHUNK_BYTES, received).is_some());
        assert!(memory.within_chunk(CHUNK_BYTES + 256, CHUNK_BYTES - 256, received).is_some());
        for (offset, bytes) in
            [(0, CHUNK_BYTES + 1), (1, CHUNK_BYTES), (2 * CHUNK_BYTES, 1), (usize::MAX, 1), (0, usize::MAX)]
        {
            assert!(memory.within_chunk(offset, bytes, received).is_none(), "{offset} {bytes}");
        }
        assert!(memory.within_chunk(3 * CHUNK_BYTES, 1, |_| true).is_none());
        assert_eq!(Mapping::anonymous(0).unwrap_err(), Errno::EINVAL);
    }
}
