//! The reading end of a WriterGroup: layout, sequence windows, timeouts, and an image of the newest values.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use units::{Nanos, Tai};
use wire::{Value, array_at};

use crate::application::{ReaderInput, Status};
use crate::data_set_reader::{DataSetReader, PLAIN, Part, SEVERITY_BAD, StagedDataSet};
use crate::error::{LayoutError, Mismatch};
use crate::general::{General, Refusal, Rejected};
use crate::image::ImageLayout;
use crate::reader::ReaderLayout;
use crate::sequence::{SequenceWindow, Verdict};
use crate::subscription::{Received, SubscriberConfig, SubscriberCounts, wanted};
use crate::supervision::{Change, ReaderState, Supervision};

/// A message that has been decoded but not yet taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Staged {
    Message,
    Inconsistent,
    Foreign(Mismatch),
    Rejected(Rejected),
}

/// What a staged message is to the readers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    News,
    KeepAlive,
    Stale,
}

/// Reads the NetworkMessages of one WriterGroup. Nothing after `new` allocates; `now` comes from outside.
#[derive(Debug, Clone)]
pub struct Subscriber {
    reader: ReaderLayout,
    image: ImageLayout,
    /// The layout carries no sequence numbers and no Status: every message of it is news to all readers.
    plain: bool,
    /// Such a message is staged.
    staged_plain: bool,
    /// For messages of another form; `None` finds them foreign.
    general: Option<General>,
    /// Of NetworkMessages.
    window: SequenceWindow,
    /// SequenceNumber of the staged NetworkMessage.
    number: Option<u16>,
    readers: Vec<DataSetReader>,
    supervision: Supervision,
    newest: Box<[u8]>,
    staged: Box<[u8]>,
    /// Messages that became the newest so far.
    messages: u64,
    /// As many of them as there were when it was last said that they are taken.
    taken: u64,
    counts: SubscriberCounts,
}

impl Subscriber {
    /// A subscriber before its first message. Everything is allocated here.
    pub fn new(config: SubscriberConfig) -> Result<Self, LayoutError> {
        let wanted = wanted(&config)?;
        let fields = wanted.iter().filter_map(|&set| config.layout.data_sets.get(set)).map(|set| set.fields.as_slice());
        let image = ImageLayout::new(fields);
        Self::build(config, &wanted, image)
    }

    /// A subscriber of all DataSets with an image in which fields share a place ([`ImageLayout::repeating`]).
    pub fn with_image(config: SubscriberConfig, image: ImageLayout) -> Result<Self, LayoutError> {
        let all: Vec<usize> = (0..config.layout.data_sets.len()).collect();
        Self::build(config, &all, image)
    }

    fn build(config: SubscriberConfig, wanted: &[usize], image: ImageLayout) -> Result<Self, LayoutError> {
        let place = |data_set: usize| wanted.iter().position(|&set| set == data_set);
        let reader = ReaderLayout::with_image(&config.layout, &image, place)?;
        let data_set_reader = |&data_set: &usize| {
            let (number_at, status_at) = reader.places(data_set);
            DataSetReader {
                writer_id: config.layout.data_sets.get(data_set).map_or(0, |set| set.writer_id),
                number_at,
                status_at,
                window: SequenceWindow::new(),
                status: 0,
                known: false,
                news: 0,
                staged: StagedDataSet::default(),
            }
        };
        let readers: Vec<_> = wanted.iter().map(data_set_reader).collect();
        Ok(Self {
            plain: reader.is_plain() && readers.iter().all(|reader| reader.number_at.or(reader.status_at).is_none()),
            staged_plain: false,
            general: (!config.strict).then(|| General::new(&config.layout, place)),
            window: SequenceWindow::new(),
            number: None,
            supervision: Supervision::new(readers.len(), config.receive_timeout),
            readers,
            newest: vec![0; image.bytes()].into_boxed_slice(),
            staged: vec![0; image.bytes()].into_boxed_slice(),
            image,
            reader,
            messages: 0,
            taken: 0,
            counts: SubscriberCounts::default(),
        })
    }

