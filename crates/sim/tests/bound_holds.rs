//! Random lines: no simulated delay exceeds its bound, and for plain lines the bound is reached.
//!
//! Every case has its own generator, seeded by its number: a failure names the case, `CASE=17` runs it alone,
//! `CASES=20000` runs more.

mod common;

use calculus::{Bound, Exact, Model};
use common::{cbs, host, line, link, mqprio, stream_on};
use downbeat_sim::{Options, trace};
use num_traits::ToPrimitive;
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};
use scenario::{HostId, PortId, Queue, Scenario, Shaper, Traffic, TrafficKind};
use units::{FrameSize, Nanos, Picos, Rate};

const CASES: u64 = 1_000;

struct Random(ChaCha8Rng);

impl Random {
    /// A whole number from `low` to `high`, both included.
    fn from(&mut self, low: u64, high: u64) -> u64 {
        low + self.0.next_u64() % (high - low + 1)
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.from(1, n) == 1
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.from(0, of.len() as u64 - 1) as usize]
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Discipline {
    Fifo,
    Priority,
    Shaped,
}

struct Case {
    discipline: Discipline,
    scenario: Scenario,
    cycles: u64,
    /// One class, frames of one size, all along the line.
    plain: bool,
}

fn case(number: u64) -> Case {
    let random = &mut Random(ChaCha8Rng::seed_from_u64(number));
    let discipline = [Discipline::Fifo, Discipline::Priority, Discipline::Shaped][number as usize % 3];
    let rates =
        [Rate::from_mbit(10), Rate::from_mbit(100), Rate::from_gbit(1), Rate::from_mbit(2500), Rate::from_gbit(10)];
    let links = random.from(1, 7) as usize;
    let common_rate = random.pick(&rates);
    let mixed = random.one_in(2);
    let rates: Vec<Rate> = (0..links).map(|_| if mixed { random.pick(&rates) } else { common_rate }).collect();
    let latencies: Vec<Nanos> = (1..links).map(|_| Nanos(random.from(0, 5_000) as i64)).collect();
    let slowest = rates.iter().min().unwrap().0;

    // Top-class flows, and lower ones unless there is one queue.
    let equal_size = random.one_in(2);
    let size = random.from(1, 160) as u16;
    let pick_size = |random: &mut Random| if equal_size { size } else { random.from(1, 160) as u16 };
    let top: Vec<u16> = (0..random.from(1, 6)).map(|_| pick_size(random)).collect();
    let mut low: Vec<u16> = match discipline {
        Discipline::Fifo => vec![],
        _ => (0..random.from(0, 3)).map(|_| random.from(1, 160) as u16).collect(),
    };
    // Bridges at which a flow comes in from a station of its own.
    let crossing_share = random.pick(&[0, 0, 1, 2]);
    let crossings: Vec<usize> = (1..links).filter(|_| random.from(1, 2) <= crossing_share).collect();
    let crossing = !crossings.is_empty();
    let crossing_low = discipline != Discipline::Fifo && !random.one_in(3);
    let udp = if discipline == Discipline::Fifo { random.one_in(4) } else { random.one_in(2) };
    let plain = equal_size && !crossing && !udp && discipline != Discipline::Priority && low.is_empty();

    // A cycle in which the top class needs at most 75 % of the slowest line.
    let bits = |variables: u16| FrameSize::tagged(32 + 9 * u32::from(variables)).physical_bits();
    let cross_size = random.from(1, 160) as u16;
    let together = random.one_in(2);
    if together && crossing && crossing_low && random.one_in(2) {
        // The worst for strict priority: at every port one lower frame just ahead.
        low = vec![cross_size];
    }
    let mut need_bits: u64 = top.iter().map(|&variables| bits(variables)).sum();
    if crossing && !crossing_low {
        need_bits += bits(cross_size) * crossings.len() as u64;
    }
    let shortest_ns = need_bits * 1_000_000_000 * 4 / (slowest * 3) + 1;
    let stretch = random.pick(&[100, 100, 110, 150, 400]);
    let cycle = Nanos((shortest_ns * stretch / 100).next_multiple_of(1_000) as i64);
    let need = (need_bits * 1_000_000_000).div_ceil(cycle.0 as u64);
    let most = slowest * 3 / 4;
    let idle_slope = if random.one_in(3) { need } else { random.from(need.min(most), most) }.max(need);
    let queue = match discipline {
        Discipline::Fifo => Queue::Fifo,
        Discipline::Priority => mqprio(Shaper::None),
        Discipline::Shaped if plain => Queue::Cbs(cbs(idle_slope)),
        Discipline::Shaped => mqprio(Shaper::Cbs(cbs(idle_slope))),
    };
    let mut scenario = line(&rates, &latencies, Nanos(random.from(0, 500) as i64), &queue);
    scenario.name = format!("case-{number}");
    scenario.cycle = cycle;

    let whole: Vec<usize> = (0..links).collect();
    let common_offset = random.from(0, cycle.0 as u64 - 1) as i64;
    let offset = |random: &mut Random| {
        Nanos(if together { common_offset } else { random.from(0, 2 * cycle.0 as u64 - 1) as i64 })
    };
    // Lower ones first: at one instant they are ahead.
    for &variables in &low {
        let at = offset(random);
        let stream = stream_on(&mut scenario, variables, &whole);
        (stream.pcp, stream.offset) = (0, at);
    }
    for &variables in &top {
        let at = offset(random);
        let echo = random.one_in(3);
        let launch = !random.one_in(5);
        let stream = stream_on(&mut scenario, variables, &whole);
        (stream.offset, stream.echo, stream.launch) = (at, echo, launch);
    }
    let ahead = together.then_some(common_offset);
    let pcp = if crossing_low { 0 } else { 7 };
    cross(&mut scenario, random, &crossings, (cross_size, pcp), ahead, &queue);
    if udp {
        let payload_bytes = random.from(18, 1_472) as u16;
        // In one queue what is left to the streams' 75 %, else up to half the line.
        let share = if discipline == Discipline::Fifo { random.from(1, 15) } else { random.from(1, 50) };
        scenario.traffic.push(Traffic {
            from: HostId(0),
            to: HostId(links),
            kind: TrafficKind::Udp,
            rate: Some(Rate((slowest * share / 100).max(1))),
            payload_bytes,
            pcp: 0,
            path: whole.iter().map(|link| PortId(2 * link)).collect(),
        });
    }
    Case { discipline, scenario, cycles: random.from(15, 35), plain }
}

/// At each of the bridges `crossings` a station with a flow to the next bridge's station or the end of the line. With
/// `launch`, its frames come just before the first of those launched at the other end of the line at that instant,
/// these being held up by one such frame at every port.
fn cross(
    scenario: &mut Scenario,
    random: &mut Random,
    crossings: &[usize],
    (variables, pcp): (u16, u8),
    launch: Option<i64>,
    queue: &Queue,
) {
    let Some(main) = scenario.streams.iter().find(|stream| stream.pcp == 7).cloned() else { return };
    let cross_bits = FrameSize::tagged(32 + 9 * u32::from(variables)).physical_bits();
    let held_up_first = scenario.streams.iter().any(|stream| stream.pcp == 0 && stream.variables == variables);
    // What the first frame takes to bridge `at`, held up at the ports before it.
    let way_to = |scenario: &Scenario, at: usize| -> Nanos {
        let port = |index: usize| {
            let port = main.path[index];
            let rate = scenario.port_rate(port);
            let held_up = if index == 0 { held_up_first } else { crossings.contains(&index) };
            let bits = main.frame().physical_bits();
            let sending = rate.transmission(bits) + if held_up { rate.transmission(cross_bits) } else { Picos::ZERO };
            let peer = scenario.port(port).peer;
            sending.to_nanos_floor() + scenario.links[index].propagation + scenario.bridge_latency(peer)
        };
        (0..at).map(port).sum()
    };
    let cycle = scenario.cycle.0;
    let line = main.path.len();
    for &at in crossings {
        let rate = scenario.links[at].rate;
        let from = scenario.hosts.len();
        scenario.hosts.push(host(&format!("in{at}"), 100 + at as u16, None));
        let mut way = vec![scenario.links.len(), at];
        link(scenario, from, at, rate, Nanos::ZERO, queue);
        if at + 1 < line {
            let to = scenario.hosts.len();
            scenario.hosts.push(host(&format!("out{at}"), 200 + at as u16, None));
            way.push(scenario.links.len());
            link(scenario, at + 1, to, rate, Nanos::ZERO, queue);
        }
        let offset = match launch {
            // It takes as long itself from its station into the queue of the bridge; rounded so as to be early.
            Some(launch) => {
                let own = rate.transmission(cross_bits).to_nanos_ceil() + scenario.bridge_latency(HostId(at));
                (launch + (way_to(scenario, at) - own).0).rem_euclid(cycle)
            }
            None => random.from(0, cycle as u64 - 1) as i64,
        };
        let stream = stream_on(scenario, variables, &way);
        (stream.offset, stream.pcp) = (Nanos(offset), pcp);
    }
}

fn exact(delay: Picos) -> Exact {
    Exact::new(delay.0.into(), 1_000_000_000_000_i64.into())
}

/// Sum of the ports of one direction: the bound of the way there is `one_way`, that of the way back is their sum.
fn bound_of(report: &calculus::StreamBound, back: bool) -> Option<Exact> {
    if !back {
        return report.one_way.seconds().cloned();
    }
    let ports = report.ports.iter().filter(|port| port.direction == calculus::Direction::Back);
    ports
        .map(|port| match &port.contribution {
            Bound::At(part) => Some(part.clone()),
            Bound::Unbounded(_) => None,
        })
        .sum()
}

#[test]
fn no_delay_exceeds_its_bound() {
    let variable = |name| std::env::var(name).ok().and_then(|number| number.parse().ok());
    let only: Option<u64> = variable("CASE");
    let mut worst = [Discipline::Fifo, Discipline::Priority, Discipline::Shaped].map(|it| (it, 0.0, String::new()));
    let mut worst_long = [0.0_f64; 3];
    let mut plain_worst = 0.0_f64;
    let (mut compared, mut unbounded, mut tight) = (0_u64, 0_u64, 0_u64);
    let mut violations = Vec::new();
    for number in 0..variable("CASES").unwrap_or(CASES).max(only.map_or(0, |only| only + 1)) {
        if only.is_some_and(|only| only != number) {
            continue;
        }
        let Case { discipline, scenario, cycles, plain } = case(number);
        let bounds = calculus::bound(&scenario, Model::Packet);
        let options = Options { cycles, seed: number, ..Options::default() };
        let network = trace(&scenario, &options, &mut |_| {}).unwrap();
        for ((stream, delays), bound) in scenario.streams.iter().zip(&network.delays).zip(&bounds.streams) {
            for (back, delays) in [(false, &delays.forward), (true, &delays.back)] {
                let Some(max) = delays.max else { continue };
                let Some(bound) = bound_of(bound, back) else {
                    unbounded += 1;
                    continue;
                };
                compared += 1;
                let ratio = (exact(max) / &bound).to_f64().unwrap();
                let way = if back { "back" } else { "forward" };
                let name = format!("case {number}, stream {} {way}: {} ps of at most {bound} s", stream.name, max.0);
                if exact(max) > bound {
                    violations.push(format!("{name}: ratio {ratio}"));
                }
                if plain {
                    plain_worst = plain_worst.max(ratio);
                    tight += u64::from(ratio >= 0.99);
                }
                if stream.path.len() >= 4 {
                    worst_long[discipline as usize] = worst_long[discipline as usize].max(ratio);
                }
                let worst = &mut worst[discipline as usize];
                if ratio > worst.1 {
                    *worst = (discipline, ratio, name);
                }
            }
        }
    }
    println!("{compared} delays compared, {unbounded} without a bound");
    for (discipline, ratio, name) in &worst {
        println!("{discipline:?}: worst {ratio:.6}, {name}");
    }
    println!("over 4 to 7 links: worst {worst_long:.6?}");
    println!("plain lines: worst {plain_worst:.6}, {tight} reach 0.99");
    assert!(violations.is_empty(), "{} violations:\n{}", violations.len(), violations.join("\n"));
    if only.is_none() {
        assert!(compared > 2_000);
        assert!(plain_worst >= 0.99, "the worst case is not reached: {plain_worst}");
    }
}
