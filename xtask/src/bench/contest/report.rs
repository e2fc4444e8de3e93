//! The results of `cargo xtask bench loop`, for people and for machines.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::super::interop::Program;
use super::super::options::Options;
use super::super::place;
use super::super::print::shown_ratio;
use super::super::rounds::Failure;
use super::super::statistics::{Median, Spread, differences, median, quantile_of, ratios};
use super::super::surroundings::Surroundings;
use super::drive::Waiting;
use super::stolen::Stolen;
use super::{LeftOut, cycle, echo};

/// What was measured.
#[derive(Debug)]
pub(in super::super) struct Report {
    surroundings: Surroundings,
    blocks: usize,
    left_out: LeftOut,
    echoes: Vec<echo::Table>,
    cycles: Vec<cycle::Table>,
    stolen: Stolen,
}

/// Measures what was asked for.
pub(in super::super) fn measure(options: &Options) -> Result<Report, Failure> {
    // Before there is a namespace of our own, in which no crate could be fetched.
    let mut left_out = LeftOut::default();
    let program = left_out.unless("open62541", Program::open62541());
    let &[near, .., far] = &place::cpus()[..] else {
        return Err("two processors are needed: one for each end".into());
    };
    let pairs = place::make_pairs(echo::PAIRS.max(cycle::PAIRS))?;
    let (echo_pairs, cycle_pairs) = (pairs.first_chunk(), pairs.first_chunk());
    let (Some(echo_pairs), Some(cycle_pairs)) = (echo_pairs, cycle_pairs) else { return Err("no veth pairs".into()) };
    let surroundings = Surroundings::begin();
    let granted = std::thread::spawn(move || place::settle_on(Some(far)).describe()).join().unwrap_or_default();
    let (blocks, cpus, program) = (options.amount.blocks, [near, far], program.as_ref());
    let echoes =
        if options.echo { echo::measure(echo_pairs, cpus, program, blocks, &mut left_out)? } else { Vec::new() };
    let stolen = Stolen::begin(cpus);
    let cycles = cycle::measure(cycle_pairs, cpus, program, &options.cycles, blocks, &mut left_out)?;
    Ok(Report { surroundings: surroundings.end(granted), blocks, left_out, echoes, cycles, stolen: stolen.end() })
}

impl echo::Table {
    fn row(&self, key: &str) -> Option<&echo::Row> {
        self.rows.iter().find(|row| row.key == key)
    }

    fn ratio(&self, row: &echo::Row, to: &str) -> Option<Median> {
        let other = self.row(to).filter(|other| other.key != row.key)?;
        Some(Median::of(&ratios(&row.blocks, &other.blocks)))
    }

    fn text(&self) -> String {
        let title = match self.waiting {
            Waiting::Spin => "busy: the contestant looks again and again",
            Waiting::Sleep => "blocking: the contestant sleeps until a frame comes, every 250 µs",
        };
        let mut text = format!("\nEcho, {} fields, {title}\n", self.fields);
        _ = writeln!(
            text,
            "  {:<27} {:>9} {:>9}  {:<15}  {:<22}  × hand-written recv",
            "", "median µs", "p99 µs", "quartiles", "× hand-written ring"
        );
        for row in &self.rows {
            let spread = Spread::of(&row.blocks);
            let quartiles = format!("{:.2}…{:.2}", spread.quarter / 1e3, spread.three_quarters / 1e3);
            let line = format!(
                "  {:<27} {:>9.2} {:>9.2}  {quartiles:<15}  {:<22}  {}",
                row.name,
                spread.median / 1e3,
                quantile_of(&row.all, 0.99) / 1e3,
                shown_ratio(self.ratio(row, "ring")),
                shown_ratio(self.ratio(row, "recv")),
            );
            let lost = if row.lost > 0 { format!("  {} without an answer", row.lost) } else { String::new() };
            _ = writeln!(text, "{}{lost}", line.trim_end());
        }
        text
    }

