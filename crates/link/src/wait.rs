//! Waiting for a socket.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

use crate::socket::noted_error;

/// Why a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ready {
    /// The time is over.
    Nothing,
    /// A frame is there.
    Input,
    /// Something is in the error queue.
    ErrorQueue,
    /// A signal came.
    Interrupted,
}

/// Waits for `events`, or for the error queue, which is always watched.
///
/// # Errors
/// An error that the kernel has noted on the socket, such as an interface that went down; it is told once.
pub(crate) fn wait(fd: impl AsFd, events: PollFlags, timeout: Duration) -> io::Result<Ready> {
    let mut fds = [PollFd::new(fd.as_fd(), events)];
    match ppoll(&mut fds, Some(TimeSpec::from_duration(timeout)), None) {
        Ok(0) => return Ok(Ready::Nothing),
        Ok(_) => {}
        Err(Errno::EINTR) => return Ok(Ready::Interrupted),
        Err(errno) => return Err(errno.into()),
    }
    let found = fds[0].revents().unwrap_or(PollFlags::empty());
    if found.intersects(events) {
        return Ok(Ready::Input);
    }
    // The error flag stands for the queue and for a noted error alike; asking for the latter also clears it.
    noted_error(&fd)?;
    Ok(Ready::ErrorQueue)
}
