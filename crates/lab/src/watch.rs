//! Watching a run while it goes on.

use std::ops::ControlFlow;

use measure::{Event, Live};
use units::{Nanos, Tai};

/// Someone who watches a run. All calls come from the thread that called [`crate::run()`], none from a cyclic one.
///
/// Closures of the form `|live: &Live, elapsed: Nanos|` are watchers too.
pub trait Watch {
    /// The hosts are ready. Turns follow, with `elapsed` below zero until cycle 0 begins.
    fn begins(&mut self, beginning: &Beginning<'_>) {
        _ = beginning;
    }

    /// An event that has come out of a trace ring: every one of the run, each ring's in its own order.
    fn event(&mut self, event: &Event) {
        _ = event;
    }

    /// Called about every 20 ms, and once when all has come in; a break ends the run as Ctrl-C does.
    fn turn(&mut self, turn: &Turn<'_>) -> ControlFlow<()>;
}

/// How a run begins.
#[derive(Debug)]
pub struct Beginning<'a> {
    /// By which right the run makes its network.
    pub rights: &'static str,
    /// For each host with an end of a stream, its name and what its threads were granted and refused, a line each.
    pub granted: &'a [(&'a str, &'a [String])],
}

/// How a run stands.
#[derive(Debug)]
pub struct Turn<'a> {
    /// The instant.
    pub now: Tai,
    /// Since the start of cycle 0; below zero before it, which takes long where a gate schedule is still to come.
    pub elapsed: Nanos,
    /// Figures over all streams.
    pub live: &'a Live,
    /// The trace rings, one entry a host with an end of a stream.
    pub traces: &'a [TraceState],
    /// What there is to tell so far, in words.
    pub notes: &'a [String],
}

/// The trace rings of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceState {
    /// Its name.
    pub host: String,
    /// Records found in the fullest of its rings at this turn.
    pub found: usize,
    /// How many a ring holds.
    pub capacity: usize,
    /// Records that found no room so far, in all its rings.
    pub lost: u64,
}

impl<F: FnMut(&Live, Nanos)> Watch for F {
    fn turn(&mut self, turn: &Turn<'_>) -> ControlFlow<()> {
        self(turn.live, turn.elapsed);
        ControlFlow::Continue(())
    }
}
