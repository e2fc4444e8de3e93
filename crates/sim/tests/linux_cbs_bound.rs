//! Linux' software shaper in random lines: no simulated delay exceeds its bound. And where the standard's bound would not hold.

mod common;

use calculus::Model;
use common::bounds::picos;
use common::mqprio;
use downbeat_sim::{Options, simulate};
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};
use scenario::{Cbs, Classes, Queue, Scenario, Shaper};
use units::{Nanos, Picos, Rate};

fn software(idle_slope: u64) -> Shaper {
    Shaper::Cbs(Cbs { idle_slope: Rate(idle_slope), offload: false })
}

/// PCP 6 and 7 above 4 and 5 above the rest.
fn queue(high: Shaper, low: Shaper) -> Queue {
    let mut map = [0; 16];
    map[4..6].fill(1);
    map[6..8].fill(2);
    Queue::Mqprio(Classes { map, shapers: vec![Shaper::None, low, high] })
}

/// One or two classes shaped by Linux, beside traffic of one or two sizes.
fn case(random: &mut impl FnMut(u64, u64) -> u64) -> Scenario {
    let links = random(1, 3) as usize;
    let rate = [Rate::from_mbit(100), Rate::from_gbit(1)][random(0, 1) as usize];
    let latencies: Vec<Nanos> = (1..links).map(|_| Nanos(random(0, 5_000) as i64)).collect();
    let mut scenario = common::line(&vec![rate; links], &latencies, Nanos(25), &Queue::Fifo);
    scenario.cycle = Nanos(250_000 * random(1, 4) as i64);
    let cycle = scenario.cycle;
    let together = random(0, 1) == 0;
    let mut needs = [0_u64; 2];
    for pcp in [7, 5] {
        for _ in 0..random(u64::from(pcp == 7), 4) {
            let offset = if together { 0 } else { random(0, cycle.0 as u64 - 1) };
            let variables = random(1, 60) as u16;
            let stream = common::stream(&mut scenario, variables);
            (stream.pcp, stream.offset, stream.cycle) = (pcp, Nanos(offset as i64), cycle);
            needs[usize::from(pcp == 5)] += stream.frame().physical_bits() * 1_000_000_000 / cycle.0 as u64 + 1;
        }
    }
    let most = rate.0 / 3;
    let mut slope = |need: u64| (need * random(100, 200) / 100).min(most).max(1_000_000);
    let (high, low) = (software(slope(needs[0])), slope(needs[1]));
    let low = if random(0, 2) > 0 { software(low) } else { Shaper::None };
    let queue = if random(0, 4) == 0 { queue(Shaper::None, low) } else { queue(high, low) };
    scenario.ports.iter_mut().for_each(|port| port.queue = queue.clone());
    for _ in 0..random(0, 2) {
        // Short ones too: at each end a byte may be lost.
        let payload = [18, 100, 700, 1472][random(0, 3) as usize];
        common::udp(&mut scenario, Some(Rate(rate.0 * random(1, 40) / 100)), payload);
    }
    scenario
}

#[test]
fn no_simulated_delay_of_linux_shapers_exceeds_its_bound() {
    let (mut checked, mut unbounded, mut tightest) = (0, 0, 0.0_f64);
    let cases = std::env::var("CASES").map_or(250, |cases| cases.parse().unwrap());
    for number in 0..cases {
        let mut source = ChaCha8Rng::seed_from_u64(number);
        let scenario = case(&mut |low, high| low + source.next_u64() % (high - low + 1));
        let bounds = calculus::bound(&scenario, Model::Packet);
        let outcome = simulate(&scenario, &Options { cycles: 60, seed: number, ..Options::default() }).unwrap();
        for (bound, delays) in bounds.streams.iter().zip(&outcome.network.delays) {
            match (picos(&bound.one_way), delays.forward.max) {
                (Some(limit), Some(Picos(found))) => {
                    checked += 1;
                    tightest = tightest.max(found as f64 / limit as f64);
                    assert!(
                        found <= limit,
                        "case {number}, {}: {found} ps above {limit} ps\n{}\n{:#?}",
                        bound.name,
                        bounds.table(),
                        scenario.ports[0].queue
                    );
                }
                (None, _) => unbounded += 1,
                _ => {}
            }
        }
    }
    println!(
        "{checked} delays within their bounds, {unbounded} streams without; the tightest {:.1} %",
        tightest * 100.0
    );
    assert!(checked > 500 && unbounded > 20, "{checked} {unbounded}");
    assert!(tightest > 0.5, "{tightest}");
}

/// Two long frames at once, each of which waits for one of others: Linux credits neither wait, the standard the first.
#[test]
fn the_standards_bound_does_not_hold_for_linux() {
    let scenario = |mbit, offload| {
        let shaper = Shaper::Cbs(Cbs { idle_slope: Rate::from_mbit(mbit), offload });
        let mut scenario = common::line(&[Rate::from_gbit(1)], &[], Nanos::ZERO, &mqprio(shaper));
        scenario.cycle = Nanos(1_000_000);
        for _ in 0..2 {
            common::stream(&mut scenario, 160).cycle = Nanos(1_000_000);
        }
        // Always one on the line or waiting.
        common::udp(&mut scenario, None, 1472);
        scenario
    };
    let worst = |scenario: &Scenario| {
        let outcomes =
            (0..3).map(|seed| simulate(scenario, &Options { cycles: 60, seed, ..Options::default() }).unwrap());
        outcomes.flat_map(|outcome| outcome.network.delays).filter_map(|delays| delays.forward.max).max().unwrap().0
    };
    let bound = |scenario: &Scenario| {
        let streams = calculus::bound(scenario, Model::Packet).streams;
        streams.iter().map(|stream| picos(&stream.one_way).expect("bounded")).max().unwrap()
    };
    let mut beyond = 0;
    for mbit in (150..250).step_by(4) {
        let (standard, linux) = (scenario(mbit, true), scenario(mbit, false));
        let [limit, slow] = [bound(&standard), worst(&linux)];
        assert!(worst(&standard) <= limit);
        assert!(slow <= bound(&linux));
        if slow > limit {
            beyond += 1;
            println!(
                "{mbit} Mbit/s: Linux {slow} ps, the standard at most {limit} ps, Linux at most {} ps",
                bound(&linux)
            );
        }
    }
    assert!(beyond > 0, "what this is about was not seen");
}
