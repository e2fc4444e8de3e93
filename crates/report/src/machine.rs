//! On what the runs ran: departure mechanism, machine, certificate of the bound, how to repeat it.

use maud::{Markup, html};
use measure::{Kind, Machine};
use serde_json::Value;

use crate::bounds::{Bounds, Figure, StreamBound, plain};
use crate::group::{Group, Run};
use crate::tables::capital;
use crate::text::{ABSENT, plain_span};
use crate::verdict::heading;

/// How frames were made to depart, and what a "wire" is here.
pub(crate) fn departure(group: &Group<'_>, level: u8) -> Markup {
    html! {
        section.card {
            (heading(level, html! { "How frames departed" }))
            @for run in group.measured_first() {
                div.say {
                    p { b { (capital(&run.label)) ": " } (mechanism(run)) "." }
                    @for (interface, clock) in measure::stamp_clocks(&run.file.machine) {
                        p {
                            "Frames at " (interface) " are stamped by the clock of its network card, " (clock.device) ", which was within "
                            b { (plain_span(clock.error_ns as f64)) } " of the machine's clock (" (clock.looks) " looks). What lies between a stamp and an "
                            "instant of a program may be off by as much, either way; round trips T2 → T7 and spacings are not."
                            @if let Some(unread) = &clock.unread { " From some instant on nothing is known of it: " (unread) "." }
                        }
                    }
                    @if run.file.kind != Kind::Simulated && has_veth(&run.file.machine) {
                        p { "The links are veth pairs inside one kernel: they have no wire time. T2 → T3 is what the kernel takes to pass a frame on, not a transmission at the rate of the link." }
                    }
                }
            }
            p.note { "Launch time in the NIC, ETF without offload (which may leave early by up to its delta), gate schedules and own pacing are different things; figures of different mechanisms are not compared without saying so." }
        }
    }
}

fn mechanism(run: &Run<'_>) -> String {
    let of_streams = run.file.streams.iter().filter_map(|s| s.launch.as_ref()?.mechanism.clone());
    let mut words: Vec<String> = Vec::new();
    for text in of_streams.chain(run.file.machine.get("pacing").map(plain)) {
        let text = text.trim_end_matches('.').to_owned();
        if !text.is_empty() && !words.contains(&text) {
            words.push(text);
        }
    }
    match (words.is_empty(), run.file.kind) {
        (false, _) => words.join("; "),
        (true, Kind::Simulated) => "in virtual time, at the modelled instant".into(),
        (true, _) => "the run does not say what made its frames depart".into(),
    }
}

fn has_veth(machine: &Machine) -> bool {
    fn anywhere(value: &Value) -> bool {
        match value {
            Value::String(text) => text.to_lowercase().contains("veth"),
            Value::Array(values) => values.iter().any(anywhere),
            Value::Object(map) => map.iter().any(|(key, value)| key.contains("veth") || anywhere(value)),
            _ => false,
        }
    }
    ["link", "links", "network", "qdiscs"].iter().filter_map(|key| machine.get(*key)).any(anywhere)
}

/// Everything the runs say about their machines, side by side.
pub(crate) fn machines(group: &Group<'_>, level: u8) -> Markup {
    /// What is asked first stands first; anything else follows by its key.
    const FIRST: [(&str, &str); 14] = [
        ("host", "Host"),
        ("kernel", "Kernel"),
        ("cpu", "CPU"),
        ("cpus", "CPUs"),
        ("virtual_machine", "Virtual machine"),
        ("clock", "Clock"),
        ("governor", "Frequency governor"),
        ("link", "Links"),
        ("pacing", "Departure"),
        ("qdiscs", "Queue disciplines"),
        ("scheduler", "Scheduling"),
        ("granted", "Granted"),
        ("denied", "Not granted"),
        ("seed", "Seed"),
    ];
    let mut keys: Vec<(String, String)> = Vec::new();
    let has = |key: &str| group.runs.iter().any(|run| run.file.machine.get(key).is_some_and(|v| !v.is_null()));
    keys.extend(FIRST.iter().filter(|(k, _)| has(k)).map(|(k, words)| ((*k).to_owned(), (*words).to_owned())));
    for key in group.runs.iter().flat_map(|run| run.file.machine.keys()) {
        if key != "command" && has(key) && !keys.iter().any(|(k, _)| k == key) {
            keys.push((key.clone(), capital(&key.replace('_', " "))));
        }
    }
    html! {
        section.card.long {
            (heading(level, html! { "On what it ran" }))
            @if keys.is_empty() { p { "The runs do not say." } } @else { div.scroll { table.long {
                thead { tr { th { } @for run in &group.runs { th { (capital(&run.label)) } } } }
                tbody { @for (key, words) in &keys { tr {
                    th scope="row" { (words) }
                    @for run in &group.runs { @match run.file.machine.get(key).filter(|v| !v.is_null()) {
                        Some(value) => td { (machine_value(value)) },
                        None => td.absent { (ABSENT) },
                    } }
                } } }
            } } }
        }
    }
}

