//! How many readings used how many cycles: bars by number of cycles, higher ones ten times as many.

use maud::Markup;

use super::Width;
use super::axis::{Axis, Scale};
use super::svg::{Anchor, LETTER, Svg, text_width};
use crate::text::count;

/// The bars of a run.
#[derive(Debug, Clone)]
pub(crate) struct Series {
    /// Its class: colour.
    pub(crate) class: &'static str,
    /// Name of the run, for the pointer.
    pub(crate) label: String,
    /// Cycles used and readings, ascending.
    pub(crate) bars: Vec<(i64, u64)>,
}

/// A number of cycles with a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Beside it.
    pub(crate) label: String,
    /// Its class.
    pub(crate) class: &'static str,
    /// Cycles used.
    pub(crate) at: i64,
}

/// Draws it. The upright axis is logarithmic, one reading being a step above none.
pub(crate) fn draw(title: &str, description: &str, series: &[Series], marks: &[Mark], width: Width) -> Markup {
    let (w, h) = (width.units(), 250.0);
    let (left, right, bottom) = (58.0, w - 14.0, h - 44.0);
    let top = 10.0 + marks.len() as f64 * (LETTER + 3.0);
    let mut svg = Svg::new(w, h, width.class(), title, description);
    let values = || series.iter().flat_map(|s| s.bars.iter().map(|bar| bar.0)).chain(marks.iter().map(|mark| mark.at));
    let (low, high) = (values().min().unwrap_or(0), values().max().unwrap_or(0));
    let x = Axis { scale: Scale::Linear, low: low as f64 - 0.6, high: high as f64 + 0.6, start: left, end: right };
    let most = series.iter().flat_map(|s| &s.bars).map(|bar| bar.1).max().unwrap_or(1);
    let height = |readings: f64| readings.max(1.0).log10() + 0.5;
    let y = Axis { scale: Scale::Linear, low: 0.0, high: height(most as f64) * 1.04, start: bottom, end: top };

    let decades = (most as f64).log10().floor() as u32;
    for decade in (0..=decades).step_by(if decades > 4 { 2 } else { 1 }) {
        let at = y.at(height(10_f64.powi(decade as i32)));
        svg.line((left, at), (right, at), "rule");
        svg.text((left - 6.0, at + 4.5), Anchor::End, "tick", &count(10_u64.saturating_pow(decade)));
    }
    for tick in x.ticks(1.0, if width == Width::Wide { 16 } else { 8 }).into_iter().filter(|tick| tick.fract() == 0.0) {
        svg.text((x.at(tick), bottom + 17.0), Anchor::Middle, "tick", &count(tick.max(0.0) as u64));
    }
    let slot = (x.at(low as f64 + 1.0) - x.at(low as f64)) * 0.8;
    let thick = (slot / series.len().max(1) as f64).clamp(1.0, 46.0);
    for (index, run) in series.iter().enumerate() {
        let shift = (index as f64 - series.len() as f64 / 2.0) * thick;
        for &(used, readings) in &run.bars {
            let at = y.at(height(readings as f64));
            let words = format!("{}: {} readings used {used} cycles", run.label, count(readings));
            svg.titled(&words, |svg| {
                let place = (x.at(used as f64) + shift, at);
                svg.rect(place, ((thick - 1.0).max(1.0), bottom - at), &format!("dot {}", run.class));
            });
        }
    }
    svg.line((left, bottom), (right, bottom), "axis");
    for (index, mark) in marks.iter().enumerate() {
        let (at, level) = (x.at(mark.at as f64), 12.0 + index as f64 * (LETTER + 3.0));
        svg.line((at, level - 8.0), (at, bottom), mark.class);
        let before = at + 6.0 + text_width(&mark.label) > w;
        let (place, anchor) = if before { (at - 5.0, Anchor::End) } else { (at + 5.0, Anchor::Start) };
        svg.text((place, level), anchor, &format!("label {}", mark.class), &mark.label);
    }
    let label = "cycles used, first and last included; height: readings, logarithmic";
    let label = if width == Width::Wide { label } else { "cycles used; height: readings, logarithmic" };
    svg.text((f64::midpoint(left, right), h - 8.0), Anchor::Middle, "axis-label", label);
    svg.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_and_marks_are_drawn_whatever_the_numbers() {
        let mark = Mark { label: "best by plan 5".into(), class: "bound", at: 5 };
        for bars in [vec![], vec![(5, 1)], vec![(5, 1_000_000), (6, 3), (900, 1)], vec![(i64::MAX, u64::MAX)]] {
            let series = [Series { class: "measured", label: "measurement".into(), bars: bars.clone() }];
            for width in Width::BOTH {
                let text = draw("t", "d", &series, std::slice::from_ref(&mark), width).into_string();
                assert!(text.contains("best by plan 5") && !text.contains("NaN") && !text.contains("width=\"-"));
                assert_eq!(text.matches("readings used").count(), bars.len());
            }
        }
        assert!(draw("t", "d", &[], &[], Width::Wide).into_string().ends_with("</svg>"));
    }
}
