//! A run: sets the network up, starts the hosts, collects their traces, takes everything down again.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use measure::{Collector, Event, FrameRow, Incident, Kind, Live, LoadReport, Machine, RunFile, kinds};
use rt::wait::Wait;
pub use scenario::Pause;
use scenario::Scenario;
use serde_json::json;
use station::{Launch, Link, Scheduling, Wake, WantedStamps};
use units::{Nanos, Tai};

use crate::control::{Control, Desk, Status};
use crate::drains::Drains;
use crate::error::LabError;
use crate::hook::Breaches;
use crate::host::Hosts;
use crate::images::{ImageFolder, Offered};
use crate::lateness::{LateHosts, Lateness};
use crate::load::{Load, LoadOptions};
use crate::lost::Lost;
use crate::machine;
use crate::rotation::Rotation;
use crate::socket::ControlSocket;
use crate::stamps::{self, RunStamps};
use crate::start::{self, Waiting};
use crate::venue::{Place, Venue};
use crate::wake::Bell;
use crate::watch::{Beginning, TraceState, Turn, Watch};

/// How often the parent empties the trace rings.
const TURN: Duration = Duration::from_millis(20);

/// How to run.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// The run ends after so long; none goes on until it is stopped.
    pub duration: Option<Nanos>,
    /// Where the results go.
    pub folder: PathBuf,
    /// By whose clock frames are stamped (T2, T3, T6, T7).
    pub stamps: WantedStamps,
    /// Whether to ask for processors, locked memory and a real-time class.
    pub realtime: bool,
    /// Which class.
    pub scheduling: Scheduling,
    /// By which way frames come and go.
    pub link: Link,
    /// Who keeps launch times.
    pub launch: Launch,
    /// How cyclic threads wait.
    pub wait: Wait,
    /// What wakes them.
    pub wake: Wake,
    /// Where it takes place.
    pub place: Place,
    /// A part folder is written, and its rows leave the memory, every so often.
    pub rotate_every: Option<Nanos>,
    /// Hosts to stop (SIGSTOP) for a while, to see what a run makes of it.
    pub pauses: Vec<Pause>,
    /// Hosts that are to wake up late, where none would: in the kernel laboratory.
    pub lateness: Vec<Lateness>,
    /// Where the images of applications outside are offered, if the scenario has such ends.
    pub images: Option<Arc<ImageFolder>>,
    /// What keeps the machine busy meanwhile.
    pub load: Option<LoadOptions>,
    /// The program that `station::role_process` answers in when started with [`Self::role_arguments`].
    pub program: PathBuf,
    /// Arguments that make it a role process.
    pub role_arguments: Vec<String>,
    /// The command line, for the result.
    pub command: String,
}

/// What a run left.
#[derive(Debug)]
pub struct RunOutcome {
    /// The result, as written to `run.json`.
    pub run: RunFile,
    /// The frames, as written to `frames.parquet`; empty after a rotation, which leaves them in the parts.
    pub rows: Vec<FrameRow>,
    /// Plain words for the user: what was not granted, what ended early.
    pub notes: Vec<String>,
    /// What the load beside it reached, as in `machine.load` of `run.json`.
    pub load: Option<LoadReport>,
}

