//! The form of explanations in `run.json`: keys `split`, `counter_reference` and `margins` of a stream.

use serde::{Deserialize, Serialize};

use crate::Dist;

/// What the time of a message consists of: the round trip `stack` (T8 − T1) or, of a stream without an echo,
/// `one_way_stack` (T4 − T1).
///
/// The four parts of a message add up to its time to the nanosecond, so their means add up to its mean; their
/// percentiles need not, because they are of different messages. `median`, `p99` and `worst` are single messages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Split {
    /// What is split: "round_trip.stack" or "one_way_stack".
    pub of: String,
    /// Waiting that a punctual host with a stack of zero cost would also have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Dist>,
    /// System calls, decoding and queueing in a host: the rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack: Option<Dist>,
    /// T3 − T2 and, with an echo, T7 − T6.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire: Option<Dist>,
    /// A phase on its way was due and had not begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<Dist>,
    /// The message of median time among those with all four parts, nearest rank.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median: Option<SplitMessage>,
    /// The message at the 99th percentile of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99: Option<SplitMessage>,
    /// The ten that took longest, the longest first, whether they have all parts or not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub worst: Vec<SplitMessage>,
}

/// One message and its parts. A part that cannot be told for want of a stamp or of a phase's event is absent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitMessage {
    /// Its counter.
    pub counter: u64,
    /// The cycle whose publish phase built it.
    pub cycle: i64,
    /// Its time: T8 − T1, or T4 − T1.
    pub whole_ns: i64,
    /// See [`Split::schedule`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule_ns: Option<i64>,
    /// See [`Split::stack`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack_ns: Option<i64>,
    /// See [`Split::wire`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire_ns: Option<i64>,
    /// See [`Split::host`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_ns: Option<i64>,
    /// T1 … T8 in nanoseconds TAI, those that are known.
    #[serde(flatten)]
    pub t: SplitTimes,
}

/// T1 … T8 in nanoseconds TAI.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)] // see the table of `FrameRow`
pub struct SplitTimes {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub t1: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub t2: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub t3: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub t4: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub t5: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub t6: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub t7: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub t8: Option<i64>,
}

/// What the round trip `counter_used` is to be compared with, in cycles used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CounterReference {
    /// What punctual hosts with stacks of zero cost and lone frames on the scenario's links would use.
    pub scenario_best: i64,
    /// The best case of Gopiga et al., figure 14: 5. Only where the network is one link or one line, like theirs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed_001_best: Option<i64>,
    /// Their worst case: 9.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed_001_worst: Option<i64>,
    /// How many first readings used how many cycles, ascending; values beyond the 64 lowest are in the last entry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seen: Vec<CounterSeen>,
}

/// How many first readings used so many cycles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CounterSeen {
    /// Cycles used.
    pub used: i64,
    /// First readings.
    pub readings: u64,
}

/// Safety margins of both ends of a stream (Gopiga et al., figure 11).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Margins {
    /// Of the writer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writer: Option<EndMargins>,
    /// Of the reader.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reader: Option<EndMargins>,
}

impl Margins {
    /// Whether no end has any.
    pub fn is_empty(&self) -> bool {
        self.writer.is_none() && self.reader.is_none()
    }
}

/// Safety margins of one end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EndMargins {
    /// Name of the host.
    pub host: String,
    /// From the end of the subscribe phase to the application phase; absent at an end that reads nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfer_safety_margin: Option<Margin>,
    /// From the end of the application phase to the publish phase; absent at an end that publishes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application_safety_margin: Option<Margin>,
    /// How long the shared image is held, to be added to the run times: 0, because the image between the phases is
    /// wait-free and nobody holds it.
    pub held_ns: i64,
    /// The smallest phases that would hold, with the largest values seen and with those at 99.9 %.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub smallest_phases: Vec<SmallestPhases>,
    /// The same in words.
    pub advice: String,
}

/// What two successive phases leave between the end of the first and the beginning of the second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Margin {
    /// From the beginning of the first phase to that of the second, as configured.
    pub configured_ns: i64,
    /// The same as a share of the cycle.
    pub configured_share: f64,
    /// What is left after the largest lateness and the largest run time of the first phase; negative is violated.
    pub found_ns: i64,
    /// The same as a share of the cycle.
    pub found_share: f64,
    /// Largest lateness of the first phase.
    pub late_max_ns: i64,
    /// Its largest run time.
    pub took_max_ns: i64,
    /// How often the first phase ran.
    pub count: u64,
    /// How often it ended after the second was due.
    pub violated: u64,
}

/// The smallest phases that hold, as shares of the cycle rounded up to a thousandth, `subscribe` staying as it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SmallestPhases {
    /// With which lateness and run time: "max" or "p99_9".
    pub with: String,
    /// The subscribe phase, as configured.
    pub subscribe: f64,
    /// The application phase; not before the receive window closes. Absent when it does not fit into the cycle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<f64>,
    /// The publish phase; absent when it does not fit into the cycle, or at an end that publishes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publish: Option<f64>,
}
