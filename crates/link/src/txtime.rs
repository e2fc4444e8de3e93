//! Launch times: handing a frame over together with the instant at which it shall leave (`SO_TXTIME`), and what
//! becomes of it when that cannot be.

use std::ffi::c_int;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};

use nix::errno::Errno;
use units::{Nanos, Tai};

use crate::control::ExtendedError;
use crate::socket::set_option;

// Of linux/errqueue.h.
const SO_EE_ORIGIN_TXTIME: u8 = 6;
const SO_EE_CODE_TXTIME_INVALID_PARAM: u8 = 1;
const SO_EE_CODE_TXTIME_MISSED: u8 = 2;

/// The clock by which the queue counts launch times. It must be the queue's: ETF drops every frame of another one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LaunchClock {
    /// `CLOCK_TAI`, the clock of ETF and taprio. Needs `CAP_NET_ADMIN`.
    #[default]
    Tai,
    /// `CLOCK_MONOTONIC`, the clock of the queueing discipline fq. Needs no right.
    Monotonic {
        /// Makes it of the instants given, which are TAI.
        tai_minus_monotonic: Nanos,
    },
}

impl LaunchClock {
    const fn id(self) -> libc::clockid_t {
        match self {
            Self::Tai => libc::CLOCK_TAI,
            Self::Monotonic { .. } => libc::CLOCK_MONOTONIC,
        }
    }

    const fn tai_minus_this(self) -> Nanos {
        match self {
            Self::Tai => Nanos::ZERO,
            Self::Monotonic { tai_minus_monotonic } => tai_minus_monotonic,
        }
    }
}

/// How a sender hands over launch times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TxTime {
    /// The clock of the queue.
    pub clock: LaunchClock,
    /// Whether the launch time is only a deadline, and the frame leaves as soon as it can before it. Must be as
    /// in the queue (`deadline_mode` of ETF).
    pub deadline_mode: bool,
    /// Whether the queue shall tell which frames it lost, and why: see [`Departure::Lost`](crate::Departure::Lost).
    pub report_errors: bool,
}

impl TxTime {
    /// Makes a socket that has sent nothing yet one with launch times.
    pub(crate) fn switch_on(self, fd: impl AsFd) -> Result<(), Errno> {
        let deadline = if self.deadline_mode { libc::SOF_TXTIME_DEADLINE_MODE } else { 0 };
        let report = if self.report_errors { libc::SOF_TXTIME_REPORT_ERRORS } else { 0 };
        let value = libc::sock_txtime { clockid: self.clock.id(), flags: deadline | report };
        set_option(fd, libc::SOL_SOCKET, libc::SO_TXTIME, &value)
    }
}

/// Why a frame was lost for its launch time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaunchError {
    /// Refused when it was handed over: the launch time was past, or before that of a frame which had left the queue
    /// already, or of another clock or mode than the queue's. The call has failed too, with
    /// [`LinkError::Dropped`](crate::LinkError::Dropped).
    Invalid,
    /// The launch time passed while the frame waited in the queue.
    Missed,
    /// A cause that kernels up to 6.18 do not give.
    Other {
        /// Its error number.
        errno: i32,
        /// `SO_EE_CODE_…` of linux/errqueue.h.
        code: u8,
    },
}

/// A frame that did not leave, because of its launch time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LostLaunch {
    /// Which call, counted as in [`TxStamp::id`](crate::TxStamp::id). The queue tells the launch time alone: none when
    /// several of the last 1024 calls gave the same one, or none of them.
    pub id: Option<u32>,
    /// When it should have left.
    pub launch: Tai,
    /// Why it did not.
    pub cause: LaunchError,
}

/// How many frames a sender lost because of their launch times; to be read from any thread.
///
/// A frame that the queue refuses is told twice, by the call that fails and by the error queue; it is one loss here.
#[derive(Debug, Default)]
pub struct LaunchLosses {
    dropped: AtomicU64,
    invalid: AtomicU64,
    missed: AtomicU64,
    other: AtomicU64,
}

