//! The tables: bound, simulation and measurement side by side; losses; wake-up of the hosts.

use maud::{Markup, html};
use measure::{Dist, HostResult, Kind, StreamResult};
use scenario::Stream;

use crate::bounds::{Figure, StreamBound};
use crate::group::{Group, Run};
use crate::text::{ABSENT, count, cycles, plain_span, share_of, span, trimmed};
use crate::verdict::heading;

/// Picks a distribution out of the figures of a stream.
type Pick = for<'a> fn(&'a StreamResult) -> Option<&'a Dist>;

/// A row of the summary.
struct Quantity {
    name: &'static str,
    definition: &'static str,
    /// Key of its bound.
    bound: &'static str,
    /// Key of the bound that trusts the phases of the hosts.
    scheduled: Option<&'static str>,
    pick: Pick,
    unit: Counted,
}

/// What a figure counts.
#[derive(Clone, Copy, PartialEq)]
enum Counted {
    Nanos,
    Cycles,
    CyclesUsed,
}

const QUANTITIES: [Quantity; 7] = [
    Quantity {
        name: "One way",
        definition: "T3 − T2",
        bound: "one_way",
        scheduled: None,
        pick: |s| s.one_way.as_ref(),
        unit: Counted::Nanos,
    },
    Quantity {
        name: "One way, stacks included",
        definition: "T4 − T1",
        bound: "one_way_stack",
        scheduled: Some("one_way_stack_scheduled"),
        pick: |s| s.one_way_stack.as_ref(),
        unit: Counted::Nanos,
    },
    Quantity {
        name: "Round trip, wire",
        definition: "T7 − T2",
        bound: "round_trip.wire",
        scheduled: Some("round_trip.wire_scheduled"),
        pick: |s| s.round_trip.wire.as_ref(),
        unit: Counted::Nanos,
    },
    Quantity {
        name: "Round trip, stack",
        definition: "T8 − T1",
        bound: "round_trip.stack",
        scheduled: Some("round_trip.stack_scheduled"),
        pick: |s| s.round_trip.stack.as_ref(),
        unit: Counted::Nanos,
    },
    Quantity {
        name: "Round trip, counter, elapsed",
        definition: "cycles from writing to reading back",
        bound: "round_trip.counter",
        scheduled: None,
        pick: |s| s.round_trip.counter.as_ref(),
        unit: Counted::Cycles,
    },
    Quantity {
        name: "Round trip, counter, used",
        definition: "the same, first and last cycle included",
        bound: "round_trip.counter",
        scheduled: None,
        pick: |s| s.round_trip.counter_used.as_ref(),
        unit: Counted::CyclesUsed,
    },
    Quantity {
        name: "Spacing error",
        definition: "|T3(k) − T3(k−1) − cycle|",
        bound: "spacing_error",
        scheduled: None,
        pick: |s| s.jitter.spacing_error.as_ref(),
        unit: Counted::Nanos,
    },
];

/// Bound, simulation and measurement of one stream.
pub(crate) fn summary(group: &Group<'_>, stream: &Stream, level: u8) -> Markup {
    let bound = group.bounds.first().and_then(|b| b.stream(&stream.name));
    let over = overruns(group, stream, bound);
    html! {
        section.card {
            (heading(level, html! { "Summary" @if group.scenario.streams.len() > 1 { " of " (stream.name) } }))
            p.note { "The largest value of each run; below it the median, the 99.99th percentile and the number of samples. Figures in a row have one definition and may be compared; figures in different rows may not." }
            div.scroll { table.sides {
                thead { tr {
                    th { "Quantity" } th.n { "Bound" }
                    @for run in &group.runs { th.n { (capital(&run.label)) " max" } }
                } }
                tbody { @for quantity in &QUANTITIES { @if stream.echo || !quantity.bound.starts_with("round_trip") { tr {
                    th scope="row" { (quantity.name) small { (quantity.definition) } }
                    (bound_cell(bound, quantity))
                    @for run in &group.runs { (run_cell(run, stream, bound, quantity)) }
                } } } }
            } }
            @for sentence in &over { p.note { b.no { "Above the bound " } "— " (sentence) } }
            (outliers(group, stream))
            (percentiles(group, stream))
        }
    }
}

