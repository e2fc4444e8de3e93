//! The checked model: what bound, simulation and run are told, and all they are told.
//!
//! A [`Scenario`] exists only if it passed every check of this crate, so its users need none: every
//! index points somewhere, every stream has a path, every payload fits its frame.

use std::fmt;
use std::net::SocketAddr;
use std::num::NonZeroU32;

use units::{FrameSize, Nanos, Rate, Tai};

use crate::breaches::{Breaches, StreamEnd};
use crate::installation::Installation;
use crate::queue::{Etf, Queue};
use crate::requirement::Limit;

/// Index into [`Scenario::hosts`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub usize);

/// Index into [`Scenario::links`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub usize);

/// Index into [`Scenario::ports`]: an output port, one per link and direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId(pub usize);

/// A checked scenario.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// Name of the scenario: ASCII letters, digits, `-`; it names run folders and network namespaces.
    pub name: String,
    /// The cycle that streams have unless they say otherwise.
    pub cycle: Nanos,
    /// Cycles start at `base_time + k·cycle`.
    pub base_time: Tai,
    /// Which streams of a host share a thread.
    pub threads: Threads,
    /// What a reader does with messages that wait.
    pub backlog: Backlog,
    /// Stations and bridges, in the order of the file.
    pub hosts: Vec<Host>,
    /// Links, in the order of the file.
    pub links: Vec<Link>,
    /// Two output ports a link: `ports[2·l]` sends from `links[l].ends[0]`, `ports[2·l + 1]` from `ends[1]`.
    pub ports: Vec<Port>,
    /// PubSub streams, in the order of the file.
    pub streams: Vec<Stream>,
    /// Other traffic, in the order of the file.
    pub traffic: Vec<Traffic>,
    /// What has to hold; empty when nothing is required.
    pub requirement: Vec<Limit>,
    /// Name of the requirement class, when one was named.
    pub requirement_class: Option<String>,
    /// What the machines are; bound, simulation and run need none of it.
    pub installation: Installation,
    /// The file as it was read.
    pub source: String,
}

/// Which stream ends of a host share a thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Threads {
    /// None: every end of a stream has a thread of its own.
    #[default]
    Stream,
    /// All.
    Host,
    /// All, and there are three: one for the subscribe phases, one for the application phases, one for the publish phases.
    Phase,
}

/// What a reader does with the messages that wait for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Backlog {
    /// Reads all of them; the newest counts.
    #[default]
    Drain,
    /// Takes one a cycle, in their order: what came late once stays late (a standing backlog).
    Keep {
        /// Once messages were late by the same number of cycles in so many cycles on end, all that waits is read;
        /// `None` leaves them late.
        drain_after: Option<NonZeroU32>,
    },
}

impl Backlog {
    /// Keeps whatever stands.
    pub const KEEP: Self = Self::Keep { drain_after: None };

    /// Whether one message a cycle is taken.
    pub const fn is_kept(self) -> bool {
        matches!(self, Self::Keep { .. })
    }

    /// After how many cycles a backlog that stands is drained; `None` where it is not, or cannot stand.
    pub const fn drain_after(self) -> Option<NonZeroU32> {
        match self {
            Self::Keep { drain_after } => drain_after,
            Self::Drain => None,
        }
    }
}

/// A station or a bridge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Its name in the file.
    pub name: String,
    /// What it does.
    pub kind: HostKind,
    /// Its part in clock synchronisation.
    pub clock: ClockRole,
    /// Where in the cycle its application acts.
    pub phases: Phases,
    /// PublisherId (UInt16) of the NetworkMessages it writes; unique among the hosts.
    pub publisher_id: u16,
    /// How it is reached from another machine: what `ssh` is given; `here` for the machine that asks, `none` for a host that
    /// nobody reaches. Left out, its name.
    pub ssh: Option<String>,
}

/// What a host does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostKind {
    /// Has an application; an end of streams.
    Station,
    /// Forwards frames.
    Bridge {
        /// From the last bit in to the frame in the output queue.
        latency: Nanos,
        /// What forwards.
        forwarder: Forwarder,
    },
}

/// What forwards frames in a bridge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forwarder {
    /// The bridge of the Linux kernel.
    Linux,
    /// Open vSwitch.
    OpenVSwitch,
    /// Switch hardware.
    Hardware,
}

/// Part of a host in IEEE 1588 / 802.1AS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockRole {
    /// Gives the time.
    Grandmaster,
    /// Follows.
    Slave,
    /// Shares the clock of the machine: network namespaces of one kernel.
    Shared,
}