    fn json(&self) -> Value {
        let row = |row: &echo::Row| {
            json!({
                "key": row.key, "round_trip_ns": Spread::of(&row.blocks).json(), "p99_ns": quantile_of(&row.all, 0.99),
                "samples": row.all.len(), "lost": row.lost,
                "to_ring": self.ratio(row, "ring").map(Median::json),
                "to_recv": self.ratio(row, "recv").map(Median::json),
            })
        };
        json!({
            "fields": self.fields, "waiting": word(self.waiting),
            "rows": self.rows.iter().map(row).collect::<Vec<_>>(),
        })
    }
}

impl cycle::Table {
    /// How much later a row's counters come back than another row's, in nanoseconds.
    fn difference(&self, row: &cycle::Row, to: &str) -> Option<Median> {
        let other = self.rows.iter().find(|other| other.key == to && other.key != row.key)?;
        (row.is_sound() && other.is_sound()).then(|| Median::of(&finite(&differences(&row.blocks, &other.blocks))))
    }

    fn text(&self) -> String {
        let length = self.length.0 as f64 / 1e3;
        let how = if self.waiting == Waiting::Sleep { "sleeping" } else { "spinning" };
        let mut text =
            format!("\nCycle of {length} µs, {how}; round trip on the wire by schedule: {} µs\n", 2.0 * length);
        _ = writeln!(
            text,
            "  {:<27} {:>9} {:>9}  {:<23}  {:>9}  missed cycles; lost counters",
            "above the schedule, µs:", "median", "p99", "over hand-written ring", "CPU µs"
        );
        for row in &self.rows {
            let shown = |value: f64| if row.is_sound() { format!("{:.2}", value / 1e3) } else { "–".to_owned() };
            let difference = self.difference(row, "ring").map_or_else(String::new, |Median { value, low, high }| {
                format!("{:+.2} ({:+.2}…{:+.2})", value / 1e3, low / 1e3, high / 1e3)
            });
            let missed = format!("{} of {}", row.skipped, row.cycles);
            let lost = if row.key == "empty" { String::new() } else { format!("; {}", row.unread) };
            _ = writeln!(
                text,
                "  {:<27} {:>9} {:>9}  {difference:<23}  {:>9.2}  {missed}{lost}",
                row.name,
                shown(median(&finite(&row.blocks))),
                shown(quantile_of(&row.all, 0.99)),
                median(&row.cpu) / 1e3,
            );
        }
        text
    }

    fn json(&self) -> Value {
        let row = |row: &cycle::Row| {
            json!({
                "key": row.key, "cycles": row.cycles, "skipped": row.skipped, "samples": row.all.len(),
                "lost": (row.key != "empty").then_some(row.unread),
                "above_schedule_ns": row.is_sound().then(|| json!({
                    "median": median(&finite(&row.blocks)), "p99": quantile_of(&row.all, 0.99),
                })),
                "over_ring_ns": self.difference(row, "ring").map(Median::json),
                "cpu_ns_per_cycle": Spread::of(&row.cpu).json(),
            })
        };
        json!({
            "cycle_ns": self.length.0, "waiting": word(self.waiting),
            "rows": self.rows.iter().map(row).collect::<Vec<_>>(),
        })
    }
}

/// Without those of blocks in which nothing came back.
fn finite(values: &[f64]) -> Vec<f64> {
    values.iter().copied().filter(|value| value.is_finite()).collect()
}

fn word(waiting: Waiting) -> &'static str {
    match waiting {
        Waiting::Sleep => "sleep",
        Waiting::Spin => "spin",
    }
}

