//! `downbeat check`: everything that is wrong with a scenario file, and with the machine it is to run on.

mod machine;
mod plan;

use std::path::PathBuf;

use clap::Args;
use scenario::{Diagnostics, ReadError, Scenario, Severity};
use serde_json::{Value, json};

pub(crate) use plan::tell as tell_finding;

use crate::commands::settings::Settings;
use crate::output::{self, BAD_INPUT, Failure, MET, Outcome};

const HELP: &str = "\
Examples:
  downbeat check two-hosts.toml
  downbeat check --here                                       # this machine alone: kernel, processors, clock
  downbeat check two-hosts.toml --here --host pub --interface eth1
  sudo downbeat check --here --interface eth1 --fix           # and set right what can be set back by `restore`

Exit codes: 0 nothing is wrong, 1 the machine has warnings, 2 the file is wrong or Linux would refuse its plan, 3 the machine cannot do what the scenario
asks for. See docs/doctor.md.";

/// Arguments of `check`.
#[derive(Args)]
#[command(after_help = HELP)]
pub(crate) struct Arguments {
    /// The scenario file; may be left out with --here
    #[arg(required_unless_present = "here")]
    file: Option<PathBuf>,
    #[command(flatten)]
    settings: Settings,
    #[command(flatten)]
    machine: machine::MachineArguments,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Arguments {
    pub(crate) fn execute(self) -> Outcome {
        let outcome = self.file.as_deref().map(|file| self.settings.read_file(file));
        let broken = matches!(outcome, Some(Err(_)));
        if self.json && (broken || !self.machine.here) {
            return outcome.map_or(Ok(MET), |outcome| {
                let planned = outcome.as_ref().ok().map(|(scenario, _)| plan::Planned::of(scenario));
                let mut form = as_json(&outcome);
                planned.iter().for_each(|planned| planned.add_to(&mut form));
                output::json(&form)?;
                let refused = planned.is_some_and(|planned| planned.broken());
                Ok(if broken || refused { BAD_INPUT } else { MET })
            });
        }
        let read = outcome.transpose().map_err(|error| Failure::input(error.render()))?;
        if let (Some((scenario, warnings)), false) = (&read, self.json) {
            output::tell_warnings(warnings);
            tell(scenario, warnings);
        }
        let planned = read.as_ref().map(|(scenario, _)| plan::Planned::of(scenario));
        let refused = planned.as_ref().is_some_and(plan::Planned::broken);
        if let (Some(planned), false) = (&planned, self.json) {
            planned.tell();
        }
        if !self.machine.here {
            return Ok(if refused { BAD_INPUT } else { MET });
        }
        let scenario = read.as_ref().map(|(scenario, _)| scenario);
        let examined = self.machine.examine(scenario)?;
        if self.json {
            let mut form = read.map_or_else(|| json!({ "format": FORMAT }), |read| as_json(&Ok(read)));
            planned.iter().for_each(|planned| planned.add_to(&mut form));
            examined.add_to(&mut form);
            output::json(&form)?;
        } else {
            examined.tell();
        }
        if refused { Ok(BAD_INPUT) } else { examined.outcome() }
    }
}

const FORMAT: &str = "downbeat/check/1";

fn tell(scenario: &Scenario, warnings: &Diagnostics) {
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
}

fn as_json(outcome: &Result<(Scenario, Diagnostics), ReadError>) -> Value {
    let list = |diagnostics: &Diagnostics| json!(diagnostics.placed().collect::<Vec<_>>());
    let (ok, diagnostics) = match outcome {
        Ok((_, warnings)) => (true, list(warnings)),
        Err(ReadError::Invalid(diagnostics)) => (false, list(diagnostics)),
        Err(error) => (false, json!([{ "severity": "error", "message": error.to_string() }])),
    };
    json!({ "format": FORMAT, "ok": ok, "diagnostics": diagnostics })
}
