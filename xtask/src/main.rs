//! Habits of the repository, one command each: `cargo xtask help`.
#![forbid(unsafe_code)]

mod architecture;
mod bench;
mod check;
mod counts;
mod files;
mod papers;
mod workspace;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask COMMAND

  check   format, lints, licences and sources of dependencies, documentation, architecture, files
  bench   what publishing and receiving cost beside a bare socket, a hand-written loop and open62541 (needs root)
  counts  instructions of the hot paths, compared with xtask/counts.toml (needs valgrind)
  papers  the tables of docs/papers.md, compared with it; --write brings it up to date (needs the kernel laboratory)
  help    this text

Exit codes: 0 all is well, 1 something is not, 2 unknown command or argument,
3 not on this machine.
CI=true turns a check that had to be left out (no rustfmt, no clippy, no cargo-deny) into a failure.";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("check") => check::run(),
        Some("bench") => bench::run(&arguments[1..]),
        Some("counts") => counts::run(&arguments[1..]),
        Some("papers") => papers::run(&arguments[1..]),
        Some("help" | "--help" | "-h") | None => {
            println!("{HELP}");
            ExitCode::SUCCESS
        }
        Some(other) => {
            eprintln!("cargo xtask has no command \"{other}\".\n\n{HELP}");
            ExitCode::from(2)
        }
    }
}
