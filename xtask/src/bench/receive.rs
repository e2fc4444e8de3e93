//! The receiving side: from the frame that waits in the socket to the counter that the application has read.
//!
//! The frames of a batch are sent before the clock runs. Every row has a veth pair of its own, so that no socket
//! pays for another's copy.

use std::hint::black_box;
use std::io::IoSliceMut;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use link::{ReceiveWay, Receiver, ReceiverOptions, Sender, SenderOptions, Stamps, TagUse};
use nix::sys::socket::{MsgFlags, recvmsg};
use pubsub::{Endpoint, Reception, Subscriber, SubscriberConfig, VlanTag};
use rt::clock;
use rt::ring::{Consumer, Producer, Ring};
use units::Tai;

use super::place::Pair;
use super::publish::RING_RECORDS;
use super::rounds::{Amount, BATCH, Failure, Measured, Row, WARM_UP, run, timed};
use super::{hand, streams};

/// Nothing is timed out here.
const NO_TIME: Tai = Tai(0);

/// How many veth pairs the rows need.
pub(super) const PAIRS: usize = 13;

/// Room for some batches of full frames.
const BUFFER_BYTES: usize = 1 << 20;
const FRAME_ROOM_BYTES: usize = 2048;
/// As long as the kernel's messages about tag and stamp get.
const CONTROL_BYTES: usize = 256;
/// Ethernet header of a received frame: the kernel has taken the tag out.
const HEADER_BYTES: usize = 14;
/// The kernel switches receive stamps on in the background.
const UNTIL_STAMPS: std::time::Duration = std::time::Duration::from_millis(200);

/// Measures all rows with messages of `fields` fields.
pub(super) fn measure(pairs: &[Pair; PAIRS], fields: u16, amount: Amount) -> Result<Vec<Measured>, Failure> {
    let [bare_pair, message_pair, hand_pair, link_pair, ours_pair, clock_pair, record_pair, traced_pair, ..] = pairs;
    let [.., required_pair, hand_ring_pair, ring_pair, subscriber_pair, ring_subscriber_pair] = pairs;
    let rows = vec![
        bare(bare_pair, fields)?,
        with_tag(message_pair, fields)?,
        by_hand(hand_pair, fields)?,
        without_engine(link_pair, fields)?,
        subscriber("ours_subscriber", "ours, subscriber, recv", subscriber_pair, fields, required())?,
        ours::<false>("ours_required", "ours, with application, recv", required_pair, fields, required())?,
        ours::<false>("ours", "ours, with application, recvmsg", ours_pair, fields, options())?,
        ours::<true>("ours_clock", "ours + clock", clock_pair, fields, options())?,
        traced("ours_record", "ours + clock + record", record_pair, fields, false)?,
        traced("ours_traced", "ours + clock + record + stamps", traced_pair, fields, true)?,
        by_hand_ring(hand_ring_pair, fields)?,
        subscriber("ours_ring_subscriber", "ours, ring, subscriber", ring_subscriber_pair, fields, ring())?,
        ours::<false>("ours_ring", "ours, with application, ring", ring_pair, fields, ring())?,
    ];
    std::thread::sleep(UNTIL_STAMPS);
    run(rows, amount, BATCH)
}

/// Sends what a row shall receive.
struct Feed {
    source: Endpoint,
    sender: Sender,
    counter: u64,
}

impl Feed {
    fn new(pair: &Pair, fields: u16) -> Result<Self, Failure> {
        let sender = Sender::open(&pair.near, SenderOptions::default())?;
        Ok(Self { source: streams::source(fields)?, sender, counter: 0 })
    }

    /// Sends one batch; a veth pair has delivered a frame when the call is back.
    fn batch(&mut self) -> Result<(), Failure> {
        for _ in 0..WARM_UP + BATCH {
            self.counter += 1;
            let cycle = self.counter as i64;
            self.source.application(cycle);
            let outgoing = self.source.publish(streams::ticks(cycle)).ok_or("nothing to publish")?;
            self.sender.send(outgoing.frame)?;
        }
        Ok(())
    }

    /// Whether the last message that was received is the last that was sent.
    fn check(&self, counter: Option<u64>) -> Result<(), Failure> {
        if counter == Some(self.counter) {
            return Ok(());
        }
        Err(format!("counter {} was sent last, {counter:?} received last", self.counter).into())
    }
}

