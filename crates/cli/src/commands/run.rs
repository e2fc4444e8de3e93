//! `downbeat run`: the scenario for real, on this machine.

use std::path::PathBuf;

use clap::Args;
use lab::{KernelLab, Lateness, Pause, Place, Profile, Rights};
use scenario::{ApplicationKind, HostId, HostKind, Scenario};
use sim::HostLatency;
use units::Nanos;

use crate::commands::playing::{Plan, Playing};
use crate::commands::settings::Settings;
use crate::commands::simulate::named_host;
use crate::commands::{kernel_lab, latency};
use crate::output::{Failure, Outcome};

/// Arguments of `run`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  sudo downbeat run two-hosts.toml --duration 10s --out runs/first
  sudo downbeat run two-hosts.toml --duration 1h --live --metrics 9464   # watch it, on the terminal and with Prometheus
  sudo downbeat run two-hosts.toml --pause loop@3s+40ms     # stop a host and see what the report makes of it
  downbeat run two-hosts.toml --set time.offset=50us        # with another value than the file's
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
    /// How late hosts wake up, in the kernel laboratory, where they would not: zero, const:5us, uniform:0us..20us,
    /// exp:5us,max=100us; HOST=… for one host. May be given several times
    #[arg(long, value_name = "[HOST=]LATENCY", requires = "place")]
    host_latency: Vec<String>,
    /// Seed of what --host-latency draws
    #[arg(long, value_name = "N", default_value_t = 0, requires = "host_latency")]
    seed: u64,
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
        let lateness = Vec::new();
        let plan = Plan { duration, folder, place, pauses, lateness, load, control, images, listener };
        self.playing.play(&scenario, plan)
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
        let lateness = self.lateness(scenario, duration)?;
        if kernel_lab::is_here() {
            let place = Place::KernelLab(lab);
            let duration = Some(duration);
            let (load, control, images, listener) = (None, None, None, None);
            let plan = Plan { duration, folder, place, pauses, lateness, load, control, images, listener };
            return self.playing.play(scenario, plan);
        }
        let mut options = vec!["--duration".to_owned(), format!("{}ns", duration.0)];
        options.extend(self.pause.iter().flat_map(|pause| ["--pause".to_owned(), pause.clone()]));
        options.extend(self.host_latency.iter().flat_map(|text| ["--host-latency".to_owned(), text.clone()]));
        if !self.host_latency.is_empty() {
            options.extend(["--seed".to_owned(), self.seed.to_string()]);
        }
        options.extend(self.playing.options_for_inside());
        kernel_lab::run(scenario, duration, options, &folder, self.playing.wants_json())
    }

    /// What `--host-latency` says of each host that wakes up late.
    fn lateness(&self, scenario: &Scenario, duration: Nanos) -> Result<Vec<Lateness>, Failure> {
        let mut of_hosts = vec![HostLatency::Zero; scenario.hosts.len()];
        for text in &self.host_latency {
            let (host, latency) = named_host(text, scenario)?;
            let latency: HostLatency =
                latency.parse().map_err(|error| Failure::input(format!("--host-latency: {error}")))?;
            match host {
                Some(HostId(host)) => of_hosts[host] = latency,
                None => of_hosts.fill(latency),
            }
        }
        let stations =
            of_hosts.iter().enumerate().map(|(host, latency)| (HostId(host), latency)).filter(|(host, latency)| {
                scenario.host(*host).kind == HostKind::Station && **latency != HostLatency::Zero
            });
        let count = WAKE_UPS_A_CYCLE * (duration / scenario.cycle).unsigned_abs() as usize;
        let lateness = stations.map(|(host, latency)| Lateness {
            host,
            told: format!("{latency}, seed {}", self.seed),
            by: latency.draws(self.seed, &scenario.host(host).name, count.min(MOST_DRAWS)),
        });
        Ok(lateness.collect())
    }
}

/// Phases and launches of a thread.
const WAKE_UPS_A_CYCLE: usize = 4;
/// So many lateness values are drawn at most; then they come again.
const MOST_DRAWS: usize = 1 << 20;

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
