//! One scenario of examples/papers/ with some other values: bound, simulated and run in the kernel laboratory.
#![allow(unreachable_pub)] // a module of one test

use std::path::{Path, PathBuf};

use measure::FrameRow;
use serde_json::Value;

use crate::common::{downbeat, run_json, stderr, stdout};

/// Cycle of all these scenarios, ns.
pub const CYCLE: i64 = 250_000;
/// Readings of the clock, 10 ns each, by threads that wake up at one instant: all by which a run may be above its bound, which
/// takes hosts for punctual.
pub const READINGS_NS: i64 = 300;
/// Lateness that was drawn is cut at less; readings of the clock come on top.
const JITTER: &str = "62us";

/// Whether the laboratory's kernel is there.
pub fn has_kernel(test: &str) -> bool {
    kernel_lab::testing::kernel(test).is_some()
}

/// In microseconds.
pub fn micros(ns: i64) -> String {
    format!("{:.3}", ns as f64 / 1000.0)
}

/// What is to be done.
pub struct Case {
    file: PathBuf,
    set: Vec<String>,
    late: Option<&'static str>,
    late_launches: bool,
    span: &'static str,
}

impl Case {
    pub fn of(file: &str) -> Self {
        let papers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/papers");
        Self {
            file: papers.join(format!("{file}.toml")),
            set: Vec::new(),
            late: None,
            late_launches: false,
            span: "50ms",
        }
    }

    pub fn set(mut self, setting: &str) -> Self {
        self.set.push(setting.to_owned());
        self
    }

    pub fn late(mut self, latency: &'static str) -> Self {
        self.late = Some(latency);
        self
    }

    /// Our own thread launches, and wakes up late for that too: bound and simulation take it for exact.
    pub fn late_launches(mut self) -> Self {
        self.late_launches = true;
        self
    }

    pub fn span(mut self, span: &'static str) -> Self {
        self.span = span;
        self
    }

    fn command<'a>(&'a self, command: &'a str, more: &[&'a str]) -> std::process::Output {
        let mut words = vec![command, self.file.to_str().unwrap(), "--json"];
        self.set.iter().for_each(|setting| words.extend(["--set", setting]));
        downbeat(&[&words, more].concat())
    }

    pub fn bound_with(&self, more: &[&str]) -> Bound {
        let output = self.command("bound", more);
        assert!(output.status.success(), "{}", stderr(&output));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        Bound(report["streams"][0].clone())
    }

    fn simulated(&self, out: &Path) -> Option<(Value, Vec<FrameRow>)> {
        let mut more = vec!["--duration", self.span, "--out", out.to_str().unwrap()];
        more.extend(self.late.iter().flat_map(|late| ["--host-latency", *late]));
        let output = self.command("simulate", &more);
        if output.status.code() == Some(2) {
            assert!(stderr(&output).contains("does not model"), "{}", stderr(&output));
            return None;
        }
        Some((run_json(out)["streams"][0].clone(), measure::read_run(out).unwrap().1))
    }

    /// By how much a message leaves later than the one before, simulated, ns.
    pub fn simulated_growth(&self) -> f64 {
        let folder = tempfile::tempdir().unwrap();
        growth(&self.simulated(&folder.path().join("simulated")).expect("it is modelled").1)
    }

    /// All three. What is simulated is below the bound, and so is what was run, but for the readings.
    pub fn run(&self) -> Ran {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("run");
        let mut more = vec!["--in", "kernel-lab", "--duration", self.span, "--out", out.to_str().unwrap()];
        more.extend(self.late.iter().flat_map(|late| ["--host-latency", *late]));
        let output = self.command("run", &more);
        assert!(matches!(output.status.code(), Some(0 | 1)), "{}{}", stdout(&output), stderr(&output));
        let name = format!("{} {:?} {:?}", self.file.file_stem().unwrap().display(), self.set, self.late);
        let jitter = if self.late.is_some() { JITTER } else { "0s" };
        let ran = Ran {
            name,
            stream: run_json(&out)["streams"][0].clone(),
            rows: measure::read_run(&out).unwrap().1,
            bound: self.bound_with(&["--host-jitter", jitter]),
            simulated: self.simulated(&folder.path().join("simulated")),
        };
        if !self.late_launches {
            ran.check();
        }
        ran
    }
}

/// Bounds of the first stream.
pub struct Bound(Value);

impl Bound {
    /// In microseconds; none where there is none.
    pub fn figure(&self, name: &str) -> Option<f64> {
        self.0[name]["us"].as_str()?.parse().ok()
    }

    pub fn trip(&self, name: &str) -> Option<f64> {
        self.0["round_trip"][name]["us"].as_str()?.parse().ok()
    }

    /// The round trip `wire` at least and at most, from the phases, µs.
    pub fn scheduled(&self) -> Option<[f64; 2]> {
        Some([self.trip("wire_scheduled_best")?, self.trip("wire_scheduled")?])
    }
}

/// What came of it.
pub struct Ran {
    name: String,
    /// Of the first stream, measured.
    pub stream: Value,
    rows: Vec<FrameRow>,
    pub bound: Bound,
    /// The first stream, simulated, and all frames; none where a queue is not modelled.
    simulated: Option<(Value, Vec<FrameRow>)>,
}

