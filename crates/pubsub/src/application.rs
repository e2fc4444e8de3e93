//! What runs between reading and writing, once a cycle.

use units::Nanos;

/// Whether what a reader delivers may be used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Status {
    /// Messages come in time and say that their values are good or uncertain.
    Good,
    /// No message yet, none for longer than the MessageReceiveTimeout, or a Status of severity Bad.
    #[default]
    Bad,
}

/// What one DataSetReader has for the application.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReaderInput<'a> {
    /// The newest values, as the reader's [`ImageLayout`](crate::ImageLayout) places them from the start of its image on;
    /// zeros before the first message.
    pub image: &'a [u8],
    /// A message came since the last cycle.
    pub fresh: bool,
    /// Whether the values may be used.
    pub status: Status,
    /// How long ago the newest message was received; `None` before the first.
    pub age: Option<Nanos>,
}

/// What all readers of an application have for it, in the order in which it knows them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Input<'a> {
    /// One entry a reader.
    pub readers: &'a [ReaderInput<'a>],
}

/// A cyclic application between readers and a writer. It knows bytes and cycles: no clock, no frames.
pub trait Application {
    /// One cycle: from the newest values of the readers to the image that is published next. `output` still has what
    /// the cycle before left there; it is empty where nothing is published.
    fn cycle(&mut self, cycle: i64, input: Input<'_>, output: &mut [u8]) -> Step;
}

/// What one application phase did. An application without counters leaves all but the cycle as
/// [`Step::of`] makes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The cycle it ran in.
    pub cycle: i64,
    /// Counter written (Source).
    pub wrote: Option<u64>,
    /// Counter now seen; `None` before the first reading.
    pub read: Option<u64>,
    /// Nothing newer than in the last phase (only after the first reading).
    pub repeated: bool,
    /// Counters skipped between the last reading and this one.
    pub missed: u64,
    /// Source, when it read something new: cycles elapsed from the application phase that wrote the counter to this one.
    pub round_trip_cycles: Option<u64>,
}

impl Step {
    /// A step that has nothing to tell.
    pub const fn of(cycle: i64) -> Self {
        Self { cycle, wrote: None, read: None, repeated: false, missed: 0, round_trip_cycles: None }
    }
}
