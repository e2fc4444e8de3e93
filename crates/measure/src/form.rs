//! The form of results: `run.json`, format "downbeat/run/1".
//!
//! Keys may be added, never renamed. Quantities that were not measured are left out; they are never 0. The explanations
//! (`split`, `counter_reference`, `margins`) are in `explain/form.rs`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{CounterReference, Dist, LAUNCH_INVALID, LAUNCH_LOST, LAUNCH_MISSED, LAUNCH_REFUSED, Margins, Split};

/// The format that `run.json` names.
pub const RUN_FORMAT: &str = "downbeat/run/1";

/// What the run ran on: keys in alphabetical order, values of any JSON form. No clock goes in for a
/// simulated run, so that equal inputs give equal bytes.
pub type Machine = serde_json::Map<String, serde_json::Value>;

/// How the figures came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// On real clocks and sockets.
    Measured,
    /// In virtual time.
    Simulated,
    /// From captures or logs.
    Analyzed,
}

/// `run.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunFile {
    /// [`RUN_FORMAT`].
    pub format: String,
    /// How the figures came about.
    pub kind: Kind,
    /// What was run.
    pub scenario: ScenarioRef,
    /// On what.
    pub machine: Machine,
    /// How far the clocks of its hosts are apart; absent where all have one, and of a role alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clocks: Option<crate::Clocks>,
    /// One entry a stream, in the order of the scenario.
    pub streams: Vec<StreamResult>,
    /// Lateness of the phases of each host that has any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostResult>,
    /// Whether the requirement is met.
    pub verdict: Verdict,
    /// The part folders of a run that was rotated: the rows and distributions are in them. Absent without.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartRef>,
    /// What went wrong and why, in the order of time.
    pub incidents: Vec<Incident>,
    /// How many incidents of each kind the list leaves out; absent when none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub incidents_left_out: BTreeMap<String, u64>,
}

/// A part of a run that was rotated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartRef {
    /// Its folder, inside that of the run.
    pub folder: String,
    /// Messages its writers published.
    pub frames: u64,
    /// Whether it meets the requirement for itself.
    pub met: bool,
}

/// The scenario a run is of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScenarioRef {
    /// Its name.
    pub name: String,
    /// SHA-256 of the file as read, hexadecimal.
    pub sha256: String,
    /// Its cycle.
    pub cycle_ns: i64,
    /// Launch offset of its first stream; 0 without streams.
    pub offset_ns: i64,
}

/// Figures of one stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StreamResult {
    /// Its name.
    pub name: String,
    /// Messages the writer published, those still under way at the end included.
    pub frames: u64,
    /// Messages that arrived at the reader; absent without its trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrived: Option<u64>,
    /// Bytes of UADP in one frame.
    pub bytes: u32,
    /// Its cycle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycle_ns: Option<i64>,
    /// Its launch offset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset_ns: Option<i64>,
    /// Round trips, of streams with an echo.
    #[serde(default)]
    pub round_trip: RoundTrips,
    /// T3 − T2.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_way: Option<Dist>,
    /// T4 − T1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_way_stack: Option<Dist>,
    /// T3(k) − T3(k−1) of consecutive counters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spacing: Option<Dist>,
    /// Jitter by definition.
    #[serde(default)]
    pub jitter: Jitter,
    /// Losses.
    pub loss: Loss,
    /// What the applications counted.
    pub counters: Counters,
    /// What its ends watched for, one entry an end and condition; absent when nothing was watched for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub breaches: Vec<BreachResult>,
    /// What came from applications outside, one entry an end that has one; absent when all are the engine's counters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub applications: Vec<ApplicationResult>,
    /// Queues that were emptied although their readers take one message a cycle, one entry an end that did so; absent when
    /// none did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drains: Vec<DrainResult>,
    /// Departures against their launch times; absent without launch times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch: Option<Launch>,
    /// Where the time went, T1 to T8, over the frames that came all the way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<Stage>,
    /// What those times consist of; absent when no message came all the way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<Split>,
    /// What the round trip `counter_used` is to be compared with; absent without an echo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counter_reference: Option<CounterReference>,
    /// What the phases of both ends left of their time; absent without events of phases.
    #[serde(default, skip_serializing_if = "Margins::is_empty")]
    pub margins: Margins,
    /// The same figures without the frames that a stopped host held up; absent when there are none such.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without_host_outliers: Option<WithoutHostOutliers>,
}

