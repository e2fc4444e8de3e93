//! What both ends of UDP share: a socket that belongs to one interface.

use std::ffi::c_int;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage, bind, connect, socket};

use crate::error::{InterfaceName, LinkError};
use crate::interface;
use crate::socket::set_option;

/// A UDP socket that is being set up.
#[derive(Debug)]
pub(super) struct UdpSocket {
    pub(super) fd: OwnedFd,
    pub(super) index: u32,
    pub(super) interface: InterfaceName,
    v6: bool,
}

impl UdpSocket {
    /// Opens one of the family of `address`, for an interface that exists and is up.
    pub(super) fn open(name: &str, address: SocketAddr) -> Result<Self, LinkError> {
        let interface = InterfaceName::new(name);
        let index = interface::index(name)?;
        if !interface::is_up(name)? {
            return Err(LinkError::Down { interface });
        }
        let fd = datagrams(address).map_err(|errno| LinkError::of(errno, "opening a UDP socket", "", interface))?;
        let socket = Self { fd, index, interface, v6: address.is_ipv6() };
        let bound = interface::bind_to(&socket.fd, name);
        // Kernels before 5.7 allow it only with CAP_NET_RAW; the addresses must do then.
        if let Err(errno) = bound
            && errno != Errno::EPERM
        {
            return Err(LinkError::of(errno, "SO_BINDTODEVICE", "CAP_NET_RAW", interface));
        }
        Ok(socket)
    }

    /// Fails when no route leads to `address`, by any interface. A socket that is kept to an interface does not notice:
    /// over IPv4 it takes every address for a neighbour's then.
    pub(super) fn find_route(&self, address: SocketAddr) -> Result<(), Errno> {
        // Connecting sends nothing.
        connect(datagrams(address)?.as_raw_fd(), &SockaddrStorage::from(self.scoped(address)))
    }

    /// Sets the option of its family.
    pub(super) fn set<T: Copy>(&self, v4: c_int, v6: c_int, value: &T, name: &'static str) -> Result<(), LinkError> {
        let (level, option) = if self.v6 { (libc::SOL_IPV6, v6) } else { (libc::SOL_IP, v4) };
        self.set_at(level, option, value, name)
    }

    /// Sets an option at a level of its own.
    pub(super) fn set_at<T: Copy>(
        &self,
        level: c_int,
        option: c_int,
        value: &T,
        name: &'static str,
    ) -> Result<(), LinkError> {
        set_option(&self.fd, level, option, value)
            .map_err(|errno| LinkError::of(errno, name, "CAP_NET_ADMIN", self.interface))
    }

    /// Binds to an address of this host, or to a group.
    pub(super) fn bind(&self, address: SocketAddr) -> Result<(), LinkError> {
        let here = SockaddrStorage::from(self.scoped(address));
        bind(self.fd.as_raw_fd(), &here).map_err(|errno| match errno {
            Errno::EADDRNOTAVAIL => LinkError::NotOurAddress { address, interface: self.interface },
            Errno::EADDRINUSE => LinkError::AddressTaken { address },
            errno => LinkError::of(errno, "bind", "CAP_NET_BIND_SERVICE", self.interface),
        })
    }

    /// Receives a group at the interface.
    pub(super) fn join(&self, group: SocketAddr) -> Result<(), LinkError> {
        match group {
            SocketAddr::V4(group) => {
                let membership = libc::ip_mreqn {
                    imr_multiaddr: libc::in_addr { s_addr: u32::from(*group.ip()).to_be() },
                    imr_address: libc::in_addr { s_addr: 0 },
                    imr_ifindex: self.index.cast_signed(),
                };
                self.set_at(libc::SOL_IP, libc::IP_ADD_MEMBERSHIP, &membership, "IP_ADD_MEMBERSHIP")
            }
            SocketAddr::V6(group) => {
                let membership = libc::ipv6_mreq {
                    ipv6mr_multiaddr: libc::in6_addr { s6_addr: group.ip().octets() },
                    ipv6mr_interface: self.index,
                };
                self.set_at(libc::SOL_IPV6, libc::IPV6_ADD_MEMBERSHIP, &membership, "IPV6_ADD_MEMBERSHIP")
            }
        }
    }

    /// The address with this interface as its scope, where it needs one and has none: link-local ones and groups.
    pub(super) fn scoped(&self, mut address: SocketAddr) -> SocketAddr {
        if let SocketAddr::V6(v6) = &mut address
            && v6.scope_id() == 0
            && (v6.ip().is_unicast_link_local() || v6.ip().is_multicast())
        {
            v6.set_scope_id(self.index);
        }
        address
    }
}

/// A socket of the family of `address`.
fn datagrams(address: SocketAddr) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv6() { AddressFamily::Inet6 } else { AddressFamily::Inet };
    socket(family, SockType::Datagram, SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK, None)
}

/// An address as the kernel has written it; none if it is of another family.
#[inline]
pub(super) fn address_of(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match c_int::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the storage is as large and as aligned as any socket address, and all of its bytes are
            // initialised; every bit pattern is a valid `sockaddr_in`.
            let v4 = unsafe { &*std::ptr::from_ref(storage).cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            Some(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above, of a `sockaddr_in6`.
            let v6 = unsafe { &*std::ptr::from_ref(storage).cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            Some(SocketAddrV6::new(ip, u16::from_be(v6.sin6_port), v6.sin6_flowinfo, v6.sin6_scope_id).into())
        }
        _ => None,
    }
}

/// Room for an address.
pub(super) const fn no_address() -> libc::sockaddr_storage {
    // SAFETY: all-zero bytes are a valid `sockaddr_storage`: of no family.
    unsafe { std::mem::zeroed() }
}
