//! The page of a watch over clock synchronisation, one section an end.

use maud::{Markup, html};
use measure::{Course, Figures, PtpFile, class_width, clock_error_of_ends};

use crate::charts::{Width, offsets};
use crate::page::document;
use crate::text::{ABSENT, count, moment, plain_span, share, span, trimmed};

/// Makes one self-contained page of `ptp.json` files, each with the name of its folder.
pub fn ptp_page(ends: &[(String, PtpFile)]) -> String {
    let title = match ends {
        [(name, file)] => file.host.clone().unwrap_or_else(|| name.clone()),
        many => format!("{} clocks", many.len()),
    };
    document(
        &format!("{title} · Downbeat clock report"),
        &html! {
            h1 { "Clock synchronisation: " (title) }
            p.lede { "How far each host's clock was from its grandmaster, as ptp4l and phc2sys told while they were watched." }
            (error(ends))
            @for (name, file) in ends { (end(name, file, ends.len() > 1)) }
        },
    )
}

/// What the reader came for: ε.
fn error(ends: &[(String, PtpFile)]) -> Markup {
    let together = clock_error_of_ends(ends.iter().map(|(_, file)| file));
    html! {
        section.card.verdict {
            h2 { @match together {
                Some(ns) => { "Clock error ε = " b { (span(ns as f64)) } @if ends.len() > 1 { " between any two of these hosts" } @else { " against the grandmaster" } },
                None => "No clock error can be stated",
            } }
            ul.items { @for (name, file) in ends { li {
                @if file.clock_error.is_some() { span.mark.yes { "✓" } } @else { span.mark.no { "✗" } }
                div {
                    div { (file.host.as_deref().unwrap_or(name)) }
                    @if let Some(error) = &file.clock_error {
                        div.figures { "ε = " b { (span(error.epsilon_ns as f64)) } }
                        div.note {
                            "offset to the grandmaster " (span(error.offset_ns as f64)) " + system clock to interface " (span(error.system_ns as f64))
                            " + longest reading " (span(error.read_ns as f64)) "; " (count(error.samples)) " samples over " (lasted(error.lasted_ns))
                            ", " (error.stamps) " stamps"
                        }
                    } @else { div.note { (file.clock_error_unknown.as_deref().unwrap_or("It is not told.")) } }
                }
            } } }
            @if let Some(ns) = together { pre { "downbeat join … --clock-error " (ns) "ns" } }
            p.note { "The greatest values that were seen, not the greatest there can be. A path whose two directions take different times shifts both ends unseen, by half of the difference." }
        }
    }
}

fn end(name: &str, file: &PtpFile, many: bool) -> Markup {
    html! {
        @if many { h2.scenario { (file.host.as_deref().unwrap_or(name)) } }
        (facts(name, file))
        (courses(file))
        (distributions(file))
        (beginning(file))
        @for system in &file.system { @if !system.course.slots.is_empty() {
            section.card {
                h2 { "phc2sys: " (system.clock) " " small { "distance to the clock it follows" } }
                (figures_table(&[("offset since its lock", system.offset.as_ref()), ("length of a reading", system.read_delay.as_ref())], &file.stamps))
                figure { @for width in Width::BOTH {
                    (offsets::over_time("Offset of phc2sys over time", &described(system.offset.as_ref()), "offset", &slots(&system.course), &[], width))
                } }
            }
        } }
        (events(file))
    }
}

fn facts(name: &str, file: &PtpFile) -> Markup {
    let instant =
        |ns: Option<i64>| ns.map_or_else(|| "not seen while somebody watched".to_owned(), |ns| moment(ns as f64));
    let convergence = &file.convergence;
    html! {
        section.card {
            h2 { "What was watched" }
            dl.facts {
                dt { "Folder" } dd { (name) }
                dt { "For" } dd { (lasted(file.lasted_ns)) ", ended by " (file.ended) }
                dt { "Stamps" } dd { b { (file.stamps) } @if file.free_running == Some(true) { "; free running: no clock was steered" } }
                dt { "Clock" } dd { code { (file.clock.as_deref().unwrap_or(ABSENT)) } }
                dt { "Grandmaster" } dd { code { (file.grandmaster.as_deref().unwrap_or(ABSENT)) } @if file.clock.is_some() && file.clock == file.grandmaster { ", this host" } }
                @for port in &file.ports {
                    dt { "Port " (port.number) } dd { (port.interface.as_deref().unwrap_or("unknown interface")) ": " (port.state) ", " (port.stamps) " stamps" }
                }
                dt { "Best master selected" } dd { (instant(convergence.best_master_ns)) " after " (convergence.from) }
                dt { "Servo locked" } dd { (instant(convergence.servo_lock_ns)) @if convergence.servo_lock_ns.is_some() { " later" } }
            }
            @for note in &file.notes { p.note { (note) } }
            (figures_table(&[
                ("offset since the lock", file.offset.as_ref()),
                ("offset, all", file.offset_all.as_ref()),
                ("rms of eight in a row", file.offset_rms8.as_ref()),
                ("path delay", file.path_delay.as_ref()),
            ], &file.stamps))
        }
    }
}

