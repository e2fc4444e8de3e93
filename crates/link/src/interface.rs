//! Looking at an interface, in the network namespace of the calling thread.

use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use units::Nanos;

use crate::error::{InterfaceName, LinkError};
pub use crate::ethtool::{VlanOffload, receive_queues, set_vlan_offload, vlan_offload};
use crate::socket::set_option;
pub use crate::stamping::{StampSetting, Stamping, set_stamp_setting, stamp_all, stamp_setting, stamping};

/// The number of an interface.
///
/// # Errors
/// There is none of this name.
pub fn index(name: &str) -> Result<u32, LinkError> {
    let interface = InterfaceName::new(name);
    nix::net::if_::if_nametoindex(name).map_err(|errno| match errno {
        // A name that is too long or has a NUL byte is no interface's.
        Errno::EINVAL => LinkError::NoSuchInterface { interface },
        errno => LinkError::of(errno, "SIOCGIFINDEX", "", interface),
    })
}

/// Its MAC address.
///
/// # Errors
/// There is none of this name.
pub fn mac(name: &str) -> Result<[u8; 6], LinkError> {
    let request = ask(name, libc::SIOCGIFHWADDR as _, "SIOCGIFHWADDR")?;
    // SAFETY: the kernel has filled the address variant; every bit pattern is valid for it.
    let data = unsafe { request.ifr_ifru.ifru_hwaddr.sa_data };
    Ok(std::array::from_fn(|at| data[at].cast_unsigned()))
}

/// Its MTU in bytes: the longest payload, without header and tag.
///
/// # Errors
/// There is none of this name.
pub fn mtu(name: &str) -> Result<u32, LinkError> {
    let request = ask(name, libc::SIOCGIFMTU as _, "SIOCGIFMTU")?;
    // SAFETY: the kernel has filled the MTU variant, an integer.
    Ok(unsafe { request.ifr_ifru.ifru_mtu }.cast_unsigned())
}

/// As [`mtu`], in the network namespace of a socket.
pub(crate) fn mtu_near(socket: impl AsFd, name: &str) -> Result<u32, LinkError> {
    let mut answer = self::request(name)?;
    let interface = InterfaceName::new(name);
    ioctl_on(socket, &mut answer, libc::SIOCGIFMTU as _)
        .map_err(|errno| LinkError::of(errno, "SIOCGIFMTU", "", interface))?;
    // SAFETY: as above.
    Ok(unsafe { answer.ifr_ifru.ifru_mtu }.cast_unsigned())
}

/// Whether it was brought up. It may still have no link partner, and a queue that drops everything:
/// see [`wait_until_running`].
///
/// # Errors
/// There is none of this name.
pub fn is_up(name: &str) -> Result<bool, LinkError> {
    Ok(flags(name)? & libc::IFF_UP != 0)
}

/// Waits until it is up and has a link partner; returns whether it has before `timeout` passes.
///
/// The kernel puts the queue of an interface in place a little after the link is there. Until then `send`
/// succeeds and the frame is gone, without a stamp: wait before the first frame that counts.
///
/// # Errors
/// There is none of this name.
pub fn wait_until_running(name: &str, timeout: Nanos) -> Result<bool, LinkError> {
    const GLANCE: Duration = Duration::from_millis(1);
    let deadline = Instant::now() + Duration::from_nanos(timeout.0.max(0).cast_unsigned());
    let wanted = libc::IFF_UP | libc::IFF_RUNNING;
    while flags(name)? & wanted != wanted {
        if Instant::now() >= deadline {
            return Ok(false);
        }
        std::thread::sleep(GLANCE);
    }
    // The flag is raised just before the queue is in place (`linkwatch_do_dev`).
    std::thread::sleep(GLANCE);
    Ok(true)
}

/// Keeps a socket to an interface (`SO_BINDTODEVICE`).
pub(crate) fn bind_to(socket: impl AsFd, name: &str) -> Result<(), Errno> {
    // The option wants a name with its final NUL, which an empty request has.
    let request = request(name).map_err(|error| Errno::from_raw(error.errno()))?;
    set_option(socket, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, &request.ifr_name)
}

fn flags(name: &str) -> Result<libc::c_int, LinkError> {
    let request = ask(name, libc::SIOCGIFFLAGS as _, "SIOCGIFFLAGS")?;
    // SAFETY: the kernel has filled the flags variant, an integer.
    Ok(libc::c_int::from(unsafe { request.ifr_ifru.ifru_flags }))
}

fn ask(name: &str, request: libc::Ioctl, call: &'static str) -> Result<libc::ifreq, LinkError> {
    let mut answer = self::request(name)?;
    ioctl(&mut answer, request).map_err(|errno| LinkError::of(errno, call, "", InterfaceName::new(name)))?;
    Ok(answer)
}

/// An empty request about the interface of this name.
pub(crate) fn request(name: &str) -> Result<libc::ifreq, LinkError> {
    // SAFETY: all-zero bytes are a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // One place stays free for the final NUL.
    if name.is_empty() || name.len() >= request.ifr_name.len() {
        return Err(LinkError::NoSuchInterface { interface: InterfaceName::new(name) });
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as _;
    }
    Ok(request)
}

/// Carries a request out. A pointer in it must lead to the structure that the request is about.
pub(crate) fn ioctl(about: &mut libc::ifreq, request: libc::Ioctl) -> Result<(), Errno> {
    // Any socket reaches the device ioctls; this family needs neither rights nor an IP stack.
    let socket = socket(AddressFamily::Unix, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    ioctl_on(&socket, about, request)
}

/// As [`ioctl`], in the network namespace of a socket that is there already.
fn ioctl_on(socket: impl AsFd, about: &mut libc::ifreq, request: libc::Ioctl) -> Result<(), Errno> {
    // SAFETY: the requests used in this crate read the name and write into the same `ifreq`, live and exclusively
    // borrowed, or into a live structure of the caller's that it points to.
    let result = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), request, std::ptr::from_mut(about)) };
    Errno::result(result).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_is_known() {
        assert!(index("lo").unwrap() > 0);
        assert_eq!(mac("lo").unwrap(), [0; 6]);
        assert!(mtu("lo").unwrap() >= 1500);
        is_up("lo").unwrap();
    }

    #[test]
    fn what_is_no_interface_is_said() {
        for name in ["", "no-such", "a-name-that-is-too-long", "nul\0"] {
            let expected = LinkError::NoSuchInterface { interface: InterfaceName::new(name) };
            assert_eq!(index(name), Err(expected), "{name}");
            assert_eq!(mac(name), Err(expected), "{name}");
            assert_eq!(is_up(name), Err(expected), "{name}");
        }
    }
}
