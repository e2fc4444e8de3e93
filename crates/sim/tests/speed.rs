//! How fast it is: `cargo test --release --package downbeat-sim --test speed -- --ignored --nocapture`.

mod common;

use std::time::Instant;

use common::{line, mqprio, stream, udp};
use downbeat_sim::{Options, trace};
use scenario::Shaper;
use units::{Nanos, Rate};

#[test]
#[ignore = "measures time: for an idle machine and a release build"]
fn a_million_frame_hops_a_second() {
    let mut scenario = line(&[Rate::from_gbit(1); 7], &[Nanos(2_000); 6], Nanos(25), &mqprio(Shaper::None));
    for _ in 0..4 {
        stream(&mut scenario, 8).echo = true;
    }
    udp(&mut scenario, Some(Rate::from_mbit(200)), 1_000);
    let begin = Instant::now();
    let network = trace(&scenario, &Options { cycles: 40_000, ..Options::default() }, &mut |_| {}).unwrap();
    let rate = network.frame_hops as f64 / begin.elapsed().as_secs_f64();
    println!("{} frame hops, {:.2} million a second", network.frame_hops, rate / 1e6);
    assert!(rate > 1e6, "{rate}");
}
