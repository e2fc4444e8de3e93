//! Taking turns: every row gets a batch of frames, then again, in an order that changes.

use std::error::Error;
use std::time::{Duration, Instant};

use super::statistics::median;

/// Why a measurement ended early.
pub(super) type Failure = Box<dyn Error>;

/// Frames to one reading of the clock, so that reading it does not count.
pub(super) const BATCH: u32 = 64;
/// Frames before those: the row before this one has left its own things in the caches.
pub(super) const WARM_UP: u32 = 8;

/// Something that is measured.
pub(super) struct Row<'a> {
    /// Its name in the JSON form.
    pub(super) key: &'static str,
    /// Its name for people.
    pub(super) name: &'static str,
    /// Makes ready, does the work for one batch of frames, tidies up; tells how long the work took.
    pub(super) batch: Box<dyn FnMut() -> Result<Duration, Failure> + 'a>,
}

impl<'a> Row<'a> {
    pub(super) fn new(
        key: &'static str,
        name: &'static str,
        batch: impl FnMut() -> Result<Duration, Failure> + 'a,
    ) -> Self {
        Self { key, name, batch: Box::new(batch) }
    }
}

/// What came out for a row.
#[derive(Debug, Clone)]
pub(super) struct Measured {
    pub(super) key: &'static str,
    pub(super) name: &'static str,
    /// Nanoseconds a frame, one value a block; the blocks of all rows belong together.
    pub(super) blocks: Vec<f64>,
}

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Amount {
    /// Blocks: values that go into a median and its interval.
    pub(super) blocks: usize,
    /// Batches a block; a block's value is the median of its batches, so that one interruption spoils one batch.
    pub(super) batches: usize,
}

/// Measures all rows. They take turns batch by batch: whatever happens to the machine happens to all of them. Each
/// round begins with another row, and every second one runs backwards, so that none has always the same predecessor.
pub(super) fn run(mut rows: Vec<Row<'_>>, amount: Amount, batch_frames: u32) -> Result<Vec<Measured>, Failure> {
    let mut measured: Vec<_> =
        rows.iter().map(|row| Measured { key: row.key, name: row.name, blocks: Vec::new() }).collect();
    // The first block only warms up.
    for block in 0..=amount.blocks {
        let mut batches = vec![Vec::with_capacity(amount.batches); rows.len()];
        for round in 0..amount.batches {
            for place in order(rows.len(), block * amount.batches + round) {
                let took = (rows[place].batch)().map_err(|error| format!("{}: {error}", rows[place].name))?;
                batches[place].push(took.as_nanos() as f64 / f64::from(batch_frames));
            }
        }
        if block > 0 {
            for (measured, batches) in measured.iter_mut().zip(&batches) {
                measured.blocks.push(median(batches));
            }
        }
    }
    Ok(measured)
}

/// Does the work for the frames that warm up, then for one batch; tells how long the batch took.
#[inline]
pub(super) fn timed(frame: impl FnMut() -> Result<(), Failure>) -> Result<Duration, Failure> {
    timed_frames(BATCH, frame)
}

/// The same with a batch of `frames`.
#[inline]
pub(super) fn timed_frames(frames: u32, mut frame: impl FnMut() -> Result<(), Failure>) -> Result<Duration, Failure> {
    for _ in 0..WARM_UP {
        frame()?;
    }
    let started = Instant::now();
    for _ in 0..frames {
        frame()?;
    }
    Ok(started.elapsed())
}

/// The places of a round: another beginning each time, and every second round backwards.
pub(super) fn order(rows: usize, round: usize) -> impl Iterator<Item = usize> {
    // Both directions from one start, then the next start.
    let (start, backwards) = (round / 2 % rows, round % 2 == 1);
    (0..rows).map(move |step| (start + if backwards { rows - step } else { step }) % rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_its_turn_in_every_round() {
        assert_eq!(order(3, 0).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(order(3, 1).collect::<Vec<_>>(), [0, 2, 1]);
        assert_eq!(order(3, 2).collect::<Vec<_>>(), [1, 2, 0]);
        assert_eq!(order(3, 3).collect::<Vec<_>>(), [1, 0, 2]);
        assert_eq!(order(1, 7).collect::<Vec<_>>(), [0]);
    }

    #[test]
    fn blocks_are_medians_of_batches() {
        let (mut calls, mut others) = (0, 0);
        let counted = Row::new("a", "A", || {
            calls += 1;
            // The second batch of three is an outlier.
            Ok(Duration::from_nanos(if calls % 3 == 2 { 9_000 } else { 100 }))
        });
        let other = Row::new("b", "B", || {
            others += 1;
            Ok(Duration::from_nanos(50))
        });
        let measured = run(vec![counted, other], Amount { blocks: 4, batches: 3 }, 10).unwrap();
        assert_eq!(measured[0].blocks, [10.0; 4]);
        assert_eq!(measured[1].blocks, [5.0; 4]);
        assert_eq!((calls, others), (15, 15), "one more block than asked for, to warm up");
    }

    #[test]
    fn the_row_that_failed_is_named() {
        let row = Row::new("a", "bare send", || Err("no room".into()));
        let error = run(vec![row], Amount { blocks: 1, batches: 1 }, 1).unwrap_err();
        assert_eq!(error.to_string(), "bare send: no room");
    }
}
