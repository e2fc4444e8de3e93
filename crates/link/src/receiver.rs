//! Seeing the frames that reach an interface.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use nix::errno::Errno;
use units::{Nanos, Tai};

use crate::error::{InterfaceName, LinkError};
use crate::filter::{self, Wanted};
use crate::frame::Tag;
use crate::packet::PacketReceiver;
use crate::ring::RingReceiver;
use crate::socket::{CAP_NET_ADMIN, CAP_NET_RAW, PacketSocket, set_option};
use crate::stamping;
use crate::stampmode::Stamps;

/// How frames come from the kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ReceiveWay {
    /// By a ring if the kernel gives one, else by system calls.
    #[default]
    Auto,
    /// By a system call for each frame.
    Packet,
    /// Through memory shared with the kernel: no system call, no copy of ours, tag and stamp beside the frame.
    Ring,
}

/// What is done with the 802.1Q tag of a frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TagUse {
    /// Frames come whatever their tag is, and [`Received::tag`] tells it.
    #[default]
    Report,
    /// The kernel drops frames with another VID or PCP, uncounted, and those without a tag; `tag` is none, for it is known.
    Require {
        /// VLAN identifier, 12 bits.
        vid: u16,
        /// Priority code point, 3 bits.
        pcp: u8,
    },
    /// Frames come whatever their tag is, and nobody asks for it: `tag` is none.
    Ignore,
}

/// How a receiver is set up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReceiverOptions<'a> {
    /// How frames come from the kernel.
    pub way: ReceiveWay,
    /// Only frames to this address; none for all that reach the interface.
    pub destination: Option<[u8; 6]>,
    /// What is done with their tag.
    pub tag: TagUse,
    /// Only NetworkMessages of these publishers, whose PublisherId is a UInt16 (OPC 10000-14 §7.2.4.4); empty for all.
    /// The kernel finds one of hundreds in a dozen comparisons; see [`Receiver::checks_publishers`].
    pub publishers: &'a [u16],
    /// Makes TAI of software stamps, which arrive in UTC.
    pub tai_minus_utc: Nanos,
    /// Which stamp shall tell when each frame arrived. For hardware stamps the interface is set to stamp every
    /// frame, which needs `CAP_NET_ADMIN`, and left so: [`stamp_setting`](crate::interface::stamp_setting) reads before
    /// what can be put back when nobody needs it any more.
    pub stamps: Stamps,
    /// Receive buffer in bytes; 0 leaves the system's, for a ring 512 KiB. A frame takes its length and about 800 bytes
    /// more, in a ring always a whole slot: 2 KiB for an MTU of 1500 bytes.
    pub buffer_bytes: usize,
    /// How long the kernel polls the driver before it sleeps, in microseconds; 0 leaves the system's. Needs
    /// `CAP_NET_ADMIN` and a driver that can.
    pub busy_poll_us: u32,
    /// How many frames it takes at a time when polling; 0 leaves the kernel's. More than 8 needs `CAP_NET_ADMIN`.
    pub busy_poll_budget: u16,
}

/// What the kernel has granted of busy polling. What it did not is 0 or false: kernels before 5.11 have the time only.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BusyPoll {
    /// How long it polls, in microseconds.
    pub us: u32,
    /// Whether it prefers polling to interrupts (`SO_PREFER_BUSY_POLL`).
    pub preferred: bool,
    /// How many frames it takes at a time (`SO_BUSY_POLL_BUDGET`).
    pub budget: u16,
}

/// A frame as it was received; borrowed from the receiver until the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received<'a> {
    /// From the destination address on. The tag has been taken out, unless the frame had two.
    pub frame: &'a [u8],
    /// What follows the EtherType 0xB62C; on a real line padded with zero bytes to 46.
    pub uadp: &'a [u8],
    /// The tag, when there was one; always none if it was not to be reported.
    pub tag: Option<Tag>,
    /// When it arrived; none without stamps, and for the first frames after opening (about 50 ms).
    pub stamp: Option<Tai>,
}

