//! `downbeat join`: one run out of what its hosts have measured on machines of their own.

use std::path::PathBuf;

use clap::Args;
use units::Nanos;

use crate::output::{self, Failure, Outcome};

/// Arguments of `join`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  downbeat join runs/pub runs/loop --clock-error 1us --out runs/both     # PTP keeps the clocks within 1 µs
  downbeat join runs/pub runs/loop --clock-error 0us --out runs/both     # both hosts ran on one machine

One-way figures are differences between the clocks of two hosts. How far these are apart no measurement of Downbeat can
know: say what `downbeat ptp report` says of both ends. See docs/roles.md and docs/ptp.md.")]
pub(crate) struct Arguments {
    /// Run folders of `publish`, `loopback` and `subscribe`, one a side
    #[arg(required = true, num_args = 2..)]
    dirs: Vec<PathBuf>,
    /// How far the clocks of the hosts are apart at most
    #[arg(long, value_name = "SPAN")]
    clock_error: Nanos,
    /// The run folder to write
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Print run.json to standard output
    #[arg(long)]
    json: bool,
}

impl Arguments {
    pub(crate) fn execute(self) -> Outcome {
        if self.clock_error < Nanos::ZERO {
            return Err(Failure::input("--clock-error: below zero\n  mend: give how far apart the clocks are, as 1us"));
        }
        if self.out.join("run.json").exists() {
            return Err(Failure::input(format!(
                "{} holds a run already\n  mend: name another folder with --out, or remove it",
                self.out.display()
            )));
        }
        let mut joined =
            measure::join_folders(&self.dirs, self.clock_error).map_err(|error| Failure::input(error.to_string()))?;
        let dirs: Vec<_> = self.dirs.iter().map(|dir| dir.display().to_string()).collect();
        let command = format!(
            "downbeat join {} --clock-error {}ns --out {}",
            dirs.join(" "),
            self.clock_error.0,
            self.out.display()
        );
        joined.run.machine.insert("command".into(), command.into());
        measure::write_run(&self.out, &joined.scenario, &joined.run, &joined.rows)
            .map_err(|error| Failure::machine(error.to_string()))?;
        if self.json {
            output::json(&joined.run)?;
        } else {
            output::tell_run(&joined.run);
            println!("written to {}", self.out.display());
        }
        Ok(output::run_code(&joined.run))
    }
}
