//! Trace events: what the two ends of a stream report, in a run and in the simulator alike.

mod record;

use scenario::{BreachChange, Condition};
use units::{Nanos, Tai};

/// A packed event: one cache line.
pub type Record = [u64; 8];

/// Which end of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The station that publishes and, with an echo, reads it back.
    Writer,
    /// The station that subscribes and, with an echo, answers.
    Reader,
}

/// A phase of the cyclic application.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Reading what has arrived.
    Subscribe,
    /// The application computes.
    Application,
    /// The frame is built and, without pacing, handed over.
    Publish,
    /// Our own pacing: the send at the launch time.
    Launch,
}

impl Phase {
    /// All of them, in the order of a cycle.
    pub const ALL: [Self; 4] = [Self::Subscribe, Self::Application, Self::Publish, Self::Launch];

    /// Its name in results.
    pub fn key(self) -> &'static str {
        match self {
            Self::Subscribe => "subscribe",
            Self::Application => "application",
            Self::Publish => "publish",
            Self::Launch => "launch",
        }
    }
}

/// Error number ([`EventKind::NotSent`]) of a frame whose launch an overrun skipped: ETIME.
pub const LAUNCH_SKIPPED: i32 = 62;

/// Added to the error number ([`EventKind::NotSent`]) of a frame with a launch time that the queue of its interface lost:
/// so it is told from the same number of a call that failed.
pub const LAUNCH_LOST: i32 = 10_000;
/// The queue did not take a frame with a launch time: ENOBUFS of the call. Where the queue tells why, that replaces it.
pub const LAUNCH_REFUSED: i32 = LAUNCH_LOST + 105;
/// The launch time was past, or before that of a frame that had left the queue, when the frame came: code INVALID_PARAM of
/// the error queue, EINVAL.
pub const LAUNCH_INVALID: i32 = LAUNCH_LOST + 22;
/// The launch time passed while the frame waited in the queue: code TXTIME_MISSED of the error queue, ECANCELED.
pub const LAUNCH_MISSED: i32 = LAUNCH_LOST + 125;

/// Something that happened at one end of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Index into the streams of the scenario.
    pub stream: u16,
    /// Where it happened.
    pub side: Side,
    /// What happened.
    pub kind: EventKind,
}

/// How many frames were read and not taken, by the reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Refused {
    /// Not of the layout of a stream that is read here.
    pub foreign: u32,
    /// Older than a message that was there before.
    pub stale: u32,
    /// The newest message once more.
    pub repeated: u32,
    /// With another VID or PCP than the stream has.
    pub wrong_tag: u32,
    /// With variables that differ.
    pub inconsistent: u32,
}

impl Refused {
    /// All of them.
    pub fn all(&self) -> u64 {
        [self.foreign, self.stale, self.repeated, self.wrong_tag, self.inconsistent].into_iter().map(u64::from).sum()
    }
}

