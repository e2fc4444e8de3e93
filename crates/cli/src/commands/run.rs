//! `downbeat run`: the scenario for real, on this machine.

use std::path::PathBuf;

use clap::Args;
use lab::{KernelLab, Pause, Place, Profile, Rights};
use scenario::{ApplicationKind, Scenario};
use units::Nanos;

use crate::commands::playing::{Plan, Playing};
use crate::commands::settings::Settings;
use crate::commands::{kernel_lab, latency};
use crate::output::{Failure, Outcome};

/// Arguments of `run`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  sudo downbeat run two-hosts.toml --duration 10s --out runs/first
  sudo downbeat run two-hosts.toml --duration 1h --live --metrics 9464   # watch it, on the terminal and with Prometheus
  sudo downbeat run two-hosts.toml --pause loop@3s+40ms     # stop a host and see what the report makes of it
  downbeat run two-hosts.toml --in kernel-lab --duration 2s # in virtual time, the same bytes each time; needs no root")]
pub(crate) struct Arguments {
    /// The scenario file
    file: PathBuf,
    #[command(flatten)]
    settings: Settings,
    /// Length of the run
    #[arg(long, value_name = "SPAN", default_value = "10s")]
    duration: Nanos,
    /// Length of the run in cycles
    #[arg(long, value_name = "N", conflicts_with = "duration")]
    cycles: Option<u32>,
    /// Stop a host for a while: HOST@WHEN+HOWLONG; may be given several times
    #[arg(long, value_name = "HOST@AT+SPAN")]
    pause: Vec<String>,
    /// Where: kernel-lab is a Linux kernel of its own in virtual time, with links that have a rate (`make kernel-lab`)
    /// [default: network namespaces of this machine]
    #[arg(long = "in", value_name = "PLACE", value_parser = ["kernel-lab"])]
    place: Option<String>,
    /// Load beside the run: idle, cpu, memory, network, mixed
    #[arg(long, value_name = "PROFILE")]
    load: Option<Profile>,
    #[command(flatten)]
    playing: Playing,
}

impl Arguments {
    pub(crate) fn execute(self) -> Outcome {
        let scenario = self.settings.read(&self.file)?;
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
        if self.place.is_some() {
            return self.in_kernel_lab(&scenario, duration, folder, pauses);
        }
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

    /// The only other place there is.
    fn in_kernel_lab(&self, scenario: &Scenario, duration: Nanos, folder: PathBuf, pauses: Vec<Pause>) -> Outcome {
        self.playing.check_virtual_time()?;
        if self.load.is_some() {
            return Err(Failure::input(
                "--load with --in kernel-lab: computing takes no time there, so a load changes nothing\n  mend: leave it out",
            ));
        }
        if let Some(stream) =
            scenario.streams.iter().find(|stream| stream.applications.contains(&ApplicationKind::Image))
        {
            return Err(Failure::input(format!(
                "stream {} has `application = \"image\"`, and no application outside reaches into the kernel laboratory\n  \
                 mend: leave it out for a run there",
                stream.name
            )));
        }
        let lab = KernelLab::of(scenario)?;
        if kernel_lab::is_here() {
            let place = Place::KernelLab(lab);
            let duration = Some(duration);
            let images = None;
            let plan = Plan { duration, folder, place, pauses, load: None, control: None, images, listener: None };
            return self.playing.play(scenario, plan);
        }
        let mut options = vec!["--duration".to_owned(), format!("{}ns", duration.0)];
        options.extend(self.pause.iter().flat_map(|pause| ["--pause".to_owned(), pause.clone()]));
        options.extend(self.playing.options_for_inside());
        kernel_lab::run(scenario, duration, options, &folder, self.playing.wants_json())
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
