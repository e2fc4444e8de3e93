//! No simulated frame takes longer than its bound, and some take exactly as long.
//!
//! The simulation here is its own: port by port along the line, frame by frame, in whole picoseconds.

mod common;

use common::gates::{pass, taprio};
use common::{Line, mqprio, shaped};
use downbeat_calculus::{Exact, Model, bound};
use proptest::prelude::*;
use scenario::{Cbs, Forwarder, HostKind, PortId, Queue, Scenario, Shaper, TaprioMode, TrafficKind};
use units::{Nanos, Rate};

const PICOS: i128 = 1_000_000_000_000;

#[derive(Debug, Clone)]
struct Frame {
    flow: usize,
    number: usize,
    pcp: u8,
    bits: i128,
    at: i128,
    /// When it started at its first port.
    left: i128,
}

/// The longest of a flow, in picoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Longest {
    /// From the first queue to the last bit.
    delay: i128,
    /// From the start on the first line.
    way: i128,
    /// Longest less shortest delay.
    spread: i128,
}

/// One flow of the simulation: its ports and when its frames enter the first queue.
#[derive(Debug, Clone)]
struct Flow {
    path: Vec<PortId>,
    pcp: u8,
    bits: i128,
    times: Vec<i128>,
}

/// Sends `frames` through one port: non-preemptive strict priority, credit where shaped. Returns start times.
fn port(queue: &Queue, rate: Rate, mut frames: Vec<Frame>) -> Vec<(Frame, i128)> {
    if let Queue::Taprio { schedule, .. } = queue {
        frames.sort_by_key(|frame| (frame.at, frame.pcp, -frame.bits));
        let waiting: Vec<_> =
            frames.iter().enumerate().map(|(n, f)| (n, f.at, queue.class_of(f.pcp), f.bits)).collect();
        let started = pass(schedule, rate, &waiting);
        return started.into_iter().map(|(number, at)| (frames[number].clone(), at)).collect();
    }
    // Of frames that arrive together, lower priorities and larger frames first: the worst order found.
    frames.sort_by_key(|frame| (frame.at, frame.pcp, -frame.bits));
    let mut waiting: Vec<Vec<Frame>> = vec![Vec::new(); 8];
    // Credit in 10⁻¹² bit and when it was that, by class.
    let mut credit = [(0_i128, 0_i128); 8];
    let mut arrivals = frames.into_iter().peekable();
    let mut started = Vec::new();
    let (mut now, mut free) = (0_i128, 0_i128);
    loop {
        while let Some(frame) = arrivals.next_if(|frame| frame.at <= now) {
            let class = usize::from(queue.class_of(frame.pcp));
            if let Some(cbs) = queue.cbs(class as u8)
                && waiting[class].is_empty()
            {
                // An empty queue keeps no credit above zero; below, it rises to zero at most.
                let (value, since) = credit[class];
                let slope = i128::from(cbs.idle_slope.0);
                let busy = started.last().is_some_and(|(last, start): &(Frame, i128)| {
                    usize::from(queue.class_of(last.pcp)) == class
                        && start + last.bits * PICOS / i128::from(rate.0) > frame.at
                });
                let risen = value + slope * (frame.at - since);
                credit[class] = (if busy { risen } else { risen.min(0) }, frame.at);
            }
            waiting[class].push(frame);
        }
        let mut next = arrivals.peek().map(|frame| frame.at);
        let mut chosen = None;
        if free <= now {
            for class in (0..8).rev().filter(|class| !waiting[*class].is_empty()) {
                if let Some(cbs) = queue.cbs(class as u8) {
                    let (value, since) = credit[class];
                    let slope = i128::from(cbs.idle_slope.0);
                    let value = value + slope * (now - since);
                    if value < 0 {
                        let ready = now + (-value + slope - 1) / slope;
                        next = Some(next.map_or(ready, |at| at.min(ready)));
                        continue;
                    }
                }
                chosen = Some(class);
                break;
            }
        } else {
            next = Some(next.map_or(free, |at| at.min(free)));
        }
        if let Some(class) = chosen {
            let frame = waiting[class].remove(0);
            free = now + frame.bits * PICOS / i128::from(rate.0);
            if let Some(cbs) = queue.cbs(class as u8) {
                let (value, since) = credit[class];
                // What is left above zero at its end is lost when the next one comes later than that, not before.
                let value = value + i128::from(cbs.idle_slope.0) * (now - since) - frame.bits * PICOS;
                credit[class] = (value, now);
            }
            started.push((frame, now));
            continue;
        }
        match next {
            Some(at) => now = at,
            None => return started,
        }
    }
}