/// Round trips; each says its definition.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RoundTrips {
    /// T7 − T2: between the publisher's port out and in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire: Option<Dist>,
    /// T8 − T1: between the publisher's application side out and in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack: Option<Dist>,
    /// Cycles elapsed from the application phase that wrote a counter to the one that read it back; of
    /// first reads only, a counter read again is a `repeated` one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counter: Option<Dist>,
    /// The same as cycles used: elapsed + 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counter_used: Option<Dist>,
}

/// Jitter, by definition.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Jitter {
    /// |T3(k) − T3(k−1) − cycle| of consecutive counters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spacing_error: Option<Dist>,
    /// T2(k) − T2(k−1) − cycle of consecutive counters, with its sign.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packet_to_packet: Option<Dist>,
    /// |RTT(k) − RTT(k−1)| of the round trip `wire` of consecutive counters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip_variation: Option<Dist>,
}

/// Losses as numbers of messages. A place that nobody observed is left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[allow(non_snake_case)] // the papers' names, which are the keys
pub struct Loss {
    /// Messages published whose fate is known: what the shares refer to.
    pub published: u64,
    /// Messages still under way at the end, not in `published`.
    pub under_way: u64,
    /// Messages under way where trace records are missing, not in `published`; absent when none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unknown: u64,
    /// Published, never left the publisher's host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dP: Option<u64>,
    /// Arrived at the loopback, never answered or the answer never left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dL: Option<u64>,
    /// Lost between publisher and loopback, with a bridge between them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dbL: Option<u64>,
    /// Lost between loopback and publisher, with a bridge between them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dbP: Option<u64>,
    /// Lost between publisher and loopback, directly linked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dLinkL: Option<u64>,
    /// Lost between loopback and publisher, directly linked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dLinkP: Option<u64>,
    /// All of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dSum: Option<u64>,
    /// `dP` of `published`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dP_share: Option<f64>,
    /// `dL` of `published`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dL_share: Option<f64>,
    /// `dSum` of `published`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dSum_share: Option<f64>,
    /// Frames, messages and answers, that the queues of their interfaces lost for their launch times (SO_TXTIME), by cause;
    /// absent when none. They are in `dP` and `dL` too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launches: Option<LostLaunches>,
}

/// Frames that queues lost for their launch times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostLaunches {
    /// INVALID_PARAM: the launch time was past, or before that of a frame that had left, when the frame came.
    pub invalid_param: u64,
    /// TXTIME_MISSED: it passed while the frame waited.
    pub txtime_missed: u64,
    /// ENOBUFS without an explanation: the queue was full, or a gate closed at the launch time.
    pub enobufs: u64,
    /// Other reports of the queue.
    pub other: u64,
}

impl LostLaunches {
    /// Counts one by its error number; one that is no launch's is not counted.
    pub(crate) fn count(&mut self, errno: i32) {
        match errno {
            LAUNCH_INVALID => self.invalid_param += 1,
            LAUNCH_MISSED => self.txtime_missed += 1,
            LAUNCH_REFUSED => self.enobufs += 1,
            errno if errno >= LAUNCH_LOST => self.other += 1,
            _ => {}
        }
    }

    /// The sum of both.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            invalid_param: self.invalid_param + other.invalid_param,
            txtime_missed: self.txtime_missed + other.txtime_missed,
            enobufs: self.enobufs + other.enobufs,
            other: self.other + other.other,
        }
    }
}

