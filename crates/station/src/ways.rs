//! By which way frames go in and out of an interface.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use link::ReceiveWay;
use scenario::{PortId, Queue, Scenario};
use serde::{Deserialize, Serialize};

use crate::departure::Departure;
use crate::spec::{EndSpec, WorkerSpec};
use crate::stamping::StampPlan;

/// The way that is asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Link {
    /// What serves best here: AF_XDP where it needs no copy and passes no queueing discipline by, else a ring, else
    /// plain sockets.
    #[default]
    Auto,
    /// Packet sockets, one system call a frame.
    Packet,
    /// Packet sockets, received through a ring shared with the kernel.
    Ring,
    /// AF_XDP, past the stack and its queueing disciplines.
    Xdp,
}

impl Link {
    /// Its name on the command line and in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Packet => "packet",
            Self::Ring => "ring",
            Self::Xdp => "xdp",
        }
    }

    /// Which receiver of packet sockets this asks for.
    pub(crate) const fn receive_way(self) -> ReceiveWay {
        match self {
            Self::Auto | Self::Xdp => ReceiveWay::Auto,
            Self::Packet => ReceiveWay::Packet,
            Self::Ring => ReceiveWay::Ring,
        }
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Link {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Self::Auto, Self::Packet, Self::Ring, Self::Xdp];
        all.into_iter().find(|link| link.name() == text).ok_or_else(|| "expected auto, packet, ring or xdp".into())
    }
}

/// What is said of AF_XDP where somebody asked for it at a port with a queueing discipline.
const PASSES_BY: &str =
    "it passes by the queueing discipline of the port: no gate, shaper or priority holds its frames";

/// How one interface was reached, for the result: by Ethernet frames, or by datagrams.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reached {
    /// The interface.
    pub interface: String,
    /// How frames come in; none where nothing is read.
    pub receive: Option<String>,
    /// How frames go out; none where nothing is sent.
    pub send: Option<String>,
    /// Why it is this way, or which one was wanted first.
    pub why: String,
    /// By whose clock frames are stamped: `hardware`, `software` or `off`.
    #[serde(default)]
    pub stamps: String,
    /// Why it is so.
    #[serde(default)]
    pub stamps_why: String,
    /// When frames leave relative to their launch times, by stream where streams differ; none where none has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch: Option<String>,
    /// Why it is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launch_why: Option<String>,
    /// Streams whose launch times the kernel keeps, and when their frames leave.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub txtime: BTreeMap<String, String>,
}

impl Reached {
    /// An interface that nothing has been opened on.
    pub(crate) fn new(interface: &str, why: String, stamps: &StampPlan) -> Self {
        Self {
            interface: interface.into(),
            receive: None,
            send: None,
            why,
            stamps: stamps.name().into(),
            stamps_why: stamps.why.clone(),
            launch: None,
            launch_why: None,
            txtime: BTreeMap::new(),
        }
    }

    /// What frames pass by here that the scenario wants to hold them; in words.
    pub fn passes_by(&self) -> Option<&'static str> {
        self.why.contains(PASSES_BY).then_some(PASSES_BY)
    }

    /// Adds how a stream's frames keep their launch times.
    pub(crate) fn launches(&mut self, stream: &str, departure: &Departure) {
        let add = |all: &mut Option<String>, words: &str| match all {
            None => *all = Some(words.into()),
            Some(all) if all.contains(words) => {}
            Some(all) => all.push_str(&format!("; stream {stream}: {words}")),
        };
        add(&mut self.launch, &departure.mechanism);
        add(&mut self.launch_why, &departure.why);
        if departure.txtime.is_some() {
            self.txtime.insert(stream.into(), departure.mechanism.clone());
        }
    }
}

/// How an interface will be reached, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) xdp: bool,
    pub(crate) why: String,
}

/// The streams of an interface by what carries them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Shares<'a> {
    ethernet: Vec<&'a str>,
    udp: Vec<&'a str>,
}

impl<'a> Shares<'a> {
    /// Those of the ends of one interface.
    pub(crate) fn of<'e>(ends: impl Iterator<Item = &'e EndSpec>, scenario: &'a Scenario) -> Self {
        let mut shares = Self::default();
        for end in ends {
            let stream = &scenario.streams[end.stream];
            let share = if stream.udp.is_some() { &mut shares.udp } else { &mut shares.ethernet };
            if !share.contains(&stream.name.as_str()) {
                share.push(&stream.name);
            }
        }
        shares
    }

    /// Why Ethernet frames go as they do, and what does not go with them.
    pub(crate) fn why_ethernet(&self, why: &str) -> String {
        if self.udp.is_empty() {
            return why.into();
        }
        format!(
            "{why}; this is the way of the Ethernet frames of {}, not of {}",
            named(&self.ethernet),
            named(&self.udp)
        )
    }

    /// Why datagrams go as they do, whatever was asked for.
    pub(crate) fn why_udp(&self, link: Link) -> String {
        let streams = named(&self.udp);
        let goes = if self.udp.len() == 1 { "goes" } else { "go" };
        let why = format!("{streams} {goes} over UDP, through the stack of the kernel");
        match link {
            Link::Auto => why,
            _ => format!("{why}; {link} was asked for, which is a way of Ethernet frames"),
        }
    }
}

