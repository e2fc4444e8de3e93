//! What passes the ports: both directions of every stream, traffic, acknowledgements.

use scenario::{PortId, Queue, Scenario, TrafficKind};
use units::{FrameSize, Nanos};

use crate::Options;
use crate::exact::{Exact, bits, seconds, whole};
use crate::report::Direction;

/// One sequence of frames of one size along one path.
#[derive(Debug)]
pub(crate) struct Flow {
    /// How it is called in reasons.
    pub(crate) label: String,
    pub(crate) path: Vec<PortId>,
    pub(crate) pcp: u8,
    /// Its frames have a launch time at its first port.
    pub(crate) launch: bool,
    /// Physical bits of its (largest) frame.
    pub(crate) frame: Exact,
    /// Its size.
    pub(crate) size: FrameSize,
    /// Burst and rate at its source, or why it has none.
    pub(crate) source: Result<(Exact, Exact), String>,
}

/// All flows, and which pass where.
#[derive(Debug)]
pub(crate) struct Flows {
    pub(crate) flows: Vec<Flow>,
    /// For each port the flows that pass it, rising.
    at: Vec<Vec<usize>>,
    /// For each stream its flows: there, and back if there is an echo.
    streams: Vec<[Option<usize>; 2]>,
}

impl Flows {
    pub(crate) fn new(scenario: &Scenario, options: &Options) -> Self {
        let mut this = Self { flows: Vec::new(), at: vec![Vec::new(); scenario.ports.len()], streams: Vec::new() };
        let jitter = seconds(options.host_jitter);
        for stream in &scenario.streams {
            let frame = bits(stream.frame().physical_bytes());
            let rate = &frame / seconds(stream.cycle);
            // Frames of a cycle apart, each late by up to the jitter.
            let source = (&frame + &rate * &jitter, rate);
            let flow = |label: String, path: &[PortId]| Flow {
                label,
                path: path.to_vec(),
                pcp: stream.pcp,
                launch: stream.launch,
                frame: frame.clone(),
                size: stream.frame(),
                source: Ok(source.clone()),
            };
            let there = this.add(flow(format!("stream \"{}\"", stream.name), &stream.path));
            let back =
                stream.echo.then(|| this.add(flow(format!("echo of stream \"{}\"", stream.name), &stream.return_path)));
            this.streams.push([Some(there), back]);
        }
        for traffic in &scenario.traffic {
            let from = &scenario.host(traffic.from).name;
            let to = &scenario.host(traffic.to).name;
            let frame = bits(traffic.frame().physical_bytes());
            let label = match traffic.kind {
                TrafficKind::Udp => format!("UDP traffic {from} → {to}"),
                TrafficKind::Tcp => format!("TCP traffic {from} → {to}"),
            };
            let source = match (traffic.kind, traffic.rate) {
                (TrafficKind::Tcp, _) => Err(format!("{label} sends in bursts that nothing limits")),
                (TrafficKind::Udp, None) => Err(format!("{label} has no rate")),
                // An evenly paced frame every payload/rate.
                (TrafficKind::Udp, Some(rate)) => {
                    let rate = &frame * whole(rate.0) / bits(u32::from(traffic.payload_bytes).max(1));
                    Ok((&frame + &rate * &jitter, rate))
                }
            };
            let flow = Flow {
                label,
                path: traffic.path.clone(),
                pcp: traffic.pcp,
                launch: false,
                frame,
                size: traffic.frame(),
                source,
            };
            if traffic.kind == TrafficKind::Tcp {
                // Acknowledgements go back through the other direction of each link. IP header and the
                // longest TCP header, no data.
                let label = format!("acknowledgements of {}", flow.label);
                let source = Err(format!("{label} come in bursts that nothing limits"));
                let path = flow.path.iter().rev().map(|port| PortId(port.0 ^ 1)).collect();
                let size = FrameSize::untagged(20 + 60);
                let frame = bits(size.physical_bytes());
                this.add(Flow { label, path, pcp: flow.pcp, launch: false, frame, size, source });
            }
            this.add(flow);
        }
        this
    }

    fn add(&mut self, flow: Flow) -> usize {
        let index = self.flows.len();
        for port in &flow.path {
            if let Some(here) = self.at.get_mut(port.0) {
                here.push(index);
            }
        }
        self.flows.push(flow);
        index
    }

    /// The flow of a stream in a direction.
    pub(crate) fn of_stream(&self, stream: usize, direction: Direction) -> Option<usize> {
        self.streams[stream][match direction {
            Direction::Out => 0,
            Direction::Back => 1,
        }]
    }

    /// Flows of `class` at `port`.
    pub(crate) fn in_class<'a>(
        &'a self,
        scenario: &'a Scenario,
        port: PortId,
        class: u8,
    ) -> impl Iterator<Item = usize> + 'a {
        let queue = &scenario.port(port).queue;
        self.at[port.0].iter().copied().filter(move |flow| queue.class_of(self.flows[*flow].pcp) == class)
    }

    /// The largest frame among the flows at `port` whose class is within `classes`, in bits; zero if there is none.
    pub(crate) fn largest(&self, scenario: &Scenario, port: PortId, classes: std::ops::Range<u8>) -> Exact {
        let queue = &scenario.port(port).queue;
        let here = self.at[port.0].iter().map(|flow| &self.flows[*flow]);
        here.filter(|flow| classes.contains(&queue.class_of(flow.pcp)))
            .map(|flow| flow.frame.clone())
            .max()
            .unwrap_or_default()
    }

    /// Where in the path of `flow` a port is.
    pub(crate) fn position(&self, flow: usize, port: PortId) -> usize {
        self.flows[flow].path.iter().position(|at| *at == port).unwrap_or(0)
    }

    /// The first index of the stretch that holds `index` and whose ports are all passed, in one class, by
    /// the very same flows: the stretch over which a burst is paid once.
    pub(crate) fn stretch_start(&self, scenario: &Scenario, flow: usize, index: usize) -> usize {
        let path = &self.flows[flow].path;
        let set = |port: PortId| {
            self.in_class(scenario, port, scenario.port(port).queue.class_of(self.flows[flow].pcp)).collect::<Vec<_>>()
        };
        let here = set(path[index]);
        // Where frames overtake each other, a burst is not the same one behind.
        let ordered = |port: PortId| scenario.port(port).queue != Queue::FqCodel;
        let mut start = index;
        while start > 0 && ordered(path[start]) && ordered(path[start - 1]) && set(path[start - 1]) == here {
            start -= 1;
        }
        start
    }
}

/// Seconds a frame of `bits` takes at a port.
pub(crate) fn transmission(scenario: &Scenario, port: PortId, bits: &Exact) -> Exact {
    bits / whole(scenario.port_rate(port).0.max(1))
}

/// Latency of the bridge in front of a port.
pub(crate) fn latency(scenario: &Scenario, port: PortId) -> Exact {
    seconds(scenario.bridge_latency(scenario.port(port).host))
}

/// Propagation behind a port.
pub(crate) fn propagation(scenario: &Scenario, port: PortId) -> Exact {
    seconds(scenario.link(scenario.port(port).link).propagation.max(Nanos::ZERO))
}
