//! Launch queues at random deltas, beside traffic: what is not lost is within its bounds, those by the phases too.

mod common;

use calculus::Model;
use common::bounds::figures;
use common::mqprio;
use downbeat_sim::{Options, simulate};
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};
use scenario::{Etf, Scenario, Shaper};
use units::{Nanos, Rate};

fn etf(delta: i64, offload: bool, deadline_mode: bool) -> Shaper {
    Shaper::Etf(Etf { delta: Nanos(delta), offload, deadline_mode, skip_sock_check: false })
}

/// A line with a launch queue at each end's own port, strict priority between.
fn scenario(random: &mut impl FnMut(u64, u64) -> u64) -> Scenario {
    let links = random(1, 3) as usize;
    let rates = vec![Rate::from_gbit(1); links];
    let latencies: Vec<Nanos> = (1..links).map(|_| Nanos(random(0, 5_000) as i64)).collect();
    let mut scenario = common::line(&rates, &latencies, Nanos(25), &mqprio(Shaper::None));
    let (offload, deadline_mode) = (random(0, 3) == 0, random(0, 3) == 0);
    let delta = random(0, 60_000) as i64;
    for port in [0, 2 * links - 1] {
        scenario.ports[port].queue = mqprio(etf(delta, offload, deadline_mode));
    }
    for _ in 0..random(1, 4) {
        let stream = common::stream(&mut scenario, random(1, 160) as u16);
        stream.offset = Nanos(random(0, 240_000) as i64);
        stream.echo = random(0, 1) == 0;
        stream.cycle = Nanos(250_000 * random(1, 2) as i64);
    }
    if random(0, 2) > 0 {
        common::udp(&mut scenario, Some(Rate::from_mbit(random(1, 700))), random(100, 1472) as u16);
    }
    scenario
}

#[test]
fn what_a_launch_queue_lets_through_is_within_its_bounds() {
    let mut checked = 0;
    for case in 0..400 {
        let mut source = ChaCha8Rng::seed_from_u64(case);
        let scenario = scenario(&mut |low, high| low + source.next_u64() % (high - low + 1));
        let bounds = calculus::bound(&scenario, Model::Packet);
        let outcome = simulate(&scenario, &Options { cycles: 40, seed: case, ..Options::default() }).unwrap();
        for (index, bound) in bounds.streams.iter().enumerate() {
            for (what, found, limit) in figures(&outcome, index, bound) {
                if let (Some(found), Some(limit)) = (found, limit) {
                    checked += 1;
                    assert!(
                        found <= limit,
                        "case {case}, {}: {what} {found} above {limit}\n{}",
                        bound.name,
                        bounds.table()
                    );
                }
            }
        }
    }
    println!("{checked} figures within their bounds");
    assert!(checked > 1_000, "{checked}");
}