/// Runs a scenario on this machine and writes the run folder.
///
/// `watch` is told of every event, and called about every 20 ms; whoever connects to `control` can ask for the status,
/// a rotation, the end.
///
/// # Errors
/// The machine or the scenario does not allow it. Whatever was set up is undone first.
pub fn run(
    scenario: &Scenario,
    options: &RunOptions,
    control: Option<ControlSocket>,
    watch: &mut dyn Watch,
) -> Result<RunOutcome, LabError> {
    // Before anything is made: nobody waits for years.
    start::to_wait(scenario, rt::clock::now())?;
    let mut notes = Vec::new();
    let mut venue = Venue::find(scenario, &options.place, &mut notes)?;
    // What its clock cannot do is better known before anything is made.
    let bell = Bell::open(&options.wake, scenario, |stream, side| venue.has(scenario, stream, side))?;
    let stamps = RunStamps::find(scenario, &options.place, options.stamps)?;
    let interrupted = interrupt_flag()?;
    // Before the network: a folder that cannot be written is better known now than after the run.
    make_folder(options)?;
    let desk = Arc::new(Desk::default());
    let measured = control.map(|socket| Control::serve(socket, Arc::clone(&desk))).transpose().and_then(|control| {
        let measured = measured(scenario, options, (&mut venue, bell.as_ref(), stamps), &interrupted, &desk, watch);
        drop(control);
        measured
    });
    let undone = venue.undo();
    if measured.is_err() {
        // Only an empty folder goes.
        _ = std::fs::remove_dir(&options.folder);
    }
    let mut measured = measured?;
    undone?;
    notes.append(&mut measured.notes);

    if measured.rotation.has_begun() {
        // What held a host up may be in an earlier part.
        measured.incidents.extend(measured.lost.incidents(&measured.incidents));
        let run = measured.rotation.finish(measured.collector, measured.machine, measured.incidents)?;
        return Ok(RunOutcome { run, rows: Vec::new(), notes, load: measured.load });
    }
    let failed = |source| LabError::Results { folder: options.folder.clone(), source };
    if venue.is_one_of_several() {
        measured.collector.write_ends(&options.folder, scenario).map_err(failed)?;
    }
    let mut observations = measured.collector.finish(scenario);
    observations.incidents.append(&mut measured.incidents);
    observations.incidents.extend(measured.lost.incidents(&observations.incidents));
    observations.incidents.sort_by_key(|incident| incident.at_ns);
    let nothing_ran = observations.rows.is_empty() && observations.hosts.is_empty();
    if nothing_ran && interrupted.load(Ordering::Relaxed) {
        _ = std::fs::remove_file(options.folder.join(measure::ENDS_FILE));
        // Only if nothing else has come to be in it.
        _ = std::fs::remove_dir(&options.folder);
        return Err(LabError::Interrupted);
    }
    let run = measure::summarise(scenario, &observations, Kind::Measured, measured.machine);
    measure::write_run(&options.folder, scenario, &run, &observations.rows).map_err(failed)?;
    Ok(RunOutcome { run, rows: observations.rows, notes, load: measured.load })
}

/// What the running part hands to the summary.
struct Measured {
    collector: Collector,
    rotation: Rotation,
    machine: Machine,
    incidents: Vec<Incident>,
    notes: Vec<String>,
    load: Option<LoadReport>,
    lost: Lost,
}

