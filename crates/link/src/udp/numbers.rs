//! Whether this kernel gives numbers to datagrams that it refuses.

use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::sync::OnceLock;

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, SockaddrIn, bind, connect, getsockname, send, socket,
};

use crate::control::{ControlBuffer, messages};
use crate::socket::{receive_message, set_option};

/// A datagram is numbered when it is built (`__ip_append_data`). Newer kernels take the number back when that fails
/// half-way, for want of room or because of an error noted on the socket; older ones do not. They are tried once, on
/// the loopback interface; where that is down, a newer one is supposed.
pub(super) fn refused_ones_have_numbers() -> bool {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    if let Some(known) = KNOWN.get() {
        return *known;
    }
    match tried() {
        Ok(found) => *KNOWN.get_or_init(|| found),
        Err(_) => false,
    }
}

/// Sends a datagram to itself that is too long, then one that is not, and looks at the number of the latter.
fn tried() -> Result<bool, Errno> {
    const TOO_LONG_BYTES: usize = 65_520;
    let fd = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK, None)?;
    bind(fd.as_raw_fd(), &SockaddrIn::from(std::net::SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)))?;
    connect(fd.as_raw_fd(), &getsockname::<SockaddrIn>(fd.as_raw_fd())?)?;
    set_option(&fd, libc::SOL_IP, libc::IP_MTU_DISCOVER, &libc::IP_PMTUDISC_DO)?;
    let flags = libc::SOF_TIMESTAMPING_TX_SOFTWARE
        | libc::SOF_TIMESTAMPING_SOFTWARE
        | libc::SOF_TIMESTAMPING_OPT_ID
        | libc::SOF_TIMESTAMPING_OPT_TSONLY;
    set_option(&fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &flags)?;
    if send(fd.as_raw_fd(), &[0; TOO_LONG_BYTES], MsgFlags::MSG_DONTWAIT).is_ok() {
        return Err(Errno::EINVAL);
    }
    send(fd.as_raw_fd(), &[0], MsgFlags::MSG_DONTWAIT)?;
    let mut control = ControlBuffer::new();
    let message = receive_message(&fd, &mut [], &mut control, libc::MSG_ERRQUEUE)?.ok_or(Errno::EAGAIN)?;
    let number = messages(&control.0[..message.control_bytes])
        .find_map(|control| control.extended_error())
        .and_then(|error| error.stamped_send());
    number.map(|number| number > 0).ok_or(Errno::EINVAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells_again_what_it_told() {
        // The loopback interface may be down where this runs: then there is nothing to tell.
        if let Ok(found) = tried() {
            assert_eq!((tried(), refused_ones_have_numbers()), (Ok(found), found));
        }
    }
}
