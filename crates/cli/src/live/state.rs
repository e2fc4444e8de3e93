//! What is known of a run so far.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lab::{Beginning, TraceState, Turn, Watch};
use measure::live::Aggregate;
use measure::{Event, Live};
use scenario::Scenario;
use units::{Nanos, Tai};

/// What is known of a run so far.
pub(crate) struct State {
    pub(crate) scenario: Scenario,
    pub(crate) figures: Aggregate,
    /// How long the run is to last.
    pub(crate) duration: Option<Nanos>,
    /// Since cycle 0; below zero before it.
    pub(crate) elapsed: Nanos,
    /// Start of cycle 0.
    pub(crate) start: Tai,
    /// By which right the run makes its network; empty before the run has begun.
    pub(crate) rights: &'static str,
    /// For each host, what was granted and refused.
    pub(crate) granted: Vec<(String, Vec<String>)>,
    pub(crate) traces: Vec<TraceState>,
    pub(crate) notes: Vec<String>,
}

/// The state, for the thread of the run and those who read it.
pub(crate) struct Shared {
    state: Mutex<State>,
    end: Arc<AtomicBool>,
}

impl Shared {
    /// A run that has not begun.
    pub(crate) fn new(scenario: &Scenario, duration: Option<Nanos>) -> Arc<Self> {
        let state = State {
            scenario: scenario.clone(),
            figures: Aggregate::new(scenario),
            duration,
            elapsed: Nanos::ZERO,
            start: scenario.base_time,
            rights: "",
            granted: Vec::new(),
            traces: Vec::new(),
            notes: Vec::new(),
        };
        Arc::new(Self { state: Mutex::new(state), end: Arc::default() })
    }

    /// The state as it is. A reader that panicked has changed nothing in it.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The flag that ends the run when it is set.
    pub(crate) fn end(&self) -> &Arc<AtomicBool> {
        &self.end
    }
}

/// Fills the state. `begun` is called once when the run begins, before its first cycle; `progress` at every turn.
pub(crate) struct Watcher<B, P> {
    shared: Arc<Shared>,
    /// Events since the last turn: the lock is taken once a turn.
    events: Vec<Event>,
    begun: B,
    progress: P,
}

impl<B: FnMut(), P: FnMut(&Live, Nanos)> Watcher<B, P> {
    pub(crate) fn new(shared: Arc<Shared>, begun: B, progress: P) -> Self {
        Self { shared, events: Vec::new(), begun, progress }
    }
}

impl<B: FnMut(), P: FnMut(&Live, Nanos)> Watch for Watcher<B, P> {
    fn begins(&mut self, beginning: &Beginning<'_>) {
        let mut state = self.shared.state();
        state.rights = beginning.rights;
        state.granted = beginning.granted.iter().map(|(host, lines)| ((*host).to_owned(), lines.to_vec())).collect();
        drop(state);
        (self.begun)();
    }

    fn event(&mut self, event: &Event) {
        self.events.push(*event);
    }

    fn turn(&mut self, turn: &Turn<'_>) -> ControlFlow<()> {
        let mut state = self.shared.state();
        self.events.drain(..).for_each(|event| state.figures.push(&event));
        state.figures.turn(turn.now);
        (state.elapsed, state.start) = (turn.elapsed, turn.now - turn.elapsed);
        state.traces = turn.traces.to_vec();
        state.notes = turn.notes.to_vec();
        drop(state);
        (self.progress)(turn.live, turn.elapsed);
        if self.shared.end.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
