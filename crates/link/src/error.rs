//! Why a socket could not be opened or used.

use std::fmt;
use std::net::SocketAddr;

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
    /// The NetworkMessage does not fit into one datagram, and the kernel may not fragment it.
    DatagramTooLong {
        /// Its length.
        bytes: usize,
        /// What fits, by the MTU of the path.
        limit_bytes: usize,
        /// The interface.
        interface: InterfaceName,
    },
    /// No route leads to the destination, or its host is not there.
    NoRoute {
        /// The destination.
        to: SocketAddr,
        /// The interface by which it was to be reached.
        interface: InterfaceName,
    },
    /// No interface of this host has the address.
    NotOurAddress {
        /// The address asked for.
        address: SocketAddr,
        /// The interface.
        interface: InterfaceName,
    },
    /// Another program receives at the address.
    AddressTaken {
        /// The address.
        address: SocketAddr,
    },
    /// The queue of the interface has dropped the frame: it is full, a gate was closed, or a launch time was missed.
    Dropped {
        /// The interface.
        interface: InterfaceName,
    },
    /// A call without a launch time on a sender with launch times, or the other way round.
    LaunchTime {
        /// Whether the sender needs launch times.
        needed: bool,
        /// The interface.
        interface: InterfaceName,
    },
    /// Earlier frames of this socket still wait in the queue and fill its send buffer.
    Congested {
        /// The interface.
        interface: InterfaceName,
    },
    /// An XDP programme is attached already, by somebody else or by another [`XdpPort`](crate::xdp::XdpPort).
    Occupied {
        /// The interface.
        interface: InterfaceName,
        /// The number of that programme; 0 when it had gone before it could be asked.
        programme: u32,
    },
    /// Another AF_XDP socket is bound to the queue.
    QueueTaken {
        /// The interface.
        interface: InterfaceName,
        /// The number of the queue, from 0.
        queue: u32,
    },
    /// There is no receive queue of this number.
    NoSuchQueue {
        /// The interface.
        interface: InterfaceName,
        /// The number asked for, from 0.
        queue: u32,
        /// How many there are.
        queues: u32,
    },
    /// The interface has several receive queues, and nobody has said that the frames go to the one asked for.
    ManyQueues {
        /// The interface.
        interface: InterfaceName,
        /// The number of the queue asked for, from 0.
        queue: u32,
        /// How many there are.
        queues: u32,
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
    /// Memory that the network card shall reach exceeds what may be locked.
    LockedMemory {
        /// How much it is, in bytes.
        bytes: usize,
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
            Self::DatagramTooLong { .. } => libc::EMSGSIZE,
            Self::NoRoute { .. } => libc::EHOSTUNREACH,
            Self::NotOurAddress { .. } => libc::EADDRNOTAVAIL,
            Self::AddressTaken { .. } => libc::EADDRINUSE,
            Self::Dropped { .. } => libc::ENOBUFS,
            Self::Congested { .. } => libc::EAGAIN,
            Self::Occupied { .. } | Self::QueueTaken { .. } => libc::EBUSY,
            Self::NoSuchQueue { .. } | Self::ManyQueues { .. } | Self::LaunchTime { .. } => libc::EINVAL,
            Self::Unsupported { .. } => libc::EOPNOTSUPP,
            Self::LockedMemory { .. } => libc::ENOBUFS,
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
            Self::DatagramTooLong { bytes, limit_bytes, interface } => write!(
                f,
                "a NetworkMessage of {bytes} bytes does not fit into one datagram on interface {interface}, which takes \
                 {limit_bytes}; send fewer variables or raise the MTU of the whole path with `ip link set {interface} \
                 mtu N`"
            ),
            Self::NoRoute { to, interface } => write!(
                f,
                "{} cannot be reached by interface {interface}; `ip route get {}` shows the route, `ip neigh` whether \
                 its host answers",
                to.ip(),
                to.ip()
            ),
            Self::NotOurAddress { address, interface } => write!(
                f,
                "{} is no address of this host; `ip address show {interface}` lists those of interface {interface}",
                address.ip()
            ),
            Self::AddressTaken { address } => write!(
                f,
                "another program receives at {address} and does not share it; `ss -ulnp sport = :{}` names it",
                address.port()
            ),
            Self::Dropped { interface } => write!(
                f,
                "the queue of interface {interface} dropped the frame: it was full, its gate closed or its launch time \
                 past; `tc -s qdisc show dev {interface}` counts them"
            ),
            Self::LaunchTime { needed: true, interface } => write!(
                f,
                "this sender on interface {interface} was opened with launch times, and its queue may drop frames \
                 without: send with `send_at`, or open it without `txtime`"
            ),
            Self::LaunchTime { needed: false, interface } => write!(
                f,
                "this sender on interface {interface} was opened without launch times: send with `send`, or open it \
                 with `txtime`"
            ),
            Self::Congested { interface } => write!(
                f,
                "earlier frames still wait in the queue of interface {interface}: it sends more slowly than this program"
            ),
            Self::Occupied { interface, programme } => write!(
                f,
                "interface {interface} has an XDP programme already (id {programme}) and takes no second one; \
                 `ip link show {interface}` shows it; end the program that attached it, or use a packet socket"
            ),
            Self::QueueTaken { interface, queue } => write!(
                f,
                "queue {queue} of interface {interface} belongs to another AF_XDP socket; \
                 end the program that holds it, or choose another queue"
            ),
            Self::NoSuchQueue { interface, queue, queues } => write!(
                f,
                "interface {interface} has no receive queue {queue}: it has {queues}, counted from 0; \
                 `ethtool -l {interface}` shows them"
            ),
            Self::ManyQueues { interface, queue, queues } => write!(
                f,
                "interface {interface} spreads frames over {queues} receive queues, and an AF_XDP socket sees only \
                 queue {queue}; leave one with `ethtool -L {interface} combined 1`, or steer the frames with \
                 `ethtool -N {interface} flow-type ether dst MAC action {queue}` and say that they are steered"
            ),
            Self::Unsupported { interface, what, mend } => {
                write!(f, "interface {interface} or its kernel does not support {what}; {mend}")
            }
            Self::LockedMemory { bytes } => write!(
                f,
                "{bytes} bytes of frame memory exceed the limit of locked memory; raise it with `ulimit -l`, \
                 give the program CAP_IPC_LOCK, or ask for fewer frames"
            ),
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
