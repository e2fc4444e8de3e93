//! Contestants of `cargo xtask bench loop`: each answers frames, or plays both ends of the papers' cycle, driven by one
//! and the same [`drive`]. Ours and the hand-written ones are threads, other stacks processes.

mod cycle;
mod downbeat;
#[allow(dead_code, reason = "reading jobs and writing outcomes is for the processes that include it")]
mod drive;
mod echo;
mod local;
mod ping;
mod report;
mod simple;
mod stolen;

pub(super) use report::measure;

use super::interop::Process;
use drive::{BACK, Job, Outcome, Side, THERE};
use local::Local;

/// PublisherId and WriterGroupId of what an end writes and reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ids {
    writes: (u16, u16),
    reads: (u16, u16),
}

impl Ids {
    fn of(side: Side) -> Self {
        match side {
            Side::Source => Self { writes: THERE, reads: BACK },
            Side::Loopback => Self { writes: BACK, reads: THERE },
        }
    }
}

/// Somebody that waits for jobs.
#[derive(Debug)]
enum Contestant {
    Local(Local),
    Process(Process),
}

impl Contestant {
    /// Gives it a job without waiting for the end.
    fn tell(&mut self, job: Job) -> Result<(), String> {
        match self {
            Self::Local(local) => local.tell(job),
            Self::Process(process) => process.tell(&job.line()),
        }
    }

    /// What came out of it.
    fn outcome(&mut self) -> Result<Outcome, String> {
        match self {
            Self::Local(local) => local.outcome(),
            Self::Process(process) => Outcome::parse(&process.answer()?),
        }
    }
}
