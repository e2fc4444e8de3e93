//! Which rate of a flood a loop holds.

use measure::{FrameRow, flags};
use units::{Nanos, Tai};

use crate::bench::statistics::{Median, median};

/// A stretch of the run, quiet or flooded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block {
    /// Which of the rates; none when quiet.
    pub(super) rate: Option<usize>,
    pub(super) begin: Tai,
    pub(super) end: Tai,
    /// Frames of the flood.
    pub(super) sent: u64,
    /// Processor time of the reader's loop.
    pub(super) loop_time_ns: u64,
}

/// Share of the cycles of a block by which a flooded one may be worse than the quiet one before it.
const TOLERANCE: f64 = 0.01;

/// What the blocks of a rate show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    /// With 95 % the median difference is within the tolerance.
    Held,
    /// With 95 % it is beyond.
    Failed,
    /// The blocks lie too far apart, or are too few, to tell.
    Undecided,
}

/// What came out.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Verdict {
    /// Index of the highest rate that is shown to be held, and all below it.
    pub(super) holds: Option<usize>,
    pub(super) rates: Vec<Rate>,
    /// Cycles of a block.
    pub(super) cycles: f64,
    /// In quiet blocks: median of the cycles that failed, share of the loop's time on a processor.
    pub(super) quiet_failed: f64,
    pub(super) quiet_share: f64,
    /// Frames of all floods.
    pub(super) sent: u64,
}

/// One rate; all figures are medians over its blocks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rate {
    /// Frames a second as they were sent.
    pub(super) frames_s: f64,
    /// Cycles that failed, more than in the quiet block before, with the 95 % interval.
    pub(super) more_failed: Median,
    pub(super) shown: Shown,
    /// Share of the loop's time on a processor.
    pub(super) loop_share: f64,
}

/// Judges blocks, quiet and flooded by turns, by the rows of a run.
pub(super) fn judge(rows: &[FrameRow], cycle: Nanos, blocks: &[Block]) -> Verdict {
    let pairs: Vec<(&Block, &Block)> = blocks.chunks_exact(2).map(|pair| (&pair[0], &pair[1])).collect();
    let values = |rate: Option<usize>, of: &dyn Fn(&Block, &Block) -> f64| {
        let some = pairs.iter().filter(|(_, flooded)| rate.is_none() || flooded.rate == rate);
        some.map(|(quiet, flooded)| of(quiet, flooded)).collect::<Vec<_>>()
    };
    let over = |rate: Option<usize>, of: &dyn Fn(&Block, &Block) -> f64| median(&values(rate, of));
    let share = |block: &Block| block.loop_time_ns as f64 / length(block);
    let count = blocks.iter().filter_map(|block| block.rate).max().map_or(0, |last| last + 1);
    let cycles = over(None, &|quiet, _| length(quiet) / cycle.0 as f64).round();
    let more = |quiet: &Block, flooded: &Block| failed(rows, cycle, flooded) - failed(rows, cycle, quiet);
    let rate = |place| {
        let differences = values(Some(place), &more);
        let more_failed = Median::of(&differences);
        Rate {
            frames_s: over(Some(place), &|_, flooded| flooded.sent as f64 / length(flooded) * 1e9),
            more_failed,
            shown: shown(more_failed, differences.len(), cycles * TOLERANCE),
            loop_share: over(Some(place), &|_, flooded| share(flooded)),
        }
    };
    let rates: Vec<_> = (0..count).map(rate).collect();
    let held = rates.iter().take_while(|rate| rate.shown == Shown::Held).count();
    Verdict {
        holds: held.checked_sub(1),
        rates,
        cycles,
        quiet_failed: over(None, &|quiet, _| failed(rows, cycle, quiet)),
        quiet_share: over(None, &|quiet, _| share(quiet)),
        sent: blocks.iter().map(|block| block.sent).sum(),
    }
}

fn shown(more: Median, blocks: usize, allowed: f64) -> Shown {
    // Fewer have no interval of 95 %: the least and the greatest of five enclose the median with 94 %.
    match blocks {
        6.. if more.high <= allowed => Shown::Held,
        6.. if more.low > allowed => Shown::Failed,
        _ => Shown::Undecided,
    }
}

fn length(block: &Block) -> f64 {
    (block.end - block.begin).0 as f64
}

