//! The system calls both ends share.

use std::ffi::c_int;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use nix::errno::Errno;

use crate::control::ControlBuffer;
use crate::error::{InterfaceName, LinkError};
use crate::interface;

pub(crate) const CAP_NET_RAW: &str = "CAP_NET_RAW";
pub(crate) const CAP_NET_ADMIN: &str = "CAP_NET_ADMIN";

/// A packet socket that is being set up.
#[derive(Debug)]
pub(crate) struct PacketSocket {
    pub(crate) fd: OwnedFd,
    pub(crate) index: c_int,
    pub(crate) interface: InterfaceName,
}

impl PacketSocket {
    /// Opens a socket that receives nothing yet, for an interface that exists and is up.
    pub(crate) fn open(name: &str) -> Result<Self, LinkError> {
        let interface = InterfaceName::new(name);
        let index = interface::index(name)? as c_int;
        // SAFETY: takes no pointers. Protocol 0 keeps frames away until `bind`.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        let fd = Errno::result(fd)
            .map_err(|errno| LinkError::of(errno, "opening a packet socket", CAP_NET_RAW, interface))?;
        // SAFETY: the kernel has just made this descriptor for us; nobody else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        if !interface::is_up(name)? {
            return Err(LinkError::Down { interface });
        }
        Ok(Self { fd, index, interface })
    }

    /// Sets an option to a value as it stands in memory.
    pub(crate) fn set<T: Copy>(
        &self,
        level: c_int,
        option: c_int,
        value: &T,
        name: &'static str,
        needs: &'static str,
    ) -> Result<(), LinkError> {
        set_option(&self.fd, level, option, value).map_err(|errno| LinkError::of(errno, name, needs, self.interface))
    }

    /// The address of the interface; `protocol` in host order, 0 for none.
    pub(crate) fn address(&self, protocol: u16) -> libc::sockaddr_ll {
        libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: protocol.to_be(),
            sll_ifindex: self.index,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 6,
            sll_addr: [0; 8],
        }
    }

    /// Binds to the interface; frames arrive from now on, if `protocol` is not 0.
    pub(crate) fn bind(&self, protocol: u16) -> Result<(), LinkError> {
        let address = self.address(protocol);
        // SAFETY: the kernel reads `address`, which is live and as long as said.
        let result = unsafe {
            libc::bind(
                self.fd.as_raw_fd(),
                (&raw const address).cast(),
                size_of::<libc::sockaddr_ll>() as libc::socklen_t,
            )
        };
        Errno::result(result).map(drop).map_err(|errno| LinkError::of(errno, "bind", CAP_NET_RAW, self.interface))
    }

    /// Keeps the interface promiscuous as long as this socket lives: otherwise a network card may drop frames to groups
    /// and VIDs nobody has configured.
    pub(crate) fn be_promiscuous(&self) -> Result<(), LinkError> {
        let membership = libc::packet_mreq {
            mr_ifindex: self.index,
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        self.set(libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership, "PACKET_ADD_MEMBERSHIP", CAP_NET_RAW)
    }

    /// Asks for a receive buffer of `bytes` (the kernel doubles it for its bookkeeping); beyond
    /// `net.core.rmem_max` only with the right to, and else as much as it gives.
    pub(crate) fn set_receive_buffer(&self, bytes: usize) -> Result<(), LinkError> {
        set_receive_buffer(&self.fd, bytes)
            .map_err(|errno| LinkError::of(errno, "SO_RCVBUF", CAP_NET_ADMIN, self.interface))
    }

    /// The kernel's counters since they were last read.
    pub(crate) fn statistics(&self) -> Result<libc::tpacket_stats, Errno> {
        let mut statistics = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let mut bytes = size_of::<libc::tpacket_stats>() as libc::socklen_t;
        // SAFETY: the kernel writes at most `bytes` bytes into `statistics`, two integers, and the length into `bytes`.
        let result = unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut statistics).cast(),
                &raw mut bytes,
            )
        };
        Errno::result(result).map(|_| statistics)
    }
}