/// Longest delay of each flow, in picoseconds.
fn simulate(scenario: &Scenario, flows: &[Flow]) -> Vec<i128> {
    longest(scenario, flows).into_iter().map(|longest| longest.delay).collect()
}

fn longest(scenario: &Scenario, flows: &[Flow]) -> Vec<Longest> {
    let mut worst = vec![Longest::default(); flows.len()];
    let mut least = vec![i128::MAX; flows.len()];
    let mut frames: Vec<(usize, Frame)> = Vec::new();
    for (index, flow) in flows.iter().enumerate() {
        for (number, at) in flow.times.iter().enumerate() {
            frames.push((0, Frame { flow: index, number, pcp: flow.pcp, bits: flow.bits, at: *at, left: 0 }));
        }
    }
    // The line's ports one way in their order, then the other way: nothing comes back to an earlier port.
    let links = scenario.links.len();
    let order = (0..links).map(|l| PortId(2 * l)).chain((0..links).rev().map(|l| PortId(2 * l + 1)));
    for id in order {
        let here = |(position, frame): &(usize, Frame)| flows[frame.flow].path.get(*position) == Some(&id);
        let (here, mut rest): (Vec<_>, Vec<_>) = frames.into_iter().partition(here);
        let latency = i128::from(scenario.bridge_latency(scenario.port(id).host).0) * 1_000;
        let positions: std::collections::HashMap<_, _> =
            here.iter().map(|(position, frame)| ((frame.flow, frame.number), *position)).collect();
        let queued = here.into_iter().map(|(position, mut frame)| {
            frame.at += if position > 0 { latency } else { 0 };
            frame
        });
        let rate = scenario.port_rate(id);
        for (mut frame, start) in port(&scenario.port(id).queue, rate, queued.collect()) {
            frame.at = start + frame.bits * PICOS / i128::from(rate.0);
            let position = positions[&(frame.flow, frame.number)] + 1;
            if position == 1 {
                frame.left = start;
            }
            if position == flows[frame.flow].path.len() {
                let delay = frame.at - flows[frame.flow].times[frame.number];
                let (worst, least) = (&mut worst[frame.flow], &mut least[frame.flow]);
                *least = delay.min(*least);
                worst.delay = worst.delay.max(delay);
                worst.way = worst.way.max(frame.at - frame.left);
                worst.spread = worst.delay - *least;
            }
            rest.push((position, frame));
        }
        frames = rest;
    }
    worst
}

/// The scenario's flows: stream k of both ways with phase `phases[k]` (ps), then traffic.
fn flows(scenario: &Scenario, phases: &[i128], cycles: usize) -> Vec<Flow> {
    let mut flows = Vec::new();
    let mut phase = phases.iter().copied().cycle();
    for stream in &scenario.streams {
        let cycle = i128::from(stream.cycle.0) * 1_000;
        let bits = i128::from(stream.frame().physical_bits());
        for path in [&stream.path, &stream.return_path] {
            let phase = phase.next().unwrap_or(0);
            let times = (0..cycles as i128).map(|k| phase + k * cycle).collect();
            flows.push(Flow { path: path.clone(), pcp: stream.pcp, bits, times });
        }
    }
    for traffic in &scenario.traffic {
        let Some(rate) = traffic.rate else { continue };
        let spacing =
            |k: i128| (k * i128::from(traffic.payload_bytes) * 8 * PICOS + i128::from(rate.0) - 1) / i128::from(rate.0);
        let phase = phase.next().unwrap_or(0);
        let times = (0..cycles as i128 * 4).map(|k| phase + spacing(k)).collect();
        let bits = i128::from(traffic.frame().physical_bits());
        flows.push(Flow { path: traffic.path.clone(), pcp: traffic.pcp, bits, times });
    }
    flows
}

fn picos(bound: &Exact) -> i128 {
    (bound * Exact::from_integer(PICOS.into())).floor().to_integer().try_into().unwrap()
}