impl LaunchLosses {
    /// Calls that failed with [`LinkError::Dropped`](crate::LinkError::Dropped): all that the queue refused, for
    /// whatever reason. Counted without a reader of the error queue, too.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// How many of [`dropped`](Self::dropped) are explained by [`LaunchError::Invalid`]. ETF explains all it refuses
    /// for a launch time; taprio and a queue that is full explain nothing.
    pub fn invalid(&self) -> u64 {
        self.invalid.load(Ordering::Relaxed)
    }

    /// Frames lost in the queue by [`LaunchError::Missed`]. Needs a reader of the error queue, as the next.
    pub fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    /// Frames lost by [`LaunchError::Other`].
    pub fn other(&self) -> u64 {
        self.other.load(Ordering::Relaxed)
    }

    /// Every lost frame once.
    pub fn total(&self) -> u64 {
        self.dropped() + self.missed() + self.other()
    }

    pub(crate) fn add_dropped(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn add(&self, cause: LaunchError) {
        let counter = match cause {
            LaunchError::Invalid => &self.invalid,
            LaunchError::Missed => &self.missed,
            LaunchError::Other { .. } => &self.other,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// The launch times of the last calls, by which a lost frame is found again.
#[derive(Debug)]
pub(crate) struct Launches {
    clock: LaunchClock,
    /// How many calls there have been.
    calls: AtomicU32,
    recent: [AtomicI64; Self::ROOM],
}

impl Launches {
    const ROOM: usize = 1024;

    pub(crate) fn new(clock: LaunchClock) -> Self {
        Self { clock, calls: AtomicU32::new(0), recent: std::array::from_fn(|_| AtomicI64::new(i64::MIN)) }
    }

    /// Called by the one sending thread before the call numbered `id`.
    #[inline]
    pub(crate) fn note(&self, id: u32, launch: Tai) {
        self.recent[id as usize % Self::ROOM].store(launch.0, Ordering::Relaxed);
        // Release: a reader that sees the count sees the entry.
        self.calls.store(id.wrapping_add(1), Ordering::Release);
    }

    fn find(&self, launch: Tai) -> Option<u32> {
        let calls = self.calls.load(Ordering::Acquire);
        let mut found = None;
        for back in 1..=Self::ROOM as u32 {
            let id = calls.wrapping_sub(back);
            if self.recent[id as usize % Self::ROOM].load(Ordering::Relaxed) != launch.0 {
                continue;
            }
            if found.is_some() {
                return None;
            }
            found = Some(id);
        }
        found
    }

    /// The loss that the error queue tells of; none if it tells of something else.
    pub(crate) fn lost(&self, error: &ExtendedError) -> Option<LostLaunch> {
        if error.origin != SO_EE_ORIGIN_TXTIME {
            return None;
        }
        let cause = match (error.code, error.errno) {
            (SO_EE_CODE_TXTIME_INVALID_PARAM, _) => LaunchError::Invalid,
            (SO_EE_CODE_TXTIME_MISSED, _) => LaunchError::Missed,
            (code, errno) => LaunchError::Other { errno, code },
        };
        // `report_sock_error` of net/sched/sch_etf.c: data has the upper half, info the lower.
        let txtime = (u64::from(error.data) << 32 | u64::from(error.info)).cast_signed();
        let launch = Tai(txtime.wrapping_add(self.clock.tai_minus_this().0));
        Some(LostLaunch { id: self.find(launch), launch, cause })
    }
}

/// A control message `SCM_TXTIME`, as `CMSG_LEN` and `CMSG_DATA` would lay it out on 64-bit Linux.
#[repr(C)]
struct LaunchMessage {
    length: usize,
    level: c_int,
    kind: c_int,
    txtime_ns: u64,
}

const _: () = assert!(size_of::<LaunchMessage>() == 24 && std::mem::offset_of!(LaunchMessage, txtime_ns) == 16);

/// One `sendmsg` that does not wait, without an address, to leave at `launch`.
#[inline]
pub(crate) fn send_at(fd: impl AsFd, clock: LaunchClock, bytes: &[u8], launch: Tai) -> Result<(), Errno> {
    let mut control = LaunchMessage {
        length: size_of::<LaunchMessage>(),
        level: libc::SOL_SOCKET,
        kind: libc::SCM_TXTIME,
        // A time before the clock's zero stays past: the kernel takes the number as signed again.
        txtime_ns: launch.0.wrapping_sub(clock.tai_minus_this().0).cast_unsigned(),
    };
    let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    // SAFETY: all-zero bytes are a valid `msghdr`: null pointers with zero lengths. (It has private padding on musl.)
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    header.msg_control = (&raw mut control).cast();
    header.msg_controllen = size_of::<LaunchMessage>() as _;
    // SAFETY: `header` points to one `iovec` over `bytes`, which the kernel only reads, and to `control`, with their
    // lengths; all of them are live for the call.
    let sent = unsafe { libc::sendmsg(fd.as_fd().as_raw_fd(), &raw const header, libc::MSG_DONTWAIT) };
    Errno::result(sent).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2023-11-14 and a little: both halves of the number count.
    const LAUNCH: Tai = Tai(0x1797_A3B4_89AB_CDEF);

    fn error(errno: i32, code: u8) -> ExtendedError {
        ExtendedError { errno, origin: SO_EE_ORIGIN_TXTIME, code, info: 0x89AB_CDEF, data: 0x1797_A3B4 }
    }

    #[test]
    fn lost_launches_are_told_with_cause_and_time() {
        let launches = Launches::new(LaunchClock::Tai);
        for (errno, code, cause) in [
            (libc::EINVAL, 1, LaunchError::Invalid),
            (libc::ECANCELED, 2, LaunchError::Missed),
            (libc::EIO, 9, LaunchError::Other { errno: libc::EIO, code: 9 }),
        ] {
            let lost = launches.lost(&error(errno, code)).unwrap();
            assert_eq!(lost, LostLaunch { id: None, launch: LAUNCH, cause });
        }
        for origin in [libc::SO_EE_ORIGIN_TIMESTAMPING, libc::SO_EE_ORIGIN_ICMP, libc::SO_EE_ORIGIN_LOCAL] {
            assert_eq!(launches.lost(&ExtendedError { origin, ..error(libc::EINVAL, 1) }), None);
        }
    }

    #[test]
    fn the_monotonic_clock_is_counted_in_tai() {
        let launches = Launches::new(LaunchClock::Monotonic { tai_minus_monotonic: Nanos(1_000) });
        assert_eq!(launches.lost(&error(libc::ECANCELED, 2)).unwrap().launch, LAUNCH + Nanos(1_000));
        launches.note(0, LAUNCH + Nanos(1_000));
        assert_eq!(launches.lost(&error(libc::ECANCELED, 2)).unwrap().id, Some(0));
    }

    #[test]
    fn a_lost_frame_is_found_by_its_launch_time() {
        let launches = Launches::new(LaunchClock::Tai);
        let id = |launch| launches.find(launch);
        assert_eq!(id(Tai(0)), None, "before the first call");
        for call in 0..3_000_u32 {
            launches.note(call, Tai(i64::from(call) * 250_000));
        }
        assert_eq!(id(Tai(2_999 * 250_000)), Some(2_999));
        assert_eq!(id(Tai(1_976 * 250_000)), Some(1_976));
        assert_eq!(id(Tai(1_975 * 250_000)), None, "too long ago");
        launches.note(3_000, Tai(2_500 * 250_000));
        assert_eq!(id(Tai(2_500 * 250_000)), None, "two of them");
        // Where the numbers begin anew.
        launches.note(u32::MAX, Tai(-7));
        launches.note(0, Tai(-8));
        assert_eq!((id(Tai(-7)), id(Tai(-8))), (Some(u32::MAX), Some(0)));
    }

    #[test]
    fn each_loss_counts_once() {
        let losses = LaunchLosses::default();
        losses.add_dropped();
        losses.add_dropped();
        losses.add(LaunchError::Invalid);
        losses.add(LaunchError::Missed);
        losses.add(LaunchError::Other { errno: libc::EIO, code: 9 });
        let by_cause = [losses.dropped(), losses.invalid(), losses.missed(), losses.other()];
        assert_eq!((by_cause, losses.total()), ([2, 1, 1, 1], 4));
    }
}