/// What the application that ends the stream counted: the writer's with an echo, else the reader's.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Counters it never read; absent when that application's trace is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<u64>,
    /// Application phases that found nothing new. The cycles before the first message do not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeated: Option<u64>,
    /// Messages whose variables differed, at either end.
    pub inconsistent: u64,
    /// Messages that arrived after a newer one, at either end.
    #[serde(default)]
    pub stale: u64,
    /// Messages that arrived again although they were the newest, at either end.
    #[serde(default)]
    pub received_again: u64,
    /// Messages with another VID or PCP than the stream has, or untagged, at either end.
    #[serde(default)]
    pub wrong_tag: u64,
    /// Frames of others that were read by both ends. Those of publishers that nobody reads the kernel drops uncounted.
    #[serde(default)]
    pub foreign: u64,
    /// `missed` at the reader of a stream with an echo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed_at_reader: Option<u64>,
    /// `repeated` at the reader of a stream with an echo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeated_at_reader: Option<u64>,
    /// Messages that either end published with another value in place of a counter, during a breach. They are no frames
    /// of the stream otherwise. Absent when there were none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub substituted: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// How often one end of a stream found a condition, and for how long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BreachResult {
    /// Name of the host that watched.
    pub host: String,
    /// "writer" or "reader": which end of the stream it is.
    pub end: String,
    /// Name of the condition: inconsistent, missed, late, silent.
    pub condition: String,
    /// Name of what the end did meanwhile: count, stop, hold, override, safe.
    pub action: String,
    /// How often it began.
    pub times: u64,
    /// Cycles from each begin to its end (or that of the run), the good ones that it took to end included. A part of a
    /// run has those of its own cycles.
    pub cycles: u64,
    /// The longest of them; in a run of parts, the longest within one part.
    pub longest_cycles: u64,
    /// Whether it went on when the run, or this part of it, ended.
    pub lasting: bool,
}

/// What came from an application of somebody's own at one end of a stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApplicationResult {
    /// Name of the host.
    pub host: String,
    /// "writer" or "reader": which end of the stream it is.
    pub end: String,
    /// Whether it ever did anything.
    pub attached: bool,
    /// Cycles in which the engine looked for a new image of it.
    pub cycles: u64,
    /// How many of them had none: what was published then is what the application wrote last. At an end that publishes
    /// nothing, cycles in which it did not read.
    pub without_new: u64,
    /// The most of them in a row, those of earlier parts of a run included.
    pub longest_without: u64,
    /// Cycles in which what was published had a Status of severity Uncertain: the application said so, or neither read nor
    /// wrote for `receive_timeout`. Absent when none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub uncertain: u64,
    /// Cycles in which it had one of severity Bad: the application said so, or had not written yet. Absent when none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub bad: u64,
    /// Whether messages say so: their layout has a Status; absent at an end that publishes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_sent: Option<bool>,
    /// Cycles from the inputs that an image was made from to the publication that first held it; absent when no image
    /// said which inputs, and in a run of parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_after: Option<Dist>,
}

/// How often an end that takes one message a cycle read all that waited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainResult {
    /// Name of the host.
    pub host: String,
    /// "writer" or "reader": which end of the stream it is.
    pub end: String,
    /// How often on request.
    pub asked: u64,
    /// How often because messages were late by the same number of cycles for `drain_after` cycles.
    pub standing: u64,
    /// How many of both found nothing that waited.
    pub empty: u64,
    /// Messages read beyond one a cycle, in all of them.
    pub messages: u64,
}

/// Departures of the writer against their launch times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Launch {
    /// Frames that left (or, without transmit timestamps, were handed over) more than `late_after_ns` after their
    /// launch time.
    pub late: u64,
    /// What still counts as on time: a tenth of the cycle.
    pub late_after_ns: i64,
    /// T2 − launch, with its sign; absent without transmit timestamps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Dist>,
    /// What launched, in words: the text of `machine.pacing`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mechanism: Option<String>,
}

/// One stage of a frame's way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// "T2−T1" … "T8−T7".
    pub name: String,
    /// What happens in it and where.
    pub words: String,
    /// How long it took.
    pub spent: Dist,
}

/// Figures without the frames that were under way while a host was stopped.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WithoutHostOutliers {
    /// How many frames are left out.
    pub left_out: u64,
    /// T7 − T2 of the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip_wire: Option<Dist>,
    /// T3 − T2 of the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_way: Option<Dist>,
}

/// Lateness of one phase of one host, over all its streams.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostResult {
    /// Name of the host.
    pub host: String,
    /// Name of the phase: subscribe, application, publish, launch.
    pub phase: String,
    /// How late it began.
    pub late: Dist,
    /// How long it took.
    pub took: Dist,
    /// How often it began later than `outlier_after_ns`.
    pub outliers: u64,
    /// From where on lateness counts as an outlier of the host: max(a tenth of the cycle, 100 µs).
    pub outlier_after_ns: i64,
}

