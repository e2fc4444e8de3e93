//! What `run` and the roles have in common: how to play, the line on the terminal, and the telling of the result.

use std::io::IsTerminal;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use lab::{
    ControlSocket, ImageFolder, LabError, Lateness, Launch, Link, LoadOptions, Pause, Place, RunOptions, RunOutcome,
    Scheduling, Wake, WantedStamps,
};
use measure::{Live, Side};
use rt::wait::Wait;
use scenario::{ApplicationKind, Scenario, StreamEnd};
use units::Nanos;

use crate::commands::latency;
use crate::commands::told::Told;
use crate::live::{self, Screen, Shared, Watcher};
use crate::metrics;
use crate::output::{self, Failure, Outcome};

/// Name of the hidden command that plays one host.
pub(crate) const ROLE: &str = "internal-role";

/// How to play.
#[derive(Args)]
pub(crate) struct Playing {
    /// Folder for run.json, frames.parquet and scenario.toml [default: runs/NAME-TIME]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// By whose clock frames are stamped: auto, software (the kernel), hardware (the network card) or off (T2, T3, T6
    /// and T7 stay empty); auto takes hardware where the card has it and its clock shows TAI (docs/stamps.md)
    #[arg(long, value_name = "WHOSE", default_value = "auto")]
    stamps: WantedStamps,
    /// How frames come and go: auto, packet (sockets), ring (shared with the kernel) or xdp (past its stack)
    #[arg(long, value_name = "WAY", default_value = "auto")]
    link: Link,
    /// Who keeps launch times: auto, pace (this program's thread) or txtime (a queue of the kernel that keeps them)
    #[arg(long, value_name = "WHO", default_value = "auto")]
    launch: Launch,
    /// How cyclic threads wait: sleep, hybrid (and awake shortly before a frame leaves) or spin (never asleep)
    /// [default: hybrid; in the kernel laboratory sleep]
    #[arg(long, value_name = "HOW")]
    wait: Option<Wait>,
    /// What wakes cyclic threads: monotonic (a timer), or once a cycle the clock of a network card, ptp:/dev/ptpN or
    /// ptp:IFACE, whose periodic output is wired to an input; ptp:DEVICE:out=PIN,in=PIN names the pins (docs/wake.md)
    #[arg(long, value_name = "CLOCK", default_value = "monotonic")]
    wake: Wake,
    /// Scheduling of cyclic threads: fifo (SCHED_FIFO 80), deadline (SCHED_DEADLINE, a share of a processor that follows from
    /// the cycle and its phases) or none; what the kernel refuses is told
    #[arg(long, value_name = "CLASS", default_value = "fifo", conflicts_with = "no_realtime")]
    scheduling: Scheduling,
    /// Do not ask for SCHED_FIFO, processors of one's own and locked memory
    #[arg(long)]
    no_realtime: bool,
    /// Begin a new part folder every so often: memory stays flat however long it goes on [default: 10min for what goes on for
    /// longer than 30min, or without an end]
    #[arg(long, value_name = "SPAN")]
    rotate_every: Option<Nanos>,
    /// Unix socket for `downbeat ctl` [default: NAME.sock in $XDG_RUNTIME_DIR/downbeat, /run/downbeat or
    /// /tmp/downbeat-UID]
    #[arg(long, value_name = "PATH", conflicts_with = "no_control")]
    control: Option<PathBuf>,
    /// No control socket
    #[arg(long)]
    no_control: bool,
    /// Folder where the process images of applications outside are offered [default: NAME.images beside the control
    /// socket]; only for scenarios with `application = "image"`
    #[arg(long, value_name = "DIR")]
    image: Option<PathBuf>,
    /// Draw the run on the terminal while it goes on: q ends it, p freezes the picture, ↑↓ choose a stream
    #[arg(long)]
    live: bool,
    /// Serve figures for Prometheus at http://ADDRESS:PORT/metrics while the run goes on; a bare port is on 127.0.0.1
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = metrics::address)]
    metrics: Option<SocketAddr>,
    /// Print run.json to standard output
    #[arg(long)]
    json: bool,
}

