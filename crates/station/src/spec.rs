//! What a role process is told and tells: lines of JSON on its standard input and output.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::path::PathBuf;

use measure::Side;
use rt::wait::Wait;
use scenario::{HostId, PortId, Scenario, Threads};
use serde::{Deserialize, Serialize};
use units::Nanos;

use crate::departure::{Departure, Launch, Txtime};
use crate::scheduling::Scheduling;
use crate::stamping::{StampPlan, WantedStamps};
use crate::wake::{EventSpec, WakeEvents};
use crate::ways::{Link, Reached};

/// Shared cells of a thread's trace ring.
pub mod cells {
    /// Start of cycle 0, nanoseconds TAI; 0 until the parent sets it.
    pub const START: usize = 0;
    /// Not 0: stop.
    pub const STOP: usize = 1;
    /// The last request to drain, as [`drain_request`](super::drain_request) makes it; 0 before the first.
    pub const DRAIN: usize = 2;
}

/// The value of [`cells::DRAIN`] for the `number`th request, counted from 1: to the ends of a stream, or to all. Number and
/// stream share a word, so that no end sees the one without the other.
pub fn drain_request(number: u32, stream: Option<u16>) -> u64 {
    u64::from(number) << 32 | stream.map_or(0, |stream| u64::from(stream) + 1)
}

/// Which request to drain it is.
pub(crate) fn request_number(request: u64) -> u32 {
    (request >> 32) as u32
}

/// Whether a request to drain is to the ends of `stream`.
pub(crate) fn is_asked(request: u64, stream: u16) -> bool {
    let wanted = request & 0xffff_ffff;
    wanted == 0 || wanted == u64::from(stream) + 1
}

/// What the parent tells a role process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RoleSpec {
    /// Index of the host in the scenario.
    pub host: usize,
    /// The file that names its network namespace; none stays in that of the parent.
    pub namespace: Option<PathBuf>,
    /// The scenario, as read.
    pub scenario: String,
    /// Its cyclic threads, by what they drive.
    pub workers: Vec<WorkerSpec>,
    /// Cycles begin for so long, in nanoseconds; none goes on until told to stop.
    pub duration_ns: Option<i64>,
    /// Whether writers count from the number of their first cycle since the base time, not from 1: their counters then
    /// go on above those of an earlier start.
    pub absolute_counters: bool,
    /// Which stamps the frames of each interface get; of one that is not named, none.
    pub stamps: BTreeMap<String, StampPlan>,
    /// Whether to ask for a processor, locked memory, and a real-time class.
    pub realtime: bool,
    /// Which class.
    #[serde(default)]
    pub scheduling: Scheduling,
    /// By which way frames come and go.
    pub link: Link,
    /// Folder, open in a process that outlives this one, where the images of applications outside are offered.
    #[serde(default)]
    pub images: Option<PathBuf>,
    /// Who keeps launch times.
    #[serde(default)]
    pub launch: Launch,
    /// The events that wake its threads once a cycle; none where timers do.
    #[serde(default)]
    pub events: Option<EventSpec>,
    /// How threads wait.
    #[serde(with = "wait_by_name")]
    pub wait: Wait,
}

/// Ends that keep time together: in one cyclic thread, or in three with a phase each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerSpec {
    /// The stream ends it drives.
    pub ends: Vec<EndSpec>,
    /// One thread for all phases; or three, for the subscribe, the application and the publish phase.
    pub threads: Vec<ThreadSpec>,
    /// Descriptors of the rings for transmit timestamps, one for each of [`WorkerSpec::outlets`].
    pub stamps: Vec<RawFd>,
}

/// One cyclic thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadSpec {
    /// Descriptor of its trace ring.
    pub trace: RawFd,
    /// Processor to run on.
    pub cpu: usize,
}

/// One end of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndSpec {
    /// Index of the stream in the scenario.
    pub stream: usize,
    /// Whether this is the writer's end.
    pub writer: bool,
    /// Interface it sends and receives on.
    pub interface: String,
    /// How its frames keep their launch times; none when they have none.
    #[serde(default)]
    pub departure: Option<Departure>,
}

impl EndSpec {
    /// Whether it sends frames.
    pub fn sends(&self, scenario: &Scenario) -> bool {
        self.writer || scenario.streams[self.stream].echo
    }

    /// Whether it reads frames.
    pub fn receives(&self, scenario: &Scenario) -> bool {
        !self.writer || scenario.streams[self.stream].echo
    }

    /// Where over UDP it sends its messages; none when they go in Ethernet frames.
    pub fn sends_to(&self, scenario: &Scenario) -> Option<SocketAddr> {
        scenario.streams[self.stream].udp.map(|[there, answer]| if self.writer { there } else { answer })
    }

