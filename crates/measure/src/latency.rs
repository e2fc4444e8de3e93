//! The form of a wake-up latency test: `latency.json`, format "downbeat/latency/1".
//!
//! Keys may be added, never renamed. What was not measured is left out; it is never 0.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;

use serde::{Deserialize, Serialize};
use units::Nanos;

use crate::store::{ResultsError, failed, of_format};
use crate::{Dist, Histogram, Machine};

/// The format that the file names.
pub const LATENCY_FORMAT: &str = "downbeat/latency/1";

/// `latency.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LatencyFile {
    /// [`LATENCY_FORMAT`].
    pub format: String,
    /// The command line.
    pub command: String,
    /// When it began, seconds since 1970-01-01 UTC.
    pub began_utc_s: i64,
    /// How long it measured.
    pub lasted_ns: i64,
    /// Why it ended: `duration`, `loops`, `interrupted` or `break` (a wake-up later than `-b`).
    pub ended: String,
    /// On what, with the keys of `run.json`.
    pub machine: Machine,
    /// The clock that was slept on: `monotonic` or `tai`.
    pub clock: String,
    /// How the threads waited.
    pub method: Method,
    /// How long before the instant the sleep ended; with [`Method::Hybrid`] only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub margin_ns: Option<i64>,
    /// The policy that was asked for: `fifo`, `rr`, `other`, …
    pub policy: String,
    /// The priority that was asked for; absent where the policy has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// The load beside the test; absent when none was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<LoadReport>,
    /// One entry a thread.
    pub threads: Vec<LatencyThread>,
    /// All threads together.
    pub all: LatencyFigures,
    /// The limit that was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_ns: Option<i64>,
    /// A `delta` for the queue discipline ETF on this host, see [`suggested_etf_delta`]; absent without a wake-up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suggested_etf_delta_ns: Option<i64>,
}

/// How a thread waited for its instants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// It slept to the instant. A figure is how late it was awake.
    Sleep,
    /// It slept to shortly before and read the clock for the rest. A figure is how late the first reading was.
    Hybrid,
    /// It read the clock all the time. A figure is the longest gap between two readings, once an interval: the time
    /// that something else had the processor.
    Spin,
}

/// What one thread saw.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LatencyThread {
    /// Counted from 0.
    pub thread: usize,
    /// The processor it was to run on.
    pub cpu: usize,
    /// From one instant to the next.
    pub interval_ns: i64,
    /// What the kernel granted and refused, in words.
    pub granted: Vec<String>,
    /// The figures.
    #[serde(flatten)]
    pub figures: LatencyFigures,
    /// How many wake-ups were later than `outlier_above_ns`.
    pub outliers: u64,
    /// What counts as an outlier.
    pub outlier_above_ns: i64,
    /// The first of them.
    pub first_outliers: Vec<LatencyOutlier>,
    /// Allocations while it measured: 0.
    pub allocations: u64,
}

/// A distribution and its histogram.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LatencyFigures {
    /// Instants that passed while the thread was still late for one before; they have no figure.
    pub missed: u64,
    /// Figures too long for the histogram (65.5 s), all in its last bucket.
    pub overflow: u64,
    /// Time in gaps of more than 1 µs; with [`Method::Spin`] only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stolen_ns: Option<i64>,
    /// The distribution, in nanoseconds; absent when there was no wake-up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distribution: Option<Dist>,
    /// Buckets that hold anything: the least value in microseconds, and the count. Buckets are 0.1 µs wide below 1 ms
    /// and at most 0.8 % of their value above.
    pub histogram: Vec<(f64, u64)>,
}

impl LatencyFigures {
    /// Figures of a histogram.
    pub fn of(histogram: &Histogram, missed: u64, stolen: Option<Nanos>) -> Self {
        Self {
            missed,
            overflow: histogram.overflow(),
            stolen_ns: stolen.map(|span| span.0),
            distribution: histogram.distribution(),
            histogram: histogram.to_list(),
        }
    }

    /// The histogram they are of.
    ///
    /// # Errors
    /// In words, when the figures do not fit each other or there are none.
    pub fn to_histogram(&self) -> Result<Histogram, String> {
        let dist = self.distribution.as_ref().ok_or("it holds no wake-up")?;
        Histogram::from_list(&self.histogram, dist)
    }
}

/// A wake-up that was later than it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencyOutlier {
    /// The instant it was due, nanoseconds TAI.
    pub at_ns: i64,
    /// How late.
    pub late_ns: i64,
}

/// A load beside a measurement, and what it reached.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadReport {
    /// Its name: `cpu`, `memory`, `network`, `mixed` or `idle`.
    pub profile: String,
    /// How long it was watched, seconds.
    pub seconds: f64,
    /// How busy each processor was, by its number, in percent of the time, the measurement included, from `/proc/stat`.
    pub busy_percent: BTreeMap<usize, f64>,
    /// What it did.
    pub work: Vec<LoadWork>,
    /// What differs from what the profile promises, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// What a part of a load did, from its start to its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadWork {
    /// What was counted, with its unit: "bytes copied".
    pub what: String,
    /// How many.
    pub count: u64,
    /// How many a second.
    pub per_second: f64,
}

