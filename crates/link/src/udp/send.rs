//! Handing NetworkMessages to UDP.

use std::ffi::c_int;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;

use nix::errno::Errno;
use nix::sys::socket::{SockaddrStorage, connect};
use units::{Nanos, Tai};

use super::numbers;
use super::socket::UdpSocket;
use crate::error::LinkError;
use crate::sends::Sends;
use crate::socket::{get_option, set_option};
use crate::stampmode::Stamps;
use crate::stamps::{SocketKind, StampReader};
use crate::txtime::{self, LaunchLosses, TxTime};

/// How often a datagram is tried again after an error that the network has answered earlier ones with.
const RETRIES: u32 = 3;

/// What a call over IPv4 may be given.
const LONGEST_IPV4_BYTES: usize = 65_535;

/// How a sender over UDP is set up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UdpSenderOptions {
    /// `SO_PRIORITY`, which chooses the traffic class on this host. More than 6 needs `CAP_NET_ADMIN` or `CAP_NET_RAW`.
    pub priority: u8,
    /// Differentiated services code point (RFC 2474), 6 bits; switches and routers may look at it.
    pub dscp: u8,
    /// How many routers a datagram may pass, plus one; none for the system's, and 1 for multicast.
    pub hops: Option<u8>,
    /// Whether receivers on this host get multicast, too.
    pub loopback: bool,
    /// The address to send from, which must be one of this host's; port 0 for any. None for what the routes say.
    pub source: Option<SocketAddr>,
    /// As [`SenderOptions::stamps`](crate::SenderOptions::stamps).
    pub stamps: Stamps,
    /// As [`SenderOptions::txtime`](crate::SenderOptions::txtime).
    pub txtime: Option<TxTime>,
}

/// A socket that sends NetworkMessages to one address, each in a datagram of its own, and receives nothing.
///
/// Belongs to one thread at a time: the numbers of its sends follow the order of the calls.
#[derive(Debug)]
pub struct UdpSender {
    socket: UdpSocket,
    destination: SocketAddr,
    sends: Sends,
    refused_have_numbers: bool,
}

impl UdpSender {
    /// Opens a sender on an interface of the calling thread's network namespace. An IPv6 address without a scope gets
    /// the interface as its scope where it needs one.
    ///
    /// # Errors
    /// No such interface, interface down, [`LinkError::NoRoute`], [`LinkError::NotOurAddress`] of `source`, or a right
    /// is missing: `CAP_NET_ADMIN` for priority 7, launch times by `CLOCK_TAI` and hardware stamps.
    /// [`LinkError::Unsupported`] when the device takes no hardware stamps.
    pub fn open(interface: &str, destination: SocketAddr, options: UdpSenderOptions) -> Result<Self, LinkError> {
        let socket = UdpSocket::open(interface, destination)?;
        let destination = socket.scoped(destination);
        set_way(&socket, destination.ip(), &options)?;
        let sends = Sends::set_up(socket.fd.as_fd(), socket.interface, options.stamps, options.txtime)?;
        let refused_have_numbers = options.stamps != Stamps::Off && numbers::refused_ones_have_numbers();
        if let Some(source) = options.source {
            socket.bind(source)?;
        }
        // Connected, a send looks up no route.
        let sender = Self { socket, destination, sends, refused_have_numbers };
        let route = if destination.ip().is_multicast() { Ok(()) } else { sender.socket.find_route(destination) };
        route
            .and_then(|()| connect(sender.socket.fd.as_raw_fd(), &SockaddrStorage::from(destination)))
            .map_err(|errno| sender.meaning(errno, "connect", 0))?;
        Ok(sender)
    }

    /// Hands over one NetworkMessage. Never waits and allocates nothing, also when it fails.
    ///
    /// # Errors
    /// [`LinkError::Dropped`] by the queue, [`LinkError::Congested`], [`LinkError::DatagramTooLong`],
    /// [`LinkError::NoRoute`], or another refusal of the kernel. [`LinkError::LaunchTime`] from a sender with launch
    /// times: an ETF queue would drop the datagram.
    #[inline]
    pub fn send(&self, uadp: &[u8]) -> Result<(), LinkError> {
        if self.sends.clock().is_some() {
            return Err(self.sends.misused(self.socket.interface));
        }
        let attempt = self.sends.begin();
        let sent = send(&self.socket.fd, uadp);
        sent.or_else(|errno| self.failed(attempt, errno, uadp.len(), || send(&self.socket.fd, uadp)))
    }