/// What to play.
pub(crate) struct Plan {
    /// For how long; none until stopped.
    pub(crate) duration: Option<Nanos>,
    pub(crate) folder: PathBuf,
    pub(crate) place: Place,
    pub(crate) pauses: Vec<Pause>,
    pub(crate) lateness: Vec<Lateness>,
    /// What keeps the machine busy meanwhile.
    pub(crate) load: Option<LoadOptions>,
    pub(crate) control: Option<ControlSocket>,
    /// Where images of applications outside are offered.
    pub(crate) images: Option<Arc<ImageFolder>>,
    /// Where metrics are served.
    pub(crate) listener: Option<TcpListener>,
}

/// What goes on for longer than [`LONG`], or without an end, begins a new part this often, if nothing else is said: rows are
/// kept in memory until they are written.
const PART_OF_A_LONG_RUN: Nanos = Nanos::from_millis(600_000);
/// What ends before has one part.
const LONG: Nanos = Nanos::from_millis(1_800_000);
/// Shortest part: the messages under way at its cut are a second's.
const SHORTEST_PART: Nanos = Nanos::from_millis(2_000);

/// How long a part is of what goes on for so long; none where there is one.
fn part_of(duration: Option<Nanos>) -> Option<Nanos> {
    duration.is_none_or(|duration| duration > LONG).then_some(PART_OF_A_LONG_RUN)
}

