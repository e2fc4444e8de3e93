//! Drawing a picture: sections from the most to the least needed, as many as the terminal has room for.

use measure::Dist;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Sparkline};

use super::bar;
use super::picture::{Picture, Row};
use super::words::{begins_in, letter, seconds, short_us, us};

/// How to draw.
#[derive(Debug, Clone, Copy)]
pub(super) struct View {
    /// Which stream is shown in detail.
    pub(super) chosen: usize,
    /// Whether the picture stands still.
    pub(super) frozen: bool,
    /// Whether to use colours; not with NO_COLOR.
    pub(super) colours: bool,
}

impl View {
    fn faint(self) -> Style {
        if self.colours { Style::new().fg(Color::DarkGray) } else { Style::new().add_modifier(Modifier::DIM) }
    }

    fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// For what should not be.
    fn bad(self) -> Style {
        if self.colours { Style::new().fg(Color::Red).add_modifier(Modifier::BOLD) } else { self.strong() }
    }
}

/// Draws it all.
pub(super) fn draw(frame: &mut Frame<'_>, picture: &Picture, view: View) {
    let area = frame.area();
    let chosen = picture.streams.get(view.chosen);
    let details = chosen.map_or(0, |row| row.details.len() as u16);
    let streams = picture.streams.len() as u16;
    let hosts = picture.hosts.len() as u16;
    // Section by section: the least lines it makes sense with, the most it can use. In the order of need.
    let wishes = [
        (1, 2),                                      // header
        (1, 1),                                      // keys
        (2, streams.min(8) + 1),                     // streams
        (3, 4),                                      // curve
        (2, 3),                                      // cycle
        (2, u16::from(details > 0) * (details + 1)), // details
        (2, hosts.min(8) + 1),                       // lateness
        (2, 12),                                     // told
    ];
    let heights = shares(area.height, wishes);
    // On the screen the keys are last.
    let order = [0, 2, 3, 4, 5, 6, 7, 1];
    let mut constraints: Vec<Constraint> = order.iter().map(|&section| Constraint::Length(heights[section])).collect();
    constraints.insert(order.len() - 1, Constraint::Fill(1));
    let parts = Layout::vertical(constraints).split(area);
    let at = |place: usize| parts[place];
    lines(frame, at(0), header(picture, view));
    lines(frame, at(1), streams_table(picture, view, at(1)));
    if let Some(row) = chosen {
        curve(frame, at(2), row, view);
        lines(frame, at(3), cycle(row, view, at(3)));
        lines(frame, at(4), details_table(row, view, at(4)));
    }
    lines(frame, at(5), lateness(picture, view));
    lines(frame, at(6), told(picture, view));
    lines(frame, at(8), vec![keys(view)]);
}

/// Gives every section its least height, in the order of need as far as it goes, then what is left up to the most.
fn shares<const N: usize>(height: u16, wishes: [(u16, u16); N]) -> [u16; N] {
    let mut left = height;
    let mut given = [0; N];
    for (given, (least, most)) in given.iter_mut().zip(wishes) {
        let least = least.min(most);
        if least <= left {
            *given = least;
            left -= least;
        }
    }
    for (given, (_, most)) in given.iter_mut().zip(wishes) {
        if *given > 0 {
            let more = (most - *given).min(left);
            *given += more;
            left -= more;
        }
    }
    given
}

fn lines(frame: &mut Frame<'_>, area: Rect, lines: Vec<Line<'_>>) {
    if area.height > 0 {
        frame.render_widget(Paragraph::new(lines), area);
    }
}

fn header(picture: &Picture, view: View) -> Vec<Line<'static>> {
    let state = match (picture.rights.is_empty(), view.frozen) {
        (true, _) => Span::styled("  getting ready", view.faint()),
        (false, true) => Span::styled("  FROZEN", view.strong()),
        (false, false) => Span::raw(""),
    };
    let elapsed = seconds(picture.elapsed);
    let time = match picture.duration {
        _ if picture.elapsed < units::Nanos::ZERO => format!("  {}", begins_in(picture.elapsed)),
        Some(duration) => {
            let left = (duration - picture.elapsed).max(units::Nanos::ZERO);
            format!("  {elapsed} of {}, {} left", seconds(duration), seconds(left))
        }
        None => format!("  {elapsed}"),
    };
    let cycle = format!("  cycle {}", picture.cycle);
    let rate = picture.events_per_second.map_or_else(String::new, |rate| format!("  {rate:.0} events/s"));
    let (fill, lost) = picture.trace;
    let trace = format!("{rate}  trace {:.1} % full", fill * 100.0);
    let lost = (lost > 0).then(|| Span::styled(format!("{lost} trace records LOST  "), view.bad()));
    vec![
        Line::from(vec![
            Span::styled(picture.scenario.clone(), view.strong()),
            state,
            Span::raw(time),
            Span::raw(cycle),
            Span::styled(trace, view.faint()),
        ]),
        Line::from_iter(lost.into_iter().chain([Span::raw(picture.rights.clone())])),
    ]
}

