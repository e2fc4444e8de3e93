//! What can keep a script from running, each with its mend.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Why nothing ran in the laboratory, or not to its end. A script that ends with another exit code than 0 is no error.
#[derive(Debug)]
pub enum KernelLabError {
    /// No kernel has been built.
    NotBuilt {
        /// Where it would be.
        folder: PathBuf,
    },
    /// This machine has no place for it, or does not let it run.
    Machine {
        /// What is missing.
        what: String,
        /// How to get it.
        mend: String,
    },
    /// A file or system call failed.
    Io {
        /// What was tried.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// The kernel did not start, or ended by itself before the script did.
    Died {
        /// How it ended, and why if that is known.
        how: String,
        /// The last lines of its console.
        console: String,
    },
    /// The script had not ended in time; it was stopped.
    TooLong {
        /// How long it was given, of real time.
        limit: Duration,
        /// What it had printed, both streams.
        printed: String,
    },
    /// Stopped by the user.
    Interrupted,
}

impl KernelLabError {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}

impl fmt::Display for KernelLabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotBuilt { folder } => write!(
                f,
                "the kernel laboratory is not built: there is none in {}\n  mend: run `make kernel-lab` in the \
                 repository (five minutes, once); DOWNBEAT_KERNEL_LAB names another folder",
                folder.display()
            ),
            Self::Machine { what, mend } => write!(f, "{what}\n  mend: {mend}"),
            Self::Io { what, source } => write!(f, "kernel laboratory: {what}: {source}"),
            Self::Died { how, console } => {
                write!(f, "the laboratory's kernel {how}")?;
                if console.is_empty() {
                    Ok(())
                } else {
                    write!(f, "; its console's last lines:\n{}", console.trim_end())
                }
            }
            Self::TooLong { limit, printed } => {
                write!(
                    f,
                    "what ran in the kernel laboratory had not ended after {} s of real time and was stopped\n  mend: \
                     virtual time stands still while a program neither sleeps nor reads the clock; look for one that spins",
                    limit.as_secs()
                )?;
                if printed.is_empty() { Ok(()) } else { write!(f, "\nit had printed:\n{}", printed.trim_end()) }
            }
            Self::Interrupted => f.write_str("stopped; nothing of it is kept"),
        }
    }
}

impl std::error::Error for KernelLabError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