    /// Takes the UADP bytes of a received frame (no Ethernet header). The newest message wins, taken or not.
    ///
    /// A message whose constant bytes are those of the layout is copied at known places. Any other, unless the subscriber
    /// is strict, goes through the general decoder: with the same PublisherId, WriterGroupId and DataSetWriterIds and
    /// fields of the same types it is taken all the same, whatever else its headers carry and however the fields are
    /// encoded; a delta frame changes the newest values.
    #[inline]
    pub fn receive(&mut self, uadp: &[u8], now: Tai) -> Received {
        match self.stage(uadp) {
            Staged::Message => {}
            Staged::Inconsistent => return Received::Inconsistent,
            Staged::Foreign(mismatch) => return Received::Foreign(mismatch),
            Staged::Rejected(rejected) => return Received::Rejected(rejected),
        }
        match self.admit() {
            Admission::News => Received::Message { superseded: self.commit(now) },
            Admission::KeepAlive => {
                self.keep_alive(now);
                Received::KeepAlive
            }
            Admission::Stale => Received::Stale,
        }
    }

    /// Decodes a message into the staged image, whatever its sequence numbers.
    // Inlined, so that a message of the layout takes no part in telling apart what else there is.
    #[inline(always)]
    pub(crate) fn stage(&mut self, uadp: &[u8]) -> Staged {
        if !self.reader.takes(uadp, &mut self.staged) {
            return self.stage_otherwise(uadp);
        }
        self.stage_layout(uadp);
        Staged::Message
    }

    /// A message of the layout has been read into the staged image.
    #[inline(always)]
    fn stage_layout(&mut self, uadp: &[u8]) {
        self.counts.received += 1;
        self.staged_plain = self.plain;
        if !self.plain {
            self.stage_numbers(uadp);
        }
    }

    /// What is no message of the layout, or one that contradicts itself.
    #[cold]
    #[inline(never)]
    fn stage_otherwise(&mut self, uadp: &[u8]) -> Staged {
        match self.reader.examine_into(uadp, &mut self.staged) {
            Ok(true) => {
                self.stage_layout(uadp);
                Staged::Message
            }
            Ok(false) => {
                self.counts.received += 1;
                self.counts.inconsistent += 1;
                Staged::Inconsistent
            }
            Err(mismatch) => self.stage_slowly(uadp, mismatch),
        }
    }

    /// Sequence numbers and Status of a message of the layout.
    fn stage_numbers(&mut self, uadp: &[u8]) {
        self.number = self.reader.sequence_number(uadp);
        for reader in &mut self.readers {
            let at = |place: Option<usize>| array_at(uadp, place?).map(u16::from_le_bytes);
            let (number, status) = (at(reader.number_at), at(reader.status_at).unwrap_or(0));
            reader.staged = StagedDataSet { part: Part::Values, number, status };
        }
    }

    /// The same for a message of another form.
    fn stage_slowly(&mut self, uadp: &[u8], mismatch: Mismatch) -> Staged {
        let Some(general) = &self.general else {
            self.counts.foreign += 1;
            return Staged::Foreign(mismatch);
        };
        self.staged.copy_from_slice(&self.newest);
        self.staged_plain = false;
        let decoded = general.decode(uadp, &self.image, &mut self.staged, &mut self.readers);
        if decoded == Err(Refusal::Foreign) {
            self.counts.foreign += 1;
            return Staged::Foreign(mismatch);
        }
        self.counts.received += 1;
        match decoded {
            Ok(number) => {
                self.counts.fallback += 1;
                self.number = number;
                Staged::Message
            }
            Err(Refusal::Rejected(rejected)) => {
                self.counts.rejected += 1;
                Staged::Rejected(rejected)
            }
            Err(Refusal::Inconsistent | Refusal::Foreign) => {
                self.counts.inconsistent += 1;
                Staged::Inconsistent
            }
        }
    }

