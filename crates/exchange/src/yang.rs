//! Instance data of the YANG modules of IEEE 802.1Q as JSON (RFC 7951), so that NETCONF and RESTCONF tools can configure
//! the switches of a scenario.
//!
//! | module | what is written |
//! |---|---|
//! | `ieee802-dot1q-bridge` | the bridge and its component, VLANs and their member ports; at each port its traffic classes by priority, PCP as 8P0D, priorities as they come |
//! | `ieee802-dot1q-sched-bridge` (802.1Qcw) | `gate-parameter-table` of each port with gates |
//! | `ieee802-dot1q-preemption-bridge` (802.1Qcw) | `frame-preemption-status-table` of each port with preemptable classes |
//! | `ietf-interfaces` | what the ports hang on |
//!
//! A document is of one bridge, as a NETCONF server is one machine. It is meant to be merged into what the bridge has
//! (the edit-config operation `merge`): what a scenario does not say is not in it.

mod gates;

use std::collections::BTreeSet;

use scenario::{HostId, HostKind, PortId, Queue, Scenario, Shaper};
use tsn::LinuxPort;

use crate::json::{self, Node, table};
use crate::mac;
use crate::problem::{Note, Problems, one};

/// What a component is called unless it is said.
const COMPONENT: &str = "component-1";
/// Longest `name-type` of ieee802-dot1q-types.
const NAME_CHARS: usize = 32;

/// How a bridge calls what a scenario has no names for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Called {
    /// The bridge; by default as the host of the scenario.
    pub bridge: Option<String>,
    /// Its component; by default `component-1`.
    pub component: Option<String>,
    /// Its MAC address. The module wants one where a bridge is created; one that is there has it.
    pub address: Option<[u8; 6]>,
}

/// The instance data of a bridge. The notes name defaults, and what the modules cannot say or are not told.
///
/// # Errors
/// A host that is no bridge or has no port, and a name that the modules do not take.
pub fn of_bridge(scenario: &Scenario, host: HostId, called: &Called) -> Result<(String, Vec<Note>), Problems> {
    let name = &scenario.host(host).name;
    if !matches!(scenario.host(host).kind, HostKind::Bridge { .. }) {
        let bridges = scenario.hosts.iter().filter(|host| matches!(host.kind, HostKind::Bridge { .. }));
        let bridges: Vec<&str> = bridges.map(|host| host.name.as_str()).collect();
        return Err(one(
            &scenario.name,
            format!("host {name}"),
            "is a station: these modules are of bridges",
            "a host with `kind = \"bridge\"`",
            match bridges.as_slice() {
                [] => "the scenario has no bridge; for Linux there is `downbeat render`".to_owned(),
                _ => format!("name one of: {}", bridges.join(", ")),
            },
        ));
    }
    let bridge = called.bridge.as_deref().unwrap_or(name);
    if bridge.chars().count() > NAME_CHARS {
        return Err(one(
            &scenario.name,
            "--bridge",
            "is too long",
            format!("at most {NAME_CHARS} characters"),
            "shorten it",
        ));
    }
    let component = called.component.as_deref().unwrap_or(COMPONENT);
    let ports = LinuxPort::all(scenario, host);
    let mut notes = defaults(scenario, called, &ports);
    let vlans = Vlans::of(scenario, &ports);
    let interfaces =
        ports.iter().map(|port| interface(scenario, port, component, &vlans, &mut notes)).collect::<Vec<_>>();
    notes.extend(vlans.notes(scenario, &ports));
    if interfaces.is_empty() {
        return Err(one(
            &scenario.name,
            format!("host {name}"),
            "has no port for streams",
            "a bridge with links",
            "add `[[links]]`",
        ));
    }
    let document = table([
        (
            "ieee802-dot1q-bridge:bridges",
            table([("bridge", vec![of_component(bridge, component, called, &vlans)].into())]),
        ),
        ("ietf-interfaces:interfaces", table([("interface", interfaces.into())])),
    ]);
    Ok((json::write(&document), notes))
}

