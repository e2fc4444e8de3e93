//! Figures of a run while it goes on, in memory that does not grow with it.
//!
//! [`Aggregate`] takes the events that the [`Collector`](crate::Collector) takes, and counts instead of keeping them. A
//! message is remembered for half a second of cycles (256 to 8192 messages): what comes later than that is counted as
//! [`Counts::out_of_reach`]. Within it, counts are those of the final summary, in whatever order the traces of both ends
//! come in, as long as each is in its own order.
//!
//! A stream takes about 0.6 MB and 160 B a message remembered, a phase of a host 0.1 MB.
//!
//! ```
//! use downbeat_measure::live::{Aggregate, Quantity};
//! use downbeat_measure::{Event, EventKind, Side};
//! use scenario::{LineSpec, line};
//! use units::{Nanos, Tai};
//!
//! let mut figures = Aggregate::new(&line(&LineSpec::default()));
//! let mut push = |side, kind| figures.push(&Event { stream: 0, side, kind });
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
//!         cycle: 1, counter: 1, stamp: Some(Tai(161_000)), decoded: Tai(250_000), tag: Some((3000, 7)),
//!         superseded: None, inconsistent: false,
//!     },
//! );
//! let stream = &figures.streams()[0];
//! assert_eq!(stream.counts().published, 1);
//! assert_eq!(stream.span(Quantity::OneWay).unwrap().last(), Some(Nanos(1_000)));
//! ```

mod happening;
mod slots;
mod span;
mod stream;

use scenario::{HostId, Scenario};
use units::{Nanos, Tai};

use crate::{Event, EventKind, Phase};

use happening::Happenings;
pub use happening::{Happening, What};
pub use span::{BOUNDS, CYCLE_BOUNDS, CycleFigures, RECENT, SpanFigures};
pub use stream::{Counts, EndCounts, Quantity, Ran, StreamFigures};

/// Turns over which rates are taken: at 20 ms a turn, one second.
const RATE_TURNS: usize = 50;

/// Counts events as they come.
#[derive(Debug)]
pub struct Aggregate {
    streams: Vec<StreamFigures>,
    phases: Vec<PhaseFigures>,
    /// For each stream, where in `phases` those of its writer and of its reader begin.
    places: Vec<[usize; 2]>,
    happenings: Happenings,
    events: Rate,
}

/// How one phase of one host falls, over all its streams.
#[derive(Debug)]
pub struct PhaseFigures {
    /// Which host.
    pub host: HostId,
    /// Which phase.
    pub phase: Phase,
    /// How late it began.
    pub late: SpanFigures,
    /// How long the last one took.
    pub took: Nanos,
    /// How long the longest took.
    pub longest: Nanos,
    /// How often it began later than max(a tenth of the cycle, 100 µs).
    pub outliers: u64,
}

/// A count, and how fast it grows.
#[derive(Debug, Clone)]
pub(crate) struct Rate {
    pub(crate) count: u64,
    turns: [(i64, u64); RATE_TURNS],
    turn: usize,
}

impl Default for Rate {
    fn default() -> Self {
        Self { count: 0, turns: [(i64::MIN, 0); RATE_TURNS], turn: 0 }
    }
}

impl Rate {
    fn turn(&mut self, now: Tai) {
        self.turns[self.turn] = (now.0, self.count);
        self.turn = (self.turn + 1) % RATE_TURNS;
    }

    /// A second, over the last turns; `None` before the second turn.
    fn per_second(&self) -> Option<f64> {
        let known = self.turns.iter().filter(|(at, _)| *at != i64::MIN);
        let (first, last) = (known.clone().min()?, known.max()?);
        let span = last.0.checked_sub(first.0).filter(|span| *span > 0)?;
        Some(last.1.saturating_sub(first.1) as f64 * 1e9 / span as f64)
    }
}

impl Aggregate {
    /// No events yet. The only place that allocates.
    pub fn new(scenario: &Scenario) -> Self {
        let mut phases: Vec<PhaseFigures> = Vec::new();
        let mut place_of = |host: HostId| {
            phases.iter().position(|figures| figures.host == host).unwrap_or_else(|| {
                phases.extend(Phase::ALL.map(|phase| PhaseFigures::new(host, phase)));
                phases.len() - Phase::ALL.len()
            })
        };
        let places = scenario.streams.iter().map(|stream| [stream.writer, stream.reader].map(&mut place_of)).collect();
        let streams = scenario.streams.iter().map(StreamFigures::new).collect();
        Self { streams, phases, places, happenings: Happenings::default(), events: Rate::default() }
    }

    /// Takes an event. One of a stream that the scenario lacks is only counted.
    pub fn push(&mut self, event: &Event) {
        self.events.count += 1;
        let number = usize::from(event.stream);
        let Some(stream) = self.streams.get_mut(number) else { return };
        if let EventKind::Phase { phase, late, took, .. } = event.kind {
            let figures = &mut self.phases[self.places[number][event.side as usize] + phase as usize];
            figures.ran(late, took, late.0 > stream.outlier_after);
        }
        if let Some((at, what)) = stream.push(event.side, event.kind) {
            self.happenings.note(Happening { at, until: at, stream: event.stream, side: event.side, what, times: 1 });
        }
    }

    /// Call it about every 20 ms, for the rates.
    pub fn turn(&mut self, now: Tai) {
        self.events.turn(now);
        self.streams.iter_mut().for_each(|stream| stream.turn(now));
    }

    /// One entry a stream of the scenario.
    pub fn streams(&self) -> &[StreamFigures] {
        &self.streams
    }

    /// Four entries, in the order of [`Phase::ALL`], for each host with an end of a stream.
    pub fn phases(&self) -> &[PhaseFigures] {
        &self.phases
    }

    /// The last things that went wrong, oldest first.
    pub fn happenings(&self) -> impl DoubleEndedIterator<Item = &Happening> {
        self.happenings.iter()
    }

    /// How many events were taken.
    pub fn events(&self) -> u64 {
        self.events.count
    }

    /// Events a second, over the last second; `None` before the second turn.
    pub fn events_per_second(&self) -> Option<f64> {
        self.events.per_second()
    }
}

impl PhaseFigures {
    fn new(host: HostId, phase: Phase) -> Self {
        Self { host, phase, late: SpanFigures::new(), took: Nanos::ZERO, longest: Nanos::ZERO, outliers: 0 }
    }

    fn ran(&mut self, late: Nanos, took: Nanos, outlier: bool) {
        self.late.record(late);
        self.took = took;
        self.longest = self.longest.max(took);
        self.outliers += u64::from(outlier);
    }
}