    /// Puts the staged message before the windows of the NetworkMessages and of each reader's DataSetMessages; what is
    /// old or the same again is no longer staged.
    #[inline]
    pub(crate) fn admit(&mut self) -> Admission {
        if self.staged_plain { Admission::News } else { self.admit_by_numbers() }
    }

    fn admit_by_numbers(&mut self) -> Admission {
        let mut lost = 0;
        if let Some(number) = self.number {
            match self.window.accept(number) {
                Verdict::Newer { lost: between } => lost = between,
                Verdict::Old | Verdict::Invalid => {
                    self.counts.stale += 1;
                    return Admission::Stale;
                }
            }
        }
        let mut admission = Admission::Stale;
        for (index, reader) in self.readers.iter_mut().enumerate() {
            if let Some(number) = reader.staged.number {
                let verdict = match reader.staged.part {
                    Part::KeepAlive => reader.window.expect(number),
                    _ => reader.window.accept(number),
                };
                match verdict {
                    Verdict::Newer { lost: between } if self.number.is_none() => lost = lost.max(between),
                    Verdict::Newer { .. } => {}
                    Verdict::Old | Verdict::Invalid => {
                        reader.staged.part = Part::Nothing;
                        keep(&self.image, index, &self.newest, &mut self.staged);
                    }
                }
            }
            match reader.staged.part {
                Part::Values => admission = Admission::News,
                Part::KeepAlive | Part::Heartbeat if admission == Admission::Stale => admission = Admission::KeepAlive,
                _ => {}
            }
        }
        self.counts.lost += u64::from(lost);
        self.counts.stale += u64::from(admission == Admission::Stale);
        admission
    }

    /// Makes the staged message the newest; tells whether it replaced one that had not been taken.
    #[inline]
    pub(crate) fn commit(&mut self, now: Tai) -> bool {
        core::mem::swap(&mut self.newest, &mut self.staged);
        let superseded = self.is_fresh();
        self.messages += 1;
        for (index, reader) in self.readers.iter_mut().enumerate() {
            let staged = if self.staged_plain { PLAIN } else { reader.staged };
            if staged.part == Part::Values {
                (reader.news, reader.known) = (self.messages, true);
                reader.status = staged.status;
            }
            if staged.part != Part::Nothing && reader.known {
                self.supervision.heard(index, now);
            }
        }
        self.counts.superseded += u64::from(superseded);
        superseded
    }

    /// Takes note of the writers that are there and have nothing new.
    fn keep_alive(&mut self, now: Tai) {
        self.counts.keep_alive += 1;
        for (index, reader) in self.readers.iter().enumerate() {
            // Only a key frame makes a reader Operational.
            if reader.staged.part != Part::Nothing && reader.known {
                self.supervision.heard(index, now);
            }
        }
    }

    /// A sign of life from all writers, in a message that has all DataSets.
    pub(crate) fn heard(&mut self, now: Tai) {
        for (index, reader) in self.readers.iter_mut().enumerate() {
            reader.known = true;
            self.supervision.heard(index, now);
        }
    }

    /// The MessageReceiveTimeout from now on.
    pub(crate) fn set_receive_timeout(&mut self, timeout: Nanos) {
        self.supervision.set_timeout(timeout);
    }

    /// Status of the first DataSet of the staged message: the upper 16 bits of a StatusCode.
    pub(crate) fn staged_status(&self) -> u16 {
        self.readers.first().filter(|_| !self.staged_plain).map_or(0, |reader| reader.staged.status)
    }

    /// Timestamp of the first DataSetMessage of a message of the layout.
    pub(crate) fn timestamp(&self, uadp: &[u8]) -> Option<i64> {
        self.reader.data_set_timestamp(uadp, 0)
    }

    /// The image of the staged message.
    #[inline]
    pub(crate) fn staged(&self) -> &[u8] {
        &self.staged
    }

    /// A field of a message that could be read, without taking it; indices of the message.
    pub(crate) fn peek(&self, uadp: &[u8], data_set: usize, field: usize) -> Option<Value> {
        self.reader.examine(uadp).ok()?;
        self.reader.field(uadp, data_set, field)
    }

