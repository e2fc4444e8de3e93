//! Why a plan was not applied or not undone.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::lock::LockError;

/// Why a plan was not applied or not undone.
#[derive(Debug)]
pub enum ApplyError {
    /// Things that could not be made again stand in the way: nothing was changed.
    Foreign(Vec<String>),
    /// A step failed: everything is as before.
    Step {
        /// The command.
        line: String,
        /// What it said.
        why: String,
        /// What kind of failure it was.
        failure: StepFailure,
    },
    /// A step was done and the machine shows something else: everything is as before.
    NotTaken {
        /// The command.
        line: String,
        /// What the machine shows.
        now: String,
    },
    /// A step was not undone; it is in the journal still.
    Undo {
        /// The command.
        line: String,
        /// What it said.
        why: String,
    },
    /// The journal cannot be read or written.
    Journal {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// Nothing was tried.
    Refused(Refused),
}

/// How a step failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepFailure {
    /// This process lacks the right over the network, or over the file.
    NoRight,
    /// The machine refused it.
    Machine,
}

impl StepFailure {
    pub(super) fn of(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::PermissionDenied => Self::NoRight,
            _ => Self::Machine,
        }
    }
}

/// Why nothing was tried.
#[derive(Debug)]
pub enum Refused {
    /// Another process changes the machine, or this one may not.
    Lock(LockError),
    /// A program that the plan calls is not there.
    Missing {
        /// What is typed.
        program: &'static str,
        /// The package that has it.
        package: &'static str,
    },
    /// A `tc` whose words cannot be read.
    NoJson {
        /// What it says of its version.
        version: String,
    },
    /// What the kernel tells of its interfaces cannot be heard.
    Deaf(io::Error),
}

impl fmt::Display for ApplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign(found) => {
                f.write_str("something else is in the way that could not be put back; nothing was changed:")?;
                found.iter().try_for_each(|line| write!(f, "\n  {line}"))
            }
            Self::Step { line, why, .. } => write!(f, "`{line}` failed, everything is as before: {why}"),
            Self::NotTaken { line, now } => {
                write!(f, "`{line}` was taken, and yet the machine shows otherwise; everything is as before: {now}")
            }
            Self::Undo { line, why } => write!(f, "`{line}` did not undo what was applied: {why}"),
            Self::Journal { path, error } => write!(f, "the journal {}: {error}", path.display()),
            Self::Refused(why) => why.fmt(f),
        }
    }
}

impl std::error::Error for ApplyError {}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lock(error) => error.fmt(f),
            Self::Missing { program, package } => {
                write!(f, "{program} is missing, which the plan calls; nothing was changed: install {package}")
            }
            Self::NoJson { version } => write!(
                f,
                "{version} does not tell what is there as JSON (`tc -j qdisc show`), so that nothing could be read back; \
                 nothing was changed: install iproute2 of 2018 (4.16) or later"
            ),
            Self::Deaf(error) => {
                write!(f, "what the kernel tells of its interfaces (rtnetlink) cannot be heard: {error}")
            }
        }
    }
}

impl From<Refused> for ApplyError {
    fn from(why: Refused) -> Self {
        Self::Refused(why)
    }
}

impl From<LockError> for ApplyError {
    fn from(error: LockError) -> Self {
        Self::Refused(Refused::Lock(error))
    }
}
