//! The cycle as a bar, with the phases where they really fell.

use measure::Phase;
use measure::live::Ran;
use ratatui::style::{Color, Style};
use ratatui::text::Span;
use units::{Nanos, Tai};

use super::words::letter;

/// Cells of a bar of `width`: the letter of the phase that ran there, `·` where one was due and none ran.
pub(super) fn cells(phases: &[Option<Ran>; 4], base: Tai, cycle: Nanos, width: usize) -> Vec<Option<Cell>> {
    let mut cells = vec![None; width];
    if width == 0 || cycle.0 <= 0 {
        return cells;
    }
    let column = |at: i64| {
        let within = i128::from(at).saturating_sub(i128::from(base.0)).rem_euclid(i128::from(cycle.0));
        (within * width as i128 / i128::from(cycle.0)) as usize
    };
    for (phase, ran) in Phase::ALL.into_iter().zip(phases) {
        let Some(ran) = ran else { continue };
        let begun = ran.due.0.saturating_add(ran.late.0);
        let took = ran.took.0.clamp(0, cycle.0);
        let (first, last) = (column(begun), column(begun.saturating_add(took)));
        // It may end in the next cycle.
        let length = (last + width - first) % width + 1;
        (0..length).for_each(|step| cells[(first + step) % width] = Some(Cell::Ran(phase)));
        let due = &mut cells[column(ran.due.0)];
        if due.is_none() {
            *due = Some(Cell::Due(phase));
        }
    }
    cells
}

/// A cell of the bar that is not empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cell {
    /// The phase ran.
    Ran(Phase),
    /// The phase was due, and ran later.
    Due(Phase),
}

/// The same as text.
pub(super) fn spans(cells: &[Option<Cell>], colours: bool) -> Vec<Span<'static>> {
    let style = |phase: Phase| match phase {
        _ if !colours => Style::new(),
        Phase::Subscribe => Style::new().fg(Color::Cyan),
        Phase::Application => Style::new().fg(Color::Green),
        Phase::Publish => Style::new().fg(Color::Yellow),
        Phase::Launch => Style::new().fg(Color::Magenta),
    };
    let span = |cell: &Option<Cell>| match cell {
        Some(Cell::Ran(phase)) => Span::styled(letter(*phase).to_string(), style(*phase)),
        Some(Cell::Due(phase)) => Span::styled("·", style(*phase)),
        None => Span::raw("─"),
    };
    cells.iter().map(span).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(phases: [Option<(i64, i64, i64)>; 4], base: i64, width: usize) -> String {
        let ran = |(due, late, took)| Ran { due: Tai(due), late: Nanos(late), took: Nanos(took) };
        let cells = cells(&phases.map(|phase| phase.map(ran)), Tai(base), Nanos(1_000), width);
        spans(&cells, false).iter().map(|span| span.content.as_ref()).collect()
    }

    #[test]
    fn phases_lie_where_they_fell() {
        let phases = [Some((5_000, 0, 150)), Some((5_300, 200, 10)), Some((5_600, 0, 0)), None];
        assert_eq!(drawn(phases, 0, 20), "SSSS──·───A─P───────");
        assert_eq!(drawn(phases, 100, 10), "S─·─AP───S");
    }

    #[test]
    fn a_phase_over_the_end_goes_on_at_the_beginning() {
        assert_eq!(drawn([None, None, None, Some((900, 50, 100))], 0, 10), "L────────L");
    }

    #[test]
    fn nothing_panics() {
        for width in [0, 1, 7] {
            drawn([Some((i64::MAX, i64::MAX, i64::MAX)), Some((i64::MIN, -5, -7)), None, None], i64::MIN, width);
        }
    }
}
