//! A run: sets the network up, starts the hosts, collects their traces, takes everything down again.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use measure::{Collector, Event, FrameRow, Incident, Kind, Live, LoadReport, Machine, RunFile, kinds};
use rt::wait::Wait;
use scenario::{HostId, HostKind, PortId, Queue, Scenario, TrafficKind};
use serde_json::json;
use station::Link;
use units::{Nanos, Tai};

use crate::error::LabError;
use crate::host::Hosts;
use crate::journal::{self, Journal, Restored};
use crate::load::{Load, LoadOptions};
use crate::machine;
use crate::rights::Rights;
use crate::topology::Topology;
use crate::traffic::{Generators, iperf_is_there};

/// How often the parent empties the trace rings.
const TURN: Duration = Duration::from_millis(20);

/// From the last preparation to cycle 0: the kernel switches receive timestamps on some 50 ms after they were asked for.
const LEAD: Nanos = Nanos(200_000_000);

/// How to run.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// The run ends after so long.
    pub duration: Nanos,
    /// Where the results go.
    pub folder: PathBuf,
    /// Whether the kernel stamps every frame (T2, T3, T6, T7).
    pub stamps: bool,
    /// Whether to ask for SCHED_FIFO, processors and locked memory.
    pub realtime: bool,
    /// By which way frames come and go.
    pub link: Link,
    /// How cyclic threads wait.
    pub wait: Wait,
    /// By which right the run makes its network.
    pub rights: Rights,
    /// Hosts to stop for a while, to see what a run makes of it.
    pub pauses: Vec<Pause>,
    /// What keeps the machine busy meanwhile.
    pub load: Option<LoadOptions>,
    /// The program that `station::role_process` answers in when started with [`Self::role_arguments`].
    pub program: PathBuf,
    /// Arguments that make it a role process.
    pub role_arguments: Vec<String>,
    /// The command line, for the result.
    pub command: String,
}

/// A host stopped (SIGSTOP) for a while in the middle of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pause {
    /// Which host.
    pub host: HostId,
    /// How long after cycle 0.
    pub at: Nanos,
    /// For how long.
    pub lasting: Nanos,
}

/// What a run left.
#[derive(Debug)]
pub struct RunOutcome {
    /// The result, as written to `run.json`.
    pub run: RunFile,
    /// The frames, as written to `frames.parquet`.
    pub rows: Vec<FrameRow>,
    /// Plain words for the user: what was not granted, what ended early.
    pub notes: Vec<String>,
    /// What the load beside it reached, as in `machine.load` of `run.json`.
    pub load: Option<LoadReport>,
}

/// Runs a scenario on this machine and writes the run folder.
///
/// `progress` is called about every 20 ms.
///
/// # Errors
/// The machine or the scenario does not allow it. Whatever was set up is undone first.
pub fn run(
    scenario: &Scenario,
    options: &RunOptions,
    progress: &mut dyn FnMut(&Live, Nanos),
) -> Result<RunOutcome, LabError> {
    check(scenario)?;
    let mut notes: Vec<String> = journal::restore()?.into_iter().filter_map(undone_note).collect();
    let topology = Topology::of(scenario);
    if let Some(name) = topology.taken() {
        return Err(LabError::NamespaceTaken { name: name.into(), owner: journal::owner_of(name) });
    }
    let interrupted = interrupt_flag()?;
    // Before the network: a folder that cannot be written is better known now than after the run.
    make_folder(options)?;
    let mut journal = Journal::open(&scenario.name, topology.namespaces())?;
    let measured = measured(scenario, options, &topology, &mut journal, &interrupted, progress);
    let undone = journal.undo();
    if measured.is_err() {
        // Only an empty folder goes.
        _ = std::fs::remove_dir(&options.folder);
    }
    let mut measured = measured?;
    undone?;
    notes.append(&mut measured.notes);

    let mut observations = measured.collector.finish(scenario);
    observations.incidents.append(&mut measured.incidents);
    observations.incidents.sort_by_key(|incident| incident.at_ns);
    if observations.rows.is_empty() && interrupted.load(Ordering::Relaxed) {
        // Only if nothing else has come to be in it.
        _ = std::fs::remove_dir(&options.folder);
        return Err(LabError::Interrupted);
    }
    let run = measure::summarise(scenario, &observations, Kind::Measured, measured.machine);
    measure::write_run(&options.folder, scenario, &run, &observations.rows)
        .map_err(|source| LabError::Results { folder: options.folder.clone(), source })?;
    Ok(RunOutcome { run, rows: observations.rows, notes, load: measured.load })
}

/// What the running part hands to the summary.
struct Measured {
    collector: Collector,
    machine: Machine,
    incidents: Vec<Incident>,
    notes: Vec<String>,
    load: Option<LoadReport>,
}

