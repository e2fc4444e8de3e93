//! Empirical distributions: the share of frames at or below a span.

use std::fmt::Write;

use maud::Markup;

use super::Width;
use super::axis::{Axis, Scale, Tails};
use super::svg::{Anchor, LETTER, Svg, n, text_width};
use crate::text::{Unit, short_span};

/// One distribution.
#[derive(Debug, Clone)]
pub(crate) struct Curve {
    /// What it is called in the legend.
    pub(crate) label: String,
    /// Its class: colour and dash.
    pub(crate) class: &'static str,
    /// Samples in nanoseconds, ascending.
    pub(crate) sorted: Vec<i64>,
}

/// A value marked by an upright line over the whole height.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    /// Beside it.
    pub(crate) label: String,
    /// Its class.
    pub(crate) class: &'static str,
    /// Nanoseconds.
    pub(crate) at: f64,
}

/// A chart of distributions.
#[derive(Debug, Clone)]
pub(crate) struct Ecdf {
    /// What it shows.
    pub(crate) title: String,
    /// The same for those who hear it, with its main figures.
    pub(crate) description: String,
    /// Under the axis, without the unit.
    pub(crate) x_label: String,
    /// The distributions.
    pub(crate) curves: Vec<Curve>,
    /// Bounds and limits.
    pub(crate) lines: Vec<Line>,
    /// Whether samples are deviations around zero: both tails are drawn, zero stands in the middle.
    pub(crate) around_zero: bool,
}

/// Points of a curve worth a label.
const POINTS: [(f64, &str); 4] = [(0.5, "p50"), (0.99, "p99"), (0.9999, "p99.99"), (1.0, "max")];

/// The sample at the share `p`, nearest rank.
pub(crate) fn quantile(sorted: &[i64], p: f64) -> Option<i64> {
    let rank = (p * sorted.len() as f64 - 1e-9).ceil().max(1.0) as usize;
    sorted.get(rank.min(sorted.len()).checked_sub(1)?).copied()
}

/// Draws it.
pub(crate) fn draw(chart: &Ecdf, width: Width) -> Markup {
    let (w, h) = (width.units(), if width == Width::Wide { 330.0 } else { 300.0 });
    let (left, right, top, bottom) = (58.0, w - 14.0, 24.0, h - 44.0);
    let mut svg = Svg::new(w, h, width.class(), &chart.title, &chart.description);
    let most = chart.curves.iter().map(|c| c.sorted.len()).max().unwrap_or(0);
    let tails = if chart.around_zero { Tails::Both } else { Tails::Upper };
    let x = x_axis(chart, left, right);
    let y = Axis {
        scale: Scale::Linear,
        low: tails.height(0.0, most),
        high: tails.height(1.0, most).max(0.4),
        start: bottom,
        end: top,
    };

    // Rules: not closer together than the letters are high.
    let mut last = f64::INFINITY;
    for (p, label) in tails.rules(most) {
        let at = y.at(tails.height(p, most));
        svg.line((left, at), (right, at), "rule");
        if last - at >= LETTER {
            svg.text((left - 6.0, at + 4.5), Anchor::End, "tick", &format!("{label}\u{202f}%"));
            last = at;
        }
    }
    let unit = Unit::of(x.low.abs().max(x.high.abs()) / 1.2);
    let mut free_from = f64::NEG_INFINITY;
    for tick in x.ticks(unit.ns(), if width == Width::Wide { 10 } else { 5 }) {
        let at = x.at(tick);
        svg.line((at, top), (at, bottom), "rule");
        let label = tick_label(tick, unit, chart.around_zero);
        let half = text_width(&label) / 2.0;
        if at - half > free_from && at + half <= w {
            svg.text((at, bottom + 17.0), Anchor::Middle, "tick", &label);
            free_from = at + half + 4.0;
        }
    }
    svg.line((left, bottom), (right, bottom), "axis");
    let scale = match x.scale {
        Scale::Linear => "",
        Scale::Log | Scale::Symlog { .. } => ", logarithmic",
    };
    let label = format!("{} [{}{scale}]", chart.x_label, unit.symbol());
    svg.text((f64::midpoint(left, right), h - 8.0), Anchor::Middle, "axis-label", &label);

    // Lines and curves first: no label is crossed by one.
    for line in &chart.lines {
        svg.line((x.at(line.at), top - 6.0), (x.at(line.at), bottom), line.class);
    }
    for curve in &chart.curves {
        svg.path(&steps(&curve.sorted, tails, most, &x, &y), &format!("curve {}", curve.class));
    }
    let mut taken: Vec<(f64, f64, f64)> = Vec::new();
    for line in &chart.lines {
        let at = x.at(line.at);
        let wide = text_width(&line.label);
        let anchor = if at + 5.0 + wide > right { Anchor::End } else { Anchor::Start };
        let mut from = if anchor == Anchor::End { at - 5.0 - wide } else { at + 5.0 };
        // A second line beside the first: its label goes lower.
        let mut level = top + 4.0;
        while overlaps(&taken, from, from + wide, level) {
            level += LETTER + 3.0;
        }
        taken.push((from, from + wide, level));
        if anchor == Anchor::End {
            from = at - 5.0;
        }
        svg.text((from, level), anchor, &format!("label {}", line.class), &line.label);
    }
    label_points(&mut svg, chart, tails, most, &x, &y, &mut taken);
    svg.finish()
}

fn tick_label(tick: f64, unit: Unit, signed: bool) -> String {
    let label = unit.bare(tick);
    if signed && tick > 0.0 { format!("+{label}") } else { label }
}

