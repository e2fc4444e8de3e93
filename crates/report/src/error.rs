//! Why no page could be made.

use std::fmt;
use std::path::PathBuf;

/// Why run folders gave no page.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReportError {
    /// No folder was named.
    NoRuns,
    /// A folder could not be read as a run.
    Run {
        /// The folder.
        dir: PathBuf,
        /// What was wrong with it.
        why: measure::ResultsError,
    },
    /// The scenario in a folder is not one this version reads.
    Scenario {
        /// The folder.
        dir: PathBuf,
        /// What was wrong, with its place in the file.
        why: String,
    },
}

impl fmt::Display for ReportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRuns => f.write_str("no run folder was named; name one or more folders that contain a run.json"),
            Self::Run { dir, why } => write!(f, "{}: {why}", dir.display()),
            Self::Scenario { dir, why } => write!(
                f,
                "{}: the scenario of this run is not readable: {why}; it may have been written by another version",
                dir.join("scenario.toml").display()
            ),
        }
    }
}

impl std::error::Error for ReportError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Run { why, .. } => Some(why),
            Self::NoRuns | Self::Scenario { .. } => None,
        }
    }
}
