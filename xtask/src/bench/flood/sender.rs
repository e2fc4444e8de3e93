//! A stranger in a namespace of its own, with frames at a rate.

use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::bench::rounds::Failure;

/// Frames are sent in bursts, one in so long.
const BURST: Duration = Duration::from_millis(1);

type Order = (Option<u32>, Duration);

/// The thread that sends; it ends with its value.
pub(super) struct Sender {
    orders: Option<SyncSender<Order>>,
    sent: Receiver<u64>,
    thread: Option<JoinHandle<()>>,
}

impl Sender {
    /// Starts it in a network namespace, whose only interface is eth0.
    pub(super) fn start(namespace: &str, frame: Vec<u8>) -> Result<Self, Failure> {
        let path = PathBuf::from("/run/netns").join(namespace);
        let (orders, ordered) = mpsc::sync_channel::<Order>(1);
        let (opened, is_open) = mpsc::channel::<Result<(), String>>();
        let (told, sent) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let open = || -> Result<link::Sender, String> {
                rt::process::enter_network_namespace(&path).map_err(|error| format!("{}: {error}", path.display()))?;
                let options = link::SenderOptions::default();
                link::Sender::open("eth0", options).map_err(|error| error.to_string())
            };
            match open() {
                Ok(sender) => {
                    _ = opened.send(Ok(()));
                    for (rate, lasting) in ordered {
                        _ = told.send(send(&sender, &frame, rate, lasting));
                    }
                }
                Err(error) => _ = opened.send(Err(error)),
            }
        });
        is_open.recv()??;
        Ok(Self { orders: Some(orders), sent, thread: Some(thread) })
    }

    /// Sends for so long, at most `rate` frames a second; tells how many left.
    pub(super) fn send(&self, rate: Option<u32>, lasting: Duration) -> Result<u64, Failure> {
        self.orders.as_ref().ok_or("the sender has ended")?.send((rate, lasting))?;
        Ok(self.sent.recv()?)
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}

fn send(sender: &link::Sender, frame: &[u8], rate: Option<u32>, lasting: Duration) -> u64 {
    let began = Instant::now();
    let (mut sent, mut tried) = (0, 0);
    while began.elapsed() < lasting {
        // What is due by now, so that a late burst is a longer one.
        let due = rate.map_or(u64::MAX, |rate| (f64::from(rate) * (began.elapsed() + BURST).as_secs_f64()) as u64);
        while tried < due && began.elapsed() < lasting {
            tried += 1;
            sent += u64::from(sender.send(frame).is_ok());
        }
        std::thread::sleep(BURST);
    }
    sent
}