fn figures_table(rows: &[(&str, Option<&Figures>)], stamps: &str) -> Markup {
    html! { div.scroll { table.sides {
        thead { tr { th { (stamps) " stamps" } @for head in ["least", "mean", "rms", "greatest", "samples"] { th.n { (head) } } } }
        tbody { @for (name, figures) in rows { tr {
            th scope="row" { (name) }
            @match figures {
                Some(f) => {
                    td.n data-label="least" { b { (span(f.min_ns as f64)) } }
                    td.n data-label="mean" { b { (span(f.mean_ns)) } }
                    td.n data-label="rms" { b { (span(f.rms_ns)) } }
                    td.n data-label="greatest" { b { (span(f.max_ns as f64)) } }
                    td.n data-label="samples" { b { (count(f.count)) } }
                },
                None => { td.n.absent colspan="5" { (ABSENT) } },
            }
        } } }
    } } }
}

fn courses(file: &PtpFile) -> Markup {
    if file.offset_course.slots.is_empty() {
        return html! {};
    }
    let locked = locked_at(file);
    let marks: Vec<_> = locked.map(|at| (at, "bound", "servo locked")).into_iter().collect();
    html! {
        section.card {
            h2 { "Offset over time " small { "least to greatest of each slot; " (file.stamps) " stamps" } }
            figure { @for width in Width::BOTH {
                (offsets::over_time("Offset to the grandmaster over time", &described(file.offset_all.as_ref()), "offset", &slots(&file.offset_course), &marks, width))
            } }
        }
        @if !file.path_delay_course.slots.is_empty() { section.card {
            h2 { "Path delay over time " small { "as ptp4l filters it" } }
            figure { @for width in Width::BOTH {
                (offsets::over_time("Path delay over time", &described(file.path_delay.as_ref()), "path delay", &slots(&file.path_delay_course), &[], width))
            } }
        } }
    }
}

fn distributions(file: &PtpFile) -> Markup {
    let since = if file.offset.is_some() { "since the lock" } else { "all, there was no lock" };
    let offset = file.offset.as_ref().or(file.offset_all.as_ref());
    html! {
        div.pair {
            @if let Some(figures) = offset { (distribution("Offset", since, "offset", figures)) }
            @if let Some(figures) = &file.offset_rms8 { (distribution("Rms of eight offsets", since, "rms of eight", figures)) }
        }
    }
}

fn distribution(title: &str, since: &str, label: &str, figures: &Figures) -> Markup {
    let classes: Vec<(i64, i64, u64)> =
        figures.classes.iter().map(|&(from, samples)| (from, class_width(from), samples)).collect();
    let near: u64 = figures.classes.iter().filter(|class| (-10..10).contains(&class.0)).map(|class| class.1).sum();
    html! {
        section.card {
            h2 { (title) " " small { "classes of 10 ns, " (since) } }
            p.note { (share(near as f64 / figures.count.max(1) as f64)) " closer than 10 ns; greatest distance " (span(figures.max_abs() as f64)) }
            figure { @for width in Width::BOTH { (offsets::histogram(title, &described(Some(figures)), label, &classes, width)) } }
        }
    }
}

/// The first seconds, sample by sample.
fn beginning(file: &PtpFile) -> Markup {
    // Of a watch that came later, the beginning is any time.
    if file.convergence.first_offsets.is_empty() || file.convergence.best_master_ns.is_none() {
        return html! {};
    }
    let points: Vec<(i64, i64, i64)> = file.convergence.first_offsets.iter().map(|&(at, v)| (at, v, v)).collect();
    let last = points.last().map_or(0, |point| point.0);
    let best = file.convergence.best_master_ns.map(|at| (at, "limit", "best master"));
    let locked = locked_at(file).filter(|at| *at <= last).map(|at| (at, "bound", "servo locked"));
    let marks: Vec<_> = best.into_iter().chain(locked).collect();
    html! {
        section.card {
            h2 { "Convergence " small { "the first " (count(points.len() as u64)) " offsets, one by one" } }
            figure { @for width in Width::BOTH {
                (offsets::over_time("The first offsets", "Offsets from the beginning, with the instants of selection and lock", "offset", &points, &marks, width))
            } }
        }
    }
}

