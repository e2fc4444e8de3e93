//! Run folders: `run.json`, `frames.parquet` and `scenario.toml`.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use scenario::Scenario;
use serde::de::DeserializeOwned;

use crate::frames_file::{self, FRAMES_FORMAT, FramesError};
use crate::{FrameRow, RUN_FORMAT, RunFile};

pub(crate) const RUN: &str = "run.json";
const FRAMES: &str = "frames.parquet";
const SCENARIO: &str = "scenario.toml";
/// The file of a role's folder with what its ends know beside their messages.
pub const ENDS_FILE: &str = "ends.parquet";

/// Why a run folder could not be written or read.
#[derive(Debug)]
pub enum ResultsError {
    /// The disk is full.
    DiskFull {
        /// What was being written.
        path: PathBuf,
    },
    /// The operating system refused.
    Io {
        /// Where.
        path: PathBuf,
        /// "write", "read" or "create".
        doing: &'static str,
        /// What it said.
        source: io::Error,
    },
    /// A file of the folder is not there.
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// `frames.parquet` or `run.json` is not whole: cut short or damaged.
    Broken {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
        /// What the reader found.
        found: String,
    },
    /// A file is of another format, or of a newer one.
    Format {
        /// The file.
        path: PathBuf,
        /// What it names; `None` when it names nothing.
        found: Option<String>,
        /// What is read here.
        expected: &'static str,
    },
    /// A file is whole but does not hold what its format says.
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        found: String,
    },
}

impl fmt::Display for ResultsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DiskFull { path } => write!(
                f,
                "{}: the disk is full; the run is not saved. Free some space or choose another folder, then run again",
                path.display()
            ),
            Self::Io { path, doing, source } => write!(f, "{}: cannot {doing}: {source}", path.display()),
            Self::Missing { path } => write!(
                f,
                "{}: not found; a run folder holds {RUN}, {FRAMES} and {SCENARIO}. {RUN} is written last: without it \
                 the run did not end",
                path.display()
            ),
            Self::Broken { path, bytes, found } => write!(
                f,
                "{}: cut short or damaged ({bytes} bytes: {found}); copy the run folder again, or run again",
                path.display()
            ),
            Self::Format { path, found, expected } => {
                let found = found.as_deref().map_or("no format".to_owned(), |found| format!("format \"{found}\""));
                write!(
                    f,
                    "{}: names {found}, expected \"{expected}\"; read it with the version of Downbeat that wrote it",
                    path.display()
                )
            }
            Self::Content { path, found } => {
                write!(f, "{}: {found}; it does not belong to this run, or was changed", path.display())
            }
        }
    }
}

impl std::error::Error for ResultsError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// The folder of a run: `runs/<name>-<YYYYMMDD-HHMMSS>`, for a start given in seconds since 1970-01-01 UTC.
pub fn run_folder(name: &str, utc_seconds: i64) -> PathBuf {
    let ([year, month, day], [hour, minute, second]) = date_and_time(utc_seconds);
    Path::new("runs").join(format!("{name}-{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}"))
}

/// An instant in words, `2023-11-14T22:13:20.123456Z`, from nanoseconds since 1970-01-01 UTC; less than a microsecond is
/// cut off.
pub fn utc_text(utc_ns: i64) -> String {
    let (seconds, micros) = (utc_ns.div_euclid(1_000_000_000), utc_ns.rem_euclid(1_000_000_000) / 1_000);
    let ([year, month, day], [hour, minute, second]) = date_and_time(seconds);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
}

/// Year, month, day; hour, minute, second.
fn date_and_time(utc_seconds: i64) -> ([i64; 3], [i64; 3]) {
    let (days, seconds) = (utc_seconds.div_euclid(86_400), utc_seconds.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    ([year, month, day], [seconds / 3_600, seconds / 60 % 60, seconds % 60])
}

/// Year, month and day of the Gregorian calendar, from days since 1970-01-01.
///
/// Counts in eras of 400 years that begin on a 1 March, so that leap days come last in their year.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (400 * era + year_of_era + i64::from(month <= 2), month, day)
}

/// Writes a run folder, creating it where needed.
///
/// Every file goes to a temporary name first, `run.json` last: a folder with `run.json` is whole.
///
/// # Errors
/// When the operating system refuses; a full disk is told as such. Temporary files are removed then.
pub fn write_run(dir: &Path, scenario: &Scenario, run: &RunFile, rows: &[FrameRow]) -> Result<(), ResultsError> {
    fs::create_dir_all(dir).map_err(|source| failed(dir, "create", source))?;
    let names: Vec<_> = run.streams.iter().map(|stream| stream.name.as_str()).collect();
    let mut json = serde_json::to_vec_pretty(run).map_err(|error| failed(&dir.join(RUN), "write", error.into()))?;
    json.push(b'\n');
    // A run written over an older one is not whole in between.
    match fs::remove_file(dir.join(RUN)) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => return Err(failed(&dir.join(RUN), "write", source)),
        _ => {}
    }
    write_file(dir, SCENARIO, |mut file| io::Write::write_all(&mut file, scenario.source.as_bytes()))?;
    write_file(dir, FRAMES, |file| frames_file::write(file, &names, rows))?;
    write_file(dir, RUN, |mut file| io::Write::write_all(&mut file, &json))
}

/// Writes the whole of a run whose parts lie in folders inside `dir`: `scenario.toml` and `run.json`, no rows.
///
/// # Errors
/// As for [`write_run`].
pub fn write_whole(dir: &Path, scenario: &Scenario, run: &RunFile) -> Result<(), ResultsError> {
    let mut json = serde_json::to_vec_pretty(run).map_err(|error| failed(&dir.join(RUN), "write", error.into()))?;
    json.push(b'\n');
    write_file(dir, SCENARIO, |mut file| io::Write::write_all(&mut file, scenario.source.as_bytes()))?;
    write_file(dir, RUN, |mut file| io::Write::write_all(&mut file, &json))
}

