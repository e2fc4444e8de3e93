//! What can keep a run from happening, each with its mend.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a run did not happen or did not end well.
#[derive(Debug)]
pub enum LabError {
    /// This machine or this user cannot: exit code 3.
    Host {
        /// What is missing.
        what: String,
        /// How to get it.
        mend: String,
    },
    /// The scenario asks for something a run does not do: exit code 2.
    Scenario {
        /// What.
        what: String,
        /// What to change.
        mend: String,
    },
    /// A network namespace of the name that the run needs exists and is not a leftover of ours.
    NamespaceTaken {
        /// Its name.
        name: String,
        /// The run that owns it, when one does.
        owner: Option<u32>,
    },
    /// A command of the set-up failed.
    Command {
        /// The command line.
        line: String,
        /// What it printed.
        output: String,
    },
    /// A file or system call failed.
    Io {
        /// What was tried.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// A role process could not start its work.
    Role {
        /// The host it plays.
        host: String,
        /// What it said.
        message: String,
    },
    /// The results could not be kept.
    Results {
        /// The run folder.
        folder: PathBuf,
        /// Why.
        source: measure::ResultsError,
    },
    /// Stopped before the first frame.
    Interrupted,
}

impl LabError {
    /// The exit code of `DESIGN`: 2 bad input, 3 the host cannot.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Scenario { .. } | Self::NamespaceTaken { .. } => 2,
            Self::Interrupted => 130,
            _ => 3,
        }
    }

    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}

impl fmt::Display for LabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host { what, mend } | Self::Scenario { what, mend } => write!(f, "{what}\n  mend: {mend}"),
            Self::NamespaceTaken { name, owner: Some(pid) } => write!(
                f,
                "the network namespace {name} belongs to a run that is still going (process {pid})\n  \
                 mend: wait for it or stop it, or give this scenario another `name`"
            ),
            Self::NamespaceTaken { name, owner: None } => write!(
                f,
                "a network namespace {name} exists already and no run of downbeat made it\n  \
                 mend: remove it with `ip netns del {name}`, or give this scenario another `name`"
            ),
            Self::Command { line, output } => {
                write!(
                    f,
                    "`{line}` failed: {}\n  mend: the run undid what it had set up; run it by hand to look closer",
                    output.trim()
                )
            }
            Self::Io { what, source } => write!(f, "{what}: {source}"),
            Self::Role { host, message } => write!(f, "the process of host {host} could not start: {message}"),
            Self::Results { folder, source } => {
                write!(f, "the results could not be written to {}: {source}", folder.display())
            }
            Self::Interrupted => {
                f.write_str("stopped before the first frame; nothing was measured, everything set up is undone")
            }
        }
    }
}

impl std::error::Error for LabError {}
