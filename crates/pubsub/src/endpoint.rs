//! One end of a stream at one station: the cyclic application, phase by phase.
//!
//! The process image is one counter that all variables repeat. A message whose variables differ is
//! [`Reception::Inconsistent`] and never reaches the image, so the image need not hold them one by one.

use alloc::boxed::Box;
use alloc::vec;

use wire::{BuiltInType, EthernetHeader, Value};

use crate::error::{LayoutError, Mismatch};
use crate::layout::NetworkMessageLayout;
use crate::reader::{CounterReader, ReaderLayout};
use crate::run::UInt64Run;
use crate::sequence::{SequenceWindow, Verdict};
use crate::template::WriterTemplate;

/// After this many application phases without news an endpoint takes the next message with another counter than the
/// last, whatever its counter and sequence number: a restarted writer is heard again, which the rule of the standard
/// alone would lock out.
pub const RESYNC_PHASES: u32 = 128;

/// How far back a counter's cycle is remembered after a skipped cycle, in application phases.
const HISTORY: usize = 1024;

/// What an endpoint does with its counter.
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
    const fn name(self) -> &'static str {
        match self {
            Self::Source => "Source",
            Self::Echo => "Echo",
            Self::Sink => "Sink",
        }
    }
}

/// What an [`Endpoint`] is made from.
#[derive(Debug, Clone)]
pub struct EndpointConfig {
    /// What it does.
    pub role: Role,
    /// What it writes, and how: for a Source and an Echo.
    pub write: Option<(NetworkMessageLayout, EthernetHeader)>,
    /// What it reads: for an Echo and a Sink, and for a Source that has an echo.
    pub read: Option<NetworkMessageLayout>,
    /// How many counters a message carries: the last fields, all UInt64, of its first DataSetMessage.
    pub variables: u16,
}

/// What a received message was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reception {
    /// Not of the layout that is read here.
    Foreign(Mismatch),
    /// Its variables are not all equal: it is not read.
    Inconsistent {
        /// The first of them.
        counter: u64,
    },
    /// A good message. Whether it is news decides [`Endpoint::application`]; older ones are [`Counts::stale`].
    Message {
        /// What its variables hold.
        counter: u64,
        /// Counter of an earlier message that the application phase had not taken yet and now never will.
        superseded: Option<u64>,
    },
}

/// What one application phase did.
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

/// A frame to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outgoing<'a> {
    /// The frame with its Ethernet header.
    pub frame: &'a [u8],
    /// Counter in all its variables.
    pub counter: u64,
    /// Number of this publication, from 0; also on the wire where the layout has sequence numbers.
    pub sequence: u16,
    /// The same counter as in the publication before.
    pub repeated: bool,
}

/// What an endpoint has seen so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages of the layout, consistent or not.
    pub received: u64,
    /// Messages of another layout.
    pub foreign: u64,
    /// Messages whose variables were not all equal.
    pub inconsistent: u64,
    /// Messages older than one that was there before, by counter or by sequence number, and therefore not read.
    pub stale: u64,
    /// Messages replaced by a newer one before the application phase took them.
    pub superseded: u64,
    /// Messages that never came, by sequence number.
    pub lost: u64,
    /// Sum of [`Step::missed`].
    pub missed: u64,
    /// Number of phases that were [`Step::repeated`].
    pub repeated: u64,
    /// How often a message was taken because nothing newer had come for [`RESYNC_PHASES`] application phases.
    pub resynchronised: u64,
    /// Frames given out to be sent.
    pub published: u64,
}

/// One stream's end at one station: image, template, reader and counters.
#[derive(Debug, Clone)]
pub struct Endpoint {
    role: Role,
    writer: Option<(WriterTemplate, UInt64Run)>,
    reader: Option<CounterReader>,
    window: SequenceWindow,
    /// Newest message that the application has not taken yet.
    pending: Option<u64>,
    /// Counter last read.
    read: Option<u64>,
    phases_without_news: u32,
    /// Counter to be published: 0 before there is one.
    outgoing: u64,
    last_published: Option<u64>,
    sequence: u16,
    history: History,
    counts: Counts,
}