/// Whether the requirement is met.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Whether every item is; true when nothing is required.
    pub met: bool,
    /// One item a limit and stream.
    pub items: Vec<VerdictItem>,
}

/// One limit against one stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VerdictItem {
    /// Key of the quantity.
    pub quantity: String,
    /// Name of the stream.
    #[serde(default)]
    pub stream: String,
    /// "ns", "share", "cycles", "counters" or "messages": the unit of `limit` and `found`.
    #[serde(default)]
    pub unit: String,
    /// The most allowed.
    pub limit: Amount,
    /// The most found; null when not measured.
    pub found: Option<Amount>,
    /// Whether it was measured and does not exceed the limit.
    pub met: bool,
    /// The same in words.
    pub why: String,
}

/// A number of a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Amount {
    /// Nanoseconds, cycles, counters or messages.
    Whole(i64),
    /// A share between 0 and 1.
    Share(f64),
}

/// Something that went wrong, with its cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Incident {
    /// When it began, nanoseconds TAI.
    pub at_ns: i64,
    /// Which kind: see [`kinds`].
    pub kind: String,
    /// The cause, in words.
    pub cause: String,
    /// How many frames it made late or lost.
    pub frames: u64,
    /// How long it lasted, where it has a length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lasted_ns: Option<i64>,
    /// The stream or the host it happened to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
}

/// Kinds of incidents.
pub mod kinds {
    /// A process of the run ended before its time.
    pub const PROCESS_ENDED: &str = "process-ended";
    /// A phase of a station began late, or cycles were skipped.
    pub const HOST_LATE: &str = "host-late";
    /// A payload is so long that its frames miss the receive window of their cycle.
    pub const PAYLOAD_LATE: &str = "payload-late";
    /// A port is asked for more than its rate.
    pub const LINK_OVERLOAD: &str = "link-overload";
    /// Frames left after their launch time.
    pub const LAUNCH_LATE: &str = "launch-late";
    /// Frames were lost.
    pub const FRAMES_LOST: &str = "frames-lost";
    /// The interface of a station went down or away.
    pub const LINK_DOWN: &str = "link-down";
    /// Somebody set the time of a host.
    pub const CLOCK_STEP: &str = "clock-step";
    /// The queue of an interface lost frames for their launch times.
    pub const LAUNCH_LOST: &str = "launch-lost";
    /// The operating system refused to send frames.
    pub const SEND_REFUSED: &str = "send-refused";
    /// Nothing arrived although it was published.
    pub const WRITER_SILENT: &str = "writer-silent";
    /// The variables of a message differed.
    pub const INCONSISTENT_SET: &str = "inconsistent-set";
    /// Frames arrived with another tag.
    pub const WRONG_TAG: &str = "wrong-tag";
    /// Every counter comes back later by the same number of cycles.
    pub const STANDING_BACKLOG: &str = "standing-backlog";
    /// An end read messages whose variables differed.
    pub const BREACH_INCONSISTENT: &str = "breach-inconsistent";
    /// An end never got counters between two that it read.
    pub const BREACH_MISSED: &str = "breach-missed";
    /// An end read messages that had taken too long.
    pub const BREACH_LATE: &str = "breach-late";
    /// An end heard nothing for longer than its timeout.
    pub const BREACH_SILENT: &str = "breach-silent";
    /// An application outside had nothing new for long.
    pub const APPLICATION_SILENT: &str = "application-silent";
    /// An end of a stream left no trace, or its trace ends early.
    pub const TRACE_MISSING: &str = "trace-missing";
    /// So many frames came that are not taken that they cost the host.
    pub const FLOOD: &str = "flood";
    /// Frames found no room in the receive queue of a host.
    pub const RECEIVE_OVERFLOW: &str = "receive-overflow";
    /// Trace records found no room: the figures are incomplete.
    pub const TRACE_OVERFLOW: &str = "trace-overflow";
    /// Messages arrive before they left: the clocks of two hosts are further apart than was stated.
    pub const CLOCK_DISAGREEMENT: &str = "clock-disagreement";
    /// The clock error was not watched for as long as the run lasted.
    pub const CLOCK_UNWATCHED: &str = "clock-unwatched";
    /// A part of what a host measured is missing: its process was killed, or a disk was full.
    pub const PART_MISSING: &str = "part-missing";
}
