//! Lines of stations and bridges, put together by hand.
#![allow(dead_code)] // every test takes what it needs

pub(crate) mod bounds;

use scenario::*;
use units::{Nanos, Rate, Tai};

/// Station 0, bridges, station `rates.len()`: one link a rate, one bridge latency each between two links.
pub(crate) fn line(rates: &[Rate], latencies: &[Nanos], propagation: Nanos, queue: &Queue) -> Scenario {
    let last = rates.len();
    let hosts = (0..=last)
        .map(|index| {
            let bridge = index > 0 && index < last;
            let latency = latencies.get(index.wrapping_sub(1)).copied().unwrap_or(Nanos::ZERO);
            host(&format!("n{index}"), index as u16 + 1, bridge.then_some(latency))
        })
        .collect();
    let mut scenario = Scenario {
        name: "line".into(),
        cycle: Nanos(250_000),
        base_time: Tai(1_000_000_000),
        threads: Default::default(),
        backlog: Default::default(),
        hosts,
        links: vec![],
        ports: vec![],
        streams: vec![],
        traffic: vec![],
        requirement: vec![],
        installation: Default::default(),
        requirement_class: None,
        source: String::new(),
    };
    for (index, &rate) in rates.iter().enumerate() {
        link(&mut scenario, index, index + 1, rate, propagation, queue);
    }
    scenario
}

/// A station, or a bridge of some latency.
pub(crate) fn host(name: &str, publisher_id: u16, bridge: Option<Nanos>) -> Host {
    let kind = bridge.map_or(HostKind::Station, |latency| HostKind::Bridge { latency, forwarder: Forwarder::Hardware });
    let phases = Phases {
        subscribe: Fraction(0),
        window: Fraction(200_000_000),
        application: Fraction(300_000_000),
        publish: Fraction(600_000_000),
    };
    Host { name: name.into(), kind, clock: ClockRole::Shared, phases, publisher_id, ssh: None }
}

/// Adds a link with a port at each end.
pub(crate) fn link(scenario: &mut Scenario, from: usize, to: usize, rate: Rate, propagation: Nanos, queue: &Queue) {
    let ends = [HostId(from), HostId(to)];
    let link = LinkId(scenario.links.len());
    scenario.links.push(Link { ends, rate, propagation, ptp_only: false });
    for [host, peer] in [ends, [ends[1], ends[0]]] {
        scenario.ports.push(Port { host, peer, link, queue: queue.clone(), shift: Nanos::ZERO, interface: None });
    }
}

/// Adds a stream with launch time along the whole line, cycle 250 µs, offset 0, PCP 7.
pub(crate) fn stream(scenario: &mut Scenario, variables: u16) -> &mut Stream {
    let links = scenario.links.len();
    stream_on(scenario, variables, &(0..links).collect::<Vec<_>>())
}

/// Adds a stream over these links, all passed from `ends[0]` to `ends[1]`.
pub(crate) fn stream_on<'a>(scenario: &'a mut Scenario, variables: u16, links: &[usize]) -> &'a mut Stream {
    let path: Vec<PortId> = links.iter().map(|link| PortId(2 * link)).collect();
    let return_path = links.iter().rev().map(|link| PortId(2 * link + 1)).collect();
    let number = scenario.streams.len() as u8;
    let (writer, reader) = (scenario.links[links[0]].ends[0], scenario.links[links[links.len() - 1]].ends[1]);
    scenario.streams.push(Stream {
        name: format!("s{number}"),
        writer,
        reader,
        echo: false,
        variables,
        encoding: FieldEncoding::Variant,
        vid: 8,
        pcp: 7,
        destinations: [[3, 0, 0, 0, number, 1], [3, 0, 0, 0, number, 2]],
        udp: None,
        writer_group_id: u16::from(number) + 1,
        cycle: scenario.cycle,
        start: Nanos::ZERO,
        offset: Nanos::ZERO,
        launch: true,
        breaches: None,
        applications: Default::default(),
        path,
        return_path,
    });
    scenario.streams.last_mut().unwrap()
}

/// Adds UDP traffic along the whole line, PCP 0.
pub(crate) fn udp(scenario: &mut Scenario, rate: Option<Rate>, payload_bytes: u16) -> &mut Traffic {
    scenario.traffic.push(Traffic {
        from: HostId(0),
        to: scenario.links.last().unwrap().ends[1],
        kind: TrafficKind::Udp,
        rate,
        payload_bytes,
        pcp: 0,
        path: (0..scenario.links.len()).map(|link| PortId(2 * link)).collect(),
    });
    scenario.traffic.last_mut().unwrap()
}

/// Two classes: PCP 4 to 7 in class 1, shaped by `shaper`, the rest in class 0.
pub(crate) fn mqprio(shaper: Shaper) -> Queue {
    let mut map = [0; 16];
    map[4..8].fill(1);
    Queue::Mqprio(Classes { map, shapers: vec![Shaper::None, shaper] })
}

/// A credit-based shaper.
pub(crate) fn cbs(idle_slope: u64) -> Cbs {
    Cbs { idle_slope: Rate(idle_slope), offload: true }
}
