//! `downbeat restore`: undoes what a killed run left.

use clap::Args;
use lab::Restored;

use crate::output::{self, Failure, MET, Outcome};

/// Arguments of `restore`.
#[derive(Args)]
#[command(after_help = "Example:\n  sudo downbeat restore")]
pub(crate) struct Arguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Arguments {
    pub(crate) fn execute(self) -> Outcome {
        let found = lab::restore().map_err(Failure::from)?;
        if self.json {
            return output::json(&found);
        }
        if found.is_empty() {
            println!("nothing to undo");
        }
        for restored in &found {
            match restored {
                Restored::Alive { scenario, pid } => {
                    println!("{scenario}: still running (process {pid}), left alone");
                }
                Restored::Undone { scenario, namespaces, processes } => println!(
                    "{scenario}: removed {} network namespaces, ended {} processes",
                    namespaces.len(),
                    processes.len()
                ),
            }
        }
        Ok(MET)
    }
}
