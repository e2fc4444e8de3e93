//! `downbeat run`: the scenario for real, on this machine.

use std::path::PathBuf;

use clap::Args;
use lab::{Pause, Place, Profile, Rights};
use scenario::Scenario;
use units::Nanos;

use crate::commands::latency;
use crate::commands::playing::{Plan, Playing};
use crate::output::{self, Failure, Outcome};

/// Arguments of `run`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  sudo downbeat run two-hosts.toml --duration 10s --out runs/first
  sudo downbeat run two-hosts.toml --duration 1h --live --metrics 9464   # watch it, on the terminal and with Prometheus
  sudo downbeat run two-hosts.toml --pause loop@3s+40ms     # stop a host and see what the report makes of it")]
pub(crate) struct Arguments {
    /// The scenario file
    file: PathBuf,
    /// Length of the run
    #[arg(long, value_name = "SPAN", default_value = "10s")]
    duration: Nanos,
    /// Length of the run in cycles
    #[arg(long, value_name = "N", conflicts_with = "duration")]
    cycles: Option<u32>,
    /// Stop a host for a while: HOST@WHEN+HOWLONG; may be given several times
    #[arg(long, value_name = "HOST@AT+SPAN")]
    pause: Vec<String>,
    /// Load beside the run: idle, cpu, memory, network, mixed
    #[arg(long, value_name = "PROFILE")]
    load: Option<Profile>,
    #[command(flatten)]
    playing: Playing,
}

impl Arguments {
    pub(crate) fn execute(self) -> Outcome {
        let scenario = output::read_scenario(&self.file)?;
        let duration = self.cycles.map_or(self.duration, |cycles| scenario.cycle * i64::from(cycles));
        if duration < scenario.cycle {
            return Err(Failure::input(format!(
                "a duration of {duration} holds no cycle of {}\n  mend: give a longer --duration, for example 10s",
                scenario.cycle
            )));
        }
        let folder = self.playing.folder(&scenario.name);
        let pauses = self.pause.iter().map(|text| pause(text, &scenario)).collect::<Result<_, _>>()?;
        self.playing.check()?;
        let load = self.load.map(latency::load_options).transpose()?;
        // Before a user namespace of the run's own hides the folder it lies in.
        let control = self.playing.open_control(&scenario.name)?;
        let images = self.playing.open_images(&scenario.name, &scenario, |_, _| true)?;
        let listener = self.playing.listen()?;
        let rights = Rights::take(&folder)?;
        if rights == Rights::OwnUserNamespace {
            eprintln!("note: not root; the run has a user namespace of its own, without real-time priority");
        }
        let place = Place::Laboratory(rights);
        let duration = Some(duration);
        self.playing.play(&scenario, Plan { duration, folder, place, pauses, load, control, images, listener })
    }
}

/// Reads HOST@AT+SPAN.
pub(crate) fn pause(text: &str, scenario: &Scenario) -> Result<Pause, Failure> {
    let wrong = |why: String| {
        Failure::input(format!("--pause {text}: {why}\n  mend: write HOST@WHEN+HOWLONG, for example loop@3s+40ms"))
    };
    let (host, when) = text.split_once('@').ok_or_else(|| wrong("there is no @".into()))?;
    let (at, lasting) = when.split_once('+').ok_or_else(|| wrong("there is no +".into()))?;
    let names = || scenario.hosts.iter().map(|host| host.name.as_str()).collect::<Vec<_>>().join(", ");
    let host = scenario.host_named(host).ok_or_else(|| wrong(format!("no host {host}; there are {}", names())))?;
    let span = |text: &str| text.parse::<Nanos>().map_err(|error| wrong(format!("`{text}` {error}")));
    Ok(Pause { host, at: span(at)?, lasting: span(lasting)? })
}
