//! Scenarios built by hand: a line of stations and bridges.
#![allow(dead_code, unreachable_pub)]

pub mod gates;

use scenario::*;
use units::{Nanos, Rate, Tai};

/// "w", then bridges "b1" …, then "r": one link per rate.
pub struct Line {
    pub scenario: Scenario,
}

impl Line {
    pub fn new(rates: &[Rate]) -> Self {
        let bridge = HostKind::Bridge { latency: Nanos(0), forwarder: Forwarder::Hardware };
        let host = |name: String, kind, publisher_id| Host {
            name,
            kind,
            clock: ClockRole::Slave,
            phases: Phases {
                subscribe: Fraction(0),
                window: Fraction(300_000_000),
                application: Fraction(300_000_000),
                publish: Fraction(600_000_000),
            },
            publisher_id,
            ssh: None,
        };
        let mut hosts = vec![host("w".into(), HostKind::Station, 1)];
        for number in 1..rates.len() {
            hosts.push(host(format!("b{number}"), bridge.clone(), 10 + number as u16));
        }
        hosts.push(host("r".into(), HostKind::Station, 2));
        let mut links = Vec::new();
        let mut ports = Vec::new();
        for (number, rate) in rates.iter().enumerate() {
            let ends = [HostId(number), HostId(number + 1)];
            links.push(Link { ends, rate: *rate, propagation: Nanos(0), ptp_only: false });
            for [host, peer] in [ends, [ends[1], ends[0]]] {
                ports.push(Port {
                    host,
                    peer,
                    link: LinkId(number),
                    queue: Queue::Fifo,
                    shift: Nanos(0),
                    interface: None,
                });
            }
        }
        Self {
            scenario: Scenario {
                name: "line".into(),
                cycle: Nanos::from_micros(250),
                base_time: Tai(0),
                threads: Default::default(),
                backlog: Default::default(),
                hosts,
                links,
                ports,
                streams: Vec::new(),
                traffic: Vec::new(),
                requirement: Vec::new(),
                installation: Default::default(),
                requirement_class: None,
                source: String::new(),
            },
        }
    }

    pub fn gigabit(links: usize) -> Self {
        Self::new(&vec![Rate::from_gbit(1); links])
    }

    pub fn queue(mut self, queue: Queue) -> Self {
        for port in &mut self.scenario.ports {
            port.queue = queue.clone();
        }
        self
    }

    pub fn cycle(mut self, cycle: Nanos) -> Self {
        self.scenario.cycle = cycle;
        self
    }

    pub fn window(mut self, parts_per_billion: u32) -> Self {
        for host in &mut self.scenario.hosts {
            host.phases.window = Fraction(parts_per_billion);
        }
        self
    }

    /// A stream over hosts `from` … `to` of the line, PCP 7, with echo and launch time.
    pub fn stream(self, from: usize, to: usize, variables: u16) -> Self {
        self.stream_with(from, to, variables, |_| ())
    }

    pub fn stream_with(mut self, from: usize, to: usize, variables: u16, change: impl FnOnce(&mut Stream)) -> Self {
        // Host indices rise along the line; an inner host takes the part of a station.
        let (path, return_path) = (ports(from, to), ports(to, from));
        let mut stream = Stream {
            name: format!("s{}", self.scenario.streams.len()),
            writer: HostId(from),
            reader: HostId(to),
            echo: true,
            variables,
            encoding: FieldEncoding::Variant,
            vid: 3000,
            pcp: 7,
            destinations: [[1, 0, 0, 0, 0, 1], [1, 0, 0, 0, 0, 2]],
            udp: None,
            writer_group_id: 100,
            cycle: self.scenario.cycle,
            start: Nanos(0),
            offset: Nanos::from_micros(150),
            launch: true,
            breaches: None,
            applications: Default::default(),
            path,
            return_path,
        };
        change(&mut stream);
        self.scenario.streams.push(stream);
        self
    }

    pub fn traffic(
        mut self,
        from: usize,
        to: usize,
        kind: TrafficKind,
        rate: Option<Rate>,
        bytes: u16,
        pcp: u8,
    ) -> Self {
        let path = ports(from, to);
        let (from, to) = (HostId(from), HostId(to));
        self.scenario.traffic.push(Traffic { from, to, kind, rate, payload_bytes: bytes, pcp, path });
        self
    }
}

/// Output ports between two hosts of the line.
pub fn ports(from: usize, to: usize) -> Vec<PortId> {
    if from < to {
        (from..to).map(|link| PortId(2 * link)).collect()
    } else {
        (to..from).rev().map(|link| PortId(2 * link + 1)).collect()
    }
}

/// Classes by priority: PCP = class, each with the shaper given, none above the list.
pub fn mqprio(shapers: &[(u8, Shaper)]) -> Queue {
    Queue::Mqprio(classes(shapers))
}

/// The same, for any queue that has classes.
pub fn classes(shapers: &[(u8, Shaper)]) -> Classes {
    let mut all = vec![Shaper::None; 8];
    for (class, shaper) in shapers {
        all[usize::from(*class)] = shaper.clone();
    }
    let mut map = [0; 16];
    for (priority, class) in map.iter_mut().enumerate().take(8) {
        *class = priority as u8;
    }
    Classes { map, shapers: all }
}

/// Strict priority with class 7 shaped.
pub fn shaped(idle_slope: Rate) -> Queue {
    mqprio(&[(7, Shaper::Cbs(Cbs { idle_slope, offload: true }))])
}

/// Variables of a payload of the papers' frames.
pub fn variables(payload: u32) -> u16 {
    ((payload - 32) / 9) as u16
}
