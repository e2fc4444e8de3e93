//! Trace events, frame rows, statistics and the form of results.
//!
//! Both ends of a stream report [`Event`]s, in a run and in the simulator alike. A [`Collector`] takes them in any
//! order, gives live figures, and joins them into one [`FrameRow`] a message with its fate, and [`incidents`](Incident)
//! with their causes. [`Parts`] say what the time of each message consists of, [`Margins`] what the
//! phases left of theirs. [`summarise`] makes the form of `run.json` out of it, [`write_run`] and [`read_run`] keep it.
//!
//! What hosts on machines of their own left in a folder each, [`join_folders`] joins.
//!
//! [`LatencyFile`] is the other form: a host's wake-up latencies, counted in a [`Histogram`].
//! [`PtpFile`] is a third: how well a clock follows its grandmaster.
//!
//! ```
//! use downbeat_measure::{Collector, Event, EventKind, Kind, Machine, Side, summarise};
//! use scenario::{LineSpec, line};
//! use units::Tai;
//!
//! let scenario = line(&LineSpec::default());
//! let mut collector = Collector::new(&scenario);
//! let stream = &scenario.streams[0];
//! let mut push = |side, kind| collector.push(Event { stream: 0, side, kind });
//! push(
//!     Side::Writer,
//!     EventKind::Published {
//!         cycle: 0, counter: 1, sequence: 1, handle: 0, at: Tai(150_000), launch: None, bytes: 77, repeated: false,
//!     },
//! );
//! push(Side::Writer, EventKind::Left { handle: 0, at: Tai(160_000) });
//! push(
//!     Side::Reader,
//!     EventKind::Arrived {
//!         cycle: 1, counter: 1, stamp: Some(Tai(161_000)), decoded: Tai(250_000),
//!         tag: Some((stream.vid, stream.pcp)), superseded: None, inconsistent: false,
//!     },
//! );
//! let observations = collector.finish(&scenario);
//! let run = summarise(&scenario, &observations, Kind::Simulated, Machine::new());
//! assert_eq!(run.streams[0].one_way.as_ref().unwrap().max, 1_000);
//! assert!(run.streams[0].round_trip.wire.is_none()); // not measured, hence absent
//! ```
#![forbid(unsafe_code)]

mod breaches;
mod collect;
mod cut;
mod dist;
mod drains;
mod explain;
mod fates;
mod form;
mod frames_file;
mod gaps;
mod halves;
mod histogram;
mod incidents;
mod index;
mod join;
mod latency;
pub mod live;
mod outside;
mod ptp;
mod refusals;
mod rows;
mod stamp_clock;
mod store;
mod summary;
mod trace;
mod verdict;
mod whole;
mod words;

pub use breaches::LiveBreach;
pub use collect::{Collector, Live, Observations, StreamCounts, StreamObservations};
pub use dist::Dist;
pub use explain::{
    CounterReference, CounterSeen, EndMargins, Margin, Margins, Parts, SmallestPhases, Split, SplitMessage, SplitTimes,
};
pub use form::*;
pub use halves::{
    Clocks, ClocksFrom, JoinClocks, JoinError, Joined, MOST_MESSAGES, OneWayRange, WatchedClock, join_folders,
    join_into,
};
pub use histogram::{Bucket, Histogram};
pub use latency::*;
pub use ptp::*;
pub use rows::{FrameRow, flags};
pub use stamp_clock::{STAMP_CLOCKS, StampClock, stamp_clocks};
pub use store::{
    ENDS_FILE, ResultsError, part_folders, read_run, read_run_file, run_folder, utc_text, write_run, write_whole,
};
pub use summary::{fingerprint, summarise};
pub use trace::{
    DrainCause, Event, EventKind, LAUNCH_INVALID, LAUNCH_LOST, LAUNCH_MISSED, LAUNCH_REFUSED, LAUNCH_SKIPPED, Phase,
    Record, Refused, Side,
};
pub use whole::Whole;
