//! `cargo xtask bench latency`: how late a thread wakes up, by cyclictest, by a loop of ours as small as it gets, and by
//! `downbeat latency`, in turn.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rt::clock::{now, sleep_through};
use rt::thread::{Requested, prepare};
use serde_json::{Value, json};
use units::Nanos;

use super::place;
use super::print::shown_ratio;
use super::rounds::Failure;
use super::statistics::{Median, Spread, median, quantile_of, ratios};
use super::surroundings::Surroundings;

const INTERVAL: Nanos = Nanos::from_micros(250);
/// Half a second.
const WAKE_UPS: usize = 2_000;
const FIFO_PRIORITY: u8 = 50;
/// Highest bucket of cyclictest's histogram, in nanoseconds. What is later counts as that.
const HIGHEST_NS: u64 = 1_000_000;

/// What was measured.
#[derive(Debug)]
pub(super) struct Report {
    surroundings: Surroundings,
    blocks: usize,
    rows: Vec<LatencyRow>,
    /// Who is missing, and why.
    left_out: Vec<(&'static str, String)>,
}

#[derive(Debug)]
struct LatencyRow {
    key: &'static str,
    name: &'static str,
    /// Median of each block, in nanoseconds.
    blocks: Vec<f64>,
    all: Vec<f64>,
}

/// Tells how late each wake-up of a block was, in nanoseconds.
type Block = Box<dyn FnMut() -> Result<Vec<f64>, String>>;

/// Measures all rows.
pub(super) fn measure(blocks: usize) -> Result<Report, Failure> {
    let surroundings = Surroundings::begin();
    let cpu = place::last_cpu().ok_or("no processor may be used")?;
    let mut rows = Vec::new();
    let mut contestants: Vec<Block> = Vec::new();
    let mut left_out = Vec::new();
    let mut add = |key, name, found: Result<Block, String>| match found {
        Ok(block) => {
            rows.push(LatencyRow { key, name, blocks: Vec::new(), all: Vec::new() });
            contestants.push(block);
        }
        Err(reason) => left_out.push((name, reason)),
    };
    add("cyclictest", "cyclictest", cyclictest(cpu));
    add("loop", "a loop of ours", Ok(Box::new(move || in_a_thread(cpu))));
    add("downbeat_latency", "downbeat latency", downbeat(cpu));
    // The first block only warms up.
    for block in 0..=blocks {
        for step in 0..contestants.len() {
            let index = (block + step) % contestants.len();
            let late = contestants[index]().map_err(|error| format!("{}: {error}", rows[index].name))?;
            if block > 0 {
                rows[index].blocks.push(median(&late));
                rows[index].all.extend(late);
            }
        }
    }
    let granted = vec![format!("SCHED_FIFO {FIFO_PRIORITY}, processor {cpu}, every {} µs", INTERVAL.0 / 1_000)];
    Ok(Report { surroundings: surroundings.end(granted), blocks, rows, left_out })
}

fn in_a_thread(cpu: usize) -> Result<Vec<f64>, String> {
    let run = move || {
        let granted = prepare(&Requested {
            fifo_priority: Some(FIFO_PRIORITY),
            cpu: Some(cpu),
            lock_memory: true,
            cpu_dma_latency: true,
            ..Requested::default()
        });
        let mut late = Vec::with_capacity(WAKE_UPS);
        let mut due = now() + INTERVAL * 4;
        for _ in 0..WAKE_UPS {
            sleep_through(due);
            let woke = now();
            late.push((woke - due).0 as f64);
            // As cyclictest: instants that have passed are left out.
            due = due + INTERVAL * ((woke - due).0 / INTERVAL.0 + 1);
        }
        drop(granted);
        late
    };
    std::thread::spawn(run).join().map_err(|_| "the thread panicked".to_owned())
}

fn cyclictest(cpu: usize) -> Result<Block, String> {
    let there = Command::new("cyclictest").arg("--help").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if there.is_err() {
        return Err("cyclictest is missing: apt-get install rt-tests".to_owned());
    }
    let file = std::env::temp_dir().join(format!("downbeat-cyclictest-{}.json", std::process::id()));
    let arguments = [
        "-q".to_owned(),
        "-m".to_owned(),
        "-N".to_owned(),
        "-t1".to_owned(),
        format!("-a{cpu}"),
        format!("-p{FIFO_PRIORITY}"),
        format!("-i{}", INTERVAL.0 / 1_000),
        format!("-l{WAKE_UPS}"),
        format!("-h{HIGHEST_NS}"),
        format!("--json={}", file.display()),
    ];
    Ok(Box::new(move || {
        run("cyclictest", &arguments)?;
        let text = std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()));
        // Fails only when there is none, which has been told.
        _ = std::fs::remove_file(&file);
        of_cyclictest(&text?)
    }))
}

