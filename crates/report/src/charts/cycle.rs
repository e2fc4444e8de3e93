//! The cycle drawn to scale: what every host does when, and how a frame travels through it.

use std::fmt::Write;

use maud::Markup;

use super::Width;
use super::axis::{Axis, Scale};
use super::svg::{Anchor, LETTER, Svg, n, text_width};
use crate::text::Unit;

/// What a host plans, as spans from the start of a cycle, in nanoseconds.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// From when to when it reads what has arrived; equal when it reads once.
    pub(crate) subscribe: (f64, f64),
    /// When its application begins.
    pub(crate) application: f64,
    /// When its publish phase begins; `None` for a host that publishes nothing.
    pub(crate) publish: Option<f64>,
    /// When its frames leave; `None` without launch time.
    pub(crate) launch: Option<f64>,
}

/// A host's line in the picture.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    /// The host.
    pub(crate) name: String,
    /// Its cycle; `None` for a bridge.
    pub(crate) plan: Option<Plan>,
}

/// An instant of the frame's way, from the samples of all frames.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Instant {
    /// Median.
    pub(crate) at: f64,
    /// 1st and 99th percentile.
    pub(crate) spread: (f64, f64),
}

/// One direction of a frame's way.
#[derive(Debug, Clone)]
pub(crate) struct Way {
    /// Row it leaves from.
    pub(crate) from: usize,
    /// Row it arrives at.
    pub(crate) to: usize,
    /// Its name at the start: `T2`.
    pub(crate) leaves: (&'static str, Instant),
    /// And at the end: `T3`.
    pub(crate) arrives: (&'static str, Instant),
}

/// The picture.
#[derive(Debug, Clone)]
pub(crate) struct Picture {
    /// What it shows.
    pub(crate) title: String,
    /// The same in words.
    pub(crate) description: String,
    /// Length of a cycle.
    pub(crate) cycle: f64,
    /// How many cycles are drawn.
    pub(crate) cycles: usize,
    /// Hosts from top to bottom, in the order of the path.
    pub(crate) rows: Vec<Row>,
    /// The frame followed, there and back.
    pub(crate) ways: Vec<Way>,
    /// Where the frame is in a host's hands: handed over, decoded, answered.
    pub(crate) stops: Vec<Stop>,
}

/// An instant at which a host has the frame in its hands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stop {
    /// The host's row.
    pub(crate) row: usize,
    /// Its name: `T4`.
    pub(crate) name: &'static str,
    /// When.
    pub(crate) instant: Instant,
}

const ROW: f64 = 78.0;
/// Height of a host's band.
const BAND: f64 = 26.0;

/// Draws it.
pub(crate) fn draw(picture: &Picture, width: Width) -> Markup {
    let w = width.units();
    let wide = width == Width::Wide;
    let top = 30.0;
    let bottom = top + picture.rows.len() as f64 * ROW + 14.0;
    let h = bottom + 40.0;
    // On a narrow page names stand above their line, not left of it.
    let names = picture.rows.iter().map(|r| text_width(&r.name)).fold(30.0, f64::max);
    let left = if wide { (names + 20.0).min(220.0) } else { 6.0 };
    let mut svg = Svg::new(w, h, width.class(), &picture.title, &picture.description);
    let end = picture.cycle * picture.cycles.max(1) as f64;
    let x = Axis { scale: Scale::Linear, low: 0.0, high: end.max(1.0), start: left, end: w - 8.0 };
    let level = |row: usize| top + row as f64 * ROW + ROW / 2.0 + 6.0;

    for k in 0..=picture.cycles {
        let at = x.at(k as f64 * picture.cycle);
        svg.line((at, top - 8.0), (at, bottom), "beat");
        if k < picture.cycles {
            let name = match k {
                0 => "cycle k".to_owned(),
                k => format!("k + {k}"),
            };
            svg.text((at + 6.0, top - 12.0), Anchor::Start, "tick", &name);
        }
    }
    for (i, row) in picture.rows.iter().enumerate() {
        let y = level(i);
        if wide {
            svg.text((4.0, y + 4.5), Anchor::Start, "label strong", &row.name);
        } else {
            svg.text((left + 2.0, y - BAND / 2.0 - 9.0), Anchor::Start, "label strong halo", &row.name);
        }
        svg.line((x.start, y), (x.end, y), if row.plan.is_some() { "life" } else { "life bridge" });
        if let Some(plan) = &row.plan {
            for k in -1..=picture.cycles as i64 {
                draw_plan(&mut svg, plan, k as f64 * picture.cycle, &x, y);
            }
        }
    }
    // The frames of the other cycles travel the same way, fainter and first, so that the followed one lies on top.
    for k in (-(picture.cycles as i64)..=picture.cycles as i64).filter(|k| *k != 0) {
        for way in &picture.ways {
            let shift = k as f64 * picture.cycle;
            let (a, b) = (way.leaves.1.at + shift, way.arrives.1.at + shift);
            if a >= 0.0 && b <= end {
                arrow(&mut svg, (x.at(a), level(way.from)), (x.at(b), level(way.to)), "frame other");
            }
        }
    }
    stays(&mut svg, picture, &x, level);
    for way in &picture.ways {
        if way.arrives.1.at > end {
            continue;
        }
        arrow(&mut svg, (x.at(way.leaves.1.at), level(way.from)), (x.at(way.arrives.1.at), level(way.to)), "frame");
    }
    label_ways(&mut svg, picture, &x, level);

    let unit = Unit::of(end);
    svg.line((x.start, bottom), (x.end, bottom), "axis");
    for tick in x.ticks(unit.ns(), if wide { 10 } else { 5 }) {
        let at = x.at(tick);
        svg.line((at, bottom), (at, bottom + 4.0), "axis");
        let label = unit.bare(tick);
        let half = text_width(&label) / 2.0;
        svg.text((at.clamp(half, w - half), bottom + 17.0), Anchor::Middle, "tick", &label);
    }
    let label = format!("time from the start of cycle k [{}]", unit.symbol());
    svg.text((f64::midpoint(x.start, x.end), h - 6.0), Anchor::Middle, "axis-label", &label);
    svg.finish()
}

fn draw_plan(svg: &mut Svg, plan: &Plan, start: f64, x: &Axis, y: f64) {
    let inside = |at: f64| at >= 0.0 && at < x.high;
    let half = BAND / 2.0;
    let (from, to) = (start + plan.subscribe.0, start + plan.subscribe.1);
    if to > 0.0 && from < x.high {
        let (a, b) = (x.at(from.max(0.0)), x.at(to));
        svg.rect((a, y - half), ((b - a).max(2.0), BAND), "phase subscribe");
    }
    if inside(start + plan.application) {
        // From its start to the publish phase: the time the application may take, not the time it took.
        let until = plan.publish.filter(|p| *p > plan.application).map_or(start + plan.application, |p| start + p);
        let (a, b) = (x.at(start + plan.application), x.at(until));
        svg.rect((a, y - half), ((b - a).max(2.0), BAND), "phase application");
    }
    if let Some(publish) = plan.publish.map(|p| start + p).filter(|p| inside(*p)) {
        svg.rect((x.at(publish) - 1.0, y - half - 4.0), (4.0, BAND + 8.0), "phase publish");
    }
    if let Some(launch) = plan.launch.map(|l| start + l).filter(|l| inside(*l)) {
        let (a, d) = (x.at(launch), 5.0);
        let path = format!("M{} {}l{d} {d}l-{d} {d}l-{d} -{d}z", n(a), n(y - d));
        svg.path(&path, "launch");
    }
}

/// The frame's stay at each host: along its line, from the first instant there to the last.
fn stays(svg: &mut Svg, picture: &Picture, x: &Axis, level: impl Fn(usize) -> f64) {
    let mut at: Vec<(usize, f64)> = picture.stops.iter().map(|s| (s.row, s.instant.at)).collect();
    at.extend(picture.ways.iter().flat_map(|w| [(w.from, w.leaves.1.at), (w.to, w.arrives.1.at)]));
    at.retain(|(_, at)| *at <= x.high);
    at.sort_by(|a, b| a.1.total_cmp(&b.1));
    for pair in at.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
        let y = level(pair[0].0);
        svg.line((x.at(pair[0].1), y), (x.at(pair[1].1), y), "stay");
    }
}

