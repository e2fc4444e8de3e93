//! Frame rows: one a message, from both ends of its stream.

/// What became of one message: a row of `frames.parquet`.
///
/// Instants are nanoseconds TAI. `t[0]` to `t[7]` are T1 to T8:
///
/// | | at the writer | at the reader |
/// |---|---|---|
/// | out | T1 handed over, T2 left | T3 arrived, T4 decoded |
/// | back | T7 arrived, T8 decoded | T5 handed over, T6 left |
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrameRow {
    /// Index into the streams of the scenario.
    pub stream: u16,
    /// Cycle whose publish phase built it; when the writer's trace lacks it, the cycle it was read in.
    pub cycle: i64,
    /// Its counter.
    pub counter: u64,
    /// Sequence number of its NetworkMessage; `None` when the writer's trace lacks it.
    pub sequence: Option<u32>,
    /// Bytes the writer handed over: Ethernet header, tag and payload, without FCS. 0 when its trace lacks it.
    pub bytes: u32,
    /// When the writer wanted it to leave.
    pub launch: Option<i64>,
    /// T1 … T8, absent when not measured or not reached.
    pub t: [Option<i64>; 8],
    /// Bits of [`flags`].
    pub flags: u32,
}

/// Bits of [`FrameRow::flags`].
pub mod flags {
    /// A newer message replaced it before the reader's application took it.
    pub const SUPERSEDED_READER: u32 = 1 << 0;
    /// A newer answer replaced it before the writer's application took it.
    pub const SUPERSEDED_WRITER: u32 = 1 << 1;
    /// Its variables differed on arrival at either end.
    pub const INCONSISTENT: u32 = 1 << 2;
    /// The writer's send failed or was left out.
    pub const NOT_SENT_WRITER: u32 = 1 << 3;
    /// The reader's send of the answer failed or was left out.
    pub const NOT_SENT_READER: u32 = 1 << 4;
    /// It arrived with another VID or PCP than the stream has, or untagged.
    pub const WRONG_TAG: u32 = 1 << 5;
    /// The writer published its counter more than once; T1 and T2 are of the first time.
    pub const REPEATED_WRITER: u32 = 1 << 6;
    /// The reader answered it more than once; T5 and T6 are of the first time.
    pub const REPEATED_READER: u32 = 1 << 7;
    /// Lost at the publisher: dP.
    pub const LOST_PUBLISHER: u32 = 1 << 8;
    /// Lost between writer and reader: dLinkL, or dbL behind a bridge.
    pub const LOST_OUT: u32 = 1 << 9;
    /// Lost at the loopback: dL.
    pub const LOST_LOOPBACK: u32 = 1 << 10;
    /// Lost between reader and writer: dLinkP, or dbP behind a bridge.
    pub const LOST_BACK: u32 = 1 << 11;
    /// Still under way when the run ended: neither lost nor complete.
    pub const UNDER_WAY: u32 = 1 << 12;
    /// Under way while a host was stopped (an incident `host-late`): an outlier of the host, not of the network.
    pub const HOST_OUTLIER: u32 = 1 << 13;
    /// The writer's trace has nothing of it; only its arrival was seen.
    pub const NOT_SEEN_PUBLISHED: u32 = 1 << 14;
    /// It left later than its launch time allows (see the field `late_after_ns` of results).
    pub const LATE_LAUNCH: u32 = 1 << 15;
    /// Lost, but the reader's trace is missing, so nobody knows where.
    pub const LOST_UNPLACED: u32 = 1 << 16;
    /// It was under way where records of the trace are missing: whether it was lost nobody knows, and it counts as
    /// neither.
    pub const UNKNOWN: u32 = 1 << 17;
    /// Any of the losses.
    pub const LOST: u32 = LOST_PUBLISHER | LOST_OUT | LOST_LOOPBACK | LOST_BACK | LOST_UNPLACED;
    /// Each flag with its name.
    pub const NAMES: [(u32, &str); 18] = [
        (SUPERSEDED_READER, "superseded at the reader"),
        (SUPERSEDED_WRITER, "superseded at the writer"),
        (INCONSISTENT, "inconsistent"),
        (NOT_SENT_WRITER, "not sent by the writer"),
        (NOT_SENT_READER, "not sent by the reader"),
        (WRONG_TAG, "wrong tag"),
        (REPEATED_WRITER, "repeated by the writer"),
        (REPEATED_READER, "repeated by the reader"),
        (LOST_PUBLISHER, "lost at the publisher"),
        (LOST_OUT, "lost between writer and reader"),
        (LOST_LOOPBACK, "lost at the loopback"),
        (LOST_BACK, "lost between reader and writer"),
        (UNDER_WAY, "under way at the end"),
        (HOST_OUTLIER, "outlier of the host"),
        (NOT_SEEN_PUBLISHED, "not seen published"),
        (LATE_LAUNCH, "late launch"),
        (LOST_UNPLACED, "lost, unknown where"),
        (UNKNOWN, "in a gap of the trace"),
    ];
}

impl FrameRow {
    /// Tn in nanoseconds TAI, `n` from 1 to 8; `None` when absent or `n` is none of them.
    pub fn at(&self, n: usize) -> Option<i64> {
        n.checked_sub(1).and_then(|index| self.t.get(index).copied().flatten())
    }

    /// T`to` − T`from` in nanoseconds; `None` when either is absent.
    pub fn span(&self, from: usize, to: usize) -> Option<i64> {
        self.at(to)?.checked_sub(self.at(from)?)
    }

    /// Round trip `wire`: T7 − T2.
    pub fn round_trip_wire(&self) -> Option<i64> {
        self.span(2, 7)
    }

    /// Round trip `stack`: T8 − T1.
    pub fn round_trip_stack(&self) -> Option<i64> {
        self.span(1, 8)
    }

    /// One-way delay T3 − T2.
    pub fn one_way(&self) -> Option<i64> {
        self.span(2, 3)
    }

    /// One-way delay of the stacks T4 − T1.
    pub fn one_way_stack(&self) -> Option<i64> {
        self.span(1, 4)
    }

    /// Whether any of `bits` is set.
    pub fn has(&self, bits: u32) -> bool {
        self.flags & bits != 0
    }
}
