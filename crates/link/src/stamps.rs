//! When frames left the kernel, read from the error queue of a sending socket.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use units::{Nanos, Tai};

use crate::control::{ControlBuffer, messages};
use crate::socket::receive_message;
use crate::wait::{Ready, wait};

/// When one frame left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TxStamp {
    /// Which call of [`Sender::send`](crate::Sender::send), from 0; failed calls count.
    pub id: u32,
    /// When the driver took it, in TAI.
    pub at: Tai,
}

/// The sends that the kernel refused before it numbered them. It numbers only what reaches the queue, so its
/// numbers fall behind ours by one for each of these.
#[derive(Debug)]
pub(crate) struct Unnumbered {
    count: AtomicUsize,
    attempts: [AtomicU32; Self::ROOM],
}

impl Unnumbered {
    const ROOM: usize = 1024;

    pub(crate) fn new() -> Self {
        Self { count: AtomicUsize::new(0), attempts: std::array::from_fn(|_| AtomicU32::new(0)) }
    }

    /// Called by the one sending thread, in rising order.
    pub(crate) fn add(&self, attempt: u32) {
        let count = self.count.load(Ordering::Relaxed);
        if let Some(place) = self.attempts.get(count) {
            place.store(attempt, Ordering::Relaxed);
        }
        // Release: a reader that sees the count sees the entry.
        self.count.store(count.saturating_add(1), Ordering::Release);
    }

    /// Our number of the send that the kernel numbered `id`; none after more refusals than there is room for.
    fn attempt(&self, id: u32) -> Option<u32> {
        let count = self.count.load(Ordering::Acquire);
        let mut attempt = id;
        for refused in self.attempts.iter().take(count) {
            if refused.load(Ordering::Relaxed) > attempt {
                return Some(attempt);
            }
            attempt = attempt.wrapping_add(1);
        }
        (count <= Self::ROOM).then_some(attempt)
    }
}

/// Reads transmit timestamps, in a thread that is not the sending one.
#[derive(Debug)]
pub struct StampReader {
    fd: OwnedFd,
    unnumbered: Arc<Unnumbered>,
    tai_minus_utc: Nanos,
    control: ControlBuffer,
}

impl StampReader {
    pub(crate) fn new(fd: OwnedFd, unnumbered: Arc<Unnumbered>, tai_minus_utc: Nanos) -> Self {
        Self { fd, unnumbered, tai_minus_utc, control: ControlBuffer::new() }
    }

    /// Waits for the next stamp; none when `timeout` passes without one. Stamps come in the order the frames
    /// left; a frame that the queue dropped has none.
    ///
    /// # Errors
    /// The socket's, or more than 1024 sends were refused, so that stamps can no longer be told apart.
    pub fn wait(&mut self, timeout: Nanos) -> io::Result<Option<TxStamp>> {
        let deadline = Instant::now() + Duration::from_nanos(timeout.0.max(0).cast_unsigned());
        loop {
            if let Some(stamp) = self.read()? {
                return Ok(Some(stamp));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            // The error queue cannot be asked for; it is always reported.
            match wait(&self.fd, nix::poll::PollFlags::empty(), left)? {
                Ready::Nothing => return Ok(None),
                Ready::Interrupted | Ready::Input | Ready::ErrorQueue => {}
            }
        }
    }

    /// The next stamp that is there already. Anything else in the queue is passed over.
    fn read(&mut self) -> io::Result<Option<TxStamp>> {
        while let Some(message) = self.next_message()? {
            let (mut id, mut stamp) = (None, None);
            for control in messages(&self.control.0[..message]) {
                id = id.or(control.stamped_send());
                stamp = stamp.or(control.software_stamp());
            }
            if let (Some(id), Some(stamp)) = (id, stamp) {
                let id = self.unnumbered.attempt(id).ok_or_else(|| {
                    io::Error::other("too many frames were refused on sending; transmit stamps cannot be assigned")
                })?;
                return Ok(Some(TxStamp { id, at: Tai(stamp) + self.tai_minus_utc }));
            }
        }
        Ok(None)
    }

    fn next_message(&mut self) -> Result<Option<usize>, Errno> {
        // No frame comes with the stamp (OPT_TSONLY), so there is nothing to make room for.
        let message = receive_message(&self.fd, &mut [], &mut self.control, libc::MSG_ERRQUEUE)?;
        Ok(message.map(|message| message.control_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_sends_shift_the_numbers_after_them() {
        let unnumbered = Unnumbered::new();
        assert_eq!(unnumbered.attempt(5), Some(5));
        // Of the attempts 0 1 2 3 4 5 6, the kernel refused 0, 3 and 4 and numbered the others 0 1 2 3.
        for refused in [0, 3, 4] {
            unnumbered.add(refused);
        }
        assert_eq!([0, 1, 2, 3].map(|id| unnumbered.attempt(id)), [1, 2, 5, 6].map(Some));
    }

    #[test]
    fn too_many_refusals_are_said() {
        let unnumbered = Unnumbered::new();
        for refused in 0..Unnumbered::ROOM as u32 {
            unnumbered.add(refused * 2 + 1);
        }
        assert_eq!(unnumbered.attempt(5_000), Some(5_000 + Unnumbered::ROOM as u32));
        unnumbered.add(9_999);
        assert_eq!(unnumbered.attempt(5_000), None);
        assert_eq!(unnumbered.attempt(0), Some(0), "what left before is still known");
    }
}