/// Share of a cycle in parts per billion: exact for decimals of up to nine digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Fraction(pub u32);

impl Fraction {
    /// Parts per billion that make a whole.
    pub const WHOLE: u32 = 1_000_000_000;

    /// This share of `cycle`, rounded down to a nanosecond.
    pub fn of(self, cycle: Nanos) -> Nanos {
        Nanos((i128::from(cycle.0) * i128::from(self.0) / i128::from(Self::WHOLE)) as i64)
    }
}

impl fmt::Display for Fraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", f64::from(self.0) / f64::from(Self::WHOLE))
    }
}

/// Where in a cycle the phases of an application begin (seed papers: 0.0, 0.3, 0.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Phases {
    /// Read what has arrived.
    pub subscribe: Fraction,
    /// How long reading goes on after `subscribe`; zero reads once (a poll).
    pub window: Fraction,
    /// The application computes.
    pub application: Fraction,
    /// The publisher takes the image and hands the frame over.
    pub publish: Fraction,
}

/// A link and its cable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// The hosts at its ends.
    pub ends: [HostId; 2],
    /// Rate of both directions.
    pub rate: Rate,
    /// Propagation delay of its cable: 5 ns a metre.
    pub propagation: Nanos,
    /// Carries clock synchronisation only, no stream and no traffic.
    pub ptp_only: bool,
}

/// An output port: the sending side of one direction of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// The host that sends.
    pub host: HostId,
    /// The host at the other end.
    pub peer: HostId,
    /// The link.
    pub link: LinkId,
    /// Its queue discipline.
    pub queue: Queue,
    /// Added to the base-time of the gates in this port, so that they follow the frames along the path.
    pub shift: Nanos,
    /// The network interface that it is where its host is a machine of its own; a laboratory names its own.
    pub interface: Option<String>,
}

/// A PubSub stream: one WriterGroup with one DataSetWriter and, with `echo`, its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    /// Its name in the file.
    pub name: String,
    /// The station that publishes.
    pub writer: HostId,
    /// The station that subscribes.
    pub reader: HostId,
    /// Whether the reader publishes what it read back to the writer.
    pub echo: bool,
    /// Number of UInt64 variables, all holding the counter of the application cycle.
    pub variables: u16,
    /// How fields are encoded.
    pub encoding: FieldEncoding,
    /// VLAN identifier of the 802.1Q tag, 0 (priority tag) to 4094.
    pub vid: u16,
    /// Priority code point of the tag, 0 to 7.
    pub pcp: u8,
    /// Destination address of the frames from writer to reader, and of the answers.
    pub destinations: [[u8; 6]; 2],
    /// The same for messages that travel over UDP instead of in Ethernet frames of their own (OPC 10000-14 §7.3.2).
    /// Such frames have no tag; `pcp` is the priority they are queued under, and `vid` is 0.
    pub udp: Option<[SocketAddr; 2]>,
    /// WriterGroupId of both directions.
    pub writer_group_id: u16,
    /// Its cycle; the phases of its hosts are shares of this.
    pub cycle: Nanos,
    /// First launch not before `base_time + start`.
    pub start: Nanos,
    /// Launch = next cycle start + offset; may exceed the cycle.
    pub offset: Nanos,
    /// Whether frames have a launch time; without, they go when the publish phase has built them.
    pub launch: bool,
    /// What its ends watch for; `None` for nothing.
    pub breaches: Option<Breaches>,
    /// Who makes the values at its writer and at its reader.
    pub applications: [ApplicationKind; 2],
    /// Output ports from writer to reader, in order.
    pub path: Vec<PortId>,
    /// Output ports from reader to writer, in order; given also without echo.
    pub return_path: Vec<PortId>,
}

/// What runs between reading and writing at one end of a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum ApplicationKind {
    /// The engine itself, which counts cycles to measure.
    #[default]
    Counter,
    /// A process of somebody's own, through a process image.
    Image,
}

/// How the fields of a DataSetMessage are encoded (OPC 10000-14 §7.2.4.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldEncoding {
    /// The papers' frame of 32 + 9·n bytes: open62541's header, a Boolean, n UInt64, each a Variant.
    Variant,
    /// The UADP-Periodic-Fixed header layout with n UInt64 as RawData: 20 + 8·n bytes.
    RawData,
}

