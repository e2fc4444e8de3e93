//! Why a round trip took as long as it did, and what the hosts did to it.
//!
//! [`parts`] splits the time of every message, [`margins`] says what the phases left of their time, and
//! [`counter_reference`] what the plan alone would take. They compare what happened with the [`Beat`] of the hosts: the
//! instants of their phases.

mod beat;
mod counter;
mod form;
mod margins;
mod split;
mod summary;

pub use form::{
    CounterReference, CounterSeen, EndMargins, Margin, Margins, SmallestPhases, Split, SplitMessage, SplitTimes,
};
pub use split::Parts;

pub(crate) use beat::Beat;
pub(crate) use counter::counter_reference;
pub(crate) use margins::margins;
pub(crate) use split::parts;
pub(crate) use summary::split;
