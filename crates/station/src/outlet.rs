//! Where frames go out.

use std::io;
use std::sync::Arc;

use link::udp::UdpSender;
use link::xdp::XdpSender;
use link::{Sender, StampReader};
use units::Nanos;

use crate::sends::{Publication, Sends};

/// What carries frames away.
#[derive(Debug)]
pub enum Target {
    /// A packet socket.
    Socket(Sender),
    /// One end of an AF_XDP port.
    Xdp(Box<XdpSender>),
    /// A UDP socket, for what goes to one address.
    Udp(UdpSender),
}

/// A sending socket, shared by ends of one interface and priority.
#[derive(Debug)]
pub struct Outlet {
    target: Target,
    sends: Arc<Sends>,
    /// Calls of `send` so far.
    sent: u32,
}

impl Outlet {
    /// An outlet that sends through `target`.
    pub fn new(target: Target) -> Self {
        Self { target, sends: Arc::new(Sends::new()), sent: 0 }
    }

    /// What tells another thread when each frame left; none for AF_XDP: in copy mode it tells only when the kernel gave
    /// the frame back, which is later than the departure.
    pub(crate) fn stamps(&self, tai_minus_utc: Nanos) -> Option<io::Result<StampReader>> {
        match &self.target {
            Target::Socket(sender) => Some(sender.stamps(tai_minus_utc)),
            Target::Udp(sender) => Some(sender.stamps(tai_minus_utc)),
            Target::Xdp(_) => None,
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
        }
        .map_err(|error| error.errno())
    }
}