fn bound_cell(bound: Option<&StreamBound>, quantity: &Quantity) -> Markup {
    let scheduled = quantity.scheduled.and_then(|key| bound?.figure(key)).and_then(Figure::ns);
    let best = bound.and_then(|b| b.figure(&format!("{}_best", quantity.bound)));
    html! {
        @match bound.and_then(|b| b.figure(quantity.bound)) {
            None => td.n.absent data-label="Bound" { (ABSENT) },
            Some(figure) => td.n data-label="Bound" {
                @match figure {
                    Figure::Span { .. } => b { (figure.ns().map_or(ABSENT.to_owned(), span)) },
                    Figure::Cycles { elapsed, .. } if quantity.unit == Counted::Cycles => b { (cycles(*elapsed)) },
                    Figure::Cycles { used, .. } => b { (cycles(*used)) },
                    Figure::Unbounded(reason) => span.unknown { b { "no bound" } small { (reason) } },
                }
                @if let Some(ns) = scheduled { small { (span(ns)) " as scheduled" } }
                @match (best, quantity.unit) {
                    (Some(Figure::Cycles { elapsed, .. }), Counted::Cycles) => small { "at least " (cycles(*elapsed)) },
                    (Some(Figure::Cycles { used, .. }), _) => small { "at least " (cycles(*used)) },
                    (Some(figure), _) => @if let Some(ns) = figure.ns() { small { "at least " (span(ns)) } },
                    (None, _) => {}
                }
            },
        }
    }
}

fn run_cell(run: &Run<'_>, stream: &Stream, bound: Option<&StreamBound>, quantity: &Quantity) -> Markup {
    let show = |value: f64| if quantity.unit == Counted::Nanos { span(value) } else { cycles(value) };
    html! {
        @match run.stream(stream).and_then(|s| (quantity.pick)(s)) {
            None => td.n.absent data-label=(capital(&run.label)) { (ABSENT) },
            Some(dist) => td class=(if exceeds(dist, bound, quantity) { "n over" } else { "n" }) data-label=(capital(&run.label)) {
                b { (show(dist.max as f64)) }
                small { "p50 " (show(dist.p50 as f64)) }
                small { "p99.99 " (show(dist.p99_99 as f64)) }
                small { "n = " (count(dist.count)) }
            },
        }
    }
}

fn exceeds(dist: &Dist, bound: Option<&StreamBound>, quantity: &Quantity) -> bool {
    let max = dist.max as f64;
    match bound.and_then(|b| b.figure(quantity.bound)) {
        Some(Figure::Cycles { elapsed, .. }) if quantity.unit == Counted::Cycles => max > *elapsed,
        Some(Figure::Cycles { used, .. }) => max > *used,
        Some(figure) => figure.ns().is_some_and(|ns| max > ns),
        None => false,
    }
}

/// Where a run went beyond what the model allows, in sentences.
fn overruns(group: &Group<'_>, stream: &Stream, bound: Option<&StreamBound>) -> Vec<String> {
    let mut sentences = Vec::new();
    for run in &group.runs {
        let names: Vec<&str> = QUANTITIES
            .iter()
            .filter(|q| run.stream(stream).and_then(|s| (q.pick)(s)).is_some_and(|dist| exceeds(dist, bound, q)))
            .map(|q| q.name)
            .collect();
        if names.is_empty() {
            continue;
        }
        let why = match (run.file.kind, run.file.incidents.is_empty()) {
            (Kind::Simulated, true) => {
                "The bound takes hosts as punctual; unless this simulation made them late, bound and simulation \
                 contradict each other"
            }
            (_, true) => {
                "The bound takes hosts as punctual and links at their rate; what this machine adds of its own is \
                 under how late the hosts woke"
            }
            (_, false) => "The bound takes hosts as punctual, and this run records otherwise: see what went wrong",
        };
        sentences.push(format!("{}: {}. {why}.", capital(&run.label), names.join(" · ")));
    }
    sentences
}

