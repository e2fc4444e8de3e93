//! How far a clock was off over time, and how often how far: signed spans.

use std::fmt::Write as _;

use maud::Markup;

use super::Width;
use super::axis::{Axis, Scale};
use super::svg::{Anchor, LETTER, Svg, n, text_width};
use crate::text::{Unit, count, short_span};

/// Least and greatest value of a slot of time, nanoseconds: instant, least, greatest.
pub(crate) type Slots = [(i64, i64, i64)];

/// Instants with a class and a name, drawn as lines across.
pub(crate) type Marks<'a> = [(i64, &'static str, &'a str)];

/// Draws slots over time; around zero when one of them is below.
pub(crate) fn over_time(
    title: &str,
    description: &str,
    y_label: &str,
    slots: &Slots,
    marks: &Marks<'_>,
    width: Width,
) -> Markup {
    let (w, h) = (width.units(), 280.0);
    let (left, right, bottom) = (70.0, w - 14.0, h - 44.0);
    let top = 26.0 + marks.len() as f64 * (LETTER + 3.0);
    let mut svg = Svg::new(w, h, width.class(), title, description);
    let (y, signed) = value_axis(slots, bottom, top);
    let end = slots.iter().map(|slot| slot.0).chain(marks.iter().map(|mark| mark.0)).max().unwrap_or(0);
    let x = Axis { scale: Scale::Linear, low: 0.0, high: (end as f64).max(1e9), start: left, end: right };

    let unit = Unit::of(y.high.abs().max(y.low.abs()) / 1.2);
    let mut last = f64::INFINITY;
    for tick in y.ticks(unit.ns(), 6) {
        let at = y.at(tick);
        svg.line((left, at), (right, at), "rule");
        if last - at >= LETTER {
            let sign = if signed && tick > 0.0 { "+" } else { "" };
            svg.text((left - 6.0, at + 4.5), Anchor::End, "tick", &format!("{sign}{}", unit.bare(tick)));
            last = at;
        }
    }
    let scale = if y.scale == Scale::Linear { "" } else { ", logarithmic" };
    svg.text((4.0, 13.0), Anchor::Start, "axis-label", &format!("{y_label} [{}{scale}]", unit.symbol()));
    time(&mut svg, &x, bottom, width);
    for (index, (at, class, label)) in marks.iter().enumerate() {
        let (at, level) = (x.at(*at as f64), 28.0 + index as f64 * (LETTER + 3.0));
        svg.line((at, level - 8.0), (at, bottom), class);
        let before = at + 6.0 + text_width(label) > w;
        let (place, anchor) = if before { (at - 5.0, Anchor::End) } else { (at + 5.0, Anchor::Start) };
        svg.text((place, level), anchor, &format!("label {class}"), label);
    }
    let mut data = String::new();
    // A single value still shows as a short stroke; few of them as longer ones.
    let short = if slots.len() < 250 { 2.5 } else { 0.8 };
    for &(at, low, high) in slots {
        let (a, b) = (y.at(low as f64), y.at(high as f64));
        let (a, b) = if a - b < 2.0 * short { (a + short, a - short) } else { (a, b) };
        let _ = write!(data, "M{} {}V{}", n(x.at(at as f64)), n(a), n(b));
    }
    if !data.is_empty() {
        svg.path(&data, "strip measured");
    }
    svg.finish()
}

/// The axis of values, and whether it has both signs.
fn value_axis(slots: &Slots, bottom: f64, top: f64) -> (Axis, bool) {
    let low = slots.iter().map(|slot| slot.1).min().unwrap_or(0) as f64;
    let high = slots.iter().map(|slot| slot.2).max().unwrap_or(0) as f64;
    if low >= 0.0 {
        return (Axis::spans(low, high.max(1.0), bottom, top), false);
    }
    // Where most are: the first offsets before a lock must not flatten the rest.
    let mut sizes: Vec<i64> = slots.iter().map(|slot| slot.1.saturating_abs().max(slot.2.saturating_abs())).collect();
    sizes.sort_unstable();
    let inner = sizes.get(sizes.len() * 9 / 10).copied().unwrap_or(1) as f64;
    (Axis::deviations(inner, low.abs().max(high.abs()), bottom, top), true)
}

fn time(svg: &mut Svg, x: &Axis, bottom: f64, width: Width) {
    svg.line((x.start, bottom), (x.end, bottom), "axis");
    // Seconds, minutes or hours, whichever makes short numbers.
    let (name, unit) = match x.high {
        high if high >= 3.0 * 3.6e12 => ("h", 3.6e12),
        high if high >= 3.0 * 6e10 => ("min", 6e10),
        _ => ("s", 1e9),
    };
    for tick in x.ticks(unit, if width == Width::Wide { 10 } else { 4 }) {
        let at = x.at(tick);
        svg.line((at, bottom), (at, bottom + 4.0), "axis");
        let label = crate::text::trimmed(tick / unit, 2);
        let half = text_width(&label) / 2.0;
        svg.text((at.clamp(half, width.units() - half), bottom + 17.0), Anchor::Middle, "tick", &label);
    }
    let middle = f64::midpoint(x.start, x.end);
    svg.text((middle, bottom + 36.0), Anchor::Middle, "axis-label", &format!("time since the beginning [{name}]"));
}

