//! From rows to drawings: distributions, stages and the course of the run.

use maud::{Markup, html};
use measure::{Kind, StreamResult};
use scenario::{LimitValue, Quantity, Stream};

use crate::bounds::{Figure, StreamBound};
use crate::charts::Width;
use crate::charts::ecdf::{self, Curve, Ecdf, Line, quantile};
use crate::charts::stack::{self, Bar, Piece};
use crate::charts::timeline::{self, Course};
use crate::group::{Group, Run, sorted, spacing};
use crate::tables::capital;
use crate::text::{count, plain_span, short_span, span};
use crate::verdict::{heading, marks, start};

/// The distribution of the round trip `wire`, or of the one-way delay of a stream without echo.
pub(crate) fn main_distribution(group: &Group<'_>, index: usize, level: u8) -> Markup {
    let stream = &group.scenario.streams[index];
    let (title, pick, key, quantity): (_, fn(&measure::FrameRow) -> Option<i64>, _, _) = if stream.echo {
        ("Round trip, wire: T7 − T2", measure::FrameRow::round_trip_wire, "round_trip.wire", Quantity::RoundTripWire)
    } else {
        ("One way: T3 − T2", measure::FrameRow::one_way, "one_way", Quantity::OneWay)
    };
    let meaning = if stream.echo { "out of the publisher's port and back into it" } else { "from port to port" };
    distribution(group, index, title, meaning, pick, key, quantity, level)
}

/// The distribution between the applications' sides.
pub(crate) fn stack_distribution(group: &Group<'_>, index: usize, level: u8) -> Markup {
    let stream = &group.scenario.streams[index];
    let (title, pick, key, quantity): (_, fn(&measure::FrameRow) -> Option<i64>, _, _) = if stream.echo {
        let pick = measure::FrameRow::round_trip_stack;
        ("Round trip, stack: T8 − T1", pick, "round_trip.stack", Quantity::RoundTripStack)
    } else {
        ("One way, stacks: T4 − T1", measure::FrameRow::one_way_stack, "one_way_stack", Quantity::OneWayStack)
    };
    distribution(group, index, title, "from hand-over to decoded message", pick, key, quantity, level)
}

#[allow(clippy::too_many_arguments)] // one quantity, described
fn distribution(
    group: &Group<'_>,
    index: usize,
    title: &str,
    meaning: &str,
    pick: fn(&measure::FrameRow) -> Option<i64>,
    key: &str,
    quantity: Quantity,
    level: u8,
) -> Markup {
    let stream = &group.scenario.streams[index];
    let bound = group.bounds.first().and_then(|b| b.stream(&stream.name));
    let lines = lines(group, bound, key, quantity);
    let curves = curves(group, |run| sorted(run.rows_of(index).filter_map(pick)));
    let missing = bound.and_then(|b| b.figure(key)).and_then(|f| match f {
        Figure::Unbounded(reason) => Some(reason.as_str()),
        _ => None,
    });
    let chart = Ecdf {
        title: named(title, group, stream),
        description: described(&curves),
        x_label: title.rsplit(": ").next().unwrap_or(title).to_owned(),
        curves,
        lines,
        around_zero: false,
    };
    html! {
        section.card {
            (heading(level, html! { (title) @if group.scenario.streams.len() > 1 { small.note { " " (stream.name) } } }))
            p.note { "Share of frames at or below a span, " (meaning) ". Each step up is ten times rarer." }
            @if chart.curves.is_empty() { p { "Not measured." } } @else {
                (legend(&chart))
                figure { @for width in Width::BOTH { (ecdf::draw(&chart, width)) } }
            }
            @if let Some(reason) = missing { p.note { "There is no bound: " (reason) "." } }
        }
    }
}

/// The distribution of the spacing of arrivals around the cycle.
pub(crate) fn spacing_distribution(group: &Group<'_>, index: usize, level: u8) -> Markup {
    let stream = &group.scenario.streams[index];
    let curves = curves(group, |run| spacing(run, index, stream.cycle.0));
    let limit = group.scenario.requirement.iter().find(|l| l.quantity == Quantity::SpacingError);
    let mut lines = vec![Line { label: "cycle".into(), class: "centre", at: 0.0 }];
    if let Some(LimitValue::Span(limit)) = limit.map(|l| l.value) {
        for (sign, name) in [(-1.0, "limit −"), (1.0, "limit +")] {
            let label = format!("{name}{}", short_span(limit.0 as f64));
            lines.push(Line { label, class: "limit", at: sign * limit.0 as f64 });
        }
    }
    let chart = Ecdf {
        title: named("Spacing of arrivals at the reader", group, stream),
        description: described(&curves),
        x_label: "T3(k) − T3(k−1) − cycle".into(),
        curves,
        lines,
        around_zero: true,
    };
    html! {
        section.card {
            (heading(level, html! { "Spacing of arrivals: T3(k) − T3(k−1)" }))
            p.note { "Share of frames that followed the one before within the cycle of " (plain_span(stream.cycle.0 as f64)) " and so much more or less. An upright curve is a perfect beat; both tails are stretched." }
            @if chart.curves.is_empty() { p { "Not measured." } } @else {
                (legend(&chart))
                figure { @for width in Width::BOTH { (ecdf::draw(&chart, width)) } }
            }
        }
    }
}