fn measured(
    scenario: &Scenario,
    options: &RunOptions,
    topology: &Topology,
    journal: &mut Journal,
    interrupted: &AtomicBool,
    progress: &mut dyn FnMut(&Live, Nanos),
) -> Result<Measured, LabError> {
    topology.create(scenario)?;
    if options.link == Link::Xdp {
        topology.keep_tags_in_frames(scenario)?;
    }
    let mut machine = machine::describe(scenario, options, topology);
    let load = options.load.as_ref().map(|load| Load::start(load, interrupted)).transpose()?;
    if let Some(pid) = load.as_ref().and_then(Load::pid) {
        journal.started(pid)?;
    }
    let mut hosts = Hosts::start(scenario, options, topology, journal)?;
    let dropped_before = machine::backlog_drops();
    let generators = Generators::start(scenario, topology, journal)?;
    if interrupted.load(Ordering::Relaxed) {
        return Err(LabError::Interrupted);
    }
    let cycle = scenario.cycle;
    let lead = rt::clock::now() + LEAD - scenario.base_time;
    let start = scenario.base_time + cycle * (lead.0.div_euclid(cycle.0) + 1);
    hosts.begin(start);

    let mut collector = Collector::new(scenario);
    let mut pauses = Pauses::new(&options.pauses);
    let mut incidents = Vec::new();
    let mut notes = Vec::new();
    let mut told_to_stop = false;
    while !hosts.have_ended() {
        thread::sleep(TURN);
        hosts.drain(|event: Event| collector.push(event));
        let elapsed = rt::clock::now() - start;
        progress(&collector.live(), elapsed);
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
        if !told_to_stop && interrupted.load(Ordering::Relaxed) {
            notes.push("stopped by the user; what was measured until then is kept".into());
            pauses.end(&hosts);
            hosts.stop();
            told_to_stop = true;
        }
    }
    hosts.drain(|event: Event| collector.push(event));
    hosts.finish(&mut machine, &mut notes);
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
    if !scenario.traffic.is_empty() {
        machine.insert("traffic".into(), json!(generators.finish()));
    }
    Ok(Measured { collector, machine, incidents, notes, load })
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

/// Whether this machine and this user can run the scenario.
///
/// # Errors
/// What is missing and how to get it.
pub fn check(scenario: &Scenario) -> Result<(), LabError> {
    let namespaces = thread::spawn(|| nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET)).join();
    if !matches!(namespaces, Ok(Ok(()))) {
        return Err(LabError::Host {
            what: "this machine does not let root make network namespaces (a container without CAP_SYS_ADMIN?)".into(),
            mend: "run on the host, or give the container CAP_SYS_ADMIN and CAP_NET_ADMIN".into(),
        });
    }
    if scenario.streams.is_empty() {
        return Err(LabError::Scenario {
            what: "the scenario has no stream, so there is nothing to run".into(),
            mend: "add a [[streams]] table".into(),
        });
    }
    if let Some(stream) = scenario.streams.iter().find(|stream| stream.udp.is_some()) {
        return Err(LabError::Scenario {
            what: format!("stream {} goes over UDP, which a run does not send yet", stream.name),
            mend: "take `transport = \"ethernet\"`; `downbeat bound` and `downbeat simulate` know both".into(),
        });
    }
    for (index, port) in scenario.ports.iter().enumerate() {
        if !matches!(port.queue, Queue::Fifo | Queue::FqCodel) {
            return Err(LabError::Host {
                what: format!(
                    "port {} asks for {}; a run in network namespaces has fifo and fq_codel",
                    scenario.port_name(PortId(index)),
                    port.queue.kind()
                ),
                mend: "take one of those for a run; `downbeat bound` and `downbeat simulate` know mqprio and cbs"
                    .into(),
            });
        }
    }
    for host in &scenario.hosts {
        if let HostKind::Bridge { forwarder, .. } = host.kind
            && forwarder != scenario::Forwarder::Linux
        {
            return Err(LabError::Host {
                what: format!("bridge {} is not a Linux bridge; a run makes no other", host.name),
                mend: "set `forwarder = \"linux\"`".into(),
            });
        }
    }
    if scenario.traffic.iter().any(|traffic| traffic.kind == TrafficKind::Tcp) && !iperf_is_there() {
        return Err(LabError::Host {
            what: "the scenario has TCP traffic, which iperf3 makes, and iperf3 is missing".into(),
            mend: "`apt-get install iperf3`, or take `kind = \"udp\"`".into(),
        });
    }
    Ok(())
}

fn make_folder(options: &RunOptions) -> Result<(), LabError> {
    let folder = &options.folder;
    if folder.join("run.json").exists() {
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

fn undone_note(restored: Restored) -> Option<String> {
    match restored {
        Restored::Undone { scenario, namespaces, .. } if !namespaces.is_empty() => Some(format!(
            "an earlier run of {scenario} had left {} network namespaces; they are removed",
            namespaces.len()
        )),
        _ => None,
    }
}

/// The instant of a wall clock's second, for folder names.
pub fn utc_seconds() -> i64 {
    let now: Tai = rt::clock::now() - rt::clock::tai_minus_utc();
    now.0 / 1_000_000_000
}
