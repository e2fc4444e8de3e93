//! One host of a run, as a process of its own inside the host's namespace.
//!
//! The parent gives a [`RoleSpec`] on standard input; the process opens its sockets, answers with one line of JSON,
//! waits for the start instant in a shared cell, runs one thread a stream end, and answers with a second line.

use std::io::{BufRead, Write};
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use link::{Receiver, ReceiverOptions, Sender, SenderOptions};
use measure::{Event, EventKind, Side};
use pubsub::Endpoint;
use rt::ring::{Producer, Ring};
use scenario::{HostId, Scenario};
use serde::{Deserialize, Serialize};
use units::{Nanos, Tai};

use crate::executive::{Doors, Ended, Executive, Plan};
use crate::sends::Sends;

/// Shared cells of an end's trace ring.
pub(crate) mod cells {
    /// Start of cycle 0, nanoseconds TAI; 0 until the parent sets it.
    pub(crate) const START: usize = 0;
    /// Not 0: stop.
    pub(crate) const STOP: usize = 1;
}

/// Bytes of a receiving socket's buffer: some thousand frames, so that a late thread loses none.
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;

/// What the parent tells a role process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RoleSpec {
    /// Index of the host in the scenario.
    pub(crate) host: usize,
    /// The file that names its network namespace.
    pub(crate) namespace: PathBuf,
    /// The scenario, as read.
    pub(crate) scenario: String,
    /// The stream ends at this host.
    pub(crate) ends: Vec<EndSpec>,
    /// Cycles to run.
    pub(crate) cycles: i64,
    /// Whether the kernel stamps frames.
    pub(crate) stamps: bool,
    /// Whether to ask for SCHED_FIFO, a processor, locked memory.
    pub(crate) realtime: bool,
}

/// One end of a stream.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct EndSpec {
    /// Index of the stream in the scenario.
    pub(crate) stream: usize,
    /// Whether this is the writer's end.
    pub(crate) writer: bool,
    /// Interface it sends and receives on.
    pub(crate) interface: String,
    /// Descriptor of the trace ring.
    pub(crate) trace: RawFd,
    /// Descriptor of the ring for transmit timestamps.
    pub(crate) stamps: RawFd,
    /// Processor to run on.
    pub(crate) cpu: usize,
}

/// First line of a role process.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ready {
    /// Everything is open; what the kernel granted, in words.
    Ready { granted: Vec<String> },
    /// It cannot.
    Failed { message: String },
}

/// Last line of a role process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Finished {
    /// One entry an end, in the order of the spec.
    pub(crate) ends: Vec<EndFinished>,
}

/// How one end went.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct EndFinished {
    /// Allocations of its thread between the first and the last cycle.
    pub(crate) allocations: u64,
    /// Frames that the kernel dropped before its socket.
    pub(crate) receiver_drops: u64,
    /// What ended it early, in words.
    pub(crate) failure: Option<String>,
}

/// Runs the role that standard input describes; the whole life of a role process.
///
/// Returns the exit code of the process. What goes wrong is told to the parent on standard output.
pub fn role_process() -> u8 {
    rt::process::die_with_parent();
    let mut line = String::new();
    if std::io::stdin().lock().read_line(&mut line).is_err() {
        return 3;
    }
    let outcome =
        serde_json::from_str::<RoleSpec>(&line).map_err(|error| error.to_string()).and_then(|spec| role(&spec));
    match outcome {
        Ok(finished) => u8::from(!say(&finished)) * 3,
        Err(message) => {
            say(&Ready::Failed { message });
            3
        }
    }
}

/// Tells the parent one line; false when it is gone.
fn say(message: &impl Serialize) -> bool {
    let Ok(text) = serde_json::to_string(message) else { return false };
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).is_ok()
}

fn role(spec: &RoleSpec) -> Result<Finished, String> {
    rt::process::enter_network_namespace(&spec.namespace)
        .map_err(|error| format!("entering {}: {error}", spec.namespace.display()))?;
    let scenario = scenario::read(&spec.scenario, "scenario.toml").map_err(|errors| errors.render())?;
    let ends = spec.ends.iter().map(|end| End::open(spec, end, &scenario)).collect::<Result<Vec<_>, _>>()?;
    let terminated = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGTERM, Arc::clone(&terminated))
        .map_err(|error| format!("registering for SIGTERM: {error}"))?;
    let (granted, from_threads) = std::sync::mpsc::channel();
    thread::scope(|scope| {
        let handles: Vec<_> = ends
            .into_iter()
            .map(|end| {
                let (granted, terminated) = (granted.clone(), &terminated);
                scope.spawn(move || end.run(spec, &granted, terminated))
            })
            .collect();
        drop(granted);
        let mut lines: Vec<String> = from_threads.iter().take(handles.len()).flatten().collect();
        lines.dedup();
        say(&Ready::Ready { granted: lines });
        let ends = handles
            .into_iter()
            .map(|handle| handle.join().map_err(|_| "a thread panicked".to_string()))
            .collect::<Result<_, _>>()?;
        Ok(Finished { ends })
    })
}

/// One end with everything opened that its thread needs.
struct End {
    plan: Plan,
    endpoint: Endpoint,
    sender: Option<Sender>,
    receiver: Option<Receiver>,
    ring: Ring,
    trace: Producer,
    /// Goes to the thread that fetches stamps.
    stamps: Option<Producer>,
    cpu: usize,
}