impl Endpoint {
    /// An endpoint before its first cycle. Everything is allocated here.
    pub fn new(config: EndpointConfig) -> Result<Self, LayoutError> {
        let EndpointConfig { role, write, read, variables } = config;
        let (part, missing, unused) = match role {
            Role::Source => ("write", write.is_none(), false),
            Role::Echo if write.is_none() => ("write", true, false),
            Role::Echo => ("read", read.is_none(), false),
            Role::Sink if write.is_some() => ("write", false, true),
            Role::Sink => ("read", read.is_none(), false),
        };
        if missing {
            return Err(LayoutError::Missing { part, role: role.name() });
        }
        if unused {
            return Err(LayoutError::Unused { part, role: role.name() });
        }
        let writer = write.map(|(layout, ethernet)| {
            let mut template = WriterTemplate::new(&layout, Some(&ethernet))?;
            let fields = counter_fields(&layout, variables)?;
            // The fields before the counters: the Boolean of the papers' frames is the publisher's running state.
            for (field, ty) in layout.data_sets.iter().flat_map(|set| &set.fields).enumerate().take(fields.start) {
                if *ty == BuiltInType::Boolean {
                    let _ = template.set_field(0, field, Value::Boolean(true));
                }
            }
            let run = template.uint64_run(0, fields).ok_or(LayoutError::Variables { variables, found: 0 })?;
            Ok::<_, LayoutError>((template, run))
        });
        let reader = read.map(|layout| {
            let reader = ReaderLayout::new(&layout)?;
            let fields = counter_fields(&layout, variables)?;
            let run = reader.uint64_run(0, fields).ok_or(LayoutError::Variables { variables, found: 0 })?;
            Ok::<_, LayoutError>(CounterReader::new(reader, run))
        });
        Ok(Self {
            role,
            writer: writer.transpose()?,
            reader: reader.transpose()?,
            window: SequenceWindow::new(),
            pending: None,
            read: None,
            phases_without_news: 0,
            outgoing: 0,
            last_published: None,
            sequence: 0,
            history: History::new(),
            counts: Counts::default(),
        })
    }

    /// Takes the UADP bytes of a received frame (no Ethernet header). The newest message since the last application
    /// phase wins. An endpoint without a layout to read finds everything foreign.
    #[inline]
    pub fn receive(&mut self, uadp: &[u8]) -> Reception {
        let Some(reader) = &self.reader else {
            self.counts.foreign += 1;
            return Reception::Foreign(Mismatch { offset: 0, expected: None, found: uadp.first().copied() });
        };
        let (counter, consistent) = match reader.read(uadp) {
            Ok(variables) => variables,
            Err(mismatch) => {
                self.counts.foreign += 1;
                return Reception::Foreign(mismatch);
            }
        };
        self.counts.received += 1;
        if !consistent {
            self.counts.inconsistent += 1;
            return Reception::Inconsistent { counter };
        }
        let number = reader.layout().any_sequence_number(uadp);
        let superseded = self.take(counter, number);
        Reception::Message { counter, superseded }
    }

    /// The counter of a message that this endpoint could read, without taking it: for frames that must not be taken,
    /// because they came with another VLAN tag, but have to be counted. `None` for a foreign message.
    pub fn peek(&self, uadp: &[u8]) -> Option<u64> {
        self.reader.as_ref()?.read(uadp).ok().map(|(counter, _)| counter)
    }

    /// Makes a message the pending one if it is news; tells the counter that it replaced.
    #[inline]
    fn take(&mut self, counter: u64, number: Option<u16>) -> Option<u64> {
        let silent = self.phases_without_news >= RESYNC_PHASES && self.pending.is_none();
        if silent && self.read != Some(counter) {
            self.window.forget();
            self.read = None;
            self.phases_without_news = 0;
            self.counts.resynchronised += 1;
        }
        match number.map(|number| self.window.accept(number)) {
            None => {}
            Some(Verdict::Newer { lost }) => self.counts.lost += u64::from(lost),
            Some(Verdict::Old | Verdict::Invalid) => {
                self.counts.stale += 1;
                return None;
            }
        }
        match self.pending.or(self.read) {
            Some(known) if counter < known => {
                self.counts.stale += 1;
                None
            }
            Some(known) if counter == known => None,
            _ => {
                let superseded = self.pending.replace(counter);
                self.counts.superseded += u64::from(superseded.is_some());
                superseded
            }
        }
    }

