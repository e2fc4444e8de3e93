//! The `downbeat` command: OPC UA PubSub over TSN, bounded, simulated and run from one scenario file.
#![forbid(unsafe_code)]

mod commands;
mod live;
mod metrics;
mod output;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use commands::role::{self, RoleArguments};
use lab::Part;
use output::Failure;

/// Counts allocations by thread, so that a run can say that its cycles had none.
#[global_allocator]
static ALLOCATOR: rt::alloc::Counting = rt::alloc::Counting;

/// OPC UA PubSub over TSN: one scenario file, run for real, bounded and simulated.
#[derive(Parser)]
#[command(
    name = "downbeat",
    version,
    arg_required_else_help = true,
    subcommand_required = true,
    after_help = "\
Example:
  downbeat init two-hosts > two-hosts.toml
  downbeat bound two-hosts.toml
  sudo downbeat run two-hosts.toml --duration 10s --out runs/first
  downbeat report runs/first --out report.html

Exit codes: 0 requirement met (or nothing required), 1 not met, 2 bad input, 3 this machine cannot,
4 a breach whose action is stop ended the run."
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Write a commented scenario template to standard output
    Init(commands::init::Arguments),
    /// Check a scenario file and tell everything that is wrong with it
    Check(commands::check::Arguments),
    /// Write what a scenario asks of Linux: tc, ip, ethtool, ptp4l
    Render(commands::render::Arguments),
    /// Make scenarios of other tools' files: TSN stream files, talker requests of detd
    Import(commands::import::Arguments),
    /// Write a scenario for other tools: TSN stream files, requests of detd, YANG instance data for switches
    Export(commands::export::Arguments),
    /// Compute worst-case delays in exact arithmetic
    Bound(commands::bound::Arguments),
    /// Run a scenario in virtual time
    Simulate(commands::simulate::Arguments),
    /// Run a scenario for real, in network namespaces of this machine (best as root)
    Run(commands::run::Arguments),
    /// Measure how late threads of this host wake up
    Latency(commands::latency::Arguments),
    /// Play the writers of one host on this machine, the other hosts being elsewhere
    #[command(after_help = role::PUBLISH_HELP)]
    Publish(RoleArguments),
    /// Play the readers of one host that answer, on this machine
    #[command(after_help = role::LOOPBACK_HELP)]
    Loopback(RoleArguments),
    /// Play the readers of one host that only read, on this machine
    #[command(after_help = role::SUBSCRIBE_HELP)]
    Subscribe(RoleArguments),
    /// Join the run folders of hosts on machines of their own into one
    Join(commands::join::Arguments),
    /// Ask something that runs: status, stop, rotate, drain
    Ctl(commands::ctl::Arguments),
    /// Put what a scenario asks of a host onto this machine: queues, gates, VLANs, clocks (needs root)
    #[command(after_help = commands::apply::HELP)]
    Apply(commands::apply::Arguments),
    /// Start and watch ptp4l and phc2sys: offsets, convergence, and the clock error they leave
    Ptp(commands::ptp::Arguments),
    /// Undo what apply, check --fix or a killed run changed on this machine (needs root)
    Restore(commands::restore::Arguments),
    /// Make one HTML page of run folders
    Report(commands::report::Arguments),
    /// Print a completion script for a shell
    #[command(after_help = "Example:\n  downbeat completions bash > /etc/bash_completion.d/downbeat")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// One host of a run; started by `run`
    #[command(name = commands::playing::ROLE, hide = true)]
    Role,
    /// The load beside a run or a latency test; started by `run` and `latency`
    #[command(name = commands::latency::LOAD, hide = true)]
    Load,
}

fn main() -> ExitCode {
    let command = Arguments::parse().command;
    // A reader that goes away (`downbeat bound … | head`) ends us quietly instead of by a panic; a run first undoes
    // what it made, and a load's parent hears of its end.
    let plays = matches!(
        command,
        Command::Run(_)
            | Command::Publish(_)
            | Command::Loopback(_)
            | Command::Subscribe(_)
            | Command::Role
            | Command::Latency(_)
            | Command::Ptp(_)
            | Command::Load
    );
    if !plays {
        rt::process::die_on_broken_pipe();
    }
    let outcome = match command {
        Command::Init(arguments) => arguments.execute(),
        Command::Check(arguments) => arguments.execute(),
        Command::Render(arguments) => arguments.execute(),
        Command::Import(arguments) => arguments.execute(),
        Command::Export(arguments) => arguments.execute(),
        Command::Bound(arguments) => arguments.execute(),
        Command::Simulate(arguments) => arguments.execute(),
        Command::Run(arguments) => arguments.execute(),
        Command::Latency(arguments) => arguments.execute(),
        Command::Publish(arguments) => arguments.execute(Part::Publish),
        Command::Loopback(arguments) => arguments.execute(Part::Loopback),
        Command::Subscribe(arguments) => arguments.execute(Part::Subscribe),
        Command::Join(arguments) => arguments.execute(),
        Command::Ctl(arguments) => arguments.execute(),
        Command::Apply(arguments) => arguments.execute(),
        Command::Ptp(arguments) => arguments.execute(),
        Command::Restore(arguments) => arguments.execute(),
        Command::Report(arguments) => arguments.execute(),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Arguments::command(), "downbeat", &mut std::io::stdout());
            Ok(output::MET)
        }
        Command::Role => Ok(station::role_process()),
        Command::Load => Ok(lab::load_process()),
    };
    ExitCode::from(outcome.unwrap_or_else(Failure::tell))
}