/// Traffic beside the streams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Traffic {
    /// The station that sends.
    pub from: HostId,
    /// The station that receives.
    pub to: HostId,
    /// What it is.
    pub kind: TrafficKind,
    /// Rate of the payload that the transport carries; `None` sends as fast as it can.
    pub rate: Option<Rate>,
    /// Bytes of UDP payload a datagram, or of the largest TCP segment.
    pub payload_bytes: u16,
    /// Priority code point it is queued under.
    pub pcp: u8,
    /// Output ports from `from` to `to`, in order.
    pub path: Vec<PortId>,
}

/// Transport of traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrafficKind {
    /// Datagrams at a steady rate.
    Udp,
    /// One connection, made by iperf3 in a real run.
    Tcp,
}

/// A host that is stopped for a while in the middle of a run or a simulation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pause {
    /// Which host.
    pub host: HostId,
    /// How long after cycle 0.
    pub at: Nanos,
    /// For how long.
    pub lasting: Nanos,
}

impl FieldEncoding {
    /// Bytes of UADP that `variables` make.
    pub fn payload_bytes(self, variables: u16) -> u32 {
        match self {
            Self::Variant => 32 + 9 * u32::from(variables),
            Self::RawData => 20 + 8 * u32::from(variables),
        }
    }
}

// Headers without options.
const IPV4_BYTES: u32 = 20;
const IPV6_BYTES: u32 = 40;
const UDP_BYTES: u32 = 8;
const TCP_BYTES: u32 = 20;

impl Stream {
    /// Bytes of UADP in one of its frames.
    pub fn payload_bytes(&self) -> u32 {
        self.encoding.payload_bytes(self.variables)
    }

    /// The size of one of its frames.
    pub fn frame(&self) -> FrameSize {
        match self.udp {
            None => FrameSize::tagged(self.payload_bytes()),
            Some([SocketAddr::V4(_), _]) => FrameSize::untagged(self.payload_bytes() + UDP_BYTES + IPV4_BYTES),
            Some([SocketAddr::V6(_), _]) => FrameSize::untagged(self.payload_bytes() + UDP_BYTES + IPV6_BYTES),
        }
    }

    /// Whether its variables behind the first are values of an application: the first alone is then the counter.
    pub fn has_values(&self) -> bool {
        self.applications.contains(&ApplicationKind::Image)
    }

    /// What runs at one end.
    pub fn application(&self, end: StreamEnd) -> ApplicationKind {
        self.applications[end as usize]
    }

    /// VID and PCP that its frames carry; none over UDP.
    pub fn tag(&self) -> Option<(u16, u8)> {
        self.udp.is_none().then_some((self.vid, self.pcp))
    }
}

impl Traffic {
    /// The size of its largest frame: payload, transport and IP header, no tag.
    pub fn frame(&self) -> FrameSize {
        let transport = match self.kind {
            TrafficKind::Udp => UDP_BYTES,
            TrafficKind::Tcp => TCP_BYTES,
        };
        FrameSize::untagged(u32::from(self.payload_bytes) + transport + IPV4_BYTES)
    }
}

impl Scenario {
    /// The host of an index.
    pub fn host(&self, id: HostId) -> &Host {
        &self.hosts[id.0]
    }

    /// The link of an index.
    pub fn link(&self, id: LinkId) -> &Link {
        &self.links[id.0]
    }

    /// The port of an index.
    pub fn port(&self, id: PortId) -> &Port {
        &self.ports[id.0]
    }

    /// The host named `name`.
    pub fn host_named(&self, name: &str) -> Option<HostId> {
        self.hosts.iter().position(|host| host.name == name).map(HostId)
    }

    /// Rate of the link of a port.
    pub fn port_rate(&self, id: PortId) -> Rate {
        self.link(self.port(id).link).rate
    }

    /// The queue at the first port of `path` that keeps launch times of frames of `pcp`, if one does; else their own
    /// thread does.
    pub fn launch_queue(&self, path: &[PortId], pcp: u8) -> Option<&Etf> {
        let queue = &self.port(*path.first()?).queue;
        queue.etf(queue.class_of(pcp))
    }

    /// "br1 → br2": how a port is called in tables.
    pub fn port_name(&self, id: PortId) -> String {
        let port = self.port(id);
        format!("{} → {}", self.host(port.host).name, self.host(port.peer).name)
    }

    /// How long `host` takes from the last bit of a frame in to the frame in its output queue; zero for stations.
    pub fn bridge_latency(&self, id: HostId) -> Nanos {
        match self.host(id).kind {
            HostKind::Station => Nanos::ZERO,
            HostKind::Bridge { latency, .. } => latency,
        }
    }
}