fn outliers(group: &Group<'_>, stream: &Stream) -> Markup {
    html! {
        @for run in &group.runs {
            @if let Some(rest) = run.stream(stream).and_then(|s| s.without_host_outliers.as_ref()) {
                p.note {
                    "Without the " (count(rest.left_out)) " frames that a stopped host held up, the " (run.label) " has"
                    @if let Some(dist) = &rest.one_way { " one way T3 − T2 at most " b { (span(dist.max as f64)) } " (n = " (count(dist.count)) ")" }
                    @if rest.one_way.is_some() && rest.round_trip_wire.is_some() { " and" }
                    @if let Some(dist) = &rest.round_trip_wire { " round trip T7 − T2 at most " b { (span(dist.max as f64)) } " (n = " (count(dist.count)) ")" }
                    "."
                }
            }
        }
    }
}

/// Every distribution of a stream with all that is kept of it.
fn percentiles(group: &Group<'_>, stream: &Stream) -> Markup {
    const MORE: [(&str, Pick); 4] = [
        ("Spacing T3(k) − T3(k−1)", |s| s.spacing.as_ref()),
        ("Packet to packet T2(k) − T2(k−1) − cycle", |s| s.jitter.packet_to_packet.as_ref()),
        ("Variation |RTT(k) − RTT(k−1)| of T7 − T2", |s| s.jitter.round_trip_variation.as_ref()),
        ("Launch error T2 − launch", |s| s.launch.as_ref()?.error.as_ref()),
    ];
    let usual = QUANTITIES.iter().filter(|q| q.unit != Counted::CyclesUsed);
    let all = usual.map(|q| (format!("{} {}", q.name, q.definition), q.pick, q.unit == Counted::Cycles));
    let all = all.chain(MORE.into_iter().map(|(name, pick)| (name.to_owned(), pick, false)));
    let lines: Vec<(String, &str, &Dist, bool)> = all
        .flat_map(|(name, pick, counted)| {
            group
                .runs
                .iter()
                .filter_map(move |run| Some((name.clone(), run.label.as_str(), pick(run.stream(stream)?)?, counted)))
        })
        .collect();
    html! {
        @if !lines.is_empty() { details.more {
            summary { "All percentiles, jitter by each of its definitions" }
            div.scroll { table.long {
                thead { tr { th { "Quantity" } th { "Run" }
                    @for name in ["n", "min", "mean", "p50", "p90", "p99", "p99.9", "p99.99", "max"] { th.n { (name) } } } }
                tbody { @for (name, run, dist, counted) in &lines { tr {
                    th scope="row" { (name) } td { (run) } (dist_cells(dist, *counted))
                } } }
            } }
        } }
    }
}

fn dist_cells(dist: &Dist, counted: bool) -> Markup {
    let show = |v: f64| if counted { cycles(v) } else { span(v) };
    html! {
        td.n { (count(dist.count)) } td.n { (show(dist.min as f64)) }
        td.n { (if counted { trimmed(dist.mean, 3) } else { span(dist.mean.round()) }) }
        @for value in [dist.p50, dist.p90, dist.p99, dist.p99_9, dist.p99_99, dist.max] { td.n { (show(value as f64)) } }
    }
}

/// How many breaches began; `None` where nothing was watched for.
fn breaches(stream: &StreamResult) -> Option<u64> {
    (!stream.breaches.is_empty()).then(|| stream.breaches.iter().map(|breach| breach.times).sum())
}

