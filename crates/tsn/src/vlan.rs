//! VLAN devices of a station, and that of clock synchronisation.

use std::collections::BTreeSet;

use scenario::{HostId, HostKind, PtpWay, Scenario};

use crate::bridge::passing;
use crate::plan::{Command, Existing, Program, Step, Undo};
use crate::port::LinuxPort;
use crate::ptp;

/// Longest name of an interface.
const NAME_CHARS: usize = 15;

/// The device of a VLAN on an interface: `eth1.3000`.
pub fn device(interface: &str, vid: u16) -> String {
    let name = format!("{interface}.{vid}");
    if name.len() <= NAME_CHARS { name } else { format!("vlan{vid}") }
}

/// Adds the devices that the scenario asks for.
pub(crate) fn steps(scenario: &Scenario, host: HostId, ports: &[LinuxPort<'_>], steps: &mut Vec<Step>) {
    let station = scenario.host(host).kind == HostKind::Station;
    for port in ports {
        let mut vids = BTreeSet::new();
        if station && scenario.machine(host).vlan_devices {
            vids.extend(passing(scenario, port.id).vids);
        }
        if ptp::synchronises(scenario, host) {
            match ptp::way(scenario, host) {
                PtpWay::OwnVlan(vid) => _ = vids.insert(vid),
                PtpWay::DataVlan => vids.extend(ptp::data_vid(scenario, port.id)),
                PtpWay::Untagged | PtpWay::OwnLink => {}
            }
        }
        for vid in vids {
            let (base, name) = (&port.device, device(&port.device, vid));
            let map: Vec<String> = (1..8).map(|priority| format!("{priority}:{priority}")).collect();
            let map = map.join(" ");
            let made = steps.len();
            steps.push(Step {
                target: name.clone(),
                command: Command::new(
                    Program::Ip,
                    &format!("link add link {base} name {name} type vlan id {vid} ingress-qos-map {map} egress-qos-map {map}"),
                ),
                why: vec![
                    format!("{name}: priority = PCP, out and in. 0:0 is the default and cannot be listed. Sockets on {base} that ask"),
                    "for 0xB62C get the frames of this VLAN too, without their tag.".into(),
                ],
                undo: Undo::Run(Command::new(Program::Ip, &format!("link del {name}"))),
                existing: Existing::Kept,
            });
            steps.push(Step {
                target: name.clone(),
                command: Command::new(Program::Ip, &format!("link set {name} up")),
                why: vec![],
                undo: Undo::With(made),
                existing: Existing::Replaced,
            });
        }
    }
}
