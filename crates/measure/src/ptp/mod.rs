//! The form of a watch over clock synchronisation: `ptp.json`, format "downbeat/ptp/1".
//!
//! Keys may be added, never renamed. What was not measured is left out; it is never 0. Offsets are those of the host's
//! clock to its grandmaster, with their sign, in nanoseconds.

mod course;
mod rows;
mod tally;

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use units::Nanos;

use crate::Machine;
use crate::store::{ResultsError, failed, of_format, write_file};
pub use course::{Course, Slot};
pub use rows::{PtpRow, PtpRows, write_ptp_rows};
pub use tally::{Tally, class_width};

/// The format that the file names.
pub const PTP_FORMAT: &str = "downbeat/ptp/1";
/// Its name in its folder.
pub const PTP_FILE: &str = "ptp.json";

/// `ptp.json`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PtpFile {
    /// [`PTP_FORMAT`].
    pub format: String,
    /// The command line.
    pub command: String,
    /// When it began, seconds since 1970-01-01 UTC.
    pub began_utc_s: i64,
    /// How long it watched.
    pub lasted_ns: i64,
    /// Why it ended: `duration`, `interrupted` or, in words, which program ended.
    pub ended: String,
    /// On what, with the keys of `run.json`.
    pub machine: Machine,
    /// The host of the scenario that was played; absent where a running ptp4l was watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The scenario's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scenario: Option<String>,
    /// domainNumber.
    pub domain: u8,
    /// The stamps that the offsets rest on: `hardware`, `software`, `legacy hardware`, `one-step`, `one-step
    /// peer-to-peer`; `unknown` where ptp4l told nothing, `mixed` where ports differ or it changed.
    pub stamps: String,
    /// Whether ptp4l only looked and steered no clock; absent where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_running: Option<bool>,
    /// clockIdentity of the host, as ptp4l writes it: `b2c457.fffe.415642`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<String>,
    /// The grandmaster at the end; the host's own clock where it is grandmaster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grandmaster: Option<String>,
    /// The ports at the end.
    pub ports: Vec<PtpPort>,
    /// How long it took until the clock was kept; absent parts did not happen while somebody watched.
    pub convergence: Convergence,
    /// Offsets from the first lock of the servo on, everything behind it included; absent without a lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<Figures>,
    /// All offsets, those before the lock included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset_all: Option<Figures>,
    /// Root mean square of eight offsets in a row each, as seed 003 samples them; of what `offset` is of, else of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset_rms8: Option<Figures>,
    /// Mean path delay to the master, or to the neighbour where the delay is measured from peer to peer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_delay: Option<Figures>,
    /// What phc2sys told of each clock that it keeps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub system: Vec<SystemClockFigures>,
    /// What can be said of this end's clock error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_error: Option<ClockError>,
    /// Why there is no `clock_error`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_error_unknown: Option<String>,
    /// What happened, in its order.
    pub events: Vec<PtpEvent>,
    /// Events beyond those.
    pub events_left_out: u64,
    /// Offsets over time, from the beginning of the watch.
    pub offset_course: Course,
    /// Path delays over time.
    pub path_delay_course: Course,
    /// Folder's files with all samples.
    pub rows: PtpRows,
    /// What differs from what was asked for, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A port of ptp4l.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PtpPort {
    /// portNumber, from 1.
    pub number: u16,
    /// Its interface, where ptp4l told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// State in the words of IEEE 1588: `SLAVE`, `MASTER`, …
    pub state: String,
    /// Its stamps, in the words of [`PtpFile::stamps`].
    pub stamps: String,
}

/// How long it took until the clock was kept.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Convergence {
    /// From when the spans count: `ptp4l started`, or `watching began`.
    pub from: String,
    /// Until the best master was selected (IEEE 1588 BMCA).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best_master_ns: Option<i64>,
    /// From there until the servo locked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub servo_lock_ns: Option<i64>,
    /// Offsets in the beginning, one by one: nanoseconds since `from`, offset.
    pub first_offsets: Vec<(i64, i64)>,
}

/// A distribution in classes of 10 ns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// How many.
    pub count: u64,
    /// Least.
    pub min_ns: i64,
    /// Mean.
    pub mean_ns: f64,
    /// Root mean square.
    pub rms_ns: f64,
    /// Greatest.
    pub max_ns: i64,
    /// Classes that hold anything, ascending: the least value in it and the count. They are 10 ns wide up to 10.24 µs
    /// on both sides of 0, and 1/512 of a power of two beyond: [`class_width`].
    pub classes: Vec<(i64, u64)>,
}

impl Figures {
    /// The greatest distance from 0.
    pub fn max_abs(&self) -> i64 {
        self.max_ns.saturating_abs().max(self.min_ns.saturating_abs())
    }
}

/// A clock that phc2sys keeps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SystemClockFigures {
    /// Its name: `CLOCK_REALTIME`, or an interface.
    pub clock: String,
    /// Offsets to its source from its servo's lock on; absent without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<Figures>,
    /// How long a reading of the source took; its error is at most as much.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_delay: Option<Figures>,
    /// Offsets over time.
    pub course: Course,
}

