//! What went wrong lately, alike things joined.

use std::collections::VecDeque;

use scenario::Condition;
use units::{Nanos, Tai};

use crate::{Phase, Side};

/// How many are kept.
const KEPT: usize = 64;
/// Among how many of the newest one is looked for that a new one joins.
const LOOKED_AT: usize = 8;
/// How long after the last one alike a new one still joins it.
const JOIN: i64 = 1_000_000_000;

/// Something that went wrong at an end of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Happening {
    /// When, to about a cycle.
    pub at: Tai,
    /// When the last one alike was.
    pub until: Tai,
    /// Index into the streams of the scenario.
    pub stream: u16,
    /// At which end.
    pub side: Side,
    /// What.
    pub what: What,
    /// How often, with at most a second between two.
    pub times: u64,
}

/// What went wrong. Amounts are those of the gravest of several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// A phase began later than max(a tenth of the cycle, 100 µs).
    Late(Phase, Nanos),
    /// So many cycles were left out.
    Skipped(u32),
    /// The operating system refused a send, with this error number.
    Refused(i32),
    /// Receiving failed with this error number.
    ReceiveFailed(i32),
    /// What a stream watches for began.
    Breach(Condition),
    /// Somebody set the time, so far.
    TimeSet(Nanos),
    /// The application never saw so many counters.
    Missed(u64),
    /// A message's variables differed.
    Inconsistent,
    /// A message came with another VID or PCP, or untagged.
    WrongTag,
}

impl What {
    /// Takes up `other` if it is alike.
    fn join(&mut self, other: Self) -> bool {
        match (self, other) {
            (Self::Late(phase, late), Self::Late(others, other)) if *phase == others => *late = other.max(*late),
            (Self::Skipped(cycles), Self::Skipped(other)) => *cycles = other.max(*cycles),
            (Self::Missed(counters), Self::Missed(other)) => *counters = other.max(*counters),
            (Self::Refused(errno), Self::Refused(other)) | (Self::ReceiveFailed(errno), Self::ReceiveFailed(other))
                if *errno == other => {}
            (Self::Inconsistent, Self::Inconsistent) | (Self::WrongTag, Self::WrongTag) => {}
            _ => return false,
        }
        true
    }
}

/// The last of them.
#[derive(Debug)]
pub(super) struct Happenings(VecDeque<Happening>);

impl Default for Happenings {
    fn default() -> Self {
        Self(VecDeque::with_capacity(KEPT))
    }
}

impl Happenings {
    pub(super) fn note(&mut self, new: Happening) {
        for old in self.0.iter_mut().rev().take(LOOKED_AT) {
            let near = new.at.0.saturating_sub(old.until.0) < JOIN;
            if near && (old.stream, old.side) == (new.stream, new.side) && old.what.join(new.what) {
                old.until = old.until.max(new.until);
                old.times += 1;
                return;
            }
        }
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(new);
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &Happening> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alike_and_near_is_one_and_memory_is_bounded() {
        let mut all = Happenings::default();
        let mut note = |at: i64, side, what| {
            all.note(Happening { at: Tai(at), until: Tai(at), stream: 0, side, what, times: 1 });
        };
        note(0, Side::Reader, What::Late(Phase::Publish, Nanos(5)));
        note(10, Side::Writer, What::Late(Phase::Publish, Nanos(9)));
        note(20, Side::Reader, What::Late(Phase::Launch, Nanos(9)));
        note(30, Side::Reader, What::Late(Phase::Publish, Nanos(7)));
        note(2 * JOIN, Side::Reader, What::Late(Phase::Publish, Nanos(1)));
        let first = *all.iter().next().unwrap();
        assert_eq!((first.times, first.until, first.what), (2, Tai(30), What::Late(Phase::Publish, Nanos(7))));
        assert_eq!(all.iter().count(), 4);
        for errno in 0..1_000 {
            let what = What::Refused(errno);
            all.note(Happening { at: Tai(0), until: Tai(0), stream: 0, side: Side::Writer, what, times: 1 });
        }
        assert_eq!((all.iter().count(), all.iter().next_back().unwrap().what), (KEPT, What::Refused(999)));
    }
}