/// The buckets of cyclictest's JSON form, which are nanoseconds.
fn of_cyclictest(text: &str) -> Result<Vec<f64>, String> {
    let told = || "cyclictest's JSON has no histogram".to_owned();
    let json: Value = serde_json::from_str(text).map_err(|error| format!("cyclictest's JSON: {error}"))?;
    let thread = &json["thread"]["0"];
    let mut late = Vec::new();
    for (ns, count) in thread["histogram"].as_object().ok_or_else(told)? {
        let ns: f64 = ns.parse().map_err(|_| told())?;
        late.extend(std::iter::repeat_n(ns, count.as_u64().ok_or_else(told)? as usize));
    }
    let cycles = thread["cycles"].as_u64().ok_or_else(told)? as usize;
    late.resize(cycles.max(late.len()), HIGHEST_NS as f64);
    Ok(late)
}

/// The command of the product, if it is built and has a latency test.
fn downbeat(cpu: usize) -> Result<Block, String> {
    let missing = "there is no 'downbeat latency' beside this program: cargo build --release";
    let path: PathBuf = std::env::current_exe().map_err(|error| error.to_string())?.with_file_name("downbeat");
    let there = Command::new(&path).args(["latency", "--help"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !there.is_ok_and(|status| status.success()) {
        return Err(missing.to_owned());
    }
    let arguments = [
        "latency".to_owned(),
        "--quiet".to_owned(),
        "--json".to_owned(),
        "-t1".to_owned(),
        format!("-a{cpu}"),
        format!("-p{FIFO_PRIORITY}"),
        format!("-i{}", INTERVAL.0 / 1_000),
        format!("-l{WAKE_UPS}"),
    ];
    Ok(Box::new(move || of_downbeat(&run(&path.display().to_string(), &arguments)?)))
}

/// The buckets of `downbeat/latency/1`: the least value in microseconds, and the count.
fn of_downbeat(text: &str) -> Result<Vec<f64>, String> {
    let told = || "the JSON of downbeat latency has no histogram".to_owned();
    let json: Value = serde_json::from_str(text).map_err(|error| format!("the JSON of downbeat latency: {error}"))?;
    let mut late = Vec::new();
    for bucket in json["all"]["histogram"].as_array().ok_or_else(told)? {
        let (us, count) = (bucket[0].as_f64().ok_or_else(told)?, bucket[1].as_u64().ok_or_else(told)?);
        late.extend(std::iter::repeat_n(us * 1e3, count as usize));
    }
    Ok(late)
}

fn run(program: &str, arguments: &[String]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).output().map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim()))
    }
}

impl Report {
    fn ratio(&self, row: &LatencyRow) -> Option<Median> {
        let other = self.rows.iter().find(|other| other.key == "cyclictest" && row.key != "cyclictest")?;
        Some(Median::of(&ratios(&row.blocks, &other.blocks)))
    }

