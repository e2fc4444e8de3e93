//! The applications that measure: a counter goes out, and comes back.

use alloc::boxed::Box;
use alloc::vec;

use crate::application::{Application, Input, Step};
use crate::image::ImageLayout;

/// How many skips of cycles are remembered, for counters that are still under way.
const STRETCHES: usize = 64;

/// What an application does with its counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Counts up and writes; reads its echo if it has a layout to read.
    Source,
    /// Reads and answers with what it read.
    Echo,
    /// Reads only.
    Sink,
}

impl Role {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Source => "Source",
            Self::Echo => "Echo",
            Self::Sink => "Sink",
        }
    }
}

/// A Source, Echo or Sink: its process image has one counter, a UInt64, that the message repeats in all its variables.
#[derive(Debug, Clone)]
pub struct CounterApplication {
    role: Role,
    /// Place of the counter in the image of the first reader.
    input_at: usize,
    /// Place of the counter in the image that is published.
    output_at: usize,
    /// Counter last read.
    read: Option<u64>,
    phases_without_news: u32,
    /// Counter to be published: 0 before there is one.
    outgoing: u64,
    /// An Echo answers only when it is told to.
    leaves_answers: bool,
    /// The first counter that a Source writes.
    first: u64,
    history: History,
    missed: u64,
    repeated: u64,
}

impl CounterApplication {
    /// An application before its first cycle; `input_at` and `output_at` are the offsets of the counter in the images.
    pub fn new(role: Role, input_at: usize, output_at: usize) -> Self {
        Self {
            role,
            input_at,
            output_at,
            read: None,
            phases_without_news: 0,
            outgoing: 0,
            leaves_answers: false,
            first: 1,
            history: History::new(),
            missed: 0,
            repeated: 0,
        }
    }

    /// What it does.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Counter last read.
    pub fn read(&self) -> Option<u64> {
        self.read
    }

    /// Counter that the output has: 0 before there is one.
    pub fn outgoing(&self) -> u64 {
        self.outgoing
    }

    /// Phases in a row in which the reader had nothing, since the first reading.
    pub fn phases_without_news(&self) -> u32 {
        self.phases_without_news
    }

    /// Sum of [`Step::missed`].
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// Number of phases that were [`Step::repeated`].
    pub fn repeated(&self) -> u64 {
        self.repeated
    }

    /// Takes the next counter whatever it is: nothing was missed before it.
    pub fn forget(&mut self) {
        self.read = None;
        self.phases_without_news = 0;
    }

    /// Lets a Source that has not run yet begin with `first` instead of 1. Answers to counters before it are those of
    /// an earlier life of the writer: nothing between them and `first` was missed.
    pub fn count_from(&mut self, first: u64) {
        self.first = first.max(1);
    }

    /// Lets an Echo answer what [`Self::answer`] says, not what it reads.
    pub(crate) fn leave_answers(&mut self) {
        self.leaves_answers = true;
    }

    /// The counter that is published from now on, in the output too.
    pub(crate) fn answer(&mut self, counter: u64, output: &mut [u8]) {
        self.outgoing = counter;
        self.write(output);
    }

    /// Places of the counter in the images that are read and published.
    pub(crate) const fn places(&self) -> (usize, usize) {
        (self.input_at, self.output_at)
    }

    #[inline]
    fn write(&self, output: &mut [u8]) {
        if let Some(place) = output.get_mut(self.output_at..).and_then(<[u8]>::first_chunk_mut) {
            *place = self.outgoing.to_le_bytes();
        }
    }

    /// There was news, though the application was not given it.
    pub(crate) fn withheld(&mut self) {
        self.phases_without_news = 0;
    }

    /// Cycles from the application phase that wrote `counter` to `cycle`: at a Source, for a counter it remembers.
    pub(crate) fn elapsed(&self, counter: u64, cycle: i64) -> Option<u64> {
        if self.role == Role::Source { self.history.elapsed(counter, cycle) } else { None }
    }