    /// The newest values, taken or not; zeros before the first message.
    #[inline]
    pub fn image(&self) -> &[u8] {
        &self.newest
    }

    /// Where the values are in the image.
    pub fn image_layout(&self) -> &ImageLayout {
        &self.image
    }

    /// Whether a message came that has not been taken.
    #[inline]
    pub fn is_fresh(&self) -> bool {
        self.messages > self.taken
    }

    /// The newest values if they have not been taken yet.
    #[inline]
    pub fn take(&mut self) -> Option<&[u8]> {
        let fresh = self.is_fresh();
        self.taken();
        fresh.then_some(&*self.newest)
    }

    /// From now on the newest message counts as taken.
    #[inline]
    pub fn taken(&mut self) {
        self.taken = self.messages;
    }

    /// As [`Self::taken`], for the first `messages` of those that became the newest.
    #[inline]
    pub(crate) fn taken_to(&mut self, messages: u64) {
        self.taken = messages;
    }

    /// Messages that became the newest.
    #[inline]
    pub(crate) fn messages(&self) -> u64 {
        self.messages
    }

    /// Status of the newest values of a reader: the upper 16 bits of a StatusCode.
    pub(crate) fn status(&self, reader: usize) -> u16 {
        self.readers.get(reader).map_or(0, |reader| reader.status)
    }

    /// The last sign of life of a reader's writer.
    pub(crate) fn heard_at(&self, reader: usize) -> Option<Tai> {
        self.supervision.heard_at(reader)
    }

    /// What reader `reader` has for an application, with the whole image; nothing and Bad for one that is not there.
    /// [`Self::taken`] afterwards says that the application has seen it.
    #[inline]
    pub fn input(&self, reader: usize, now: Tai) -> ReaderInput<'_> {
        let Some(of) = self.readers.get(reader) else { return ReaderInput::default() };
        let good = self.supervision.is_in_time(reader, now) && of.status & SEVERITY_BAD == 0;
        let status = if good { Status::Good } else { Status::Bad };
        ReaderInput { image: &self.newest, fresh: of.news > self.taken, status, age: self.supervision.age(reader, now) }
    }

    /// Looks at the timeouts and tells what has become of one reader since the last call; to be called until it says
    /// `None`. A reader whose time is over forgets its sequence window, so that a restarted writer is heard again, and
    /// waits for a key frame: what delta frames it has missed nobody knows.
    pub fn poll(&mut self, now: Tai) -> Option<Change> {
        for reader in self.supervision.expire(now) {
            self.counts.timeouts += 1;
            if let Some(reader) = self.readers.get_mut(reader) {
                reader.window.forget();
                reader.known = false;
            }
        }
        if self.supervision.is_silent() {
            self.window.forget();
        }
        let (reader, state) = self.supervision.change()?;
        Some(Change { reader, writer_id: self.readers.get(reader).map_or(0, |reader| reader.writer_id), state })
    }

    /// State of a reader as of the last [`Self::poll`] or message.
    pub fn state(&self, reader: usize) -> ReaderState {
        self.supervision.state(reader)
    }

    /// When the next reader's time will be over; `None` while none is waited for.
    pub fn deadline(&self) -> Option<Tai> {
        self.supervision.deadline()
    }

    /// Takes the next sequence numbers whatever they are.
    pub fn forget(&mut self) {
        self.window.forget();
        for reader in &mut self.readers {
            reader.window.forget();
        }
    }

    /// What it has seen so far.
    pub fn counts(&self) -> SubscriberCounts {
        self.counts
    }
}

/// Leaves the values of a DataSet as they were.
fn keep(layout: &ImageLayout, data_set: usize, newest: &[u8], staged: &mut [u8]) {
    if let Some(range) = layout.range(data_set)
        && let (Some(from), Some(to)) = (newest.get(range.clone()), staged.get_mut(range))
    {
        to.copy_from_slice(from);
    }
}