/// Every stream's one-way delay within its bound. Returns how many had one.
fn check(scenario: &Scenario, phases: &[i128]) -> usize {
    let worst = simulate(scenario, &flows(scenario, phases, 12));
    let report = bound(scenario, Model::Packet);
    let mut bounded = 0;
    for (index, stream) in report.streams.iter().enumerate() {
        if let Some(limit) = stream.one_way.seconds() {
            bounded += 1;
            // Credit waits for whole picoseconds: one a port and frame of slack, far below a nanosecond.
            let limit = picos(limit) + 200;
            assert!(
                worst[2 * index] <= limit,
                "{} took {} ps, bound {limit}\n{}",
                stream.name,
                worst[2 * index],
                report.table()
            );
        }
    }
    bounded
}

fn rates() -> impl Strategy<Value = Vec<Rate>> {
    prop::collection::vec(prop::sample::select(vec![Rate::from_mbit(100), Rate::from_gbit(1)]), 1..5)
}

/// From, to (as shares of the line), variables, cycle in units of 125 µs, priority.
type Draw = (u8, u8, u16, i64, u8);

fn draws() -> impl Strategy<Value = Vec<Draw>> {
    prop::collection::vec((0..8_u8, 0..8_u8, 0..164_u16, 2..6_i64, 5..8_u8), 1..6)
}

fn build(rates: &[Rate], latency: i64, draws: &[Draw], udp: &[(u8, u8, u16, u64)], queue: Queue) -> Scenario {
    let mut line = Line::new(rates).queue(queue);
    for host in &mut line.scenario.hosts {
        if let scenario::HostKind::Bridge { latency: l, .. } = &mut host.kind {
            *l = Nanos(latency);
        }
    }
    let ends = |a: u8, b: u8| {
        let hosts = rates.len() + 1;
        let (a, b) = (usize::from(a) % hosts, usize::from(b) % hosts);
        if a == b { (a, if a + 1 < hosts { a + 1 } else { a - 1 }) } else { (a, b) }
    };
    for (a, b, variables, cycle, pcp) in draws {
        let (from, to) = ends(*a, *b);
        line = line.stream_with(from, to, *variables, |stream| {
            stream.cycle = Nanos::from_micros(125 * cycle);
            stream.pcp = *pcp;
        });
    }
    for (a, b, bytes, mbit) in udp {
        let (from, to) = ends(*a, *b);
        line = line.traffic(from, to, TrafficKind::Udp, Some(Rate::from_mbit(*mbit)), *bytes, 0);
    }
    line.scenario
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Streams of any size, cycle and way, and UDP traffic, under every kind of queue that is bounded.
    #[test]
    fn no_frame_takes_longer_than_its_bound(
        rates in rates(),
        latency in 0..5_000_i64,
        draws in draws(),
        udp in prop::collection::vec((0..8_u8, 0..8_u8, 20..1472_u16, 1..60_u64), 0..3),
        phases in prop::collection::vec(prop::sample::select(vec![0_i128, 0, 0, 1_000_000, 7_654_321, 100_000_000]), 1..12),
        kind in 0..6_u8,
    ) {
        let cbs = |mbit| Shaper::Cbs(Cbs { idle_slope: Rate::from_mbit(mbit), offload: true });
        let queue = match kind {
            0 => Queue::Fifo,
            1 => mqprio(&[]),
            2 => shaped(Rate::from_mbit(40)),
            3 => mqprio(&[(7, cbs(50)), (6, cbs(20))]),
            4 => mqprio(&[(6, cbs(40))]),
            _ => Queue::Cbs(Cbs { idle_slope: Rate::from_mbit(80), offload: true }),
        };
        check(&build(&rates, latency, &draws, &udp, queue), &phases);
    }

    /// Equal frames that enter together reach the bound exactly.
    #[test]
    fn equal_frames_together_take_as_long_as_the_bound(rates in rates(), count in 1..6_usize, variables in 0..60_u16) {
        let mut line = Line::new(&rates).cycle(Nanos::from_millis(2));
        for _ in 0..count {
            line = line.stream(0, rates.len(), variables);
        }
        let worst = simulate(&line.scenario, &flows(&line.scenario, &[0], 3));
        let report = bound(&line.scenario, Model::Packet);
        let longest = worst.iter().step_by(2).max().unwrap();
        prop_assert_eq!(*longest, picos(report.streams[0].one_way.seconds().unwrap()));
    }
}

