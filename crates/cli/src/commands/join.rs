//! `downbeat join`: one run out of what its hosts have measured on machines of their own.

use std::path::PathBuf;

use clap::Args;
use measure::{JoinClocks, JoinError, MOST_MESSAGES, ResultsError};
use units::Nanos;

use crate::output::{self, Failure, Outcome};

/// Arguments of `join`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  downbeat join runs/pub runs/loop --clock-error 1us --out runs/both     # PTP keeps the clocks within 1 µs
  downbeat join runs/pub runs/loop --clock runs/pub-clock --clock runs/loop-clock --out runs/both   # as it was watched
  downbeat join runs/pub runs/loop --clock-error 0us --out runs/both     # both hosts ran on one machine

One-way figures are differences between the clocks of two hosts. How far these are apart no measurement of Downbeat can
know: say it, or name what `downbeat ptp` has watched meanwhile. Of a role that was killed the parts that it had finished are
joined. See docs/roles.md and docs/ptp.md.")]
pub(crate) struct Arguments {
    /// Run folders of `publish`, `loopback` and `subscribe`, one a side
    #[arg(required = true, num_args = 2..)]
    dirs: Vec<PathBuf>,
    /// How far the clocks of the hosts are apart at most
    #[arg(long, value_name = "SPAN", required_unless_present = "clock", conflicts_with = "clock")]
    clock_error: Option<Nanos>,
    /// Folder of `downbeat ptp run` or `downbeat ptp watch` that says so, of one host; may be given several times
    #[arg(long, value_name = "DIR")]
    clock: Vec<PathBuf>,
    /// The run folder to write
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Print run.json to standard output
    #[arg(long)]
    json: bool,
}

/// What cannot be written is the machine's, all else the input's.
fn failure(error: JoinError) -> Failure {
    let text = error.to_string();
    match error {
        JoinError::Results(ResultsError::DiskFull { .. } | ResultsError::Io { doing: "write" | "create", .. }) => {
            Failure::machine(text)
        }
        _ => Failure::input(text),
    }
}

impl Arguments {
    pub(crate) fn execute(self) -> Outcome {
        if self.out.join("run.json").exists() {
            return Err(Failure::input(format!(
                "{} holds a run already\n  mend: name another folder with --out, or remove it",
                self.out.display()
            )));
        }
        let clocks = self.clock_error.map_or_else(|| JoinClocks::Watched(self.clock.clone()), JoinClocks::Given);
        let dirs: Vec<_> = self.dirs.iter().map(|dir| dir.display().to_string()).collect();
        let named: String = self.clock.iter().map(|dir| format!(" --clock {}", dir.display())).collect();
        let error = self.clock_error.map_or_else(String::new, |error| format!(" --clock-error {}ns", error.0));
        let command = format!("downbeat join {}{error}{named} --out {}", dirs.join(" "), self.out.display());
        let run = measure::join_into(&self.dirs, clocks, (&self.out, &command), MOST_MESSAGES).map_err(failure)?;
        if self.json {
            output::json(&run)?;
        } else {
            output::tell_run(&run);
            println!("written to {}", self.out.display());
        }
        Ok(output::run_code(&run))
    }
}
