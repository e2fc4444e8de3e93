//! `downbeat publish`: the writer ends of one host, on this machine.

use clap::Args;
use lab::Part;

use crate::commands::role::RoleArguments;
use crate::output::Outcome;

/// Arguments of `publish`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  sudo downbeat publish two-hosts.toml --interface eth1                   # until Ctrl-C
  sudo downbeat publish two-hosts.toml --interface loop=eth1 --duration 12h --out runs/pub

The other hosts play on their machines, from the same scenario file. Nothing of this machine is changed; clocks are
compared only as well as PTP keeps them together. See docs/roles.md.")]
pub(crate) struct Arguments {
    #[command(flatten)]
    role: RoleArguments,
}

impl Arguments {
    pub(crate) fn execute(self) -> Outcome {
        self.role.execute(Part::Publish)
    }
}