fn curves(group: &Group<'_>, samples: impl Fn(&Run<'_>) -> Vec<i64>) -> Vec<Curve> {
    group
        .measured_first()
        .map(|run| Curve { label: run.label.clone(), class: run.class, sorted: samples(run) })
        .filter(|curve| !curve.sorted.is_empty())
        .collect()
}

fn lines(group: &Group<'_>, bound: Option<&StreamBound>, key: &str, quantity: Quantity) -> Vec<Line> {
    let mut lines = Vec::new();
    let at = |key: &str| bound.and_then(|b| b.figure(key)).and_then(Figure::ns);
    if let Some(ns) = at(&format!("{key}_scheduled")) {
        lines.push(Line { label: format!("bound as scheduled {}", short_span(ns)), class: "bound", at: ns });
    }
    if let Some(ns) = at(key) {
        lines.push(Line { label: format!("bound {}", short_span(ns)), class: "bound", at: ns });
    }
    let limit = group.scenario.requirement.iter().find(|l| l.quantity == quantity).map(|l| l.value);
    if let Some(LimitValue::Span(limit)) = limit {
        lines.push(Line { label: format!("limit {}", plain_span(limit.0 as f64)), class: "limit", at: limit.0 as f64 });
    }
    lines
}

fn named(title: &str, group: &Group<'_>, stream: &Stream) -> String {
    if group.scenario.streams.len() > 1 { format!("{title}, stream {}", stream.name) } else { title.to_owned() }
}

fn described(curves: &[Curve]) -> String {
    let parts: Vec<String> = curves
        .iter()
        .filter_map(|c| {
            let (median, max) = (quantile(&c.sorted, 0.5)?, c.sorted.last()?);
            let n = count(c.sorted.len() as u64);
            Some(format!("{}: median {}, maximum {}, {n} samples", c.label, span(median as f64), span(*max as f64)))
        })
        .collect();
    parts.join("; ")
}

fn legend(chart: &Ecdf) -> Markup {
    html! {
        ul.legend {
            @for curve in &chart.curves { li { (key_line(&format!("curve {}", curve.class))) (capital(&curve.label)) ", n = " (count(curve.sorted.len() as u64)) } }
            @for (class, words) in [("bound", "Bound"), ("limit", "Required limit")] {
                @if chart.lines.iter().any(|l| l.class == class) { li { (key_line(class)) (words) } }
            }
        }
    }
}

fn key_line(class: &str) -> Markup {
    html! { svg viewBox="0 0 30 14" aria-hidden="true" { line class=(class) x1="0" y1="7" x2="30" y2="7" {} } }
}

