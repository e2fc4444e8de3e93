//! What the picture of the cycle shows: the plan of each host, and where frames were on median.

use maud::{Markup, html};
use scenario::{HostKind, Stream};

use crate::charts::Width;
use crate::charts::cycle::{self, Instant, Picture, Plan, Row, Stop, Way};
use crate::charts::ecdf::quantile;
use crate::group::{Group, Run, sorted};
use crate::text::{cycles, plain_span, short_span};
use crate::verdict::heading;

/// Frames looked at for the medians; more would not move them visibly.
const ENOUGH: usize = 20_000;
/// Cycles drawn at most: the best counter round trip of a bridged loop takes five.
const MOST_CYCLES: f64 = 6.0;

/// The cycle of a stream, drawn to scale.
pub(crate) fn section(group: &Group<'_>, index: usize, level: u8) -> Markup {
    let stream = &group.scenario.streams[index];
    let seen = group.measured_first().find_map(|run| {
        let (ways, stops) = ways(run, group, index);
        (!ways.is_empty()).then_some((run, ways, stops))
    });
    let (run, ways, stops) = match seen {
        Some((run, ways, stops)) => (Some(run), ways, stops),
        None => (None, Vec::new(), Vec::new()),
    };
    let last = ways.iter().map(|w| w.arrives.1.at).chain(stops.iter().map(|s| s.instant.at)).fold(0.0, f64::max);
    let length = (last / stream.cycle.0 as f64).floor() + 1.0;
    let picture = Picture {
        title: format!("The cycle of {} to scale", stream.name),
        description: description(&ways, stream),
        cycle: stream.cycle.0 as f64,
        cycles: length.clamp(2.0, MOST_CYCLES) as usize,
        rows: rows(group, stream),
        ways,
        stops,
    };
    html! {
        section.card {
            (heading(level, html! { "The cycle to scale" @if group.scenario.streams.len() > 1 { small.note { " " (stream.name) } } }))
            p.note {
                "Cycles of " (plain_span(stream.cycle.0 as f64)) ". Bands are what the scenario plans. "
                @if let Some(run) = run { "The bold line is one frame's way, at the medians of the " (run.label) ": open dots where a host has it in its hands, full dots where it leaves or enters a port. Bars beside its stops span the 1st to the 99th percentile; fainter arrows are the frames of the other cycles." }
                @else { "No run has the stamps to draw a frame's way." }
                @if length > MOST_CYCLES { " The frame comes back after " (cycles(length)) "; the first " (cycles(MOST_CYCLES)) " are drawn." }
            }
            ul.legend {
                li { (swatch("phase subscribe")) "subscribe window" }
                li { (swatch("phase application")) "application may run" }
                li { (swatch("phase publish")) "publish phase begins" }
                @if stream.launch { li { svg viewBox="0 0 30 14" aria-hidden="true" { path class="launch" d="M15 2l5 5l-5 5l-5 -5z" {} } "launch instant" } }
            }
            figure { @for width in Width::BOTH { (cycle::draw(&picture, width)) } }
        }
    }
}

fn swatch(class: &str) -> Markup {
    html! { svg viewBox="0 0 30 14" aria-hidden="true" { rect class=(class) x="0" y="1" width="30" height="12" {} } }
}

fn rows(group: &Group<'_>, stream: &Stream) -> Vec<Row> {
    let scenario = group.scenario;
    let hosts = std::iter::once(stream.writer).chain(stream.path.iter().map(|port| scenario.port(*port).peer));
    hosts
        .map(|id| {
            let host = scenario.host(id);
            let publishes = id == stream.writer || (id == stream.reader && stream.echo);
            let of = |fraction: scenario::Fraction| fraction.of(stream.cycle).0 as f64;
            let plan = (host.kind == HostKind::Station).then(|| {
                let subscribe = of(host.phases.subscribe);
                Plan {
                    subscribe: (subscribe, subscribe + of(host.phases.window)),
                    application: of(host.phases.application),
                    publish: publishes.then(|| of(host.phases.publish)),
                    launch: (publishes && stream.launch)
                        .then(|| stream.offset.0.rem_euclid(stream.cycle.0.max(1)) as f64),
                }
            });
            Row { name: host.name.clone(), plan }
        })
        .collect()
}

/// Out and back, from the start of the cycle in which the publisher handed over.
fn ways(run: &Run<'_>, group: &Group<'_>, index: usize) -> (Vec<Way>, Vec<Stop>) {
    let stream = &group.scenario.streams[index];
    let base = group.scenario.base_time.0;
    let cycle = stream.cycle.0.max(1);
    let total = run.rows_of(index).count();
    let step = (total / ENOUGH).max(1);
    let rows: Vec<(i64, [Option<i64>; 8])> = run
        .rows_of(index)
        .step_by(step)
        .filter_map(|row| {
            let handed = row.at(1).or_else(|| row.at(2))?;
            Some((handed - (handed - base).rem_euclid(cycle), row.t))
        })
        .collect();
    let instant = |n: usize| {
        let values = sorted(rows.iter().filter_map(|(start, t)| Some(t[n - 1]? - start)));
        // A stamp that few frames have says little of the others.
        if values.len() * 2 < rows.len() || values.is_empty() {
            return None;
        }
        let at = |p| quantile(&values, p).map(|v| v as f64);
        Some(Instant { at: at(0.5)?, spread: (at(0.01)?, at(0.99)?) })
    };
    let first = |names: [(usize, &'static str); 2]| names.into_iter().find_map(|(n, name)| Some((name, instant(n)?)));
    let last = stream.path.len();
    let mut ways = Vec::new();
    if let (Some(leaves), Some(arrives)) = (first([(2, "T2"), (1, "T1")]), first([(3, "T3"), (4, "T4")])) {
        ways.push(Way { from: 0, to: last, leaves, arrives });
    }
    if stream.echo
        && let (Some(leaves), Some(arrives)) = (first([(6, "T6"), (5, "T5")]), first([(7, "T7"), (8, "T8")]))
    {
        ways.push(Way { from: last, to: 0, leaves, arrives });
    }
    let at_hosts = [(1, "T1", 0), (4, "T4", last), (5, "T5", last), (8, "T8", 0)];
    let stops = at_hosts
        .into_iter()
        .filter(|(_, name, _)| !ways.iter().any(|w| w.leaves.0 == *name || w.arrives.0 == *name))
        .filter_map(|(n, name, row)| Some(Stop { row, name, instant: instant(n)? }))
        .collect();
    (ways, stops)
}

fn description(ways: &[Way], stream: &Stream) -> String {
    let mut text = format!("Cycle {}", short_span(stream.cycle.0 as f64));
    for way in ways {
        text.push_str(&format!(
            "; {} at {}, {} at {}",
            way.leaves.0,
            short_span(way.leaves.1.at),
            way.arrives.0,
            short_span(way.arrives.1.at)
        ));
    }
    text
}
