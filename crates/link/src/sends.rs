//! The numbers of a socket's sends, and what its sending thread and the reader of its error queue share.

use std::cell::Cell;
use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

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

/// Where the kernel's numbers of sends and ours part: it gives none to a send that it refuses early enough, and on
/// some kernels one to a try that failed and was repeated.
#[derive(Debug)]
pub(crate) struct Numbering {
    count: AtomicUsize,
    /// Of each exception the number of the call, and whether the kernel has one more than we (else one less).
    exceptions: [AtomicU64; Self::ROOM],
}

impl Numbering {
    const ROOM: usize = 1024;
    const ONE_MORE: u64 = 1 << 32;

    pub(crate) fn new() -> Self {
        Self { count: AtomicUsize::new(0), exceptions: std::array::from_fn(|_| AtomicU64::new(0)) }
    }

    /// The call has no number. These two are called by the one sending thread, in rising order.
    pub(crate) fn without(&self, attempt: u32) {
        self.add(attempt.into());
    }

    /// A try of this call has used up a number before that of the call.
    pub(crate) fn one_more(&self, attempt: u32) {
        self.add(u64::from(attempt) | Self::ONE_MORE);
    }

    fn add(&self, exception: u64) {
        let count = self.count.load(Ordering::Relaxed);
        if let Some(place) = self.exceptions.get(count) {
            place.store(exception, Ordering::Relaxed);
        }
        // Release: a reader that sees the count sees the entry.
        self.count.store(count.saturating_add(1), Ordering::Release);
    }

    /// Our number of the send that the kernel numbered `id`; none after more exceptions than there is room for.
    pub(crate) fn attempt(&self, id: u32) -> Option<u32> {
        let count = self.count.load(Ordering::Acquire);
        let mut attempt = id;
        for exception in self.exceptions.iter().take(count) {
            let exception = exception.load(Ordering::Relaxed);
            let (one_more, at) = (exception & Self::ONE_MORE != 0, exception as u32);
            if at > attempt || (one_more && at == attempt) {
                return Some(attempt);
            }
            attempt = if one_more { attempt.wrapping_sub(1) } else { attempt.wrapping_add(1) };
        }
        (count <= Self::ROOM).then_some(attempt)
    }
}

/// What the reader of the error queue must know of the sends.
#[derive(Debug)]
pub(crate) struct Ledger {
    pub(crate) numbering: Numbering,
    pub(crate) launches: Launches,
    pub(crate) losses: Arc<LaunchLosses>,
}

impl Ledger {
    pub(crate) fn new(clock: LaunchClock, losses: Arc<LaunchLosses>) -> Self {
        Self { numbering: Numbering::new(), launches: Launches::new(clock), losses }
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
            ledger.numbering.without(attempt);
        }
    }

    /// The kernel has given a number to a try of this call that failed and is repeated.
    pub(crate) fn numbered_twice(&self, attempt: u32) {
        if let Some(ledger) = &self.ledger {
            ledger.numbering.one_more(attempt);
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
        let numbering = Numbering::new();
        assert_eq!(numbering.attempt(5), Some(5));
        // Of the attempts 0 1 2 3 4 5 6, the kernel refused 0, 3 and 4 and numbered the others 0 1 2 3.
        for refused in [0, 3, 4] {
            numbering.without(refused);
        }
        assert_eq!([0, 1, 2, 3].map(|id| numbering.attempt(id)), [1, 2, 5, 6].map(Some));
    }

    #[test]
    fn repeated_tries_shift_the_numbers_back() {
        let numbering = Numbering::new();
        // Call 1 was tried three times, call 2 refused early, call 4 tried twice: numbered 0 1 1 1 3 4 4 5.
        numbering.one_more(1);
        numbering.one_more(1);
        numbering.without(2);
        numbering.one_more(4);
        assert_eq!([0, 3, 4, 6, 7].map(|id| numbering.attempt(id)), [0, 1, 3, 4, 5].map(Some));
    }

    #[test]
    fn too_many_refusals_are_said() {
        let numbering = Numbering::new();
        for refused in 0..Numbering::ROOM as u32 {
            numbering.without(refused * 2 + 1);
        }
        assert_eq!(numbering.attempt(5_000), Some(5_000 + Numbering::ROOM as u32));
        numbering.without(9_999);
        assert_eq!(numbering.attempt(5_000), None);
        assert_eq!(numbering.attempt(0), Some(0), "what left before is still known");
    }
}