/// What can be said of a clock's error against the grandmaster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClockError {
    /// ε = `offset_ns` + `system_ns` + `read_ns`.
    pub epsilon_ns: i64,
    /// Greatest distance between this clock and its grandmaster that was seen; 0 at the grandmaster itself.
    pub offset_ns: i64,
    /// Greatest distance between the system clock and the clock of the NIC; 0 where they are the same.
    pub system_ns: i64,
    /// Longest reading of the NIC's clock.
    pub read_ns: i64,
    /// Samples it rests on.
    pub samples: u64,
    /// Over which time.
    pub lasted_ns: i64,
    /// Their stamps.
    pub stamps: String,
}

impl ClockError {
    /// `clock error ε = 37ns from 80000 samples over 79200.0 s, hardware stamps`.
    pub fn words(&self) -> String {
        format!(
            "clock error ε = {} from {} samples over {:.1} s, {} stamps",
            Nanos(self.epsilon_ns),
            self.samples,
            self.lasted_ns as f64 / 1e9,
            self.stamps
        )
    }
}

/// How far any two of the hosts' clocks were apart at most: the two largest errors added, since both are against the same
/// grandmaster; of one host its error against the grandmaster. None where an error is unknown, grandmasters differ, or
/// there is no host.
pub fn clock_error_of_ends<'a>(ends: impl IntoIterator<Item = &'a PtpFile>) -> Option<i64> {
    let (mut errors, mut grandmasters) = (Vec::new(), Vec::new());
    for end in ends {
        errors.push(end.clock_error.as_ref()?.epsilon_ns);
        grandmasters.push(&end.grandmaster);
    }
    grandmasters.dedup();
    errors.sort_unstable_by_key(|error| std::cmp::Reverse(*error));
    (grandmasters.len() == 1).then(|| errors.iter().take(2).fold(0, |sum: i64, error| sum.saturating_add(*error)))
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PtpEvent {
    /// Nanoseconds since the watch began; below zero never.
    pub at_ns: i64,
    /// `port_state`, `grandmaster`, `locked`, `unlocked`, `step`, `silent`, `back`, `fault`.
    pub kind: String,
    /// In words.
    pub text: String,
}

/// Writes `ptp.json` into a folder, by way of a temporary file.
///
/// # Errors
/// When the operating system refuses; a full disk is told as such.
pub fn write_ptp(dir: &Path, ptp: &PtpFile) -> Result<(), ResultsError> {
    fs::create_dir_all(dir).map_err(|source| failed(dir, "create", source))?;
    let path = dir.join(PTP_FILE);
    let mut json = serde_json::to_vec_pretty(ptp).map_err(|error| failed(&path, "write", error.into()))?;
    json.push(b'\n');
    write_file(dir, PTP_FILE, |mut file| std::io::Write::write_all(&mut file, &json))
}

/// Reads `ptp.json` of a folder.
///
/// # Errors
/// It cannot be read, is cut short, or of another format.
pub fn read_ptp(dir: &Path) -> Result<PtpFile, ResultsError> {
    let path = dir.join(PTP_FILE);
    let text = fs::read(&path).map_err(|source| ResultsError::Io { path: path.clone(), doing: "read", source })?;
    of_format(&path, &text, PTP_FORMAT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_one_grandmaster_are_apart_by_both_errors() {
        let end = |epsilon_ns: Option<i64>, grandmaster: &str| PtpFile {
            clock_error: epsilon_ns.map(|epsilon_ns| ClockError {
                epsilon_ns,
                offset_ns: epsilon_ns,
                system_ns: 0,
                read_ns: 0,
                samples: 1,
                lasted_ns: 1,
                stamps: "hardware".into(),
            }),
            grandmaster: Some(grandmaster.into()),
            ..PtpFile::default()
        };
        let (one, two, three) = (end(Some(5), "a"), end(Some(20), "a"), end(Some(7), "a"));
        assert_eq!(clock_error_of_ends([&one, &two, &three]), Some(27));
        assert_eq!(clock_error_of_ends([&two]), Some(20));
        assert_eq!(clock_error_of_ends([&one, &end(None, "a")]), None);
        assert_eq!(clock_error_of_ends([&one, &end(Some(1), "b")]), None);
        assert_eq!(clock_error_of_ends([]), None);
    }

    #[test]
    fn a_file_is_read_as_it_was_written_and_others_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let mut tally = Tally::default();
        [-5, 12, 30].into_iter().for_each(|ns| tally.record(ns));
        let file = PtpFile { format: PTP_FORMAT.into(), offset: tally.figures(), ..PtpFile::default() };
        write_ptp(dir.path(), &file).unwrap();
        assert_eq!(read_ptp(dir.path()).unwrap(), file);
        assert!(!fs::read_to_string(dir.path().join(PTP_FILE)).unwrap().contains("null"));
        for (text, word) in
            [("{\"format\":\"downbeat/run/1\"}", "downbeat/ptp/1"), ("{", "cut short"), ("{}", "no format")]
        {
            fs::write(dir.path().join(PTP_FILE), text).unwrap();
            assert!(read_ptp(dir.path()).unwrap_err().to_string().contains(word), "{text}");
        }
        fs::write(dir.path().join(PTP_FILE), "{\"format\":\"downbeat/ptp/1\"}").unwrap();
        assert!(matches!(read_ptp(dir.path()), Err(ResultsError::Content { .. })));
    }
}
