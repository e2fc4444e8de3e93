//! What receiving a frame costs, way by way: `cargo run --release -p downbeat-link --example receive_cost`, as root.
//!
//! Ways take turns, each on a veth pair of its own: 64 frames are there before the clock runs, and each is copied out.
//! A block's value is the median of 40 turns, a row's that of 41 blocks; ratios with the range of nine blocks in ten.

use std::{hint::black_box, os::fd::AsFd, process::Command, time::Instant};

use downbeat_link::{ReceiveWay, Receiver, ReceiverOptions, Sender, SenderOptions, TagUse, bare, interface};

const NAMES: [&str; 6] = ["bare recv", "bare ring", "Packet, Report", "Packet, Ignore", "Ring, Report", "Ring, Ignore"];
const BUFFER_BYTES: usize = 1 << 18;
const FRAMES: usize = 64;
const ORDER: [usize; 12] = [0, 1, 2, 3, 4, 5, 5, 4, 3, 2, 1, 0];

fn row(number: usize, port: &str) -> Box<dyn FnMut()> {
    let (mut image, mut buffer) = ([0; 2048], [0; 2048]);
    let mut use_up = move |frame: &[u8]| {
        image[..frame.len()].copy_from_slice(frame);
        black_box(&image);
    };
    if number == 0 {
        let socket = bare::receiver(port, BUFFER_BYTES).unwrap();
        let mut take = move || bare::recv(socket.as_fd(), &mut buffer).map(|bytes| use_up(&buffer[..bytes])).unwrap();
        return Box::new(move || (0..FRAMES).for_each(|_| take()));
    }
    if number == 1 {
        let mut ring = bare::Ring::open(port, BUFFER_BYTES).unwrap();
        let mut take = move || (use_up(ring.frame().unwrap()), ring.release());
        return Box::new(move || (0..FRAMES).for_each(|_| _ = take()));
    }
    let tag = if number.is_multiple_of(2) { TagUse::Report } else { TagUse::Ignore };
    let way = if number < 4 { ReceiveWay::Packet } else { ReceiveWay::Ring };
    let options = ReceiverOptions { way, tag, buffer_bytes: BUFFER_BYTES, ..Default::default() };
    let mut receiver = Receiver::open(port, options).unwrap();
    let mut take = move || receiver.receive().unwrap().map(|found| (black_box(found.tag), use_up(found.uadp))).unwrap();
    Box::new(move || (0..FRAMES).for_each(|_| _ = take()))
}

fn quantile(mut values: Vec<f64>, part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[(part * (values.len() - 1) as f64) as usize]
}

fn main() {
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).expect("a network namespace: run this as root");
    let mut rows = Vec::new();
    for number in 0..6 {
        let (near, far) = (format!("near{number}"), format!("far{number}"));
        for arguments in [format!("link add {near} up type veth peer {far}"), format!("link set {far} up")] {
            assert!(Command::new("ip").args(arguments.split(' ')).status().unwrap().success());
        }
        assert!(interface::wait_until_running(&near, units::Nanos::from_millis(3000)).unwrap());
        rows.push((Sender::open(&near, SenderOptions::default()).unwrap(), row(number, &far)));
    }
    for bytes in [59, 113, 1481] {
        let frame = [&[0xFF; 12][..], &[0x81, 0x00, 0xEB, 0xB8, 0xB6, 0x2C], &vec![1; bytes]].concat();
        let mut blocks = vec![Vec::new(); 6];
        for block in 0..=41 {
            let mut turns = vec![Vec::new(); 6];
            for number in ORDER.repeat(20) {
                (0..FRAMES).for_each(|_| rows[number].0.send(&frame).unwrap());
                let began = Instant::now();
                rows[number].1();
                turns[number].push(began.elapsed().as_nanos() as f64 / FRAMES as f64);
            }
            for (blocks, turns) in blocks.iter_mut().zip(turns).filter(|_| block > 0) {
                blocks.push(quantile(turns, 0.5));
            }
        }
        println!("{bytes} bytes of UADP: ns a frame, ratio to bare recv, ratio to bare ring");
        for (name, values) in NAMES.iter().zip(&blocks) {
            let ratio = |bare: usize| {
                let ratios = values.iter().zip(&blocks[bare]).map(|(ours, bare)| ours / bare);
                let [low, middle, high] = [0.05, 0.5, 0.95].map(|part| quantile(ratios.clone().collect(), part));
                format!("{middle:.3} [{low:.3} … {high:.3}]")
            };
            println!("  {name:15}{:7.1}   {}   {}", quantile(values.clone(), 0.5), ratio(0), ratio(1));
        }
    }
}
