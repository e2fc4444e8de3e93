//! Bridges: VLAN-aware, of the kernel or Open vSwitch, and the way from a PCP to a priority.

use std::collections::BTreeSet;

use scenario::{Forwarder, HostId, HostKind, PortId, Scenario};

use crate::plan::{Command, Existing, Program, Setting, Step, Undo};
use crate::port::LinuxPort;

/// What a bridge is called on its machine.
pub const BRIDGE: &str = "br0";

/// What passes a port of a bridge, in or out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Passing {
    /// VLANs of tagged frames.
    pub vids: BTreeSet<u16>,
    /// Whether frames without tag, or with a priority tag, pass.
    pub untagged: bool,
}

/// What passes a port of a bridge: it leaves there, or has left the port at the other end of the link before.
pub fn passing(scenario: &Scenario, id: PortId) -> Passing {
    let mut passing = Passing::default();
    let other = PortId(id.0 ^ 1);
    let here = |path: &[PortId]| path.iter().any(|port| *port == id || *port == other);
    for stream in &scenario.streams {
        if here(&stream.path) || stream.echo && here(&stream.return_path) {
            match stream.tag() {
                Some((vid, _)) if vid > 0 => _ = passing.vids.insert(vid),
                _ => passing.untagged = true,
            }
        }
    }
    // Connections send back what they acknowledge, over the same links.
    passing.untagged |= scenario.traffic.iter().any(|traffic| here(&traffic.path));
    passing
}

fn forwarder(scenario: &Scenario, host: HostId) -> Option<Forwarder> {
    match scenario.host(host).kind {
        HostKind::Station => None,
        HostKind::Bridge { forwarder, .. } => Some(forwarder),
    }
}

/// The VLAN that untagged frames are counted to inside the bridge: the lowest that no stream has.
pub fn native_vid(scenario: &Scenario) -> u16 {
    (1..=4094).find(|vid| scenario.streams.iter().all(|stream| stream.vid != *vid)).unwrap_or(1)
}

