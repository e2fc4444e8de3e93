//! `downbeat restore`: undoes what a killed run left, and what `apply` and `check --fix` changed.

use clap::Args;
use host::{Apply, Undone};
use lab::Restored;
use serde_json::{Value, json};

use crate::commands::apply;
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
        let applied = Apply::here().restore().map_err(apply::failure)?;
        let settings = host::undo_all().map_err(|error| Failure::machine(error.to_string()))?;
        if self.json {
            let all: Vec<Value> = found
                .iter()
                .map(|run| json!(run))
                .chain(applied.iter().map(|line| json!({ "state": "unapplied", "what": line })))
                .chain(settings.iter().map(|set| json!(set)))
                .collect();
            return output::json(&all);
        }
        if found.is_empty() && applied.is_empty() && settings.is_empty() {
            println!("nothing to undo");
        }
        for restored in &found {
            match restored {
                Restored::Alive { scenario, pid } => {
                    println!("{scenario}: still running (process {pid}), left alone");
                }
                Restored::StampsBack { interface } => println!("set back: what the network card of {interface} stamps"),
                Restored::Undone { scenario, namespaces, processes } => println!(
                    "{scenario}: removed {} network namespaces, ended {} processes",
                    namespaces.len(),
                    processes.len()
                ),
            }
        }
        applied.iter().for_each(|line| println!("undone: {line}"));
        for setting in &settings {
            match setting {
                Undone::Back { what } => println!("set back: {what}"),
                Undone::Gone { what } => println!("is gone: {what}"),
                Undone::ChangedSince { what, now } => {
                    println!("left alone, somebody has changed it since to {now}: {what}");
                }
            }
        }
        Ok(MET)
    }
}
