//! What a credit-based shaper counts of a frame.

use units::FrameSize;

use crate::model::{Forwarder, HostKind, PortId, Scenario};
use crate::queue::{Queue, TaprioMode};

/// FCS 4, preamble and start delimiter 8, gap 12: what Linux does not count of a frame, unless `stab overhead` adds it.
pub const LINE_OVERHEAD_BYTES: u32 = 24;

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// What it takes of the line (802.1Q §34.4): by a NIC, by a switch.
    Line,
    /// What a socket sends, as Linux' software shaper has it (`qdisc_pkt_len`).
    Socket,
    /// The same, and the overhead that a root of Linux' with gates is told of.
    SocketAndOverhead,
}

impl Counted {
    /// Bytes that are counted of a frame.
    pub fn bytes(self, frame: FrameSize) -> u32 {
        match self {
            Self::Line => frame.physical_bytes(),
            Self::Socket => frame.socket_bytes(),
            Self::SocketAndOverhead => frame.socket_bytes() + LINE_OVERHEAD_BYTES,
        }
    }

    /// Whether a NIC or a switch counts.
    pub fn is_hardware(self) -> bool {
        self == Self::Line
    }
}

impl HostKind {
    /// Whether it forwards without Linux.
    pub(crate) fn is_hardware(&self) -> bool {
        matches!(self, Self::Bridge { forwarder: Forwarder::Hardware, .. })
    }
}

impl Queue {
    /// What the shaper of a class counts at a port of a host of this kind.
    pub(crate) fn counted(&self, class: u8, host: &HostKind) -> Counted {
        if host.is_hardware() || self.cbs(class).is_some_and(|cbs| cbs.offload) {
            return Counted::Line;
        }
        match self {
            Self::Taprio { schedule, .. } if schedule.mode != TaprioMode::FullOffload => Counted::SocketAndOverhead,
            _ => Counted::Socket,
        }
    }
}

impl Scenario {
    /// What the shaper of a class counts at a port.
    pub fn counted(&self, port: PortId, class: u8) -> Counted {
        let at = self.port(port);
        at.queue.counted(class, &self.host(at.host).kind)
    }
}