/// "stream a", "streams a, b".
fn named(streams: &[&str]) -> String {
    format!("{} {}", if streams.len() == 1 { "stream" } else { "streams" }, streams.join(", "))
}

/// What speaks for a way to an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Facts {
    /// Its port has a queueing discipline that the scenario names or that keeps launch times, which AF_XDP would pass by.
    shaped: bool,
    /// Its driver says that it can do without copies.
    zero_copy: bool,
    /// Nothing but stamps of the network card will do; of frames that leave a run has none by AF_XDP.
    needs_hardware_stamps: bool,
}

/// Chooses the way to an interface.
///
/// # Errors
/// There is no such interface.
pub(crate) fn choose(
    link: Link,
    interface: &str,
    workers: &[WorkerSpec],
    (scenario, stamps): (&Scenario, &StampPlan),
) -> Result<Choice, String> {
    let facts = Facts {
        shaped: port(interface, workers, scenario).is_some_and(|port| scenario.port(port).queue != Queue::Fifo)
            || keeps_launch_times(interface, workers),
        zero_copy: link::xdp::offers_zero_copy(interface).map_err(|error| error.to_string())?,
        needs_hardware_stamps: stamps.is_needed(),
    };
    Ok(decide(link, facts))
}

fn decide(link: Link, facts: Facts) -> Choice {
    let packet = |why: &str| Choice { xdp: false, why: why.into() };
    let xdp = |why: &str| Choice { xdp: true, why: why.into() };
    match link {
        Link::Packet | Link::Ring => packet("asked for"),
        Link::Xdp if facts.shaped => xdp(&format!("asked for; {PASSES_BY}")),
        Link::Xdp => xdp("asked for"),
        Link::Auto if !facts.zero_copy => packet("AF_XDP would copy each frame here, and a ring costs less"),
        Link::Auto if facts.shaped => packet("AF_XDP would pass by the queueing discipline of the port"),
        Link::Auto if facts.needs_hardware_stamps => {
            packet("hardware stamps were asked for, and AF_XDP gives none of frames that leave")
        }
        Link::Auto => xdp("its driver offers zero copy"),
    }
}

/// Whether a queue of the interface is to keep launch times.
fn keeps_launch_times(interface: &str, workers: &[WorkerSpec]) -> bool {
    let mut ends = workers.iter().flat_map(|worker| &worker.ends).filter(|end| end.interface == interface);
    ends.any(|end| end.departure.as_ref().is_some_and(|departure| departure.txtime.is_some()))
}

/// The output port that an interface is.
fn port(interface: &str, workers: &[WorkerSpec], scenario: &Scenario) -> Option<PortId> {
    let end = workers.iter().flat_map(|worker| &worker.ends).find(|end| end.interface == interface)?;
    let &EndSpec { stream, writer, .. } = end;
    let stream = &scenario.streams[stream];
    let path = if writer { &stream.path } else { &stream.return_path };
    path.first().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    const VETH: Facts = Facts { shaped: false, zero_copy: false, needs_hardware_stamps: false };
    const CARD: Facts = Facts { zero_copy: true, ..VETH };

    #[test]
    fn names_are_read_as_they_are_written() {
        for link in [Link::Auto, Link::Packet, Link::Ring, Link::Xdp] {
            assert_eq!(link.name().parse(), Ok(link));
            assert_eq!(serde_json::to_string(&link).unwrap(), format!("\"{link}\""));
        }
        assert!("AF_XDP".parse::<Link>().is_err());
    }

    #[test]
    fn what_goes_by_which_way_is_said_with_the_names_of_streams() {
        let only = Shares { ethernet: vec!["a"], udp: Vec::new() };
        assert_eq!(only.why_ethernet("asked for"), "asked for");
        let both = Shares { ethernet: vec!["a"], udp: vec!["u", "v"] };
        let why = both.why_ethernet("asked for");
        assert_eq!(why, "asked for; this is the way of the Ethernet frames of stream a, not of streams u, v");
        assert_eq!(both.why_udp(Link::Auto), "streams u, v go over UDP, through the stack of the kernel");
        assert!(both.why_udp(Link::Xdp).ends_with("; xdp was asked for, which is a way of Ethernet frames"));
    }

    #[test]
    fn xdp_is_taken_by_itself_only_where_it_gains_and_bypasses_nothing() {
        let xdp = |facts| decide(Link::Auto, facts).xdp;
        assert!(xdp(CARD));
        assert!(!xdp(VETH));
        assert!(!xdp(Facts { shaped: true, ..CARD }));
        assert!(!xdp(Facts { needs_hardware_stamps: true, ..CARD }));
    }

    #[test]
    fn what_is_asked_for_is_had() {
        for facts in [VETH, CARD] {
            assert!(!decide(Link::Ring, facts).xdp);
            assert!(decide(Link::Xdp, facts).xdp);
        }
        let why = |facts| decide(Link::Xdp, facts).why;
        assert_eq!(why(VETH), "asked for");
        assert!(why(Facts { shaped: true, ..VETH }).contains("passes by the queueing discipline"));
    }
}
