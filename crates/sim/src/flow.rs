//! Flows: what passes from one station to another, with all that is known of its way beforehand.

use rand_chacha::ChaCha8Rng;
use scenario::{PortId, Scenario, Traffic, TrafficKind};
use units::{FrameSize, Picos};

use crate::latency::below;

/// One port on the way of a flow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hop {
    /// Index of the output port.
    pub(crate) port: usize,
    /// Traffic class in that port.
    pub(crate) class: usize,
    /// How long its frame takes there.
    pub(crate) transmission: Picos,
    /// From its last bit out to the frame in the next output queue, or at its last station: cable and bridge.
    pub(crate) after: Picos,
}

/// What becomes of a frame at the end of its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Receiver {
    /// A stream end (index) reads it.
    End(usize),
    /// It is counted (index of the traffic).
    Traffic(usize),
}

/// One direction of a stream, or traffic.
#[derive(Debug, Clone)]
pub(crate) struct Flow {
    /// Ports on its way, in order.
    pub(crate) hops: Vec<Hop>,
    /// Priority of its frames.
    pub(crate) priority: u8,
    /// Which frames a discipline that takes flows in turn keeps together.
    pub(crate) bucket: u32,
    /// Bytes of its frames that a discipline of Linux counts.
    pub(crate) counted: u32,
    /// Where its frames end.
    pub(crate) receiver: Receiver,
    /// Keeps one frame waiting behind the one being sent, as long as the run lasts.
    pub(crate) greedy: bool,
}

impl Flow {
    /// The flow of frames of `size` and `pcp` along `path`.
    pub(crate) fn new(scenario: &Scenario, path: &[PortId], size: FrameSize, pcp: u8, receiver: Receiver) -> Self {
        let hops = path
            .iter()
            .map(|&id| {
                let port = scenario.port(id);
                // Stations have no latency, so the last hop ends with the cable.
                let after = scenario.link(port.link).propagation + scenario.bridge_latency(port.peer);
                Hop {
                    port: id.0,
                    class: usize::from(port.queue.class_of(pcp)),
                    transmission: scenario.port_rate(id).transmission(size.physical_bits()),
                    after: after.to_picos(),
                }
            })
            .collect();
        Self { hops, priority: pcp, bucket: 0, counted: size.socket_bytes(), receiver, greedy: false }
    }
}

/// Sends frames of one [`Traffic`].
#[derive(Debug, Clone)]
pub(crate) struct Source {
    /// Index of its flow.
    pub(crate) flow: usize,
    first: Picos,
    payload_bits: u64,
    rate_bits: Option<u64>,
    sent: u64,
}

impl Source {
    /// A source that begins at a random instant of its first interval (of the first cycle, when it has no rate).
    pub(crate) fn new(scenario: &Scenario, traffic: &Traffic, flow: usize, random: &mut ChaCha8Rng) -> Self {
        let payload_bits = u64::from(traffic.payload_bytes) * 8;
        let mut source =
            Self { flow, first: Picos::ZERO, payload_bits, rate_bits: traffic.rate.map(|rate| rate.0), sent: 0 };
        source.sent = 1;
        let interval = if source.is_greedy() { scenario.cycle.to_picos() } else { source.next_at() };
        source.sent = 0;
        source.first = Picos(below(random, interval.0.max(1) as u64) as i64);
        source
    }

    /// Whether it sends as fast as it can.
    pub(crate) fn is_greedy(&self) -> bool {
        self.rate_bits.is_none()
    }

    /// When its next frame is due: evenly spaced, exact in the long run, rounded down to a picosecond.
    pub(crate) fn next_at(&self) -> Picos {
        let bits = u128::from(self.sent) * u128::from(self.payload_bits);
        let after = bits * 1_000_000_000_000 / u128::from(self.rate_bits.unwrap_or(1).max(1));
        Picos(i64::try_from(after).map_or(i64::MAX, |after| self.first.0.saturating_add(after)))
    }

    /// Counts a frame.
    pub(crate) fn count(&mut self) {
        self.sent += 1;
    }
}

/// How `traffic` is modelled, in words for the machine description.
pub(crate) fn traffic_model(traffic: &[Traffic]) -> &'static str {
    if traffic.is_empty() {
        "none"
    } else if traffic.iter().any(|traffic| traffic.kind == TrafficKind::Tcp) {
        "evenly paced datagrams of the rate; without a rate one frame always waiting; tcp likewise, as full segments"
    } else {
        "evenly paced datagrams of the rate; without a rate one frame always waiting"
    }
}
