//! `downbeat simulate`: the scenario in virtual time.

use std::path::{Path, PathBuf};

use clap::Args;
use measure::{Kind, Method};
use scenario::{HostId, Scenario};
use sim::{HostLatency, LatencyError, Measured, Options, simulate};
use units::Nanos;

use crate::commands::latency;
use crate::commands::run::pause;
use crate::commands::settings::Settings;
use crate::output::{self, Failure, Outcome};

/// Arguments of `simulate`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  downbeat simulate two-hosts.toml --duration 10s --out runs/simulated
  downbeat simulate two-hosts.toml --host-latency measured                       # as `downbeat latency` stored it
  downbeat simulate two-hosts.toml --host-latency a.json --host-latency loop=b.json")]
pub(crate) struct Arguments {
    /// The scenario file
    file: PathBuf,
    #[command(flatten)]
    settings: Settings,
    /// Length of the run
    #[arg(long, value_name = "SPAN", default_value = "10s", conflicts_with = "cycles")]
    duration: Nanos,
    /// Length of the run in cycles
    #[arg(long, value_name = "N")]
    cycles: Option<u64>,
    /// Seed of everything random: one seed, one result, to the byte
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// How late hosts begin their phases: zero, const:5us, uniform:0us..20us, exp:5us,max=100us, a file of `downbeat
    /// latency`, or `measured` for the one it stored last; HOST=… for one host. May be given several times
    #[arg(long, value_name = "[HOST=]LATENCY")]
    host_latency: Vec<String>,
    /// Stop a host for a while: HOST@WHEN+HOWLONG; may be given several times
    #[arg(long, value_name = "HOST@AT+SPAN")]
    pause: Vec<String>,
    /// Folder for run.json, frames.parquet and scenario.toml; nothing is written without it
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print run.json to standard output
    #[arg(long)]
    json: bool,
}

impl Arguments {
    pub(crate) fn execute(self) -> Outcome {
        let scenario = self.settings.read(&self.file)?;
        let cycles = self.cycles.unwrap_or((self.duration / scenario.cycle).unsigned_abs());
        let pauses = self.pause.iter().map(|text| pause(text, &scenario)).collect::<Result<_, _>>()?;
        let mut options = Options { cycles, seed: self.seed, pauses, ..Options::default() };
        for text in &self.host_latency {
            match host_latency(text, &scenario)? {
                (None, latency) => options.host_latency = latency,
                (Some(host), latency) => options.hosts.push((host, latency)),
            }
        }
        let mut outcome = simulate(&scenario, &options).map_err(|error| Failure::input(error.to_string()))?;
        let mut command = format!("downbeat simulate {} --cycles {cycles} --seed {}", self.file.display(), self.seed);
        let given = self.host_latency.iter().map(String::as_str);
        for latency in given.chain(self.host_latency.is_empty().then_some("zero")) {
            command.push_str(" --host-latency ");
            command.push_str(latency);
        }
        command.extend(self.settings.words());
        for pause in &self.pause {
            command.push_str(" --pause ");
            command.push_str(pause);
        }
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
        Ok(output::run_code(&run))
    }
}

/// Reads [HOST=]LATENCY.
fn host_latency(text: &str, scenario: &Scenario) -> Result<(Option<HostId>, HostLatency), Failure> {
    let (host, latency) = named_host(text, scenario)?;
    Ok((host, one_latency(latency)?))
}

/// The host that [HOST=]LATENCY names, and what is said of it.
pub(crate) fn named_host<'a>(text: &'a str, scenario: &Scenario) -> Result<(Option<HostId>, &'a str), Failure> {
    // A distribution may hold a = too, but never before a colon.
    let Some((name, latency)) = text.split_once('=').filter(|(name, _)| !name.contains([':', '/', '.'])) else {
        return Ok((None, text));
    };
    let names = || scenario.hosts.iter().map(|host| host.name.as_str()).collect::<Vec<_>>().join(", ");
    let host = scenario
        .host_named(name)
        .ok_or_else(|| Failure::input(format!("--host-latency {text}: no host {name}; there are {}", names())))?;
    Ok((Some(host), latency))
}

/// A distribution in words, or a measured one.
fn one_latency(text: &str) -> Result<HostLatency, Failure> {
    if text == "measured" {
        let path = latency::stored()?;
        eprintln!("note: host latency as measured: {}", path.display());
        return read(&path);
    }
    match text.parse() {
        Ok(latency) => Ok(latency),
        Err(LatencyError::Form(_)) if is_file(text) => read(Path::new(text)),
        Err(error) => Err(Failure::input(format!("--host-latency: {error}, or name a file of `downbeat latency`"))),
    }
}

/// Whether it names a file rather than a mistyped distribution.
fn is_file(text: &str) -> bool {
    Path::new(text).exists() || (text.contains(['/', '.']) && !text.contains(':'))
}

fn read(path: &Path) -> Result<HostLatency, Failure> {
    let wrong = |why: String| {
        Failure::input(format!(
            "--host-latency: {why}\n  mend: make one with `downbeat latency --out {}`",
            path.display()
        ))
    };
    let file = measure::read_latency(path).map_err(|error| wrong(error.to_string()))?;
    if file.method != Method::Sleep {
        eprintln!("note: {}: a thread that spins is less late than one that sleeps, as hosts do", path.display());
    }
    let histogram = file.all.to_histogram().map_err(|why| wrong(format!("{}: {why}", path.display())))?;
    let measured = Measured::of(&histogram).ok_or_else(|| wrong(format!("{}: it holds no wake-up", path.display())))?;
    Ok(HostLatency::Measured(measured))
}