impl Playing {
    /// The folder that was named, or one named after the scenario and the time.
    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        self.out.clone().unwrap_or_else(|| measure::run_folder(name, lab::utc_seconds()))
    }

    /// Opens the control socket, unless there shall be none.
    pub(crate) fn open_control(&self, name: &str) -> Result<Option<ControlSocket>, Failure> {
        if self.no_control {
            return Ok(None);
        }
        let path = self.control.clone().unwrap_or_else(|| lab::control_folder().join(format!("{name}.sock")));
        match ControlSocket::open(&path) {
            Ok(socket) => Ok(Some(socket)),
            // Nobody asked for it: without a place for it the run goes on.
            Err(error @ (LabError::Io { .. } | LabError::Host { .. })) if self.control.is_none() => {
                eprintln!("note: no control socket: {error}");
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The folder of images, if an end that `drives` names has an application outside; tells where they will be. Before
    /// the run has mounts of its own.
    pub(crate) fn open_images(
        &self,
        name: &str,
        scenario: &Scenario,
        drives: impl Fn(usize, Side) -> bool,
    ) -> Result<Option<Arc<ImageFolder>>, Failure> {
        let default = || lab::control_folder().join(format!("{name}.images"));
        let folder = ImageFolder::open(scenario, &drives, self.image.clone().unwrap_or_else(default))?;
        match &folder {
            Some(folder) => {
                folder.paths().for_each(|path| eprintln!("image for an application: {}", path.display()));
                tell_unsaid(scenario, drives);
            }
            None if self.image.is_some() => {
                eprintln!("note: --image is of no use: no end here has `application = \"image\"` in the scenario")
            }
            None => {}
        }
        Ok(folder.map(Arc::new))
    }

    /// Checks what can be wrong before anything is opened.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if self.scheduling == Scheduling::Deadline && self.wait == Some(Wait::Spin) {
            return Err(Failure::input(
                "--scheduling deadline with --wait spin: a thread that never sleeps has no share of a processor, it takes \
                 all of one\n  mend: take --wait hybrid or sleep, or --scheduling fifo",
            ));
        }
        if self.wake != Wake::Monotonic && self.wait == Some(Wait::Spin) {
            return Err(Failure::input(format!(
                "--wake {} with --wait spin: a thread that never sleeps is not woken\n  mend: take --wait hybrid or sleep, or \
                 leave --wake out",
                self.wake
            )));
        }
        match self.rotate_every {
            Some(every) if every < SHORTEST_PART => Err(Failure::input(format!(
                "--rotate-every {every}: a part holds at least {SHORTEST_PART}\n  mend: give a longer span, for example 10min"
            ))),
            _ => Ok(()),
        }?;
        if self.live {
            live::can_draw().map_err(|why| {
                Failure::input(format!(
                    "--live draws on a terminal, and {why}\n  mend: leave --live out; --metrics gives the figures without \
                     a terminal"
                ))
            })?;
        }
        Ok(())
    }

    /// Refuses what cannot be had where time is virtual.
    pub(crate) fn check_virtual_time(&self) -> Result<(), Failure> {
        let refused = |what: &str, why: &str, mend: &str| {
            Err(Failure::input(format!("{what} with --in kernel-lab: {why}\n  mend: {mend}")))
        };
        match self.wait {
            None | Some(Wait::Sleep) => {}
            Some(wait) => {
                return refused(
                    &format!("--wait {wait}"),
                    "virtual time moves only while everything sleeps, so threads there sleep (and wake up in time)",
                    "leave --wait out",
                );
            }
        }
        let alone = "a run there is over in a moment, and has no network with the outside";
        match () {
            () if self.scheduling == Scheduling::Deadline => refused(
                "--scheduling deadline",
                "computing takes no time there, so no share of a processor does anything",
                "leave it out",
            ),
            () if self.wake != Wake::Monotonic => refused(
                &format!("--wake {}", self.wake),
                "no clock there gives events; in virtual time timers wake in time",
                "leave it out",
            ),
            () if self.live => refused("--live", alone, "leave it out"),
            () if self.metrics.is_some() => refused("--metrics", alone, "leave it out; the figures are in run.json"),
            () if self.image.is_some() => refused("--image", alone, "leave it out"),
            () if self.control.is_some() => refused("--control", alone, "leave it out; Ctrl-C stops the run"),
            () => Ok(()),
        }
    }

    /// The options that a run inside the laboratory takes over.
    pub(crate) fn options_for_inside(&self) -> Vec<String> {
        // Where computing takes no time, priority changes nothing, and there is one processor.
        let mut options = vec!["--no-control".into(), "--no-realtime".into()];
        options.extend(["--link".into(), self.link.to_string(), "--launch".into(), self.launch.to_string()]);
        options.extend(["--stamps".into(), self.stamps.to_string()]);
        if let Some(every) = self.rotate_every {
            options.extend(["--rotate-every".into(), format!("{}ns", every.0)]);
        }
        options
    }

    /// Whether run.json goes to standard output.
    pub(crate) fn wants_json(&self) -> bool {
        self.json
    }

    /// Where metrics will be served; opened before the run has a network of its own, and before anything is made.
    pub(crate) fn listen(&self) -> Result<Option<TcpListener>, Failure> {
        self.metrics.map(metrics::listen).transpose()
    }

    /// Plays it, tells the result and gives the exit code.
    pub(crate) fn play(&self, scenario: &Scenario, plan: Plan) -> Outcome {
        let options = RunOptions {
            duration: plan.duration,
            link: self.link,
            launch: self.launch,
            wait: self.wait.unwrap_or(match plan.place {
                Place::KernelLab(_) => Wait::Sleep,
                _ => Wait::default(),
            }),
            wake: self.wake.clone(),
            place: plan.place,
            folder: plan.folder,
            stamps: self.stamps,
            realtime: !self.no_realtime,
            scheduling: self.scheduling,
            rotate_every: self.rotate_every.or(part_of(plan.duration)),
            pauses: plan.pauses,
            lateness: plan.lateness,
            images: plan.images,
            load: plan.load,
            program: std::env::current_exe()
                .map_err(|error| Failure::machine(format!("finding this program's own file: {error}")))?,
            role_arguments: vec![ROLE.into()],
            command: std::iter::once("downbeat".into()).chain(std::env::args().skip(1)).collect::<Vec<_>>().join(" "),
        };
        let shared = (self.live || plan.listener.is_some()).then(|| Shared::new(scenario, options.duration));
        let server = match (plan.listener, &shared) {
            (Some(listener), Some(shared)) => Some(serve(listener, shared)?),
            _ => None,
        };
        let wait = lab::wait_for_gates(scenario);
        if wait > Nanos::ZERO {
            let second = Nanos::from_millis(1_000);
            eprintln!("note: waiting {} s for the base-time of the gates: until then all are open", wait / second + 1);
        }
        let outcome = watched(scenario, &options, plan.control, shared, self.live);
        drop(server);
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
            println!("written to {}", options.folder.display());
        }
        Ok(output::run_code(&outcome.run))
    }
}