fn events(file: &PtpFile) -> Markup {
    html! {
        section.card.long {
            h2 { "Events " small { (count(file.events.len() as u64 + file.events_left_out)) } }
            @if file.events.is_empty() { p.note { "Nothing happened." } }
            @else { div.scroll { table.long {
                thead { tr { th.n { "at" } th { "kind" } th { "what" } } }
                tbody { @for event in file.events.iter().take(200) { tr {
                    td.n { (moment(event.at_ns as f64)) } td { (event.kind.replace('_', " ")) } td { (event.text) }
                } } }
            } } }
            @let more = file.events.len().saturating_sub(200) as u64 + file.events_left_out;
            @if more > 0 { p.note { "And " (count(more)) " more." } }
        }
    }
}

fn locked_at(file: &PtpFile) -> Option<i64> {
    let convergence = &file.convergence;
    Some(convergence.best_master_ns?.saturating_add(convergence.servo_lock_ns?))
}

/// How long something lasted, in the unit that makes a short number.
fn lasted(ns: i64) -> String {
    match ns as f64 / 1e9 {
        s if s >= 7_200.0 => format!("{}\u{202f}h", trimmed(s / 3_600.0, 2)),
        s if s >= 120.0 => format!("{}\u{202f}min", trimmed(s / 60.0, 1)),
        s => format!("{}\u{202f}s", trimmed(s, 1)),
    }
}

fn slots(course: &Course) -> Vec<(i64, i64, i64)> {
    course.slots.iter().map(|slot| (slot.0, slot.1, slot.2)).collect()
}

fn described(figures: Option<&Figures>) -> String {
    figures.map_or_else(
        || "No figures".to_owned(),
        |f| {
            format!(
                "{} samples from {} to {}",
                count(f.count),
                plain_span(f.min_ns as f64),
                plain_span(f.max_ns as f64)
            )
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::{ClockError, Convergence, PtpEvent, Tally};

    fn file() -> PtpFile {
        let (mut tally, mut course) = (Tally::default(), Course::default());
        for index in 0..5_000_i64 {
            tally.record(index % 60 - 30);
            course.push(index * 125_000_000, index % 60 - 30);
        }
        PtpFile {
            host: Some("<loop>".into()),
            stamps: "hardware".into(),
            offset: tally.figures(),
            offset_all: tally.figures(),
            offset_rms8: tally.figures(),
            path_delay: tally.figures(),
            offset_course: course.clone(),
            path_delay_course: course,
            convergence: Convergence {
                from: "ptp4l started".into(),
                best_master_ns: Some(2_000_000_000),
                servo_lock_ns: Some(1_000_000_000),
                first_offsets: vec![(2_100_000_000, 900), (3_100_000_000, -3)],
            },
            clock_error: Some(ClockError {
                epsilon_ns: 37,
                offset_ns: 30,
                system_ns: 4,
                read_ns: 3,
                samples: 5_000,
                lasted_ns: 625_000_000_000,
                stamps: "hardware".into(),
            }),
            events: vec![PtpEvent { at_ns: 3_000_000_000, kind: "locked".into(), text: "the servo has locked".into() }],
            ..PtpFile::default()
        }
    }

    #[test]
    fn the_page_has_the_papers_pictures_and_the_error() {
        let page = ptp_page(&[("a".into(), file()), ("b".into(), file())]);
        for word in [
            "Offset over time",
            "Path delay over time",
            "classes of 10 ns",
            "Convergence",
            "--clock-error 74ns",
            "servo locked",
            "&lt;loop&gt;",
        ] {
            assert!(page.contains(word), "{word}");
        }
        assert!(
            !page.contains("<loop>") && !page.contains("NaN") && !page.contains("src=") && !page.contains("<script")
        );
    }

    #[test]
    fn a_page_of_nothing_says_so() {
        let page = ptp_page(&[("a".into(), PtpFile::default())]);
        assert!(page.contains("No clock error can be stated") && page.contains("Nothing happened"));
        assert!(!page.contains("Offset over time") && !page.contains("NaN"));
    }
}