/// Ten shaped frames together, and in front of the last a lower frame at every port: the bound, but for
/// the picosecond by which each lower frame comes first.
#[test]
fn shaped_frames_behind_lower_ones_take_as_long_as_the_bound() {
    let need = Rate(10 * 371 * 8 * 4_000);
    let mut line = Line::gigabit(7).queue(shaped(need));
    for _ in 0..10 {
        line = line.stream(0, 7, 33);
    }
    // Lower frames of one size, one at each port.
    for link in 0..7 {
        line = line.stream_with(link, link + 1, 163, |stream| stream.pcp = 1);
    }
    let scenario = line.scenario;
    let mut flows = flows(&scenario, &[0], 1);
    for flow in &mut flows[20..] {
        flow.times.clear();
    }
    for link in 0..7 {
        // When the last frame would start at this port without a lower frame here.
        let mut until = flows.clone();
        for flow in until.iter_mut().take(20).step_by(2) {
            flow.path.truncate(link + 1);
        }
        let arrival = simulate(&scenario, &until).into_iter().take(20).step_by(2).max().unwrap();
        flows[20 + 2 * link].times = vec![arrival - 2_968_000 - 1];
    }
    let longest = simulate(&scenario, &flows).into_iter().take(20).step_by(2).max().unwrap();
    let limit = picos(bound(&scenario, Model::Packet).streams[0].one_way.seconds().unwrap());
    assert!(longest <= limit && limit - longest <= 10, "{longest} of {limit} ps");
}

/// Frames held up by a burst come in a bunch, and the stream that meets them on a slower line waits for
/// several of one stream: its burst has grown.
#[test]
fn a_bunch_on_a_slower_line_is_within_the_bound() {
    let mut line = Line::new(&[Rate::from_gbit(1), Rate::from_mbit(100)]).cycle(Nanos::from_millis(2));
    line = line.stream_with(0, 2, 25, |stream| stream.cycle = Nanos::from_micros(25));
    for _ in 0..8 {
        line = line.stream(0, 1, 163);
    }
    let scenario = line.stream(1, 2, 3).scenario;
    let limit = picos(bound(&scenario, Model::Packet).streams[9].one_way.seconds().unwrap());
    let mut phases = [0; 20];
    let mut longest = 0;
    for micros in 0..200 {
        phases[18] = micros * 1_000_000;
        longest = longest.max(simulate(&scenario, &flows(&scenario, &phases, 12))[18]);
    }
    // More than three frames of the bunch (23.92 µs each), at most the bound.
    assert!(longest > 3 * 23_920_000 && longest <= limit, "{longest} of {limit} ps");
}

