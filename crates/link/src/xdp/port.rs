//! Opening both ends.

use std::collections::HashSet;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::bpf::{self, Place};
use super::btf;
use super::memory::FrameMemory;
use super::netlink::{self, Features};
use super::options::{SendStamps, XdpCopy, XdpHow, XdpKey, XdpMode, XdpOptions};
use super::pool::Pool;
use super::programme::{self, CAP_BPF, CardStamps, Programme, Stamp, Wanted};
use super::receive::{Attached, XdpReceiver};
use super::send::{Slots, XdpSender};
use super::socket::Socket;
use crate::error::{InterfaceName, LinkError};
use crate::socket::PacketSocket;
use crate::stampmode::Stamps;
use crate::{interface, stamping};

const HEADER_BYTES: usize = 14;
/// The kernel frees a queue a little after its last socket was closed (`xp_release_deferred`).
const QUEUE_PATIENCE: Duration = Duration::from_secs(1);

/// One queue of an interface, opened for AF_XDP.
#[derive(Debug)]
pub enum XdpPort {}

impl XdpPort {
    /// Opens both ends on an interface of the calling thread's network namespace. Either can be dropped: without the
    /// receiver no programme is attached.
    ///
    /// The two ends have a socket each, on the same queue and with the same memory, so that a waiting receiver does not
    /// have to do the sender's work (polling a socket that also sends drives its sending).
    ///
    /// # Errors
    /// No such interface, interface down, a right is missing ([`LinkError::NotPermitted`] names it); a programme
    /// ([`LinkError::Occupied`]) or socket ([`LinkError::QueueTaken`]) is there already; no such queue, or several and
    /// not [`steered`](XdpOptions::steered); or the kernel or driver cannot do what was asked for. Whatever the error,
    /// nothing stays attached.
    pub fn open(interface: &str, options: XdpOptions) -> Result<(XdpSender, XdpReceiver), LinkError> {
        let keys = options.publishers.iter().map(|id| XdpKey { publisher_id: *id, writer_group_id: None });
        let (sender, receiver) = open(interface, &options, &[keys.collect()], 1)?;
        let both = sender.into_iter().next().zip(receiver.into_iter().next());
        both.ok_or(LinkError::System { call: "opening one of each", errno: Errno::EPROTO })
    }

    /// Opens so many senders, and a receiver for each of `receivers`, on one queue: for threads that share an interface,
    /// or that read at instants of their own. Each belongs to one thread at a time, and none ever waits for another.
    /// Each message goes to the one receiver whose keys have its PublisherId and WriterGroupId; those that have neither
    /// go on to the stack. [`XdpOptions::publishers`] is not looked at.
    ///
    /// # Errors
    /// As [`Self::open`]; and [`LinkError::Unsupported`] when two keys are the same, for a frame goes to one socket, or
    /// `EINVAL` when there is no sender or no receiver, a receiver without keys, or a WriterGroupId 0.
    pub fn open_shared(
        interface: &str,
        options: &XdpOptions,
        receivers: &[Vec<XdpKey>],
        senders: usize,
    ) -> Result<(Vec<XdpSender>, Vec<XdpReceiver>), LinkError> {
        let mut known = HashSet::new();
        let mut keys = receivers.iter().flatten();
        if senders == 0
            || receivers.is_empty()
            || receivers.iter().any(Vec::is_empty)
            || keys.clone().any(|key| key.writer_group_id == Some(0))
        {
            let call = "sharing an XDP port without sender, receiver or keys, or by a WriterGroupId 0";
            return Err(LinkError::System { call, errno: Errno::EINVAL });
        }
        if keys.any(|key| !known.insert(*key)) {
            return Err(LinkError::Unsupported {
                interface: InterfaceName::new(interface),
                what: "AF_XDP with two receivers of one PublisherId and WriterGroupId",
                mend: "XDP gives each frame to one socket: let one receiver read it, or use packet sockets",
            });
        }
        open(interface, options, receivers, senders)
    }
}