    pub(super) fn text(&self) -> String {
        let mut text = self.surroundings.head();
        _ = writeln!(
            text,
            "{} blocks of {WAKE_UPS} wake-ups, in turn. Ratios are formed within blocks, in parentheses the 95 % interval of \
             their median.\n\nHow late a thread wakes up, µs\n  {:<18} {:>8} {:>8} {:>8}  {:<15}  × cyclictest (95 %)",
            self.blocks, "", "median", "p99", "p99.9", "quartiles"
        );
        for row in &self.rows {
            let spread = Spread::of(&row.blocks);
            let quartiles = format!("{:.1}…{:.1}", spread.quarter / 1e3, spread.three_quarters / 1e3);
            let line = format!(
                "  {:<18} {:>8.2} {:>8.2} {:>8.2}  {quartiles:<15}  {}",
                row.name,
                spread.median / 1e3,
                quantile_of(&row.all, 0.99) / 1e3,
                quantile_of(&row.all, 0.999) / 1e3,
                shown_ratio(self.ratio(row)),
            );
            _ = writeln!(text, "{}", line.trim_end());
        }
        for (name, reason) in &self.left_out {
            _ = writeln!(text, "  LEFT OUT: {name}: {reason}");
        }
        text.push('\n');
        text + &self.surroundings.caveats()
    }

    pub(super) fn json(&self) -> Value {
        let row = |row: &LatencyRow| {
            json!({
                "key": row.key, "late_ns": Spread::of(&row.blocks).json(), "samples": row.all.len(),
                "p99_ns": quantile_of(&row.all, 0.99), "p999_ns": quantile_of(&row.all, 0.999),
                "to_cyclictest": self.ratio(row).map(Median::json),
            })
        };
        let left_out: serde_json::Map<_, _> =
            self.left_out.iter().map(|(name, reason)| ((*name).to_owned(), json!(reason))).collect();
        json!({
            "format": "downbeat/bench-latency/1",
            "machine": self.surroundings.json(),
            "blocks": self.blocks, "wake_ups_per_block": WAKE_UPS, "interval_ns": INTERVAL.0,
            "rows": self.rows.iter().map(row).collect::<Vec<_>>(), "left_out": left_out,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_of_others_are_read() {
        let text = r#"{"thread": {"0": {"histogram": {"2100": 2, "3050": 1}, "cycles": 4, "max": 7000000}}}"#;
        assert_eq!(of_cyclictest(text), Ok(vec![2_100.0, 2_100.0, 3_050.0, 1_000_000.0]));
        assert!(of_cyclictest("{}").unwrap_err().contains("no histogram"));
        let text = r#"{"format": "downbeat/latency/1", "all": {"histogram": [[2.1, 2], [30.5, 1]]}}"#;
        assert_eq!(of_downbeat(text), Ok(vec![2_100.0, 2_100.0, 30_500.0]));
        assert!(of_downbeat("[]").unwrap_err().contains("no histogram"));
    }

    #[test]
    fn our_loop_is_never_early() {
        let late = in_a_thread(place::last_cpu().unwrap()).unwrap();
        assert_eq!(late.len(), WAKE_UPS);
        assert!(late.iter().all(|&late| late >= 0.0));
    }

    #[test]
    fn who_is_missing_is_named() {
        let row = |key, ns| LatencyRow { key, name: key, blocks: vec![ns; 20], all: vec![ns; 100] };
        let report = Report {
            surroundings: Surroundings::default(),
            blocks: 20,
            rows: vec![row("cyclictest", 20_000.0), row("loop", 19_000.0)],
            left_out: vec![("downbeat latency", "not built".to_owned())],
        };
        let text = report.text();
        assert!(
            text.contains("0.950 (0.950…0.950)") && text.contains("LEFT OUT: downbeat latency: not built"),
            "{text}"
        );
        assert_eq!(report.json()["rows"][1]["to_cyclictest"]["median"], 0.95);
    }
}
