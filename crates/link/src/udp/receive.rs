//! Taking NetworkMessages from UDP.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use nix::errno::Errno;
use nix::poll::PollFlags;
use nix::sys::socket::{SockaddrStorage, getsockname};
use units::{Nanos, Tai};

use super::socket::{UdpSocket, address_of, no_address};
use crate::control::{ControlBuffer, messages};
use crate::error::LinkError;
use crate::packet::duration;
use crate::receiver::{BusyPoll, busy_poll};
use crate::socket::{CAP_NET_ADMIN, get_option, receive_message_from, set_receive_buffer};
use crate::stamping;
use crate::stampmode::Stamps;
use crate::wait::{Ready, wait};

/// Any datagram fits.
const LONGEST_DATAGRAM_BYTES: usize = 65_536;
/// Of linux/sock_diag.h: how many values `SO_MEMINFO` has, and which are the drops.
const MEMINFO_VALUES: usize = 9;
const MEMINFO_DROPS: usize = 8;

/// How a receiver over UDP is set up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UdpReceiverOptions {
    /// Makes TAI of software stamps, which arrive in UTC.
    pub tai_minus_utc: Nanos,
    /// As [`ReceiverOptions::stamps`](crate::ReceiverOptions::stamps).
    pub stamps: Stamps,
    /// Receive buffer in bytes; 0 leaves the system's. A datagram takes its length and about 800 bytes more.
    pub buffer_bytes: usize,
    /// As [`ReceiverOptions::busy_poll_us`](crate::ReceiverOptions::busy_poll_us).
    pub busy_poll_us: u32,
    /// As [`ReceiverOptions::busy_poll_budget`](crate::ReceiverOptions::busy_poll_budget).
    pub busy_poll_budget: u16,
}

/// A datagram as it was received; borrowed from the receiver until the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceivedDatagram<'a> {
    /// What it carries.
    pub uadp: &'a [u8],
    /// Who sent it.
    pub from: SocketAddr,
    /// When it arrived; none without stamps, and for the first ones after opening (about 50 ms).
    pub stamp: Option<Tai>,
}

/// A socket that receives the datagrams to one address or group that arrive at an interface.
///
/// Several receivers on a host get each datagram to a group; one to a host's own address goes to one of them alone.
#[derive(Debug)]
pub struct UdpReceiver {
    socket: UdpSocket,
    buffer: Box<[u8]>,
    control: Box<ControlBuffer>,
    options: UdpReceiverOptions,
    busy_poll: BusyPoll,
    drops: AtomicU64,
}

impl UdpReceiver {
    /// Opens a receiver on an interface of the calling thread's network namespace. `at` is a group, which is joined, an
    /// address of this host, or the unspecified one for all of this host's; with port 0, the system chooses one.
    ///
    /// # Errors
    /// No such interface, interface down, [`LinkError::NotOurAddress`], [`LinkError::AddressTaken`], or a right is
    /// missing: `CAP_NET_ADMIN` for busy polling and hardware stamps, `CAP_NET_BIND_SERVICE` for ports below 1024.
    /// [`LinkError::Unsupported`] when the device cannot stamp every frame it receives.
    pub fn open(interface: &str, at: SocketAddr, options: UdpReceiverOptions) -> Result<Self, LinkError> {
        let socket = UdpSocket::open(interface, at)?;
        switch_on_stamps(&socket, options.stamps)?;
        if options.buffer_bytes > 0 {
            set_receive_buffer(&socket.fd, options.buffer_bytes)
                .map_err(|errno| LinkError::of(errno, "SO_RCVBUF", CAP_NET_ADMIN, socket.interface))?;
        }
        let busy_poll = busy_poll(&socket.fd, socket.interface, options.busy_poll_us, options.busy_poll_budget)?;
        if at.is_ipv6() {
            socket.set_at(libc::SOL_IPV6, libc::IPV6_V6ONLY, &1_i32, "IPV6_V6ONLY")?;
        }
        if at.ip().is_multicast() {
            socket.set_at(libc::SOL_SOCKET, libc::SO_REUSEADDR, &1_i32, "SO_REUSEADDR")?;
            // Bound to the group, it gets no other that somebody else has joined.
            socket.bind(at)?;
            socket.join(at)?;
        } else {
            socket.bind(at)?;
        }
        let buffer = vec![0; LONGEST_DATAGRAM_BYTES].into_boxed_slice();
        let control = Box::new(ControlBuffer::new());
        Ok(Self { socket, buffer, control, options, busy_poll, drops: AtomicU64::new(0) })
    }

