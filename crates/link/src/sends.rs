//! The numbers of a socket's sends, and what its sending thread and the reader of its error queue share.

use std::cell::Cell;
use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use units::{Nanos, Tai};

use crate::error::{InterfaceName, LinkError};
use crate::socket::{CAP_NET_ADMIN, CAP_NET_RAW, set_option, set_receive_buffer};
use crate::stamping;
use crate::stampmode::Stamps;
use crate::stamps::{SocketKind, StampReader};
use crate::txtime::{LaunchClock, LaunchLosses, Launches, TxTime};

/// Stamps waiting to be read are charged to the receive buffer, with nearly a kilobyte each: room for some
/// thousands, in case the reader is late.
const ERROR_QUEUE_BYTES: usize = 4 << 20;

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
    pub(crate) fn attempt(&self, id: u32) -> Option<u32> {
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

/// What the reader of the error queue must know of the sends.
#[derive(Debug)]
pub(crate) struct Ledger {
    pub(crate) unnumbered: Unnumbered,
    pub(crate) launches: Launches,
    pub(crate) losses: Arc<LaunchLosses>,
}

impl Ledger {
    pub(crate) fn new(clock: LaunchClock, losses: Arc<LaunchLosses>) -> Self {
        Self { unnumbered: Unnumbered::new(), launches: Launches::new(clock), losses }
    }
}

/// The sends of one socket.
#[derive(Debug)]
pub(crate) struct Sends {
    attempts: Cell<u32>,
    stamps: Stamps,
    clock: Option<LaunchClock>,
    losses: Arc<LaunchLosses>,
    ledger: Option<Arc<Ledger>>,
}

impl Sends {
    /// Switches launch times and stamps on, on a socket that has sent nothing yet.
    pub(crate) fn set_up(
        fd: BorrowedFd<'_>,
        interface: InterfaceName,
        stamps: Stamps,
        txtime: Option<TxTime>,
    ) -> Result<Self, LinkError> {
        let refused = |name, needs| move |errno| LinkError::of(errno, name, needs, interface);
        if let Some(txtime) = txtime {
            txtime.switch_on(fd).map_err(refused("SO_TXTIME", CAP_NET_ADMIN))?;
        }
        let read = stamps != Stamps::Off || txtime.is_some_and(|txtime| txtime.report_errors);
        if read {
            set_receive_buffer(fd, ERROR_QUEUE_BYTES).map_err(refused("SO_RCVBUF", CAP_NET_ADMIN))?;
        }
        if let Some(flags) = stamp_flags(interface, stamps)? {
            set_option(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &flags)
                .map_err(refused("SO_TIMESTAMPING", CAP_NET_RAW))?;
        }
        let losses = Arc::new(LaunchLosses::default());
        let clock = txtime.map(|txtime| txtime.clock);
        let ledger = read.then(|| Arc::new(Ledger::new(clock.unwrap_or_default(), Arc::clone(&losses))));
        Ok(Self { attempts: Cell::new(0), stamps, clock, losses, ledger })
    }

    /// Whether frames are sent with launch times, and by which clock.
    #[inline]
    pub(crate) fn clock(&self) -> Option<LaunchClock> {
        self.clock
    }

    /// The number of the call that begins.
    #[inline]
    pub(crate) fn begin(&self) -> u32 {
        let attempt = self.attempts.get();
        self.attempts.set(attempt.wrapping_add(1));
        attempt
    }

    /// As [`Self::begin`], of a call with a launch time.
    #[inline]
    pub(crate) fn begin_at(&self, launch: Tai) -> u32 {
        let attempt = self.begin();
        if let Some(ledger) = &self.ledger {
            ledger.launches.note(attempt, launch);
        }
        attempt
    }

    /// The kernel refused this call before it gave it a number.
    pub(crate) fn unnumbered(&self, attempt: u32) {
        if let Some(ledger) = &self.ledger {
            ledger.unnumbered.add(attempt);
        }
    }

    /// A call with or without a launch time on a sender of the other sort; its number is used up.
    #[cold]
    pub(crate) fn misused(&self, interface: InterfaceName) -> LinkError {
        self.unnumbered(self.begin());
        LinkError::LaunchTime { needed: self.clock.is_some(), interface }
    }

    /// The queue dropped what it was given.
    pub(crate) fn dropped(&self) {
        if self.clock.is_some() {
            self.losses.add_dropped();
        }
    }

    /// Which stamps the frames get.
    pub(crate) fn stamps(&self) -> Stamps {
        self.stamps
    }

    pub(crate) fn losses(&self) -> Arc<LaunchLosses> {
        Arc::clone(&self.losses)
    }

    /// A reader of the error queue.
    pub(crate) fn reader(&self, fd: impl AsFd, kind: SocketKind, tai_minus_utc: Nanos) -> io::Result<StampReader> {
        let Some(ledger) = &self.ledger else {
            let why = "this sender was opened without stamps, and without reports of lost launch times";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        };
        let fd = fd.as_fd().try_clone_to_owned()?;
        Ok(StampReader::new(fd, kind, Arc::clone(ledger), self.stamps, tai_minus_utc))
    }
}

fn stamp_flags(interface: InterfaceName, stamps: Stamps) -> Result<Option<c_int>, LinkError> {
    let taken = match stamps {
        Stamps::Off => return Ok(None),
        Stamps::Software => libc::SOF_TIMESTAMPING_TX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE,
        Stamps::Hardware => {
            stamping::stamp_all_sent(interface.as_str())?;
            libc::SOF_TIMESTAMPING_TX_HARDWARE | libc::SOF_TIMESTAMPING_RAW_HARDWARE
        }
    };
    // OPT_TSONLY: the stamp comes without a copy of the frame.
    let flags = taken | libc::SOF_TIMESTAMPING_OPT_ID | libc::SOF_TIMESTAMPING_OPT_TSONLY;
    Ok(Some(flags.cast_signed()))
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
