//! The processes of a run's hosts, as the parent sees them.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use measure::{Event, Machine};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rt::ring::{Consumer, Ring};
use scenario::{HostId, Scenario};
use serde_json::json;
use station::{EndSpec, EventSpec, Finished, Reached, Ready, RoleSpec, WorkerSpec, cells};
use units::{Nanos, Tai};

use crate::departure;
use crate::error::LabError;
use crate::lost::Lost;
use crate::run::RunOptions;
use crate::stamps::RunStamps;
use crate::traffic::OwnGroup as _;
use crate::venue::Venue;
use crate::wake::Bell;
use crate::watch::TraceState;

/// Fewest records that a ring holds.
const RING_RECORDS: usize = 1 << 16;

/// Records of an end in a cycle: four phases, application, arrival, publication, one of an application outside, and one to
/// spare.
const END_RECORDS: i64 = 9;

/// For how long a ring shall have room though nobody empties it; usually that is done every 20 ms.
const RING_LASTS: Nanos = Nanos::from_millis(2_000);

/// How long a process may take to open its sockets.
const READY_WITHIN: Duration = Duration::from_secs(10);

/// How long it may take to end once told to.
const END_WITHIN: Duration = Duration::from_secs(3);

/// All host processes of a run. Dropped, it ends them.
pub(crate) struct Hosts {
    hosts: Vec<Host>,
    stopped: Option<Instant>,
}

struct Host {
    id: HostId,
    name: String,
    child: Child,
    lines: Receiver<String>,
    rings: Vec<Ring>,
    consumers: Vec<Consumer>,
    granted: Vec<String>,
    reached: Vec<Reached>,
    ended: Option<ExitStatus>,
    reported: bool,
    finished: Option<Finished>,
    /// Lost records that have been told.
    told_lost: u64,
}

impl Hosts {
    /// Starts a process for every host with a stream end and waits until all are ready.
    pub(crate) fn start(
        scenario: &Scenario,
        options: &RunOptions,
        venue: &mut Venue,
        (bell, stamps): (Option<&Bell>, &RunStamps),
    ) -> Result<Self, LabError> {
        let mut all = Self { hosts: Vec::new(), stopped: None };
        let cpus = thread::available_parallelism().map_or(1, usize::from);
        let (mut threads_so_far, mut listeners) = (0, 0);
        for index in 0..scenario.hosts.len() {
            let id = HostId(index);
            let mut workers = station::workers(
                scenario,
                id,
                |stream, side| venue.has(scenario, stream, side),
                |port| venue.interface(port),
            );
            if workers.is_empty() {
                continue;
            }
            for thread in workers.iter_mut().flat_map(|worker| &mut worker.threads) {
                // The first processor serves the system; with two, both ends have one of their own.
                thread.cpu = (cpus - 1 + threads_so_far) % cpus;
                threads_so_far += 1;
            }
            let queues = |interface: &str| departure::queues(venue.namespace_name(id), interface);
            departure::decide(scenario, (options.launch, options.link), &mut workers, queues)?;
            if let Some(bell) = bell {
                listeners += bell.events().listeners(scenario, id, &workers);
                bell.serves(listeners)?;
            }
            let events = bell.map(|bell| bell.events().clone());
            let host = Host::start(scenario, options, venue, id, (workers, events, stamps))?;
            venue.started(host.child.id())?;
            all.hosts.push(host);
        }
        for host in &mut all.hosts {
            host.wait_until_ready()?;
        }
        Ok(all)
    }

    /// Lets cycle 0 begin at `start`.
    pub(crate) fn begin(&self, start: Tai) {
        self.rings().for_each(|ring| ring.cell(cells::START).store(start.0 as u64, Ordering::Release));
    }

    /// Asks the ends that read from a stream, or all, to drain their queues: the `number`th request, from 1.
    pub(crate) fn ask_to_drain(&self, number: u32, stream: Option<u16>) {
        let request = station::drain_request(number, stream);
        self.rings().for_each(|ring| ring.cell(cells::DRAIN).store(request, Ordering::Relaxed));
    }

