//! What the screen shows, taken out of the state while its lock is held: drawing then holds nobody up.

use measure::live::{Counts, PhaseFigures, Quantity, Ran, SpanFigures, StreamFigures};
use measure::{Dist, Phase, Side};
use units::{Nanos, Tai};

use super::state::State;
use super::words;

/// How many of the last happenings are taken along.
const HAPPENINGS: usize = 20;

/// All that is shown.
pub(super) struct Picture {
    pub(super) scenario: String,
    pub(super) cycle: Nanos,
    pub(super) elapsed: Nanos,
    pub(super) duration: Option<Nanos>,
    /// Empty before the run has begun.
    pub(super) rights: String,
    pub(super) events_per_second: Option<f64>,
    /// Largest share of a trace ring that was full, and records lost.
    pub(super) trace: (f64, u64),
    pub(super) streams: Vec<Row>,
    pub(super) hosts: Vec<HostRow>,
    /// Newest first.
    pub(super) told: Vec<String>,
}

/// One stream.
pub(super) struct Row {
    pub(super) name: String,
    pub(super) per_second: Option<f64>,
    pub(super) counts: Counts,
    /// Name of the quantity that table and curve show: the round trip, or one way.
    pub(super) shown: &'static str,
    /// Its last values, in the order of time, ns.
    pub(super) recent: Vec<i64>,
    /// Their distribution.
    pub(super) window: Option<Dist>,
    /// Its maximum over the run.
    pub(super) max: Option<Nanos>,
    /// Each quantity that was measured.
    pub(super) details: Vec<Detail>,
    /// Writer, reader: name of the host and its phases.
    pub(super) ends: [(String, [Option<Ran>; 4]); 2],
    pub(super) base: Tai,
    pub(super) cycle: Nanos,
}

/// One quantity of a stream.
pub(super) struct Detail {
    pub(super) name: &'static str,
    /// Whether it counts cycles instead of nanoseconds.
    pub(super) cycles: bool,
    pub(super) window: Dist,
    pub(super) whole: Dist,
}

/// How late the phases of a host began.
pub(super) struct HostRow {
    pub(super) name: String,
    /// Those that ran: last, p99 and maximum over the run, ns, and outliers.
    pub(super) phases: Vec<(Phase, [i64; 3], u64)>,
}

/// Which streams get their details.
#[derive(Debug, Clone, Copy)]
pub(super) enum Details {
    /// One: going through the histograms of all would hold the run's thread up.
    Of(usize),
    /// All, before the picture is frozen.
    All,
}

impl Picture {
    pub(super) fn of(state: &State, details: Details) -> Self {
        let scenario = &state.scenario;
        let fill = |trace: &lab::TraceState| trace.found as f64 / trace.capacity.max(1) as f64;
        let streams = scenario.streams.iter().zip(state.figures.streams()).enumerate();
        let mut happenings: Vec<_> = state.figures.happenings().collect();
        happenings.sort_by_key(|happening| std::cmp::Reverse(happening.until));
        let happenings = happenings.into_iter().take(HAPPENINGS);
        let happenings = happenings.map(|happening| words::happening(happening, scenario, state.start));
        Self {
            scenario: scenario.name.clone(),
            cycle: scenario.cycle,
            elapsed: state.elapsed,
            duration: state.duration,
            rights: words::rights(state.rights, &state.granted),
            events_per_second: state.figures.events_per_second(),
            trace: (
                state.traces.iter().map(fill).fold(0.0, f64::max),
                state.traces.iter().map(|trace| trace.lost).sum(),
            ),
            streams: streams
                .map(|(number, (stream, figures))| {
                    let wanted = match details {
                        Details::Of(chosen) => chosen == number,
                        Details::All => true,
                    };
                    let end = |host, side| (scenario.host(host).name.clone(), *figures.phases(side));
                    let (shown, span) = shown(figures);
                    Row {
                        name: stream.name.clone(),
                        per_second: figures.published_per_second(),
                        counts: figures.counts(),
                        shown,
                        recent: if wanted { span.recent().collect() } else { Vec::new() },
                        window: span.window(),
                        max: span.whole().max(),
                        details: if wanted { all_details(figures) } else { Vec::new() },
                        ends: [end(stream.writer, Side::Writer), end(stream.reader, Side::Reader)],
                        base: scenario.base_time,
                        cycle: stream.cycle,
                    }
                })
                .collect(),
            hosts: hosts(state),
            told: state.notes.iter().rev().cloned().chain(happenings).collect(),
        }
    }
}

/// The round trip `wire`, or what comes next to it: `stack` without kernel timestamps, one way without an echo.
fn shown(figures: &StreamFigures) -> (&'static str, &SpanFigures) {
    let named = [
        ("round trip wire", Quantity::RoundTripWire),
        ("round trip stack", Quantity::RoundTripStack),
        ("one way", Quantity::OneWay),
        ("one way stack", Quantity::OneWayStack),
    ];
    let there = named.into_iter().filter_map(|(name, quantity)| Some((name, figures.span(quantity)?)));
    let first = there.clone().find(|(_, span)| span.whole().count() > 0).or_else(|| there.clone().next());
    // Every stream has a one-way delay, so there is one.
    first.unwrap_or_else(|| ("spacing", figures.span(Quantity::Spacing).expect("every stream has a spacing")))
}

fn all_details(figures: &StreamFigures) -> Vec<Detail> {
    let span = |name, quantity| {
        let span = figures.span(quantity)?;
        Some(Detail { name, cycles: false, window: span.window()?, whole: span.whole().distribution()? })
    };
    let counter = figures.round_trip_counter();
    let counter = counter.window().zip(counter.whole());
    [
        span("round trip wire", Quantity::RoundTripWire),
        span("round trip stack", Quantity::RoundTripStack),
        counter.map(|(window, whole)| Detail { name: "counter, cycles", cycles: true, window, whole }),
        span("one way", Quantity::OneWay),
        span("one way stack", Quantity::OneWayStack),
        span("spacing", Quantity::Spacing),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn hosts(state: &State) -> Vec<HostRow> {
    let row = |figures: &[PhaseFigures]| {
        let phase = |figures: &PhaseFigures| {
            let whole = figures.late.whole().distribution()?;
            Some((figures.phase, [figures.late.last()?.0, whole.p99, whole.max], figures.outliers))
        };
        HostRow {
            name: state.scenario.host(figures[0].host).name.clone(),
            phases: figures.iter().filter_map(phase).collect(),
        }
    };
    state.figures.phases().chunks(Phase::ALL.len()).map(row).collect()
}
