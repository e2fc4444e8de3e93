//! Opening both ends.

use std::cell::Cell;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::bpf::{self, Place};
use super::memory::{CHUNK_BYTES, FrameMemory};
use super::netlink;
use super::options::{SendStamps, XdpCopy, XdpHow, XdpMode, XdpOptions};
use super::programme::{CAP_BPF, Programme, Wanted};
use super::receive::XdpReceiver;
use super::send::{Slots, XdpSender};
use super::socket::{MemoryRings, Socket};
use crate::error::{InterfaceName, LinkError};
use crate::interface;
use crate::socket::PacketSocket;

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
        let name = InterfaceName::new(interface);
        let index = interface::index(interface)?;
        if !interface::is_up(interface)? {
            return Err(LinkError::Down { interface: name });
        }
        let longest_bytes = interface::mtu(interface)? as usize + HEADER_BYTES;
        let queues = check_queue(interface, index, &options)?;
        let wanted =
            Wanted { destination: options.destination, publishers: &options.publishers, stamps: options.stamps };
        let (programme, receive_stamps) = load(wanted, options.queue, name)?;
        let (place, link) = attach(&programme, index, name, options.mode)?;
        let features = netlink::features(index).unwrap_or_default();

        let chunks = (options.receive_chunks(), options.send_chunks());
        let memory = frame_memory(chunks)?;
        let socket = Socket::open(name, index)?;
        let send_metadata = socket.register(&memory)?;
        let MemoryRings { mut free, arrived, completed } = socket.receiving_rings(chunks.0, chunks.1)?;
        for chunk in 0..chunks.0 {
            _ = free.push(u64::from(chunk) * CHUNK_BYTES as u64);
        }
        bind(&socket, &options, place)?;
        let zero_copy = socket.is_zero_copy()?;
        let sending = Socket::open(name, index)?;
        let queued = sending.sending_ring(chunks.1)?;
        sending.bind(options.queue, 0, Some(&socket)).map_err(|errno| sending.bind_error(errno, options.queue))?;

        let micros = options.busy_poll_us;
        let how = XdpHow {
            driver: place == Place::Driver,
            zero_copy,
            queue: options.queue,
            queues,
            // Bound with the flag: a kernel without it (before 5.4) would have refused.
            need_wakeup: true,
            busy_poll: micros > 0 && socket.busy_poll(micros) && sending.busy_poll(micros),
            receive_stamps,
            send_metadata,
            send_stamps: match (options.stamps && send_metadata, zero_copy) {
                (true, false) => SendStamps::Completion,
                (true, true) if features.tx_stamps => SendStamps::Hardware,
                _ => SendStamps::None,
            },
            // In copy mode the kernel takes a launch time too, but nobody says whether the driver keeps it.
            launch_time: send_metadata && zero_copy && features.launch_time,
        };
        let promiscuous = PacketSocket::open(interface)?;
        promiscuous.be_promiscuous()?;
        // Last: what arrives before goes to the stack.
        programme
            .connect(options.queue, socket.fd.as_fd())
            .map_err(|errno| LinkError::of(errno, "entering the socket into the XDP map", CAP_BPF, name))?;
        let sender = XdpSender {
            socket: sending,
            queued,
            slots: Slots::new(Arc::clone(&memory), completed, chunks.1),
            longest_bytes,
            attempts: 0,
            how,
        };
        let receiver = XdpReceiver {
            _link: link,
            programme,
            socket,
            free,
            arrived,
            memory,
            held: None,
            told_down: Cell::new(false),
            how,
            _promiscuous: promiscuous,
        };
        Ok((sender, receiver))
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

/// The programme, with stamps if they are wanted and the kernel has them; whether it has.
fn load(wanted: Wanted<'_>, queue: u32, interface: InterfaceName) -> Result<(Programme, bool), LinkError> {
    match Programme::load(wanted, queue, interface) {
        // Kernels before 6.1 let no programme read TAI.
        Err(LinkError::System { errno: Errno::EINVAL, .. }) if wanted.stamps => {
            Ok((Programme::load(Wanted { stamps: false, ..wanted }, queue, interface)?, false))
        }
        loaded => Ok((loaded?, wanted.stamps)),
    }
}

fn frame_memory((receive, send): (u32, u32)) -> Result<Arc<FrameMemory>, LinkError> {
    FrameMemory::new(receive, send)
        .map(Arc::new)
        .map_err(|errno| LinkError::System { call: "mmap of frame memory", errno })
}

/// Attaches the programme: in the driver first, unless told otherwise.
fn attach(
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
