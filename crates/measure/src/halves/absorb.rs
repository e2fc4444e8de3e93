//! Putting rows and facts of a role back into the logs that they came from.

use crate::collect::{EndLog, FirstSend, NONE, StreamLog};
use crate::{FrameRow, flags};

/// What an end saw of a message; the other flags are found anew when both ends are there.
const SEEN: u32 = flags::SUPERSEDED_READER
    | flags::SUPERSEDED_WRITER
    | flags::INCONSISTENT
    | flags::NOT_SENT_WRITER
    | flags::NOT_SENT_READER
    | flags::WRONG_TAG
    | flags::REPEATED_WRITER
    | flags::REPEATED_READER;

/// How many cycles before an end is gone a message may still miss it on its way.
const REACH_CYCLES: i64 = 8;
/// Ends that stop so many cycles apart stop together.
const TOGETHER_CYCLES: i64 = 2;

impl StreamLog {
    /// Takes what one side knows of a message; `shift` is added to its cycle.
    pub(super) fn row(&mut self, row: &FrameRow, shift: i64) {
        let cycle = row.cycle.saturating_add(shift);
        let position = self.message(row.counter, cycle);
        let message = &mut self.messages[position];
        message.flags |= row.flags & SEEN;
        if !row.has(flags::NOT_SEEN_PUBLISHED) && !message.published() {
            message.flags &= !flags::NOT_SEEN_PUBLISHED;
            message.cycle = cycle;
            message.sequence = row.sequence.and_then(|sequence| u16::try_from(sequence).ok());
            message.bytes = row.bytes;
            message.launch = row.launch.unwrap_or(NONE);
        }
        // Instants come in pairs of one event each; what is known already stays.
        for pair in [0, 2, 4, 6] {
            if message.t[pair] == NONE && message.t[pair + 1] == NONE {
                message.t[pair] = row.t[pair].unwrap_or(NONE);
                message.t[pair + 1] = row.t[pair + 1].unwrap_or(NONE);
            }
        }
    }

    /// Takes the send that a side's row of a message is of.
    pub(super) fn sent(&mut self, counter: u64, side: usize, sent: FirstSend) {
        let Some(position) = self.index.get(counter) else { return };
        let known = &mut self.messages[position].sends[side];
        if (sent.repeated, sent.handle) < (known.repeated, known.handle) || !known.is_known() {
            *known = sent;
        }
    }

    /// First and last cycle of each end, as far as its phases tell.
    pub(super) fn lasted(&self) -> [Option<(i64, i64)>; 2] {
        [0, 1].map(|side| self.ends[side].lasted())
    }

    /// Finds in which cycles both ends were there, that lasted from one cycle to another; gives what each of them says where
    /// they were never there together.
    pub(super) fn meet(&mut self, [writer, reader]: [Option<(i64, i64)>; 2]) -> Result<(), [(i64, i64); 2]> {
        let (Some(writer), Some(reader)) = (writer, reader) else { return Ok(()) };
        let (first, last) = (writer.0.max(reader.0), writer.1.min(reader.1));
        if first > last {
            return Err([writer, reader]);
        }
        let from = if writer.0 == reader.0 { i64::MIN } else { first };
        let apart = writer.1.abs_diff(reader.1) > TOGETHER_CYCLES.unsigned_abs();
        let until = if apart { last.saturating_sub(REACH_CYCLES) } else { i64::MAX };
        self.together = (from > i64::MIN || until < i64::MAX).then_some((from, until));
        Ok(())
    }
}

impl EndLog {
    /// Notes that there was more of it than is here; gives when and in which cycle the last phase ran that is.
    pub(super) fn is_incomplete(&mut self) -> Option<(i64, i64)> {
        self.incomplete = true;
        let last = self.phases[..3].iter().flatten().map(|ran| ran.due).max()?;
        // A part ends with whole messages, a second before its process knew of its last cycle.
        self.last_cycle = self.cycle_at(last);
        Some((last, self.last_cycle?))
    }

    /// Its first and last cycle, if its phases tell.
    fn lasted(&self) -> Option<(i64, i64)> {
        let first = self.phases[..3].iter().flatten().map(|ran| ran.due).min()?;
        Some((self.cycle_at(first)?, self.last_cycle?))
    }
}
