//! FQ-CoDel in a scenario.

mod common;

use common::{line, stream, udp};
use downbeat_sim::{Options, Outcome, simulate};
use scenario::{Queue, Scenario};
use units::{Nanos, Picos, Rate};

fn run(scenario: &Scenario) -> Outcome {
    simulate(scenario, &Options { cycles: 2_000, ..Options::default() }).unwrap()
}

fn scenario(streams: usize) -> Scenario {
    let mut scenario = line(&[Rate::from_gbit(1)], &[], Nanos::ZERO, &Queue::FqCodel);
    for _ in 0..streams {
        stream(&mut scenario, 3);
    }
    scenario
}

/// 1538 bytes on the line.
const OTHER: Picos = Picos(12_304_000);

#[test]
fn a_stream_has_its_turn_before_a_flow_that_always_sends() {
    let mut scenario = scenario(1);
    udp(&mut scenario, None, 1472);
    let network = run(&scenario).network;
    let forward = &network.delays[0].forward;
    assert_eq!(forward.count, 2000);
    // One on the line, and one that waited before the stream's frame came, when nothing waited in the discipline.
    assert!(forward.max.unwrap() <= OTHER + OTHER + Picos(808_000), "{:?}", forward.max);
    assert!(network.traffic[0].received > 30_000);
}

#[test]
fn too_much_is_dropped_and_told_to_nobody() {
    let mut scenario = scenario(1);
    for _ in 0..3 {
        udp(&mut scenario, Some(Rate::from_mbit(500)), 1472);
    }
    let outcome = run(&scenario);
    let (network, traffic) = (&outcome.network, &outcome.network.traffic);
    assert!(traffic.iter().all(|flow| flow.dropped > 100), "{traffic:?}");
    // The stream has little to wait for, and is not lost.
    assert_eq!(network.delays[0].forward.count, 2000);
    assert!(network.delays[0].forward.max.unwrap() <= OTHER + OTHER + OTHER + OTHER + Picos(808_000));
    assert_eq!(outcome, run(&scenario), "the same each time");
}

#[test]
fn streams_of_one_tag_share_a_turn() {
    let mut both = scenario(12);
    let mut apart = both.clone();
    for (index, stream) in apart.streams.iter_mut().enumerate() {
        stream.vid = 8 + index as u16;
    }
    for scenario in [&mut both, &mut apart] {
        udp(scenario, None, 1472);
    }
    let worst = |scenario: &Scenario| run(scenario).network.delays.iter().filter_map(|delays| delays.forward.max).max();
    let (both, apart) = (worst(&both).unwrap(), worst(&apart).unwrap());
    println!("worst delay as one flow {both:?}, as twelve {apart:?}");
    // One turn goes on where the last cycle's ended: it may end between two of the twelve, and others come between.
    assert!(both > apart + Picos(5_000_000));
}
