//! What the reader wants to know first: is the requirement met, and if not, what went wrong.

use maud::{Markup, html};
use measure::{Amount, ClocksFrom, Incident, VerdictItem, kinds};
use scenario::Quantity;

use crate::charts::Width;
use crate::charts::timeline::{Mark, strip};
use crate::group::{Group, Run};
use crate::tables::capital;
use crate::text::{ABSENT, count, moment, plain_span, share, span};

/// The verdict of every run, measurements first.
pub(crate) fn verdicts(group: &Group<'_>, level: u8) -> Markup {
    html! { @for run in group.measured_first() { (verdict(group, run, level)) } }
}

fn verdict(group: &Group<'_>, run: &Run<'_>, level: u8) -> Markup {
    let verdict = &run.file.verdict;
    let missed: Vec<&VerdictItem> = verdict.items.iter().filter(|item| !item.met).collect();
    let class = match (verdict.items.is_empty(), verdict.met) {
        (true, _) => "card verdict",
        (false, true) => "card verdict met",
        (false, false) => "card verdict unmet",
    };
    let headline = html! {
        @if verdict.items.is_empty() { "Nothing is required" }
        @else if verdict.met { b { "Met" } }
        @else { b { "Not met" } ": " (missed.iter().map(|i| item_name(i, group)).collect::<Vec<_>>().join("; ")) }
        " " small { (run.label) }
    };
    html! {
        section class=(class) {
            (heading(level, headline))
            @if verdict.items.is_empty() {
                p.note { "The scenario names no requirement, so there is nothing to meet; the figures below stand for themselves." }
                (clocks(run))
            } @else {
                p.note {
                    @if let Some(class) = &group.scenario.requirement_class { "Requirement class " code { (class) } ". " }
                    "Limits are maxima: the largest value of the run is compared, never a mean."
                }
                (clocks(run))
                ul.items { @for item in missed.iter().copied().chain(verdict.items.iter().filter(|i| i.met)) { (item_line(item, group)) } }
            }
        }
    }
}

/// How far the clocks that one-way figures rest on are apart, and what that does to them.
fn clocks(run: &Run<'_>) -> Markup {
    let Some(clocks) = &run.file.clocks else { return html! {} };
    let error = plain_span(clocks.error_ns as f64);
    html! {
        p.note {
            @match clocks.from {
                ClocksFrom::Given => "The clocks of its hosts are said to be within ",
                ClocksFrom::Watched => "PTP, as it was watched, kept the clocks of its hosts within ",
            }
            b { (error) } " of each other"
            @if let Some(stamps) = clocks.stamps_ns {
                " (" (plain_span(stamps as f64)) " of it between hosts and the clocks of their network cards, which took the stamps)"
            }
            ". One-way figures may be off by as much, either way: their limits are compared with that added. "
            "Round trips, spacings and losses rest on one clock each."
            @for range in clocks.one_way.iter().filter(|_| clocks.error_ns > 0) {
                " " (capital(&range.quantity.replace('_', " "))) " of stream " (range.stream) " lies from "
                (plain_span(range.least_ns as f64)) " to " (plain_span(range.most_ns as f64)) " (" (count(range.count)) " values)."
            }
        }
        @for clock in &clocks.watched {
            p.note {
                (clock.host.as_deref().unwrap_or(&clock.folder)) ": within " (plain_span(clock.epsilon_ns as f64)) " of "
                (clock.grandmaster.as_deref().unwrap_or("its grandmaster")) ", by " (clock.stamps) " stamps"
                @if clock.covers == Some(false) { ", watched for a part of the run only" }
                "."
            }
        }
    }
}

fn item_line(item: &VerdictItem, group: &Group<'_>) -> Markup {
    html! {
        li {
            @if item.met { span.mark.yes title="met" { "✓" } } @else { span.mark.no title="not met" { "✗" } }
            div {
                div { (item_name(item, group)) }
                div.figures {
                    "found " b { @match item.found { Some(found) => (amount(found, &item.unit, span)), None => "not measured" } }
                    " · limit " b { (amount(item.limit, &item.unit, plain_span)) }
                }
                // The sentence begins with the name that stands above it already.
                @let name = Quantity::from_key(&item.quantity).map_or("", |quantity| quantity.words());
                @let why = item.why.strip_prefix(name).map_or(item.why.as_str(), |rest| rest.trim_start_matches([':', ' ']));
                @if !why.is_empty() { div.note { (why) } }
            }
        }
    }
}

