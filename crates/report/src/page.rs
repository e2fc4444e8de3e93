//! The page: what stands on it, in which order.

use std::path::PathBuf;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use measure::{FrameRow, RunFile};
use scenario::{HostKind, Scenario, Stream};

use crate::error::ReportError;
use crate::group::Group;
use crate::text::{bytes, count, moment, plain_span};
use crate::verdict::{incidents, verdicts};
use crate::{explain, figures, machine, picture, style, tables};

/// Streams of a scenario that get drawings of their own; tables have all.
const DRAWN_STREAMS: usize = 4;

/// A run as it was read.
#[derive(Debug)]
pub struct RunInput {
    /// Name of the folder it was read from, for people.
    pub dir_name: String,
    /// Its `run.json`.
    pub run: RunFile,
    /// Its `frames.parquet`.
    pub rows: Vec<FrameRow>,
    /// Its `scenario.toml`, checked.
    pub scenario: Scenario,
}

/// Reads run folders and makes a page of them.
///
/// # Errors
/// When no folder is named, when one is no run folder or is damaged, or when its scenario cannot be read.
pub fn from_dirs(dirs: &[PathBuf]) -> Result<String, ReportError> {
    if dirs.is_empty() {
        return Err(ReportError::NoRuns);
    }
    let mut inputs = Vec::with_capacity(dirs.len());
    for dir in dirs {
        let (run, rows, text) = measure::read_run(dir).map_err(|why| ReportError::Run { dir: dir.clone(), why })?;
        let scenario = scenario::read(&text, "scenario.toml")
            .map_err(|why| ReportError::Scenario { dir: dir.clone(), why: why.to_string() })?;
        let dir_name = dir.file_name().map_or_else(|| dir.display().to_string(), |n| n.to_string_lossy().into_owned());
        inputs.push(RunInput { dir_name, run, rows, scenario });
    }
    Ok(page(&inputs))
}

/// Makes one self-contained page. Runs of the same scenario file share a section.
pub fn page(inputs: &[RunInput]) -> String {
    let groups = Group::all(inputs);
    let title = match &groups[..] {
        [] => "Downbeat report".to_owned(),
        [one] => format!("{} · Downbeat report", one.scenario.name),
        many => format!("{} scenarios · Downbeat report", many.len()),
    };
    document(
        &title,
        &html! {
            @match &groups[..] {
                [] => { h1 { "No runs" } p.lede { "No run was given to report on." } }
                [one] => { h1 { (one.scenario.name) } (lede(one)) (body(one, 2)) }
                many => {
                    h1 { (many.len()) " scenarios" }
                    p.lede { "The runs are of different scenario files, so each stands for itself." }
                    @for group in many { h2.scenario { (group.scenario.name) } (lede(group)) (body(group, 3)) }
                }
            }
        },
    )
}

/// A page that loads nothing, with this title, around its content.
pub(crate) fn document(title: &str, content: &Markup) -> String {
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="generator" content=(concat!("Downbeat ", env!("CARGO_PKG_VERSION")));
                title { (title) }
                // An icon inside the page, so that browsers do not ask a server for one.
                link rel="icon" href="data:,";
                style { (PreEscaped(style::CSS)) }
            }
            body { main {
                (eyebrow())
                (content)
                footer { "Made by Downbeat " (env!("CARGO_PKG_VERSION")) ". This page is complete in itself and loads nothing." }
            } }
        }
    };
    markup.into_string()
}

fn eyebrow() -> Markup {
    html! {
        p.eyebrow {
            svg viewBox="0 0 26 16" aria-hidden="true" {
                path d="M1 12h24" fill="none" stroke="currentColor" stroke-width="1.5" {}
                path d="M4 12V2M13 12V7M22 12V2" fill="none" stroke="currentColor" stroke-width="2.5" {}
            }
            "Downbeat report"
        }
    }
}

/// In a few lines: what runs where, how often, and which runs are shown.
fn lede(group: &Group<'_>) -> Markup {
    let scenario = group.scenario;
    let bridges = scenario.hosts.iter().filter(|h| h.kind != HostKind::Station).count();
    html! {
        p.lede {
            @for (i, stream) in scenario.streams.iter().take(3).enumerate() { @if i > 0 { "; " } (stream_words(scenario, stream)) }
            @if scenario.streams.len() > 3 { "; and " (scenario.streams.len() - 3) " more streams" }
            ". " (scenario.hosts.len() - bridges) " stations" @if bridges > 0 { ", " (bridges) @if bridges == 1 { " bridge" } @else { " bridges" } }
            @if !scenario.traffic.is_empty() { ", " (scenario.traffic.len()) @if scenario.traffic.len() == 1 { " other flow" } @else { " other flows" } }
            "."
        }
        p.note { @for (i, run) in group.measured_first().enumerate() {
            @if i > 0 { " · " }
            (tables::capital(&run.label)) ": " (count(run.file.streams.iter().map(|s| s.frames).sum())) " frames"
            @if let Some((a, b)) = run.extent() { " in " (moment((b - a) as f64)) }
        } }
    }
}

fn stream_words(scenario: &Scenario, stream: &Stream) -> Markup {
    html! {
        b { (stream.name) } ": " (scenario.host(stream.writer).name) " → " (scenario.host(stream.reader).name)
        @if stream.echo { " and back" }
        ", " (stream.variables) @if stream.variables == 1 { " variable" } @else { " variables" } " (" (bytes(stream.payload_bytes().into())) " of UADP) every " (plain_span(stream.cycle.0 as f64))
        @if stream.launch { ", launched " (plain_span(stream.offset.0 as f64)) " into the next cycle" }
    }
}

fn body(group: &Group<'_>, level: u8) -> Markup {
    let streams = &group.scenario.streams;
    let drawn = streams.len().min(DRAWN_STREAMS);
    html! {
        (verdicts(group, level))
        @for run in group.measured_first() { (incidents(run, level)) }
        @for stream in streams { (tables::summary(group, stream, level)) }
        @if drawn < streams.len() {
            p.note { "Drawings are of the first " (drawn) " of " (streams.len()) " streams; the tables have all." }
        }
        @for index in 0..drawn {
            (figures::main_distribution(group, index, level))
            div.pair {
                (figures::stack_distribution(group, index, level))
                (figures::spacing_distribution(group, index, level))
            }
            (explain::split(group, index, level))
            (figures::stages(group, index, level))
            (explain::counter(group, index, level))
            (picture::section(group, index, level))
            (figures::course(group, index, level))
        }
        @for stream in streams { (tables::losses(group, stream, level)) }
        (machine::departure(group, level))
        (tables::hosts(group, level))
        (explain::margins(group, level))
        (machine::machines(group, level))
        (machine::certificate(group, level + 1))
        (machine::repeat(group, level))
    }
}