fn x_axis(chart: &Ecdf, left: f64, right: f64) -> Axis {
    let ends = chart.curves.iter().filter_map(|c| Some((*c.sorted.first()? as f64, *c.sorted.last()? as f64)));
    let all = ends.chain(chart.lines.iter().map(|l| (l.at, l.at)));
    let (low, high) = all.fold((f64::INFINITY, f64::NEG_INFINITY), |a, b| (a.0.min(b.0), a.1.max(b.1)));
    if !low.is_finite() {
        return Axis::spans(0.0, 1e3, left, right);
    }
    if chart.around_zero {
        let inner = chart.curves.iter().filter_map(|c| {
            Some(quantile(&c.sorted, 0.99)?.unsigned_abs().max(quantile(&c.sorted, 0.01)?.unsigned_abs()) as f64)
        });
        return Axis::deviations(inner.fold(0.0, f64::max), low.abs().max(high.abs()), left, right);
    }
    Axis::spans(low, high, left, right)
}

/// The curve as steps, without those too small to see: as many as the drawing can show, however many samples.
fn steps(sorted: &[i64], tails: Tails, most: usize, x: &Axis, y: &Axis) -> String {
    let Some((&first, count)) = sorted.first().map(|first| (first, sorted.len())) else { return String::new() };
    let share = |i: usize| (i + 1) as f64 / count as f64;
    let top = |i: usize| {
        // Its own last sample, not that of the longest curve, ends it.
        let p = share(i).min(1.0 - 0.5 / count as f64);
        y.at(tails.height(p, most.max(count)))
    };
    let mut at = (x.at(first as f64), y.start);
    let mut data = format!("M{} {}", n(at.0), n(at.1));
    for (i, &value) in sorted.iter().enumerate() {
        if i + 1 < count && sorted[i + 1] == value {
            continue;
        }
        let here = (x.at(value as f64), top(i));
        if i + 1 == count || (here.0 - at.0).abs() + (here.1 - at.1).abs() >= 1.0 {
            let _ = write!(data, "H{}V{}", n(here.0), n(here.1));
            at = here;
        }
    }
    data
}

/// Dots and figures at the shares people ask for; figures that would cover others are left to the tables.
fn label_points(
    svg: &mut Svg,
    chart: &Ecdf,
    tails: Tails,
    most: usize,
    x: &Axis,
    y: &Axis,
    taken: &mut Vec<(f64, f64, f64)>,
) {
    for curve in &chart.curves {
        let count = curve.sorted.len();
        for (p, name) in POINTS.into_iter().rev() {
            // A share nobody can know from so few samples is not marked.
            if p < 1.0 && (1.0 - p) * (count as f64) < 1.0 {
                continue;
            }
            let Some(value) = quantile(&curve.sorted, p) else { continue };
            let place = (x.at(value as f64), y.at(tails.height(p.min(1.0 - 0.5 / count as f64), most.max(count))));
            svg.dot(place, 3.2, &format!("dot {}", curve.class));
            let figure = if chart.around_zero && value > 0 {
                format!("+{}", short_span(value as f64))
            } else {
                short_span(value as f64)
            };
            let label = format!("{name} {figure}");
            let wide = text_width(&label);
            let later = chart.curves.iter().filter_map(|c| quantile(&c.sorted, p)).any(|other| other > value);
            // A curve only rises: right of a dot there is room below it, left of it above.
            let below = if place.1 + 15.0 > y.start { place.1 - 6.0 } else { place.1 + 13.0 };
            let to_right = (place.0 + 8.0, place.0 + 8.0 + wide, Anchor::Start, place.0 + 8.0, below);
            let to_left = (place.0 - 8.0 - wide, place.0 - 8.0, Anchor::End, place.0 - 8.0, place.1 - 6.0);
            let sides = if later { [to_left, to_right] } else { [to_right, to_left] };
            let free = sides.into_iter().find(|(from, to, _, _, level)| {
                *from >= x.start + 2.0 && *to <= x.end && !overlaps(taken, *from, *to, *level)
            });
            if let Some((from, to, anchor, at, level)) = free {
                taken.push((from, to, level));
                svg.text((at, level), anchor, &format!("label {}", curve.class), &label);
            }
        }
    }
}

fn overlaps(taken: &[(f64, f64, f64)], from: f64, to: f64, level: f64) -> bool {
    taken.iter().any(|(a, b, l)| from < b + 4.0 && to > a - 4.0 && (level - l).abs() < LETTER + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(samples: Vec<i64>) -> Ecdf {
        Ecdf {
            title: "t".into(),
            description: "d".into(),
            x_label: "x".into(),
            curves: vec![Curve { label: "m".into(), class: "measured", sorted: samples }],
            lines: vec![Line { label: "bound".into(), class: "bound", at: 480_000.0 }],
            around_zero: false,
        }
    }

    #[test]
    fn many_samples_make_a_small_drawing() {
        let samples = (0..700_000).map(|i| 250_000 + i * i / 40_000_000).collect();
        let text = draw(&chart(samples), Width::Wide).into_string();
        assert!(text.len() < 40_000, "{}", text.len());
    }

    #[test]
    fn none_and_one_sample_are_drawn() {
        assert!(draw(&chart(vec![]), Width::Narrow).into_string().ends_with("</svg>"));
        assert!(draw(&chart(vec![7]), Width::Narrow).into_string().contains("max 7"));
    }

    #[test]
    fn quantiles_are_nearest_ranks() {
        let sorted: Vec<i64> = (1..=100).collect();
        assert_eq!(quantile(&sorted, 0.5), Some(50));
        assert_eq!(quantile(&sorted, 0.99), Some(99));
        assert_eq!(quantile(&sorted, 1.0), Some(100));
        assert_eq!(quantile(&[], 0.5), None);
    }
}
