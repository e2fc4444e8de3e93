//! `downbeat simulate`: the scenario in virtual time.

use std::path::PathBuf;

use clap::Args;
use measure::Kind;
use sim::{HostLatency, Options, simulate};
use units::Nanos;

use crate::output::{self, Failure, Outcome};

/// Arguments of `simulate`.
#[derive(Args)]
#[command(after_help = "Example:\n  downbeat simulate two-hosts.toml --duration 10s --out runs/simulated")]
pub(crate) struct Arguments {
    /// The scenario file
    file: PathBuf,
    /// Length of the run
    #[arg(long, value_name = "SPAN", default_value = "10s", conflicts_with = "cycles")]
    duration: Nanos,
    /// Length of the run in cycles
    #[arg(long, value_name = "N")]
    cycles: Option<u64>,
    /// Seed of everything random: one seed, one result, to the byte
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// How late hosts begin their phases: zero, const:5us, uniform:0us..20us, exp:5us,max=100us
    #[arg(long, value_name = "DISTRIBUTION", default_value = "zero")]
    host_latency: HostLatency,
    /// Folder for run.json, frames.parquet and scenario.toml; nothing is written without it
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print run.json to standard output
    #[arg(long)]
    json: bool,
}

impl Arguments {
    pub(crate) fn execute(self) -> Outcome {
        let scenario = output::read_scenario(&self.file)?;
        let cycles = self.cycles.unwrap_or((self.duration / scenario.cycle).unsigned_abs());
        let options = Options { cycles, seed: self.seed, host_latency: self.host_latency, keep_delays: false };
        let mut outcome = simulate(&scenario, &options).map_err(|error| Failure::input(error.to_string()))?;
        let command = format!(
            "downbeat simulate {} --cycles {cycles} --seed {} --host-latency {}",
            self.file.display(),
            self.seed,
            options.host_latency
        );
        outcome.machine.insert("command".into(), command.into());
        let run = measure::summarise(&scenario, &outcome.observations, Kind::Simulated, outcome.machine);
        if let Some(folder) = &self.out {
            measure::write_run(folder, &scenario, &run, &outcome.observations.rows)
                .map_err(|error| Failure::machine(error.to_string()))?;
        }
        if self.json {
            output::json(&run)?;
        } else {
            output::tell_run(&run);
            if let Some(folder) = &self.out {
                println!("written to {}", folder.display());
            }
        }
        Ok(output::verdict_code(&run))
    }
}
