//! Handing frames to an interface.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;

use nix::errno::Errno;
use units::{Nanos, Tai};

use crate::error::LinkError;
use crate::interface;
use crate::sends::Sends;
use crate::socket::{CAP_NET_ADMIN, CAP_NET_RAW, PacketSocket};
use crate::stampmode::Stamps;
use crate::stamps::{SocketKind, StampReader};
use crate::txtime::{self, LaunchLosses, TxTime};

/// Addresses and EtherType.
const HEADER_BYTES: usize = 14;
/// An 802.1Q tag.
const TAG_BYTES: usize = 4;

/// How a sender is set up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SenderOptions {
    /// `SO_PRIORITY`, which chooses the traffic class on this host; usually the PCP of the frames.
    pub priority: u8,
    /// Which stamp shall tell when each frame left. For hardware stamps the interface is set to stamp every frame
    /// that asks for it, which needs `CAP_NET_ADMIN`, and left so.
    pub stamps: Stamps,
    /// Launch times: frames are sent by [`Sender::send_at`] then, and only so.
    pub txtime: Option<TxTime>,
}

/// A socket that sends complete frames (from the destination address on, tag included) and receives nothing.
///
/// Belongs to one thread at a time: the numbers of its sends follow the order of the calls.
#[derive(Debug)]
pub struct Sender {
    socket: PacketSocket,
    sends: Sends,
}

impl Sender {
    /// Opens a sender on an interface of the calling thread's network namespace.
    ///
    /// # Errors
    /// No such interface, interface down, or a right is missing: `CAP_NET_RAW`, for launch times by `CLOCK_TAI` and
    /// hardware stamps `CAP_NET_ADMIN`, as on older kernels for priority 7. [`LinkError::Unsupported`] when the device
    /// takes no hardware stamps.
    pub fn open(interface: &str, options: SenderOptions) -> Result<Self, LinkError> {
        let socket = PacketSocket::open(interface)?;
        let priority = u32::from(options.priority);
        socket.set(libc::SOL_SOCKET, libc::SO_PRIORITY, &priority, "SO_PRIORITY", CAP_NET_ADMIN)?;
        let sends = Sends::set_up(socket.fd.as_fd(), socket.interface, options.stamps, options.txtime)?;
        // Bound without a protocol, it receives nothing, and the kernel remembers the interface. It also takes the
        // protocol of each frame from the frame (since 5.1), which filters on egress look at.
        socket.bind(0)?;
        Ok(Self { socket, sends })
    }

    /// Hands over one frame. Never waits and allocates nothing, also when it fails.
    ///
    /// # Errors
    /// [`LinkError::Dropped`] by the queue, [`LinkError::Congested`], [`LinkError::TooLong`],
    /// [`LinkError::Down`], or another refusal of the kernel, such as `EINVAL` for less than a header.
    /// [`LinkError::LaunchTime`] from a sender with launch times: an ETF queue would drop the frame.
    #[inline]
    pub fn send(&self, frame: &[u8]) -> Result<(), LinkError> {
        if self.sends.clock().is_some() {
            return Err(self.sends.misused(self.socket.interface));
        }
        let attempt = self.sends.begin();
        // Without an address: the kernel would copy it and look the interface up, some 3 % of a send.
        // SAFETY: the kernel reads `frame.len()` bytes of a live slice.
        let sent =
            unsafe { libc::send(self.socket.fd.as_raw_fd(), frame.as_ptr().cast(), frame.len(), libc::MSG_DONTWAIT) };
        match Errno::result(sent) {
            Ok(_) => Ok(()),
            Err(errno) => Err(self.failed(attempt, errno, frame.len())),
        }
    }

    /// Hands over one frame that shall leave at `launch`. Never waits and allocates nothing, also when it fails.
    ///
    /// When it leaves is up to the queue of its traffic class. Only ETF and taprio look at launch times (and fq, by
    /// the monotonic clock); any other queue lets the frame pass at once. ETF with offload lets the network card wait
    /// until `launch`; without, it hands the frame to the card `delta` earlier. Streams that share an ETF queue must
    /// be handed over in the order of their launch times. A software taprio drops what does not fit into an open
    /// window of its class, both ends excluded, and explains it to nobody.
    ///
    /// A trap on virtual interfaces (veth): the frame arrives with its launch time where its receive stamp should be
    /// put. Kernel 6.1 tells it as the stamp, as if the frame were exactly on time whatever happened; kernel 6.18 does not,
    /// and takes the stamp when it gives the frame to the receiving socket. The transmit stamp is a real one always.
    ///
    /// # Errors
    /// As [`Self::send`]; of [`LinkError::Dropped`] the [reader](Self::stamps) tells the cause where it is the launch
    /// time's. [`LinkError::LaunchTime`] from a sender without launch times.
    #[inline]
    pub fn send_at(&self, frame: &[u8], launch: Tai) -> Result<(), LinkError> {
        let Some(clock) = self.sends.clock() else { return Err(self.sends.misused(self.socket.interface)) };
        let attempt = self.sends.begin_at(launch);
        txtime::send_at(&self.socket.fd, clock, frame, launch).map_err(|errno| self.failed(attempt, errno, frame.len()))
    }

    #[cold]
    fn failed(&self, attempt: u32, errno: Errno, bytes: usize) -> LinkError {
        let interface = self.socket.interface;
        // The kernel numbers a frame just before it goes to the queue (`packet_snd`); a frame refused earlier
        // takes no number. ENOBUFS is the queue's answer.
        if errno == Errno::ENOBUFS {
            self.sends.dropped();
        } else if errno != Errno::EMSGSIZE || !self.would_fit_with_tag(bytes) {
            self.sends.unnumbered(attempt);
        }
        match errno {
            Errno::ENOBUFS => LinkError::Dropped { interface },
            Errno::EAGAIN => LinkError::Congested { interface },
            Errno::EMSGSIZE => LinkError::TooLong { bytes, interface },
            errno => LinkError::of(errno, "send", CAP_NET_RAW, interface),
        }
    }

    /// Whether a frame is too long only because it has no tag. The kernel finds that out after it has numbered it.
    fn would_fit_with_tag(&self, bytes: usize) -> bool {
        interface::mtu_near(self, self.socket.interface.as_str())
            .is_ok_and(|mtu| bytes <= HEADER_BYTES + TAG_BYTES + mtu as usize)
    }

    /// A reader of stamps and lost launch times, for another thread. Software stamps arrive in UTC: `tai_minus_utc`
    /// makes TAI of them. Two readers of one sender take each other's stamps away.
    ///
    /// # Errors
    /// The sender was opened without stamps and without reports of lost launch times, or too many files are open.
    pub fn stamps(&self, tai_minus_utc: Nanos) -> io::Result<StampReader> {
        self.sends.reader(&self.socket.fd, SocketKind::Packet, tai_minus_utc)
    }

    /// Which stamps its frames get.
    pub fn stamp_mode(&self) -> Stamps {
        self.sends.stamps()
    }

    /// How many frames were lost because of their launch times. All but [`LaunchLosses::dropped`] is counted by the
    /// [reader](Self::stamps).
    pub fn launch_losses(&self) -> Arc<LaunchLosses> {
        self.sends.losses()
    }
}

/// For `poll` and for comparisons with the [bare calls](crate::bare).
impl AsFd for Sender {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.fd.as_fd()
    }
}