    /// Asks all to stop.
    pub(crate) fn stop(&mut self) {
        self.rings().for_each(|ring| ring.cell(cells::STOP).store(1, Ordering::Relaxed));
        // A stopped process cannot see it.
        self.hosts.iter().for_each(|host| _ = host.signal(Signal::SIGCONT));
        self.stopped.get_or_insert_with(Instant::now);
    }

    /// Takes all events out of the rings; tells what was in them.
    pub(crate) fn drain(&mut self, mut take: impl FnMut(Event)) -> Vec<TraceState> {
        let mut states = Vec::with_capacity(self.hosts.len());
        for host in &mut self.hosts {
            let mut most = 0;
            for consumer in &mut host.consumers {
                let mut found = 0;
                while let Some(record) = consumer.pop() {
                    found += 1;
                    if let Some(event) = Event::unpack(&record) {
                        take(event);
                    }
                }
                most = found.max(most);
            }
            let lost = host.rings.iter().map(Ring::overflowed).sum();
            states.push(TraceState {
                host: host.name.clone(),
                found: most,
                capacity: host.rings.iter().map(Ring::capacity).min().unwrap_or(0),
                lost,
            });
        }
        states
    }

    /// Hosts of whose records some have found no room since this was last asked, and how many.
    pub(crate) fn newly_lost(&mut self) -> Vec<(HostId, u64)> {
        let newly = |host: &mut Host| {
            let lost = host.rings.iter().map(Ring::overflowed).sum::<u64>();
            (host.id, lost - std::mem::replace(&mut host.told_lost, lost))
        };
        self.hosts.iter_mut().map(newly).filter(|(_, records)| *records > 0).collect()
    }

    /// Each host's name, and what its threads were granted and refused.
    pub(crate) fn granted(&self) -> impl Iterator<Item = (&str, &[String])> {
        self.hosts.iter().map(|host| (host.name.as_str(), host.granted.as_slice()))
    }

    /// How each host has reached its interfaces.
    pub(crate) fn reached(&self) -> Vec<&Reached> {
        self.hosts.iter().flat_map(|host| &host.reached).collect()
    }

    /// The streams whose launch times the kernel of their writer keeps, and when their frames leave.
    pub(crate) fn launches_kept(&self, scenario: &Scenario) -> serde_json::Map<String, serde_json::Value> {
        let of = |host: &Host, stream: &scenario::Stream| {
            let mut kept = host.reached.iter().filter_map(|reached| reached.txtime.get(&stream.name));
            // With answers the reader's host may tell of it, too.
            kept.next().filter(|_| stream.writer == host.id).map(|mechanism| (stream.name.clone(), json!(mechanism)))
        };
        let of_host = |host| scenario.streams.iter().filter_map(move |stream| of(host, stream));
        self.hosts.iter().flat_map(of_host).collect()
    }

    /// Whether all processes have ended; ends those that do not obey.
    pub(crate) fn have_ended(&mut self) -> bool {
        let overdue = self.stopped.is_some_and(|stopped| stopped.elapsed() > END_WITHIN);
        for host in self.hosts.iter_mut().filter(|host| host.ended.is_none()) {
            host.ended = host.child.try_wait().ok().flatten();
            if host.ended.is_none() && overdue {
                _ = host.child.kill();
            }
        }
        self.hosts.iter().all(|host| host.ended.is_some())
    }

    /// Hosts whose process ended before all cycles were done and before it was asked to, once each, and how.
    pub(crate) fn newly_ended_early(&mut self) -> Vec<(String, String)> {
        if self.stopped.is_some() {
            return Vec::new();
        }
        let mut found = Vec::new();
        for host in self.hosts.iter_mut().filter(|host| !host.reported) {
            let Some(status) = host.ended else { continue };
            host.reported = true;
            if !status.success() {
                let how = match (status.signal(), status.code()) {
                    (Some(signal), _) => format!("(pid {}) was ended by signal {signal}", host.child.id()),
                    (None, code) => format!("(pid {}) ended with exit code {}", host.child.id(), code.unwrap_or(-1)),
                };
                found.push((host.name.clone(), how));
            }
        }
        found
    }