fn machine_value(value: &Value) -> Markup {
    html! {
        @match value {
            Value::Object(map) if !map.is_empty() => @for (key, value) in map { div { (key.replace('_', " ")) ": " (plain(value)) } },
            Value::Array(values) if values.len() > 1 => @for value in values { div { (plain(value)) } },
            value => (plain(value)),
        }
    }
}

/// The certificate of the bounds: formulas and the part of every port.
pub(crate) fn certificate(group: &Group<'_>, level: u8) -> Markup {
    html! {
        @if group.bounds.iter().any(|b| !b.streams.is_empty()) { details.card {
            summary { "The certificate of the bound" }
            @for bounds in &group.bounds { @for stream in &bounds.streams { (stream_certificate(group, bounds, stream, level)) } }
        } }
    }
}

fn stream_certificate(group: &Group<'_>, bounds: &Bounds, stream: &StreamBound, level: u8) -> Markup {
    let name = if group.scenario.streams.len() > 1 { format!(", stream {}", stream.name) } else { String::new() };
    let model = match bounds.model.as_str() {
        "packet" => "Whole frames, store and forward",
        "paper" => "The fluid model of the paper, to compare with it only",
        other => other,
    };
    let mut columns: Vec<String> = Vec::new();
    let rows: Vec<Vec<(String, String)>> = stream.ports.iter().map(flat).collect();
    for (key, _) in rows.iter().flatten() {
        if !columns.contains(key) {
            columns.push(key.clone());
        }
    }
    html! {
        (heading(level, html! { (model) (name) }))
        @if !bounds.assumptions.is_empty() { ul { @for line in &bounds.assumptions { li.note { (line) } } } }
        @if !stream.certificate.is_empty() { pre.long.wrap { @for line in &stream.certificate { (line) "\n" } } }
        div.scroll { table {
            thead { tr { th { "Bound" } th.n { "rounded up" } th.n { "exactly" } } }
            tbody { @for (key, figure) in &stream.figures { tr {
                th scope="row" { (key.replace("round_trip.", "round trip ").replace('_', " ")) }
                @match figure {
                    Figure::Span { us, exact_s } => { td.n { (us) " µs" } td.n { (exact_s) " s" } }
                    Figure::Cycles { elapsed, used } => { td.n { (crate::text::cycles(*elapsed)) } td.n { (crate::text::trimmed(*used, 0)) " used" } }
                    Figure::Unbounded(reason) => { td colspan="2" { "no bound: " (reason) } }
                }
            } } }
        } }
        @if !rows.is_empty() { div.scroll { table.long {
            thead { tr { @for (i, column) in columns.iter().enumerate() { th class=[(i > 2).then_some("n")] { (column.replace('_', " ")) } } } }
            tbody { @for row in &rows { tr { @for (i, column) in columns.iter().enumerate() {
                td class=[(i > 2).then_some("n")] { (row.iter().find(|(key, _)| key == column).map_or(ABSENT, |(_, text)| text)) }
            } } } }
        } } }
        @for (key, text) in &stream.remarks { p.note { (key.replace('_', " ")) ": " (text) } }
    }
}

/// A port's part with its terms beside it.
fn flat(port: &serde_json::Map<String, Value>) -> Vec<(String, String)> {
    let mut cells = Vec::new();
    for (key, value) in port {
        match value {
            Value::Object(inner) if key == "terms" => cells.extend(inner.iter().map(|(k, v)| (k.clone(), short(v)))),
            value => cells.push((key.clone(), short(value))),
        }
    }
    cells
}

/// A value for a table: the decimal of a figure, without its fraction.
fn short(value: &Value) -> String {
    match value.get("us").and_then(Value::as_str) {
        Some(us) => format!("{us} µs"),
        None => plain(value),
    }
}

/// The command of each run, and the scenario file.
pub(crate) fn repeat(group: &Group<'_>, level: u8) -> Markup {
    html! {
        section.card.long {
            (heading(level, html! { "Do it again" }))
            p.note { "Save the scenario below as a file and run:" }
            pre { @for run in group.measured_first() { (command(run, &group.scenario.name)) "\n" } }
            details.more {
                summary { "The scenario file as it was read" }
                pre.long { (group.scenario.source) }
            }
            dl.facts {
                dt { "SHA-256 of the scenario" }
                dd { code { (group.runs.first().map_or("", |run| run.file.scenario.sha256.as_str())) } }
                @for run in group.measured_first() { dt { "Folder of the " (run.label) } dd { code { (run.dir_name) } } }
            }
        }
    }
}

fn command(run: &Run<'_>, name: &str) -> String {
    match run.file.machine.get("command") {
        Some(Value::String(command)) => command.clone(),
        Some(Value::Array(words)) => words.iter().map(|w| quoted(&plain(w))).collect::<Vec<_>>().join(" "),
        _ => {
            let verb = if run.file.kind == Kind::Simulated { "simulate" } else { "run" };
            format!("downbeat {verb} {name}.toml")
        }
    }
}

fn quoted(word: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@+%".contains(c);
    if !word.is_empty() && word.chars().all(safe) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
