//! The bare system calls, for benchmarks: what [`Sender`](crate::Sender) and [`Receiver`](crate::Receiver)
//! cost is told by the difference. Not for anything else: no tag, no stamps, no explanation of errors.

mod ring;

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use crate::ETHERTYPE_UADP;
use crate::error::LinkError;
use crate::socket::PacketSocket;

pub use ring::Ring;

/// A socket that gets the UADP frames of an interface and nothing else about them, with a receive buffer of
/// `buffer_bytes`: the least there is.
///
/// # Errors
/// As [`Receiver::open`](crate::Receiver::open).
pub fn receiver(interface: &str, buffer_bytes: usize) -> Result<OwnedFd, LinkError> {
    let socket = PacketSocket::open(interface)?;
    socket.set_receive_buffer(buffer_bytes)?;
    socket.bind(ETHERTYPE_UADP)?;
    Ok(socket.fd)
}

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