fn open(
    interface: &str,
    options: &XdpOptions,
    receivers: &[Vec<XdpKey>],
    senders: usize,
) -> Result<(Vec<XdpSender>, Vec<XdpReceiver>), LinkError> {
    let name = InterfaceName::new(interface);
    let index = interface::index(interface)?;
    if !interface::is_up(interface)? {
        return Err(LinkError::Down { interface: name });
    }
    let longest_bytes = interface::mtu(interface)? as usize + HEADER_BYTES;
    let queues = check_queue(interface, index, options)?;
    let features = netlink::features(index).unwrap_or_default();
    let wanted = Wanted { destination: options.destination, queue: options.queue, receivers, stamp: Stamp::Nobody };
    let Attachment { programme, place, link, stamps, no_hardware_stamps } =
        attach(wanted, (interface, index), options, features)?;

    // Before the sockets are bound: setting it restarts some cards.
    let card_stamps_sent =
        options.stamps == Stamps::Hardware && features.tx_stamps && stamping::stamp_all_sent(interface).is_ok();

    let shares = options.shares(receivers.len(), senders);
    let memory = FrameMemory::new(shares.received(), shares.sent())
        .map_err(|errno| LinkError::System { call: "mmap of frame memory", errno })?;
    let owner = Socket::open(name, index)?;
    let send_metadata = owner.register(&memory)?;
    let rings = owner.memory_rings(shares.received().next_power_of_two(), shares.sent().next_power_of_two())?;
    let pool = Arc::new(Pool::new(memory, shares, rings.free, rings.completed));
    let arrived = owner.receiving_ring(shares.receive_chunks)?;
    bind(&owner, options, place)?;
    let zero_copy = owner.is_zero_copy()?;
    let mut receiving = vec![(owner, arrived)];
    for _ in 1..shares.receivers {
        let socket = Socket::open(name, index)?;
        let arrived = socket.receiving_ring(shares.receive_chunks)?;
        join(&socket, options.queue, &receiving[0].0)?;
        receiving.push((socket, arrived));
    }
    let mut sending = Vec::new();
    for _ in 0..shares.senders {
        let socket = Socket::open(name, index)?;
        let queued = socket.sending_ring(shares.send_chunks)?;
        join(&socket, options.queue, &receiving[0].0)?;
        sending.push((socket, queued));
    }

    let micros = options.busy_poll_us;
    let mut sockets = receiving.iter().map(|(socket, _)| socket).chain(sending.iter().map(|(socket, _)| socket));
    let how = XdpHow {
        driver: place == Place::Driver,
        zero_copy,
        queue: options.queue,
        queues,
        // Bound with the flag: a kernel without it (before 5.4) would have refused.
        need_wakeup: true,
        busy_poll: micros > 0 && sockets.all(|socket| socket.busy_poll(micros)),
        receive_stamps: stamps,
        no_hardware_stamps,
        send_metadata,
        send_stamps: send_stamps(options.stamps, send_metadata, zero_copy, card_stamps_sent),
        // In copy mode the kernel takes a launch time too, but nobody says whether the driver keeps it.
        launch_time: send_metadata && zero_copy && features.launch_time,
    };
    let promiscuous = PacketSocket::open(interface)?;
    promiscuous.be_promiscuous()?;
    // Last: what arrives before goes to the stack.
    for (number, (socket, _)) in (0..).zip(&receiving) {
        programme
            .connect(number, socket.fd.as_fd())
            .map_err(|errno| LinkError::of(errno, "entering the socket into the XDP map", CAP_BPF, name))?;
    }
    let attached = Arc::new(Attached { _link: link, programme, _promiscuous: promiscuous });
    let senders = (0..).zip(sending).map(|(number, (socket, queued))| XdpSender {
        socket,
        queued,
        slots: Slots::new(Arc::clone(&pool), number),
        longest_bytes,
        attempts: 0,
        how,
    });
    let receivers = (0..)
        .zip(receiving)
        .map(|(number, receiving)| XdpReceiver::new(number, receiving, Arc::clone(&attached), Arc::clone(&pool), how));
    Ok((senders.collect(), receivers.collect()))
}

