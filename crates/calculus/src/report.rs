//! The answer, in the form `downbeat/bound/1`.

use serde::{Deserialize, Serialize};

use crate::exact::{Bound, Number};

/// Bounds of all streams of a scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BoundReport {
    /// `downbeat/bound/1`.
    pub format: String,
    /// `packet` or `paper`.
    pub model: String,
    /// Name of the scenario.
    pub scenario: String,
    /// What the figures take for granted, in sentences.
    pub assumptions: Vec<String>,
    /// Streams, in the order of the scenario.
    pub streams: Vec<StreamBound>,
}

/// Bounds of one stream. Times in seconds; definitions as in every result (T1 … T8).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StreamBound {
    /// Its name.
    pub name: String,
    /// T3 − T2 at most, counted from the frame's entry into the writer's queue.
    pub one_way: Bound,
    /// T3 − T2 at most, from the phases of the writer and of the gates on the way.
    #[serde(default = "absent")]
    pub one_way_scheduled: Bound,
    /// T3 − T2 at least: a lone frame, stored and forwarded.
    pub one_way_best: Bound,
    /// |T3(k) − T3(k−1) − cycle| at most: one_way − one_way_best, or less by the phases; plus host jitter without launch
    /// time.
    pub spacing_error: Bound,
    /// T4 − T1 at most, whatever the phase of the reader.
    pub one_way_stack: Bound,
    /// T4 − T1 at most, from the phases of writer and reader.
    pub one_way_stack_scheduled: Bound,
    /// Round trips; absent without echo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip: Option<RoundTrip>,
    /// The formulas, with this stream's numbers in them.
    pub certificate: Vec<String>,
    /// Ports of the way there and, with echo, of the way back.
    pub ports: Vec<PortBound>,
}

fn absent() -> Bound {
    Bound::Unbounded("the file was written before this figure was".into())
}

/// Round trips of one stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoundTrip {
    /// T7 − T2 at most, whatever the phase of the reader.
    pub wire: Bound,
    /// T7 − T2 at least, whatever the phase.
    pub wire_best: Bound,
    /// T8 − T1 at most, whatever the phases.
    pub stack: Bound,
    /// T8 − T1 at least, whatever the phases.
    pub stack_best: Bound,
    /// T7 − T2 at most, from the phases of both hosts.
    pub wire_scheduled: Bound,
    /// T7 − T2 at least, from the phases of both hosts.
    pub wire_scheduled_best: Bound,
    /// Change of T7 − T2 from frame to frame at most: wire_scheduled − wire_scheduled_best.
    pub variation: Bound,
    /// T8 − T1 at most, from the phases of both hosts.
    pub stack_scheduled: Bound,
    /// T8 − T1 at least, from the phases of both hosts.
    pub stack_scheduled_best: Bound,
    /// Application cycles from writing a counter to reading it back at most, from the phases of both hosts.
    pub counter: Count,
    /// The same at least.
    pub counter_best: Count,
}

/// A number of cycles, or why there is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Count {
    /// So many.
    At {
        /// Elapsed from one application phase to the other.
        cycles: u64,
        /// Touched, first and last included: elapsed + 1.
        used: u64,
    },
    /// No bound, because of this.
    Unbounded {
        /// The reason.
        unbounded: String,
    },
}

/// Which way a port is passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From writer to reader.
    Out,
    /// From reader to writer.
    Back,
}

/// One port's part in a bound.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PortBound {
    /// "host → next host".
    pub port: String,
    /// Which way.
    pub direction: Direction,
    /// Its queue discipline.
    pub queue: String,
    /// Traffic class of the stream there.
    pub class: u8,
    /// Rate of the line, bit/s.
    pub line_rate: u64,
    /// Bits of the stream's frame as the model counts them.
    pub frame_bits: Number,
    /// What this port adds to the delay.
    pub contribution: Bound,
    /// The numbers behind it; absent when there is no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terms: Option<Terms>,
}

/// The numbers behind one port's part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Terms {
    /// How the service came about.
    pub service: String,
    /// R, bit/s.
    pub service_rate: Number,
    /// T.
    pub service_latency: Bound,
    /// L_N: largest lower-priority frame, bits.
    pub lower_frame_bits: Number,
    /// L_max: largest frame of the class, bits.
    pub largest_frame_bits: Number,
    /// b: burst of the class at this queue, bits.
    pub burst_bits: Number,
    /// r: rate of the class, bit/s.
    pub arrival_rate: Number,
    /// Ports with the same number in one direction share one burst.
    pub stretch: u32,
    /// (b − L)/min R, at the slowest port of each stretch, with b where the stretch begins.
    pub burst_delay: Bound,
    /// L_max/C, or L/C at the last port of a stretch.
    pub transmission: Bound,
    /// Latency of the bridge in front of the port.
    pub bridge_latency: Bound,
    /// Of the cable behind the port.
    pub propagation: Bound,
    /// Frames of the class waiting here, at most, bits (not counting the one being sent).
    pub backlog_bits: Number,
    /// r/R in percent.
    pub utilisation_percent: Number,
}
