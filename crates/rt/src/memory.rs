//! A memory file shared between processes: made once, sealed against resizing, mapped for good.
//!
//! Everything in it is reached as atomic words, so that whatever another process writes there, at whatever moment, is
//! at worst a wrong number. Because the file cannot shrink, no access faults.

use std::io;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};

/// Bytes in a word.
const WORD: usize = size_of::<u64>();

/// A mapped memory file.
#[derive(Debug)]
pub(crate) struct SharedMemory {
    start: NonNull<u8>,
    bytes: NonZeroUsize,
    fd: OwnedFd,
}

// SAFETY: the memory is reached through atomics only and lives until the last owner drops it.
unsafe impl Send for SharedMemory {}
// SAFETY: as above.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// Makes a file of `bytes` bytes, all 0; all pages are there when it returns.
    ///
    /// # Errors
    /// A name with a NUL byte or of more than 200 bytes, or no memory.
    pub(crate) fn create(name: &str, bytes: usize) -> io::Result<Self> {
        let fd = memfd_create(name, MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)?;
        nix::unistd::ftruncate(&fd, bytes as i64)?;
        let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL;
        fcntl(&fd, FcntlArg::F_ADD_SEALS(seals))?;
        Self::map(fd, bytes)
    }

    /// Opens a file that another process has made; `what` is for the error. `allowed` judges its size in bytes before
    /// anything is mapped and says what it expected.
    ///
    /// # Errors
    /// Not sealed against shrinking, or not of an allowed size.
    pub(crate) fn open(fd: OwnedFd, what: &str, allowed: impl FnOnce(usize) -> Result<(), String>) -> io::Result<Self> {
        let seals = fcntl(&fd, FcntlArg::F_GET_SEALS).map(SealFlag::from_bits_retain);
        if !seals.is_ok_and(|seals| seals.contains(SealFlag::F_SEAL_SHRINK)) {
            return Err(invalid(format!("not {what}: a memory file sealed against shrinking expected")));
        }
        let bytes = usize::try_from(nix::sys::stat::fstat(&fd)?.st_size).unwrap_or(0);
        allowed(bytes).map_err(|expected| invalid(format!("not {what}: {bytes} bytes, expected {expected}")))?;
        Self::map(fd, bytes)
    }

    /// The file must have `bytes` bytes and be sealed against shrinking.
    fn map(fd: OwnedFd, bytes: usize) -> io::Result<Self> {
        let bytes = NonZeroUsize::new(bytes).ok_or(io::ErrorKind::InvalidInput)?;
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // MAP_POPULATE: the cyclic thread must not meet a page fault.
        let flags = MapFlags::MAP_SHARED | MapFlags::MAP_POPULATE;
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory of ours. Both callers have made
        // sure that the file has `bytes` bytes and is sealed against shrinking.
        let address = unsafe { mmap(None, bytes, protection, flags, &fd, 0)? };
        Ok(Self { start: address.cast(), bytes, fd })
    }

    /// Size of the file in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.get()
    }

    /// The whole file in words of eight bytes.
    #[inline]
    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is page-aligned, `bytes` long, and lives as long as `self`; zeroed or foreign bytes are
        // valid atomics, and nobody has a plain reference to them.
        unsafe { std::slice::from_raw_parts(self.start.cast().as_ptr(), self.bytes.get() / WORD) }
    }

    /// The whole file in halves of words. A place is used either as a word or as a half, never as both.
    #[inline]
    pub(crate) fn halves(&self) -> &[AtomicU32] {
        // SAFETY: as for `words`.
        unsafe { std::slice::from_raw_parts(self.start.cast().as_ptr(), self.bytes.get() / size_of::<u32>()) }
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `map`, with its length; nothing borrows it any more. A failure would leave it
        // mapped, which does no harm.
        _ = unsafe { munmap(self.start.cast(), self.bytes.get()) };
    }
}

impl AsFd for SharedMemory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// An error about what was passed in.
pub(crate) fn invalid(text: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text.into())
}
