//! The sending side: from the counter to the frame handed to the kernel.
//!
//! Nobody receives at the other end of the veth pair, so that the kernel's part is as small as it gets and ours
//! weighs most. That part includes the receiving side up to where the frame is thrown away: a veth pair does it
//! within the call.

use std::hint::black_box;
use std::os::fd::AsFd;

use link::{Departure, Sender, SenderOptions, StampReader, Stamps, TxStamp};
use pubsub::{Publisher, Value};
use rt::clock;
use rt::ring::{Consumer, Producer, Ring};
use units::Nanos;

use super::place::{Pair, frames_received};
use super::rounds::{Amount, BATCH, Failure, Measured, Row, WARM_UP, run, timed};
use super::{hand, streams};

/// As in a run: a record goes to a line that has left the caches.
pub(super) const RING_RECORDS: usize = 1 << 16;

const STAMP_TIMEOUT: Nanos = Nanos::from_millis(1_000);

/// Measures all rows with messages of `fields` fields.
pub(super) fn measure(pair: &Pair, fields: u16, amount: Amount) -> Result<Vec<Measured>, Failure> {
    let sender = Sender::open(&pair.near, SenderOptions { priority: 3, ..SenderOptions::default() })?;
    let received_before = frames_received(&pair.far)?;
    let bare = bare(&sender, fields)?;
    let by_hand = by_hand(&sender, fields)?;
    let by_hand_values = by_hand_values(&sender, fields)?;
    let publisher = publisher(&sender, fields)?;
    let clocked = ours::<true>(&sender, fields)?;
    let ours = ours::<false>(&sender, fields)?;
    let recorded = recorded(&sender, fields)?;
    let traced = traced(pair, fields)?;
    let rows = vec![bare, by_hand, by_hand_values, publisher, ours, clocked, recorded, traced];
    let sent = u64::from(WARM_UP + BATCH) * ((amount.blocks + 1) * amount.batches * rows.len()) as u64;
    let measured = run(rows, amount, BATCH)?;
    match frames_received(&pair.far)? - received_before {
        received if received == sent => Ok(measured),
        received => Err(format!("{sent} frames were sent, {received} came out at the other end").into()),
    }
}

fn bare(sender: &Sender, fields: u16) -> Result<Row<'_>, Failure> {
    let frame = streams::frame(fields)?;
    Ok(Row::new("bare", "bare send, constant bytes", move || {
        timed(|| {
            link::bare::send(sender.as_fd(), black_box(&frame))?;
            Ok(())
        })
    }))
}

fn by_hand(sender: &Sender, fields: u16) -> Result<Row<'_>, Failure> {
    let mut writer = hand::Writer::new(&streams::frame(fields)?, fields);
    let mut counter = 0;
    Ok(Row::new("hand", "hand-written offsets, bare send", move || {
        timed(|| {
            counter += 1;
            link::bare::send(sender.as_fd(), writer.build(counter, streams::ticks(counter as i64)))?;
            Ok(())
        })
    }))
}

/// As an application has them: n values that lie somewhere, of which one changes.
fn by_hand_values(sender: &Sender, fields: u16) -> Result<Row<'_>, Failure> {
    let mut writer = hand::Writer::new(&streams::frame(fields)?, fields);
    let (mut values, mut counter) = (vec![0; fields.into()], 0);
    Ok(Row::new("hand_values", "hand-written, n values, bare send", move || {
        timed(|| {
            counter += 1;
            values[0] = counter;
            let frame = writer.build_values(true, black_box(&values), streams::ticks(counter as i64));
            link::bare::send(sender.as_fd(), frame)?;
            Ok(())
        })
    }))
}

/// Publish and send without an application: what the row before does, with numbers, counts and bounds.
fn publisher(sender: &Sender, fields: u16) -> Result<Row<'_>, Failure> {
    let mut publisher = Publisher::new(&streams::layout(fields), Some(&streams::HEADER))?;
    let (mut image, layout, mut counter) = (vec![0; publisher.image().bytes()], publisher.image().clone(), 0);
    if !layout.set(&mut image, 0, 0, Value::Boolean(true)) {
        return Err("no running state".into());
    }
    let first = layout.fields(0).get(1).ok_or("no variable")?.offset;
    Ok(Row::new("ours_publisher", "ours, publisher, n values", move || {
        timed(|| {
            counter += 1;
            image[first..first + 8].copy_from_slice(&u64::to_le_bytes(counter));
            let published = publisher.publish(black_box(&image), streams::ticks(counter as i64));
            sender.send(published.map_err(|error| format!("{error:?}"))?.frame)?;
            Ok(())
        })
    }))
}

