//! The histogram on a terminal of 80 columns: both scales logarithmic, since what matters is rare and far out.

use measure::LatencyFigures;

/// Columns of the longest bar.
const BAR: usize = 44;

/// More rows than this and the rows get coarser.
const MOST_ROWS: usize = 24;

/// Steps of a decade, in hundredths: ten of them (Renard's numbers), or three.
const FINE: [i64; 10] = [100, 120, 160, 200, 250, 320, 400, 500, 630, 800];
const COARSE: [i64; 3] = [100, 200, 500];

/// A row: from here, up to there (ns), so many.
type Row = (i64, i64, u64);

/// Prints it.
pub(super) fn draw(figures: &LatencyFigures) {
    for line in lines(&figures.histogram) {
        println!("{line}");
    }
}

/// The lines of the picture; empty places between filled rows become one line.
fn lines(histogram: &[(f64, u64)]) -> Vec<String> {
    let fine = rows(histogram, &FINE);
    let filled = |rows: &[Row]| rows.iter().filter(|row| row.2 > 0).count();
    let rows = if filled(&fine) > MOST_ROWS { rows(histogram, &COARSE) } else { fine };
    let most = rows.iter().map(|row| row.2).max().unwrap_or(0);
    let mut lines = Vec::new();
    let mut gap = false;
    for &(from, to, count) in &rows {
        if count == 0 {
            gap = true;
            continue;
        }
        if std::mem::take(&mut gap) && !lines.is_empty() {
            lines.push(format!("{:>13}", "⋮"));
        }
        let us = |ns: i64| ns as f64 / 1e3;
        lines.push(format!("{:>8} … {:>8} µs {:<BAR$} {count}", us(from), us(to), "█".repeat(bar(count, most))));
    }
    lines
}

/// Long as the logarithm of the count; one is one column.
fn bar(count: u64, most: u64) -> usize {
    let share = (1.0 + count as f64).ln() / (1.0 + most as f64).ln();
    ((share * BAR as f64).round() as usize).clamp(1, BAR)
}

/// Counts in rows of a logarithmic scale.
fn rows(histogram: &[(f64, u64)], steps: &[i64]) -> Vec<Row> {
    let largest = histogram.last().map_or(0, |entry| (entry.0 * 1e3).round() as i64);
    // Below 1 µs buckets of 0.1 µs allow no finer rows.
    let mut edges = vec![0, 100, 200, 500];
    let mut decade = 1_000;
    while edges.last().is_some_and(|&edge| edge <= largest) {
        edges.extend(steps.iter().map(|step| step * decade / 100));
        decade *= 10;
    }
    let mut rows: Vec<Row> = edges.windows(2).map(|pair| (pair[0], pair[1], 0)).collect();
    for &(us, count) in histogram {
        let ns = (us * 1e3).round() as i64;
        let place = rows.partition_point(|row| row.1 <= ns);
        if let Some(row) = rows.get_mut(place) {
            row.2 += count;
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_count_has_its_row_and_every_line_fits() {
        let cases: [&[(f64, u64)]; 4] = [
            &[(0.0, 1)],
            &[(3.1, 900_000_000), (3.2, 1), (45.0, 3), (65_000_000.0, 1)],
            &[(0.9, 5), (1.0, 6), (999.9, 1), (1_000.0, 1)],
            &[],
        ];
        for histogram in cases {
            let counted: u64 = rows(histogram, &FINE).iter().map(|row| row.2).sum();
            assert_eq!(counted, histogram.iter().map(|entry| entry.1).sum::<u64>());
            assert!(lines(histogram).iter().all(|line| line.chars().count() <= 80), "{:#?}", lines(histogram));
        }
        let lines = lines(cases[1]);
        // 3.1 stands apart from 3.2; two gaps on the way to 65 s.
        assert_eq!(lines.len(), 4 + 2, "{lines:#?}");
        assert!(lines[0].contains("2.5 …      3.2 µs") && lines[0].ends_with("900000000"), "{lines:#?}");
    }

    #[test]
    fn a_wide_spread_gets_coarser_rows() {
        let histogram: Vec<(f64, u64)> = (0..40).map(|step| (10_f64.powf(f64::from(step) / 10.0), 1)).collect();
        assert!(lines(&histogram).len() <= MOST_ROWS);
    }

    #[test]
    fn bars_are_logarithmic() {
        assert_eq!((bar(1_000_000, 1_000_000), bar(0, 10)), (BAR, 1));
        let (thousand, one) = (bar(1_000, 1_000_000), bar(1, 1_000_000));
        assert!((BAR / 2 - 1..=BAR / 2 + 1).contains(&thousand) && one < thousand / 4, "{thousand} {one}");
    }
}
