//! Ours: receiver, subscriber, images, publisher, sender, as a station uses them.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use link::xdp::{XdpOptions, XdpPort, XdpReceiver, XdpSender};
use link::{Receiver, ReceiverOptions, Sender, SenderOptions, Stamps};
use pubsub::{NetworkMessageLayout, Publisher, Received, Subscriber, SubscriberConfig, Value};
use rt::clock::{now, tai_minus_utc};
use rt::ring::{Consumer, Producer, Ring};
use units::{Nanos, Tai};

use super::super::streams;
use super::Ids;
use super::drive::End;

/// As in a run.
const RING_RECORDS: usize = 1 << 16;
/// Attaching a programme restarts the port.
const RUNNING_WITHIN: Nanos = Nanos::from_millis(3_000);
const STAMP_TIMEOUT: Nanos = Nanos::from_millis(50);

/// Whether each frame is recorded and stamped by the kernel, as in a traced run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tracing {
    Off,
    On,
}

/// How frames come and go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// A packet socket with a receive ring, and a packet socket.
    Packet(Tracing),
    /// AF_XDP, both ways.
    Xdp,
}

enum Input {
    Packet(Receiver),
    Xdp(Box<XdpReceiver>),
}

enum Output {
    Packet(Sender),
    Xdp(Box<XdpSender>),
}

impl Output {
    #[inline]
    fn send(&mut self, frame: &[u8]) -> Result<(), String> {
        match self {
            Self::Packet(sender) => sender.send(frame),
            Self::Xdp(sender) => sender.send(frame),
        }
        .map_err(told)
    }
}

pub(super) struct Downbeat {
    input: Input,
    subscriber: Subscriber,
    /// What is published next.
    image: Vec<u8>,
    publisher: Publisher,
    output: Output,
    /// A frame that waits for its launch, as in the station's queue.
    launch: Vec<u8>,
    tai_minus_utc: Nanos,
    /// When the newest frame was taken.
    read_at: Tai,
    trace: Option<Trace>,
}

impl Downbeat {
    pub(super) fn open(interface: &str, ids: Ids, fields: u16, way: Way) -> Result<Self, String> {
        let layout = |(publisher, group)| NetworkMessageLayout::papers(publisher, group, fields);
        let tai_minus_utc = tai_minus_utc();
        let (input, output, trace) = match way {
            Way::Packet(tracing) => {
                let traced = tracing == Tracing::On;
                let stamps = if traced { Stamps::Software } else { Stamps::Off };
                let options = ReceiverOptions { tai_minus_utc, stamps, ..Default::default() };
                let sender = Sender::open(interface, SenderOptions { priority: 3, stamps, ..SenderOptions::default() })
                    .map_err(told)?;
                let trace = traced.then(|| Trace::start(&sender, tai_minus_utc)).transpose()?;
                let receiver = Receiver::open(interface, options).map_err(told)?;
                (Input::Packet(receiver), Output::Packet(sender), trace)
            }
            Way::Xdp => {
                let (sender, receiver) = XdpPort::open(interface, XdpOptions::default()).map_err(told)?;
                link::interface::wait_until_running(interface, RUNNING_WITHIN).map_err(told)?;
                (Input::Xdp(Box::new(receiver)), Output::Xdp(Box::new(sender)), None)
            }
        };
        let publisher = Publisher::new(&layout(ids.writes), Some(&streams::HEADER)).map_err(told)?;
        let mut image = vec![0; publisher.image().bytes()];
        publisher.image().set(&mut image, 0, 0, Value::Boolean(true));
        Ok(Self {
            input,
            subscriber: Subscriber::new(SubscriberConfig::strict(layout(ids.reads))).map_err(told)?,
            image,
            publisher,
            trace,
            output,
            launch: Vec::with_capacity(2048),
            tai_minus_utc,
            read_at: Tai(0),
        })
    }
}