/// Adds what makes a bridge of a host; nothing for a station.
pub(crate) fn steps(scenario: &Scenario, host: HostId, ports: &[LinuxPort<'_>], steps: &mut Vec<Step>) {
    match forwarder(scenario, host) {
        None => {}
        Some(Forwarder::OpenVSwitch) => open_vswitch(scenario, ports, steps),
        Some(Forwarder::Linux | Forwarder::Hardware) => linux(scenario, ports, steps),
    }
}

fn step(target: &str, program: Program, line: &str, why: Vec<String>, undo: Undo, existing: Existing) -> Step {
    Step { target: target.to_owned(), command: Command::new(program, line), why, undo, existing }
}

fn linux(scenario: &Scenario, ports: &[LinuxPort<'_>], steps: &mut Vec<Step>) {
    let made = steps.len();
    steps.push(step(
        BRIDGE,
        Program::Ip,
        &format!(
            "link add {BRIDGE} type bridge vlan_filtering 1 vlan_default_pvid 0 mcast_snooping 0 stp_state 0 forward_delay 0"
        ),
        vec![
            "A bridge that lets a VLAN through where it is named only. Without snooping, or it keeps multicast from ports".into(),
            "that never asked for it; without spanning tree, or ports are shut for 30 s.".into(),
        ],
        Undo::Run(Command::new(Program::Ip, &format!("link del {BRIDGE}"))),
        Existing::Kept,
    ));
    for port in ports {
        let device = &port.device;
        let enslaved = steps.len();
        steps.push(step(
            device,
            Program::Ip,
            &format!("link set {device} master {BRIDGE}"),
            vec![port.name.clone()],
            Undo::Former(Setting::Master),
            Existing::Replaced,
        ));
        steps.push(step(
            device,
            Program::Ip,
            &format!("link set {device} up"),
            vec![],
            Undo::Former(Setting::State),
            Existing::Replaced,
        ));
        let passing = passing(scenario, port.id);
        let mut why = vec![format!("{}: VLANs of its streams", port.name)];
        for vid in &passing.vids {
            let line = format!("vlan add dev {device} vid {vid}");
            let why = std::mem::take(&mut why);
            steps.push(step(device, Program::Bridge, &line, why, Undo::With(enslaved), Existing::Replaced));
        }
        if passing.untagged {
            let line = format!("vlan add dev {device} vid {} pvid untagged", native_vid(scenario));
            let why = vec![format!("{}: frames without tag pass as they are", port.name)];
            steps.push(step(device, Program::Bridge, &line, why, Undo::With(enslaved), Existing::Replaced));
        }
    }
    steps.push(step(
        BRIDGE,
        Program::Ip,
        &format!("link set {BRIDGE} up"),
        vec![],
        Undo::With(made),
        Existing::Replaced,
    ));
}

fn open_vswitch(scenario: &Scenario, ports: &[LinuxPort<'_>], steps: &mut Vec<Step>) {
    let made = steps.len();
    steps.push(step(
        BRIDGE,
        Program::OvsVsctl,
        &format!("--may-exist add-br {BRIDGE}"),
        vec!["A bridge of Open vSwitch that learns addresses".into()],
        Undo::Run(Command::new(Program::OvsVsctl, &format!("--if-exists del-br {BRIDGE}"))),
        Existing::Kept,
    ));
    steps.push(step(
        BRIDGE,
        Program::OvsVsctl,
        &format!("set bridge {BRIDGE} mcast_snooping_enable=false stp_enable=false rstp_enable=false"),
        vec![],
        Undo::With(made),
        Existing::Replaced,
    ));
    for port in ports {
        let device = &port.device;
        let passing = passing(scenario, port.id);
        let mut vids = passing.vids.clone();
        let mode = match passing.untagged {
            true => {
                let native = native_vid(scenario);
                vids.insert(native);
                format!("tag={native} vlan_mode=native-untagged")
            }
            false => "vlan_mode=trunk".to_owned(),
        };
        let vids: Vec<String> = vids.iter().map(u16::to_string).collect();
        // A trunk without a list carries every VLAN.
        let trunks = if vids.is_empty() { String::new() } else { format!(" trunks={}", vids.join(",")) };
        steps.push(step(
            device,
            Program::OvsVsctl,
            &format!("--may-exist add-port {BRIDGE} {device} {mode}{trunks}"),
            vec![format!(
                "{}: VLANs of its streams; untagged frames {}",
                port.name,
                match passing.untagged {
                    true => "pass as they are",
                    false => "do not pass",
                }
            )],
            Undo::Run(Command::new(Program::OvsVsctl, &format!("--if-exists del-port {BRIDGE} {device}"))),
            Existing::Kept,
        ));
        steps.push(step(
            device,
            Program::Ip,
            &format!("link set {device} up"),
            vec![],
            Undo::Former(Setting::State),
            Existing::Replaced,
        ));
    }
}

/// Adds what gives a forwarded frame the priority of its PCP. Neither the kernel's bridge nor Open vSwitch does it
/// by itself, and then every class but one stays empty.
pub(crate) fn priority_steps(scenario: &Scenario, host: HostId, ports: &[LinuxPort<'_>], steps: &mut Vec<Step>) {
    let Some(forwarder) = forwarder(scenario, host) else { return };
    if ports.iter().all(|port| port.classes().is_none()) {
        return;
    }
    for port in ports {
        let device = &port.device;
        if forwarder == Forwarder::Hardware {
            let map: Vec<String> = (0..8).map(|pcp| format!("{pcp}:{pcp}")).collect();
            steps.push(step(
                device,
                Program::Dcb,
                &format!("app replace dev {device} pcp-prio {}", map.join(" ")),
                vec![format!("{}: PCP = priority, in the switch. Not every driver has it: read it back.", port.name)],
                Undo::Run(Command::new(Program::Dcb, &format!("app flush dev {device} pcp-prio"))),
                Existing::Replaced,
            ));
            continue;
        }
        steps.push(step(
            device,
            Program::Tc,
            &format!("qdisc replace dev {device} clsact"),
            vec![
                format!("{device}: priority of what comes in = its PCP, read before the bridge takes the frame. A bridge does not"),
                "look at the PCP by itself, and every class but one would stay empty. Before any schedule: adding clsact".into(),
                "stops the timer of a software taprio. Frames without tag keep priority 0.".into(),
            ],
            Undo::Run(Command::new(Program::Tc, &format!("qdisc del dev {device} clsact"))),
            Existing::Kept,
        ));
        for pcp in 1..8 {
            let place = format!("dev {device} ingress protocol 802.1Q pref {pcp}");
            steps.push(step(
                device,
                Program::Tc,
                &format!("filter replace {place} handle 1 flower vlan_prio {pcp} action skbedit priority {pcp}"),
                vec![],
                Undo::Run(Command::new(Program::Tc, &format!("filter del {place}"))),
                Existing::Replaced,
            ));
        }
    }
}