    /// The application phase of `cycle`. A Source counts up and writes the new counter to all variables; every
    /// endpoint reads the newest message, and an Echo copies it to what it will publish.
    #[inline]
    pub fn application(&mut self, cycle: i64) -> Step {
        let wrote = (self.role == Role::Source).then(|| {
            self.outgoing = self.outgoing.wrapping_add(1);
            self.history.write(self.outgoing, cycle);
            self.outgoing
        });
        let mut step = Step { cycle, wrote, read: self.read, repeated: false, missed: 0, round_trip_cycles: None };
        match self.pending.take() {
            Some(counter) => {
                step.missed = self.read.map_or(0, |last| counter.saturating_sub(last).saturating_sub(1));
                step.read = Some(counter);
                self.read = Some(counter);
                self.phases_without_news = 0;
                self.counts.missed += step.missed;
                match self.role {
                    Role::Source => step.round_trip_cycles = self.history.elapsed(counter, cycle),
                    Role::Echo => self.outgoing = counter,
                    Role::Sink => {}
                }
            }
            None if self.read.is_some() => {
                step.repeated = true;
                self.counts.repeated += 1;
                self.phases_without_news = self.phases_without_news.saturating_add(1);
            }
            None => {}
        }
        step
    }

    /// The publish phase: the frame to send, patched with the counter, the next sequence number and the time `now_ticks`
    /// (100 ns ticks since 1601-01-01 UTC). `None` while there is nothing to publish: a Sink never has, a Source not
    /// before its first application phase, an Echo not before its first reading.
    #[inline]
    pub fn publish(&mut self, now_ticks: i64) -> Option<Outgoing<'_>> {
        let (template, run) = self.writer.as_mut()?;
        let counter = self.outgoing;
        if counter == 0 {
            return None;
        }
        let sequence = self.sequence;
        let repeated = self.last_published.replace(counter) == Some(counter);
        self.sequence = sequence.wrapping_add(1);
        self.counts.published += 1;
        template.fill(run, counter);
        template.stamp(sequence, now_ticks);
        Some(Outgoing { frame: template.frame(), counter, sequence, repeated })
    }

    /// What it does.
    pub fn role(&self) -> Role {
        self.role
    }

    /// What it has seen so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }
}

/// Which fields of the first DataSetMessage are the counters: the last `variables`, all UInt64.
fn counter_fields(layout: &NetworkMessageLayout, variables: u16) -> Result<core::ops::Range<usize>, LayoutError> {
    let fields = layout.data_sets.first().map_or(&[][..], |set| &set.fields);
    let found = fields.iter().rev().take_while(|&&ty| ty == BuiltInType::UInt64).count();
    let count = usize::from(variables);
    if count == 0 || count > found {
        return Err(LayoutError::Variables { variables, found });
    }
    Ok(fields.len() - count..fields.len())
}

/// In which cycle each counter was written: by arithmetic while no cycle has been skipped, then by a table.
#[derive(Debug, Clone)]
struct History {
    /// Cycle of counter v at v mod [`HISTORY`].
    cycles: Box<[i64]>,
    /// The newest counter, 0 before the first.
    newest: u64,
    /// Cycle minus counter, as long as it is the same for all.
    offset: Option<i64>,
}

impl History {
    fn new() -> Self {
        Self { cycles: vec![0; HISTORY].into_boxed_slice(), newest: 0, offset: None }
    }

    #[inline]
    fn slot(counter: u64) -> usize {
        (counter % HISTORY as u64) as usize
    }

    #[inline]
    fn write(&mut self, counter: u64, cycle: i64) {
        if let Some(slot) = self.cycles.get_mut(Self::slot(counter)) {
            *slot = cycle;
        }
        let offset = cycle.wrapping_sub(counter as i64);
        if self.newest == 0 || self.offset == Some(offset) {
            self.offset = Some(offset);
        } else {
            self.offset = None;
        }
        self.newest = counter;
    }

    /// Cycles from the one in which `counter` was written to `cycle`; `None` for a counter never written or forgotten.
    #[inline]
    fn elapsed(&self, counter: u64, cycle: i64) -> Option<u64> {
        let age = self.newest.checked_sub(counter)?;
        if counter == 0 {
            return None;
        }
        let written = match self.offset {
            Some(offset) => offset.wrapping_add(counter as i64),
            None if age < HISTORY as u64 => *self.cycles.get(Self::slot(counter))?,
            None => return None,
        };
        u64::try_from(cycle.checked_sub(written)?).ok()
    }
}
