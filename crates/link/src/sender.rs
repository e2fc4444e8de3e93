//! Handing frames to an interface.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;

use nix::errno::Errno;
use units::Nanos;

use crate::error::LinkError;
use crate::socket::{CAP_NET_ADMIN, CAP_NET_RAW, PacketSocket};
use crate::stamps::{StampReader, Unnumbered};

/// Stamps waiting to be read are charged to the receive buffer, with nearly a kilobyte each: room for some
/// thousands, in case the reader is late.
const STAMP_BUFFER_BYTES: usize = 4 << 20;

/// How a sender is set up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SenderOptions {
    /// `SO_PRIORITY`, which chooses the traffic class on this host; usually the PCP of the frames.
    pub priority: u8,
    /// Whether the kernel shall say when each frame left.
    pub stamps: bool,
}

/// A socket that sends complete frames (from the destination address on, tag included) and receives nothing.
///
/// Belongs to one thread at a time: the numbers of its sends follow the order of the calls.
#[derive(Debug)]
pub struct Sender {
    socket: PacketSocket,
    attempts: Cell<u32>,
    stamped: Option<Arc<Unnumbered>>,
}

impl Sender {
    /// Opens a sender on an interface of the calling thread's network namespace.
    ///
    /// # Errors
    /// No such interface, interface down, or a right is missing: `CAP_NET_RAW`, and for priority 7 on
    /// older kernels `CAP_NET_ADMIN`.
    pub fn open(interface: &str, options: SenderOptions) -> Result<Self, LinkError> {
        let socket = PacketSocket::open(interface)?;
        let priority = u32::from(options.priority);
        socket.set(libc::SOL_SOCKET, libc::SO_PRIORITY, &priority, "SO_PRIORITY", CAP_NET_ADMIN)?;
        let stamped = if options.stamps {
            // OPT_TSONLY: the stamp comes without a copy of the frame.
            let flags = libc::SOF_TIMESTAMPING_TX_SOFTWARE
                | libc::SOF_TIMESTAMPING_SOFTWARE
                | libc::SOF_TIMESTAMPING_OPT_ID
                | libc::SOF_TIMESTAMPING_OPT_TSONLY;
            socket.set_receive_buffer(STAMP_BUFFER_BYTES)?;
            socket.set(libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &flags, "SO_TIMESTAMPING", CAP_NET_RAW)?;
            Some(Arc::new(Unnumbered::new()))
        } else {
            None
        };
        // Bound without a protocol, it receives nothing, and the kernel remembers the interface. It also takes the
        // protocol of each frame from the frame (since 5.1), which filters on egress look at.
        socket.bind(0)?;
        Ok(Self { socket, attempts: Cell::new(0), stamped })
    }

    /// Hands over one frame. Never waits and allocates nothing, also when it fails.
    ///
    /// # Errors
    /// [`LinkError::Dropped`] by the queue, [`LinkError::Congested`], [`LinkError::TooLong`],
    /// [`LinkError::Down`], or another refusal of the kernel, such as `EINVAL` for less than a header.
    #[inline]
    pub fn send(&self, frame: &[u8]) -> Result<(), LinkError> {
        let attempt = self.attempts.get();
        self.attempts.set(attempt.wrapping_add(1));
        // Without an address: the kernel would copy it and look the interface up, some 3 % of a send.
        // SAFETY: the kernel reads `frame.len()` bytes of a live slice.
        let sent =
            unsafe { libc::send(self.socket.fd.as_raw_fd(), frame.as_ptr().cast(), frame.len(), libc::MSG_DONTWAIT) };
        match Errno::result(sent) {
            Ok(_) => Ok(()),
            Err(errno) => Err(self.failed(attempt, errno, frame.len())),
        }
    }

    #[cold]
    fn failed(&self, attempt: u32, errno: Errno, bytes: usize) -> LinkError {
        // The kernel numbers a frame just before it goes to the queue (`packet_snd`); a frame refused earlier
        // takes no number. ENOBUFS is the queue's answer.
        if let Some(stamped) = self.stamped.as_ref().filter(|_| errno != Errno::ENOBUFS) {
            stamped.add(attempt);
        }
        let interface = self.socket.interface;
        match errno {
            Errno::ENOBUFS => LinkError::Dropped { interface },
            Errno::EAGAIN => LinkError::Congested { interface },
            Errno::EMSGSIZE => LinkError::TooLong { bytes, interface },
            errno => LinkError::of(errno, "send", CAP_NET_RAW, interface),
        }
    }

    /// A reader of the stamps, for another thread. Stamps arrive in UTC: `tai_minus_utc` makes TAI of them.
    /// Two readers of one sender take each other's stamps away.
    ///
    /// # Errors
    /// The sender was opened without stamps, or too many files are open.
    pub fn stamps(&self, tai_minus_utc: Nanos) -> io::Result<StampReader> {
        let Some(stamped) = &self.stamped else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "this sender was opened without stamps"));
        };
        Ok(StampReader::new(self.socket.fd.try_clone()?, Arc::clone(stamped), tai_minus_utc))
    }
}

/// For `poll` and for comparisons with the [bare calls](crate::bare).
impl AsFd for Sender {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.fd.as_fd()
    }
}
