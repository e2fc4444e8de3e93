//! What the rules of Linux and its drivers say of a scenario's plan.

use scenario::Scenario;
use serde_json::{Value, json};
use tsn::{Finding, Severity, Situation};

/// The findings about a plan, the worst first.
pub(super) struct Planned(Vec<Finding>);

impl Planned {
    pub(super) fn of(scenario: &Scenario) -> Self {
        Self(tsn::rules::check(scenario, &Situation { now: Some(rt::clock::now()), wake_up: None }))
    }

    /// Whether Linux would refuse the plan, or lose frames by it.
    pub(super) fn broken(&self) -> bool {
        self.0.iter().any(|finding| finding.severity == Severity::Error)
    }

    pub(super) fn tell(&self) {
        if self.0.is_empty() {
            return;
        }
        println!("the plan for Linux:");
        for finding in &self.0 {
            tell(finding, |line| println!("{line}"));
        }
        let count = |severity| self.0.iter().filter(|finding| finding.severity == severity).count();
        println!(
            "{} errors, {} warnings, {} notes about the plan",
            count(Severity::Error),
            count(Severity::Warning),
            count(Severity::Note)
        );
    }

    pub(super) fn add_to(&self, form: &mut Value) {
        form["plan"] = json!({ "findings": self.0 });
        if self.broken() {
            form["ok"] = json!(false);
        }
    }
}

/// Writes a finding in lines.
pub(crate) fn tell(finding: &Finding, mut line: impl FnMut(String)) {
    let severity = match finding.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    };
    line(format!("  {severity}: {}: {} ({})", finding.place, finding.found, finding.rule));
    line(format!("      needed: {}", finding.needed));
    if !finding.mend.is_empty() {
        line(format!("      mend: {}", finding.mend));
    }
    if !finding.source.is_empty() {
        line(format!("      source: {}", finding.source));
    }
}
