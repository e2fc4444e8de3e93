//! `downbeat subscribe`: the reader ends of one host that only read, on this machine.

use clap::Args;
use lab::Part;

use crate::commands::role::RoleArguments;
use crate::output::Outcome;

/// Arguments of `subscribe`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  sudo downbeat subscribe two-hosts.toml --interface eth1                 # until Ctrl-C
  sudo downbeat subscribe two-hosts.toml --host loop --duration 1h --out runs/loop

The other hosts play on their machines, from the same scenario file. Nothing of this machine is changed; clocks are
compared only as well as PTP keeps them together. See docs/roles.md.")]
pub(crate) struct Arguments {
    #[command(flatten)]
    role: RoleArguments,
}

impl Arguments {
    pub(crate) fn execute(self) -> Outcome {
        self.role.execute(Part::Subscribe)
    }
}
