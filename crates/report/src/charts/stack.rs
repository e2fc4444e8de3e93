//! From trace point to trace point: one bar a run, one piece a stage.

use maud::Markup;

use super::Width;
use super::axis::{Axis, Scale};
use super::svg::{Anchor, Svg, text_width};
use crate::text::{Unit, short_span};

/// A piece of a bar.
#[derive(Debug, Clone)]
pub(crate) struct Piece {
    /// From which trace point to which: `T1→T2`.
    pub(crate) label: String,
    /// What happens in it, for the pointer.
    pub(crate) meaning: String,
    /// Its class: colour and hatching.
    pub(crate) class: &'static str,
    /// Nanoseconds.
    pub(crate) span: f64,
}

/// A bar.
#[derive(Debug, Clone)]
pub(crate) struct Bar {
    /// Above it.
    pub(crate) label: String,
    /// From left to right.
    pub(crate) pieces: Vec<Piece>,
}

/// Draws bars above each other on one scale.
pub(crate) fn draw(title: &str, description: &str, bars: &[Bar], width: Width) -> Markup {
    const ROW: f64 = 62.0;
    let w = width.units();
    let h = bars.len() as f64 * ROW + 34.0;
    let mut svg = Svg::new(w, h, width.class(), title, description);
    let longest = bars.iter().map(|b| b.pieces.iter().map(|p| p.span.max(0.0)).sum::<f64>()).fold(1.0, f64::max);
    let x = Axis { scale: Scale::Linear, low: 0.0, high: longest * 1.02, start: 4.0, end: w - 14.0 };
    let unit = Unit::of(longest);
    for tick in x.ticks(unit.ns(), if width == Width::Wide { 10 } else { 5 }) {
        let at = x.at(tick);
        svg.line((at, 22.0), (at, h - 30.0), "rule");
        let label = format!("{}\u{202f}{}", unit.bare(tick), unit.symbol());
        let half = text_width(&label) / 2.0;
        let (place, anchor) = if at < half {
            (0.0, Anchor::Start)
        } else if at + half > w {
            (w, Anchor::End)
        } else {
            (at, Anchor::Middle)
        };
        svg.text((place, h - 10.0), anchor, "tick", &label);
    }
    for (i, bar) in bars.iter().enumerate() {
        let top = i as f64 * ROW + 26.0;
        let sum: f64 = bar.pieces.iter().map(|p| p.span.max(0.0)).sum();
        svg.text((4.0, top - 8.0), Anchor::Start, "label strong", &format!("{} · {}", bar.label, short_span(sum)));
        let mut from = 0.0;
        for piece in &bar.pieces {
            let (a, b) = (x.at(from), x.at(from + piece.span.max(0.0)));
            from += piece.span.max(0.0);
            svg.titled(&format!("{}: {}, {}", piece.label, piece.meaning, short_span(piece.span)), |svg| {
                // At least a hair, so that a wire time of a few nanoseconds is seen to exist.
                svg.rect((a, top), ((b - a - 0.8).max(0.8), 30.0), &format!("piece {}", piece.class));
                if b - a > text_width(&piece.label) + 10.0 {
                    svg.text((f64::midpoint(a, b), top + 19.5), Anchor::Middle, "inside", &piece.label);
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
    fn no_bars_and_negative_pieces_are_drawn() {
        assert!(draw("t", "d", &[], Width::Wide).into_string().ends_with("</svg>"));
        let bar = Bar {
            label: "m".into(),
            pieces: vec![Piece { label: "T1→T2".into(), meaning: "wait".into(), class: "wait", span: -5.0 }],
        };
        assert!(!draw("t", "d", &[bar], Width::Narrow).into_string().contains("width=\"-"));
    }
}
