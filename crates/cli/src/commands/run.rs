//! `downbeat run`: the scenario for real, on this machine.

use std::io::IsTerminal;
use std::path::PathBuf;

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use lab::{Link, Pause, Profile, Rights, RunOptions};
use measure::Live;
use rt::wait::Wait;
use scenario::Scenario;
use units::Nanos;

use crate::commands::latency;
use crate::output::{self, Failure, Outcome};

/// Name of the hidden command that plays one host.
pub(crate) const ROLE: &str = "internal-role";

/// Arguments of `run`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  sudo downbeat run two-hosts.toml --duration 10s --out runs/first
  sudo downbeat run two-hosts.toml --pause loop@3s+40ms     # stop a host and see what the report makes of it")]
pub(crate) struct Arguments {
    /// The scenario file
    file: PathBuf,
    /// Length of the run
    #[arg(long, value_name = "SPAN", default_value = "10s")]
    duration: Nanos,
    /// Length of the run in cycles
    #[arg(long, value_name = "N", conflicts_with = "duration")]
    cycles: Option<u32>,
    /// Folder for run.json, frames.parquet and scenario.toml [default: runs/NAME-TIME]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// No kernel timestamps: T2, T3, T6 and T7 stay empty
    #[arg(long)]
    no_stamps: bool,
    /// How frames come and go: auto, packet (sockets), ring (shared with the kernel) or xdp (past its stack)
    #[arg(long, value_name = "WAY", default_value = "auto")]
    link: Link,
    /// How cyclic threads wait: sleep, hybrid (and awake shortly before a frame leaves) or spin (never asleep)
    #[arg(long, value_name = "HOW", default_value = "hybrid")]
    wait: Wait,
    /// Do not ask for SCHED_FIFO, processors of one's own and locked memory
    #[arg(long)]
    no_realtime: bool,
    /// Stop a host for a while: HOST@WHEN+HOWLONG; may be given several times
    #[arg(long, value_name = "HOST@AT+SPAN")]
    pause: Vec<String>,
    /// Load beside the run: idle, cpu, memory, network, mixed
    #[arg(long, value_name = "PROFILE")]
    load: Option<Profile>,
    /// Print run.json to standard output
    #[arg(long)]
    json: bool,
}

impl Arguments {
    pub(crate) fn execute(self) -> Outcome {
        let scenario = output::read_scenario(&self.file)?;
        let duration = self.cycles.map_or(self.duration, |cycles| scenario.cycle * i64::from(cycles));
        if duration < scenario.cycle {
            return Err(Failure::input(format!(
                "a duration of {duration} holds no cycle of {}\n  mend: give a longer --duration, for example 10s",
                scenario.cycle
            )));
        }
        let folder = self.out.clone().unwrap_or_else(|| measure::run_folder(&scenario.name, lab::utc_seconds()));
        let rights = Rights::take(&folder)?;
        if rights == Rights::OwnUserNamespace {
            eprintln!("note: not root; the run has a user namespace of its own, without real-time priority");
        }
        let options = RunOptions {
            duration,
            link: self.link,
            wait: self.wait,
            rights,
            folder: folder.clone(),
            stamps: !self.no_stamps,
            realtime: !self.no_realtime,
            pauses: self.pause.iter().map(|text| pause(text, &scenario)).collect::<Result<_, _>>()?,
            load: self.load.map(latency::load_options).transpose()?,
            program: std::env::current_exe()
                .map_err(|error| Failure::machine(format!("finding this program's own file: {error}")))?,
            role_arguments: vec![ROLE.into()],
            command: std::iter::once("downbeat".into()).chain(std::env::args().skip(1)).collect::<Vec<_>>().join(" "),
        };
        let line = progress_line(duration);
        let outcome = lab::run(&scenario, &options, &mut |live, elapsed| show(&line, live, elapsed));
        line.finish_and_clear();
        // Everything is undone and written: from here on a closed pipe may end us.
        rt::process::die_on_broken_pipe();
        let outcome = outcome.map_err(Failure::from)?;
        for note in &outcome.notes {
            eprintln!("note: {note}");
        }
        if self.json {
            output::json(&outcome.run)?;
        } else {
            output::tell_run(&outcome.run);
            outcome.load.iter().for_each(latency::tell_load);
            println!("written to {}", folder.display());
        }
        Ok(output::verdict_code(&outcome.run))
    }
}

/// Reads HOST@AT+SPAN.
fn pause(text: &str, scenario: &Scenario) -> Result<Pause, Failure> {
    let wrong = |why: String| {
        Failure::input(format!("--pause {text}: {why}\n  mend: write HOST@WHEN+HOWLONG, for example loop@3s+40ms"))
    };
    let (host, when) = text.split_once('@').ok_or_else(|| wrong("there is no @".into()))?;
    let (at, lasting) = when.split_once('+').ok_or_else(|| wrong("there is no +".into()))?;
    let names = || scenario.hosts.iter().map(|host| host.name.as_str()).collect::<Vec<_>>().join(", ");
    let host = scenario.host_named(host).ok_or_else(|| wrong(format!("no host {host}; there are {}", names())))?;
    let span = |text: &str| text.parse::<Nanos>().map_err(|error| wrong(format!("`{text}` {error}")));
    Ok(Pause { host, at: span(at)?, lasting: span(lasting)? })
}

/// A line on the terminal; nothing elsewhere.
fn progress_line(duration: Nanos) -> ProgressBar {
    let shown = std::io::stderr().is_terminal();
    let target = if shown { ProgressDrawTarget::stderr_with_hz(5) } else { ProgressDrawTarget::hidden() };
    let line = ProgressBar::with_draw_target(Some(duration.0.unsigned_abs()), target);
    if let Ok(style) = ProgressStyle::with_template("{bar:24} {msg}") {
        line.set_style(style);
    }
    line
}

fn show(line: &ProgressBar, live: &Live, elapsed: Nanos) {
    if line.is_hidden() {
        return;
    }
    line.set_position(elapsed.0.max(0).unsigned_abs());
    let trip = live.recent_p50.map_or_else(|| "—".into(), |trip| format!("{:.1} µs", trip.as_micros_f64()));
    line.set_message(format!("{} frames · round trip {trip} · lost {}", live.frames, live.lost));
}