/// Tells of which outputs of applications outside the status goes nowhere.
fn tell_unsaid(scenario: &Scenario, drives: impl Fn(usize, Side) -> bool) {
    for (index, stream) in scenario.streams.iter().enumerate().filter(|(_, stream)| !stream.sends_status(scenario)) {
        let publishes = |(end, side)| {
            let outside = stream.application(end) == ApplicationKind::Image && drives(index, side);
            outside && (side == Side::Writer || stream.echo)
        };
        if [(StreamEnd::Writer, Side::Writer), (StreamEnd::Reader, Side::Reader)].into_iter().any(publishes) {
            eprintln!(
                "note: messages of stream {} have no Status: what its application says of its outputs, or its end, does not \
                 reach the other side; `encoding = \"raw\"` has one",
                stream.name
            );
        }
    }
}

/// Serves metrics from now on, and tells where.
fn serve(listener: TcpListener, shared: &Arc<Shared>) -> Result<metrics::Server, Failure> {
    let server = metrics::serve(listener, Arc::clone(shared))
        .map_err(|error| Failure::machine(format!("serving metrics: {error}")))?;
    let address = server.address();
    eprintln!("metrics: http://{address}/metrics");
    if !address.ip().is_loopback() {
        eprintln!("note: whoever reaches {address} can read them");
    }
    Ok(server)
}

/// Runs, and shows on the terminal how it goes: all of it, or a line.
fn watched(
    scenario: &Scenario,
    options: &RunOptions,
    control: Option<ControlSocket>,
    shared: Option<Arc<Shared>>,
    on_screen: bool,
) -> Result<RunOutcome, LabError> {
    let line = progress_line(options.duration, on_screen);
    let (mut screen, mut told) = (None, Told::default());
    let mut progress = |live: &Live, elapsed: Nanos| {
        for words in told.news(scenario, live).into_iter().filter(|_| !on_screen) {
            line.suspend(|| eprintln!("{words}"));
        }
        show(&line, live, elapsed);
    };
    let outcome = match shared {
        None => lab::run(scenario, options, control, &mut progress),
        Some(shared) => {
            // Not before the run begins: until then errors and Ctrl-C need an ordinary terminal.
            let begun = || {
                if on_screen {
                    match Screen::open(Arc::clone(&shared)) {
                        Ok(opened) => screen = Some(opened),
                        Err(error) => eprintln!("note: the live view cannot be drawn: {error}; the run goes on"),
                    }
                }
            };
            lab::run(scenario, options, control, &mut Watcher::new(Arc::clone(&shared), begun, progress))
        }
    };
    drop(screen);
    line.finish_and_clear();
    outcome
}

/// A line on the terminal; nothing elsewhere.
fn progress_line(duration: Option<Nanos>, on_screen: bool) -> ProgressBar {
    let shown = !on_screen && std::io::stderr().is_terminal();
    let target = if shown { ProgressDrawTarget::stderr_with_hz(5) } else { ProgressDrawTarget::hidden() };
    let line = ProgressBar::with_draw_target(duration.map(|duration| duration.0.unsigned_abs()), target);
    let template = if duration.is_some() { "{bar:24} {msg}" } else { "{spinner} {msg}" };
    if let Ok(style) = ProgressStyle::with_template(template) {
        line.set_style(style);
    }
    line
}

fn show(line: &ProgressBar, live: &Live, elapsed: Nanos) {
    if line.is_hidden() {
        return;
    }
    if elapsed < Nanos::ZERO {
        return line.set_message(live::begins_in(elapsed));
    }
    line.set_position(elapsed.0.unsigned_abs());
    let trip = live.recent_p50.map_or_else(|| "—".into(), |trip| format!("{:.1} µs", trip.as_micros_f64()));
    let elapsed = Nanos(elapsed.0 - elapsed.0 % 1_000_000_000);
    line.set_message(format!("{elapsed} · {} frames · round trip {trip} · lost {}", live.frames, live.lost));
}