impl End {
    fn open(spec: &RoleSpec, end: &EndSpec, scenario: &Scenario) -> Result<Self, String> {
        let stream = &scenario.streams[end.stream];
        let host = HostId(spec.host);
        let tai_minus_utc = rt::clock::tai_minus_utc();
        let sends = end.writer || stream.echo;
        let receives = !end.writer || stream.echo;
        let plan = plan(scenario, end, host, spec.cycles, tai_minus_utc);
        // Until the kernel has put its queue in place, frames sent on a fresh interface vanish without a word.
        let running = link::interface::wait_until_running(&end.interface, Nanos::from_millis(3_000));
        if !running.map_err(|error| error.to_string())? {
            return Err(format!("interface {} found no partner within 3 s", end.interface));
        }
        let endpoint = Endpoint::new(stream.endpoint(scenario, end.writer))
            .map_err(|error| format!("stream {}: {error}", stream.name))?;
        let sender = sends
            .then(|| Sender::open(&end.interface, SenderOptions { priority: stream.pcp, stamps: spec.stamps }))
            .transpose()
            .map_err(|error| error.to_string())?;
        let receiver = receives
            .then(|| {
                Receiver::open(
                    &end.interface,
                    ReceiverOptions {
                        // What the writer sends the reader gets, and the other way round.
                        destination: Some(stream.destinations[usize::from(end.writer)]),
                        tai_minus_utc,
                        stamps: spec.stamps,
                        buffer_bytes: RECEIVE_BUFFER_BYTES,
                        ..ReceiverOptions::default()
                    },
                )
            })
            .transpose()
            .map_err(|error| error.to_string())?;
        let attach = |number| Ring::attach_inherited(number).map_err(|error| error.to_string());
        let ring = attach(end.trace)?;
        let trace = ring.producer().map_err(|error| error.to_string())?;
        let stamps = attach(end.stamps)?.producer().map_err(|error| error.to_string())?;
        Ok(Self { plan, endpoint, sender, receiver, ring, trace, stamps: Some(stamps), cpu: end.cpu })
    }

    fn run(
        mut self,
        spec: &RoleSpec,
        granted: &std::sync::mpsc::Sender<Vec<String>>,
        terminated: &Arc<AtomicBool>,
    ) -> EndFinished {
        // The thread that fetches stamps starts first: it must not inherit the processor and stays ordinary.
        let fetching = Arc::new(AtomicBool::new(true));
        let sends = Arc::new(Sends::new());
        let fetcher = spec.stamps.then(|| self.fetch_stamps(&sends, &fetching)).flatten();
        let requested = rt::thread::Requested {
            fifo_priority: spec.realtime.then_some(80),
            cpu: spec.realtime.then_some(self.cpu),
            lock_memory: spec.realtime,
            timer_slack_1ns: true,
            cpu_dma_latency: spec.realtime,
        };
        let grant = rt::thread::prepare(&requested);
        _ = granted.send(grant.describe());
        let ring = self.ring;
        let stop = || ring.cell(cells::STOP).load(Ordering::Relaxed) != 0 || terminated.load(Ordering::Relaxed);
        while ring.cell(cells::START).load(Ordering::Acquire) == 0 && !stop() {
            rt::clock::sleep_through(rt::clock::now() + Nanos::from_millis(1));
        }
        self.plan.t0 = Tai(ring.cell(cells::START).load(Ordering::Acquire) as i64);
        let mut executive = Executive::new(
            self.plan,
            self.endpoint,
            Doors { sender: self.sender, receiver: self.receiver, trace: self.trace, sends },
            &stop,
        );
        let before = rt::alloc::allocations_of_this_thread();
        let ended = if stop() { Ended::Stopped } else { executive.run() };
        let allocations = rt::alloc::allocations_of_this_thread() - before;
        // The last frames' stamps are still on their way.
        rt::clock::sleep_through(rt::clock::now() + Nanos::from_millis(5));
        fetching.store(false, Ordering::Relaxed);
        _ = fetcher.map(thread::JoinHandle::join);
        drop(grant);
        let failure = match ended {
            Ended::Done | Ended::Stopped => None,
            Ended::Receive(errno) => Some(format!("receiving failed: {}", std::io::Error::from_raw_os_error(errno))),
        };
        EndFinished { allocations, receiver_drops: executive.receiver_drops(), failure }
    }

    /// Starts the thread that fetches transmit timestamps and puts them into their ring.
    fn fetch_stamps(&mut self, sends: &Arc<Sends>, fetching: &Arc<AtomicBool>) -> Option<thread::JoinHandle<()>> {
        let mut reader = self.sender.as_ref()?.stamps(self.plan.tai_minus_utc).ok()?;
        let mut ring = self.stamps.take()?;
        let (stream, side) = (self.plan.stream, self.plan.side);
        let (fetching, sends) = (Arc::clone(fetching), Arc::clone(sends));
        Some(thread::spawn(move || {
            while fetching.load(Ordering::Relaxed) {
                while let Ok(Some(stamp)) = reader.wait(Nanos::from_millis(20)) {
                    let kind = EventKind::Left { handle: sends.publication(stamp.id), at: stamp.at };
                    ring.push(&Event { stream, side, kind }.pack());
                }
            }
        }))
    }
}

fn plan(scenario: &Scenario, end: &EndSpec, host: HostId, cycles: i64, tai_minus_utc: Nanos) -> Plan {
    let stream = &scenario.streams[end.stream];
    let phases = scenario.host(host).phases;
    let sends = end.writer || stream.echo;
    Plan {
        stream: end.stream as u16,
        side: if end.writer { Side::Writer } else { Side::Reader },
        t0: Tai(0),
        cycle: stream.cycle,
        subscribe: phases.subscribe.of(stream.cycle),
        window: phases.window.of(stream.cycle),
        application: phases.application.of(stream.cycle),
        publish: phases.publish.of(stream.cycle),
        launch: (sends && stream.launch).then_some(stream.offset),
        start: stream.start,
        cycles: cycles * scenario.cycle.0 / stream.cycle.0,
        tag: (stream.vid, stream.pcp),
        tai_minus_utc,
    }
}