fn measured(
    scenario: &Scenario,
    options: &RunOptions,
    (venue, bell, mut stamps): (&mut Venue, Option<&Bell>, RunStamps),
    interrupted: &AtomicBool,
    desk: &Desk,
    watch: &mut dyn Watch,
) -> Result<Measured, LabError> {
    venue.create(scenario, options.link)?;
    let mut machine = machine::describe(scenario, options, venue);
    if !options.lateness.is_empty() {
        let told = |late: &Lateness| (scenario.host(late.host).name.clone(), json!(late.told));
        let told: Machine = options.lateness.iter().map(told).collect();
        machine.insert("host_latency".into(), told.into());
    }
    let load = options.load.as_ref().map(|load| Load::start(load, interrupted)).transpose()?;
    if let Some(pid) = load.as_ref().and_then(Load::pid) {
        venue.started(pid)?;
    }
    if let Some(bell) = bell {
        machine.insert("wake_clock".into(), bell.describe());
    }
    let mut hosts = Hosts::start(scenario, options, venue, (bell, &stamps))?;
    stamps.keep(&hosts.reached());
    machine.insert("stamps".into(), stamps::told(&hosts.reached()).into());
    let kept = hosts.launches_kept(scenario);
    if !kept.is_empty() {
        machine.insert("launch_kept".into(), kept.into());
    }
    let dropped_before = machine::backlog_drops();
    let cycle = scenario.cycle;
    let granted: Vec<_> = hosts.granted().collect();
    watch.begins(&Beginning { rights: options.place.rights_name(), granted: &granted });
    *desk.status() = first_status(scenario, options, venue, &hosts);
    start::wait(scenario, |Waiting { now, start }| {
        let elapsed = now - start;
        desk.status().stands(elapsed, cycle);
        let stopped = interrupted.load(Ordering::Relaxed) || desk.is_to_stop();
        let turn = Turn { now, elapsed, live: &Live::default(), traces: &[], notes: &[] };
        if stopped { ControlFlow::Break(()) } else { watch.turn(&turn) }
    })?;
    let generators = venue.start_traffic(scenario)?;
    if interrupted.load(Ordering::Relaxed) {
        return Err(LabError::Interrupted);
    }
    let start = start::first_cycle(scenario, rt::clock::now());
    let ringing = bell.map(|bell| bell.begin(start)).transpose()?;
    hosts.begin(start);
    let late = (&*options.lateness, options.launch);
    let late = LateHosts::begin(scenario, late, &hosts, (start, options.duration));
    machine.insert("first_cycle_at_ns".into(), json!(start.0));
    machine.insert("first_cycle".into(), json!((start - scenario.base_time) / cycle));

    let mut collector = Collector::of_ends(scenario, |stream, side| venue.has(scenario, stream, side));
    let mut rotation = Rotation::new(scenario, &options.folder, options.rotate_every, start);
    rotation.keep_ends = venue.is_one_of_several();
    let mut offered = Offered::find(scenario, options.images.as_deref(), venue);
    desk.status().images = offered.look();
    let mut pauses = Pauses::new(&options.pauses);
    let mut incidents = Vec::new();
    let mut notes = Vec::new();
    let mut breaches = Breaches::new(scenario);
    let mut told_to_stop = false;
    let mut drains = Drains::new(scenario, |stream, side| venue.has(scenario, stream, side));
    stamps.compare(&mut machine);
    while !hosts.have_ended() {
        thread::sleep(TURN);
        let traces = take_events(&mut hosts, &mut collector, (&mut breaches, &mut drains), watch);
        breaches.turn();
        let now = rt::clock::now();
        let elapsed = now - start;
        let turn = Turn { now, elapsed, live: &collector.live(), traces: &traces, notes: &notes };
        if watch.turn(&turn).is_break() {
            interrupted.store(true, Ordering::Relaxed);
        }
        {
            let mut status = desk.status();
            status.stands(elapsed, cycle);
            (status.counts, status.parts) = (collector.counts(), rotation.parts());
            if offered.is_due(elapsed) {
                status.images = offered.look();
            }
        }
        stamps.turn(elapsed, &mut machine);
        rotate(&mut rotation, &mut collector, &machine, desk, &mut notes);
        drains.turn(&hosts, desk, elapsed);
        pauses.turn(&hosts, elapsed);
        for (host, ended) in hosts.newly_ended_early() {
            let cause = format!("the process of host {host} {ended}; the run was stopped");
            notes.push(format!("{cause}, what was measured until then is kept"));
            incidents.push(Incident {
                at_ns: rt::clock::now().0,
                kind: kinds::PROCESS_ENDED.into(),
                cause,
                frames: 0,
                lasted_ns: None,
                place: Some(host),
            });
            hosts.stop();
            told_to_stop = true;
        }
        if let Some(why) = breaches.take_stop().filter(|_| !told_to_stop) {
            notes.push(format!("{why}; what was measured until then is kept"));
            pauses.end(&hosts);
            hosts.stop();
            told_to_stop = true;
        }
        if !told_to_stop && (interrupted.load(Ordering::Relaxed) || desk.is_to_stop()) {
            if options.duration.is_some() {
                notes.push("stopped by the user; what was measured until then is kept".into());
            }
            pauses.end(&hosts);
            hosts.stop();
            told_to_stop = true;
        }
    }
    late.end();
    drop(ringing);
    stamps.compare(&mut machine);
    notes.extend(stamps.notes());
    let traces = take_events(&mut hosts, &mut collector, (&mut breaches, &mut drains), watch);
    let now = rt::clock::now();
    breaches.finish(&mut notes);
    // All has ended: there is nothing left that it could end.
    _ = watch.turn(&Turn { now, elapsed: now - start, live: &collector.live(), traces: &traces, notes: &notes });
    let lost = hosts.finish(&mut machine, &mut notes);
    let load = load.map(Load::finish);
    if let Some(load) = &load {
        machine.insert("load".into(), json!(load));
        notes.extend(load.notes.iter().map(|note| format!("load: {note}")));
    }
    let dropped = machine::backlog_drops().saturating_sub(dropped_before);
    machine.insert("backlog_drops".into(), json!(dropped));
    if dropped > 0 {
        notes.push(format!(
            "the kernel dropped {dropped} frames, of streams or other traffic, because a processor's backlog was full \
             (net.core.netdev_max_backlog): this machine cannot carry the scenario's traffic"
        ));
    }
    if let Some(generators) = generators {
        machine.insert("traffic".into(), json!(generators.finish()));
    }
    Ok(Measured { collector, rotation, machine, incidents, notes, load, lost })
}