/// A socket that sees the UADP frames arriving at an interface, and none that this host sends.
///
/// It sees frames before bridges and VLAN sub-devices take them. The interface is promiscuous as long as the
/// receiver lives: otherwise a network card may drop frames of VIDs nobody has configured.
#[derive(Debug)]
pub struct Receiver {
    socket: PacketSocket,
    way: Way,
    stamps: Stamps,
    checks_publishers: bool,
    busy_poll: BusyPoll,
    drops: AtomicU64,
}

#[derive(Debug)]
enum Way {
    Packet(PacketReceiver),
    Ring(RingReceiver),
}

impl Receiver {
    /// Opens a receiver on an interface of the calling thread's network namespace.
    ///
    /// # Errors
    /// No such interface, interface down, or a right is missing: `CAP_NET_RAW`, for busy polling and hardware stamps
    /// `CAP_NET_ADMIN`. [`LinkError::Unsupported`] when the device cannot stamp every frame it receives. Of a ring that
    /// was asked for by name, why the kernel gives none.
    pub fn open(interface: &str, options: ReceiverOptions<'_>) -> Result<Self, LinkError> {
        if options.way != ReceiveWay::Packet {
            let socket = PacketSocket::open(interface)?;
            match RingReceiver::new(&socket, interface, &options) {
                Ok(ring) => return Self::set_up(socket, Way::Ring(ring), interface, &options),
                Err(error) if options.way == ReceiveWay::Ring => return Err(error),
                // A ring that was made and not mapped would swallow the frames: another socket is taken.
                Err(_) => {}
            }
        }
        let socket = PacketSocket::open(interface)?;
        let packet = PacketReceiver::new(&socket, &options)?;
        Self::set_up(socket, Way::Packet(packet), interface, &options)
    }

    fn set_up(
        socket: PacketSocket,
        way: Way,
        interface: &str,
        options: &ReceiverOptions<'_>,
    ) -> Result<Self, LinkError> {
        let checks_publishers = attach_filter(&socket, options)?;
        // Spares the copy of outgoing frames. Kernels before 4.20 do not know it; the filter drops them anyway.
        _ = socket.set(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1_i32, "PACKET_IGNORE_OUTGOING", CAP_NET_RAW);
        switch_on_stamps(&socket, interface, options.stamps)?;
        let busy_poll = switch_on_busy_poll(&socket, options)?;
        socket.be_promiscuous()?;
        // All protocols: a socket for 0xB62C alone would be served after the tag is forgotten.
        socket.bind(libc::ETH_P_ALL as u16)?;
        let drops = AtomicU64::new(0);
        Ok(Self { socket, way, stamps: options.stamps, checks_publishers, busy_poll, drops })
    }

    /// Takes the oldest frame that has arrived; none when there is none. Never waits, allocates nothing.
    ///
    /// # Errors
    /// The socket's; `ENETDOWN` once when the interface goes down (frames arrive again when it is back). A ring tells
    /// that only when it is asked in vain, at the latest at every 1024th time in a row.
    // Whatever its size: after a system call each return is mispredicted ([`PacketReceiver::receive`] says why).
    #[inline(always)]
    pub fn receive(&mut self) -> io::Result<Option<Received<'_>>> {
        match &mut self.way {
            Way::Ring(ring) => ring.receive(&self.socket.fd),
            Way::Packet(packet) => {
                let Some(Received { frame, uadp, tag, stamp }) = packet.receive(&self.socket.fd)? else {
                    return Ok(None);
                };
                // Part by part, so that the compiler keeps the parts of the other way in registers.
                Ok(Some(Received { frame, uadp, tag, stamp }))
            }
        }
    }

    /// Waits until a frame is there, at most for `timeout`; returns whether one is. A signal ends the wait early.
    ///
    /// # Errors
    /// As [`Self::receive`].
    pub fn wait(&self, timeout: Nanos) -> io::Result<bool> {
        match &self.way {
            Way::Ring(ring) => ring.wait(&self.socket.fd, timeout),
            Way::Packet(packet) => packet.wait(&self.socket.fd, timeout),
        }
    }

    /// How many frames found no room in the receive buffer since opening.
    ///
    /// # Errors
    /// The kernel's.
    pub fn drops(&self) -> io::Result<u64> {
        // Reading sets the kernel's counters back to 0.
        let new = u64::from(self.socket.statistics()?.tp_drops);
        let drops = self.drops.fetch_add(new, Ordering::Relaxed) + new;
        Ok(match &self.way {
            Way::Ring(ring) => drops + ring.cut(),
            Way::Packet(_) => drops,
        })
    }

    /// How frames come: by a ring or by system calls.
    pub fn way(&self) -> ReceiveWay {
        match self.way {
            Way::Ring(_) => ReceiveWay::Ring,
            Way::Packet(_) => ReceiveWay::Packet,
        }
    }

    /// Which stamps the frames come with.
    pub fn stamps(&self) -> Stamps {
        self.stamps
    }

    /// Whether the kernel drops the frames of publishers that were not asked for. It does not when none were named, and
    /// when there are too many for a BPF program (about 2300) or for the socket's memory (`net.core.optmem_max`): then
    /// all frames come, and are told apart by the reader.
    pub fn checks_publishers(&self) -> bool {
        self.checks_publishers
    }

    /// What has been granted of busy polling.
    pub fn busy_poll(&self) -> BusyPoll {
        self.busy_poll
    }
}

