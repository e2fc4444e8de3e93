//! `downbeat check`: everything that is wrong with a scenario file.

use std::path::PathBuf;

use clap::Args;
use scenario::{Diagnostics, ReadError, Scenario, Severity};
use serde_json::json;

use crate::output::{self, BAD_INPUT, Failure, MET, Outcome};

/// Arguments of `check`.
#[derive(Args)]
#[command(after_help = "Example:\n  downbeat check two-hosts.toml")]
pub(crate) struct Arguments {
    /// The scenario file
    file: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Arguments {
    pub(crate) fn execute(self) -> Outcome {
        let outcome = scenario::read_file(&self.file);
        if self.json {
            return as_json(&outcome);
        }
        let (scenario, warnings) = outcome.map_err(|error| Failure::input(error.render()))?;
        output::tell_warnings(&warnings);
        println!(
            "{}: {} hosts, {} links, {} streams, {} flows of other traffic, cycle {}",
            scenario.name,
            scenario.hosts.len(),
            scenario.links.len(),
            scenario.streams.len(),
            scenario.traffic.len(),
            scenario.cycle
        );
        for stream in &scenario.streams {
            let frame = stream.frame();
            let ports: Vec<String> = stream.path.iter().map(|port| scenario.port_name(*port)).collect();
            println!(
                "  stream {}: {} over {} links, {} B UADP, {} B on the line, {}",
                stream.name,
                ports.join(", "),
                stream.path.len(),
                stream.payload_bytes(),
                frame.physical_bytes(),
                match stream.udp {
                    Some([there, _]) => format!("UDP to {there}, priority {}", stream.pcp),
                    None => format!("VID {} PCP {}", stream.vid, stream.pcp),
                }
            );
        }
        println!("{} warnings, no errors", warnings.count(Severity::Warning));
        Ok(MET)
    }
}

fn as_json(outcome: &Result<(Scenario, Diagnostics), ReadError>) -> Outcome {
    let list = |diagnostics: &Diagnostics| json!(diagnostics.placed().collect::<Vec<_>>());
    let (ok, diagnostics) = match outcome {
        Ok((_, warnings)) => (true, list(warnings)),
        Err(ReadError::Invalid(diagnostics)) => (false, list(diagnostics)),
        Err(error) => (false, json!([{ "severity": "error", "message": error.to_string() }])),
    };
    output::json(&json!({ "format": "downbeat/check/1", "ok": ok, "diagnostics": diagnostics }))?;
    Ok(if ok { MET } else { BAD_INPUT })
}
