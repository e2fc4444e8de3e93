//! The simulated port against the real queueing discipline in the kernel laboratory, frame by frame, to the nanosecond.

mod common;

use std::fmt::Write as _;

use common::mqprio;
use downbeat_sim::{Arrival, Fate, Passage, pass};
use kernel_lab::Script;
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};
use scenario::{Queue, Shaper};
use units::{Picos, Rate};

/// FCS, preamble and gap, which the laboratory's wire adds to a frame.
const WIRE: u32 = 24;

/// Distance to the frame before, priority, bytes without FCS.
fn random(seed: u64, count: usize) -> Vec<(i64, u8, u32)> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut of = |n: usize| random.next_u32() as usize % n;
    (0..count).map(|_| ([50, 3_000, 9_000, 20_000][of(4)], of(8) as u8, [60, 146, 600, 1514][of(4)])).collect()
}

/// Compares arrivals at the far end, and gives how many frames were equal.
fn compare(name: &str, queue: &Queue, qdisc: &str, frames: &[(i64, u8, u32)]) -> Option<usize> {
    let kernel = kernel_lab::testing::kernel(name)?;
    let (mut at, mut list) = (0, String::new());
    for (distance, priority, bytes) in frames {
        at += distance;
        writeln!(list, "{at} {priority} {bytes}").unwrap();
    }
    let script = format!(
        "set -e\necho 1000 > /sys/module/veth/parameters/speed\necho {WIRE} > /sys/module/veth/parameters/wire\n\
         ip link add va numtxqueues 8 type veth peer name vb\nsysctl -qw net.ipv6.conf.all.disable_ipv6=1\n\
         ip link set va up\nip link set vb up\ntc qdisc replace dev va root handle 100: {qdisc}\npython3 ports.py\n"
    );
    let python = include_str!("lab/ports.py");
    let ended = Script::new(script).file("ports.py", python).file("arrivals", list).run(&kernel).unwrap();
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let (mut came, mut left) = (vec![None; frames.len()], vec![None; frames.len()]);
    for line in ended.stdout.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let side = if words[0] == "in" { &mut came } else { &mut left };
        side[words[1].parse::<usize>().unwrap()] = Some(words[2].parse::<i64>().unwrap());
    }
    let arrivals: Vec<Arrival> = (frames.iter().zip(&came))
        .map(|((_, priority, bytes), at)| Arrival {
            at: Picos(at.expect("each frame is stamped as it is queued") * 1000),
            priority: *priority,
            // A byte lasts 1 ns at 8 Gbit/s: 8 for each at 1 Gbit/s, and the one by which the laboratory's wire timer is late.
            bytes: (bytes + WIRE) * 8 + 1,
            launch: None,
        })
        .collect();
    let fates = pass(&Passage { queue, rate: Rate::from_gbit(8) }, &arrivals).unwrap();
    let model = fates.iter().map(|fate| if let Fate::Left { end, .. } = fate { Some(end.0) } else { None });
    let differing: Vec<_> = (model.zip(&left).enumerate())
        .filter(|(_, (model, real))| *model != real.map(|ns| ns * 1000))
        .map(|(n, (model, real))| (n, model, *real))
        .collect();
    println!("{name}: {} of {} frames equal", frames.len() - differing.len(), frames.len());
    assert!(
        differing.is_empty(),
        "{name}: frame, model in ps, kernel in ns: {:?}",
        &differing[..differing.len().min(8)]
    );
    Some(frames.len())
}

#[test]
fn mqprio_is_equal_frame_by_frame() {
    let queue = mqprio(Shaper::None);
    let classes = (0..16).map(|priority| queue.class_of(priority)).max().unwrap() + 1;
    let map: Vec<String> = (0..16).map(|priority| (classes - 1 - queue.class_of(priority)).to_string()).collect();
    let queues: Vec<String> = (0..classes).map(|tc| format!("1@{tc}")).collect();
    // Leaves that mqprio makes itself are pfifo_fast: three bands by priority, so that one class overtakes itself.
    let leaves: String =
        (1..=classes).map(|leaf| format!("\ntc qdisc replace dev va parent 100:{leaf} pfifo limit 1000")).collect();
    let qdisc = format!("mqprio num_tc {classes} map {} queues {} hw 0{leaves}", map.join(" "), queues.join(" "));
    compare("mqprio", &queue, &qdisc, &random(1, 400));
}