/// `CLOCKED`: with a reading of the clock, which a record needs, and which is not the record.
fn ours<const CLOCKED: bool>(sender: &Sender, fields: u16) -> Result<Row<'_>, Failure> {
    let mut source = streams::source(fields)?;
    let mut cycle = 0;
    let (key, name) =
        if CLOCKED { ("ours_clock", "ours + clock") } else { ("ours", "ours, publisher and application") };
    Ok(Row::new(key, name, move || {
        timed(|| {
            cycle += 1;
            black_box(source.application(cycle));
            let outgoing = source.publish(streams::ticks(cycle)).ok_or("nothing to publish")?;
            if CLOCKED {
                black_box(clock::now());
            }
            sender.send(outgoing.frame)?;
            Ok(())
        })
    }))
}

fn recorded(sender: &Sender, fields: u16) -> Result<Row<'_>, Failure> {
    let mut traced = Traced::new(fields)?;
    Ok(Row::new("ours_record", "ours + clock + record", move || {
        let took = timed(|| traced.cycle(sender))?;
        traced.drain()?;
        Ok(took)
    }))
}

fn traced(pair: &Pair, fields: u16) -> Result<Row<'static>, Failure> {
    let sender = Sender::open(&pair.near, SenderOptions { priority: 3, stamps: Stamps::Software, txtime: None })?;
    let mut stamps = sender.stamps(clock::tai_minus_utc())?;
    let mut traced = Traced::new(fields)?;
    Ok(Row::new("ours_traced", "ours + clock + record + stamps", move || {
        let first = traced.handle;
        let took = timed(|| traced.cycle(&sender))?;
        traced.drain()?;
        drain_stamps(&mut stamps, first..traced.handle)?;
        Ok(took)
    }))
}

/// One stamp for each send, in their order. In a run another thread does this.
fn drain_stamps(stamps: &mut StampReader, sends: std::ops::Range<u32>) -> Result<(), Failure> {
    for send in sends {
        match stamps.wait(STAMP_TIMEOUT)? {
            Some(Departure::Left(TxStamp { id, .. })) if id == send => {}
            found => return Err(format!("expected the stamp of send {send}, found {found:?}").into()),
        }
    }
    Ok(())
}

/// What a cycle of a traced run does, with the record of its send: one clock reading and one cache line.
struct Traced {
    source: pubsub::Endpoint,
    cycle: i64,
    handle: u32,
    producer: Producer,
    consumer: Consumer,
}

impl Traced {
    fn new(fields: u16) -> Result<Self, Failure> {
        let ring = Ring::create("bench", RING_RECORDS)?;
        let (producer, consumer) = (ring.producer()?, ring.consumer()?);
        Ok(Self { source: streams::source(fields)?, cycle: 0, handle: 0, producer, consumer })
    }

    #[inline]
    fn cycle(&mut self, sender: &Sender) -> Result<(), Failure> {
        self.cycle += 1;
        black_box(self.source.application(self.cycle));
        let outgoing = self.source.publish(streams::ticks(self.cycle)).ok_or("nothing to publish")?;
        let at = clock::now();
        sender.send(outgoing.frame)?;
        let numbers = u64::from(self.handle) << 32 | u64::from(outgoing.sequence);
        let repeated = u64::from(outgoing.repeated);
        let bytes = outgoing.frame.len() as u64;
        self.producer.push(&[1, self.cycle as u64, outgoing.counter, numbers, at.0 as u64, 0, bytes, repeated]);
        self.handle = self.handle.wrapping_add(1);
        Ok(())
    }

    fn drain(&mut self) -> Result<(), Failure> {
        let mut found = 0;
        while self.consumer.pop().is_some() {
            found += 1;
        }
        if found == WARM_UP + BATCH { Ok(()) } else { Err(format!("{found} records were in the ring").into()) }
    }
}