/// Begins the next part if it is due or asked for, and tells who asked when it is written.
fn rotate(rotation: &mut Rotation, collector: &mut Collector, machine: &Machine, desk: &Desk, notes: &mut Vec<String>) {
    if let Some(written) = rotation.newly_written() {
        if let Err(error) = &written {
            notes.push(format!("a part is missing: {error}"));
        }
        // Who is answered may ask for the status at once.
        desk.status().parts = rotation.parts();
        desk.rotated(written.map(|folder| folder.display().to_string()).map_err(|error| error.to_string()));
    }
    let now = rt::clock::now();
    if !rotation.is_busy() && (rotation.is_due(now) || desk.is_to_rotate()) {
        rotation.cut(collector, machine, now);
    }
}

/// What the control socket tells from the first cycle on.
fn first_status(scenario: &Scenario, options: &RunOptions, venue: &Venue, hosts: &Hosts) -> Status {
    let folder = std::path::absolute(&options.folder).unwrap_or_else(|_| options.folder.clone());
    let fixed = json!({
        "format": "downbeat/control/1",
        "name": venue.control_name(scenario),
        "command": venue.command(),
        "pid": std::process::id(),
        "folder": folder,
        "granted": hosts.granted().collect::<std::collections::BTreeMap<_, _>>(),
    });
    Status {
        keeps_backlog: scenario.backlog.is_kept(),
        fixed: fixed.as_object().cloned().unwrap_or_default(),
        streams: scenario.streams.iter().map(|stream| stream.name.clone()).collect(),
        ..Status::default()
    }
}

/// Empties the rings of all hosts.
fn take_events(
    hosts: &mut Hosts,
    collector: &mut Collector,
    (breaches, drains): (&mut Breaches, &mut Drains<'_>),
    watch: &mut dyn Watch,
) -> Vec<TraceState> {
    let traces = hosts.drain(|event: Event| {
        breaches.see(&event);
        drains.see(&event);
        watch.event(&event);
        collector.push(event);
    });
    hosts.newly_lost().into_iter().for_each(|(host, records)| collector.lost_records(host, records));
    traces
}

/// Hosts that are to be stopped and let go again.
struct Pauses<'a> {
    all: &'a [Pause],
    begun: Vec<bool>,
    ended: Vec<bool>,
}

impl<'a> Pauses<'a> {
    fn new(all: &'a [Pause]) -> Self {
        Self { all, begun: vec![false; all.len()], ended: vec![false; all.len()] }
    }

    fn turn(&mut self, hosts: &Hosts, elapsed: Nanos) {
        for (index, pause) in self.all.iter().enumerate() {
            if !self.begun[index] && elapsed >= pause.at {
                self.begun[index] = hosts.pause(pause.host);
            }
            if self.begun[index] && !self.ended[index] && elapsed >= pause.at + pause.lasting {
                self.ended[index] = hosts.resume(pause.host);
            }
        }
    }

    /// Lets everything go that is still stopped.
    fn end(&mut self, hosts: &Hosts) {
        self.all.iter().for_each(|pause| _ = hosts.resume(pause.host));
        self.begun.fill(true);
        self.ended.fill(true);
    }
}

fn make_folder(options: &RunOptions) -> Result<(), LabError> {
    let folder = &options.folder;
    // Parts without a whole are of a run that was killed.
    if folder.join("run.json").exists() || folder.join("part-0001").exists() {
        return Err(LabError::Scenario {
            what: format!("{} holds a run already", folder.display()),
            mend: "name another folder with --out, or remove it".into(),
        });
    }
    std::fs::create_dir_all(folder).map_err(LabError::io(format!("making {}", folder.display())))
}

/// A flag that Ctrl-C, SIGTERM and a lost terminal set.
///
/// # Errors
/// The system does not take the handlers.
pub fn interrupt_flag() -> Result<Arc<AtomicBool>, LabError> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&flag)).map_err(LabError::io("registering for signals"))?;
    }
    Ok(flag)
}

/// The instant of a wall clock's second, for folder names.
pub fn utc_seconds() -> i64 {
    let now: Tai = rt::clock::now() - rt::clock::tai_minus_utc();
    now.0 / 1_000_000_000
}