    /// Takes the oldest datagram that has arrived; none when there is none. Never waits, allocates nothing.
    ///
    /// # Errors
    /// The socket's.
    #[inline]
    pub fn receive(&mut self) -> io::Result<Option<ReceivedDatagram<'_>>> {
        let mut from = no_address();
        let message = receive_message_from(&self.socket.fd, &mut self.buffer, &mut self.control, Some(&mut from), 0)?;
        let Some(message) = message else { return Ok(None) };
        let from = address_of(&from).ok_or(Errno::EAFNOSUPPORT)?;
        let mut stamp = None;
        if self.options.stamps != Stamps::Off {
            for control in messages(&self.control.0[..message.control_bytes]) {
                stamp = stamp.or(match self.options.stamps {
                    Stamps::Hardware => control.hardware_stamp().map(Tai),
                    _ => control.software_stamp().map(|utc| Tai(utc) + self.options.tai_minus_utc),
                });
            }
        }
        Ok(Some(ReceivedDatagram { uadp: &self.buffer[..message.bytes], from, stamp }))
    }

    /// Waits until a datagram is there, at most for `timeout`; returns whether one is. A signal ends the wait early.
    ///
    /// # Errors
    /// The socket's.
    pub fn wait(&self, timeout: Nanos) -> io::Result<bool> {
        Ok(wait(&self.socket.fd, PollFlags::POLLIN, duration(timeout))? == Ready::Input)
    }

    /// How many datagrams were lost since opening: they found no room in the receive buffer, or were damaged.
    ///
    /// # Errors
    /// The kernel's.
    pub fn drops(&self) -> io::Result<u64> {
        let values: [u32; MEMINFO_VALUES] = get_option(&self.socket.fd, libc::SOL_SOCKET, libc::SO_MEMINFO)?;
        let now = values[MEMINFO_DROPS];
        // The kernel's counter has 32 bits and goes on from 0.
        let counted = |drops: u64| drops + u64::from(now.wrapping_sub(drops as u32));
        let before = self.drops.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |drops| Some(counted(drops)));
        Ok(counted(before.unwrap_or_default()))
    }

    /// Which stamps the datagrams come with.
    pub fn stamps(&self) -> Stamps {
        self.options.stamps
    }

    /// What has been granted of busy polling.
    pub fn busy_poll(&self) -> BusyPoll {
        self.busy_poll
    }

    /// Where it receives, with the port that the system has chosen.
    ///
    /// # Errors
    /// The kernel's.
    pub fn address(&self) -> io::Result<SocketAddr> {
        let address: SockaddrStorage = getsockname(self.socket.fd.as_raw_fd())?;
        let v4 = address.as_sockaddr_in().map(|v4| SocketAddr::V4((*v4).into()));
        let v6 = address.as_sockaddr_in6().map(|v6| SocketAddr::V6((*v6).into()));
        v4.or(v6).ok_or_else(|| Errno::EAFNOSUPPORT.into())
    }
}

/// For `poll`.
impl AsFd for UdpReceiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.fd.as_fd()
    }
}

fn switch_on_stamps(socket: &UdpSocket, stamps: Stamps) -> Result<(), LinkError> {
    let flags = match stamps {
        Stamps::Off => return Ok(()),
        Stamps::Software => libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE,
        Stamps::Hardware => {
            stamping::stamp_all_received(socket.interface.as_str())?;
            libc::SOF_TIMESTAMPING_RX_HARDWARE | libc::SOF_TIMESTAMPING_RAW_HARDWARE
        }
    };
    socket.set_at(libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &flags, "SO_TIMESTAMPING")
}
