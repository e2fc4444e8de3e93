//! The few shapes the charts are made of.

use std::fmt::Write;

use maud::{Markup, PreEscaped};

/// Height of the letters in a drawing, in its units; the style sheet says the same.
pub(crate) const LETTER: f64 = 13.0;

/// A drawing under construction.
#[derive(Debug)]
pub(crate) struct Svg {
    body: String,
}

/// Which end of a text stands at its x.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchor {
    /// The text begins there.
    Start,
    /// Its middle is there.
    Middle,
    /// It ends there.
    End,
}

impl Svg {
    /// A drawing of `width` × `height` units, with what it shows for those who hear it.
    pub(crate) fn new(width: f64, height: f64, class: &str, title: &str, description: &str) -> Self {
        let mut body = String::new();
        let _ = write!(
            body,
            r#"<svg class="chart {class}" viewBox="0 0 {} {}" role="img"><title>{}</title><desc>{}</desc>"#,
            n(width),
            n(height),
            escape(title),
            escape(description)
        );
        Self { body }
    }

    /// A line.
    pub(crate) fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let _ = write!(
            self.body,
            r#"<line class="{class}" x1="{}" y1="{}" x2="{}" y2="{}"/>"#,
            n(from.0),
            n(from.1),
            n(to.0),
            n(to.1)
        );
    }

    /// A rectangle; nothing when it has no width.
    pub(crate) fn rect(&mut self, at: (f64, f64), size: (f64, f64), class: &str) {
        if size.0 <= 0.0 || size.1 <= 0.0 {
            return;
        }
        let _ = write!(
            self.body,
            r#"<rect class="{class}" x="{}" y="{}" width="{}" height="{}"/>"#,
            n(at.0),
            n(at.1),
            n(size.0),
            n(size.1)
        );
    }

    /// A dot.
    pub(crate) fn dot(&mut self, at: (f64, f64), radius: f64, class: &str) {
        let _ = write!(self.body, r#"<circle class="{class}" cx="{}" cy="{}" r="{}"/>"#, n(at.0), n(at.1), n(radius));
    }

    /// A path; `data` is written by the caller with [`n`].
    pub(crate) fn path(&mut self, data: &str, class: &str) {
        let _ = write!(self.body, r#"<path class="{class}" d="{data}"/>"#);
    }

    /// A text, escaped here.
    pub(crate) fn text(&mut self, at: (f64, f64), anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => r#" text-anchor="middle""#,
            Anchor::End => r#" text-anchor="end""#,
        };
        let _ = write!(
            self.body,
            r#"<text class="{class}" x="{}" y="{}"{anchor}>{}</text>"#,
            n(at.0),
            n(at.1),
            escape(text)
        );
    }

    /// A group with a title of its own, shown by browsers when the pointer rests on it.
    pub(crate) fn titled(&mut self, title: &str, draw: impl FnOnce(&mut Self)) {
        let _ = write!(self.body, "<g><title>{}</title>", escape(title));
        draw(self);
        self.body.push_str("</g>");
    }

    /// The finished drawing.
    pub(crate) fn finish(mut self) -> Markup {
        self.body.push_str("</svg>");
        PreEscaped(self.body)
    }
}

/// A coordinate with one decimal at most.
pub(crate) fn n(value: f64) -> String {
    if !value.is_finite() {
        return "0".into();
    }
    let text = format!("{value:.1}");
    let text = text.strip_suffix(".0").unwrap_or(&text);
    if text == "-0" { "0".into() } else { text.into() }
}

/// About how wide a text is; the widest of the usual sans-serif faces has digits of 0.63 of their height.
pub(crate) fn text_width(text: &str) -> f64 {
    text.chars().map(|c| if matches!(c, '\u{202f}' | '.' | ',' | 'i' | 'l' | ' ') { 0.32 } else { 0.63 }).sum::<f64>()
        * LETTER
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_are_short_and_finite() {
        assert_eq!(n(1.04), "1");
        assert_eq!(n(-0.01), "0");
        assert_eq!(n(12.34), "12.3");
        assert_eq!(n(f64::NAN), "0");
    }

    #[test]
    fn names_cannot_break_out_of_a_drawing() {
        let mut svg = Svg::new(10.0, 10.0, "wide", "a<b", "\"&\"");
        svg.text((0.0, 0.0), Anchor::Start, "label", "</svg><script>");
        let text = svg.finish().into_string();
        assert!(text.contains("a&lt;b") && text.contains("&lt;/svg&gt;&lt;script&gt;"));
    }
}