fn defaults(scenario: &Scenario, called: &Called, ports: &[LinuxPort<'_>]) -> Vec<Note> {
    let mut notes = Vec::new();
    if called.address.is_none() {
        notes.push(Note::new(
            "address",
            "left out: merge into a bridge that is there, or name its MAC address (--address), which the module wants of a new one",
        ));
    }
    let numbers: Vec<String> = ports
        .iter()
        .zip(1..)
        .map(|(port, number)| {
            format!("{number} = {} to {}", port.device, scenario.host(scenario.port(port.id).peer).name)
        })
        .collect();
    notes.push(Note::new("port numbers", format!("counted in the order of the links: {}", numbers.join(", "))));
    notes
}

/// VLANs of a bridge: whose frames pass which of its ports.
struct Vlans {
    /// Of each port, tagged.
    tagged: Vec<BTreeSet<u16>>,
    /// Whether frames without a VID pass each port.
    untagged: Vec<bool>,
    /// The VLAN that those are counted to.
    native: u16,
}

impl Vlans {
    fn of(scenario: &Scenario, ports: &[LinuxPort<'_>]) -> Self {
        let passing: Vec<tsn::Passing> = ports.iter().map(|port| tsn::passing(scenario, port.id)).collect();
        Self {
            untagged: passing.iter().map(|passing| passing.untagged).collect(),
            tagged: passing.into_iter().map(|passing| passing.vids).collect(),
            native: tsn::native_vid(scenario),
        }
    }

    fn all(&self) -> BTreeSet<u16> {
        let native = self.untagged.contains(&true).then_some(self.native);
        self.tagged.iter().flatten().copied().chain(native).collect()
    }

    /// Whether and how a VLAN leaves at a port.
    fn transmitted(&self, port: usize, vid: u16) -> Option<&'static str> {
        match () {
            () if self.tagged[port].contains(&vid) => Some("tagged"),
            () if self.untagged[port] && vid == self.native => Some("untagged"),
            () => None,
        }
    }

    fn notes(&self, scenario: &Scenario, ports: &[LinuxPort<'_>]) -> Vec<Note> {
        let mut notes = Vec::new();
        let here = |path: &[PortId]| ports.iter().any(|port| path.contains(&port.id));
        for stream in &scenario.streams {
            if stream.tag() == Some((0, stream.pcp)) && (here(&stream.path) || stream.echo && here(&stream.return_path))
            {
                notes.push(Note::new(
                    format!("stream {}", stream.name),
                    "has VID 0: a bridge takes its priority and sends it on without a tag; give it a VID",
                ));
            }
        }
        notes
    }
}

fn of_component(bridge: &str, component: &str, called: &Called, vlans: &Vlans) -> Node {
    let all = vlans.all();
    let vlan = all.iter().map(|vid| table([("vid", u64::from(*vid).into())])).collect::<Vec<_>>();
    let entries = all.iter().map(|vid| registration(*vid, vlans)).collect::<Vec<_>>();
    let component = table([
        ("name", component.into()),
        ("type", "ieee802-dot1q-bridge:c-vlan-component".into()),
        ("filtering-database", table([("vlan-registration-entry", entries.into())])),
        ("bridge-vlan", table([("vlan", vlan.into())])),
    ]);
    let mut node = vec![("name".to_owned(), Node::from(bridge))];
    node.extend(called.address.map(|address| ("address".to_owned(), mac::with(address, "-").into())));
    node.push(("bridge-type".to_owned(), "ieee802-dot1q-bridge:customer-vlan-bridge".into()));
    node.push(("component".to_owned(), vec![component].into()));
    Node::Table(node)
}

/// A VLAN and the ports that are its members, whatever MVRP hears (802.1Q §8.8.2).
fn registration(vid: u16, vlans: &Vlans) -> Node {
    let member = |port: usize| {
        let transmitted = vlans.transmitted(port, vid)?;
        Some(table([
            ("port-ref", (port as u64 + 1).into()),
            (
                "static-vlan-registration-entries",
                table([
                    ("registrar-admin-control", "fixed-new-ignored".into()),
                    ("vlan-transmitted", transmitted.into()),
                ]),
            ),
        ]))
    };
    let map = (0..vlans.tagged.len()).filter_map(member).collect::<Vec<_>>();
    table([
        ("database-id", 1.into()),
        ("vids", vid.to_string().into()),
        ("entry-type", "static".into()),
        ("port-map", map.into()),
    ])
}

impl From<i32> for Node {
    fn from(number: i32) -> Self {
        Self::Number(number.into())
    }
}

/// Eight leaves, `priority0` to `priority7`.
fn by_priority(value: impl Fn(u8) -> Node) -> Vec<(String, Node)> {
    (0..8).map(|priority| (format!("priority{priority}"), value(priority))).collect()
}

fn interface(scenario: &Scenario, port: &LinuxPort<'_>, component: &str, vlans: &Vlans, notes: &mut Vec<Note>) -> Node {
    let at = format!("port {}", port.name);
    // No tags come where no VLAN passes, and a priority tag is one of the native VLAN too.
    let untagged = tsn::passing(scenario, port.id).untagged;
    let mut bridge_port = vec![
        ("component-name".to_owned(), Node::from(component)),
        ("port-type".to_owned(), "ieee802-dot1q-bridge:c-vlan-bridge-port".into()),
    ];
    if untagged {
        bridge_port.push(("pvid".to_owned(), u64::from(vlans.native).into()));
    }
    // The model takes the PCP as the priority.
    bridge_port
        .push(("priority-regeneration".to_owned(), Node::Table(by_priority(|priority| u64::from(priority).into()))));
    bridge_port.push(("pcp-selection".to_owned(), "8P0D".into()));
    let mut classes = vec![("number-of-traffic-classes".to_owned(), u64::from(port.class_count()).into())];
    classes.extend(by_priority(|priority| u64::from(port.queue.class_of(priority)).into()));
    bridge_port.push(("traffic-class".to_owned(), table([("traffic-class-table", Node::Table(classes))])));
    if let Queue::Taprio { schedule, .. } = port.queue {
        match gates::parameters(schedule, port.shift) {
            Ok(gates) => bridge_port.push(("ieee802-dot1q-sched-bridge:gate-parameter-table".to_owned(), gates)),
            Err(why) => notes.push(Note::new(&at, format!("its gates are left out: {why}"))),
        }
    }
    if port.nic.preemptable != 0 {
        let status = by_priority(|priority| match port.nic.preemptable >> port.queue.class_of(priority) & 1 {
            1 => "preemptable".into(),
            _ => "express".into(),
        });
        bridge_port.push((
            "ieee802-dot1q-preemption-bridge:frame-preemption-parameters".to_owned(),
            table([("frame-preemption-status-table", Node::Table(status))]),
        ));
    }
    notes.extend(unsaid(&at, port));
    table([
        ("name", port.device.as_str().into()),
        ("type", "iana-if-type:ethernetCsmacd".into()),
        ("ieee802-dot1q-bridge:bridge-port", Node::Table(bridge_port)),
    ])
}

/// What a port has and these modules are not told.
fn unsaid(at: &str, port: &LinuxPort<'_>) -> Vec<Note> {
    let mut notes = Vec::new();
    let mut not = |what: String| notes.push(Note::new(at, what));
    match port.queue {
        Queue::FqCodel => not("fq_codel is of Linux alone: it is written as one traffic class".into()),
        Queue::Cbs(_) => not("its credit-based shaper is not said: these modules have no slopes".into()),
        Queue::Etf(_) => not("its launch times are not said: a bridge has none".into()),
        _ => {}
    }
    for class in 0..port.class_count().min(if port.classes().is_some() { 8 } else { 0 }) {
        match port.shaper(class) {
            Shaper::None => {}
            Shaper::Cbs(cbs) => {
                not(format!("the credit-based shaper of class {class}, {}, is not said", cbs.idle_slope))
            }
            Shaper::Etf(_) => not(format!("launch times of class {class} are not said: a bridge has none")),
        }
    }
    if port.nic.preemptable != 0 && port.nic.fragment_bytes > 0 {
        not(format!("its smallest fragment of {} B is not said: it is of IEEE 802.3", port.nic.fragment_bytes));
    }
    notes
}
