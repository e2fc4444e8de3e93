//! `cargo xtask counts`: instructions of the hot paths, counted by callgrind and compared with `xtask/counts.toml`.
//!
//! A count does not depend on what else the machine does, so a path that got longer is found where a measurement of time
//! would find nothing. Only instructions of our own program count, not those of the C library, whose memcpy differs from
//! processor to processor: bytes that are copied by it are not seen here but in `cargo xtask bench`.

mod callgrind;
mod expected;

use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use serde_json::Value;

use crate::workspace::{cargo, pinned_rust};
use expected::{Expected, Verdict};

const HELP: &str = "\
cargo xtask counts [--bless]

  --bless   write what was counted to xtask/counts.toml instead of comparing with it

Exit codes: 0 within the margin or left out (valgrind is missing, not the toolchain that the counts hold for: it says so),
1 some path got longer or is not in the file, 2 wrong arguments. CI=true turns a missing valgrind into a failure.";

/// Runs `cargo xtask counts` with the arguments after `counts`.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let bless = match arguments {
        [] => false,
        [argument] if argument == "--bless" => true,
        [argument] if matches!(argument.as_str(), "--help" | "-h") => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprintln!("cargo xtask counts has no such arguments.\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    match count(bless) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(Failure::Missing(reason)) => {
            println!("== instruction counts\n   LEFT OUT: {reason}");
            let strict = std::env::var("CI").is_ok_and(|ci| ci == "true");
            if strict { ExitCode::FAILURE } else { ExitCode::SUCCESS }
        }
        Err(Failure::OtherToolchain(reason)) => {
            println!("== instruction counts\n   LEFT OUT: {reason}");
            ExitCode::SUCCESS
        }
        Err(Failure::Failed(error)) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

#[derive(Debug)]
enum Failure {
    /// A program is not there that could be.
    Missing(String),
    /// Nothing can be said with this compiler.
    OtherToolchain(String),
    Failed(String),
}

impl From<String> for Failure {
    fn from(error: String) -> Self {
        Self::Failed(error)
    }
}

/// Counts and compares, or blesses; whether all is well.
fn count(bless: bool) -> Result<bool, Failure> {
    let quiet = |command: &mut Command| command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !quiet(Command::new("valgrind").arg("--version")).is_ok_and(|status| status.success()) {
        return Err(Failure::Missing("valgrind is missing: apt-get install valgrind".to_owned()));
    }
    let toolchain = toolchain()?;
    let expected = if bless { Expected::new(toolchain.clone()) } else { Expected::read()? };
    if expected.toolchain != toolchain {
        let told = format!("xtask/counts.toml holds for {}, this is {toolchain}", expected.toolchain);
        let pinned = pinned_rust().is_some_and(|pinned| toolchain.split(' ').nth(1) == Some(pinned.as_str()));
        let same_target = expected.toolchain.rsplit(' ').next() == toolchain.rsplit(' ').next();
        return Err(if pinned && same_target {
            Failure::Failed(format!("{told}, the one that rust-toolchain.toml names: cargo xtask counts --bless"))
        } else {
            Failure::OtherToolchain(format!("{told}: other compilers count differently"))
        });
    }
    let program = build()?;
    let counted = Counted::all(&program)?;
    if bless {
        Expected { toolchain, paths: counted.0 }.write()?;
        println!("xtask/counts.toml is written.");
        return Ok(true);
    }
    let verdicts = expected.compare(&counted.0);
    println!("== instruction counts of one call (margin {} %)", expected::MARGIN_PERCENT);
    for verdict in &verdicts {
        println!("   {verdict}");
    }
    let well = verdicts.iter().all(Verdict::is_well);
    if !well {
        println!("   If that is meant: cargo xtask counts --bless, and say why in the commit.");
    }
    Ok(well)
}

/// Version and target of the compiler that builds what is counted.
fn toolchain() -> Result<String, String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("-vV").output().map_err(|error| format!("rustc did not start: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
    match (line("release:"), line("host:")) {
        (Some(release), Some(host)) => Ok(format!("rustc {release} for {host}")),
        _ => Err(format!("rustc -vV told something else than expected: {text}")),
    }
}

/// The program with the paths, optimised as it is used.
fn build() -> Result<PathBuf, String> {
    let output = cargo()
        .args(["build", "--release", "--package", "downbeat-station", "--bench", "counted"])
        .args(["--message-format", "json-render-diagnostics"])
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cargo build did not start: {error}"))?;
    if !output.status.success() {
        return Err("the program with the hot paths could not be built".to_owned());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let messages = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let ours = messages.filter(|message| message["target"]["name"] == "counted");
    let path = ours.filter_map(|message| message["executable"].as_str().map(PathBuf::from)).next_back();
    path.ok_or_else(|| "cargo told no path of the program with the hot paths".to_owned())
}

/// Instructions of one call of each path, in the program's order.
struct Counted(Vec<(String, f64)>);

impl Counted {
    fn all(program: &PathBuf) -> Result<Self, String> {
        let output = Command::new(program).output().map_err(|error| format!("{}: {error}", program.display()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let mut lines = text.lines();
        let calls = lines.next().and_then(|line| line.strip_suffix(" calls")?.parse::<u64>().ok());
        let calls = calls.ok_or_else(|| format!("{}: expected \"N calls\" first", program.display()))?;
        let count = |name: &str| Ok((name.to_owned(), callgrind::count(program, name)? as f64 / calls as f64));
        Ok(Self(lines.map(count).collect::<Result<_, String>>()?))
    }
}