    /// Hands over one NetworkMessage that shall leave at `launch`: see [`Sender::send_at`](crate::Sender::send_at),
    /// also for the trap on virtual interfaces.
    ///
    /// # Errors
    /// As [`Self::send`]. [`LinkError::LaunchTime`] from a sender without launch times.
    #[inline]
    pub fn send_at(&self, uadp: &[u8], launch: Tai) -> Result<(), LinkError> {
        let Some(clock) = self.sends.clock() else { return Err(self.sends.misused(self.socket.interface)) };
        let attempt = self.sends.begin_at(launch);
        let send = || txtime::send_at(&self.socket.fd, clock, uadp, launch);
        send().or_else(|errno| self.failed(attempt, errno, uadp.len(), send))
    }

    /// Tries again what failed only because of the network's answer to earlier datagrams, and says why it failed
    /// otherwise.
    #[cold]
    fn failed(
        &self,
        attempt: u32,
        mut errno: Errno,
        bytes: usize,
        again: impl Fn() -> Result<(), Errno>,
    ) -> Result<(), LinkError> {
        for tries in 1..=RETRIES {
            if !may_be_answered(errno) {
                break;
            }
            let Err(next) = again() else {
                for _ in 0..tries {
                    self.had_a_number_in_vain(attempt);
                }
                return Ok(());
            };
            errno = next;
        }
        match errno {
            Errno::ENOBUFS => self.sends.dropped(),
            // A firewall's answer comes when the datagram has its number, as the queue's.
            Errno::EPERM => {}
            Errno::EAGAIN | Errno::EMSGSIZE if self.refused_have_numbers && self.is_built(bytes) => {}
            _ => self.sends.unnumbered(attempt),
        }
        Err(self.meaning(errno, "send", bytes))
    }

    /// Whether the kernel begins to build a datagram of this length (`udp_sendmsg`).
    fn is_built(&self, bytes: usize) -> bool {
        self.destination.is_ipv6() || bytes <= LONGEST_IPV4_BYTES
    }

    fn had_a_number_in_vain(&self, attempt: u32) {
        if self.refused_have_numbers {
            self.sends.numbered_twice(attempt);
        }
    }

    #[cold]
    fn meaning(&self, errno: Errno, call: &'static str, bytes: usize) -> LinkError {
        let (to, interface) = (self.destination, self.socket.interface);
        match errno {
            Errno::ENOBUFS => LinkError::Dropped { interface },
            Errno::EAGAIN => LinkError::Congested { interface },
            Errno::EMSGSIZE => LinkError::DatagramTooLong { bytes, limit_bytes: self.limit_bytes(), interface },
            Errno::ENETUNREACH | Errno::EHOSTUNREACH => LinkError::NoRoute { to, interface },
            errno => LinkError::of(errno, call, "CAP_NET_RAW", interface),
        }
    }

    /// The longest NetworkMessage that the path takes, as far as the kernel knows; 0 when it does not.
    pub fn limit_bytes(&self) -> usize {
        let (level, option, headers) = match self.destination {
            SocketAddr::V4(_) => (libc::SOL_IP, libc::IP_MTU, 20 + 8),
            SocketAddr::V6(_) => (libc::SOL_IPV6, libc::IPV6_MTU, 40 + 8),
        };
        let mtu: c_int = get_option(&self.socket.fd, level, option).unwrap_or(0);
        // A packet's length has 16 bits, and that of IPv6 leaves its own header out.
        let longest = if self.destination.is_ipv6() { 65_535 + 40 } else { 65_535 };
        usize::try_from(mtu).unwrap_or(0).min(longest).saturating_sub(headers)
    }