/// For `poll` and for comparisons with the [bare calls](crate::bare); there are no frames to read from it if they come
/// through a ring.
impl AsFd for Receiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.fd.as_fd()
    }
}

/// Returns whether the filter looks at the PublisherId.
fn attach_filter(socket: &PacketSocket, options: &ReceiverOptions<'_>) -> Result<bool, LinkError> {
    let attach = |publishers| {
        let ReceiverOptions { destination, tag, .. } = *options;
        let mut program = filter::uadp(&Wanted { destination, tag, publishers });
        let code = &mut program.instructions;
        let fprog = libc::sock_fprog { len: code.len() as u16, filter: code.as_mut_ptr() };
        socket.set(libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &fprog, "SO_ATTACH_FILTER", CAP_NET_RAW)?;
        Ok(program.checks_publishers)
    };
    match attach(options.publishers) {
        Err(LinkError::System { errno: Errno::ENOMEM, .. }) if !options.publishers.is_empty() => attach(&[]),
        attached => attached,
    }
}

fn switch_on_stamps(socket: &PacketSocket, interface: &str, stamps: Stamps) -> Result<(), LinkError> {
    let flags = match stamps {
        Stamps::Off => return Ok(()),
        Stamps::Software => libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE,
        Stamps::Hardware => {
            stamping::stamp_all_received(interface)?;
            let raw = libc::SOF_TIMESTAMPING_RAW_HARDWARE;
            // What a ring shall carry; else it carries software stamps.
            socket.set(libc::SOL_PACKET, libc::PACKET_TIMESTAMP, &raw, "PACKET_TIMESTAMP", CAP_NET_RAW)?;
            libc::SOF_TIMESTAMPING_RX_HARDWARE | raw
        }
    };
    socket.set(libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &flags, "SO_TIMESTAMPING", CAP_NET_RAW)
}

fn switch_on_busy_poll(socket: &PacketSocket, options: &ReceiverOptions<'_>) -> Result<BusyPoll, LinkError> {
    busy_poll(&socket.fd, socket.interface, options.busy_poll_us, options.busy_poll_budget)
}

/// Switches busy polling on for any kind of socket, if `us` is not 0.
pub(crate) fn busy_poll(fd: impl AsFd, interface: InterfaceName, us: u32, budget: u16) -> Result<BusyPoll, LinkError> {
    let mut granted = BusyPoll::default();
    if us == 0 {
        return Ok(granted);
    }
    let us = c_int::try_from(us).unwrap_or(c_int::MAX);
    let set = |option, value: c_int, name| {
        set_option(&fd, libc::SOL_SOCKET, option, &value)
            .map_err(|errno| LinkError::of(errno, name, CAP_NET_ADMIN, interface))
    };
    set(libc::SO_BUSY_POLL, us, "SO_BUSY_POLL")?;
    granted.us = us.cast_unsigned();
    granted.preferred = set(libc::SO_PREFER_BUSY_POLL, 1, "SO_PREFER_BUSY_POLL").is_ok();
    if budget > 0 && set(libc::SO_BUSY_POLL_BUDGET, budget.into(), "SO_BUSY_POLL_BUDGET").is_ok() {
        granted.budget = budget;
    }
    Ok(granted)
}
