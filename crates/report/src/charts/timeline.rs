//! The course of a run: a span of every frame over time, and the strip that shows when something went wrong.

use std::fmt::Write;

use maud::Markup;

use super::Width;
use super::axis::{Axis, Scale};
use super::svg::{Anchor, LETTER, Svg, n, text_width};
use crate::text::{Unit, short_span};

/// One run over time.
#[derive(Debug, Clone)]
pub(crate) struct Course {
    /// Its class: colour.
    pub(crate) class: &'static str,
    /// (time since its start, span), both nanoseconds, by time.
    pub(crate) points: Vec<(i64, i64)>,
}

/// Something that went wrong.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark {
    /// Nanoseconds since the start of the run.
    pub(crate) at: f64,
    /// Its number in the list of incidents.
    pub(crate) number: usize,
}

/// A slot of time: all spans in it lie between `low` and `high`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Slot {
    at: i64,
    low: i64,
    high: i64,
}

/// Draws spans over time, lowest to highest of every slot, with marks and limits.
pub(crate) fn over_time(
    title: &str,
    description: &str,
    y_label: &str,
    courses: &[Course],
    marks: &[Mark],
    limits: &[(f64, &'static str, String)],
    width: Width,
) -> Markup {
    let (w, h) = (width.units(), 280.0);
    let (left, right, top, bottom) = (64.0, w - 14.0, 34.0, h - 44.0);
    let mut svg = Svg::new(w, h, width.class(), title, description);
    let spans = courses.iter().flat_map(|c| c.points.iter().map(|p| p.1 as f64));
    let spans = spans.chain(limits.iter().map(|l| l.0));
    let (low, high) = spans.fold((f64::INFINITY, f64::NEG_INFINITY), |a, b| (a.0.min(b), a.1.max(b)));
    let y = if low.is_finite() { Axis::spans(low, high, bottom, top) } else { Axis::spans(0.0, 1e3, bottom, top) };
    let x = time_axis(courses.iter().flat_map(|c| c.points.last()).map(|p| p.0 as f64), marks, left, right);

    let unit = Unit::of(y.high / 1.2);
    let mut last = f64::INFINITY;
    for tick in y.ticks(unit.ns(), 6) {
        let at = y.at(tick);
        svg.line((left, at), (right, at), "rule");
        if last - at >= LETTER {
            svg.text((left - 6.0, at + 4.5), Anchor::End, "tick", &unit.bare(tick));
            last = at;
        }
    }
    svg.text((4.0, 13.0), Anchor::Start, "axis-label", &format!("{y_label} [{}]", unit.symbol()));
    time_ticks(&mut svg, &x, bottom, width);
    svg.text((f64::midpoint(left, right), h - 8.0), Anchor::Middle, "axis-label", "time since the start of the run");

    for mark in marks {
        let at = x.at(mark.at);
        svg.line((at, top - 8.0), (at, bottom), "incident");
    }
    let slots = if width == Width::Wide { 750 } else { 340 };
    for course in courses {
        let mut data = String::new();
        for slot in slots_of(&course.points, slots) {
            let (a, b) = (y.at(slot.low as f64), y.at(slot.high as f64));
            // A single value still shows as a short stroke.
            let (a, b) = if a - b < 1.6 { (a + 0.8, a - 0.8) } else { (a, b) };
            let _ = write!(data, "M{} {}V{}", n(x.at(slot.at as f64)), n(a), n(b));
        }
        if !data.is_empty() {
            svg.path(&data, &format!("strip {}", course.class));
        }
    }
    for (at, class, label) in limits {
        svg.line((left, y.at(*at)), (right, y.at(*at)), class);
        // Below its line where there is no room above.
        let level = if y.at(*at) - top < LETTER { y.at(*at) + LETTER + 3.0 } else { y.at(*at) - 7.0 };
        svg.text((right - 2.0, level), Anchor::End, &format!("label {class}"), label);
    }
    flags(&mut svg, marks, &x, top - 12.0);
    svg.finish()
}

/// Draws the run as a strip with its marks.
pub(crate) fn strip(title: &str, description: &str, length: f64, marks: &[Mark], width: Width) -> Markup {
    let (w, h) = (width.units(), 64.0);
    let mut svg = Svg::new(w, h, width.class(), title, description);
    let x = time_axis([length].into_iter(), marks, 12.0, w - 12.0);
    svg.rect((x.start, 24.0), (x.end - x.start, 12.0), "run");
    for mark in marks {
        svg.line((x.at(mark.at), 22.0), (x.at(mark.at), 38.0), "incident");
    }
    time_ticks(&mut svg, &x, 38.0, width);
    flags(&mut svg, marks, &x, 16.0);
    svg.finish()
}

fn time_axis(ends: impl Iterator<Item = f64>, marks: &[Mark], start: f64, end: f64) -> Axis {
    let high = ends.chain(marks.iter().map(|m| m.at)).fold(1.0, f64::max);
    Axis { scale: Scale::Linear, low: 0.0, high, start, end }
}

fn time_ticks(svg: &mut Svg, x: &Axis, bottom: f64, width: Width) {
    let unit = match x.high {
        high if high >= 2e9 => Unit::Second,
        high if high >= 2e6 => Unit::Milli,
        high => Unit::of(high),
    };
    svg.line((x.start, bottom), (x.end, bottom), "axis");
    let edge = width.units();
    for tick in x.ticks(unit.ns(), if width == Width::Wide { 10 } else { 4 }) {
        let at = x.at(tick);
        svg.line((at, bottom), (at, bottom + 4.0), "axis");
        let label = format!("{}\u{202f}{}", unit.bare(tick), unit.symbol());
        let half = text_width(&label) / 2.0;
        let at = at.clamp(half, edge - half);
        svg.text((at, bottom + 17.0), Anchor::Middle, "tick", &label);
    }
}

/// Numbers over the marks; neighbours that would cover each other are joined: `2–5`.
fn flags(svg: &mut Svg, marks: &[Mark], x: &Axis, level: f64) {
    let mut sorted = marks.to_vec();
    sorted.sort_by(|a, b| a.at.total_cmp(&b.at));
    let mut i = 0;
    while i < sorted.len() {
        let first = x.at(sorted[i].at);
        let mut numbers = vec![sorted[i].number];
        let mut last = first;
        while let Some(next) = sorted.get(i + 1) {
            if x.at(next.at) - first > 26.0 {
                break;
            }
            last = x.at(next.at);
            numbers.push(next.number);
            i += 1;
        }
        i += 1;
        let (low, high) = numbers.iter().fold((usize::MAX, 0), |a, n| (a.0.min(*n), a.1.max(*n)));
        let label = match numbers.len() {
            1 => format!("{low}"),
            k if high - low + 1 == k => format!("{low}–{high}"),
            k => format!("{k}×"),
        };
        let half = text_width(&label) / 2.0;
        let at = f64::midpoint(first, last).clamp(half, x.end + 12.0 - half);
        svg.text((at, level), Anchor::Middle, "label incident", &label);
    }
}

/// Lowest and highest span in each of `count` slots of time; at most `2 · count` figures for any number of points.
fn slots_of(points: &[(i64, i64)], count: usize) -> Vec<Slot> {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return Vec::new() };
    if points.len() <= count {
        return points.iter().map(|&(at, v)| Slot { at, low: v, high: v }).collect();
    }
    let length = (i128::from(last.0) - i128::from(first.0)).max(1);
    let mut slots: Vec<(i128, Slot)> = Vec::new();
    for &(at, v) in points {
        let index = (i128::from(at) - i128::from(first.0)) * count as i128 / (length + 1);
        match slots.last_mut() {
            Some((i, slot)) if *i == index => {
                slot.low = slot.low.min(v);
                slot.high = slot.high.max(v);
            }
            _ => slots.push((index, Slot { at, low: v, high: v })),
        }
    }
    slots.into_iter().map(|(_, slot)| slot).collect()
}

/// Highest span, for a description.
pub(crate) fn highest(courses: &[Course]) -> Option<String> {
    courses.iter().flat_map(|c| c.points.iter().map(|p| p.1)).max().map(|v| short_span(v as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_keep_the_extremes_and_stay_few() {
        let mut points: Vec<(i64, i64)> = (0..700_000).map(|i| (i * 250_000, 500_000 + i % 7)).collect();
        points[345_678].1 = 9_000_000;
        points[5].1 = 1;
        let slots = slots_of(&points, 750);
        assert!(slots.len() <= 750);
        assert_eq!(slots.iter().map(|s| s.high).max(), Some(9_000_000));
        assert_eq!(slots.iter().map(|s| s.low).min(), Some(1));
    }

    #[test]
    fn nothing_is_drawn_without_harm() {
        let marks = [Mark { at: 3e9, number: 1 }, Mark { at: 3.01e9, number: 2 }];
        let text = over_time("t", "d", "y", &[], &marks, &[], Width::Wide).into_string();
        assert!(text.contains("1–2"));
        assert!(strip("t", "d", 0.0, &[], Width::Narrow).into_string().ends_with("</svg>"));
    }
}