/// Sets an option of a socket to a value as it stands in memory.
pub(crate) fn set_option<T: Copy>(fd: impl AsFd, level: c_int, option: c_int, value: &T) -> Result<(), Errno> {
    // SAFETY: the kernel reads `size_of::<T>()` bytes of a live value. Callers pass integers and the kernel's
    // own structures, without padding that matters; pointers inside them point to memory they borrow.
    let result = unsafe {
        libc::setsockopt(
            fd.as_fd().as_raw_fd(),
            level,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    Errno::result(result).map(drop)
}

/// A value that the kernel fills as [`get_option`] wants it: every bit pattern is one.
pub(crate) trait Filled: Copy + Default {}
impl Filled for c_int {}
impl<const N: usize> Filled for [u32; N] where Self: Default {}

/// Reads an option of a socket; what the kernel does not fill is 0.
pub(crate) fn get_option<T: Filled>(fd: impl AsFd, level: c_int, option: c_int) -> Result<T, Errno> {
    let mut value = T::default();
    let mut bytes = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `bytes` bytes into `value`, integers, and the length into `bytes`.
    let result =
        unsafe { libc::getsockopt(fd.as_fd().as_raw_fd(), level, option, (&raw mut value).cast(), &raw mut bytes) };
    Errno::result(result).map(|_| value)
}

/// Asks for a receive buffer of `bytes` as [`PacketSocket::set_receive_buffer`] does.
pub(crate) fn set_receive_buffer(fd: impl AsFd, bytes: usize) -> Result<(), Errno> {
    let bytes = c_int::try_from(bytes).unwrap_or(c_int::MAX / 2);
    set_option(&fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &bytes)
        .or_else(|_| set_option(&fd, libc::SOL_SOCKET, libc::SO_RCVBUF, &bytes))
}

/// One `recv` that does not wait; none when there is nothing. Frames longer than `data` are cut.
#[inline(always)]
pub(crate) fn receive_plain(fd: impl AsFd, data: &mut [u8]) -> Result<Option<usize>, Errno> {
    loop {
        // SAFETY: the kernel writes at most `data.len()` bytes into a live, exclusively borrowed slice.
        let received =
            unsafe { libc::recv(fd.as_fd().as_raw_fd(), data.as_mut_ptr().cast(), data.len(), libc::MSG_DONTWAIT) };
        return match Errno::result(received) {
            Ok(bytes) => Ok(Some((bytes as usize).min(data.len()))),
            Err(Errno::EAGAIN) => Ok(None),
            Err(Errno::EINTR) => continue,
            Err(errno) => Err(errno),
        };
    }
}

/// Tells and clears an error that the kernel has noted on the socket, such as an interface that went down.
pub(crate) fn noted_error(fd: impl AsFd) -> Result<(), Errno> {
    match nix::sys::socket::getsockopt(&fd, nix::sys::socket::sockopt::SocketError)? {
        0 => Ok(()),
        errno => Err(Errno::from_raw(errno)),
    }
}

/// What `recvmsg` has written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message {
    pub(crate) bytes: usize,
    pub(crate) control_bytes: usize,
}

/// One `recvmsg` that does not wait; none when there is nothing.
#[inline]
pub(crate) fn receive_message(
    fd: impl AsFd,
    data: &mut [u8],
    control: &mut ControlBuffer,
    flags: c_int,
) -> Result<Option<Message>, Errno> {
    receive_message_from(fd, data, control, None, flags)
}

/// As [`receive_message`], with the address of the sender.
#[inline]
pub(crate) fn receive_message_from(
    fd: impl AsFd,
    data: &mut [u8],
    control: &mut ControlBuffer,
    mut from: Option<&mut libc::sockaddr_storage>,
    flags: c_int,
) -> Result<Option<Message>, Errno> {
    let mut part = libc::iovec { iov_base: data.as_mut_ptr().cast(), iov_len: data.len() };
    // SAFETY: all-zero bytes are a valid `msghdr`: null pointers with zero lengths. (It has private padding on musl.)
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    loop {
        if let Some(from) = &mut from {
            header.msg_name = std::ptr::from_mut::<libc::sockaddr_storage>(from).cast();
            header.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
        }
        header.msg_control = control.0.as_mut_ptr().cast();
        header.msg_controllen = control.0.len() as _;
        // SAFETY: `header` points to one `iovec` over `data`, to `control` and to `from`, with their lengths; all
        // of them are live and exclusively borrowed for the call.
        let received = unsafe { libc::recvmsg(fd.as_fd().as_raw_fd(), &raw mut header, flags | libc::MSG_DONTWAIT) };
        return match Errno::result(received) {
            Ok(bytes) => {
                let control_bytes = (header.msg_controllen as usize).min(control.0.len());
                Ok(Some(Message { bytes: (bytes as usize).min(data.len()), control_bytes }))
            }
            Err(Errno::EAGAIN) => Ok(None),
            Err(Errno::EINTR) => continue,
            Err(errno) => Err(errno),
        };
    }
}
