//! A run inside the kernel laboratory: links that are real in time, and what the result says of it.

use std::fmt::Write as _;
use std::fs;
use std::io;

use measure::Machine;
use scenario::{HostId, HostKind, PortId, Scenario};
use serde_json::{Value, json};
use units::{Nanos, Rate};

use crate::error::LabError;

/// A parameter of the laboratory's veth; no other kernel has it.
const WIRE: &str = "/sys/module/veth/parameters/wire";

/// FCS, preamble with delimiter, and gap: what a frame takes of the wire beyond its bytes in the kernel.
const WIRE_BYTES: u32 = 24;

/// A scenario whose links the laboratory can have: each end sends one frame at a time, at the link's rate; it arrives after the
/// cable's delay and, at a bridge, the bridge's latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelLab(());

impl KernelLab {
    /// The laboratory for a scenario.
    ///
    /// # Errors
    /// It has no link, or one with a rate or a delay that the laboratory cannot have.
    pub fn of(scenario: &Scenario) -> Result<Self, LabError> {
        if scenario.links.iter().all(|link| link.ptp_only) {
            return Err(LabError::Scenario {
                what: "the scenario has no link that carries frames".into(),
                mend: "add a [[links]] table".into(),
            });
        }
        for port in (0..scenario.ports.len()).map(PortId) {
            wire(scenario, port)?;
        }
        Ok(Self(()))
    }

    /// Switches the wires on, before the first link is made.
    ///
    /// # Errors
    /// This is not the kernel of the laboratory.
    pub(crate) fn enter(self) -> Result<(), LabError> {
        fs::write(WIRE, WIRE_BYTES.to_string()).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => LabError::Host {
                what: "this kernel's links cannot be given a rate: it is not that of the kernel laboratory, or an older one"
                    .into(),
                mend: "use `downbeat run --in kernel-lab`; after an update run `make kernel-lab` again".into(),
            },
            _ => LabError::io("switching the wires of the laboratory's links on")(error),
        })
    }

    /// Adds to the machine's description what is special about the place.
    pub(crate) fn describe(self, scenario: &Scenario, machine: &mut Machine) {
        // What is left of it differs from start to start, and nothing depends on it.
        machine.remove("memory_bytes");
        let links = scenario.links.iter().filter(|link| !link.ptp_only).map(|link| {
            let ends = link.ends.map(|end| scenario.host(end).name.clone()).join(" – ");
            json!({ "link": ends, "rate_bit_s": link.rate.0, "propagation_ns": link.propagation.0 })
        });
        let bridges = (0..scenario.hosts.len()).map(HostId).filter(|id| scenario.host(*id).kind != HostKind::Station);
        let latencies = bridges.map(|id| (scenario.host(id).name.clone(), json!(scenario.bridge_latency(id).0)));
        let entries = [
            ("place", json!("kernel-lab")),
            (
                "time",
                json!("virtual: it moves only while every thread sleeps, and 10 ns with each reading of the clock"),
            ),
            ("virtual_machine", json!("User Mode Linux")),
            ("clock", json!("virtual (time-travel=inf-cpu)")),
            ("link", json!("veth pairs of the kernel laboratory, each end with a pfifo or what the port asks for")),
            (
                "wire",
                json!(format!(
                    "on: a port sends one frame at a time, {WIRE_BYTES} bytes longer than in the kernel (FCS, preamble, gap); it \
                     arrives when its last bit has left, and the cable's delay and a bridge's latency are over"
                )),
            ),
            ("wire_bytes", json!(WIRE_BYTES)),
            ("links", links.collect()),
            ("bridge_latency_ns", Value::Object(latencies.collect())),
        ];
        machine.extend(entries.map(|(key, value)| (key.to_owned(), value)));
    }
}

/// What a port sends with: Mbit/s, and ns from the last bit's leaving to the frame's arrival, or its being in the output queues of
/// a bridge.
fn wire(scenario: &Scenario, port: PortId) -> Result<(u64, i64), LabError> {
    let port = scenario.port(port);
    let link = scenario.link(port.link);
    let name = || link.ends.map(|end| scenario.host(end).name.clone()).join(" – ");
    let mbit = Rate::from_mbit(1).0;
    if !link.rate.0.is_multiple_of(mbit) || link.rate.0 == 0 || i32::try_from(link.rate.0 / mbit).is_err() {
        return Err(LabError::Scenario {
            what: format!("the link {} has {}, and the kernel laboratory counts in whole Mbit/s", name(), link.rate),
            mend: "take a `rate` in whole Mbit/s".into(),
        });
    }
    let delay = link.propagation.0.saturating_add(scenario.bridge_latency(port.peer).0);
    if i32::try_from(delay).is_err() {
        return Err(LabError::Scenario {
            what: format!("frames arrive {} late at the far end of {}", Nanos(delay), name()),
            mend: "the kernel laboratory takes up to 2.1 s: look at `cable` of the link and `latency` of the bridge"
                .into(),
        });
    }
    Ok((link.rate.0 / mbit, delay))
}

/// The shell's commands that give the wires of a host what its links have; none for one without interfaces.
pub(crate) fn wires<'a>(
    scenario: &Scenario,
    host: HostId,
    name: impl Fn(PortId) -> Option<&'a str>,
) -> Result<String, LabError> {
    let mut lines = String::new();
    for port in (0..scenario.ports.len()).map(PortId).filter(|port| scenario.port(*port).host == host) {
        let Some(name) = name(port) else { continue };
        let (speed, delay) = wire(scenario, port)?;
        let folder = format!("/sys/class/net/{name}/wire");
        _ = writeln!(lines, "echo {speed} > {folder}/speed\necho {delay} > {folder}/delay");
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bridged(change: impl Fn(&str) -> String) -> Scenario {
        let text = change(scenario::template("bridged").unwrap());
        scenario::read(&text, "bridged.toml").unwrap()
    }

    #[test]
    fn each_port_sends_with_what_its_link_has() {
        let scenario = bridged(|text| text.replacen("1Gbit/s", "100Mbit/s", 1));
        assert!(KernelLab::of(&scenario).is_ok());
        let all: Vec<_> = (0..scenario.ports.len()).map(|port| wire(&scenario, PortId(port)).unwrap()).collect();
        assert_eq!(all.iter().filter(|(speed, _)| *speed == 100).count(), 2, "{all:?}");
        for (port, (_, delay)) in scenario.ports.iter().zip(&all) {
            let latency = scenario.bridge_latency(port.peer);
            assert_eq!(*delay, (scenario.link(port.link).propagation + latency).0);
        }
        let host = scenario.port(PortId(0)).host;
        let lines = wires(&scenario, host, |_| Some("eth0")).unwrap();
        assert!(lines.starts_with("echo 100 > /sys/class/net/eth0/wire/speed\necho "), "{lines}");
    }

    #[test]
    fn rates_that_cannot_be_had_are_refused_in_words() {
        let error = KernelLab::of(&bridged(|text| text.replacen("1Gbit/s", "1500kbit/s", 1))).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("whole Mbit/s"), "{error}");
    }
}