impl Ran {
    fn check(&self) {
        let most = |stream: &Value, path: &[&str]| path.iter().fold(stream, |value, key| &value[key])["max"].as_i64();
        for (bound, path) in [
            (self.bound.trip("wire_scheduled"), ["round_trip", "wire"].as_slice()),
            (self.bound.figure("one_way"), &["one_way"]),
            (self.bound.figure("spacing_error"), &["jitter", "spacing_error"]),
        ] {
            let Some(bound) = bound else { continue };
            let slack = READINGS_NS as f64 / 1000.0;
            if let Some(found) = most(&self.stream, path) {
                assert!(
                    found as f64 / 1000.0 <= bound + slack,
                    "{}, {path:?}: {found} ns, bound {bound} µs",
                    self.name
                );
            }
            if let Some(found) = self.simulated.as_ref().and_then(|(stream, _)| most(stream, path)) {
                assert!(
                    found as f64 / 1000.0 <= bound,
                    "{}, {path:?}: simulated {found} ns, bound {bound} µs",
                    self.name
                );
            }
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    fn dist(&self, path: &[&str]) -> &Value {
        path.iter().fold(&self.stream, |value, key| &value[key])
    }

    pub fn mean(&self, path: &[&str]) -> f64 {
        self.dist(path)["mean"].as_f64().unwrap_or_else(|| panic!("{}: {path:?} was measured", self.name))
    }

    pub fn most(&self, path: &[&str]) -> i64 {
        self.dist(path)["max"].as_i64().unwrap_or_else(|| panic!("{}: {path:?} was measured", self.name))
    }

    pub fn median(&self, path: &[&str]) -> i64 {
        self.dist(path)["p50"].as_i64().unwrap_or_else(|| panic!("{}: {path:?} was measured", self.name))
    }

    /// The round trip `wire` at least and at most, ns.
    pub fn wire(&self) -> Option<(i64, i64)> {
        let wire = self.dist(&["round_trip", "wire"]);
        Some((wire["min"].as_i64()?, wire["max"].as_i64()?))
    }

    /// The largest round trip `wire` of bound (by the phases), simulation and run.
    pub fn figures(&self) -> [String; 3] {
        let none = || "—".to_owned();
        let simulated = self.simulated.as_ref().and_then(|(stream, _)| stream["round_trip"]["wire"]["max"].as_i64());
        [
            self.bound.scheduled().map_or_else(|| "none".into(), |[_, worst]| format!("{worst:.3}")),
            simulated.map_or_else(none, micros),
            self.wire().map_or_else(none, |(_, most)| micros(most)),
        ]
    }

    /// The same as cells of a table.
    pub fn three(&self) -> String {
        self.figures().join(" | ")
    }

    pub fn lost(&self) -> u64 {
        self.stream["loss"]["dSum"].as_u64().unwrap()
    }

    /// Messages of the first stream whose fate is known.
    pub fn published(&self) -> u64 {
        self.stream["loss"]["published"].as_u64().unwrap()
    }

    pub fn lost_at_publisher(&self) -> u64 {
        self.stream["loss"]["dP"].as_u64().unwrap()
    }

    /// Jitter `spacing_error` as simulated: mean and most.
    pub fn simulated_spacing_error(&self) -> Option<(f64, i64)> {
        let error = &self.simulated.as_ref()?.0["jitter"]["spacing_error"];
        Some((error["mean"].as_f64()?, error["max"].as_i64()?))
    }

    pub fn longest_queueing(&self) -> i64 {
        queueing(&self.rows).into_iter().max().unwrap()
    }

    /// By how much a message leaves later after its publication than the one before, on average over the first 60, ns.
    pub fn growth(&self) -> f64 {
        growth(&self.rows)
    }

    /// The same as simulated.
    pub fn simulated_growth(&self) -> Option<f64> {
        self.simulated.as_ref().map(|(_, rows)| growth(rows))
    }

    /// Between the first and the last departure of the frames published in one cycle, at most, of the first cycles.
    pub fn spread(&self) -> i64 {
        let of_cycle = |cycle: i64| {
            let departures = self.rows.iter().filter(|row| row.cycle == cycle).filter_map(|row| row.t[1]);
            let (first, last) = (departures.clone().min()?, departures.max()?);
            Some(last - first)
        };
        let first = self.rows.iter().map(|row| row.cycle).min().unwrap();
        (first + 10..first + 50).filter_map(of_cycle).max().unwrap()
    }

    /// T6 − T3 at least and at most: between a frame's arrival at the reader and its answer's departure.
    pub fn node(&self) -> (i64, i64) {
        let found = || self.rows.iter().filter_map(|row| Some(row.t[5]? - row.t[2]?));
        (found().min().unwrap(), found().max().unwrap())
    }
}

/// T2 − T1 of the first stream's messages that left, in their order.
fn queueing(rows: &[FrameRow]) -> Vec<i64> {
    let rows = rows.iter().filter(|row| row.stream == 0);
    rows.filter_map(|row| Some(row.t[1]? - row.t[0]?)).collect()
}

fn growth(rows: &[FrameRow]) -> f64 {
    let queueing = queueing(rows);
    // The first ones find credit that had not been used.
    let (from, to) = (10, 60.min(queueing.len() - 1));
    (queueing[to] - queueing[from]) as f64 / (to - from) as f64
}

/// A table for docs/papers.md, printed as a whole: tests run side by side.
pub struct Table(String);

impl Table {
    pub fn new(title: &str, heads: &str) -> Self {
        let rule = heads.split('|').map(|_| "---").collect::<Vec<_>>().join("|");
        Self(format!("\n{title}\n\n| {heads} |\n|{rule}|\n"))
    }

    pub fn row(&mut self, cells: String) {
        self.0 += &format!("| {cells} |\n");
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        println!("{}", self.0);
    }
}
