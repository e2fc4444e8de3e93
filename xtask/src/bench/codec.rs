//! Building and taking apart without a socket: what the engine itself costs.

use std::hint::black_box;
use std::time::{Duration, Instant};

use pubsub::{ImageLayout, Publisher, ReaderLayout, Subscriber, SubscriberConfig, Value, WriterTemplate};
use units::Tai;

use super::rounds::{Amount, Failure, Measured, Row, run, timed_frames};
use super::{hand, streams};

/// A frame takes some nanoseconds here: many of them to one reading of the clock.
pub(super) const FRAMES: u32 = 1024;

/// Messages that are ready to be taken apart: new ones each time, since a reader takes only what is newer, and few
/// enough for the first cache, where a message is that has just been received.
const READY: u32 = 16;

/// Measures all rows.
pub(super) fn measure(fields: u16, amount: Amount) -> Result<Vec<Measured>, Failure> {
    run(rows(fields)?, amount, FRAMES)
}

/// The rows by themselves.
pub(super) fn rows(fields: u16) -> Result<Vec<Row<'static>>, Failure> {
    Ok(vec![
        build_by_hand(fields)?,
        build_from_template(fields)?,
        build_with_publisher(fields)?,
        build_with_endpoint(fields)?,
        Row::new("hand_take_apart", "take apart, hand-written", {
            let mut reader = hand::Reader::new(&streams::frame(fields)?, fields);
            take_apart(fields, move |uadp, _| black_box(reader.take_apart(uadp)?).first().copied())?
        }),
        Row::new("layout_take_apart", "take apart, reader layout", {
            let layout = ReaderLayout::new(&streams::layout(fields))?;
            let (mut image, at) = image(fields);
            take_apart(fields, move |uadp, _| {
                layout.take_apart(uadp, &mut image).ok()?;
                first(black_box(&image), at)
            })?
        }),
        Row::new("subscriber_take_apart", "take apart, subscriber", {
            let mut subscriber = Subscriber::new(SubscriberConfig::strict(streams::layout(fields)))?;
            let at = image(fields).1;
            take_apart(fields, move |uadp, cycle| {
                black_box(subscriber.receive(uadp, Tai(cycle)));
                first(black_box(subscriber.take()?), at)
            })?
        }),
        Row::new("endpoint_take_apart", "take apart, endpoint", {
            let mut sink = streams::sink(fields)?;
            take_apart(fields, move |uadp, cycle| {
                black_box(sink.receive(uadp));
                sink.application(cycle).read
            })?
        }),
    ])
}

/// An image with the Boolean set, and where its UInt64 begin.
fn image(fields: u16) -> (Vec<u8>, usize) {
    let layout = ImageLayout::of(&streams::layout(fields));
    let mut image = vec![0; layout.bytes()];
    layout.set(&mut image, 0, 0, Value::Boolean(true));
    (image, layout.fields(0).get(1).map_or(0, |field| field.offset))
}

fn first(image: &[u8], at: usize) -> Option<u64> {
    image.get(at..)?.first_chunk().copied().map(u64::from_le_bytes)
}

/// One new value a cycle, the first UInt64: the rest of the image stays, as that of the hand-written loop does.
#[inline]
fn change(image: &mut [u8], counter: u64) {
    const FIRST_UINT64: usize = 1;
    image.as_chunks_mut::<8>().0[FIRST_UINT64] = counter.to_le_bytes();
}

fn build_by_hand(fields: u16) -> Result<Row<'static>, Failure> {
    let mut writer = hand::Writer::new(&streams::frame(fields)?, fields);
    let mut values = vec![0; fields.into()];
    let mut counter = 0;
    Ok(Row::new("hand_build", "build, hand-written", move || {
        timed_frames(FRAMES, || {
            counter += 1;
            values[0] = counter;
            black_box(writer.build_values(black_box(true), black_box(&values), streams::ticks(counter as i64)));
            Ok(())
        })
    }))
}

fn build_from_template(fields: u16) -> Result<Row<'static>, Failure> {
    let mut template = WriterTemplate::new(&streams::layout(fields), Some(&streams::HEADER))?;
    let (mut image, _) = image(fields);
    let mut counter = 0;
    Ok(Row::new("template_build", "build, template", move || {
        timed_frames(FRAMES, || {
            counter += 1;
            change(&mut image, counter);
            template.write_image(black_box(&image))?;
            template.stamp(0, streams::ticks(counter as i64));
            black_box(template.frame());
            Ok(())
        })
    }))
}

fn build_with_publisher(fields: u16) -> Result<Row<'static>, Failure> {
    let mut publisher = Publisher::new(&streams::layout(fields), Some(&streams::HEADER))?;
    let (mut image, _) = image(fields);
    let mut counter = 0;
    Ok(Row::new("publisher_build", "build, publisher", move || {
        timed_frames(FRAMES, || {
            counter += 1;
            change(&mut image, counter);
            black_box(publisher.publish(black_box(&image), streams::ticks(counter as i64))?);
            Ok(())
        })
    }))
}

/// With the application phase: what a Source does in a cycle.
fn build_with_endpoint(fields: u16) -> Result<Row<'static>, Failure> {
    let mut source = streams::source(fields)?;
    let mut cycle = 0;
    Ok(Row::new("endpoint_build", "build, endpoint", move || {
        timed_frames(FRAMES, || {
            cycle += 1;
            black_box(source.application(black_box(cycle)));
            black_box(source.publish(streams::ticks(cycle)));
            Ok(())
        })
    }))
}

/// `read` gets a message and its cycle, and tells its counter, which is the same number. Reading the clock, once for
/// [`READY`] messages, is in the result: one or two nanoseconds a message.
fn take_apart(
    fields: u16,
    mut read: impl FnMut(&[u8], i64) -> Option<u64>,
) -> Result<impl FnMut() -> Result<Duration, Failure>, Failure> {
    let mut writer = hand::Writer::new(&streams::frame(fields)?, fields);
    let mut messages = vec![Vec::new(); READY as usize];
    let mut counter = 0;
    Ok(move || {
        let mut took = Duration::ZERO;
        for _ in 0..FRAMES / READY {
            let first = counter + 1;
            for message in &mut messages {
                counter += 1;
                message.clear();
                let frame = writer.build(counter, streams::ticks(counter as i64));
                message.extend_from_slice(&frame[hand::TAGGED_HEADER_BYTES..]);
            }
            let started = Instant::now();
            for (message, counter) in messages.iter().zip(first..) {
                if read(black_box(message), counter as i64) != Some(counter) {
                    return Err(format!("message {counter} was not read").into());
                }
            }
            took += started.elapsed();
        }
        Ok(took)
    })
}
