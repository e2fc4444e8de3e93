//! `downbeat ptp`: starts and watches clock synchronisation, and shows what came of it.

mod tell;

use std::fs::File;
use std::io::{self, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;

use clap::{Args, Subcommand};
use measure::{PTP_FILE, PtpFile, read_ptp, run_folder, write_ptp};
use ptp::{Children, Facts, Launcher, Options, PtpError, Setup, follow};
use units::Nanos;

use super::latency::duration;
use super::settings::Settings;
use crate::output::{self, Failure, MET, NOT_MET, Outcome};

/// Samples that are kept: two weeks of eight a second.
const ROWS: u64 = 10_000_000;

/// Arguments of `ptp`.
#[derive(Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "\
Examples:
  sudo downbeat ptp run plant.toml --host pub --duration 22h --out runs/pub-clock
  sudo downbeat ptp watch --duration 10m                # what systemd or `downbeat apply` started
  downbeat ptp report runs/pub-clock runs/loop-clock    # a page, and the clock error of both ends together

See docs/ptp.md."
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Start ptp4l and phc2sys as a scenario plans them for a host, and watch them (needs root)
    Run(Run),
    /// Watch a ptp4l that runs already
    Watch(Watch),
    /// Make one HTML page of what was watched, and state the clock error
    Report(Report),
    /// A program that ends with us; started by `ptp run`
    #[command(name = CHILD, hide = true)]
    Child {
        program: PathBuf,
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

const CHILD: &str = "internal-child";

/// What both ways of watching take.
#[derive(Args)]
struct Common {
    /// End after this time; without, at Ctrl-C
    #[arg(short = 'D', long, value_name = "TIME", value_parser = duration)]
    duration: Option<Nanos>,
    /// From one question to ptp4l to the next
    #[arg(long, value_name = "SPAN", default_value = "50ms", value_parser = poll)]
    poll: Nanos,
    /// Samples that are kept in files; the oldest go first
    #[arg(long, value_name = "N", default_value_t = ROWS)]
    rows: u64,
    /// The folder to write [default: runs/ptp-NAME-DATE]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Exit code 1 when the clock error is larger than this, or unknown
    #[arg(long, value_name = "SPAN")]
    limit: Option<Nanos>,
    /// Print ptp.json to standard output
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
#[command(after_help = "\
The processes end with the command; Ctrl-C ends them and keeps the result. Exit codes: 0 watched, 1 --limit was passed,
2 bad input, 3 this machine cannot, or ptp4l ended by itself.")]
struct Run {
    /// The scenario file
    file: PathBuf,
    #[command(flatten)]
    settings: Settings,
    /// The host that this machine is
    #[arg(long, value_name = "NAME")]
    host: String,
    /// Steer no clock, only look: where both ends share one clock, as network namespaces do
    #[arg(long)]
    free_running: bool,
    #[command(flatten)]
    common: Common,
}

#[derive(Args)]
#[command(after_help = "\
Example:
  journalctl -fu downbeat-phc2sys -o cat | sudo downbeat ptp watch --log - --duration 1h

Offsets of phc2sys and states of servos stand in logs alone: give one with --log to have them.")]
struct Watch {
    /// The socket of ptp4l (uds_address)
    #[arg(long, value_name = "PATH", default_value = "/var/run/ptp4l")]
    uds: PathBuf,
    /// domainNumber of its configuration
    #[arg(long, value_name = "N", default_value_t = 0)]
    domain: u8,
    /// Read lines of ptp4l and phc2sys here too; `-` is standard input
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
}

#[derive(Args)]
struct Report {
    /// Folders of `ptp run` and `ptp watch`, one an end
    #[arg(required = true)]
    dirs: Vec<PathBuf>,
    /// The page to write; `-` is standard output [default: ptp.html in the first folder]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Exit code 1 when the clock error of the ends together is larger than this, or unknown
    #[arg(long, value_name = "SPAN")]
    limit: Option<Nanos>,
}

fn poll(text: &str) -> Result<Nanos, String> {
    let span: Nanos = text.parse().map_err(|error| format!("{error}"))?;
    let range = Nanos::from_millis(5)..=Nanos::from_millis(10_000);
    if range.contains(&span) { Ok(span) } else { Err("5ms to 10s expected".into()) }
}

impl From<PtpError> for Failure {
    fn from(error: PtpError) -> Self {
        match error {
            PtpError::Input(text) => Self::input(text),
            PtpError::Machine(text) => Self::machine(text),
        }
    }
}

impl Arguments {
    pub(crate) fn execute(self) -> Outcome {
        match self.command {
            Command::Run(run) => run.execute(),
            Command::Watch(watch) => watch.execute(),
            Command::Report(report) => report.execute(),
            Command::Child { program, arguments } => {
                rt::process::die_with_parent();
                let error = std::process::Command::new(&program).args(arguments).exec();
                Err(Failure::machine(format!("{}: {error}", program.display())))
            }
        }
    }
}

impl Common {
    /// The folder, made where it is missing.
    fn folder(&self, name: &str) -> Result<PathBuf, Failure> {
        let dir = self.out.clone().unwrap_or_else(|| run_folder(&format!("ptp-{name}"), lab::utc_seconds()));
        if dir.join(PTP_FILE).exists() {
            return Err(Failure::input(format!(
                "{} holds a result already\n  mend: name another folder with --out, or remove it",
                dir.display()
            )));
        }
        std::fs::create_dir_all(&dir).map_err(|error| Failure::machine(format!("{}: {error}", dir.display())))?;
        Ok(dir)
    }

    fn options(&self, uds: PathBuf, domain: u8, dir: &Path) -> Options {
        Options { uds, domain, poll: self.poll, duration: self.duration, rows: self.rows, dir: dir.to_owned() }
    }

    /// Completes a result, writes and tells it.
    fn conclude(&self, mut file: PtpFile, dir: &Path) -> Outcome {
        file.command = std::iter::once("downbeat".into()).chain(std::env::args().skip(1)).collect::<Vec<_>>().join(" ");
        file.machine = lab::host_machine();
        write_ptp(dir, &file).map_err(|error| Failure::machine(error.to_string()))?;
        if self.json {
            output::json(&file)?;
        } else {
            tell::result(&file);
            println!("written to {}; `downbeat ptp report {0}` makes a page of it", dir.display());
        }
        let error = file.clock_error.as_ref().map(|error| error.epsilon_ns);
        Ok(if passed(self.limit, error) { NOT_MET } else { MET })
    }
}

/// Whether a limit is passed; what is unknown passes it.
fn passed(limit: Option<Nanos>, error_ns: Option<i64>) -> bool {
    limit.is_some_and(|limit| error_ns.is_none_or(|error| error > limit.0))
}

impl Run {
    fn execute(self) -> Outcome {
        let scenario = self.settings.read(&self.file)?;
        let Some(host) = scenario.host_named(&self.host) else {
            let names: Vec<&str> = scenario.hosts.iter().map(|host| host.name.as_str()).collect();
            return Err(Failure::input(format!("there is no host {}; there are {}", self.host, names.join(", "))));
        };
        let setup = Setup::of(&scenario, host, self.free_running)?;
        let interrupted = lab::interrupt_flag().map_err(Failure::from)?;
        let dir = self.common.folder(&self.host)?;
        let own =
            std::env::current_exe().map_err(|error| Failure::machine(format!("where this program is: {error}")))?;
        let launcher = Launcher { program: own, arguments: vec!["ptp".into(), CHILD.into()] };
        let (sender, lines) = mpsc::channel();
        let quiet = self.common.json;
        for note in setup.notes.iter().filter(|_| !quiet) {
            println!("note: {note}");
        }
        let facts =
            Facts { started: true, free_running: Some(setup.free_running), stamps: Some(setup.stamps()), log: true };
        let mut children = Children::start(&setup, &launcher, &dir, &sender)?;
        let options = self.common.options(children.socket(), setup.domain, &dir);
        let mut ended_early = None;
        let watched = {
            let mut ended = || {
                ended_early = children.ended();
                ended_early.clone()
            };
            ptp::watch(&options, &facts, &lines, &interrupted, &mut ended, &mut |event| {
                tell::event(event, quiet);
            })
        };
        children.end();
        // Everything has ended: from here on a closed pipe may end us.
        rt::process::die_on_broken_pipe();
        let mut file = watched?;
        file.host = Some(self.host);
        file.scenario = Some(scenario.name.clone());
        file.notes.splice(0..0, setup.notes);
        let code = self.common.conclude(file, &dir)?;
        match ended_early {
            Some(why) => Err(Failure::machine(format!(
                "{why} before the watch did\n  mend: what it said stands above as faults; its configuration is {}/{}.conf",
                dir.display(),
                why.split(' ').next().unwrap_or("ptp4l")
            ))),
            None => Ok(code),
        }
    }
}

impl Watch {
    fn execute(self) -> Outcome {
        let interrupted = lab::interrupt_flag().map_err(Failure::from)?;
        let (sender, lines) = mpsc::channel();
        if let Some(path) = &self.log {
            if path.as_os_str() == "-" {
                follow(BufReader::new(io::stdin()), sender);
            } else {
                let file = File::open(path).map_err(|error| Failure::input(format!("{}: {error}", path.display())))?;
                follow(BufReader::new(file), sender);
            }
        }
        let dir = self.common.folder("watch")?;
        let options = self.common.options(self.uds, self.domain, &dir);
        let facts = Facts { log: self.log.is_some(), ..Facts::default() };
        let quiet = self.common.json;
        let watched = ptp::watch(&options, &facts, &lines, &interrupted, &mut || None, &mut |event| {
            tell::event(event, quiet);
        });
        rt::process::die_on_broken_pipe();
        if watched.is_err() {
            // Of nothing there is no folder; one that holds anything stays.
            _ = std::fs::remove_dir(&dir);
        }
        self.common.conclude(watched?, &dir)
    }
}

impl Report {
    fn execute(self) -> Outcome {
        let mut ends = Vec::new();
        for dir in &self.dirs {
            if !dir.join(PTP_FILE).exists() {
                return Err(Failure::input(format!(
                    "{} holds no {PTP_FILE}\n  mend: name folders of `downbeat ptp run` and `downbeat ptp watch`",
                    dir.display()
                )));
            }
            let file = read_ptp(dir).map_err(|error| Failure::input(error.to_string()))?;
            let name =
                dir.file_name().map_or_else(|| dir.display().to_string(), |name| name.to_string_lossy().into_owned());
            ends.push((name, file));
        }
        let page = report::ptp_page(&ends);
        let together = tell::together(&ends);
        let out = self.out.unwrap_or_else(|| self.dirs[0].join("ptp.html"));
        if out.as_os_str() == "-" {
            print!("{page}");
        } else {
            std::fs::write(&out, &page)
                .map_err(|error| Failure::machine(format!("writing {}: {error}", out.display())))?;
            println!("{}", together.words);
            println!("written to {}: open it in a browser, it needs no network", out.display());
        }
        Ok(if passed(self.limit, together.epsilon_ns) { NOT_MET } else { MET })
    }
}
