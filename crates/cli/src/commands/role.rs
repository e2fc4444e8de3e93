//! `downbeat publish`, `loopback` and `subscribe`: one host of a scenario on this machine.

use std::path::PathBuf;

use clap::Args;
use lab::{Part, Place, Role};
use units::Nanos;

use crate::commands::playing::{Plan, Playing};
use crate::commands::settings::Settings;
use crate::output::{Failure, Outcome};

/// Examples of `publish`.
pub(crate) const PUBLISH_HELP: &str = "\
Examples:
  sudo downbeat publish two-hosts.toml --interface eth1                   # until Ctrl-C
  sudo downbeat publish two-hosts.toml --interface loop=eth1 --duration 12h --out runs/pub

The other hosts play on their machines, from the same scenario file. Nothing of this machine is changed, but for what a
network card stamps (set back at the end: docs/stamps.md); clocks are compared only as well as PTP keeps them together.
See docs/roles.md.";

/// Examples of `loopback`.
pub(crate) const LOOPBACK_HELP: &str = "\
Examples:
  sudo downbeat loopback two-hosts.toml --interface eth1                  # until Ctrl-C
  sudo downbeat loopback two-hosts.toml --host loop --cycles 10000 --out runs/loop

The other hosts play on their machines, from the same scenario file. Nothing of this machine is changed, but for what a
network card stamps (set back at the end: docs/stamps.md); clocks are compared only as well as PTP keeps them together.
See docs/roles.md.";

/// Examples of `subscribe`.
pub(crate) const SUBSCRIBE_HELP: &str = "\
Examples:
  sudo downbeat subscribe two-hosts.toml --interface eth1                 # until Ctrl-C
  sudo downbeat subscribe two-hosts.toml --host loop --duration 1h --out runs/loop

The other hosts play on their machines, from the same scenario file. Nothing of this machine is changed, but for what a
network card stamps (set back at the end: docs/stamps.md); clocks are compared only as well as PTP keeps them together.
See docs/roles.md.";

/// What the three commands are told.
#[derive(Args)]
pub(crate) struct RoleArguments {
    /// The scenario file, the same on every machine
    file: PathBuf,
    #[command(flatten)]
    settings: Settings,
    /// The host to play; may be left out when only one host of the scenario has such ends
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Network interface of its port, or of the port towards a neighbour; may be given several times [default: the
    /// scenario's `interface`]
    #[arg(long, value_name = "[PEER=]IFACE")]
    interface: Vec<String>,
    /// End after so long [default: until Ctrl-C]
    #[arg(long, value_name = "SPAN")]
    duration: Option<Nanos>,
    /// End after so many cycles
    #[arg(long, value_name = "N", conflicts_with = "duration")]
    cycles: Option<u32>,
    #[command(flatten)]
    playing: Playing,
}

impl RoleArguments {
    pub(crate) fn execute(self, part: Part) -> Outcome {
        let scenario = self.settings.read(&self.file)?;
        let duration = self.cycles.map(|cycles| scenario.cycle * i64::from(cycles)).or(self.duration);
        if let Some(duration) = duration.filter(|duration| *duration < scenario.cycle) {
            return Err(Failure::input(format!(
                "a duration of {duration} holds no cycle of {}\n  mend: give a longer --duration, for example 10s, or \
                 none: the role then goes on until Ctrl-C",
                scenario.cycle
            )));
        }
        let role = Role::choose(&scenario, part, self.host.as_deref(), &self.interface)?;
        self.playing.check()?;
        let name = role.name(&scenario);
        let (folder, control) = (self.playing.folder(&name), self.playing.open_control(&name)?);
        let images = self.playing.open_images(&name, &scenario, |stream, side| role.drives(&scenario, stream, side))?;
        let (listener, place) = (self.playing.listen()?, Place::Here(role));
        self.playing.play(
            &scenario,
            Plan {
                duration,
                folder,
                place,
                pauses: Vec::new(),
                lateness: Vec::new(),
                load: None,
                control,
                images,
                listener,
            },
        )
    }
}