impl Report {
    pub(in super::super) fn text(&self) -> String {
        let mut text = self.surroundings.head();
        _ = writeln!(
            text,
            "{} blocks a row; contestants take turns, several in a block. Medians and quartiles are those of the blocks' medians, \
             p99 that of\nall frames; ratios and differences are formed within blocks, in parentheses 95 % intervals of their \
             medians.",
            self.blocks
        );
        for (name, reason) in &self.left_out.0 {
            _ = writeln!(text, "LEFT OUT: {name}: {reason}");
        }
        self.echoes.iter().for_each(|table| text += &table.text());
        if !self.echoes.is_empty() {
            text += "\n\
Echo: from handing over a frame to having its answer, seen by one and the same hand-written end on a receive ring that never
sleeps. Each contestant checks the constant bytes, copies the values out and into its answer, and gives it a new timestamp.
A frame without an answer within 100 ms is in no figure: most often it came before the contestant was awake.
";
        }
        self.cycles.iter().for_each(|table| text += &table.text());
        if !self.cycles.is_empty() {
            _ = write!(
                text,
                "\n\
Cycle: both ends read at 0, launch at 0.2, run the application at 0.3 and publish at 0.6 of it; the source reads on until it
publishes. Above the schedule is what a counter takes from its publish phase to being read, less 2.6 cycles; below zero when
a late end took what was sent for its next cycle. A cycle is missed when the one before ends a whole cycle late; a counter is
lost when none of its frames was read; where many are, – stands for the rest. CPU is that of both ends.
The row without frames shows what the machine itself takes away.\n{}",
                self.stolen.text()
            );
        }
        text + &self.surroundings.caveats()
    }

    pub(in super::super) fn json(&self) -> Value {
        json!({
            "format": "downbeat/bench-loop/1",
            "machine": self.surroundings.json(),
            "blocks": self.blocks,
            "left_out": self.left_out.0,
            "echo": self.echoes.iter().map(echo::Table::json).collect::<Vec<_>>(),
            "cycle": self.cycles.iter().map(cycle::Table::json).collect::<Vec<_>>(),
            "stolen": self.stolen.json(),
        })
    }
}

#[cfg(test)]
mod tests {
    use units::Nanos;

    use super::*;

    fn report(echoes: Vec<echo::Table>, cycles: Vec<cycle::Table>) -> Report {
        let stolen = Stolen::begin([0, 1]);
        Report {
            surroundings: Surroundings::default(),
            blocks: 20,
            left_out: LeftOut::default(),
            echoes,
            cycles,
            stolen,
        }
    }

    #[test]
    fn echoes_are_compared_with_both_hand_written_loops() {
        let row = |key, us: f64| echo::Row {
            key,
            name: key,
            blocks: vec![us * 1e3; 20],
            all: vec![us * 1e3; 100],
            lost: u32::from(key == "recv"),
        };
        let rows = vec![row("recv", 4.0), row("ring", 3.0), row("downbeat", 3.3)];
        let mut report = report(vec![echo::Table { waiting: Waiting::Spin, fields: 9, rows }], Vec::new());
        assert_eq!(report.left_out.unless::<()>("open62541", Err("no cmake".to_owned())), None);
        let text = report.text();
        assert!(text.contains("1.100 (1.100…1.100)     0.825 (0.825…0.825)"), "{text}");
        assert!(text.contains("1 without an answer") && text.contains("LEFT OUT: open62541: no cmake"), "{text}");
        assert!(!text.contains("Cycle"), "{text}");
        assert_eq!(report.json()["echo"][0]["rows"][2]["to_ring"]["median"], 1.1);
    }

    #[test]
    fn what_is_left_of_lost_counters_is_not_shown() {
        let row = |key, us: f64, unread| cycle::Row {
            key,
            name: key,
            blocks: vec![us * 1e3, f64::NAN, us * 1e3],
            all: vec![us * 1e3; 100],
            cpu: vec![40_000.0; 3],
            cycles: 800,
            skipped: 7,
            unread,
        };
        let rows = vec![row("ring", 10.0, 0), row("downbeat", 12.5, 200), row("open62541", 7_777.0, 201)];
        let table = cycle::Table { waiting: Waiting::Sleep, length: Nanos(62_500), rows };
        let report = report(Vec::new(), vec![table]);
        let text = report.text();
        assert!(text.contains("Cycle of 62.5 µs, sleeping; round trip on the wire by schedule: 125 µs"), "{text}");
        assert!(text.contains("+2.50 (+2.50…+2.50)") && text.contains("40.00  7 of 800; 200"), "{text}");
        assert!(!text.contains("7777"), "{text}");
        let json = report.json();
        assert_eq!(json["cycle"][0]["rows"][1]["over_ring_ns"]["median"], 2_500.0);
        assert!(json["cycle"][0]["rows"][2]["above_schedule_ns"].is_null());
    }
}
