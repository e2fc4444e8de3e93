//! A line of two stations with bridges between, made in a program.

use units::{Nanos, Rate, Tai};

use crate::installation::Installation;
use crate::model::{
    Backlog, ClockRole, FieldEncoding, Forwarder, Fraction, Host, HostId, HostKind, Link, LinkId, Phases, Port, PortId,
    Scenario, Stream, Threads,
};
use crate::queue::Queue;

/// A line of stations and bridges: `pub`, `br1` … `brN`, `loop`, and flows from `pub` to `loop` and back.
///
/// For tests that try many networks. What a file would be checked for is up to the caller.
#[derive(Debug, Clone)]
pub struct LineSpec {
    /// Number of bridges; links are one more.
    pub bridges: usize,
    /// Rate of every link.
    pub rate: Rate,
    /// Cycle of every flow.
    pub cycle: Nanos,
    /// Launch = next cycle start + offset.
    pub offset: Nanos,
    /// Receive window as a share of the cycle.
    pub window: Fraction,
    /// Variables and priority code point of each flow; every flow is echoed.
    pub flows: Vec<(u16, u8)>,
    /// Queue of every port.
    pub queue: Queue,
    /// Latency of every bridge.
    pub latency: Nanos,
    /// Propagation delay of every link.
    pub propagation: Nanos,
}

/// One flow of three variables over one link of 1 Gbit/s: the papers' smallest frame and their timing.
impl Default for LineSpec {
    fn default() -> Self {
        Self {
            bridges: 0,
            rate: Rate::from_gbit(1),
            cycle: Nanos::from_micros(250),
            offset: Nanos::from_micros(150),
            window: Fraction(200_000_000),
            flows: vec![(3, 7)],
            queue: Queue::Fifo,
            latency: Nanos::ZERO,
            propagation: Nanos::ZERO,
        }
    }
}

/// Makes the scenario of a line. Its `source` is empty.
///
/// ```
/// use downbeat_scenario::{LineSpec, line};
/// let scenario = line(&LineSpec { bridges: 6, ..LineSpec::default() });
/// assert_eq!(scenario.links.len(), 7);
/// assert_eq!(scenario.port_name(scenario.streams[0].path[1]), "br1 → br2");
/// ```
pub fn line(spec: &LineSpec) -> Scenario {
    let phases = Phases {
        subscribe: Fraction(0),
        window: spec.window,
        application: Fraction(300_000_000),
        publish: Fraction(600_000_000),
    };
    let links = spec.bridges + 1;
    let host = |index: usize| {
        let (name, kind) = if index == 0 {
            ("pub".to_owned(), HostKind::Station)
        } else if index == links {
            ("loop".to_owned(), HostKind::Station)
        } else {
            (format!("br{index}"), HostKind::Bridge { latency: spec.latency, forwarder: Forwarder::Linux })
        };
        Host { name, kind, clock: ClockRole::Shared, phases, publisher_id: 2234 + index as u16, ssh: None }
    };
    let port = |index: usize| {
        let (link, side) = (index / 2, index % 2);
        let (host, peer) = (HostId(link + side), HostId(link + 1 - side));
        Port { host, peer, link: LinkId(link), queue: spec.queue.clone(), shift: Nanos::ZERO, interface: None }
    };
    let stream = |(index, &(variables, pcp)): (usize, &(u16, u8))| {
        let [high, low] = (1 + 2 * index as u16).to_be_bytes();
        let [answer_high, answer_low] = (2 + 2 * index as u16).to_be_bytes();
        Stream {
            name: format!("flow{}", index + 1),
            writer: HostId(0),
            reader: HostId(links),
            echo: true,
            variables,
            encoding: FieldEncoding::Variant,
            vid: 3000,
            pcp,
            destinations: [[1, 0, 0x5E, 0x7F, high, low], [1, 0, 0x5E, 0x7F, answer_high, answer_low]],
            udp: None,
            writer_group_id: 101 + index as u16,
            cycle: spec.cycle,
            start: Nanos::ZERO,
            offset: spec.offset,
            launch: true,
            breaches: None,
            applications: Default::default(),
            path: (0..links).map(|link| PortId(2 * link)).collect(),
            return_path: (0..links).rev().map(|link| PortId(2 * link + 1)).collect(),
        }
    };
    Scenario {
        name: format!("line-{links}"),
        cycle: spec.cycle,
        base_time: Tai(0),
        threads: Threads::default(),
        backlog: Backlog::default(),
        hosts: (0..=links).map(host).collect(),
        links: (0..links)
            .map(|index| Link {
                ends: [HostId(index), HostId(index + 1)],
                rate: spec.rate,
                propagation: spec.propagation,
                ptp_only: false,
            })
            .collect(),
        ports: (0..2 * links).map(port).collect(),
        streams: spec.flows.iter().enumerate().map(stream).collect(),
        traffic: Vec::new(),
        requirement: Vec::new(),
        requirement_class: None,
        installation: Installation::default(),
        source: String::new(),
    }
}
