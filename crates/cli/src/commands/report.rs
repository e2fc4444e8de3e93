//! `downbeat report`: one page of run folders.

use std::path::PathBuf;

use clap::Args;

use crate::output::{Failure, MET, Outcome};

/// Arguments of `report`.
#[derive(Args)]
#[command(after_help = "Example:\n  downbeat report runs/measured runs/simulated --out report.html")]
pub(crate) struct Arguments {
    /// Run folders; those of one scenario share their pictures
    #[arg(required = true)]
    dirs: Vec<PathBuf>,
    /// The page to write; `-` is standard output
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    out: PathBuf,
    /// Print the path and the verdicts as JSON
    #[arg(long)]
    json: bool,
}

impl Arguments {
    pub(crate) fn execute(self) -> Outcome {
        // A run that was rotated has its rows in its parts.
        let mut dirs = Vec::new();
        for dir in &self.dirs {
            dirs.extend(measure::part_folders(dir).map_err(|error| Failure::input(error.to_string()))?);
        }
        let page = report::from_dirs(&dirs).map_err(|error| Failure::input(error.to_string()))?;
        if self.out.as_os_str() == "-" {
            print!("{page}");
            return Ok(MET);
        }
        std::fs::write(&self.out, &page)
            .map_err(|error| Failure::machine(format!("writing {}: {error}", self.out.display())))?;
        if self.json {
            crate::output::json(&serde_json::json!({ "page": self.out, "bytes": page.len() }))
        } else {
            println!("written to {}: open it in a browser, it needs no network", self.out.display());
            Ok(MET)
        }
    }
}
