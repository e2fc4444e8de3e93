//! `cargo xtask check`: everything about form that a machine can decide.

use std::fs;
use std::process::{Command, ExitCode};

use crate::workspace::{self, Member, cargo};
use crate::{architecture, files};

/// Goes through all checks, also behind a failure, and names at the end what failed and what was left out.
pub(crate) fn run() -> ExitCode {
    let mut check = Check { strict: std::env::var("CI").is_ok_and(|ci| ci == "true"), ..Check::default() };
    check.sources();
    if check.has("format", "fmt") {
        check.command("format", cargo().args(["fmt", "--all", "--check"]));
    }
    let warnings_count = check.warnings_count();
    if check.has("lints", "clippy") {
        let mut clippy = cargo();
        clippy.args(["clippy", "--quiet", "--workspace", "--all-targets"]);
        if warnings_count {
            clippy.args(["--", "-D", "warnings"]);
        }
        check.command("lints", &mut clippy);
    }
    let mut doc = cargo();
    doc.args(["doc", "--quiet", "--workspace", "--no-deps"]);
    if warnings_count {
        doc.env("RUSTDOCFLAGS", "-D warnings");
    }
    check.command("documentation", &mut doc);
    check.dependencies();
    check.report()
}

#[derive(Default)]
struct Check {
    /// Nothing may be left out.
    strict: bool,
    failed: Vec<&'static str>,
    left_out: Vec<String>,
}

impl Check {
    /// What needs nobody but us: architecture, unsafe code, length of files, reasons for dependencies.
    fn sources(&mut self) {
        println!("== architecture and files");
        let members = match workspace::members() {
            Ok(members) => members,
            Err(error) => return self.findings("architecture", &[error]),
        };
        self.findings("architecture", &architecture_findings(&members));
        let report = files::look(workspace::root(), &members);
        for note in &report.notes {
            println!("   {note}");
        }
        self.findings("files", &report.findings);
    }

    /// Licences, sources and duplicates always; known vulnerabilities when their list can be fetched.
    fn dependencies(&mut self) {
        if !self.has("dependencies", "deny") {
            return;
        }
        let quiet = ["deny", "--log-level", "error"];
        self.command("dependencies", cargo().args(quiet).args(["check", "bans", "licenses", "sources"]));
        let fetched = cargo().args(["deny", "fetch", "db"]).output().is_ok_and(|output| output.status.success());
        if fetched {
            self.command("advisories", cargo().args(quiet).args(["check", "--disable-fetch", "advisories"]));
        } else {
            // A network that does not reach the list says nothing about this change: never a failure.
            println!("== advisories\n   LEFT OUT: the list of known vulnerabilities could not be fetched.");
            self.left_out.push("advisories (their list could not be fetched)".to_owned());
        }
    }

    /// Whether cargo has this subcommand. Without it a check is left out loudly, and fails where nothing may be left out.
    fn has(&mut self, name: &'static str, subcommand: &str) -> bool {
        let present = cargo().args([subcommand, "--version"]).output().is_ok_and(|output| output.status.success());
        if !present {
            println!(
                "== {name}\n   LEFT OUT: there is no 'cargo {subcommand}' here; 'scripts/setup.sh test' installs it."
            );
            self.left_out.push(format!("{name} (no cargo {subcommand})"));
            if self.strict {
                self.failed.push(name);
            }
        }
        present
    }

    /// Whether warnings are failures. Each Rust has lints of its own: only those of the pinned one bind.
    fn warnings_count(&mut self) -> bool {
        let output = cargo().arg("--version").output().map(|output| output.stdout).unwrap_or_default();
        let here = String::from_utf8_lossy(&output).split_whitespace().nth(1).unwrap_or("unknown").to_owned();
        let pinned = workspace::pinned_rust();
        let Some(pinned) = pinned.filter(|pinned| *pinned != here) else { return true };
        self.left_out.push(format!("failing on warnings (this is Rust {here}, the lints of {pinned} bind)"));
        false
    }

    fn command(&mut self, name: &'static str, command: &mut Command) {
        let arguments: Vec<_> = command.get_args().map(|argument| argument.to_string_lossy()).collect();
        println!("== {name}: cargo {}", arguments.join(" "));
        match command.status() {
            Ok(status) if status.success() => {}
            Ok(_) => self.failed.push(name),
            Err(error) => {
                println!("   did not start: {error}");
                self.failed.push(name);
            }
        }
    }

    fn findings(&mut self, name: &'static str, findings: &[String]) {
        for finding in findings {
            println!("   {finding}");
        }
        if !findings.is_empty() {
            self.failed.push(name);
        }
    }

    fn report(self) -> ExitCode {
        println!();
        if !self.left_out.is_empty() {
            println!("LEFT OUT: {}", self.left_out.join(", "));
        }
        if self.failed.is_empty() {
            println!("cargo xtask check: all {}is well", if self.left_out.is_empty() { "" } else { "else " });
            ExitCode::SUCCESS
        } else {
            println!("cargo xtask check: not right yet: {}", self.failed.join(", "));
            ExitCode::FAILURE
        }
    }
}

fn architecture_findings(members: &[Member]) -> Vec<String> {
    match fs::read_to_string(workspace::root().join("ARCHITECTURE.md")) {
        Ok(page) => {
            let mut findings = architecture::differences(&page, members);
            findings.extend(architecture::broken_paths(&page, |path| workspace::root().join(path).exists()));
            findings
        }
        Err(error) => vec![format!("ARCHITECTURE.md could not be read: {error}")],
    }
}