    /// The process of a host, if it has one that has not ended.
    pub(crate) fn pid(&self, id: HostId) -> Option<Pid> {
        let host = self.hosts.iter().find(|host| host.id == id && host.ended.is_none())?;
        Some(Pid::from_raw(host.child.id() as i32))
    }

    /// Stops a host's process until [`Self::resume`].
    pub(crate) fn pause(&self, id: HostId) -> bool {
        self.signal(id, Signal::SIGSTOP)
    }

    /// Lets it go on.
    pub(crate) fn resume(&self, id: HostId) -> bool {
        self.signal(id, Signal::SIGCONT)
    }

    fn signal(&self, id: HostId, signal: Signal) -> bool {
        self.hosts.iter().filter(|host| host.id == id).all(|host| host.signal(signal))
    }

    /// Writes what the processes said at their end into the machine's description and the notes.
    pub(crate) fn finish(&mut self, machine: &mut Machine, notes: &mut Vec<String>) -> Lost {
        let (mut granted, mut link, mut events) =
            (serde_json::Map::new(), serde_json::Map::new(), serde_json::Map::new());
        let (mut allocations, mut complete, mut lost) = (0, true, Lost::default());
        for host in &mut self.hosts {
            host.take_last_line();
            granted.insert(host.name.clone(), json!(host.granted));
            link.insert(host.name.clone(), json!(host.reached));
            let refused = host.granted.iter().filter(|line| !line.ends_with("granted"));
            notes.extend(refused.map(|line| format!("{}: {line}", host.name)));
            let passing = host.reached.iter().filter_map(|reached| Some((reached, reached.passes_by()?)));
            notes.extend(
                passing.map(|(reached, what)| format!("{}: AF_XDP at {}: {what}", host.name, reached.interface)),
            );
            lost.records.push((host.id, host.rings.iter().map(Ring::overflowed).sum()));
            let Some(finished) = &host.finished else {
                complete = false;
                continue;
            };
            for worker in &finished.workers {
                allocations += worker.allocations;
                worker.dropped.iter().for_each(|dropped| lost.frames(&host.name, dropped));
            }
            let woken: Vec<_> = finished.workers.iter().filter_map(|worker| worker.events.as_ref()).collect();
            notes.extend(woken.iter().filter_map(|events| Some(format!("{}: {}", host.name, events.told()?))));
            if !woken.is_empty() {
                events.insert(host.name.clone(), json!(woken));
            }
        }
        machine.insert("granted".into(), granted.into());
        machine.insert("ways".into(), link.into());
        if !events.is_empty() {
            machine.insert("wake_events".into(), events.into());
        }
        if complete {
            machine.insert("allocations_in_cycles".into(), json!(allocations));
            machine.insert("receiver_drops".into(), json!(lost.all_frames()));
            machine.insert("receiver_drops_at".into(), json!(lost.frames));
        }
        machine.insert("trace_records_lost".into(), json!(lost.all_records()));
        lost
    }

    fn rings(&self) -> impl Iterator<Item = &Ring> {
        self.hosts.iter().flat_map(|host| &host.rings)
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for host in &mut self.hosts {
            if host.ended.is_none() {
                _ = host.child.kill();
                _ = host.child.wait();
            }
        }
    }
}

/// How many records the rings of a thread with these ends hold.
fn ring_records(scenario: &Scenario, ends: &[EndSpec]) -> usize {
    let records = |end: &EndSpec| RING_LASTS.0 / scenario.streams[end.stream].cycle.0.max(1) * END_RECORDS;
    let all = ends.iter().map(records).fold(0, i64::saturating_add);
    let most = rt::ring::MAX_CAPACITY;
    usize::try_from(all).unwrap_or(most).clamp(RING_RECORDS, most).next_power_of_two()
}

