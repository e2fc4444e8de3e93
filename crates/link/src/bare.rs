//! The bare system calls, for benchmarks: what [`Sender`](crate::Sender) and [`Receiver`](crate::Receiver)
//! cost is told by the difference. Not for anything else: no tag, no stamps, no explanation of errors.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `send(2)` without flags: hands over one frame, waits for room if need be.
///
/// # Errors
/// The kernel's.
#[inline]
pub fn send(fd: BorrowedFd<'_>, frame: &[u8]) -> io::Result<usize> {
    // SAFETY: the kernel reads `frame.len()` bytes of a live slice.
    let sent = unsafe { libc::send(fd.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// `recv(2)` without flags: waits for one frame; returns how much of `buffer` it fills.
///
/// # Errors
/// The kernel's.
#[inline]
pub fn recv(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the kernel writes at most `buffer.len()` bytes into a live, exclusively borrowed slice.
    let received = unsafe { libc::recv(fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), 0) };
    usize::try_from(received).map_err(|_| io::Error::last_os_error())
}