fn keys(view: View) -> Line<'static> {
    let freeze = if view.frozen { "go on" } else { "freeze" };
    Line::styled(format!("q end  p {freeze}  ↑↓ stream"), view.faint())
}

/// Name, width and content of the columns of the streams' table, in the order of need.
type Column = (&'static str, usize, fn(&Row) -> Option<String>, bool);

fn columns() -> [Column; 13] {
    fn window(row: &Row, value: fn(&Dist) -> i64) -> Option<String> {
        row.window.as_ref().map(|dist| us(value(dist)))
    }
    fn both(row: &Row, count: fn(&measure::live::EndCounts) -> u64) -> Option<String> {
        Some(row.counts.ends.iter().map(count).sum::<u64>().to_string())
    }
    fn known(row: &Row, count: fn(&measure::live::EndCounts) -> Option<u64>) -> Option<String> {
        let known: Vec<u64> = row.counts.ends.iter().filter_map(count).collect();
        (!known.is_empty()).then(|| known.iter().sum::<u64>().to_string())
    }
    [
        ("p50", 9, |row| window(row, |dist| dist.p50), false),
        ("max", 9, |row| window(row, |dist| dist.max), false),
        ("lost", 6, |row| Some(row.counts.lost.to_string()), true),
        ("p99", 9, |row| window(row, |dist| dist.p99), false),
        ("run max", 10, |row| row.max.map(|max| us(max.0)), false),
        ("missed", 7, |row| known(row, |end| end.missed), true),
        ("min", 9, |row| window(row, |dist| dist.min), false),
        ("/s", 7, |row| row.per_second.map(|rate| format!("{rate:.0}")), false),
        ("repeat", 7, |row| known(row, |end| end.repeated), true),
        ("skipped", 8, |row| both(row, |end| end.cycles_skipped), true),
        ("supers", 7, |row| both(row, |end| end.superseded), true),
        ("incons", 7, |row| both(row, |end| end.inconsistent), true),
        ("refused", 8, |row| both(row, |end| end.refused), true),
    ]
}

fn streams_table(picture: &Picture, view: View, area: Rect) -> Vec<Line<'static>> {
    const NAME: usize = 12;
    let mut left = usize::from(area.width).saturating_sub(NAME + 2);
    let shown: Vec<Column> = columns()
        .into_iter()
        .take_while(|(_, width, ..)| {
            let fits = *width <= left;
            left = left.saturating_sub(*width);
            fits
        })
        .collect();
    let mut head = format!("  {:NAME$}", "stream, µs");
    shown.iter().for_each(|(name, width, ..)| head += &format!("{name:>width$}"));
    let rows = usize::from(area.height).saturating_sub(1);
    // Scrolled so that the chosen one is among those shown.
    let first = (view.chosen + 1).saturating_sub(rows);
    let row = |(number, row): (usize, &Row)| {
        let mark = if number == view.chosen { "› " } else { "  " };
        let name: String = row.name.chars().take(NAME - 1).collect();
        let mut spans = vec![Span::styled(format!("{mark}{name:NAME$}"), mark_style(view, number))];
        for (_, width, content, fault) in &shown {
            let text = content(row).unwrap_or_else(|| "—".into());
            let style = if *fault && text != "0" && text != "—" { view.bad() } else { Style::new() };
            spans.push(Span::styled(format!("{text:>width$}"), style));
        }
        Line::from(spans)
    };
    let rows = picture.streams.iter().enumerate().skip(first).take(rows).map(row);
    std::iter::once(Line::styled(head, view.faint())).chain(rows).collect()
}

fn mark_style(view: View, number: usize) -> Style {
    if number == view.chosen { view.strong() } else { Style::new() }
}

/// The last values as a curve and, where there is room, as a histogram.
fn curve(frame: &mut Frame<'_>, area: Rect, row: &Row, view: View) {
    if area.height < 2 || area.width == 0 {
        return;
    }
    let [title, picture] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
    let Some(window) = &row.window else {
        let words = format!("{}: nothing yet", row.shown);
        return lines(frame, title, vec![Line::styled(words, view.faint())]);
    };
    let range = format!("{} … {} µs", us(window.min), us(window.max));
    let words = format!("{} {}, last {}: {range}", row.name, row.shown, window.count);
    let both = area.width >= 60;
    let parts =
        if both { [Constraint::Fill(1), Constraint::Fill(1)] } else { [Constraint::Fill(1), Constraint::Length(0)] };
    let [left, right] = Layout::horizontal(parts).spacing(if both { 2 } else { 0 }).areas(picture);
    lines(frame, title, vec![Line::styled(words, view.faint())]);
    let style = if view.colours { Style::new().fg(Color::Cyan) } else { Style::new() };
    let over_time = greatest(&row.recent, window, usize::from(left.width));
    frame.render_widget(Sparkline::default().data(over_time).max(100).style(style), left);
    if both {
        let counts = histogram(&row.recent, window, usize::from(right.width));
        frame.render_widget(Sparkline::default().data(counts).style(style), right);
    }
}