/// The folders that hold the rows of a run: its parts where it was rotated, else its own.
///
/// # Errors
/// Its `run.json` is missing, cut short or of another format.
pub fn part_folders(dir: &Path) -> Result<Vec<PathBuf>, ResultsError> {
    let run = read_run_file(&dir.join(RUN))?;
    if run.parts.is_empty() {
        return Ok(vec![dir.to_owned()]);
    }
    Ok(run.parts.iter().map(|part| dir.join(&part.folder)).collect())
}

pub(crate) fn write_file(
    dir: &Path,
    name: &str,
    write: impl FnOnce(&File) -> io::Result<()>,
) -> Result<(), ResultsError> {
    let (path, temporary) = (dir.join(name), dir.join(format!("{name}.part")));
    let written = File::create(&temporary).and_then(|file| write(&file)).and_then(|()| fs::rename(&temporary, &path));
    written.map_err(|source| {
        let _ = fs::remove_file(&temporary);
        failed(&path, "write", source)
    })
}

pub(crate) fn failed(path: &Path, doing: &'static str, source: io::Error) -> ResultsError {
    let path = path.to_owned();
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ResultsError::DiskFull { path },
        io::ErrorKind::NotFound if doing == "read" => ResultsError::Missing { path },
        _ => ResultsError::Io { path, doing, source },
    }
}

/// Reads a run folder: `run.json`, the rows, and the text of the scenario.
///
/// # Errors
/// When a file is missing, cut short, of another format, or does not fit the others.
pub fn read_run(dir: &Path) -> Result<(RunFile, Vec<FrameRow>, String), ResultsError> {
    let run = read_run_file(&dir.join(RUN))?;
    let scenario = read_scenario_text(dir, &run)?;
    let path = dir.join(FRAMES);
    let file = File::open(&path).map_err(|source| failed(&path, "read", source))?;
    let bytes = file.metadata().map_err(|source| failed(&path, "read", source))?.len();
    let names: Vec<_> = run.streams.iter().map(|stream| stream.name.as_str()).collect();
    let rows = frames_file::read(file, &names).map_err(|error| broken_table(&path, bytes, error, FRAMES_FORMAT))?;
    Ok((run, rows, scenario))
}

/// What is wrong with a table of so many bytes.
pub(crate) fn broken_table(path: &Path, bytes: u64, error: FramesError, expected: &'static str) -> ResultsError {
    let path = path.to_owned();
    match error {
        FramesError::Io(source) => failed(&path, "read", source),
        FramesError::Broken(found) => ResultsError::Broken { path, bytes, found },
        FramesError::Format(found) => ResultsError::Format { path, found, expected },
        FramesError::Column(found) => ResultsError::Content { path, found },
        FramesError::Stream(name) => {
            ResultsError::Content { path, found: format!("it has a stream \"{name}\", {RUN} has not") }
        }
    }
}

/// The text of a folder's scenario.
pub(crate) fn read_scenario_text(dir: &Path, run: &RunFile) -> Result<String, ResultsError> {
    let path = dir.join(SCENARIO);
    let scenario = fs::read_to_string(&path).map_err(|source| failed(&path, "read", source))?;
    if crate::fingerprint(&scenario) != run.scenario.sha256 {
        return Err(ResultsError::Content { path, found: format!("its SHA-256 is not the one in {RUN}") });
    }
    Ok(scenario)
}

/// Reads `run.json` at this path, also that of a whole whose rows are in [parts](part_folders).
///
/// # Errors
/// It is missing, cut short or of another format.
pub fn read_run_file(path: &Path) -> Result<RunFile, ResultsError> {
    let text = fs::read(path).map_err(|source| failed(path, "read", source))?;
    of_format(path, &text, RUN_FORMAT)
}

/// What a file of ours with this `format` says.
pub(crate) fn of_format<T: DeserializeOwned>(
    path: &Path,
    text: &[u8],
    expected: &'static str,
) -> Result<T, ResultsError> {
    let path = path.to_owned();
    let value: serde_json::Value = match serde_json::from_slice(text) {
        Ok(value) => value,
        Err(error) => {
            return Err(ResultsError::Broken { path, bytes: text.len() as u64, found: error.to_string() });
        }
    };
    let format = value.get("format").and_then(|format| format.as_str()).map(str::to_owned);
    if format.as_deref() != Some(expected) {
        return Err(ResultsError::Format { path, found: format, expected });
    }
    serde_json::from_value(value).map_err(|error| ResultsError::Content { path, found: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_told_in_words() {
        assert_eq!(utc_text(0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(utc_text(-1), "1969-12-31T23:59:59.999999Z");
        assert_eq!(utc_text(1_700_000_000_123_456_789), "2023-11-14T22:13:20.123456Z");
        assert_eq!(utc_text(1_709_164_800_000_000_000), "2024-02-29T00:00:00.000000Z");
    }

    #[test]
    fn folders_are_named_by_their_start() {
        for (seconds, name) in [
            (0, "runs/a-19700101-000000"),
            (951_782_399, "runs/a-20000228-235959"),
            (951_782_400, "runs/a-20000229-000000"),
            (1_798_761_599, "runs/a-20261231-235959"),
            (-1, "runs/a-19691231-235959"),
        ] {
            assert_eq!(run_folder("a", seconds), Path::new(name));
        }
    }
}