fn bare(pair: &Pair, fields: u16) -> Result<Row<'static>, Failure> {
    let (mut feed, socket) = (Feed::new(pair, fields)?, bare_socket(pair)?);
    let mut reader = hand::Reader::new(&streams::frame(fields)?, fields);
    let (mut buffer, mut bytes) = ([0; FRAME_ROOM_BYTES], 0);
    Ok(Row::new("bare", "bare recv", move || {
        feed.batch()?;
        let took = timed(|| {
            bytes = link::bare::recv(socket.as_fd(), &mut buffer)?;
            black_box(&buffer);
            Ok(())
        })?;
        feed.check(last(&mut reader, buffer.get(HEADER_BYTES..bytes)))?;
        Ok(took)
    }))
}

/// What the kernel takes for telling the tag as well: the same call as ours, and nothing made of it.
fn with_tag(pair: &Pair, fields: u16) -> Result<Row<'static>, Failure> {
    let mut feed = Feed::new(pair, fields)?;
    let receiver = Receiver::open(&pair.far, options())?;
    let mut reader = hand::Reader::new(&streams::frame(fields)?, fields);
    let (mut buffer, mut bytes) = ([0; FRAME_ROOM_BYTES], 0);
    let mut control = Vec::with_capacity(CONTROL_BYTES);
    Ok(Row::new("recvmsg", "bare recvmsg, with the tag", move || {
        feed.batch()?;
        let took = timed(|| {
            let mut parts = [IoSliceMut::new(&mut buffer)];
            let socket = receiver.as_fd().as_raw_fd();
            bytes = recvmsg::<()>(socket, &mut parts, Some(&mut control), MsgFlags::MSG_DONTWAIT)?.bytes;
            black_box(&buffer);
            Ok(())
        })?;
        feed.check(last(&mut reader, buffer.get(HEADER_BYTES..bytes)))?;
        Ok(took)
    }))
}

fn by_hand(pair: &Pair, fields: u16) -> Result<Row<'static>, Failure> {
    let (mut feed, socket) = (Feed::new(pair, fields)?, bare_socket(pair)?);
    let mut reader = hand::Reader::new(&streams::frame(fields)?, fields);
    let mut buffer = [0; FRAME_ROOM_BYTES];
    Ok(Row::new("hand", "bare recv, hand-written offsets", move || {
        feed.batch()?;
        let mut seen = None;
        let took = timed(|| {
            let bytes = link::bare::recv(socket.as_fd(), &mut buffer)?;
            seen = last(&mut reader, buffer.get(HEADER_BYTES..bytes));
            Ok(())
        })?;
        feed.check(seen)?;
        Ok(took)
    }))
}

/// How much of ours is the socket's part.
fn without_engine(pair: &Pair, fields: u16) -> Result<Row<'static>, Failure> {
    let mut feed = Feed::new(pair, fields)?;
    let mut receiver = Receiver::open(&pair.far, options())?;
    Ok(Row::new("ours_link", "ours, socket and tag only", move || {
        feed.batch()?;
        let took = timed(|| {
            let received = receiver.receive()?.ok_or("a frame is missing")?;
            black_box((received.uadp, received.tag));
            Ok(())
        })?;
        if receiver.receive()?.is_some() { Err("one frame too many".into()) } else { Ok(took) }
    }))
}

/// With a receive ring, as little as can be.
fn by_hand_ring(pair: &Pair, fields: u16) -> Result<Row<'static>, Failure> {
    let mut feed = Feed::new(pair, fields)?;
    let mut ring = link::bare::Ring::open(&pair.far, BUFFER_BYTES)?;
    let mut reader = hand::Reader::new(&streams::frame(fields)?, fields);
    Ok(Row::new("hand_ring", "bare ring, hand-written offsets", move || {
        feed.batch()?;
        let mut seen = None;
        let took = timed(|| {
            seen = last(&mut reader, ring.frame().ok_or("a frame is missing")?.get(HEADER_BYTES..));
            ring.release();
            Ok(())
        })?;
        feed.check(seen)?;
        Ok(took)
    }))
}

/// Receive, check and copy out without an application: what the hand-written rows do.
fn subscriber(
    key: &'static str,
    name: &'static str,
    pair: &Pair,
    fields: u16,
    options: ReceiverOptions<'_>,
) -> Result<Row<'static>, Failure> {
    let mut feed = Feed::new(pair, fields)?;
    let mut receiver = Receiver::open(&pair.far, options)?;
    let mut subscriber = Subscriber::new(SubscriberConfig::strict(streams::layout(fields)))?;
    let last = subscriber.image_layout().fields(0).last().ok_or("no variable")?.offset;
    Ok(Row::new(key, name, move || {
        feed.batch()?;
        let mut seen = None;
        let took = timed(|| {
            let received = receiver.receive()?.ok_or("a frame is missing")?;
            black_box(received.tag);
            subscriber.receive(received.uadp, NO_TIME);
            let image = black_box(subscriber.take().ok_or("no news")?);
            seen = image.get(last..).and_then(<[u8]>::first_chunk).copied().map(u64::from_le_bytes);
            Ok(())
        })?;
        feed.check(seen)?;
        Ok(took)
    }))
}

