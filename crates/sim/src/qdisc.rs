//! Disciplines of Linux that make one queue of a whole port, in the kernel's own arithmetic (6.12), one below the other.
//!
//! The kernel looks at a discipline when a frame comes, when its line gets free, and when its timer goes off; here, too.

mod fifo;
mod fq_codel;
mod netem;
mod prio;
mod tbf;

use std::fmt::Debug;

use scenario::QUEUE_FRAMES;
use units::{Nanos, Rate};

use crate::frames::FrameId;
use crate::port::{Cause, Packet};

/// A discipline, as `tc` is told it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Qdisc {
    /// `pfifo limit`, frames.
    Pfifo(usize),
    /// `prio`: band 0 first, each a pfifo of [`scenario::QUEUE_FRAMES`].
    Prio {
        /// The band of each priority.
        map: [u8; 16],
    },
    /// `tbf`.
    Tbf {
        /// What flows in.
        rate: Rate,
        /// Bytes that it holds.
        burst: u32,
        /// What waits; without it a bfifo of `limit` bytes.
        child: Option<Box<Qdisc>>,
        /// Bytes that may wait without a child.
        limit: u64,
    },
    /// `fq_codel`.
    FqCodel(FqCodel),
    /// `netem`.
    Netem {
        /// Of the line that it plays; none delays only.
        rate: Option<Rate>,
        /// Bytes added to each frame.
        overhead: u32,
        /// Added to each frame's way.
        delay: Nanos,
        /// Frames.
        limit: usize,
    },
}

/// Parameters of `fq_codel`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FqCodel {
    /// Frames.
    pub limit: usize,
    /// Bytes a flow may send before it is another's turn.
    pub quantum: u32,
    /// Wait that is accepted for good.
    pub target: Nanos,
    /// For how long a longer one is.
    pub interval: Nanos,
    /// Bytes; while no more wait in all, nothing is dropped.
    pub mtu: u32,
}

impl Default for FqCodel {
    /// What Linux takes on Ethernet.
    fn default() -> Self {
        let frame = units::MAX_PAYLOAD_BYTES + 14;
        Self { limit: 10_240, quantum: frame, target: Nanos(5_000_000), interval: Nanos(100_000_000), mtu: frame }
    }
}

/// Frames that a discipline has dropped, and why.
pub(crate) type Dropped = Vec<(FrameId, Cause)>;

/// A discipline at work. Instants are whole nanoseconds, as the kernel's clock has them.
pub(crate) trait Discipline: Debug {
    /// Takes a frame, or drops it or others instead; false where its sender is told of that.
    fn enqueue(&mut self, now: i64, packet: Packet, dropped: &mut Dropped) -> bool;
    /// What would go now.
    fn peek(&mut self, now: i64, dropped: &mut Dropped) -> Option<Packet>;
    /// Lets it go.
    fn dequeue(&mut self, now: i64, dropped: &mut Dropped) -> Option<Packet>;
    /// Frames in it.
    fn len(&self) -> usize;
    /// The instant to which its timer is set.
    fn timer(&mut self) -> &mut Option<i64>;
}

impl Qdisc {
    pub(crate) fn build(&self) -> Box<dyn Discipline> {
        match self {
            Self::Pfifo(frames) => Box::new(fifo::Fifo::frames(*frames)),
            Self::Prio { map } => Box::new(prio::Prio::new(*map)),
            Self::Tbf { rate, burst, child, limit } => {
                let child = match child {
                    Some(child) => child.build(),
                    None => Box::new(fifo::Fifo::bytes(*limit)),
                };
                Box::new(tbf::Tbf::new(*rate, *burst, child))
            }
            Self::FqCodel(parameters) => Box::new(fq_codel::FlowQueues::new(*parameters)),
            Self::Netem { rate, overhead, delay, limit } => {
                Box::new(netem::Netem::new(*rate, *overhead, *delay, *limit))
            }
        }
    }

    /// Whether a frame passes it by while nothing waits.
    fn can_be_passed_by(&self) -> bool {
        matches!(self, Self::Pfifo(_) | Self::FqCodel(_))
    }
}

/// A discipline at the root of a port with one queue, in front of the line.
#[derive(Debug)]
pub(crate) struct Root {
    discipline: Box<dyn Discipline>,
    passed_by: bool,
    /// A frame that has passed the discipline by while the line was busy: it goes first.
    first: Option<Packet>,
    looked: bool,
    sending: Option<FrameId>,
}

impl Root {
    pub(crate) fn new(qdisc: &Qdisc) -> Self {
        let (discipline, passed_by) = (qdisc.build(), qdisc.can_be_passed_by());
        Self { discipline, passed_by, first: None, looked: false, sending: None }
    }

    /// False where the sender is told that the frame was dropped.
    pub(crate) fn enqueue(&mut self, now: i64, packet: Packet, dropped: &mut Dropped) -> bool {
        self.looked = true;
        if self.passed_by && self.first.is_none() && self.discipline.len() == 0 {
            self.first = Some(packet);
            return true;
        }
        self.discipline.enqueue(now, packet, dropped)
    }

    pub(crate) fn sent(&mut self) -> Option<FrameId> {
        self.looked = true;
        self.sending.take()
    }

    /// It is run, whoever asks for it.
    pub(crate) fn look(&mut self) {
        self.looked = true;
    }

    /// The instant to which its timer is set.
    pub(crate) fn timer(&mut self) -> Option<i64> {
        *self.discipline.timer()
    }

    /// An interrupt, in which its timer goes off if it is due; whether it is.
    pub(crate) fn woken(&mut self, now: i64) -> bool {
        let due = self.discipline.timer().take_if(|at| *at <= now).is_some();
        self.looked |= due;
        due
    }

    pub(crate) fn next(&mut self, now: i64, dropped: &mut Dropped) -> Option<FrameId> {
        if !std::mem::take(&mut self.looked) || self.sending.is_some() {
            return None;
        }
        let packet = self.first.take().or_else(|| self.discipline.dequeue(now, dropped))?;
        self.sending = Some(packet.frame);
        self.sending
    }
}

/// A pfifo as the kernel makes one where nothing else is said.
fn leaf() -> fifo::Fifo {
    fifo::Fifo::frames(QUEUE_FRAMES)
}
