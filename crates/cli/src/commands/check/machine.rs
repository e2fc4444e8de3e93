//! The doctor's part of `check`.

use clap::Args;
use host::{Changes, Finding, NeededInterface, Needs, Severity, ThisMachine};
use scenario::Scenario;
use serde_json::{Value, json};

use crate::output::{CANNOT, Failure, MET, NOT_MET, Outcome};

/// What of the machine is looked at.
#[derive(Args)]
pub(super) struct MachineArguments {
    /// Look at this machine too
    #[arg(long)]
    pub(super) here: bool,
    /// The host of the scenario that this machine is
    #[arg(long, value_name = "NAME", requires = "here", requires = "file")]
    host: Option<String>,
    /// Network interface of the host's port, or of its port towards a neighbour; without a scenario any interface to
    /// look at; may be given several times [default: the scenario's `interface`]
    #[arg(long, value_name = "[PEER=]IFACE", requires = "here")]
    interface: Vec<String>,
    /// Processor of the cyclic threads; may be given several times [default: those that isolcpus keeps free, else the
    /// last]
    #[arg(long, value_name = "N", requires = "here")]
    cpu: Vec<usize>,
    /// Frames are to come and go by AF_XDP
    #[arg(long, requires = "here")]
    xdp: bool,
    /// Set right what can be set back, all of it or what these rules found; `downbeat restore` sets it back
    #[arg(long, value_name = "RULE,…", requires = "here", num_args = 0.., require_equals = true, value_delimiter = ',')]
    fix: Option<Vec<String>>,
}

/// What was found, and what was changed.
pub(super) struct Examined {
    host: Option<String>,
    findings: Vec<Finding>,
    changed: Vec<String>,
    /// What could not be changed, and why.
    refused: Vec<String>,
}

impl MachineArguments {
    /// Looks at this machine, mends what can be mended if that is wanted, and looks again.
    pub(super) fn examine(&self, scenario: Option<&Scenario>) -> Result<Examined, Failure> {
        let needs = self.needs(scenario)?;
        let mut findings = host::examine(&ThisMachine, &needs);
        let (mut changed, mut refused) = (Vec::new(), Vec::new());
        let Some(rules) = &self.fix else { return Ok(Examined { host: needs.host, findings, changed, refused }) };
        if let Some(rule) = rules.iter().find(|rule| findings.iter().all(|finding| finding.rule != rule.as_str())) {
            return Err(Failure::input(format!(
                "--fix={rule}: nothing was looked at under that name\n  mend: name what `check --here` prints in \
                 parentheses, or none to fix all"
            )));
        }
        let chosen = |finding: &&Finding| rules.is_empty() || rules.iter().any(|rule| rule == finding.rule);
        let fixes: Vec<_> = findings.iter().filter(chosen).flat_map(|finding| finding.fix.clone()).collect();
        if !fixes.is_empty() {
            let mut changes = Changes::open().map_err(|error| {
                Failure::machine(format!("{error}\n  mend: --fix changes this machine: run as root"))
            })?;
            for fix in &fixes {
                match changes.make(fix) {
                    Ok(()) => changed.push(fix.to_string()),
                    Err(error) => refused.push(error.to_string()),
                }
            }
            findings = host::examine(&ThisMachine, &needs);
        }
        Ok(Examined { host: needs.host, findings, changed, refused })
    }

    fn needs(&self, scenario: Option<&Scenario>) -> Result<Needs, Failure> {
        let mut needs = match scenario.zip(self.host.as_deref()) {
            Some((scenario, name)) => {
                let Some(host) = scenario.host_named(name) else {
                    let known: Vec<_> = scenario.hosts.iter().map(|host| host.name.as_str()).collect();
                    return Err(Failure::input(format!(
                        "the scenario has no host \"{name}\"\n  mend: name one of {} with --host",
                        known.join(", ")
                    )));
                };
                let given = lab::interfaces_of_host(scenario, host, &self.interface)?;
                let name = |port: usize| given.iter().find(|(known, _)| known.0 == port).map(|(_, name)| name.clone());
                Needs::of(scenario, host, name)
            }
            None => {
                let interfaces = self.interface.iter().map(NeededInterface::named).collect();
                let cycle = scenario.map(|scenario| scenario.cycle);
                Needs { interfaces, cycle, ..Needs::default() }
            }
        };
        let cpus = rt::machine::Machine::read().cpus;
        if let Some(cpu) = self.cpu.iter().find(|cpu| **cpu >= cpus) {
            return Err(Failure::input(format!(
                "--cpu {cpu}: this machine has {cpus} processors\n  mend: name one from 0 to {}",
                cpus - 1
            )));
        }
        (needs.processors, needs.xdp) = (self.cpu.clone(), self.xdp);
        Ok(needs)
    }
}

impl Examined {
    pub(super) fn tell(&self) {
        match &self.host {
            Some(host) => println!("this machine, as {host}:"),
            None => println!("this machine:"),
        }
        for finding in self.findings.iter().filter(|finding| finding.severity > Severity::Good) {
            let severity = match finding.severity {
                Severity::Error => "error",
                Severity::Warning => "warning",
                Severity::Note | Severity::Good => "note",
            };
            println!("  {severity}: {}: {} ({})", finding.place, finding.found, finding.rule);
            println!("      needed: {}", finding.needed);
            println!("      mend: {}", finding.mend);
        }
        for change in &self.changed {
            println!("  changed: {change}");
        }
        for refused in &self.refused {
            println!("  not changed: {refused}");
        }
        let count = |severity| self.findings.iter().filter(|finding| finding.severity == severity).count();
        println!(
            "{} errors, {} warnings, {} notes, {} good",
            count(Severity::Error),
            count(Severity::Warning),
            count(Severity::Note),
            count(Severity::Good)
        );
        let fixable = self.findings.iter().filter(|finding| !finding.fix.is_empty()).count();
        if !self.changed.is_empty() {
            println!("`sudo downbeat restore` sets back what was changed; a reboot does so too.");
        } else if fixable > 0 && self.refused.is_empty() {
            println!("{fixable} of them can be set right, and back, by --fix.");
        }
    }

    pub(super) fn add_to(&self, form: &mut Value) {
        form["machine"] = json!({
            "host": self.host,
            "findings": self.findings,
            "changed": self.changed,
            "not_changed": self.refused,
        });
    }

    pub(super) fn outcome(&self) -> Outcome {
        Ok(match self.findings.iter().map(|finding| finding.severity).max() {
            Some(Severity::Error) => CANNOT,
            Some(Severity::Warning) => NOT_MET,
            _ => MET,
        })
    }
}
