//! FQ-CoDel in random lines: no simulated delay exceeds its bound.

mod common;

use calculus::Model;
use common::bounds::picos;
use common::mqprio;
use downbeat_sim::{Options, simulate};
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};
use scenario::{Queue, Scenario, Shaper};
use units::{Nanos, Rate};

/// Streams of one tag or of several, and datagrams, over FQ-CoDel and other ports.
fn case(random: &mut impl FnMut(u64, u64) -> u64) -> Scenario {
    let links = random(1, 4) as usize;
    let rate = [Rate::from_mbit(100), Rate::from_gbit(1)][random(0, 1) as usize];
    let latencies: Vec<Nanos> = (1..links).map(|_| Nanos(random(0, 5_000) as i64)).collect();
    let mut scenario = common::line(&vec![rate; links], &latencies, Nanos(25), &Queue::FqCodel);
    scenario.cycle = Nanos(500_000);
    let together = random(0, 1) == 0;
    for _ in 0..random(1, 8) {
        let (variables, offset) = (random(1, 160) as u16, random(0, 499_999) as i64);
        let stream = common::stream(&mut scenario, variables);
        (stream.cycle, stream.vid) = (Nanos(500_000), 8 + random(0, 3) as u16);
        stream.offset = Nanos(if together { 0 } else { offset });
    }
    for _ in 0..random(0, 4) {
        let payload = random(18, 1472) as u16;
        common::udp(&mut scenario, Some(Rate(rate.0 * random(1, 25) / 100)), payload);
    }
    for port in &mut scenario.ports {
        if random(0, 3) == 0 {
            port.queue = [Queue::Fifo, mqprio(Shaper::None)][random(0, 1) as usize].clone();
        }
    }
    scenario
}

#[test]
fn no_simulated_delay_exceeds_its_bound() {
    let (mut checked, mut tightest) = (0, 0.0_f64);
    for number in 0..300 {
        let mut source = ChaCha8Rng::seed_from_u64(number);
        let scenario = case(&mut |low, high| low + source.next_u64() % (high - low + 1));
        let bounds = calculus::bound(&scenario, Model::Packet);
        let outcome = simulate(&scenario, &Options { cycles: 60, seed: number, ..Options::default() }).unwrap();
        for (bound, delays) in bounds.streams.iter().zip(&outcome.network.delays) {
            if let (Some(limit), Some(found)) = (picos(&bound.one_way), delays.forward.max) {
                checked += 1;
                tightest = tightest.max(found.0 as f64 / limit as f64);
                assert!(
                    found.0 <= limit,
                    "case {number}, {}: {found:?} above {limit} ps\n{}",
                    bound.name,
                    bounds.table()
                );
            }
        }
    }
    println!("{checked} delays within their bounds, the tightest {:.1} %", tightest * 100.0);
    assert!(checked > 500, "{checked}");
    assert!(tightest > 0.8, "{tightest}");
}

#[test]
fn without_a_limit_for_one_flow_there_is_none_for_any() {
    let mut scenario = common::line(&[Rate::from_gbit(1)], &[], Nanos::ZERO, &Queue::FqCodel);
    common::stream(&mut scenario, 3);
    common::udp(&mut scenario, None, 1472);
    let bounds = calculus::bound(&scenario, Model::Packet);
    let reason = bounds.streams[0].one_way.reason().unwrap();
    assert!(reason.contains("a hash that is new at each boot: UDP traffic n0 → n1 has no rate"), "{reason}");
    assert!(
        bounds.streams[0].certificate.iter().any(|line| line.contains(reason)),
        "{:?}",
        bounds.streams[0].certificate
    );
}
