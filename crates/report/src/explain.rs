//! Why it took as long as it did: the parts of a round trip, the counter against its reference, the margins of the phases.

use maud::{Markup, html};
use measure::{CounterReference, Dist, EndMargins, Margin, Split, SplitMessage};
use scenario::Stream;

use crate::charts::Width;
use crate::charts::counter::{self, Mark, Series};
use crate::charts::split::{self, Bar};
use crate::group::{Group, Run};
use crate::tables::capital;
use crate::text::{ABSENT, count, share, share_of, short_span, span};
use crate::verdict::heading;

/// The parts in the order of the bars, with what they are.
const PARTS: [(&str, &str); 4] = [
    ("schedule", "waiting that punctual hosts with stacks of zero cost would also have"),
    ("wire", "ports, links and bridges"),
    ("host", "a phase on the way was due and had not begun"),
    ("stack", "the rest: system calls, decoding, queueing"),
];

/// What missing stamps do not tell.
const UNTOLD: &str = "untold";

/// The split of a stream's messages.
pub(crate) fn split(group: &Group<'_>, index: usize, level: u8) -> Markup {
    let stream = &group.scenario.streams[index];
    let found: Vec<(&Run<'_>, &Split)> =
        group.measured_first().filter_map(|run| Some((run, run.stream(stream)?.split.as_ref()?))).collect();
    let longest = if found.len() > 2 { 1 } else { 3 };
    let mut whole: Vec<Bar> = Vec::new();
    let mut beyond = Vec::new();
    for (run, split) in &found {
        let mut last = None;
        let named = [("median", split.median.as_ref()), ("p99", split.p99.as_ref())];
        let named = named.into_iter().filter_map(|(name, message)| Some((name.to_owned(), message?)));
        let places = ["longest", "2nd longest", "3rd longest"];
        let worst = places.into_iter().map(str::to_owned).zip(split.worst.iter().take(longest));
        for (name, message) in named.chain(worst) {
            let bar = Bar { label: format!("{}, {name}", run.label), parts: parts(message) };
            // Punctual hosts make every message alike: one of them is enough.
            if last.as_ref() == Some(&bar.parts) {
                continue;
            }
            last = Some(bar.parts.clone());
            if ["median", "p99"].contains(&name.as_str()) {
                let parts = bar.parts.iter().copied().filter(|part| part.0 != "schedule").collect();
                beyond.push(Bar { parts, ..bar.clone() });
            }
            whole.push(bar);
        }
    }
    let untold = whole.iter().any(|bar| bar.parts.iter().any(|(name, ns)| *name == UNTOLD && *ns > 0));
    let described = |bars: &[Bar]| bars.iter().map(described).collect::<Vec<_>>().join("; ");
    let title = format!("Where the time of single messages of {} went", stream.name);
    let zoomed = format!("{title}, without the schedule");
    let quantity = if stream.echo { "round trip T8 − T1" } else { "one way T4 − T1" };
    html! {
        @if !found.is_empty() { section.card {
            (heading(level, html! { "Where the time went" @if group.scenario.streams.len() > 1 { small.note { " " (stream.name) } } }))
            p.note { "The " (quantity) " of single messages in four parts that add up to it. The second drawing has median and p99 without the schedule: what wire, hosts and stacks added to the plan." }
            ul.legend {
                @for (name, words) in PARTS { li { (swatch(name)) (name) ": " (words) } }
                @if untold { li { (swatch(UNTOLD)) "not told: a stamp or the event of a phase is missing" } }
            }
            div.pair {
                figure { @for width in Width::BOTH { (split::draw(&title, &described(&whole), &whole, width)) } }
                @if !beyond.is_empty() { figure { @for width in Width::BOTH { (split::draw(&zoomed, &described(&beyond), &beyond, width)) } } }
            }
            (distributions(&found))
            @for (run, split) in &found { (worst(run, split, group.runs.len() > 1)) }
        } }
    }
}

fn parts(message: &SplitMessage) -> Vec<(&'static str, i64)> {
    let known = [message.schedule_ns, message.wire_ns, message.host_ns, message.stack_ns];
    let told: i64 = known.iter().flatten().sum();
    let parts = PARTS.iter().zip(known).filter_map(|((name, _), ns)| Some((*name, ns?)));
    parts.chain(std::iter::once((UNTOLD, message.whole_ns.saturating_sub(told)))).collect()
}

fn described(bar: &Bar) -> String {
    let parts = bar.parts.iter().filter(|(name, ns)| *name != UNTOLD || *ns > 0);
    let parts: Vec<String> = parts.map(|(name, ns)| format!("{name} {}", short_span(*ns as f64))).collect();
    format!("{}: {}", bar.label, parts.join(", "))
}

fn swatch(name: &str) -> Markup {
    html! { svg viewBox="0 0 30 14" aria-hidden="true" { rect class=(format!("piece {name}")) x="0" y="1" width="30" height="12" {} } }
}

fn distributions(found: &[(&Run<'_>, &Split)]) -> Markup {
    let of = |split: &Split| [&split.schedule, &split.wire, &split.host, &split.stack].map(|dist| dist.clone());
    let lines: Vec<(&Run<'_>, [Option<Dist>; 4])> = found.iter().map(|(run, split)| (*run, of(split))).collect();
    html! {
        div.scroll { table.flat {
            thead { tr { th { "Part" } @for (run, _) in &lines { th.n { (capital(&run.label)) " p50" } th.n { "p99" } th.n { "max" } } } }
            tbody { @for (part, (name, _)) in PARTS.iter().enumerate() { tr {
                th scope="row" { (name) }
                @for (_, dists) in &lines { @match &dists[part] {
                    Some(dist) => { td.n { (span(dist.p50 as f64)) } td.n { (span(dist.p99 as f64)) } td.n { (span(dist.max as f64)) small { "n = " (count(dist.count)) } } }
                    None => { td.n.absent { (ABSENT) } td.n.absent { (ABSENT) } td.n.absent { (ABSENT) } }
                } }
            } } }
        } }
    }
}

fn worst(run: &Run<'_>, split: &Split, several: bool) -> Markup {
    let cell = |ns: Option<i64>| ns.map_or(ABSENT.to_owned(), |ns| span(ns as f64));
    html! {
        details.more {
            summary { "The " (split.worst.len()) " longest messages" @if several { " of the " (run.label) } ", with their stamps after T1" }
            div.scroll { table.long {
                thead { tr { th { "Counter" } th.n { "cycle" } th.n { "in all" } @for (name, _) in PARTS { th.n { (name) } }
                    @for n in 2..=8 { th.n { "T" (n) } } } }
                tbody { @for message in &split.worst { tr {
                    th scope="row" { (count(message.counter)) } td.n { (message.cycle) } td.n { b { (span(message.whole_ns as f64)) } }
                    @for ns in [message.schedule_ns, message.wire_ns, message.host_ns, message.stack_ns] { td.n { (cell(ns)) } }
                    @for at in [message.t.t2, message.t.t3, message.t.t4, message.t.t5, message.t.t6, message.t.t7, message.t.t8] {
                        td.n { (cell(at.zip(message.t.t1).map(|(at, t1)| at.saturating_sub(t1)))) }
                    }
                } } }
            } }
        }
    }
}

/// The distribution of the counter's round trip against the plan and the paper.
pub(crate) fn counter(group: &Group<'_>, index: usize, level: u8) -> Markup {
    let stream = &group.scenario.streams[index];
    let reference = |run: &Run<'_>| -> Option<CounterReference> { run.stream(stream)?.counter_reference.clone() };
    let found: Vec<(&Run<'_>, CounterReference)> = group
        .measured_first()
        .filter_map(|run| Some((run, reference(run)?)))
        .filter(|(_, reference)| !reference.seen.is_empty())
        .collect();
    let series: Vec<Series> = found
        .iter()
        .map(|(run, reference)| Series {
            class: run.class,
            label: run.label.clone(),
            bars: reference.seen.iter().map(|seen| (seen.used, seen.readings)).collect(),
        })
        .collect();
    let marks = found.first().map_or_else(Vec::new, |(_, reference)| marks(reference));
    let description: Vec<String> = series
        .iter()
        .map(|run| {
            let bars: Vec<String> = run.bars.iter().map(|(used, n)| format!("{} used {used}", count(*n))).collect();
            format!("{}: {}", run.label, bars.join(", "))
        })
        .collect();
    let title = format!("Cycles used by the counter of {}", stream.name);
    html! {
        @if !series.is_empty() { section.card {
            (heading(level, html! { "Counter round trip: cycles used" @if group.scenario.streams.len() > 1 { small.note { " " (stream.name) } } }))
            p.note {
                "From the application phase that writes a counter to the one that reads it back. The best case of the plan is that of punctual hosts with stacks of zero cost; a phase that begins late may read a message which a punctual one would have left for the next cycle."
                @if marks.iter().any(|mark| mark.class == "centre") { " Gopiga et al. derive 5 cycles at best (their figure 14) and 9 at worst for a network of this shape." }
            }
            ul.legend { @for run in &series { li { svg viewBox="0 0 30 14" aria-hidden="true" { rect class=(format!("dot {}", run.class)) x="0" y="1" width="30" height="12" {} } (capital(&run.label)) ", n = " (count(run.bars.iter().map(|bar| bar.1).sum())) } } }
            figure { @for width in Width::BOTH { (counter::draw(&title, &description.join("; "), &series, &marks, width)) } }
        } }
    }
}

fn marks(reference: &CounterReference) -> Vec<Mark> {
    let mark = |label: &str, class, at: i64| Mark { label: format!("{label} {at}"), class, at };
    let papers = [("Gopiga et al., best", reference.seed_001_best), ("Gopiga et al., worst", reference.seed_001_worst)];
    let papers = papers.into_iter().filter_map(|(label, at)| Some(mark(label, "centre", at?)));
    std::iter::once(mark("best by plan", "bound", reference.scenario_best)).chain(papers).collect()
}

/// What the phases left of their time.
pub(crate) fn margins(group: &Group<'_>, level: u8) -> Markup {
    let mut ends: Vec<(&Run<'_>, &Stream, &EndMargins)> = Vec::new();
    for run in group.measured_first() {
        for stream in &group.scenario.streams {
            let Some(result) = run.stream(stream) else { continue };
            let both = [&result.margins.writer, &result.margins.reader].into_iter().flatten();
            ends.extend(both.map(|end| (run, stream, end)));
        }
    }
    let several = group.scenario.streams.len() > 1;
    let violated = ends.iter().flat_map(|(_, _, end)| kinds(end)).any(|(_, margin)| margin.violated > 0);
    html! {
        @if !ends.is_empty() { section.card {
            (heading(level, html! { "Safety margins" }))
            p.note {
                "What is left of the time between two phases after the largest lateness and the largest run time of the first, as in figure 11 of Gopiga et al.; below zero the second would have had to begin before the first had ended. Their third term, how long shared data is held, is 0: the image between the phases is wait-free."
                @if violated { " The number of times is of cycles in which the first phase did end too late." }
            }
            div.scroll { table.long {
                thead { tr { th { "Host and margin" } @if group.runs.len() > 1 { th { "Run" } }
                    th.n { "configured" } th.n { "left" } th.n { "late max" } th.n { "took max" } th.n { "violated" } th.n { "n" } } }
                tbody { @for (run, stream, end) in &ends { @for (name, margin) in kinds(end) { tr {
                    th scope="row" { (end.host) " · " (name) @if several { small { (stream.name) } } } @if group.runs.len() > 1 { td { (run.label) } }
                    td.n { (span(margin.configured_ns as f64)) small { (share(margin.configured_share)) " of the cycle" } }
                    td class=(if margin.found_ns < 0 { "n over" } else { "n" }) { b { (span(margin.found_ns as f64)) } small { (share(margin.found_share)) " of the cycle" } }
                    td.n { (span(margin.late_max_ns as f64)) } td.n { (span(margin.took_max_ns as f64)) }
                    td.n { (share_of(margin.violated, margin.count)) } td.n { (count(margin.count)) }
                } } } }
            } }
            @for (run, stream, end) in &ends { p.note {
                b { (end.host) } @if several { " (" (stream.name) ")" } @if group.runs.len() > 1 { ", " (run.label) } ": " (end.advice) "."
            } }
        } }
    }
}

fn kinds(end: &EndMargins) -> impl Iterator<Item = (&'static str, &Margin)> {
    let kinds = [("transfer", &end.transfer_safety_margin), ("application", &end.application_safety_margin)];
    kinds.into_iter().filter_map(|(name, margin)| Some((name, margin.as_ref()?)))
}