/// What happened. Cycles are numbered `k` of `base_time + k·cycle`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// A frame was handed over: T1 at the writer, T5 at the reader.
    Published {
        /// The cycle whose publish phase built the frame.
        cycle: i64,
        /// The counter it carries.
        counter: u64,
        /// Sequence number of its NetworkMessage.
        sequence: u16,
        /// Numbers the sends of this end from 0.
        handle: u32,
        /// When it was handed over.
        at: Tai,
        /// When it is wanted to leave, if it has a launch time.
        launch: Option<Tai>,
        /// Bytes handed over: Ethernet header, tag and payload, without FCS.
        bytes: u32,
        /// Whether the frame before carried the same counter.
        repeated: bool,
    },
    /// Transmit timestamp of a send: T2 at the writer, T6 at the reader.
    Left {
        /// Which send.
        handle: u32,
        /// When its first bit left.
        at: Tai,
    },
    /// A send failed, or its launch was skipped.
    NotSent {
        /// Which send.
        handle: u32,
        /// Error number of the operating system, or one of the `LAUNCH_…`. An end may tell two of one send: the call
        /// fails, and the queue says why.
        errno: i32,
    },
    /// A message arrived.
    Arrived {
        /// The cycle in which it was read.
        cycle: i64,
        /// Its counter: the first field.
        counter: u64,
        /// Receive timestamp, the last bit in: T3 at the reader, T7 at the writer.
        stamp: Option<Tai>,
        /// When it was decoded: T4 at the reader, T8 at the writer.
        decoded: Tai,
        /// VID and PCP as received; `None` when it came untagged.
        tag: Option<(u16, u8)>,
        /// Counter of an earlier message of this cycle that it replaced before the application took it.
        superseded: Option<u64>,
        /// Whether its variables differ, though all hold one counter.
        inconsistent: bool,
    },
    /// Frames that were read in one go and not taken. Those that tell of a message of the stream have an event
    /// [`EventKind::Arrived`] of their own as long as they are few; `stale` and `repeated` count all of them,
    /// `wrong_tag` and `inconsistent` those without such an event.
    Refused {
        /// When the last of them was read.
        at: Tai,
        /// How many of each kind.
        frames: Refused,
    },
    /// The application phase ran.
    Application {
        /// In this cycle.
        cycle: i64,
        /// Counter it wrote.
        wrote: Option<u64>,
        /// Counter it now sees; `None` before the first.
        read: Option<u64>,
        /// Nothing new since the last application phase; never before the first message.
        repeated: bool,
        /// Counters between the last read and this one that it never saw.
        missed: u64,
        /// Cycles from the application phase that wrote `read` to this one.
        round_trip_cycles: Option<u64>,
    },
    /// A phase ran. One event a phase and cycle.
    Phase {
        /// In this cycle.
        cycle: i64,
        /// Which phase.
        phase: Phase,
        /// When it should have begun.
        due: Tai,
        /// How much later it began, zero or more.
        late: Nanos,
        /// How long it took.
        took: Nanos,
    },
    /// Cycles were left out after an overrun.
    Skipped {
        /// The first cycle left out.
        cycle: i64,
        /// How many.
        cycles: u32,
    },
    /// Receiving failed; the end goes on.
    ReceiveFailed {
        /// When it was noticed.
        at: Tai,
        /// Error number of the operating system.
        errno: i32,
    },
    /// Somebody set the time: from here on instants are of the new one. Told by one end a thread.
    ClockStepped {
        /// When it was noticed, by the new time.
        at: Tai,
        /// How far the time went: above zero when it jumped ahead.
        by: Nanos,
    },
    /// A breach began or ended.
    Breach {
        /// In the application phase of this cycle.
        cycle: i64,
        /// What it is of.
        condition: Condition,
        /// Whether it began or ended.
        change: BreachChange,
        /// The counter that showed it: of a silence the last before it; 0 when there was none.
        counter: u64,
        /// When it was noticed.
        at: Tai,
    },
    /// A message that has no counter, but what is published in place of one during a breach.
    Substitute {
        /// When it was handed over, or decoded.
        at: Tai,
        /// What its variables hold.
        value: u64,
        /// Which send of this end it was; `None` when it arrived.
        handle: Option<u32>,
    },
    /// What an application outside had for the engine, once a cycle of an end that has one.
    Outside {
        /// In this cycle.
        cycle: i64,
        /// When it was looked for.
        at: Tai,
        /// A whole image that was not there in the cycle before; at an end that publishes nothing: it read.
        new: bool,
        /// The application did anything at all since the cycle before.
        stirred: bool,
        /// Cycles since its image's inputs were given to it, for a new image whose inputs are remembered.
        answered_after: Option<u64>,
        /// StatusCode of what is published (OPC 10000-4 §7.39), as the application wrote it, or as its silence makes it; 0
        /// at an end that publishes nothing.
        status: u32,
    },
    /// The end read all that waited for it, not one message.
    Drained {
        /// In this cycle.
        cycle: i64,
        /// When nothing was left.
        at: Tai,
        /// Messages read beyond the one that the cycle would have taken.
        messages: u32,
        /// Why.
        cause: DrainCause,
    },
}

/// Why an end that takes one message a cycle read all that waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DrainCause {
    /// It was asked to.
    Asked {
        /// By the request of this number.
        number: u32,
    },
    /// A backlog stood for as long as the scenario lets it.
    Standing {
        /// Messages were late by so many cycles.
        late: u32,
    },
}