fn arrow(svg: &mut Svg, from: (f64, f64), to: (f64, f64), class: &str) {
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let length = dx.hypot(dy);
    if length < 1.0 {
        return;
    }
    let (ux, uy) = (dx / length, dy / length);
    let (bx, by) = (to.0 - ux * 9.0, to.1 - uy * 9.0);
    let mut head = String::new();
    let _ = write!(
        head,
        "M{} {}L{} {}L{} {}z",
        n(to.0),
        n(to.1),
        n(bx - uy * 4.0),
        n(by + ux * 4.0),
        n(bx + uy * 4.0),
        n(by - ux * 4.0)
    );
    svg.line(from, (bx, by), class);
    svg.path(&head, &format!("{class} head"));
}

/// Names of the trace points and, under or over each, the spread of all frames.
fn label_ways(svg: &mut Svg, picture: &Picture, x: &Axis, level: impl Fn(usize) -> f64) {
    let mut taken: Vec<(f64, f64)> = Vec::new();
    for stop in picture.stops.iter().filter(|stop| stop.instant.at <= x.high) {
        let (at, y) = (x.at(stop.instant.at), level(stop.row));
        svg.dot((at, y), 3.6, "pause");
        let wide = text_width(stop.name);
        // Over the line; the last row's hands are under it, where no arrow ends.
        let baseline = if stop.row == 0 { y - BAND / 2.0 - 11.0 } else { y + BAND / 2.0 + LETTER + 7.0 };
        let place = at.clamp(wide / 2.0 + x.start, (x.end - wide / 2.0).max(wide / 2.0 + x.start));
        taken.push((place, baseline));
        svg.text((place, baseline), Anchor::Middle, "label strong halo", stop.name);
    }
    for way in &picture.ways {
        for (row, other, (name, instant)) in [(way.from, way.to, way.leaves), (way.to, way.from, way.arrives)] {
            if instant.at > x.high {
                continue;
            }
            let at = x.at(instant.at);
            // On the side of the line that the arrow does not touch.
            let side = if other > row { -1.0 } else { 1.0 };
            let y = level(row) + side * (BAND / 2.0 + 6.0);
            let (a, b) = (x.at(instant.spread.0), x.at(instant.spread.1));
            if b - a > 1.5 {
                svg.line((a, y), (b, y), "spread");
                svg.line((a, y - 3.0), (a, y + 3.0), "spread");
                svg.line((b, y - 3.0), (b, y + 3.0), "spread");
            }
            svg.dot((at, level(row)), 3.4, "stop");
            let wide = text_width(name);
            let baseline = if side < 0.0 { y - 5.0 } else { y + LETTER + 1.0 };
            let mut place = at.clamp(wide / 2.0 + x.start, (x.end - wide / 2.0).max(wide / 2.0 + x.start));
            // Two points close together (sent as soon as received): the second steps aside.
            while taken.iter().any(|(p, l)| (p - place).abs() < wide + 3.0 && (l - baseline).abs() < LETTER) {
                place += 4.0;
            }
            taken.push((place, baseline));
            svg.text((place, baseline), Anchor::Middle, "label strong halo", name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_without_hosts_or_with_a_late_frame_is_drawn() {
        let mut picture = Picture {
            title: "t".into(),
            description: "d".into(),
            cycle: 250_000.0,
            cycles: 2,
            rows: vec![],
            ways: vec![],
            stops: vec![],
        };
        assert!(draw(&picture, Width::Wide).into_string().ends_with("</svg>"));
        let late = Instant { at: 9e9, spread: (9e9, 9e9) };
        picture.rows = vec![Row { name: "a".into(), plan: None }, Row { name: "b".into(), plan: None }];
        picture.ways = vec![Way { from: 0, to: 1, leaves: ("T2", late), arrives: ("T3", late) }];
        assert!(!draw(&picture, Width::Narrow).into_string().contains("T3"));
    }
}