    /// The counter in an image of its reader.
    #[inline]
    pub(crate) fn counter(&self, image: &[u8]) -> u64 {
        ImageLayout::uint64(image, self.input_at).unwrap_or(0)
    }

    #[inline]
    fn take(&mut self, counter: u64, cycle: i64, step: &mut Step) {
        let known = |last: u64| if self.role == Role::Source { last.max(self.first - 1) } else { last };
        step.missed = self.read.map_or(0, |last| counter.saturating_sub(known(last)).saturating_sub(1));
        step.read = Some(counter);
        self.read = Some(counter);
        self.phases_without_news = 0;
        self.missed += step.missed;
        match self.role {
            Role::Source => step.round_trip_cycles = self.history.elapsed(counter, cycle),
            Role::Echo if !self.leaves_answers => self.outgoing = counter,
            Role::Echo | Role::Sink => {}
        }
    }
}

impl Application for CounterApplication {
    /// A Source counts up and writes the new counter; every role reads the newest message of the first reader, and an
    /// Echo copies it to the output.
    #[inline(always)]
    fn cycle(&mut self, cycle: i64, input: Input<'_>, output: &mut [u8]) -> Step {
        let mut step = Step { read: self.read, ..Step::of(cycle) };
        if self.role == Role::Source {
            self.outgoing = if self.outgoing == 0 { self.first } else { self.outgoing.wrapping_add(1) };
            self.history.write(self.outgoing, cycle);
            step.wrote = Some(self.outgoing);
        }
        match input.readers.first() {
            Some(reader) if reader.fresh => self.take(self.counter(reader.image), cycle, &mut step),
            _ if self.read.is_some() => {
                step.repeated = true;
                self.repeated += 1;
                self.phases_without_news = self.phases_without_news.saturating_add(1);
            }
            _ => {}
        }
        self.write(output);
        step
    }
}

/// In which cycle each counter was written. Both count up together until a cycle is skipped, so all counters between two
/// skips have one difference, and only the differences are kept.
#[derive(Debug, Clone)]
struct History {
    /// The first counter, 0 for none, and cycle minus counter, of the newest stretch.
    newest: Stretch,
    /// The stretches before it, the latest at `older` - 1.
    stretches: Box<[Stretch]>,
    older: usize,
}

/// Counters without a skip between them.
#[derive(Debug, Clone, Copy, Default)]
struct Stretch {
    first: u64,
    offset: i64,
}

impl History {
    fn new() -> Self {
        Self { newest: Stretch::default(), stretches: vec![Stretch::default(); STRETCHES].into_boxed_slice(), older: 0 }
    }

    /// Counters are written in rising order.
    #[inline]
    fn write(&mut self, counter: u64, cycle: i64) {
        let offset = cycle.wrapping_sub(counter as i64);
        if offset != self.newest.offset || self.newest.first == 0 {
            self.begin(Stretch { first: counter, offset });
        }
    }

    #[cold]
    fn begin(&mut self, stretch: Stretch) {
        if let Some(place) = self.stretches.get_mut(self.older) {
            *place = core::mem::replace(&mut self.newest, stretch);
        }
        self.older = (self.older + 1) % STRETCHES;
    }

    /// Cycles from the one in which `counter` was written to `cycle`; `None` for a counter of before the first, or
    /// forgotten.
    #[inline]
    fn elapsed(&self, counter: u64, cycle: i64) -> Option<u64> {
        let stretch = if counter >= self.newest.first { self.newest } else { self.before(counter)? };
        let written = stretch.offset.checked_add_unsigned(counter)?;
        if stretch.first == 0 { None } else { u64::try_from(cycle.checked_sub(written)?).ok() }
    }

    #[cold]
    fn before(&self, counter: u64) -> Option<Stretch> {
        let latest_first = (1..=STRETCHES).map(|back| (self.older + STRETCHES - back) % STRETCHES);
        let mut all = latest_first.filter_map(|index| self.stretches.get(index));
        all.find(|stretch| stretch.first != 0 && stretch.first <= counter).copied()
    }
}
