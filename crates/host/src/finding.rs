//! What the doctor says.

use serde::Serialize;

use crate::change::Change;

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// As it should be.
    Good,
    /// Good to know; nothing has to be done.
    Note,
    /// Frames will be later than they need to be, or figures less certain.
    Warning,
    /// What the scenario asks for cannot work like this.
    Error,
}

/// One thing the doctor looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Its name, for scripts: words with hyphens.
    pub rule: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// What it is about: `kernel`, `cpu 1`, the name of an interface.
    pub place: String,
    /// How it is.
    pub found: String,
    /// How it ought to be, and why.
    pub needed: String,
    /// What to do about it; empty where all is well.
    pub mend: String,
    /// The same as changes that can be undone; empty where only a person can mend it.
    pub fix: Vec<Change>,
}

impl Finding {
    /// Something that is as it should be.
    pub(crate) fn good(rule: &'static str, place: impl Into<String>, found: impl Into<String>) -> Self {
        let (place, found) = (place.into(), found.into());
        let (needed, mend) = (String::new(), String::new());
        Self { rule, severity: Severity::Good, place, found, needed, mend, fix: Vec::new() }
    }

    /// Something that is not.
    pub(crate) fn new(
        rule: &'static str,
        severity: Severity,
        place: impl Into<String>,
        [found, needed, mend]: [&str; 3],
    ) -> Self {
        let (found, needed, mend) = (found.into(), needed.into(), mend.into());
        Self { rule, severity, place: place.into(), found, needed, mend, fix: Vec::new() }
    }

    /// With a change that mends it.
    pub(crate) fn mended_by(mut self, change: Change) -> Self {
        self.fix.push(change);
        self
    }
}