fn told(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// The values of an image of the papers' message: the Boolean has the first eight bytes to itself.
#[inline]
fn values(image: &[u8]) -> &[[u8; 8]] {
    image.as_chunks().0.get(1..).unwrap_or_default()
}

impl End for Downbeat {
    #[inline]
    fn read(&mut self) -> Result<Option<u64>, String> {
        let received = match &mut self.input {
            Input::Packet(receiver) => receiver.receive(),
            Input::Xdp(receiver) => receiver.receive(),
        };
        let Some(received) = received.map_err(told)? else { return Ok(None) };
        let at = now();
        self.read_at = at;
        if !matches!(self.subscriber.receive(received.uadp, at), Received::Message { .. }) {
            return Ok(None);
        }
        let counter = values(self.subscriber.image()).last().copied().map(u64::from_le_bytes);
        if let Some(trace) = &mut self.trace {
            let tag = received.tag.map_or(u64::MAX, |tag| u64::from(tag.vid) << 8 | u64::from(tag.pcp));
            let stamp = received.stamp.map_or(0, |stamp| stamp.0 as u64);
            trace.producer.push(&[4, 0, counter.unwrap_or(0), stamp, at.0 as u64, tag, 0, 0]);
        }
        Ok(counter)
    }

    fn wait(&mut self, timeout: Nanos) -> Result<(), String> {
        let there = match &self.input {
            Input::Packet(receiver) => receiver.wait(timeout),
            Input::Xdp(receiver) => receiver.wait(timeout),
        };
        there.map(|_| ()).map_err(told)
    }

    #[inline]
    fn application(&mut self, counter: Option<u64>) {
        match counter {
            Some(counter) => {
                if let Some(values) = self.image.as_chunks_mut().0.get_mut(1..) {
                    values.fill(counter.to_le_bytes());
                }
            }
            None => {
                if let Some(newest) = self.subscriber.take() {
                    self.image.copy_from_slice(newest);
                }
            }
        }
    }

    fn publish(&mut self) -> Result<(), String> {
        let ticks = now().to_date_time(self.tai_minus_utc);
        let frame = self.publisher.publish(&self.image, ticks).map_err(told)?.frame;
        self.launch.clear();
        self.launch.extend_from_slice(frame);
        Ok(())
    }

    fn launch(&mut self) -> Result<(), String> {
        if let Some(trace) = &mut self.trace {
            trace.published(self.launch.len());
        }
        self.output.send(&self.launch)
    }

    #[inline]
    fn publish_now(&mut self) -> Result<(), String> {
        // What answers at once needs one look at the clock, for the sign of life and for the timestamp.
        let ticks = self.read_at.to_date_time(self.tai_minus_utc);
        let frame = self.publisher.publish(black_box(&self.image), ticks).map_err(told)?.frame;
        if let Some(trace) = &mut self.trace {
            trace.published(frame.len());
        }
        self.output.send(frame)
    }
}

/// The records of a traced run, and a thread that reads them and the kernel's stamps, as there is one in a run.
struct Trace {
    producer: Producer,
    handle: u64,
    stop: Arc<AtomicBool>,
    reader: Option<JoinHandle<()>>,
}

impl Trace {
    fn start(sender: &Sender, tai_minus_utc: Nanos) -> Result<Self, String> {
        let ring = Ring::create("contest", RING_RECORDS).map_err(told)?;
        let (producer, mut consumer): (Producer, Consumer) =
            (ring.producer().map_err(told)?, ring.consumer().map_err(told)?);
        let mut stamps = sender.stamps(tai_minus_utc).map_err(told)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let reader = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                // A stamp that cannot be read is one that a run would miss too.
                _ = black_box(stamps.wait(STAMP_TIMEOUT));
                while let Some(record) = consumer.pop() {
                    black_box(record);
                }
            }
        });
        Ok(Self { producer, handle: 0, stop, reader: Some(reader) })
    }

    #[inline]
    fn published(&mut self, bytes: usize) {
        self.handle += 1;
        self.producer.push(&[1, 0, self.handle, now().0 as u64, 0, bytes as u64, 0, 0]);
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // It ends within the time-out; that it panicked would have been printed.
        _ = self.reader.take().map(JoinHandle::join);
    }
}
