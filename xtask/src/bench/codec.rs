//! Building and taking apart without a socket: what the engine itself costs.

use std::hint::black_box;
use std::time::{Duration, Instant};

use super::rounds::{Amount, Failure, Measured, Row, run, timed_frames};
use super::{hand, streams};

/// A frame takes some nanoseconds here: many of them to one reading of the clock.
const FRAMES: u32 = 1024;

/// Messages that are ready to be taken apart: new ones each time, since a reader takes only what is newer, and few
/// enough for the first cache, where a message is that has just been received.
const READY: u32 = 16;

/// Measures all rows.
pub(super) fn measure(fields: u16, amount: Amount) -> Result<Vec<Measured>, Failure> {
    let rows = vec![
        build_by_hand(fields)?,
        build(fields)?,
        Row::new("hand_take_apart", "take apart, hand-written", {
            let mut reader = hand::Reader::new(&streams::frame(fields)?, fields);
            take_apart(fields, move |uadp, _| black_box(reader.take_apart(uadp)?).first().copied())?
        }),
        Row::new("ours_take_apart", "take apart, ours", {
            let mut sink = streams::sink(fields)?;
            take_apart(fields, move |uadp, cycle| {
                black_box(sink.receive(uadp));
                sink.application(cycle).read
            })?
        }),
    ];
    run(rows, amount, FRAMES)
}

fn build_by_hand(fields: u16) -> Result<Row<'static>, Failure> {
    let mut writer = hand::Writer::new(&streams::frame(fields)?, fields);
    let mut counter = 0;
    Ok(Row::new("hand_build", "build, hand-written", move || {
        timed_frames(FRAMES, || {
            counter += 1;
            black_box(writer.build(black_box(counter), streams::ticks(counter as i64)));
            Ok(())
        })
    }))
}

fn build(fields: u16) -> Result<Row<'static>, Failure> {
    let mut source = streams::source(fields)?;
    let mut cycle = 0;
    Ok(Row::new("ours_build", "build, ours", move || {
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