/// Cycles of a block without a message that came all the way and was read.
fn failed(rows: &[FrameRow], cycle: Nanos, block: &Block) -> f64 {
    let inside = |row: &&FrameRow| row.at(1).is_some_and(|at| block.begin.0 <= at && at < block.end.0);
    let good = rows
        .iter()
        .filter(inside)
        .filter(|row| !row.has(flags::LOST | flags::SUPERSEDED_READER | flags::SUPERSEDED_WRITER | flags::UNKNOWN));
    // One more or less begins within the block.
    ((block.end - block.begin).0 as f64 / cycle.0 as f64 - good.count() as f64 - 1.0).max(0.0).floor()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CYCLE: Nanos = Nanos(1_000);
    const CYCLES: i64 = 100;

    fn row(cycle: i64, flags: u32) -> FrameRow {
        let at = cycle * CYCLE.0 + 600;
        FrameRow {
            stream: 0,
            cycle,
            counter: cycle as u64,
            sequence: None,
            bytes: 0,
            launch: None,
            t: [Some(at), None, None, None, None, None, None, None],
            flags,
        }
    }

    fn block(number: i64, rate: Option<usize>) -> Block {
        let begin = Tai(number * CYCLES * CYCLE.0);
        let sent = rate.map_or(0, |rate| 100 * (rate as u64 + 1));
        Block { rate, begin, end: begin + CYCLE * CYCLES, sent, loop_time_ns: 10_000 * (1 + sent / 100) }
    }

    /// Failures of each block, quiet and flooded by turns.
    fn judged(failures: &[i64], rates: &[Option<usize>]) -> Verdict {
        let blocks: Vec<_> = (0..).zip(rates).map(|(number, rate)| block(number, *rate)).collect();
        let rows = (0..).zip(failures).flat_map(|(number, &failures)| {
            // Half of them are lost, the others were never published.
            let cycles = number * CYCLES..(number + 1) * CYCLES - failures / 2;
            let lost = cycles.end - (failures - failures / 2)..cycles.end;
            cycles.map(move |cycle| row(cycle, if lost.contains(&cycle) { flags::LOST_OUT } else { 0 }))
        });
        judge(&rows.collect::<Vec<_>>(), CYCLE, &blocks)
    }

    /// As many rounds of quiet and flooded blocks as there are failures.
    fn rounds<const RATES: usize>(failures: &[[i64; RATES]]) -> Verdict {
        let (mut all, mut rates) = (Vec::new(), Vec::new());
        for round in failures {
            for (place, &failed) in round.iter().enumerate() {
                all.extend([3, failed]);
                rates.extend([None, Some(place)]);
            }
        }
        judged(&all, &rates)
    }

    #[test]
    fn a_rate_is_held_when_the_interval_says_so() {
        let verdict = rounds(&[[3, 4, 60, 3]; 6]);
        let differences: Vec<_> = verdict.rates.iter().map(|rate| rate.more_failed.value).collect();
        // One that begins in the next block is no failure, in quiet and flooded ones alike.
        assert_eq!(differences, [0.0, 1.0, 57.0, 0.0]);
        let shown: Vec<_> = verdict.rates.iter().map(|rate| rate.shown).collect();
        assert_eq!(shown, [Shown::Held, Shown::Held, Shown::Failed, Shown::Held]);
        assert_eq!(verdict.holds, Some(1), "what is held beyond one that is not does not count");
        let frames_s: Vec<_> = verdict.rates.iter().map(|rate| rate.frames_s).collect();
        assert_eq!(frames_s, [1e6, 2e6, 3e6, 4e6]);
        assert_eq!((verdict.quiet_failed, verdict.quiet_share, verdict.cycles), (2.0, 0.1, 100.0));
        assert_eq!((verdict.rates[0].loop_share, verdict.sent), (0.2, 6 * 1_000));
    }

    #[test]
    fn a_median_that_noise_has_made_decides_nothing() {
        // The median is 0 in the one and 5 in the other, and the blocks lie far apart in both.
        let verdict = rounds(&[[90, 3], [3, 8], [3, 8], [3, 8], [3, 90], [90, 3]]);
        assert_eq!(verdict.rates.iter().map(|rate| rate.shown).collect::<Vec<_>>(), [Shown::Undecided; 2]);
        assert_eq!(verdict.holds, None);
        assert_eq!(rounds(&[[3]; 5]).rates[0].shown, Shown::Undecided, "too few");
        assert_eq!(rounds(&[[3]; 6]).rates[0].shown, Shown::Held);
    }
}