/// Classes of a histogram: least value, width, count.
pub(crate) type Classes = [(i64, i64, u64)];

/// Draws a histogram: counts by logarithm, one being a step above none. Classes too narrow for a drawing share a bar.
pub(crate) fn histogram(title: &str, description: &str, x_label: &str, classes: &Classes, width: Width) -> Markup {
    let (w, h) = (width.units(), 260.0);
    let (left, right, top, bottom) = (66.0, w - 14.0, 12.0, h - 44.0);
    let mut svg = Svg::new(w, h, width.class(), title, description);
    let low = classes.first().map_or(0, |class| class.0);
    let high = classes.last().map_or(10, |class| class.0.saturating_add(class.1));
    let x = Axis {
        scale: Scale::Linear,
        low: low as f64,
        high: (high as f64).max(low as f64 + 1.0),
        start: left,
        end: right,
    };
    let bars = bars(classes, &x, if width == Width::Wide { 460 } else { 140 });
    let most = bars.iter().map(|bar| bar.2).max().unwrap_or(1);
    let height = |readings: f64| readings.max(1.0).log10() + 0.5;
    let y = Axis { scale: Scale::Linear, low: 0.0, high: height(most as f64) * 1.04, start: bottom, end: top };
    let decades = (most as f64).log10().floor() as u32;
    for decade in (0..=decades).step_by(if decades > 4 { 2 } else { 1 }) {
        let at = y.at(height(10_f64.powi(decade as i32)));
        svg.line((left, at), (right, at), "rule");
        svg.text((left - 6.0, at + 4.5), Anchor::End, "tick", &count(10_u64.saturating_pow(decade)));
    }
    for (from, to, samples) in &bars {
        let words = format!(
            "{} samples from {} to below {}",
            count(*samples),
            short_span(*from as f64),
            short_span(*to as f64)
        );
        let (a, b) = (x.at(*from as f64), x.at(*to as f64));
        let at = y.at(height(*samples as f64));
        svg.titled(&words, |svg| svg.rect((a, at), ((b - a - 0.6).max(0.8), bottom - at), "dot measured"));
    }
    svg.line((left, bottom), (right, bottom), "axis");
    let unit = Unit::of(x.high.abs().max(x.low.abs()) / 1.2);
    let mut free_from = f64::NEG_INFINITY;
    for tick in x.ticks(unit.ns(), if width == Width::Wide { 10 } else { 4 }) {
        let (at, label) = (x.at(tick), unit.bare(tick));
        let half = text_width(&label) / 2.0;
        if at - half > free_from && at + half <= w {
            svg.line((at, bottom), (at, bottom + 4.0), "axis");
            svg.text((at, bottom + 17.0), Anchor::Middle, "tick", &label);
            free_from = at + half + 4.0;
        }
    }
    let label = format!("{x_label} [{}]; height: samples, logarithmic", unit.symbol());
    svg.text((f64::midpoint(left, right), h - 8.0), Anchor::Middle, "axis-label", &label);
    svg.finish()
}

/// Classes joined to at most `most` bars of a drawing: from, to, count.
fn bars(classes: &Classes, x: &Axis, most: usize) -> Vec<(i64, i64, u64)> {
    let least = (x.high - x.low) / most as f64;
    let mut bars: Vec<(i64, i64, u64)> = Vec::new();
    let mut slot = i64::MIN;
    for &(from, class, samples) in classes {
        let to = from.saturating_add(class);
        let own = ((from as f64 - x.low) / least.max(1.0)) as i64;
        match bars.last_mut() {
            Some(bar) if (class as f64) < least && own == slot => (bar.1, bar.2) = (to, bar.2 + samples),
            _ => bars.push((from, to, samples)),
        }
        slot = own;
    }
    bars
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_numbers_are_drawn() {
        let many: Vec<(i64, i64, i64)> = (0..2_000).map(|i| (i * 40_000_000_000, -i % 30, i % 40)).collect();
        for slots in [vec![], vec![(0, 0, 0)], vec![(5, i64::MIN, i64::MAX)], many] {
            for width in Width::BOTH {
                let marks = [(3_000_000_000, "bound", "locked")];
                let text = over_time("t", "d", "offset", &slots, &marks, width).into_string();
                assert!(text.contains("locked") && !text.contains("NaN") && text.ends_with("</svg>"), "{text}");
            }
        }
        for classes in [vec![], vec![(0, 10, 5)], vec![(-20, 10, 1), (0, 10, 1_000_000), (1 << 40, 1 << 31, 1)]] {
            for width in Width::BOTH {
                let text = histogram("t", "d", "offset", &classes, width).into_string();
                assert!(!text.contains("NaN") && !text.contains("width=\"-") && text.ends_with("</svg>"));
                assert!(text.matches("samples from").count() <= classes.len());
            }
        }
    }

    #[test]
    fn joined_bars_keep_every_sample() {
        let classes: Vec<(i64, i64, u64)> = (0..5_000).map(|i| (i * 10, 10, 2)).collect();
        let x = Axis { scale: Scale::Linear, low: 0.0, high: 50_000.0, start: 0.0, end: 1000.0 };
        let bars = bars(&classes, &x, 140);
        assert!(bars.len() <= 141, "{}", bars.len());
        assert_eq!(bars.iter().map(|bar| bar.2).sum::<u64>(), 10_000);
    }
}
