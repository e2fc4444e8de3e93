//! Building and taking apart messages, in memory that is there already.
//!
//! `encode FIELDS FRAMES FIRST` and `decode|decode-malloc FIELDS FRAMES FIRST` answer with nanoseconds; `FIRST` is the
//! counter of the first message.

use std::hint::black_box;
use std::io::Write as _;
use std::time::{Duration, Instant};

use crate::drive::THERE;
use crate::message::Message;
use crate::{number, serve, settle};

/// As the rows of the bench that run in its own process.
const WARM_UP: u64 = 8;
const READY: u64 = 16;
const START_TICKS: i64 = 133_500_000_000_000_000;

pub(crate) fn run(cpu: usize, fields: &str, answers: &mut std::fs::File) -> Result<(), String> {
    let mut messages = Vec::new();
    for fields in fields.split(',') {
        let fields: usize = number(fields)?;
        messages.push((fields, Message::new(fields, THERE, THERE)?));
    }
    let _granted = settle(cpu);
    answers.flush().map_err(|error| error.to_string())?;
    serve(answers, |line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [what, fields, frames, first] = words[..] else {
            return Err(format!("expected WHAT FIELDS FRAMES FIRST, found {line:?}"));
        };
        let (fields, frames, first): (usize, u64, u64) = (number(fields)?, number(frames)?, number(first)?);
        let (_, message) =
            messages.iter_mut().find(|(known, _)| *known == fields).ok_or(format!("no message of {fields} fields"))?;
        let took = match what {
            "encode" => encode(message, frames, first)?,
            "decode" => decode(message, frames, first, true)?,
            "decode-malloc" => decode(message, frames, first, false)?,
            other => return Err(format!("expected encode, decode or decode-malloc, found {other:?}")),
        };
        Ok(took.as_nanos().to_string())
    })
}

fn ticks(counter: u64) -> i64 {
    START_TICKS + counter as i64 * 2_500
}

fn encode(message: &mut Message, frames: u64, first: u64) -> Result<Duration, String> {
    let mut counter = first;
    let mut frame = || {
        message.change(black_box(counter));
        black_box(message.encode(ticks(counter))?);
        counter += 1;
        Ok::<_, String>(())
    };
    for _ in 0..WARM_UP {
        frame()?;
    }
    let started = Instant::now();
    for _ in 0..frames {
        frame()?;
    }
    Ok(started.elapsed())
}

fn decode(message: &mut Message, frames: u64, first: u64, arena: bool) -> Result<Duration, String> {
    let mut took = Duration::ZERO;
    let mut ready = vec![Vec::new(); READY as usize];
    for round in 0..frames / READY {
        let first = first + round * READY;
        for (bytes, counter) in ready.iter_mut().zip(first..) {
            bytes.clear();
            message.fill(counter);
            bytes.extend_from_slice(message.encode(ticks(counter))?);
        }
        let started = Instant::now();
        for (bytes, counter) in ready.iter().zip(first..) {
            if message.decode(black_box(bytes), arena)? != Some(counter) {
                return Err(format!("message {counter} was not read"));
            }
        }
        took += started.elapsed();
    }
    Ok(took)
}
