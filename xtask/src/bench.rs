//! `cargo xtask bench`: what the stack costs beside a bare socket, beside a loop written by hand and beside others.
//!
//! `publish`: for messages of 2, 8, 32 and 160 UInt64 (the papers' frame, Variants): sending, receiving, and the engine
//! without a socket; what a record of each frame and the kernel's stamps cost on top. All in one thread of one process, on
//! veth pairs in a network namespace of its own; the rows take turns, and ratios are formed within a block.

mod codec;
mod contest;
mod dispatch;
mod flood;
mod groups;
mod hand;
mod interop;
mod latency;
mod options;
mod place;
mod print;
mod publish;
mod real;
mod receive;
mod rounds;
mod soak;
mod statistics;
mod streams;
mod surroundings;
mod wire;

use std::process::ExitCode;

use serde_json::Value;

use crate::workspace::cargo;
use options::{HELP, Options, What};
use print::{Part, Report, Side};
use rounds::Failure;
use surroundings::Surroundings;

/// Runs `cargo xtask bench` with the arguments after `bench`.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    if let Some((of, rest)) = arguments.split_first()
        && let Some((bench, help)) = of_runs(of)
    {
        if asks_for_help(rest) {
            println!("{help}");
            return ExitCode::SUCCESS;
        }
        return if cfg!(debug_assertions) { in_release(arguments) } else { bench(rest) };
    }
    if asks_for_help(arguments) {
        println!("{HELP}");
        return ExitCode::SUCCESS;
    }
    let options = match options::parse(arguments) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("{error}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    if options.what.needs_network()
        && let Err(error) = place::check_rights()
    {
        eprintln!("{error}");
        return ExitCode::from(3);
    }
    if cfg!(debug_assertions) {
        return in_release(arguments);
    }
    match measure(&options) {
        Ok((_, json)) if options.json => println!("{json:#}"),
        Ok((text, _)) => print!("{text}"),
        Err(error) => {
            eprintln!("{error}");
            return if error.is::<place::NoNetwork>() { ExitCode::from(3) } else { ExitCode::FAILURE };
        }
    }
    ExitCode::SUCCESS
}

fn asks_for_help(arguments: &[String]) -> bool {
    arguments.iter().any(|argument| matches!(argument.as_str(), "--help" | "-h"))
}

/// What a bench of whole runs does with its arguments.
type WholeRun = fn(&[String]) -> ExitCode;

/// The benches of whole runs, and what tells how to call them.
fn of_runs(name: &str) -> Option<(WholeRun, &'static str)> {
    match name {
        "flood" => Some((flood::run, flood::HELP)),
        "soak" => Some((soak::run, soak::HELP)),
        _ => None,
    }
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

/// The results, for people and for machines.
fn measure(options: &Options) -> Result<(String, Value), Failure> {
    Ok(match options.what {
        What::Publish => {
            let report = publish_and_receive(options)?;
            (report.text(), report.json())
        }
        What::Wire => {
            let report = wire::measure(options.amount)?;
            (report.text(), report.json())
        }
        What::Loop => {
            let report = contest::measure(options)?;
            (report.text(), report.json())
        }
        What::Latency => {
            let report = latency::measure(options.amount.blocks)?;
            (report.text(), report.json())
        }
        What::Groups => {
            let report = groups::measure(options.amount)?;
            (report.text(), report.json())
        }
    })
}

fn publish_and_receive(options: &Options) -> Result<Report, Failure> {
    let amount = options.amount;
    let pairs = place::make_pairs(1 + receive::PAIRS)?;
    let Some((publish_pair, receive_pairs)) = pairs.split_first() else { return Err("no veth pairs".into()) };
    let receive_pairs = receive_pairs.first_chunk().ok_or("too few veth pairs")?;
    let surroundings = Surroundings::begin();
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
    Ok(Report { surroundings: surroundings.end(granted.describe()), amount, parts })
}