/// What was lost, missed and late; rows are kinds, columns runs.
pub(crate) fn losses(group: &Group<'_>, stream: &Stream, level: u8) -> Markup {
    type Number = fn(&StreamResult) -> Option<u64>;
    const KINDS: [(&str, &str, Number, bool); 16] = [
        ("dP", "published, never left the publisher's host", |s| s.loss.dP, true),
        ("dLinkL", "lost on the link to the loopback", |s| s.loss.dLinkL, true),
        ("dbL", "lost between bridge and loopback", |s| s.loss.dbL, true),
        ("dL", "arrived at the loopback, never answered", |s| s.loss.dL, true),
        ("dbP", "lost between bridge and publisher", |s| s.loss.dbP, true),
        ("dLinkP", "lost on the link back to the publisher", |s| s.loss.dLinkP, true),
        ("dΣ", "all of them", |s| s.loss.dSum, true),
        ("missed", "counters the application never read", |s| s.counters.missed, true),
        ("repeated", "application phases that found nothing new", |s| s.counters.repeated, false),
        ("inconsistent", "messages whose variables differed", |s| Some(s.counters.inconsistent), false),
        ("stale", "messages that arrived after a newer one", |s| Some(s.counters.stale), false),
        ("received again", "the newest message once more", |s| Some(s.counters.received_again), false),
        ("wrong tag", "messages with another VID or PCP", |s| Some(s.counters.wrong_tag), false),
        ("foreign", "frames of others on the sockets", |s| Some(s.counters.foreign), false),
        ("breaches", "began at an end that watched for them", breaches, false),
        ("late launches", "left long after their launch time", |s| s.launch.as_ref().map(|l| l.late), true),
    ];
    let results: Vec<Option<&StreamResult>> = group.runs.iter().map(|run| run.stream(stream)).collect();
    let shown = KINDS.iter().filter(|(name, _, number, _)| {
        // Places that this path does not have are left out; what it has and nobody observed is a dash.
        let bridged = stream.path.len() > 1;
        let fits = match *name {
            "dbL" => bridged,
            "dbP" => bridged && stream.echo,
            "dLinkL" => !bridged,
            "dLinkP" => !bridged && stream.echo,
            "dL" => stream.echo,
            "late launches" => stream.launch,
            "breaches" => stream.breaches.is_some(),
            _ => true,
        };
        fits || results.iter().flatten().any(|r| number(r).is_some())
    });
    html! {
        section.card {
            (heading(level, html! { "Losses and counters" @if group.scenario.streams.len() > 1 { " of " (stream.name) } }))
            p.note { "Number of messages and, where there were any, their share of those published whose fate is known. Messages still under way when the run ended are not counted as lost." }
            div.scroll { table.flat {
                thead { tr { th { "What" } @for run in &group.runs { th.n { (capital(&run.label)) } } } }
                tbody {
                    tr { th scope="row" { "published" small { "and still under way at the end" } }
                        @for result in &results { @match result {
                            Some(r) => td.n { (count(r.loss.published)) small { "+ " (count(r.loss.under_way)) } },
                            None => td.n.absent { (ABSENT) },
                        } } }
                    @for (name, words, number, shared) in shown { tr {
                        th scope="row" { (name) small { (words) } }
                        @for result in &results { @match result.and_then(|r| Some((number(r)?, r))) {
                            Some((n, r)) => td.n { (share_of(n, if *shared { r.loss.published } else { 0 })) },
                            None => td.n.absent { (ABSENT) },
                        } }
                    } }
                }
            } }
            @for (run, late) in group.runs.iter().zip(&results).filter_map(|(run, r)| Some((run, r.as_ref()?.launch.as_ref()?))) {
                p.note { "A launch of the " (run.label) " counts as late more than " (plain_span(late.late_after_ns as f64)) " after its launch time." }
            }
        }
    }
}

/// How late the phases of the hosts began.
pub(crate) fn hosts(group: &Group<'_>, level: u8) -> Markup {
    let lines: Vec<(&Run<'_>, &HostResult)> =
        group.measured_first().flat_map(|run| run.file.hosts.iter().map(move |host| (run, host))).collect();
    html! {
        @if !lines.is_empty() { section.card {
            (heading(level, html! { "How late the hosts woke" }))
            p.note { "From the instant a phase was due to its beginning, and how long it took. An outlier began later than a tenth of the cycle, but at least 100 µs: it belongs to the host, not to the network." }
            div.scroll { table.long {
                thead { tr { th { "Host and phase" } @if group.runs.len() > 1 { th { "Run" } }
                    th.n { "late p50" } th.n { "late p99" } th.n { "late p99.99" } th.n { "late max" } th.n { "took p50" } th.n { "took max" } th.n { "outliers" } th.n { "n" } } }
                tbody { @for (run, host) in &lines { tr {
                    th scope="row" { (host.host) " · " (host.phase) } @if group.runs.len() > 1 { td { (run.label) } }
                    td.n { (span(host.late.p50 as f64)) } td.n { (span(host.late.p99 as f64)) }
                    td.n { (span(host.late.p99_99 as f64)) } td.n { b { (span(host.late.max as f64)) } }
                    td.n { (span(host.took.p50 as f64)) } td.n { (span(host.took.max as f64)) }
                    td.n { (share_of(host.outliers, host.late.count)) } td.n { (count(host.late.count)) }
                } } }
            } }
        } }
    }
}

/// With a capital letter.
pub(crate) fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}
