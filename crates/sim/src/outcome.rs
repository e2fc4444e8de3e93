//! What a simulation is told and what it gives.

use std::fmt;

use scenario::{HostId, Pause, PortId};
use units::Picos;

use crate::latency::{HostLatency, LatencyError};

/// How a scenario is to be simulated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Length of the run in cycles of the scenario.
    pub cycles: u64,
    /// Seed of all that is random: host latency and the phase of traffic. One seed, one result, to the byte.
    pub seed: u64,
    /// How late phases begin, on hosts that [`Self::hosts`] does not name.
    pub host_latency: HostLatency,
    /// How late phases of single hosts begin; of several entries for one host the last counts.
    pub hosts: Vec<(HostId, HostLatency)>,
    /// Hosts that stand still for a while: what is due meanwhile is late or left out, what arrives waits.
    pub pauses: Vec<Pause>,
    /// Keep every delay in [`Delays::all`], not only the least, the greatest and the sum.
    pub keep_delays: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cycles: 1000,
            seed: 0,
            host_latency: HostLatency::Zero,
            hosts: Vec::new(),
            pauses: Vec::new(),
            keep_delays: false,
        }
    }
}

impl Options {
    /// How late phases of a host begin.
    pub fn latency_of(&self, host: HostId) -> &HostLatency {
        let own = self.hosts.iter().rev().find(|(named, _)| *named == host);
        own.map_or(&self.host_latency, |(_, latency)| latency)
    }

    /// All latencies there are.
    pub(crate) fn latencies(&self) -> impl Iterator<Item = &HostLatency> {
        std::iter::once(&self.host_latency).chain(self.hosts.iter().map(|(_, latency)| latency))
    }
}

/// One-way delays of one direction of a stream: from the entry into the queue of the sender's port (the launch, or
/// the release by an etf queue, the hand-over without launch time) to the last bit in at the receiver. This is what a bound bounds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Delays {
    /// Frames received.
    pub count: u64,
    /// The least; `None` without frames.
    pub min: Option<Picos>,
    /// The greatest; `None` without frames.
    pub max: Option<Picos>,
    /// Sum, ps.
    pub sum: i128,
    /// Every delay in the order of arrival, with [`Options::keep_delays`].
    pub all: Vec<Picos>,
}

impl Delays {
    pub(crate) fn push(&mut self, delay: Picos, keep: bool) {
        self.count += 1;
        self.min = Some(self.min.map_or(delay, |min| min.min(delay)));
        self.max = Some(self.max.map_or(delay, |max| max.max(delay)));
        self.sum += i128::from(delay.0);
        if keep {
            self.all.push(delay);
        }
    }
}

/// One-way delays of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamDelays {
    /// From writer to reader.
    pub forward: Delays,
    /// From reader to writer; empty without echo.
    pub back: Delays,
}

/// Frames that found the queue of a class full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drops {
    /// The port.
    pub port: PortId,
    /// The traffic class in it.
    pub class: u8,
    /// Frames of streams.
    pub stream_frames: u64,
    /// Frames of other traffic.
    pub traffic_frames: u64,
}

/// What became of one entry of the scenario's traffic.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TrafficCount {
    /// Frames sent, dropped ones included.
    pub sent: u64,
    /// Frames received until the end of the run.
    pub received: u64,
    /// Frames dropped in a full queue.
    pub dropped: u64,
}

/// What the network did, exactly. The figures of the stations are in the events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Network {
    /// Delays of each stream, in the order of the scenario.
    pub delays: Vec<StreamDelays>,
    /// Classes that dropped, by port and class.
    pub drops: Vec<Drops>,
    /// Counts of each traffic entry, in the order of the scenario.
    pub traffic: Vec<TrafficCount>,
    /// Frames times output ports passed.
    pub frame_hops: u64,
}

/// Why a scenario cannot be simulated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SimError {
    /// A port on the way of a stream or of traffic has a queue discipline that is not modelled.
    Unsupported {
        /// "br1 → br2".
        port: String,
        /// The discipline as `tc` calls it.
        discipline: &'static str,
    },
    /// No cycles to simulate.
    NoCycles,
    /// The run does not fit into the simulator's clock.
    TooLong {
        /// Cycles asked for.
        cycles: u64,
        /// Cycles that fit.
        most: u64,
    },
    /// The host latency makes no sense.
    Latency(LatencyError),
    /// The frames of a stream cannot be laid out.
    Layout {
        /// Name of the stream.
        stream: String,
        /// What the engine says.
        why: String,
    },
}

impl fmt::Display for SimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported { port, discipline } => write!(
                f,
                "port {port} has the queue discipline {discipline}, which simulate does not model: simulate models \
                 fifo, fq_codel, mqprio, cbs, etf and taprio. Give the port one of these, or measure the scenario with `downbeat run`"
            ),
            Self::NoCycles => f.write_str("a simulation of 0 cycles has no result; ask for at least 1"),
            Self::TooLong { cycles, most } => {
                write!(f, "{cycles} cycles do not fit into the simulator's clock; ask for at most {most}")
            }
            Self::Latency(why) => why.fmt(f),
            Self::Layout { stream, why } => write!(f, "stream {stream}: {why}"),
        }
    }
}

impl std::error::Error for SimError {}

impl From<LatencyError> for SimError {
    fn from(why: LatencyError) -> Self {
        Self::Latency(why)
    }
}