/// From trace point to trace point.
pub(crate) fn stages(group: &Group<'_>, index: usize, level: u8) -> Markup {
    let stream = &group.scenario.streams[index];
    let runs: Vec<(&Run<'_>, &StreamResult)> = group
        .measured_first()
        .filter_map(|run| Some((run, run.stream(stream)?)))
        .filter(|(_, s)| !s.stages.is_empty())
        .collect();
    let bars: Vec<Bar> = runs
        .iter()
        .map(|(run, result)| Bar {
            label: format!("{} · median of each stage", capital(&run.label)),
            pieces: result
                .stages
                .iter()
                .map(|stage| Piece {
                    label: stage_label(&stage.name),
                    meaning: stage.words.clone(),
                    class: stage_class(&stage.name),
                    span: stage.spent.p50 as f64,
                })
                .collect(),
        })
        .collect();
    // Stages in the order of the trace points, whichever run has them.
    let mut names: Vec<(&str, &str)> = Vec::new();
    for stage in runs.iter().flat_map(|(_, s)| &s.stages) {
        if !names.iter().any(|(name, _)| *name == stage.name) {
            names.push((&stage.name, &stage.words));
        }
    }
    let description: Vec<String> = runs
        .iter()
        .map(|(run, result)| {
            let stages = result.stages.iter().map(|s| format!("{} {}", stage_label(&s.name), span(s.spent.p50 as f64)));
            format!("{}: {}", run.label, stages.collect::<Vec<_>>().join(", "))
        })
        .collect();
    let title = named("Stage by stage, T1 to T8", group, stream);
    html! {
        section.card {
            (heading(level, html! { "Stage by stage, T1 to T8" @if group.scenario.streams.len() > 1 { small.note { " " (stream.name) } } }))
            @if bars.is_empty() { p { "Not measured." } } @else {
                p.note { "T1 publisher hands over, T2 leaves its port, T3 arrives, T4 decoded at the reader" @if stream.echo { "; T5 to T8 the same on the way back" } ". Medians of single stages need not add up to the median of the whole." }
                ul.legend {
                    @for (class, words) in [("wait", "hand-over to departure: driver and wait for the launch"), ("wire", "wire: ports, links, bridges"), ("receive", "receive: stack and wait for the subscribe window"), ("work", "application and wait for the publish phase")] {
                        li { svg viewBox="0 0 30 14" aria-hidden="true" { rect class=(format!("piece {class}")) x="0" y="1" width="30" height="12" {} } (words) }
                    }
                }
                figure { @for width in Width::BOTH { (stack::draw(&title, &description.join("; "), &bars, width)) } }
                div.scroll { table {
                    thead { tr { th { "Stage" } @for (run, _) in &runs { th.n { (capital(&run.label)) small { "p50" } } th.n { small { "p99.99" } } th.n { small { "max" } } } } }
                    tbody { @for (name, words) in &names { tr {
                        th scope="row" { (stage_label(name)) small { (words) } }
                        @for (_, result) in &runs { @match result.stages.iter().find(|s| s.name == *name) {
                            Some(stage) => { td.n { (span(stage.spent.p50 as f64)) } td.n { (span(stage.spent.p99_99 as f64)) } td.n { (span(stage.spent.max as f64)) small { "n = " (count(stage.spent.count)) } } }
                            None => { td.n.absent { "—" } td.n.absent { "—" } td.n.absent { "—" } }
                        } }
                    } } }
                } }
            }
        }
    }
}

/// "T2−T1" of results as the way it is walked: "T1→T2".
fn stage_label(name: &str) -> String {
    let parts: Vec<&str> = name.split(['−', '-']).map(str::trim).collect();
    if let [to, from] = parts[..] { format!("{from}→{to}") } else { name.to_owned() }
}

fn stage_class(name: &str) -> &'static str {
    match stage_label(name).as_str() {
        "T1→T2" | "T5→T6" => "wait",
        "T2→T3" | "T6→T7" => "wire",
        "T3→T4" | "T7→T8" => "receive",
        "T4→T5" => "work",
        // A stage that bridges a missing stamp.
        _ => "send",
    }
}

/// The round trip (or one-way delay) of every frame over the run.
pub(crate) fn course(group: &Group<'_>, index: usize, level: u8) -> Markup {
    let stream = &group.scenario.streams[index];
    let pick = if stream.echo { measure::FrameRow::round_trip_wire } else { measure::FrameRow::one_way };
    let name = if stream.echo { "Round trip T7 − T2" } else { "One way T3 − T2" };
    let bound = group.bounds.first().and_then(|b| b.stream(&stream.name));
    let key = if stream.echo { "round_trip.wire" } else { "one_way" };
    let limits: Vec<(f64, &'static str, String)> = bound
        .and_then(|b| b.figure(key))
        .and_then(Figure::ns)
        .map(|ns| (ns, "bound", format!("bound {}", short_span(ns))))
        .into_iter()
        .collect();
    html! {
        section.card {
            (heading(level, html! { (name) " over the run" @if group.scenario.streams.len() > 1 { small.note { " " (stream.name) } } }))
            p.note { "Lowest to highest value in each slice of time; nothing is left out." @if group.runs.iter().any(|r| !r.file.incidents.is_empty()) { " Upright lines are the incidents, numbered as above." } }
            @for run in group.measured_first() {
                @let from = start(run);
                @let points_of_run = points(run, index, from, pick);
                @let marks = if run.file.kind == Kind::Simulated && run.file.incidents.is_empty() { Vec::new() } else { marks(run) };
                @if points_of_run.is_empty() { p { (capital(&run.label)) ": not measured." } } @else {
                    @let courses = [Course { class: run.class, points: points_of_run }];
                    @let title = format!("{} over the run, {}", named(name, group, stream), run.label);
                    @let description = format!("{} frames, highest {}, {} incidents", count(courses[0].points.len() as u64), timeline::highest(&courses).unwrap_or_default(), marks.len());
                    @let label = format!("{}, n = {}", capital(&run.label), count(courses[0].points.len() as u64));
                    figure { @for width in Width::BOTH { (timeline::over_time(&title, &description, &label, &courses, &marks, &limits, width)) } }
                }
            }
        }
    }
}

fn points(run: &Run<'_>, index: usize, from: i64, pick: fn(&measure::FrameRow) -> Option<i64>) -> Vec<(i64, i64)> {
    let mut points: Vec<(i64, i64)> =
        run.rows_of(index).filter_map(|row| Some((row.at(2)?.saturating_sub(from), pick(row)?))).collect();
    points.sort_unstable();
    points
}