    /// As [`Sender::stamps`](crate::Sender::stamps).
    ///
    /// # Errors
    /// The sender was opened without stamps and without reports of lost launch times, or too many files are open.
    pub fn stamps(&self, tai_minus_utc: Nanos) -> io::Result<StampReader> {
        self.sends.reader(&self.socket.fd, SocketKind::Udp, tai_minus_utc)
    }

    /// Which stamps its datagrams get.
    pub fn stamp_mode(&self) -> Stamps {
        self.sends.stamps()
    }

    /// As [`Sender::launch_losses`](crate::Sender::launch_losses).
    pub fn launch_losses(&self) -> Arc<LaunchLosses> {
        self.sends.losses()
    }

    /// Where it sends to, with the scope that was added.
    pub fn destination(&self) -> SocketAddr {
        self.destination
    }
}

/// For `poll`.
impl AsFd for UdpSender {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.fd.as_fd()
    }
}

fn send(fd: impl AsFd, uadp: &[u8]) -> Result<(), Errno> {
    // SAFETY: the kernel reads `uadp.len()` bytes of a live slice.
    let sent = unsafe { libc::send(fd.as_fd().as_raw_fd(), uadp.as_ptr().cast(), uadp.len(), libc::MSG_DONTWAIT) };
    Errno::result(sent).map(drop)
}

/// Whether an error may be a network's answer to an earlier datagram (`icmp_err_convert`, `icmpv6_err_convert`).
fn may_be_answered(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::ECONNREFUSED
            | Errno::EHOSTUNREACH
            | Errno::ENETUNREACH
            | Errno::EHOSTDOWN
            | Errno::ENONET
            | Errno::ENOPROTOOPT
            | Errno::EOPNOTSUPP
            | Errno::EPROTO
            | Errno::EACCES
    )
}

/// Priority, code point, hops, and all that belongs to groups.
fn set_way(socket: &UdpSocket, to: IpAddr, options: &UdpSenderOptions) -> Result<(), LinkError> {
    // The code point is the upper part of the octet. Setting it changes the priority, so that comes after.
    let traffic_class = c_int::from(options.dscp) << 2;
    socket.set(libc::IP_TOS, libc::IPV6_TCLASS, &traffic_class, "IP_TOS")?;
    let priority = c_int::from(options.priority);
    socket.set_at(libc::SOL_SOCKET, libc::SO_PRIORITY, &priority, "SO_PRIORITY")?;
    socket.set(libc::IP_MTU_DISCOVER, libc::IPV6_MTU_DISCOVER, &libc::IP_PMTUDISC_DO, "IP_MTU_DISCOVER")?;
    // Without it, nobody is told what the queue drops (`udp_send_skb`).
    socket.set(libc::IP_RECVERR, libc::IPV6_RECVERR, &1_i32, "IP_RECVERR")?;
    let hops = options.hops.map(c_int::from);
    if !to.is_multicast() {
        return match hops {
            Some(hops) => socket.set(libc::IP_TTL, libc::IPV6_UNICAST_HOPS, &hops, "IP_TTL"),
            None => Ok(()),
        };
    }
    socket.set(libc::IP_MULTICAST_TTL, libc::IPV6_MULTICAST_HOPS, &hops.unwrap_or(1), "IP_MULTICAST_TTL")?;
    let loopback = c_int::from(options.loopback);
    socket.set(libc::IP_MULTICAST_LOOP, libc::IPV6_MULTICAST_LOOP, &loopback, "IP_MULTICAST_LOOP")?;
    let refused = |errno| LinkError::of(errno, "IP_MULTICAST_IF", "", socket.interface);
    if to.is_ipv6() {
        let index = socket.index.cast_signed();
        return set_option(&socket.fd, libc::SOL_IPV6, libc::IPV6_MULTICAST_IF, &index).map_err(refused);
    }
    let zero = libc::in_addr { s_addr: 0 };
    let from = libc::ip_mreqn { imr_multiaddr: zero, imr_address: zero, imr_ifindex: socket.index.cast_signed() };
    set_option(&socket.fd, libc::SOL_IP, libc::IP_MULTICAST_IF, &from).map_err(refused)
}
