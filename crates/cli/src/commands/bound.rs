//! `downbeat bound`: worst cases in exact arithmetic.

use std::path::PathBuf;

use calculus::{Model, Options, PaperTable, bound_with, paper_table};
use clap::{Args, ValueEnum};
use units::Nanos;

use crate::commands::settings::Settings;
use crate::output::{self, Failure, MET, Outcome};

/// Arguments of `bound`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  downbeat bound two-hosts.toml
  downbeat bound two-hosts.toml --set time.window=0.3
  downbeat bound --model paper      # Table IV of Rezabek et al., all 56 cells")]
pub(crate) struct Arguments {
    /// The scenario file; `--model paper` without one prints the paper's table
    file: Option<PathBuf>,
    #[command(flatten)]
    settings: Settings,
    /// How delays are modelled
    #[arg(long, value_enum, default_value_t)]
    model: ModelName,
    /// How late hosts may begin a phase, at most; hosts are punctual unless this is given
    #[arg(long, value_name = "SPAN", default_value = "0s")]
    host_jitter: Nanos,
    /// How far clocks of different hosts are apart, at most; they agree unless this is given
    #[arg(long, value_name = "SPAN", default_value = "0s")]
    clock_error: Nanos,
    /// Bytes on the line of the largest lower-priority frame that may turn up beside those the scenario names
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    unnamed_frame: u32,
    /// Print JSON, form downbeat/bound/1
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum ModelName {
    /// Whole frames, store and forward, bursts paid once
    #[default]
    Packet,
    /// The fluid model of Rezabek et al. with its quirks
    Paper,
}

impl Arguments {
    pub(crate) fn execute(self) -> Outcome {
        let model = match self.model {
            ModelName::Packet => Model::Packet,
            ModelName::Paper => Model::Paper,
        };
        let Some(file) = &self.file else {
            return match model {
                Model::Paper if self.json => output::json(&table_json(&paper_table())),
                Model::Paper => {
                    print!("{}", paper_table());
                    Ok(MET)
                }
                Model::Packet => Err(Failure::input(
                    "a scenario file is missing\n  mend: `downbeat bound FILE`; only `--model paper` has a table without one",
                )),
            };
        };
        let scenario = self.settings.read(file)?;
        let options = Options {
            host_jitter: self.host_jitter,
            clock_error: self.clock_error,
            unnamed_frame_bytes: self.unnamed_frame,
        };
        let report = bound_with(&scenario, model, &options);
        if self.json {
            return output::json(&report);
        }
        print!("{}", report.table());
        Ok(MET)
    }
}

/// The paper's table with its exact fractions of a second, a row a number of links.
fn table_json(table: &PaperTable) -> serde_json::Value {
    let rows: Vec<_> = (1..)
        .zip(&table.cells)
        .map(|(links, row)| {
            let seconds: Vec<String> = row.iter().map(ToString::to_string).collect();
            serde_json::json!({ "links": links, "exact_s": seconds })
        })
        .collect();
    serde_json::json!({ "format": "downbeat/paper-table/1", "payload_bytes": table.payloads, "rows": rows })
}
