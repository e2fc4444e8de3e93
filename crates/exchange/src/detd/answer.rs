//! The reply to a request, out of a scenario's plan.

use scenario::{HostId, Scenario, Stream};

use super::{Request, hosts_with};
use crate::json::{self, Node};
use crate::problem::Note;

/// detd's `StreamQosResponse`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// Whether the scenario plans the stream as it was asked for.
    pub ok: bool,
    /// The VLAN interface to open a socket on (`eth0.3`); `None` when refused.
    pub vlan_interface: Option<String>,
    /// `SO_PRIORITY` of that socket; `None` when refused.
    pub socket_priority: Option<u32>,
    /// Why it is refused, or what has to be done before the reply is true.
    pub notes: Vec<Note>,
}

impl Reply {
    fn refused(at: impl Into<String>, why: impl Into<String>) -> Self {
        Self { ok: false, vlan_interface: None, socket_priority: None, notes: vec![Note::new(at, why)] }
    }

    /// The text of the reply: the fields of the message alone.
    pub fn to_json(&self) -> String {
        let mut entries = vec![("ok".to_owned(), Node::from(self.ok))];
        entries.extend(self.vlan_interface.iter().map(|name| ("vlan_interface".to_owned(), name.as_str().into())));
        entries.extend(self.socket_priority.map(|priority| ("socket_priority".to_owned(), u64::from(priority).into())));
        json::write(&Node::Table(entries))
    }
}

/// Answers a request as detd would when the scenario is what it planned; `host` is the one that asks, or is found by the
/// interface.
pub fn answer(request: &Request, scenario: &Scenario, host: Option<HostId>) -> Reply {
    let mut hosts = hosts_with(scenario, &request.interface);
    hosts.retain(|found| host.is_none_or(|host| host == *found));
    if hosts.is_empty() {
        let whose = host.map_or_else(|| "no station".to_owned(), |host| format!("{} not", scenario.host(host).name));
        return Reply::refused(
            "interface",
            format!("{whose} has \"{}\" in the scenario; `interface` of a host names it", request.interface),
        );
    }
    let found = hosts.iter().find_map(|host| Some((*host, planned(request, scenario, *host)?)));
    let Some((host, (stream, answer))) = found else {
        return Reply::refused(
            "request",
            "the scenario plans no stream there with this destination, VID and PCP; `downbeat import detd` adds one",
        );
    };
    let differs = request.talker.and_then(|_| differs(request, scenario, stream, answer));
    if let Some(note) = differs {
        return Reply { notes: vec![note], ..Reply::refused("", "") };
    }
    let mut notes = Vec::new();
    if !scenario.machine(host).vlan_devices {
        notes.push(Note::new(
            "vlan_interface",
            format!(
                "the plan makes no VLAN interfaces: add `machine = {{ vlan_devices = true }}` to [hosts.{}]",
                scenario.host(host).name
            ),
        ));
    }
    Reply {
        ok: true,
        vlan_interface: Some(tsn::vlan_device(&request.interface, request.vid)),
        // The plan's VLAN interfaces and queues take a socket's priority as the PCP and the other way round.
        socket_priority: Some(request.pcp.into()),
        notes,
    }
}

/// The direction of a stream that `host` sends (or, for a listener, gets) and that is the one asked for.
fn planned<'a>(request: &Request, scenario: &'a Scenario, host: HostId) -> Option<(&'a Stream, bool)> {
    scenario.streams.iter().find_map(|stream| {
        [false, true].into_iter().find_map(|answer| {
            let (from, to) = if answer { (stream.reader, stream.writer) } else { (stream.writer, stream.reader) };
            let path = if answer { &stream.return_path } else { &stream.path };
            let (end, port) = match request.talker {
                Some(_) => (from, *path.first()?),
                // The other direction of the last link.
                None => (to, scenario::PortId(path.last()?.0 ^ 1)),
            };
            let asked = end == host
                && (!answer || stream.echo)
                && stream.tag() == Some((request.vid, request.pcp))
                && stream.destinations[usize::from(answer)] == request.destination
                && tsn::device(scenario, port) == request.interface;
            asked.then_some((stream, answer))
        })
    })
}

/// What the plan has otherwise than it was asked for; nothing when it holds.
fn differs(request: &Request, scenario: &Scenario, stream: &Stream, answer: bool) -> Option<Note> {
    let asked = request.talker?;
    let name = &stream.name;
    let planned = match super::request_of(scenario, stream, answer) {
        Err(why) => return Some(Note::new("request", format!("stream {name}: {why}"))),
        Ok(planned) => planned.talker?,
    };
    if planned.period != asked.period {
        return Some(Note::new("period", format!("stream {name} has {}, asked for {}", planned.period, asked.period)));
    }
    if planned.launch != asked.launch {
        return Some(Note::new(
            "txmin",
            format!("stream {name} is launched at {}, asked for {}", planned.launch, asked.launch),
        ));
    }
    // detd's size is what the gate stays open for: a shorter frame fits, a longer does not.
    if planned.size_bytes > asked.size_bytes {
        let (has, size) = (planned.size_bytes, asked.size_bytes);
        return Some(Note::new("size", format!("stream {name} has frames of {has} B, asked for {size} B")));
    }
    None
}
