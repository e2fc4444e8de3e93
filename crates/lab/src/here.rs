//! The network of this machine as it is, for a role: looked at, never changed.

use std::process::Command;

use measure::{Machine, Side};
use scenario::{PortId, Queue, Scenario};
use serde_json::{Value, json};

use crate::error::LabError;
use crate::role::{Role, port_name};

/// Whether this machine has the interfaces that a role needs, in a state that lets frames of the streams through.
///
/// # Errors
/// What is wrong with one of them and how to mend it.
pub(crate) fn check(scenario: &Scenario, role: &Role) -> Result<(), LabError> {
    role.interfaces.iter().try_for_each(|(port, name)| check_interface(scenario, role, *port, name))
}

fn check_interface(scenario: &Scenario, role: &Role, port: PortId, name: &str) -> Result<(), LabError> {
    let wrong = |what: String, mend: String| {
        Err(LabError::Host { what: format!("{what} (it is to be the port {})", port_name(scenario, port)), mend })
    };
    if link::interface::index(name).is_err() {
        let mend = format!("name another with --interface; there are: {}", interfaces().join(", "));
        return wrong(format!("this machine has no interface {name}"), mend);
    }
    if !link::interface::is_up(name).unwrap_or(true) {
        return wrong(format!("interface {name} is down"), format!("bring it up: `ip link set {name} up`"));
    }
    let described = describe_link(name);
    if described["linkinfo"]["info_kind"] == "vlan" {
        let below = described["link"].as_str().unwrap_or("the interface below it");
        return wrong(
            format!("{name} is a VLAN of {below} and would put a second tag on frames that carry theirs already"),
            format!("name {below}: the streams bring their VID and PCP along"),
        );
    }
    if described["linkinfo"]["info_slave_kind"] == "bridge" {
        let bridge = described["master"].as_str().unwrap_or("a bridge");
        return wrong(
            format!("{name} is a port of {bridge}, which takes its frames before a socket sees them"),
            format!("name {bridge} itself, or take the port out: `ip link set {name} nomaster`"),
        );
    }
    let needed = scenario
        .streams
        .iter()
        .enumerate()
        .filter(|(index, _)| [Side::Writer, Side::Reader].iter().any(|side| role.drives(scenario, *index, *side)))
        .map(|(_, stream)| stream.payload_bytes())
        .max()
        .unwrap_or(0);
    match link::interface::mtu(name) {
        Ok(mtu) if mtu < needed => wrong(
            format!("{name} takes frames of {mtu} bytes of payload, and the streams need {needed}"),
            format!("raise it: `ip link set {name} mtu {needed}`"),
        ),
        _ => Ok(()),
    }
}

/// What a role leaves to the user, in words: it installs no queueing discipline and makes no traffic.
pub(crate) fn left_undone(scenario: &Scenario, role: &Role) -> Vec<String> {
    let mut notes = Vec::new();
    for (port, name) in &role.interfaces {
        let queue = &scenario.port(*port).queue;
        if *queue != Queue::Fifo {
            notes.push(format!(
                "port {} asks for {}: a role changes nothing of the machine, and {name} has {}",
                port_name(scenario, *port),
                queue.kind(),
                describe_link(name)["qdisc"].as_str().unwrap_or("another")
            ));
        }
    }
    if scenario.traffic.iter().any(|traffic| traffic.from == role.host) {
        notes.push(format!(
            "the scenario has traffic from {}: a role makes none beside its streams",
            scenario.host(role.host).name
        ));
    }
    notes
}

/// What goes into the result about the role and its interfaces.
pub(crate) fn describe(scenario: &Scenario, role: &Role, machine: &mut Machine) {
    let mut ends = Vec::new();
    for (index, stream) in scenario.streams.iter().enumerate() {
        for (side, name, path) in
            [(Side::Writer, "writer", &stream.path), (Side::Reader, "reader", &stream.return_path)]
        {
            if role.drives(scenario, index, side) {
                let interface = path.first().and_then(|port| role.interface(*port));
                ends.push(json!({ "stream": stream.name, "end": name, "interface": interface }));
            }
        }
    }
    let host = &scenario.host(role.host).name;
    machine.insert("role".into(), json!({ "command": role.part.name(), "host": host, "ends": ends }));
    let queues = role
        .interfaces
        .iter()
        .filter_map(|(_, name)| describe_link(name)["qdisc"].as_str().map(|kind| format!("{name}: {kind}")));
    machine.insert("qdiscs".into(), json!(queues.collect::<Vec<_>>()));
    machine.insert("link".into(), json!("network interfaces of this machine; the other hosts are elsewhere"));
}

/// An interface as `ip` describes it; null when it cannot.
fn describe_link(name: &str) -> Value {
    let output = Command::new("ip").args(["-j", "-d", "link", "show", "dev", name]).output();
    let mut list: Vec<Value> =
        output.ok().and_then(|output| serde_json::from_slice(&output.stdout).ok()).unwrap_or_default();
    list.pop().unwrap_or_default()
}

/// The names of all interfaces, the loopback one left out.
fn interfaces() -> Vec<String> {
    let all = nix::net::if_::if_nameindex();
    let names = all.iter().flat_map(|all| all.iter()).map(|interface| interface.name().to_string_lossy().into_owned());
    let names: Vec<_> = names.filter(|name| name != "lo").collect();
    if names.is_empty() { vec!["none but lo".into()] } else { names }
}