    /// The socket that it sends through.
    pub(crate) fn outlet(&self, scenario: &Scenario) -> OutletSpec<'_> {
        let priority = scenario.streams[self.stream].pcp;
        let txtime = self.departure.as_ref().and_then(|departure| departure.txtime);
        OutletSpec { interface: &self.interface, priority, to: self.sends_to(scenario), txtime }
    }

    /// Where over UDP it gets them; none when they come in Ethernet frames.
    pub fn receives_at(&self, scenario: &Scenario) -> Option<SocketAddr> {
        scenario.streams[self.stream].udp.map(|[there, answer]| if self.writer { answer } else { there })
    }
}

/// What a sending socket of a thread is for: ends of which all this is the same share one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutletSpec<'a> {
    /// Interface it sends on.
    pub interface: &'a str,
    /// Priority of its frames on this host.
    pub priority: u8,
    /// Where it sends over UDP; none for Ethernet frames.
    pub to: Option<SocketAddr>,
    /// How launch times are given to the kernel; none when they are not.
    pub txtime: Option<Txtime>,
}

impl WorkerSpec {
    /// The sending sockets of the thread, in the order of first use.
    pub fn outlets<'a>(&'a self, scenario: &Scenario) -> Vec<OutletSpec<'a>> {
        let mut found = Vec::new();
        for end in self.ends.iter().filter(|end| end.sends(scenario)) {
            let outlet = end.outlet(scenario);
            if !found.contains(&outlet) {
                found.push(outlet);
            }
        }
        found
    }
}

/// First line of a role process.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ready {
    /// Everything is open.
    Ready {
        /// What the kernel granted, in words.
        granted: Vec<String>,
        /// How each interface was reached.
        reached: Vec<Reached>,
    },
    /// It cannot.
    Failed {
        /// Why.
        message: String,
    },
}

/// Last line of a role process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Finished {
    /// One entry a thread, in the order of the spec.
    pub workers: Vec<WorkerFinished>,
}

/// How one thread went.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WorkerFinished {
    /// Allocations of the thread between the first and the last cycle.
    pub allocations: u64,
    /// Frames for which its receive queues had no room.
    pub dropped: Vec<Dropped>,
    /// What became of the events that should have woken it; none when it waited for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<WakeEvents>,
}

/// Frames for which there was no room when they arrived.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dropped {
    /// Where they arrived.
    pub interface: String,
    /// How many.
    pub frames: u64,
}

/// The cyclic threads of a host for those of its ends that `wanted` names by stream and side; `interface` tells what an
/// output port is called. Rings and processors are still to be given.
pub fn workers<'a>(
    scenario: &Scenario,
    host: HostId,
    wanted: impl Fn(usize, Side) -> bool,
    interface: impl Fn(PortId) -> Option<&'a str>,
) -> Vec<WorkerSpec> {
    let mut ends = Vec::new();
    for (index, stream) in scenario.streams.iter().enumerate() {
        let sides = [(Side::Writer, stream.writer, &stream.path), (Side::Reader, stream.reader, &stream.return_path)];
        for (side, end, path) in sides {
            let here = end == host && wanted(index, side);
            if let (true, Some(interface)) = (here, path.first().and_then(|port| interface(*port))) {
                ends.push(EndSpec {
                    stream: index,
                    writer: side == Side::Writer,
                    interface: interface.into(),
                    departure: None,
                });
            }
        }
    }
    let worker = |ends: &[EndSpec], threads| {
        let thread = ThreadSpec { trace: -1, cpu: 0 };
        WorkerSpec { ends: ends.to_vec(), threads: vec![thread; threads], stamps: Vec::new() }
    };
    match scenario.threads {
        Threads::Stream => ends.chunks(1).map(|end| worker(end, 1)).collect(),
        Threads::Host | Threads::Phase if ends.is_empty() => Vec::new(),
        Threads::Host => vec![worker(&ends, 1)],
        Threads::Phase => vec![worker(&ends, 3)],
    }
}

impl RoleSpec {
    /// Which stamps the frames of an interface get.
    pub(crate) fn stamps(&self, interface: &str) -> StampPlan {
        let none =
            || StampPlan { wanted: WantedStamps::Off, why: "nothing was planned".into(), ..StampPlan::default() };
        self.stamps.get(interface).cloned().unwrap_or_else(none)
    }

    /// Whether frames of any interface get stamps.
    pub(crate) fn is_stamped(&self) -> bool {
        self.stamps.values().any(|plan| plan.stamps() != link::Stamps::Off)
    }

    /// Cycles begin for so long: without end for a hundred years, so that instants stay far from their limits.
    pub(crate) fn duration(&self) -> Nanos {
        self.duration_ns.map_or(Nanos::from_millis(100 * 366 * 86_400_000), Nanos)
    }
}

/// [`Wait`] as its name.
mod wait_by_name {
    use rt::wait::Wait;
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(wait: &Wait, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(wait)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Wait, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}
