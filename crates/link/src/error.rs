//! Why a socket could not be opened or used.

use std::fmt;

use nix::errno::Errno;

/// The name of an interface, kept in place so that errors on the cyclic path allocate nothing.
/// A longer text than any interface has is cut at 31 bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct InterfaceName {
    text: [u8; 31],
    bytes: u8,
}

impl InterfaceName {
    pub(crate) fn new(name: &str) -> Self {
        let mut text = [0; 31];
        let mut bytes = name.len().min(text.len());
        while !name.is_char_boundary(bytes) {
            bytes -= 1;
        }
        text[..bytes].copy_from_slice(&name.as_bytes()[..bytes]);
        Self { text, bytes: bytes as u8 }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        // Cut at a character boundary in `new`, so always valid.
        std::str::from_utf8(&self.text[..usize::from(self.bytes)]).unwrap_or_default()
    }
}

impl fmt::Debug for InterfaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl fmt::Display for InterfaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a socket could not be opened or used. Plain data: making one allocates nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LinkError {
    /// There is no interface of this name in the network namespace of the calling thread.
    NoSuchInterface {
        /// The name asked for.
        interface: InterfaceName,
    },
    /// The interface is down.
    Down {
        /// Its name.
        interface: InterfaceName,
    },
    /// A right is missing.
    NotPermitted {
        /// The system call or socket option.
        call: &'static str,
        /// The capability it needs.
        needs: &'static str,
    },
    /// The frame is longer than the interface allows.
    TooLong {
        /// Its length with header and tag, without FCS.
        bytes: usize,
        /// The interface.
        interface: InterfaceName,
    },
    /// The queue of the interface has dropped the frame: it is full, a gate was closed, or a launch time was missed.
    Dropped {
        /// The interface.
        interface: InterfaceName,
    },
    /// Earlier frames of this socket still wait in the queue and fill its send buffer.
    Congested {
        /// The interface.
        interface: InterfaceName,
    },
    /// The kernel or the driver cannot do it.
    Unsupported {
        /// The interface.
        interface: InterfaceName,
        /// What was asked for.
        what: &'static str,
        /// What to do instead.
        mend: &'static str,
    },
    /// Anything else the kernel refuses.
    System {
        /// The system call or socket option.
        call: &'static str,
        /// Its error number.
        errno: Errno,
    },
}

impl LinkError {
    /// What `errno` of `call` on `interface` means; `needs` is the capability it may be missing.
    pub(crate) fn of(errno: Errno, call: &'static str, needs: &'static str, interface: InterfaceName) -> Self {
        match errno {
            Errno::EPERM | Errno::EACCES => Self::NotPermitted { call, needs },
            Errno::ENODEV | Errno::ENXIO => Self::NoSuchInterface { interface },
            Errno::ENETDOWN => Self::Down { interface },
            errno => Self::System { call, errno },
        }
    }

    /// The kernel's error number, for the trace.
    pub const fn errno(&self) -> i32 {
        match self {
            Self::NoSuchInterface { .. } => libc::ENODEV,
            Self::Down { .. } => libc::ENETDOWN,
            Self::NotPermitted { .. } => libc::EPERM,
            Self::TooLong { .. } => libc::EMSGSIZE,
            Self::Dropped { .. } => libc::ENOBUFS,
            Self::Congested { .. } => libc::EAGAIN,
            Self::Unsupported { .. } => libc::EOPNOTSUPP,
            Self::System { errno, .. } => *errno as i32,
        }
    }
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchInterface { interface } => write!(
                f,
                "no interface named \"{interface}\" in this network namespace; `ip -br link` lists what there is"
            ),
            Self::Down { interface } => {
                write!(f, "interface {interface} is down; bring it up with `ip link set {interface} up`")
            }
            Self::NotPermitted { call, needs } => write!(
                f,
                "{call} is not permitted: it needs {needs}; run with sudo or as root, \
                 or give the program the capability with `setcap`"
            ),
            Self::TooLong { bytes, interface } => write!(
                f,
                "a frame of {bytes} bytes is too long for interface {interface}; \
                 send fewer variables or raise the MTU with `ip link set {interface} mtu N`"
            ),
            Self::Dropped { interface } => write!(
                f,
                "the queue of interface {interface} dropped the frame: it was full, its gate closed or its launch time \
                 past; `tc -s qdisc show dev {interface}` counts them"
            ),
            Self::Congested { interface } => write!(
                f,
                "earlier frames still wait in the queue of interface {interface}: it sends more slowly than this program"
            ),
            Self::Unsupported { interface, what, mend } => {
                write!(f, "interface {interface} or its kernel does not support {what}; {mend}")
            }
            Self::System { call, errno } => write!(f, "{call} failed: {} ({errno:?})", errno.desc()),
        }
    }
}

impl std::error::Error for LinkError {}

impl From<LinkError> for std::io::Error {
    fn from(error: LinkError) -> Self {
        Self::new(Self::from_raw_os_error(error.errno()).kind(), error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_numbers_become_what_they_mean() {
        let interface = InterfaceName::new("veth0");
        let of = |errno| LinkError::of(errno, "bind", "CAP_NET_RAW", interface);
        for (errno, words) in [
            (Errno::EPERM, ["CAP_NET_RAW", "sudo", "bind"]),
            (Errno::EACCES, ["CAP_NET_RAW", "root", "bind"]),
            (Errno::ENODEV, ["veth0", "no interface", "ip -br link"]),
            (Errno::ENETDOWN, ["veth0", "is down", "ip link set veth0 up"]),
            (Errno::EINVAL, ["bind", "failed", "EINVAL"]),
        ] {
            let text = of(errno).to_string();
            for word in words {
                assert!(text.contains(word), "{text}");
            }
        }
        assert_eq!(of(Errno::EINVAL).errno(), libc::EINVAL);
        assert_eq!(std::io::Error::from(of(Errno::EPERM)).kind(), std::io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn names_are_kept_and_long_ones_cut() {
        assert_eq!(InterfaceName::new("").as_str(), "");
        assert_eq!(InterfaceName::new("enp1s0").to_string(), "enp1s0");
        assert_eq!(InterfaceName::new(&"ü".repeat(40)).as_str(), "ü".repeat(15));
    }
}
