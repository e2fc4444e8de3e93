//! The network of this machine as it is, for a role: looked at, never changed.

use std::net::IpAddr;
use std::process::Command;

use measure::{Machine, Side};
use scenario::{PortId, Queue, Scenario, Stream};
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
    let ends = ends_at(scenario, role, port);
    if described["linkinfo"]["info_kind"] == "vlan" && ends.iter().any(|(stream, _)| stream.udp.is_none()) {
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
    let needed = ends.iter().map(|(stream, _)| stream.frame().payload_bytes()).max().unwrap_or(0);
    if let Some(mtu) = link::interface::mtu(name).ok().filter(|mtu| *mtu < needed) {
        return wrong(
            format!("{name} takes frames of {mtu} bytes of payload, and the streams need {needed}"),
            format!("raise it: `ip link set {name} mtu {needed}`"),
        );
    }
    let own = addresses_of(name);
    let missing = |(stream, side): (&'_ Stream, Side)| {
        let [there, answer] = stream.udp?;
        let ip = match side {
            Side::Reader => there.ip(),
            Side::Writer if stream.echo => answer.ip(),
            Side::Writer => return None,
        };
        (!ip.is_multicast() && !own.contains(&ip)).then(|| (stream.name.clone(), ip))
    };
    if let Some((stream, ip)) = ends.into_iter().find_map(missing) {
        let prefix = if ip.is_ipv6() { 64 } else { 24 };
        return wrong(
            format!("messages of stream {stream} come to {ip} here, which is no address of {name}"),
            format!(
                "give it the address: `ip address add {ip}/{prefix} dev {name}`, or name another in the scenario, the \
                 same on all hosts; `ip address show {name}` lists those it has"
            ),
        );
    }
    Ok(())
}

/// The stream ends that a role drives at a port.
fn ends_at<'a>(scenario: &'a Scenario, role: &Role, port: PortId) -> Vec<(&'a Stream, Side)> {
    let mut found = Vec::new();
    for (index, stream) in scenario.streams.iter().enumerate() {
        for (side, path) in [(Side::Writer, &stream.path), (Side::Reader, &stream.return_path)] {
            if path.first() == Some(&port) && role.drives(scenario, index, side) {
                found.push((stream, side));
            }
        }
    }
    found
}

/// The IP addresses of an interface; none when `ip` cannot tell.
fn addresses_of(name: &str) -> Vec<IpAddr> {
    let output = Command::new("ip").args(["-j", "address", "show", "dev", name]).output();
    let list: Vec<Value> =
        output.ok().and_then(|output| serde_json::from_slice(&output.stdout).ok()).unwrap_or_default();
    let of = |link: &Value| link["addr_info"].as_array().cloned().unwrap_or_default();
    let ip = |address: Value| address["local"].as_str().and_then(|ip| ip.parse().ok());
    list.iter().flat_map(of).filter_map(ip).collect()
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
