//! `cargo xtask bench publish`: what the stack costs beside a bare socket and beside a loop written by hand.
//!
//! For messages of 2, 8, 32 and 160 UInt64 (the papers' frame, Variants): sending, receiving, and the engine without
//! a socket; what a record of each frame and the kernel's stamps cost on top. All in one thread of one process, on
//! veth pairs in a network namespace of its own; the rows take turns, and ratios are formed within a block.

mod codec;
mod dispatch;
mod hand;
mod place;
mod print;
mod publish;
mod receive;
mod rounds;
mod statistics;
mod streams;

use std::process::ExitCode;

use rt::machine::Machine;

use crate::workspace::cargo;
use print::{Part, Report, Side};
use rounds::{Amount, BATCH};

const HELP: &str = "\
cargo xtask bench [publish] [--blocks N] [--frames N] [--json]

  --blocks N   values behind each median, at least 6 for a 95 % interval (default 60; 20 or more for a figure to cite)
  --frames N   frames a block and row, rounded up to batches of 64 (default 1024)
  --json       one JSON object instead of tables

Needs the right to make a network namespace (root) and the program ip; a quiet machine for figures that mean anything.
Exit codes: 0 measured (whether or not the goal is met: the table says), 1 failed, 2 wrong arguments, 3 not on this machine.";

/// Share of the bare system call's time that sending or receiving may take.
const GOAL: f64 = 1.05;

const DEFAULT_BLOCKS: usize = 60;
const DEFAULT_FRAMES: usize = 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Options {
    amount: Amount,
    json: bool,
}

/// Runs `cargo xtask bench` with the arguments after `bench`.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    if arguments.iter().any(|argument| matches!(argument.as_str(), "--help" | "-h")) {
        println!("{HELP}");
        return ExitCode::SUCCESS;
    }
    let options = match parse(arguments) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("{error}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    if let Err(error) = place::check_rights() {
        eprintln!("{error}");
        return ExitCode::from(3);
    }
    if cfg!(debug_assertions) {
        return in_release(arguments);
    }
    let pairs = match place::make_pairs(1 + receive::PAIRS) {
        Ok(pairs) => pairs,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(3);
        }
    };
    match measure(&pairs, options.amount) {
        Ok(report) if options.json => println!("{:#}", report.json()),
        Ok(report) => print!("{}", report.text()),
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn parse(arguments: &[String]) -> Result<Options, String> {
    let (mut blocks, mut frames, mut json) = (DEFAULT_BLOCKS, DEFAULT_FRAMES, false);
    let mut rest = arguments.iter().enumerate();
    while let Some((place, argument)) = rest.next() {
        let number = match argument.as_str() {
            "publish" if place == 0 => continue,
            "--json" => {
                json = true;
                continue;
            }
            "--blocks" => &mut blocks,
            "--frames" => &mut frames,
            other => return Err(format!("cargo xtask bench has no argument \"{other}\".")),
        };
        let value = rest.next().map_or("nothing", |(_, value)| value);
        *number = match value.parse() {
            Ok(value) if (1..=1_000_000).contains(&value) => value,
            _ => return Err(format!("{argument}: expected a number from 1 to 1000000, found {value}.")),
        };
    }
    let batches = frames.div_ceil(BATCH as usize);
    Ok(Options { amount: Amount { blocks, batches }, json })
}

/// The same again, optimised.
fn in_release(arguments: &[String]) -> ExitCode {
    let mut command = cargo();
    command.args(["run", "--release", "--quiet", "--package", "xtask", "--", "bench"]).args(arguments);
    match command.status() {
        Ok(status) => status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from),
        Err(error) => {
            eprintln!("cargo run --release did not start: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(pairs: &[place::Pair], amount: Amount) -> Result<Report, rounds::Failure> {
    let Some((publish_pair, receive_pairs)) = pairs.split_first() else { return Err("no veth pairs".into()) };
    let receive_pairs = receive_pairs.first_chunk().ok_or("too few veth pairs")?;
    let load_before = load();
    let granted = place::settle();
    let mut parts = Vec::new();
    // All sending first: the receivers' stamps, once on, cost every frame of the machine something.
    for fields in streams::FIELDS {
        parts.push(Part::new(Side::Publish, fields, publish::measure(publish_pair, fields, amount)?)?);
    }
    for fields in streams::FIELDS {
        parts.push(Part::new(Side::Receive, fields, receive::measure(receive_pairs, fields, amount)?)?);
    }
    for fields in streams::CODEC_FIELDS {
        parts.push(Part::new(Side::Codec, fields, codec::measure(fields, amount)?)?);
    }
    parts.push(Part::new(Side::Dispatch, dispatch::FIELDS, dispatch::measure(amount)?)?);
    let load = [load_before, load()];
    Ok(Report { machine: Machine::read(), thread: granted.describe(), load, amount, parts })
}

/// How many threads wanted a processor, on average over the last minute.
fn load() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Options, String> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn arguments() {
        let amount = |blocks, batches| Amount { blocks, batches };
        assert_eq!(parsed(""), Ok(Options { amount: amount(60, 16), json: false }));
        let expected = Options { amount: amount(20, 2), json: true };
        assert_eq!(parsed("publish --blocks 20 --frames 65 --json"), Ok(expected));
        for (line, part) in [
            ("--blocks", "found nothing"),
            ("--blocks 0", "found 0"),
            ("--frames many", "found many"),
            ("subscribe", "no argument \"subscribe\""),
            ("--json publish", "no argument \"publish\""),
        ] {
            let error = parsed(line).unwrap_err();
            assert!(error.contains(part), "{line}: {error}");
        }
    }
}