/// The greatest value of each column's share, from 4 at the least of all to 100 at the greatest.
fn greatest(recent: &[i64], window: &Dist, columns: usize) -> Vec<u64> {
    let each = recent.len().div_ceil(columns.max(1)).max(1);
    let range = i128::from(window.max) - i128::from(window.min);
    let height = |value: i64| match range {
        0 => 50,
        _ => 4 + ((i128::from(value) - i128::from(window.min)) * 96 / range) as u64,
    };
    recent.chunks(each).filter_map(|values| values.iter().max()).map(|&value| height(value)).collect()
}

/// How many values fall into each column, between the least and the greatest.
fn histogram(recent: &[i64], window: &Dist, columns: usize) -> Vec<u64> {
    let mut counts = vec![0; columns];
    let range = i128::from(window.max) - i128::from(window.min) + 1;
    for &value in recent {
        let place = (i128::from(value) - i128::from(window.min)) * columns as i128 / range;
        if let Some(count) = usize::try_from(place).ok().and_then(|place| counts.get_mut(place)) {
            *count += 1;
        }
    }
    counts
}

fn cycle(row: &Row, view: View, area: Rect) -> Vec<Line<'static>> {
    const NAME: usize = 10;
    let width = usize::from(area.width).saturating_sub(NAME);
    let end = |(host, phases): &(String, [Option<measure::live::Ran>; 4])| {
        let name: String = host.chars().take(NAME - 1).collect();
        let mut spans = vec![Span::raw(format!("{name:NAME$}"))];
        spans.extend(bar::spans(&bar::cells(phases, row.base, row.cycle, width), view.colours));
        Line::from(spans)
    };
    let legend = format!("cycle {}: S subscribe  A application  P publish  L launch  · due, began later", row.cycle);
    let mut lines: Vec<Line<'static>> = row.ends.iter().map(end).collect();
    if area.height > 2 {
        lines.insert(0, Line::styled(legend, view.faint()));
    }
    lines
}

fn details_table(row: &Row, view: View, area: Rect) -> Vec<Line<'static>> {
    // On narrow terminals the least of the run and the count give way.
    let wide = area.width >= 98;
    let name: String = row.name.chars().take(13).collect();
    let mut head = format!(
        "{:17}{:>8}{:>8}{:>8}{:>8} │{:>9}{:>9}{:>9}",
        name + ", µs",
        "min",
        "p50",
        "p99",
        "max",
        "run p50",
        "p99",
        "max"
    );
    if wide {
        head += &format!("{:>9}{:>10}", "min", "count");
    }
    let line = |detail: &super::picture::Detail| {
        let text = |value: i64| if detail.cycles { value.to_string() } else { us(value) };
        let (window, whole) = (&detail.window, &detail.whole);
        let mut line = format!("{:17}", detail.name);
        [window.min, window.p50, window.p99, window.max]
            .map(text)
            .iter()
            .for_each(|text| line += &format!("{text:>8}"));
        line += " │";
        [whole.p50, whole.p99, whole.max].map(text).iter().for_each(|text| line += &format!("{text:>9}"));
        if wide {
            line += &format!("{:>9}{:>10}", text(whole.min), whole.count);
        }
        Line::raw(line)
    };
    std::iter::once(Line::styled(head, view.faint())).chain(row.details.iter().map(line)).collect()
}

fn lateness(picture: &Picture, view: View) -> Vec<Line<'static>> {
    let head = Line::styled("phases began late by, µs: last/p99/max of the run", view.faint());
    let line = |host: &super::picture::HostRow| {
        let mut spans = vec![Span::raw(format!("{:10}", host.name.chars().take(9).collect::<String>()))];
        for (phase, values, outliers) in &host.phases {
            let [last, p99, max] = values.map(short_us);
            let style = if *outliers > 0 { view.bad() } else { Style::new() };
            spans.push(Span::styled(format!("{} {last}/{p99}/{max}  ", letter(*phase)), style));
        }
        Line::from(spans)
    };
    std::iter::once(head).chain(picture.hosts.iter().map(line)).collect()
}

fn told(picture: &Picture, view: View) -> Vec<Line<'static>> {
    let head = Line::styled("lately, the newest first", view.faint());
    let nothing = picture.told.is_empty().then(|| Line::raw("nothing went wrong"));
    let lines = picture.told.iter().map(|line| Line::raw(line.clone()));
    std::iter::once(head).chain(nothing).chain(lines).collect()
}

#[cfg(test)]
mod tests;
