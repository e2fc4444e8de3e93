//! Frames that an end read and did not take, and when so many of them came that it was a flood.

use units::Nanos;

use crate::Refused;

/// A flood has at least so many frames.
const FLOOD_FRAMES: u64 = 100;
/// More than so many of them come in a cycle, on average.
const FLOOD_CYCLE_FRAMES: u64 = 2;
/// Refusals this many cycles apart are of one flood.
const TOGETHER_CYCLES: i64 = 10;
/// Floods kept of an end; later ones are in the sums only.
const MOST: usize = 200;

/// Frames refused, by the reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Kinds {
    pub(crate) foreign: u64,
    pub(crate) stale: u64,
    pub(crate) repeated: u64,
    pub(crate) wrong_tag: u64,
    pub(crate) inconsistent: u64,
}

impl Kinds {
    fn add(&mut self, frames: &Refused) {
        self.foreign += u64::from(frames.foreign);
        self.stale += u64::from(frames.stale);
        self.repeated += u64::from(frames.repeated);
        self.wrong_tag += u64::from(frames.wrong_tag);
        self.inconsistent += u64::from(frames.inconsistent);
    }

    pub(crate) fn sum(&mut self, other: &Self) {
        self.foreign += other.foreign;
        self.stale += other.stale;
        self.repeated += other.repeated;
        self.wrong_tag += other.wrong_tag;
        self.inconsistent += other.inconsistent;
    }

    pub(crate) fn all(&self) -> u64 {
        self.foreign + self.stale + self.repeated + self.wrong_tag + self.inconsistent
    }
}

/// Refusals that lie close together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flood {
    pub(crate) begin: i64,
    pub(crate) end: i64,
    pub(crate) frames: Kinds,
    /// Most that were read in one go.
    pub(crate) most: u64,
}

/// All refusals of an end.
#[derive(Debug, Clone, Default)]
pub(crate) struct Refusals {
    pub(crate) all: Kinds,
    /// Floods, and last what may become one.
    found: Vec<Flood>,
}

impl Refusals {
    /// Takes note of what was refused in one go.
    pub(crate) fn note(&mut self, at: i64, frames: &Refused, cycle: Nanos) {
        self.all.add(frames);
        let near = |flood: &Flood| at.saturating_sub(flood.end) <= TOGETHER_CYCLES.saturating_mul(cycle.0);
        let full = self.found.len() >= MOST;
        match self.found.last_mut() {
            Some(last) if near(last) => {
                last.end = last.end.max(at);
                last.begin = last.begin.min(at);
                last.frames.add(frames);
                last.most = last.most.max(frames.all());
            }
            last => {
                let mut counted = Kinds::default();
                counted.add(frames);
                let flood = Flood { begin: at, end: at, frames: counted, most: frames.all() };
                match last {
                    // So that strangers who send now and then fill no memory.
                    Some(last) if !last.is_one(cycle) => *last = flood,
                    _ if full => {}
                    _ => self.found.push(flood),
                }
            }
        }
    }

    /// What was kept of them: floods, and last what may become one.
    pub(crate) fn kept(&self) -> &[Flood] {
        &self.found
    }

    /// Keeps one that another part of the trace has.
    pub(crate) fn keep(&mut self, flood: Flood) {
        if self.found.len() < MOST {
            self.found.push(flood);
        }
    }

    /// The floods, in the order of time.
    pub(crate) fn floods(&self, cycle: Nanos) -> impl Iterator<Item = &Flood> {
        self.found.iter().filter(move |flood| flood.is_one(cycle))
    }
}

impl Flood {
    fn is_one(&self, cycle: Nanos) -> bool {
        let cycles = self.end.saturating_sub(self.begin) / cycle.0.max(1) + 1;
        // A host that stood still reads in one go what its partner, without news from it, has repeated meanwhile.
        let frames = self.frames.all() - self.frames.repeated;
        frames >= FLOOD_FRAMES && frames > FLOOD_CYCLE_FRAMES * cycles.unsigned_abs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CYCLE: Nanos = Nanos(1_000_000);

    fn stale(count: u32) -> Refused {
        Refused { stale: count, ..Refused::default() }
    }

    #[test]
    fn many_close_together_are_a_flood_and_strays_are_not() {
        let mut refusals = Refusals::default();
        for cycle in 0..1_000 {
            // One a cycle, for ever: somebody who is misconfigured, no flood.
            refusals.note(cycle * CYCLE.0, &stale(1), CYCLE);
        }
        assert_eq!(refusals.floods(CYCLE).count(), 0);
        let begin = 2_000 * CYCLE.0;
        for cycle in 0..50 {
            refusals.note(begin + cycle * CYCLE.0, &stale(3 + cycle as u32), CYCLE);
            refusals.note(begin + cycle * CYCLE.0, &Refused { foreign: 1, ..Refused::default() }, CYCLE);
        }
        refusals.note(begin + 100 * CYCLE.0, &stale(2), CYCLE);
        let floods: Vec<_> = refusals.floods(CYCLE).copied().collect();
        let sum = (3..53).sum::<u64>();
        let frames = Kinds { stale: sum, foreign: 50, ..Kinds::default() };
        assert_eq!(floods, [Flood { begin, end: begin + 49 * CYCLE.0, frames, most: 52 }]);
        assert_eq!((refusals.all.stale, refusals.all.all()), (1_002 + sum, 1_052 + sum));
    }

    #[test]
    fn what_a_partner_repeats_is_no_flood() {
        let mut refusals = Refusals::default();
        refusals.note(0, &Refused { repeated: 1_000, stale: 50, ..Refused::default() }, CYCLE);
        assert_eq!((refusals.floods(CYCLE).count(), refusals.all.repeated), (0, 1_000));
        refusals.note(1, &stale(50), CYCLE);
        assert_eq!(refusals.floods(CYCLE).count(), 1);
    }

    #[test]
    fn memory_is_bounded() {
        let mut refusals = Refusals::default();
        for number in 0..10_000 {
            refusals.note(number * 100 * CYCLE.0, &stale(if number % 2 == 0 { 1_000 } else { 1 }), CYCLE);
        }
        assert_eq!(refusals.found.len(), MOST);
        assert_eq!(refusals.all.stale, 5_000 * 1_001);
        assert_eq!(refusals.floods(CYCLE).map(|flood| flood.frames.stale).max(), Some(1_000));
    }
}
