//! What a frame costs over a packet socket and over AF_XDP, on a veth pair in a namespace of its own (needs root):
//!
//!     cargo run --release -p downbeat-link --example xdp_cost [ROUNDS]
//!
//! All ways take turns in every round, so that whatever else the machine does meets all of them; the ratio is that of
//! the same round. One thread sends and receives: on a veth pair the kernel's work on arrival is done within the send.

#[path = "../tests/common/mod.rs"]
mod common;

use std::hint::{black_box, spin_loop};
use std::time::{Duration, Instant};

use common::{PORT_A, PORT_B, in_namespace, wait_for_ports};
use downbeat_link::xdp::{XdpMode, XdpOptions, XdpPort, XdpReceiver, XdpSender};
use downbeat_link::{Receiver, ReceiverOptions, Sender, SenderOptions};

const FRAMES: u32 = 2_000;
const BATCH: u32 = 16;
const WAYS: [Way; 3] = [Way::Packet, Way::Xdp(XdpMode::Generic), Way::Xdp(XdpMode::Driver)];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Packet,
    Xdp(XdpMode),
}

enum Out {
    Packet(Sender),
    Xdp(Box<XdpSender>),
}

impl Out {
    fn open(way: Way) -> Self {
        match way {
            Way::Packet => Self::Packet(Sender::open(PORT_A, SenderOptions::default()).unwrap()),
            Way::Xdp(mode) => Self::Xdp(Box::new(port(PORT_A, mode).0)),
        }
    }

    fn send(&mut self, frame: &[u8]) {
        match self {
            Self::Packet(sender) => sender.send(frame),
            Self::Xdp(sender) => sender.send(frame),
        }
        .unwrap();
    }
}

enum In {
    Packet(Box<Receiver>),
    Xdp(Box<XdpReceiver>),
}

impl In {
    fn open(way: Way) -> Self {
        match way {
            Way::Packet => Self::Packet(Box::new(Receiver::open(PORT_B, ReceiverOptions::default()).unwrap())),
            Way::Xdp(mode) => Self::Xdp(Box::new(port(PORT_B, mode).1)),
        }
    }

    /// Looks once; whether a frame was there.
    fn look(&mut self) -> bool {
        match self {
            Self::Packet(receiver) => black_box(receiver.receive().unwrap()).is_some(),
            Self::Xdp(receiver) => black_box(receiver.receive().unwrap()).is_some(),
        }
    }

    fn take(&mut self, frames: u32) {
        let mut left = frames;
        while left > 0 {
            left -= u32::from(self.look());
        }
    }
}

fn port(interface: &str, mode: XdpMode) -> (XdpSender, XdpReceiver) {
    XdpPort::open(interface, XdpOptions { mode, ..XdpOptions::default() }).unwrap()
}

/// Nanoseconds a frame for: send, receive, look in vain, through both ends. Of each the median, as a pause of the
/// machine falls into few batches.
fn measure(way: Way, frame: &[u8]) -> [f64; 4] {
    let (mut out, mut arrivals) = (Out::open(way), In::open(way));
    wait_for_ports();
    for _ in 0..200 {
        out.send(frame);
        arrivals.take(1);
    }
    let mut spent = [const { Vec::new() }; 4];
    let mut note = |what: usize, began: Instant, frames: u32| {
        spent[what].push(began.elapsed().as_nanos() as f64 / f64::from(frames));
    };
    for _ in 0..FRAMES / BATCH {
        let began = Instant::now();
        for _ in 0..BATCH {
            out.send(frame);
        }
        note(0, began, BATCH);
        // Until all are there for certain.
        let arrived = Instant::now();
        while arrived.elapsed() < Duration::from_micros(50) {
            spin_loop();
        }
        let began = Instant::now();
        arrivals.take(BATCH);
        note(1, began, BATCH);
        let began = Instant::now();
        for _ in 0..BATCH {
            assert!(!arrivals.look());
        }
        note(2, began, BATCH);
    }
    for _ in 0..FRAMES {
        let began = Instant::now();
        out.send(frame);
        arrivals.take(1);
        note(3, began, 1);
    }
    spent.map(|batches| quartiles(batches)[1])
}

/// Lower quartile, median and upper quartile.
fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| values[(values.len() - 1) * quarter / 4])
}

fn compare(bytes: usize, rounds: usize) {
    let mut frame = vec![0; bytes];
    frame[..6].copy_from_slice(&[0x01, 0x00, 0x5E, 0x7F, 0x00, 0x01]);
    frame[12..18].copy_from_slice(&[0x81, 0x00, 0xEB, 0xB8, 0xB6, 0x2C]);
    let found: Vec<[[f64; 4]; 3]> = (0..rounds).map(|_| WAYS.map(|way| measure(way, &frame))).collect();
    println!(
        "\n{bytes} bytes, {rounds} rounds of {FRAMES} frames; ns a frame, the round's median: median (quartiles) of the rounds"
    );
    for (column, what) in ["send", "receive", "look in vain", "through"].into_iter().enumerate() {
        for (row, way) in WAYS.iter().enumerate() {
            let [low, median, high] = quartiles(found.iter().map(|round| round[row][column]).collect());
            print!("{what:<13} {:<14} {median:>7.0} ({low:.0} … {high:.0})", format!("{way:?}"));
            if row > 0 {
                let ratios = found.iter().map(|round| round[row][column] / round[0][column]).collect();
                let [low, median, high] = quartiles(ratios);
                print!("   × {median:.2} of the packet socket ({low:.2} … {high:.2})");
            }
            println!();
        }
    }
}

fn main() {
    let rounds =
        std::env::args().nth(1).and_then(|rounds| rounds.parse().ok()).filter(|rounds| *rounds > 0).unwrap_or(41);
    in_namespace(|| {
        println!("{}", port(PORT_B, XdpMode::Generic).1.how());
        println!("{}", port(PORT_B, XdpMode::Driver).1.how());
        for bytes in [77, 1518] {
            compare(bytes, rounds);
        }
    });
}