/// Windows of two classes and of the rest, with and without a gap, that overlap or not: start and length in µs.
fn windows() -> impl Strategy<Value = Vec<(u8, i64, i64)>> {
    let window =
        |class: u8| (0..100_i64, 2..100_i64).prop_map(move |(start, length)| (class, start, length.min(125 - start)));
    (window(7), window(6), window(0), prop::bool::ANY, window(7))
        .prop_map(|(a, b, c, more, d)| if more { vec![a, b, c, d] } else { vec![a, b, c] })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    /// Gates of the standard's and of Linux' kind, at every port, in any phase.
    #[test]
    fn no_frame_waits_longer_at_gates_than_its_bound(
        rates in prop::collection::vec(Just(Rate::from_gbit(1)), 1..4),
        draws in prop::collection::vec((0..8_u8, 0..8_u8, 0..164_u16, 2..6_i64, prop::sample::select(vec![0_u8, 6, 7])), 1..5),
        udp in prop::collection::vec((0..8_u8, 0..8_u8, 20..1472_u16, 1..40_u64), 0..2),
        phases in prop::collection::vec(0..250_000_000_i128, 1..12),
        windows in windows(),
        software in prop::bool::ANY,
        latency in 0..5_000_i64,
    ) {
        let mode = if software { TaprioMode::Software } else { TaprioMode::FullOffload };
        let mut scenario = build(&rates, latency, &draws, &udp, taprio(125, &windows, mode));
        let forwarder = if software { Forwarder::Linux } else { Forwarder::Hardware };
        for host in &mut scenario.hosts {
            if let HostKind::Bridge { forwarder: here, .. } = &mut host.kind {
                *here = forwarder;
            }
        }
        // A class whose gate never opens keeps its frames.
        let shut = |pcp| !windows.iter().any(|(class, _, length)| *class == pcp && *length >= 13);
        scenario.streams.retain(|stream| !shut(stream.pcp));
        scenario.traffic.retain(|traffic| !shut(traffic.pcp));
        check(&scenario, &phases);
    }

    /// The same with streams that leave when their phases say: the bounds by the phases hold, too.
    #[test]
    fn no_frame_is_later_than_the_phases_say(
        links in 1..4_usize,
        draws in prop::collection::vec((0..164_u16, 1..4_i64, 0..250_i64, prop::sample::select(vec![6_u8, 7])), 1..5),
        windows in windows(),
        software in prop::bool::ANY,
        shift in 0..125_i64,
    ) {
        let mode = if software { TaprioMode::Software } else { TaprioMode::FullOffload };
        let mut line = Line::gigabit(links).queue(taprio(125, &windows, mode));
        let shut = |pcp| !windows.iter().any(|(class, _, length)| *class == pcp && *length >= 13);
        for (variables, cycles, offset, pcp) in draws.iter().filter(|draw| !shut(draw.3)) {
            line = line.stream_with(0, links, *variables, |stream| {
                stream.cycle = Nanos::from_micros(125 * cycles);
                stream.offset = Nanos::from_micros(*offset);
                stream.pcp = *pcp;
                stream.echo = false;
            });
        }
        let mut scenario = line.scenario;
        for port in &mut scenario.ports {
            if let Queue::Taprio { schedule, .. } = &mut port.queue {
                schedule.base_time = units::Tai(shift * 1_000);
            }
        }
        for host in &mut scenario.hosts {
            if let (HostKind::Bridge { forwarder, .. }, true) = (&mut host.kind, software) {
                *forwarder = Forwarder::Linux;
            }
        }
        let mut flows = Vec::new();
        for stream in &scenario.streams {
            let cycle = i128::from(stream.cycle.0) * 1_000;
            let times = (1..24).map(|k| k * cycle + i128::from(stream.offset.0) * 1_000).collect();
            let bits = i128::from(stream.frame().physical_bits());
            flows.push(Flow { path: stream.path.clone(), pcp: stream.pcp, bits, times });
        }
        // The tests' gates start with the cycles; moved against them, the frames are moved.
        for flow in &mut flows {
            for at in &mut flow.times {
                *at -= i128::from(shift) * 1_000_000;
            }
            flow.times.retain(|at| *at >= 0);
        }
        let found = longest(&scenario, &flows);
        let report = bound(&scenario, Model::Packet);
        for (found, stream) in found.iter().zip(&report.streams) {
            for (what, value, limit) in [
                ("one way", found.delay, &stream.one_way),
                ("one way by the phases", found.way, &stream.one_way_scheduled),
                ("spacing", found.spread, &stream.spacing_error),
            ] {
                if let Some(limit) = limit.seconds() {
                    prop_assert!(value <= picos(limit) + 200, "{what}: {value} ps\n{}", report.table());
                }
            }
        }
    }
}

/// A window for one frame, and a stream that comes in its middle: what the phases say is what happens.
#[test]
fn a_window_that_fits_is_as_long_as_the_phases_say() {
    for mode in [TaprioMode::FullOffload, TaprioMode::Software] {
        let mut line = Line::gigabit(1).queue(taprio(250, &[(7, 100, 20), (0, 0, 80)], mode));
        line = line.stream_with(0, 1, 8, |stream| stream.offset = Nanos::from_micros(50));
        let report = bound(&line.scenario, Model::Packet);
        let stream = &report.streams[0];
        // 146 bytes on the line.
        assert_eq!(stream.one_way_scheduled.to_string(), "1.168 µs", "{}", report.table());
        assert_eq!(stream.spacing_error.to_string(), "0.000 µs");
        assert!(stream.one_way.seconds() > stream.one_way_scheduled.seconds());
    }
}