impl Host {
    fn start(
        scenario: &Scenario,
        options: &RunOptions,
        venue: &Venue,
        id: HostId,
        (mut workers, events, stamps): (Vec<WorkerSpec>, Option<EventSpec>, &RunStamps),
    ) -> Result<Self, LabError> {
        let name = scenario.host(id).name.clone();
        let (mut rings, mut consumers, mut inherited) = (Vec::new(), Vec::new(), Vec::new());
        for worker in &mut workers {
            worker.stamps = vec![-1; worker.outlets(scenario).len()];
            let records = ring_records(scenario, &worker.ends);
            let traces = worker.threads.iter_mut().map(|thread| &mut thread.trace);
            for number in traces.chain(&mut worker.stamps) {
                let ring =
                    Ring::create(&format!("downbeat-{name}"), records).map_err(LabError::io("making a trace ring"))?;
                let fd = ring.inheritable().map_err(LabError::io("handing a trace ring on"))?;
                *number = fd.as_raw_fd();
                inherited.push(fd);
                consumers.push(ring.consumer().map_err(LabError::io("reading a trace ring"))?);
                rings.push(ring);
            }
        }
        let ends = workers.iter().flat_map(|worker| &worker.ends);
        let stamps = ends.map(|end| (end.interface.clone(), stamps.of(&end.interface))).collect();
        let spec = RoleSpec {
            host: id.0,
            namespace: venue.namespace(id),
            scenario: scenario.source.clone(),
            workers,
            duration_ns: options.duration.map(|duration| (scenario.cycle * (duration / scenario.cycle)).0),
            absolute_counters: venue.is_one_of_several(),
            stamps,
            realtime: options.realtime,
            scheduling: options.scheduling,
            link: venue.link(scenario, options.link),
            images: options.images.as_ref().map(|folder| folder.everywhere()),
            launch: options.launch,
            events,
            wait: options.wait,
        };
        let what = || format!("starting the process of host {name}");
        let mut child = Command::new(&options.program)
            .args(&options.role_arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group_of_its_own()
            .spawn()
            .map_err(LabError::io(what()))?;
        drop(inherited);
        let (sender, lines) = mpsc::channel();
        if let Some(stdout) = child.stdout.take() {
            thread::spawn(move || {
                BufReader::new(stdout)
                    .lines()
                    .map_while(Result::ok)
                    .take_while(|line| sender.send(line.clone()).is_ok())
                    .count()
            });
        }
        let host = Self {
            id,
            name: name.clone(),
            lines,
            rings,
            consumers,
            granted: Vec::new(),
            reached: Vec::new(),
            ended: None,
            reported: false,
            finished: None,
            told_lost: 0,
            child,
        };
        host.tell(&spec).map_err(LabError::io(what()))?;
        Ok(host)
    }

    fn tell(&self, spec: &RoleSpec) -> std::io::Result<()> {
        let mut text = serde_json::to_vec(spec)?;
        text.push(b'\n');
        self.child.stdin.as_ref().map_or(Ok(()), |mut stdin| stdin.write_all(&text))
    }

    fn wait_until_ready(&mut self) -> Result<(), LabError> {
        let fail = |message: String| LabError::Role { host: self.name.clone(), message };
        let line = self.lines.recv_timeout(READY_WITHIN).map_err(|_| fail("no word from it within 10 s".into()))?;
        match serde_json::from_str(&line) {
            Ok(Ready::Ready { granted, reached }) => {
                (self.granted, self.reached) = (granted, reached);
                Ok(())
            }
            Ok(Ready::Failed { message }) => Err(fail(message)),
            Err(_) => Err(fail(line)),
        }
    }

    fn take_last_line(&mut self) {
        let last = self.lines.recv_timeout(Duration::from_millis(500)).ok();
        self.finished = last.and_then(|line| serde_json::from_str(&line).ok());
    }

    fn signal(&self, signal: Signal) -> bool {
        self.ended.is_none() && kill(Pid::from_raw(self.child.id() as i32), signal).is_ok()
    }
}
