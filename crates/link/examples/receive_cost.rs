//! What receiving a frame costs, way by way: `cargo run --release -p downbeat-link --example receive_cost [-- copy]`.
//!
//! The frames of a batch are in the socket before the clock runs. The ways take turns batch by batch, each on a veth
//! pair of its own; with `copy` each frame is also copied out, as a reader of values would. A block's value is the
//! median of its batches. Printed are the median of the blocks in nanoseconds a frame, and its ratio to both bare ways,
//! with the range of nine blocks in ten. Needs root.

use std::hint::black_box;
use std::os::fd::AsFd;
use std::time::Instant;

use downbeat_link::{ReceiveWay, Receiver, ReceiverOptions, Sender, SenderOptions, TagUse, bare, interface};
use units::Nanos;

const NAMES: [&str; 6] = ["bare recv", "bare ring", "Packet, Report", "Packet, Ignore", "Ring, Report", "Ring, Ignore"];
const BUFFER_BYTES: usize = 1 << 18;
const WARM_UP: usize = 8;
const BATCH: usize = 64;
const BATCHES: usize = 40;
const BLOCKS: usize = 41;

/// Takes as many frames as asked for, one after another.
type Take = Box<dyn FnMut(usize, &mut [u8; 2048], bool)>;

#[inline(always)]
fn use_up(frame: &[u8], image: &mut [u8; 2048], copy: bool) {
    if copy {
        image[..frame.len()].copy_from_slice(frame);
    }
    black_box((frame, image));
}

fn row(number: usize, port: &str) -> Take {
    let tag = if number.is_multiple_of(2) { TagUse::Report } else { TagUse::Ignore };
    let way = if number < 4 { ReceiveWay::Packet } else { ReceiveWay::Ring };
    let options = ReceiverOptions { way, tag, buffer_bytes: BUFFER_BYTES, ..Default::default() };
    match number {
        0 => {
            let (socket, mut buffer) = (bare::receiver(port, BUFFER_BYTES).unwrap(), [0; 2048]);
            Box::new(move |frames, image, copy| {
                for _ in 0..frames {
                    let bytes = bare::recv(socket.as_fd(), &mut buffer).unwrap();
                    use_up(&buffer[..bytes], image, copy);
                }
            })
        }
        1 => {
            let mut ring = bare::Ring::open(port, BUFFER_BYTES).unwrap();
            Box::new(move |frames, image, copy| {
                for _ in 0..frames {
                    use_up(ring.frame().unwrap(), image, copy);
                    ring.release();
                }
            })
        }
        _ => {
            let mut receiver = Receiver::open(port, options).unwrap();
            Box::new(move |frames, image, copy| {
                for _ in 0..frames {
                    let received = receiver.receive().unwrap().unwrap();
                    black_box(received.tag);
                    use_up(received.uadp, image, copy);
                }
            })
        }
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let copy = std::env::args().any(|argument| argument == "copy");
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).expect("a network namespace: run this as root");
    let mut rows: Vec<(Sender, Take)> = (0..NAMES.len())
        .map(|number| {
            let (near, far) = (format!("near{number}"), format!("far{number}"));
            let ip = |arguments: &str| std::process::Command::new("ip").args(arguments.split(' ')).status().unwrap();
            assert!(ip(&format!("link add {near} type veth peer name {far}")).success());
            for end in [&near, &far] {
                assert!(ip(&format!("link set {end} addrgenmode none up")).success());
            }
            assert!(interface::wait_until_running(&near, Nanos::from_millis(3000)).unwrap());
            (Sender::open(&near, SenderOptions::default()).unwrap(), row(number, &far))
        })
        .collect();
    for uadp_bytes in [59, 113, 1481] {
        let mut frame = vec![0xFF; 18 + uadp_bytes];
        frame[12..18].copy_from_slice(&[0x81, 0x00, 0xEB, 0xB8, 0xB6, 0x2C]);
        let (mut image, mut blocks) = ([0; 2048], vec![Vec::new(); NAMES.len()]);
        for block in 0..=BLOCKS {
            let mut batches = vec![Vec::new(); NAMES.len()];
            for turn in 0..BATCHES * NAMES.len() {
                // Each round begins one further, and every second one runs backwards.
                let (round, place) = (turn / NAMES.len() + block, turn % NAMES.len());
                let number =
                    (if round.is_multiple_of(2) { place } else { NAMES.len() - 1 - place } + round) % NAMES.len();
                let (sender, take) = &mut rows[number];
                (0..WARM_UP + BATCH).for_each(|_| sender.send(&frame).unwrap());
                take(WARM_UP, &mut image, copy);
                let began = Instant::now();
                take(BATCH, &mut image, copy);
                batches[number].push(began.elapsed().as_nanos() as f64 / BATCH as f64);
            }
            // The first block only warms up.
            if block > 0 {
                blocks.iter_mut().zip(&mut batches).for_each(|(blocks, batches)| blocks.push(median(batches)));
            }
        }
        println!("{uadp_bytes} bytes of UADP, {BLOCKS} blocks, {BATCHES} batches of {BATCH} frames each");
        for (name, values) in NAMES.iter().zip(&blocks) {
            let ratio = |to: usize| {
                let mut ratios: Vec<_> = values.iter().zip(&blocks[to]).map(|(ours, bare)| ours / bare).collect();
                let middle = median(&mut ratios);
                format!("{middle:.3} [{:.3} … {:.3}]", ratios[BLOCKS / 20], ratios[BLOCKS - 1 - BLOCKS / 20])
            };
            println!(
                "  {name:15} {:8.1} ns   to bare recv {}   to bare ring {}",
                median(&mut values.clone()),
                ratio(0),
                ratio(1)
            );
        }
    }
}