fn item_name(item: &VerdictItem, group: &Group<'_>) -> String {
    let words = Quantity::from_key(&item.quantity).map_or(item.quantity.as_str(), |quantity| quantity.words());
    if item.stream.is_empty() || group.scenario.streams.len() < 2 {
        words.to_owned()
    } else {
        format!("{words}, stream {}", item.stream)
    }
}

fn amount(amount: Amount, unit: &str, span: fn(f64) -> String) -> String {
    match (amount, unit) {
        (Amount::Whole(ns), "ns") => span(ns as f64),
        (Amount::Whole(n), "share") => share(n as f64),
        (Amount::Whole(n), unit) => format!("{} {unit}", count(n.max(0) as u64)).trim_end().to_owned(),
        (Amount::Share(value), "ns") => span(value),
        (Amount::Share(value), _) => share(value),
    }
}

/// Incidents of one kind.
struct Trouble<'a> {
    kind: &'a str,
    list: Vec<(usize, &'a Incident)>,
}

/// What went wrong in a run, causes before their consequences; nothing when nothing did.
pub(crate) fn incidents(run: &Run<'_>, level: u8) -> Markup {
    let file = run.file;
    if file.incidents.is_empty() && file.incidents_left_out.is_empty() {
        return html! {};
    }
    let marks = marks(run);
    let start = start(run);
    let length = run.extent().map_or(0.0, |(a, b)| (b - a) as f64);
    let mut troubles: Vec<Trouble<'_>> = Vec::new();
    for (i, incident) in file.incidents.iter().enumerate() {
        match troubles.iter_mut().find(|t| t.kind == incident.kind) {
            Some(trouble) => trouble.list.push((i + 1, incident)),
            None => troubles.push(Trouble { kind: &incident.kind, list: vec![(i + 1, incident)] }),
        }
    }
    troubles.sort_by_key(|t| rank(t.kind));
    let title = format!("Where in the run it went wrong ({})", run.label);
    let description = format!("{} incidents over {}", marks.len(), moment(length));
    html! {
        section.card.long {
            (heading(level, html! { "What went wrong " small.note { "in the " (run.label) } }))
            @if !marks.is_empty() {
                figure { @for width in Width::BOTH { (strip(&title, &description, length, &marks, width)) } }
            }
            ol.wrong {
                @for trouble in &troubles { (trouble_item(trouble, start, file.incidents_left_out.get(trouble.kind).copied(), level + 1)) }
                @for (kind, n) in file.incidents_left_out.iter().filter(|(k, _)| !troubles.iter().any(|t| t.kind == k.as_str())) {
                    li { (heading(level + 1, html! { (kind_words(kind)) })) p.numbers { (count(*n)) " times, not listed" } }
                }
            }
        }
    }
}

