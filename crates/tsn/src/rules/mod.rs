//! Rules that a plan has to keep, beyond what makes a scenario file wrong.
//!
//! The reader of scenarios refuses sums that miss the cycle, gates that never open, maps without 16 places and slopes
//! above the link; those are not looked at again here.

mod driver;
mod gates;
mod path;
mod ptp;
mod shapers;
mod speed;

use scenario::{HostId, Scenario};
use serde::Serialize;
use units::{Nanos, Tai};

use crate::port::LinuxPort;

pub use speed::speeds;

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Good to know; nothing has to be done.
    Note,
    /// It works, and frames will be later or fewer than they need to be.
    Warning,
    /// Linux or the driver refuses it, or frames of a stream are lost.
    Error,
}

/// One thing about a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Its name, for scripts: words with hyphens.
    pub rule: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// What it is about: a port, "pub → loop (eth1)", or a host.
    pub place: String,
    /// How it is.
    pub found: String,
    /// How it ought to be, and why.
    pub needed: String,
    /// What to do about it; empty for a note.
    pub mend: String,
    /// Where the rule is known from; empty where it follows from the numbers.
    pub source: &'static str,
}

/// What is known beside the scenario.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Situation {
    /// The instant at which the plan is applied.
    pub now: Option<Tai>,
    /// The largest wake-up latency measured, for hosts whose `machine` says none.
    pub wake_up: Option<Nanos>,
}

/// A port and what is known beside it.
pub(crate) struct Checked<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) situation: &'a Situation,
    pub(crate) port: LinuxPort<'a>,
}

impl Checked<'_> {
    /// A finding about this port.
    pub(crate) fn finding(
        &self,
        rule: &'static str,
        severity: Severity,
        [found, needed, mend]: [String; 3],
        source: &'static str,
    ) -> Finding {
        let place = format!("{} ({})", self.port.name, self.port.device);
        Finding { rule, severity, place, found, needed, mend, source }
    }

    /// The largest wake-up latency of its host.
    pub(crate) fn wake_up(&self) -> Option<Nanos> {
        self.scenario.machine(self.scenario.port(self.port.id).host).wake_up.or(self.situation.wake_up)
    }
}

/// Everything that the rules say of a host; the worst first.
///
/// # Panics
/// If `host` is not one of the scenario's.
pub fn check_host(scenario: &Scenario, host: HostId, situation: &Situation) -> Vec<Finding> {
    let mut findings = Vec::new();
    for port in LinuxPort::all(scenario, host) {
        let checked = Checked { scenario, situation, port };
        driver::check(&checked, &mut findings);
        gates::check(&checked, &mut findings);
        shapers::check(&checked, &mut findings);
        path::check(&checked, &mut findings);
    }
    ptp::check(scenario, host, &mut findings);
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings
}

/// Everything that the rules say of a scenario; the worst first. What is the same at several ports is said once, with
/// all of them.
pub fn check(scenario: &Scenario, situation: &Situation) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    for host in (0..scenario.hosts.len()).map(HostId) {
        for finding in check_host(scenario, host, situation) {
            let same = |other: &&mut Finding| {
                other.rule == finding.rule && other.found == finding.found && other.needed == finding.needed
            };
            match findings.iter_mut().find(same) {
                Some(other) if other.place == finding.place => {}
                Some(other) => other.place = format!("{}, {}", other.place, finding.place),
                None => findings.push(finding),
            }
        }
    }
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings
}
