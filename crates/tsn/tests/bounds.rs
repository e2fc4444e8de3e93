//! Rules that tell where there is no bound tell it there, and nowhere else.

use calculus::{Model, bound};
use downbeat_tsn::rules::{self, Situation};
use proptest::prelude::*;
use scenario::*;
use units::{Nanos, Rate};

const RULE: &str = "slope-lost-to-byte-fractions";
const REASON: &str = "software shaper counts whole bytes";
const CYCLE: Nanos = Nanos(250_000);

#[derive(Debug, Clone)]
struct Draw {
    rate: u64,
    bridges: usize,
    hardware: bool,
    /// Variables and PCP.
    flows: Vec<(u16, u8)>,
    /// Of the classes 1 and 2: nothing, in software, by the NIC; with a slope in per mille of what they need of the line.
    shapers: [(u8, u64); 2],
    /// One class, shaped at the root.
    root: bool,
    /// UDP payload, PCP and per mille of the line; TCP without.
    traffic: Vec<(u16, u8, Option<u64>)>,
}

fn draws() -> impl Strategy<Value = Draw> {
    let shaper = || (prop::sample::select(vec![0_u8, 1, 1, 1, 2]), 650_u64..1_500);
    let traffic =
        (18_u16..1_472, prop::sample::select(vec![0_u8, 0, 0, 5, 7]), prop::option::weighted(0.9, 1_u64..300));
    (
        prop::sample::select(vec![100_u64, 1_000]),
        0_usize..3,
        any::<bool>(),
        prop::collection::vec((1_u16..160, prop::sample::select(vec![0_u8, 5, 5, 7, 7])), 1..5),
        [shaper(), shaper()],
        prop::bool::weighted(0.1),
        prop::collection::vec(traffic, 0..3),
    )
        .prop_map(|(rate, bridges, hardware, flows, shapers, root, traffic)| Draw {
            rate,
            bridges,
            hardware,
            flows,
            shapers,
            root,
            traffic,
        })
}

/// Bits a second of the line that the streams of a class take, in both directions alike.
fn need(flows: &[(u16, u8)], is_in: impl Fn(u8) -> bool) -> u64 {
    let frames = flows.iter().filter(|(_, pcp)| is_in(*pcp));
    frames.map(|(variables, _)| (u64::from(*variables) * 9 + 32 + 42) * 8 * 4_000).sum()
}

fn build(draw: &Draw) -> Scenario {
    let line_rate = Rate::from_mbit(draw.rate);
    let shaper = |(kind, share): (u8, u64), need: u64| {
        let idle_slope = Rate((need * share / 1_000).clamp(1_000_000, line_rate.0 / 2));
        match kind {
            0 => Shaper::None,
            kind => Shaper::Cbs(Cbs { idle_slope, offload: kind == 2 }),
        }
    };
    let [low, high] = draw.shapers;
    let (low, high) =
        (shaper(low, need(&draw.flows, |pcp| (4..6).contains(&pcp))), shaper(high, need(&draw.flows, |pcp| pcp >= 6)));
    let queue = match (&high, draw.root) {
        (Shaper::Cbs(cbs), true) => Queue::Cbs(cbs.clone()),
        _ => {
            let map = std::array::from_fn(|priority| [0, 0, 0, 0, 1, 1, 2, 2][priority & 7]);
            Queue::Mqprio(Classes { map, shapers: vec![Shaper::None, low, high] })
        }
    };
    let spec = LineSpec {
        bridges: draw.bridges,
        rate: line_rate,
        cycle: CYCLE,
        queue,
        flows: draw.flows.clone(),
        ..LineSpec::default()
    };
    let mut scenario = line(&spec);
    for host in &mut scenario.hosts {
        if let HostKind::Bridge { forwarder, .. } = &mut host.kind {
            *forwarder = if draw.hardware { Forwarder::Hardware } else { Forwarder::Linux };
        }
    }
    let path = scenario.streams[0].path.clone();
    let [from, to] = [scenario.streams[0].writer, scenario.streams[0].reader];
    for &(payload_bytes, pcp, share) in &draw.traffic {
        let (kind, rate) = match share {
            Some(share) => (TrafficKind::Udp, Some(Rate(line_rate.0 / 1_000 * share))),
            None => (TrafficKind::Tcp, None),
        };
        scenario.traffic.push(Traffic { from, to, kind, rate, payload_bytes, pcp, path: path.clone() });
    }
    scenario
}

/// Of how many ports and classes it was told, and of how many it was not.
fn compare(draw: &Draw) -> [usize; 2] {
    let scenario = build(draw);
    let findings: Vec<_> = (0..scenario.hosts.len())
        .flat_map(|host| rules::check_host(&scenario, HostId(host), &Situation::default()))
        .filter(|finding| finding.rule == RULE)
        .collect();
    let mut counts = [0, 0];
    for port in bound(&scenario, Model::Packet).streams.iter().flat_map(|stream| &stream.ports) {
        let class = format!("of class {} ", port.class);
        let told = findings
            .iter()
            .any(|finding| finding.place.starts_with(&format!("{} (", port.port)) && finding.found.contains(&class));
        let reason = port.contribution.reason().unwrap_or_default();
        // A reason of another port of the way is named with that.
        let refused = reason.contains(REASON) && reason.starts_with(&format!("port {}:", port.port));
        assert_eq!(told, refused, "{}, class {}: {reason}\n{findings:#?}\n{draw:#?}", port.port, port.class);
        counts[usize::from(refused)] += 1;
        // What arrives may be too much for other reasons, but not for what is forgotten of the credit of a class on top.
        if reason.starts_with(&format!("port {}:", port.port)) && reason.contains("are served") {
            let id = (0..scenario.ports.len()).map(PortId).find(|id| scenario.port_name(*id) == port.port).unwrap();
            if let (2, Some(long_run), Some(cbs)) =
                (port.class, scenario.long_run(id, port.class), scenario.port(id).queue.cbs(port.class))
            {
                let largest = scenario.streams.iter().map(|stream| stream.frame().physical_bytes()).max().unwrap();
                let (idle, line) = (cbs.idle_slope.0 as f64, scenario.port_rate(id).0 as f64);
                let most = idle / (1.0 - 24.0 * (1.0 - idle / line) / f64::from(largest));
                assert!(most < long_run.arriving as f64, "{reason}\n{draw:#?}");
            }
        }
    }
    counts
}

#[test]
fn the_rule_of_byte_fractions_is_told_where_the_bound_refuses_for_them() {
    let cases = std::env::var("CASES").map_or(400, |cases| cases.parse().unwrap());
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig { cases, ..ProptestConfig::default() });
    let counts = std::cell::Cell::new([0, 0]);
    runner
        .run(&draws(), |draw| {
            let [without, with] = counts.get();
            let [more_without, more_with] = compare(&draw);
            counts.set([without + more_without, with + more_with]);
            Ok(())
        })
        .unwrap_or_else(|why| panic!("{why}"));
    let [without, with] = counts.get();
    println!("{with} ports and classes refused and told, {without} neither");
    assert!(with > cases as usize / 30 && without > cases as usize, "{with} {without}");
}