fn trouble_item(trouble: &Trouble<'_>, start: i64, left_out: Option<u64>, level: u8) -> Markup {
    let frames: u64 = trouble.list.iter().map(|(_, i)| i.frames).sum();
    let worst = trouble.list.iter().max_by_key(|(_, i)| (i.frames, i.lasted_ns)).map_or(trouble.list[0], |w| *w);
    let total = trouble.list.len() as u64 + left_out.unwrap_or(0);
    html! {
        li {
            (heading(level, html! { (kind_words(trouble.kind)) }))
            p { (worst.1.cause) }
            p.numbers {
                @if total > 1 { (count(total)) " times" } @else { "once, at " (moment((worst.1.at_ns.saturating_sub(start)) as f64)) " of the run" }
                @if let (true, Some(lasted)) = (total == 1, worst.1.lasted_ns) { ", for " (plain_span(lasted as f64)) }
                @if total == 1 && let Some(place) = &worst.1.place { ", " (place) }
                @if frames > 0 { " · " (count(frames)) @if frames == 1 { " frame" } @else { " frames" } " late or lost" }
                " · number" @if trouble.list.len() > 1 { "s" } " " (numbers(&trouble.list)) " in the strip"
            }
            @if trouble.list.len() > 1 {
                details.more {
                    summary { "each of them" }
                    div.scroll { table.long {
                        thead { tr { th.n { "No." } th.n { "at" } th.n { "lasted" } th.n { "frames" } th { "where" } th { "cause" } } }
                        tbody { @for (number, incident) in trouble.list.iter().take(100) { tr {
                            td.n { (number) } td.n { (moment((incident.at_ns.saturating_sub(start)) as f64)) }
                            td.n { (incident.lasted_ns.map_or(ABSENT.to_owned(), |ns| span(ns as f64))) }
                            td.n { (count(incident.frames)) }
                            td { (incident.place.as_deref().unwrap_or(ABSENT)) } td.words { (incident.cause) }
                        } } }
                    } }
                    @if trouble.list.len() > 100 { p.note { "The first 100 of " (count(trouble.list.len() as u64)) "; run.json has them all." } }
                    @if let Some(n) = left_out { p.note { (count(n)) " more were counted and not kept." } }
                }
            }
        }
    }
}

fn numbers(list: &[(usize, &Incident)]) -> String {
    let shown: Vec<String> = list.iter().take(6).map(|(n, _)| n.to_string()).collect();
    format!("{}{}", shown.join(", "), if list.len() > 6 { " …" } else { "" })
}

/// The incidents of a run as marks on its time axis, numbered as listed.
pub(crate) fn marks(run: &Run<'_>) -> Vec<Mark> {
    let start = start(run);
    run.file
        .incidents
        .iter()
        .enumerate()
        .map(|(i, incident)| Mark { at: incident.at_ns.saturating_sub(start).max(0) as f64, number: i + 1 })
        .collect()
}

/// When a run began: the first instant any message has, or the first incident.
pub(crate) fn start(run: &Run<'_>) -> i64 {
    run.extent().map(|e| e.0).or_else(|| run.file.incidents.iter().map(|i| i.at_ns).min()).unwrap_or(0)
}

/// Causes stand before what follows from them.
fn rank(kind: &str) -> usize {
    const ORDER: [&str; 12] = [
        kinds::TRACE_MISSING,
        kinds::WRITER_SILENT,
        kinds::LINK_OVERLOAD,
        kinds::PAYLOAD_LATE,
        kinds::HOST_LATE,
        kinds::LINK_DOWN,
        kinds::SEND_REFUSED,
        kinds::STANDING_BACKLOG,
        kinds::WRONG_TAG,
        kinds::INCONSISTENT_SET,
        kinds::LAUNCH_LATE,
        kinds::FRAMES_LOST,
    ];
    ORDER.iter().position(|k| *k == kind).unwrap_or(ORDER.len() - 1)
}

fn kind_words(kind: &str) -> &str {
    match kind {
        kinds::HOST_LATE => "A host was late",
        kinds::PAYLOAD_LATE => "The payload is so long that it arrives too late",
        kinds::LINK_OVERLOAD => "A link is asked for more than its rate",
        kinds::LAUNCH_LATE => "Frames left after their launch time",
        kinds::FRAMES_LOST => "Frames were lost",
        kinds::WRITER_SILENT => "A publisher fell silent",
        kinds::INCONSISTENT_SET => "The variables of a message disagreed",
        kinds::WRONG_TAG => "Frames arrived with another tag",
        kinds::LINK_DOWN => "An interface went down",
        kinds::SEND_REFUSED => "The operating system refused to send",
        kinds::STANDING_BACKLOG => "A standing backlog: every counter comes back late by the same number of cycles",
        kinds::TRACE_MISSING => "Part of the trace is missing",
        other => other,
    }
}

/// A heading of a level, 2 to 6.
pub(crate) fn heading(level: u8, content: Markup) -> Markup {
    html! {
        @match level {
            2 => h2 { (content) },
            3 => h3 { (content) },
            4 => h4 { (content) },
            _ => h5 { (content) },
        }
    }
}