/// Who says when frames leave. Only what was asked for: nobody expects the time of a network card among software stamps.
const fn send_stamps(wanted: Stamps, metadata: bool, zero_copy: bool, by_card: bool) -> SendStamps {
    match (wanted, metadata, zero_copy) {
        (Stamps::Off, ..) | (_, false, _) => SendStamps::None,
        (_, true, false) => SendStamps::Completion,
        (Stamps::Hardware, true, true) if by_card => SendStamps::Hardware,
        (_, true, true) => SendStamps::None,
    }
}

/// The number of receive queues, of which `options.queue` must be one, and be the one where frames arrive.
fn check_queue(name: &str, index: u32, options: &XdpOptions) -> Result<u32, LinkError> {
    let queues = match interface::receive_queues(name)? {
        Some(queues) => queues,
        // A driver that does not say how many it uses: at most as many as it was made with.
        None => netlink::interface(index).ok().and_then(|found| found.rx_queues).unwrap_or(1),
    };
    let (interface, queue) = (InterfaceName::new(name), options.queue);
    if queue >= queues {
        return Err(LinkError::NoSuchQueue { interface, queue, queues });
    }
    if queues > 1 && !options.steered {
        return Err(LinkError::ManyQueues { interface, queue, queues });
    }
    Ok(queues)
}

/// A programme where it runs.
struct Attachment {
    programme: Programme,
    place: Place,
    link: OwnedFd,
    /// Which stamps it takes, and why not the card's when those were asked for.
    stamps: Stamps,
    no_hardware_stamps: Option<&'static str>,
}

/// Loads and attaches the programme, with the stamps that were asked for or the nearest that can be had.
fn attach(
    wanted: Wanted<'_>,
    (interface, index): (&str, u32),
    options: &XdpOptions,
    features: Features,
) -> Result<Attachment, LinkError> {
    let name = InterfaceName::new(interface);
    let mut no_hardware_stamps = None;
    if options.stamps == Stamps::Hardware {
        match card_stamps(interface, index, options.mode, features) {
            Ok(card) => {
                let wanted = Wanted { stamp: Stamp::Card(card), ..wanted };
                let loaded = Programme::load(wanted, name);
                let attached = loaded.and_then(|programme| {
                    attach_in(&programme, index, name, XdpMode::Driver).map(|(place, link)| (programme, place, link))
                });
                match attached {
                    Ok((programme, place, link)) => {
                        let stamps = Stamps::Hardware;
                        return Ok(Attachment { programme, place, link, stamps, no_hardware_stamps });
                    }
                    Err(error @ (LinkError::Occupied { .. } | LinkError::NotPermitted { .. })) => return Err(error),
                    Err(_) => no_hardware_stamps = Some("kernel or driver refused the programme that asks for them"),
                }
            }
            Err(why) => no_hardware_stamps = Some(why),
        }
    }
    let load = |stamp| Programme::load(Wanted { stamp, ..wanted }, name);
    let stamped = options.stamps != Stamps::Off;
    let (programme, stamps) = match load(if stamped { Stamp::Kernel } else { Stamp::Nobody }) {
        // Kernels before 6.1 let no programme read TAI.
        Err(LinkError::System { errno: Errno::EINVAL, .. }) if stamped => (load(Stamp::Nobody)?, Stamps::Off),
        loaded => (loaded?, if stamped { Stamps::Software } else { Stamps::Off }),
    };
    let (place, link) = attach_in(&programme, index, name, options.mode)?;
    Ok(Attachment { programme, place, link, stamps, no_hardware_stamps })
}

