//! What the time of single messages consists of: one bar a message, one piece a part.

use maud::Markup;

use super::Width;
use super::axis::{Axis, Scale};
use super::svg::{Anchor, Svg, text_width};
use crate::text::{Unit, short_span};

/// A message.
#[derive(Debug, Clone)]
pub(crate) struct Bar {
    /// Above it: which message of which run.
    pub(crate) label: String,
    /// Its parts from left to right: class and name, nanoseconds.
    pub(crate) parts: Vec<(&'static str, i64)>,
}

/// Draws bars above each other on one scale that begins at 0.
pub(crate) fn draw(title: &str, description: &str, bars: &[Bar], width: Width) -> Markup {
    const ROW: f64 = 42.0;
    const THICK: f64 = 18.0;
    let w = width.units();
    let bottom = bars.len() as f64 * ROW + 6.0;
    let mut svg = Svg::new(w, bottom + 26.0, width.class(), title, description);
    let sum = |bar: &Bar| bar.parts.iter().map(|(_, ns)| (*ns).max(0) as f64).sum::<f64>();
    let longest = bars.iter().map(sum).fold(1.0, f64::max);
    let x = Axis { scale: Scale::Linear, low: 0.0, high: longest * 1.02, start: 4.0, end: w - 14.0 };
    let unit = Unit::of(longest);
    let mut free_from = f64::NEG_INFINITY;
    for tick in x.ticks(unit.ns(), if width == Width::Wide { 10 } else { 4 }) {
        let at = x.at(tick);
        svg.line((at, 14.0), (at, bottom), "rule");
        let label = format!("{}\u{202f}{}", unit.bare(tick), unit.symbol());
        let half = text_width(&label) / 2.0;
        let (place, anchor) = if at < half { (0.0, Anchor::Start) } else { (at, Anchor::Middle) };
        if at - half > free_from && at + half <= w {
            svg.text((place, bottom + 18.0), anchor, "tick", &label);
            free_from = at + half + 4.0;
        }
    }
    for (index, bar) in bars.iter().enumerate() {
        let top = index as f64 * ROW + 18.0;
        svg.text((4.0, top - 5.0), Anchor::Start, "label", &format!("{} · {}", bar.label, short_span(sum(bar))));
        let mut from = 0.0;
        for &(name, ns) in &bar.parts {
            let (a, b) = (x.at(from), x.at(from + ns.max(0) as f64));
            from += ns.max(0) as f64;
            if ns <= 0 {
                continue;
            }
            svg.titled(&format!("{name}: {}", short_span(ns as f64)), |svg| {
                // At least a hair, so that a part of a few nanoseconds is seen to exist.
                svg.rect((a, top), ((b - a - 0.6).max(0.8), THICK), &format!("piece {name}"));
                if b - a > text_width(name) + 8.0 {
                    svg.text((f64::midpoint(a, b), top + 13.5), Anchor::Middle, "inside", name);
                }
            });
        }
    }
    svg.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_hold_their_parts_and_nothing_else() {
        assert!(draw("t", "d", &[], Width::Wide).into_string().ends_with("</svg>"));
        let bar = Bar { label: "m".into(), parts: vec![("schedule", 300), ("host", 0), ("stack", -5), ("wire", 100)] };
        let text = draw("t", "d", &[bar], Width::Narrow).into_string();
        assert!(text.contains("piece schedule") && text.contains("piece wire") && text.contains("m · 400"));
        assert!(!text.contains("piece host") && !text.contains("piece stack"));
    }
}
