//! Where frames go out.

use std::io;
use std::sync::Arc;

use link::udp::UdpSender;
use link::xdp::XdpSender;
use link::{Sender, StampReader};
use measure::LAUNCH_REFUSED;
use units::{Nanos, Tai};

use crate::sends::{Publication, Sends};

/// The queue of the interface dropped it.
const ENOBUFS: i32 = 105;

/// Most frames of one launch time that are told apart, in nanoseconds.
const AT_ONCE: i64 = 1_000;

/// What carries frames away.
#[derive(Debug)]
pub enum Target {
    /// A packet socket.
    Socket(Sender),
    /// One end of an AF_XDP port.
    Xdp(Box<XdpSender>),
    /// A UDP socket, for what goes to one address.
    Udp(UdpSender),
    /// A queue with launch times.
    #[cfg(test)]
    Scripted {
        /// The launch times of the frames it got.
        taken: Arc<std::sync::Mutex<Vec<Tai>>>,
        /// Whether it takes none.
        refuses: bool,
    },
}

/// A sending socket, shared by ends of one interface and priority.
#[derive(Debug)]
pub struct Outlet {
    target: Target,
    sends: Arc<Sends>,
    /// Calls of `send` and `send_at` so far.
    sent: u32,
    /// Whether the kernel keeps launch times.
    keeps: bool,
    /// The launch time given last.
    last: Tai,
}

impl Outlet {
    /// An outlet that sends through `target`.
    pub fn new(target: Target) -> Self {
        Self { target, sends: Arc::new(Sends::new()), sent: 0, keeps: false, last: Tai(0) }
    }

    /// The same with a socket opened with launch times: the kernel keeps them.
    pub(crate) fn with_launch_times(target: Target) -> Self {
        Self { keeps: true, ..Self::new(target) }
    }

    /// Whether frames are given to the kernel with their launch times.
    #[inline]
    pub(crate) fn keeps_launch_times(&self) -> bool {
        self.keeps
    }

    /// What tells another thread when each frame left; none for AF_XDP: in copy mode it tells only when the kernel gave
    /// the frame back, which is later than the departure.
    pub(crate) fn stamps(&self, tai_minus_utc: Nanos) -> Option<io::Result<StampReader>> {
        match &self.target {
            Target::Socket(sender) => Some(sender.stamps(tai_minus_utc)),
            Target::Udp(sender) => Some(sender.stamps(tai_minus_utc)),
            Target::Xdp(_) => None,
            #[cfg(test)]
            Target::Scripted { .. } => None,
        }
    }

    /// Which publication each send was.
    pub(crate) fn sends(&self) -> &Arc<Sends> {
        &self.sends
    }

    /// Sends a frame now.
    ///
    /// # Errors
    /// `errno` of the refusal.
    #[inline]
    pub(crate) fn send(&mut self, publication: Publication, frame: &[u8]) -> Result<(), i32> {
        self.sends.note(self.sent, publication);
        self.sent = self.sent.wrapping_add(1);
        match &mut self.target {
            Target::Socket(sender) => sender.send(frame),
            Target::Udp(sender) => sender.send(frame),
            Target::Xdp(sender) => sender.send(frame),
            #[cfg(test)]
            Target::Scripted { .. } => Ok(()),
        }
        .map_err(|error| error.errno())
    }

    /// Gives a frame to the kernel, which keeps it until `launch`.
    ///
    /// The queue tells a lost frame by its launch time alone. So frames with one launch time that follow each other, of
    /// streams that share the outlet, are given times a nanosecond apart.
    ///
    /// # Errors
    /// `errno` of the refusal, [`LAUNCH_REFUSED`] for the queue's.
    #[inline]
    pub(crate) fn send_at(&mut self, publication: Publication, frame: &[u8], launch: Tai) -> Result<(), i32> {
        self.sends.note(self.sent, publication);
        self.sent = self.sent.wrapping_add(1);
        let apart = (0..AT_ONCE).contains(&(self.last - launch).0);
        self.last = if apart { self.last + Nanos(1) } else { launch };
        match &mut self.target {
            Target::Socket(sender) => sender.send_at(frame, self.last),
            Target::Udp(sender) => sender.send_at(frame, self.last),
            Target::Xdp(sender) => sender.send(frame),
            #[cfg(test)]
            Target::Scripted { refuses: true, .. } => return Err(LAUNCH_REFUSED),
            #[cfg(test)]
            Target::Scripted { taken, .. } => {
                taken.lock().unwrap().push(self.last);
                Ok(())
            }
        }
        .map_err(|error| if error.errno() == ENOBUFS { LAUNCH_REFUSED } else { error.errno() })
    }
}