/// A `delta` for ETF on a host whose latest wake-up was `latest`: half as much again, at least 20 µs more, rounded up
/// to whole 10 µs.
///
/// ETF wakes up `delta` before a frame's launch time; a wake-up later than that loses the frame. The latest of a test
/// is not the latest there can be, hence the margin.
pub fn suggested_etf_delta(latest: Nanos) -> Nanos {
    const STEP: i64 = 10_000;
    let least = latest.0.max(0).saturating_add((latest.0 / 2).max(20_000));
    Nanos(least.saturating_add(STEP - 1) / STEP * STEP)
}

/// Writes the file by way of a temporary one, so that it is whole or not there. Missing folders are made.
///
/// # Errors
/// When the operating system refuses; a full disk is told as such.
pub fn write_latency(path: &Path, latency: &LatencyFile) -> Result<(), ResultsError> {
    let mut json = serde_json::to_vec_pretty(latency).map_err(|error| failed(path, "write", error.into()))?;
    json.push(b'\n');
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|source| failed(folder, "create", source))?;
    }
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    let temporary = Path::new(&name);
    let written = File::create(temporary).and_then(|mut file| file.write_all(&json));
    written.and_then(|()| fs::rename(temporary, path)).map_err(|source| {
        _ = fs::remove_file(temporary);
        failed(path, "write", source)
    })
}

/// Reads the file.
///
/// # Errors
/// It cannot be read, is cut short, of another format, or its figures do not fit each other.
pub fn read_latency(path: &Path) -> Result<LatencyFile, ResultsError> {
    let text = fs::read(path).map_err(|source| ResultsError::Io { path: path.to_owned(), doing: "read", source })?;
    let latency: LatencyFile = of_format(path, &text, LATENCY_FORMAT)?;
    if latency.all.distribution.is_some() {
        latency.all.to_histogram().map_err(|found| ResultsError::Content { path: path.to_owned(), found })?;
    }
    Ok(latency)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> LatencyFile {
        let mut histogram = Histogram::new();
        (1..200).for_each(|us| histogram.record(Nanos(us * 1_000)));
        let figures = LatencyFigures::of(&histogram, 3, None);
        LatencyFile {
            format: LATENCY_FORMAT.into(),
            command: "downbeat latency".into(),
            began_utc_s: 1,
            lasted_ns: 2,
            ended: "loops".into(),
            machine: Machine::new(),
            clock: "monotonic".into(),
            method: Method::Sleep,
            margin_ns: None,
            policy: "fifo".into(),
            priority: Some(80),
            load: Some(LoadReport {
                profile: "cpu".into(),
                seconds: 1.5,
                busy_percent: BTreeMap::from([(0, 99.5), (2, 100.0)]),
                work: vec![LoadWork { what: "bytes copied".into(), count: 3, per_second: 2.0 }],
                notes: Vec::new(),
            }),
            threads: vec![LatencyThread {
                thread: 0,
                cpu: 1,
                interval_ns: 1_000_000,
                granted: vec!["processor 1: granted".into()],
                figures: figures.clone(),
                outliers: 1,
                outlier_above_ns: 100_000,
                first_outliers: vec![LatencyOutlier { at_ns: 5, late_ns: 199_000 }],
                allocations: 0,
            }],
            all: figures,
            limit_ns: None,
            suggested_etf_delta_ns: histogram.max().map(|max| suggested_etf_delta(max).0),
        }
    }

    #[test]
    fn a_file_comes_back_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("some/new/folder/latency.json");
        write_latency(&path, &example()).unwrap();
        assert_eq!(read_latency(&path).unwrap(), example());
        let value: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        assert_eq!(value["threads"][0]["distribution"]["count"], 199, "figures stand flat in a thread");
        assert_eq!(value["threads"][0]["histogram"][1], serde_json::json!([2.0, 1]));
        assert!(value["all"].get("stolen_ns").is_none());
        let left = fs::read_dir(path.parent().unwrap()).unwrap().count();
        assert_eq!(left, 1, "no temporary file stays");
    }

    #[test]
    fn a_damaged_file_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("latency.json");
        let told = |text: &str| {
            fs::write(&path, text).unwrap();
            read_latency(&path).unwrap_err().to_string()
        };
        let good = serde_json::to_string(&example()).unwrap();
        assert!(told("").contains("cut short"));
        assert!(told(&good[..good.len() / 2]).contains("cut short"));
        assert!(told("{}").contains("names no format"));
        assert!(told(&good.replace("latency/1", "latency/2")).contains("downbeat/latency/1"));
        assert!(told(&good.replace("[[1.0,1],", "[[1.0,2],")).contains("counts 200 spans"));
        assert!(told(&good.replace("\"clock\"", "\"clok\"")).contains("clock"));
        let missing = read_latency(&folder.path().join("none.json")).unwrap_err();
        assert!(missing.to_string().contains("none.json"), "{missing}");
    }

    #[test]
    fn the_suggested_delta_leaves_a_margin() {
        for (latest, delta) in [(0, 20_000), (3_000, 30_000), (45_000, 70_000), (100_000, 150_000), (101_000, 160_000)]
        {
            assert_eq!(suggested_etf_delta(Nanos(latest)), Nanos(delta));
        }
        assert!(suggested_etf_delta(Nanos(i64::MAX)).0 > 0);
    }
}
