//! What the parts of an endpoint pass to each other. Numbers only go up, so that a part which looks less often than another
//! one writes sees what has come since.

use units::Tai;

/// From reading to computing: the newest values, and what messages told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Inputs<'a> {
    /// The newest values; zeros before the first message, empty where nothing is read.
    pub(crate) image: &'a [u8],
    /// They came since the last application phase.
    pub(crate) fresh: bool,
    /// Where somebody wants to know.
    pub(crate) signs: Option<&'a Signs>,
}

/// What messages told besides their values.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Signs {
    /// Signs of life.
    pub(crate) heard: u64,
    /// Messages whose variables differ, and the first variable of the last of them.
    pub(crate) inconsistent: u64,
    pub(crate) inconsistent_counter: u64,
    /// Messages without counter.
    pub(crate) substitutes: u64,
    /// The newest message with a counter.
    pub(crate) newest: Option<Newest>,
    /// The last sign of life of the writer.
    pub(crate) alive_at: Option<Tai>,
    /// The newest values may not be used, their message says.
    pub(crate) bad: bool,
    /// Status of the newest message: the upper half of a StatusCode.
    pub(crate) status: u16,
    /// When the newest values, and when any message of the stream, was decoded.
    pub(crate) newest_at: Option<Tai>,
    pub(crate) heard_at: Option<Tai>,
}

/// The newest message with a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Newest {
    /// Its number among those.
    pub(crate) number: u64,
    pub(crate) counter: u64,
    /// Timestamp of its DataSetMessage.
    pub(crate) stamped: Option<i64>,
    pub(crate) decoded: Option<Tai>,
}

/// From computing back to reading: both numbers are of one application phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Messages that it has taken, replaced ones included.
    pub taken: u64,
    /// Application phases in a row without news.
    pub phases_without_news: u32,
}

impl Progress {
    /// Both in one word, for threads. Of the messages the low half is kept: [`Self::unpack`] finds the rest.
    pub fn pack(self) -> u64 {
        self.taken << 32 | u64::from(self.phases_without_news)
    }

    /// What [`Self::pack`] made of it, where `messages` there are in all.
    pub fn unpack(word: u64, messages: u64) -> Self {
        // Taken are fewer, by less than half of what the word has room for.
        let behind = (messages as u32).wrapping_sub((word >> 32) as u32);
        Self { taken: messages.saturating_sub(u64::from(behind)), phases_without_news: word as u32 }
    }
}

/// From computing to writing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outputs<'a> {
    /// What the application wrote.
    pub(crate) image: &'a [u8],
    /// Its counter: 0 before there is one.
    pub(crate) counter: u64,
    /// What is published in its place.
    pub(crate) instead: Option<Instead>,
}

/// What is published in place of what the application wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Instead {
    /// This value in all variables.
    Value(u64),
    /// Nothing any more.
    Nothing,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_goes_through_a_word() {
        for (taken, messages) in
            [(0, 0), (5, 7), (u64::from(u32::MAX), u64::from(u32::MAX) + 9), (1 << 40, (1 << 40) + 3)]
        {
            let progress = Progress { taken, phases_without_news: 131 };
            assert_eq!(Progress::unpack(progress.pack(), messages), progress);
        }
    }
}