/// How a programme gets the stamps of the network card, which is told to take them; or why it does not.
fn card_stamps(interface: &str, index: u32, mode: XdpMode, features: Features) -> Result<CardStamps, &'static str> {
    if mode == XdpMode::Generic {
        return Err("a generic programme runs behind the driver, which alone knows them");
    }
    if !features.rx_stamps {
        return Err("the driver hands programmes none (kernel 6.3 or newer, and a driver that does)");
    }
    let function = btf::function_of_kernel(programme::RX_TIMESTAMP)
        .ok_or("the kernel does not tell its functions (/sys/kernel/btf/vmlinux, CONFIG_DEBUG_INFO_BTF)")?;
    // The driver may have no stamp of any frame though it would hand them on, as that of veth.
    stamping::stamp_all_received(interface).map_err(|_| "the network card takes none of all frames (`ethtool -T`)")?;
    Ok(CardStamps { function, interface: index })
}

/// Attaches the programme: in the driver first, unless told otherwise.
fn attach_in(
    programme: &Programme,
    index: u32,
    interface: InterfaceName,
    mode: XdpMode,
) -> Result<(Place, OwnedFd), LinkError> {
    let at = |place| bpf::attach(programme.fd.as_fd(), index, place).map(|link| (place, link));
    let attached = match mode {
        XdpMode::Driver => at(Place::Driver),
        XdpMode::Generic => at(Place::Generic),
        XdpMode::Auto => at(Place::Driver).or_else(|errno| match errno {
            Errno::EBUSY | Errno::EEXIST | Errno::EPERM => Err(errno),
            _ => at(Place::Generic),
        }),
    };
    attached.map_err(|errno| match errno {
        Errno::EBUSY | Errno::EEXIST => {
            let programme = netlink::interface(index).ok().and_then(|found| found.programme).unwrap_or(0);
            LinkError::Occupied { interface, programme }
        }
        Errno::EOPNOTSUPP | Errno::EINVAL | Errno::ERANGE if mode == XdpMode::Driver => LinkError::Unsupported {
            interface,
            what: "an XDP programme in its driver",
            mend: "choose `XdpMode::Auto` or `XdpMode::Generic`, or an MTU that the driver takes with XDP; \
                   the kernel log may say more",
        },
        errno => LinkError::of(errno, "attaching the XDP programme", CAP_BPF, interface),
    })
}

/// Binds a socket to the queue and memory of another.
fn join(socket: &Socket, queue: u32, owner: &Socket) -> Result<(), LinkError> {
    socket.bind(queue, 0, Some(owner)).map_err(|errno| socket.bind_error(errno, queue))
}

fn bind(socket: &Socket, options: &XdpOptions, place: Place) -> Result<(), LinkError> {
    let copy = match (options.copy, place) {
        (XdpCopy::ZeroCopy, _) => libc::XDP_ZEROCOPY,
        // A frame that has become a packet is copied; the driver's own rings are none of a generic programme's business.
        (XdpCopy::Copy, _) | (XdpCopy::Auto, Place::Generic) => libc::XDP_COPY,
        // The kernel itself tries zero copy first.
        (XdpCopy::Auto, Place::Driver) => 0,
    };
    if options.copy == XdpCopy::ZeroCopy && place == Place::Generic {
        return Err(socket.bind_error(Errno::EOPNOTSUPP, options.queue));
    }
    let deadline = Instant::now() + QUEUE_PATIENCE;
    loop {
        match socket.bind(options.queue, copy | libc::XDP_USE_NEED_WAKEUP, None) {
            Err(Errno::EBUSY) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(2)),
            bound => return bound.map_err(|errno| socket.bind_error(errno, options.queue)),
        }
    }
}

/// Whether the driver of an interface says that it can give zero copy (kernels before 6.3 do not ask it: no).
///
/// # Errors
/// There is no interface of this name.
pub fn offers_zero_copy(interface: &str) -> Result<bool, LinkError> {
    Ok(netlink::features(interface::index(interface)?).is_ok_and(|features| features.zero_copy))
}

#[cfg(test)]
#[path = "port_tests.rs"]
mod tests;