/// `CLOCKED`: with a reading of the clock, which a record needs, and which is not the record.
fn ours<const CLOCKED: bool>(
    key: &'static str,
    name: &'static str,
    pair: &Pair,
    fields: u16,
    options: ReceiverOptions<'_>,
) -> Result<Row<'static>, Failure> {
    let (mut feed, mut sink) = (Feed::new(pair, fields)?, streams::sink(fields)?);
    let mut receiver = Receiver::open(&pair.far, options)?;
    let mut cycle = 0;
    Ok(Row::new(key, name, move || {
        feed.batch()?;
        let mut seen = None;
        let took = timed(|| {
            cycle += 1;
            let received = receiver.receive()?.ok_or("a frame is missing")?;
            black_box(received.tag);
            black_box(sink.receive(received.uadp));
            if CLOCKED {
                black_box(clock::now());
            }
            seen = sink.application(cycle).read;
            Ok(())
        })?;
        feed.check(seen)?;
        Ok(took)
    }))
}

/// What a cycle of a traced run does, with the record of the arrival: one clock reading and one cache line.
fn traced(
    key: &'static str,
    name: &'static str,
    pair: &Pair,
    fields: u16,
    stamps: bool,
) -> Result<Row<'static>, Failure> {
    let (mut feed, mut sink) = (Feed::new(pair, fields)?, streams::sink(fields)?);
    let tai_minus_utc = clock::tai_minus_utc();
    let kind = if stamps { Stamps::Software } else { Stamps::Off };
    let mut receiver = Receiver::open(&pair.far, ReceiverOptions { stamps: kind, tai_minus_utc, ..options() })?;
    let ring = Ring::create("bench", RING_RECORDS)?;
    let (mut producer, mut consumer): (Producer, Consumer) = (ring.producer()?, ring.consumer()?);
    let mut cycle = 0;
    Ok(Row::new(key, name, move || {
        feed.batch()?;
        let mut seen = None;
        let took = timed(|| {
            cycle += 1;
            let received = receiver.receive()?.ok_or("a frame is missing")?;
            if received.stamp.is_some() != stamps {
                return Err(format!("stamp {:?}, asked for: {stamps}", received.stamp).into());
            }
            let tag = received.tag.map_or(u64::MAX, |tag| u64::from(tag.vid) << 8 | u64::from(tag.pcp));
            let stamp = received.stamp.map_or(0, |stamp| stamp.0 as u64);
            let Reception::Message { counter, superseded } = sink.receive(received.uadp) else {
                return Err("a message of another kind".into());
            };
            let decoded = clock::now().0 as u64;
            producer.push(&[2, cycle as u64, counter, stamp, decoded, tag, superseded.unwrap_or(0), 0]);
            seen = sink.application(cycle).read;
            Ok(())
        })?;
        feed.check(seen)?;
        let records = std::iter::from_fn(|| consumer.pop()).count();
        if records == (WARM_UP + BATCH) as usize { Ok(took) } else { Err("records are missing in the ring".into()) }
    }))
}

/// By system calls, as the rows they are compared with.
fn options() -> ReceiverOptions<'static> {
    ReceiverOptions { way: ReceiveWay::Packet, buffer_bytes: BUFFER_BYTES, ..Default::default() }
}

/// The same call as the hand-written loop: the kernel drops other tags, so that nobody has to ask for it.
fn required() -> ReceiverOptions<'static> {
    let tag = streams::HEADER.vlan.map_or(TagUse::Report, |VlanTag { vid, pcp, .. }| TagUse::Require { vid, pcp });
    ReceiverOptions { tag, ..options() }
}

fn ring() -> ReceiverOptions<'static> {
    ReceiverOptions { way: ReceiveWay::Ring, ..options() }
}

fn bare_socket(pair: &Pair) -> Result<OwnedFd, Failure> {
    Ok(link::bare::receiver(&pair.far, BUFFER_BYTES)?)
}

#[inline]
fn last(reader: &mut hand::Reader, uadp: Option<&[u8]>) -> Option<u64> {
    black_box(reader.take_apart(uadp?)?).last().copied()
}
