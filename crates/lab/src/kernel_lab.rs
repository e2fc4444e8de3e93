//! A run inside the kernel laboratory: links that are real in time, and what the result says of it.

use std::fs;
use std::io;

use measure::Machine;
use scenario::Scenario;
use serde_json::json;
use units::Rate;

use crate::error::LabError;

/// Parameters of the laboratory's veth; no other kernel has them.
const SPEED: &str = "/sys/module/veth/parameters/speed";
const WIRE: &str = "/sys/module/veth/parameters/wire";

/// FCS, preamble with delimiter, and gap: what a frame takes of the wire beyond its bytes in the kernel.
const WIRE_BYTES: u32 = 24;

/// The links of the laboratory: all of one rate, each end sends one frame at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelLab {
    rate: Rate,
}

impl KernelLab {
    /// The laboratory for a scenario.
    ///
    /// # Errors
    /// Its links do not have one rate, or one that the laboratory cannot have.
    pub fn of(scenario: &Scenario) -> Result<Self, LabError> {
        let mut links = scenario.links.iter().filter(|link| !link.ptp_only);
        let name = |link: &scenario::Link| {
            link.ends.map(|end| scenario.host(end).name.clone()).join(" – ") + &format!(" {}", link.rate)
        };
        let Some(first) = links.next() else {
            return Err(LabError::Scenario {
                what: "the scenario has no link that carries frames".into(),
                mend: "add a [[links]] table".into(),
            });
        };
        if let Some(other) = links.find(|link| link.rate != first.rate) {
            return Err(LabError::Scenario {
                what: format!(
                    "the links differ in rate ({}, {}), and the kernel laboratory has one for all of them",
                    name(first),
                    name(other)
                ),
                mend: "give all links one `rate`; `downbeat simulate` and `downbeat bound` know mixed rates".into(),
            });
        }
        let mbit = Rate::from_mbit(1).0;
        if !first.rate.0.is_multiple_of(mbit) || i32::try_from(first.rate.0 / mbit).is_err() {
            return Err(LabError::Scenario {
                what: format!("the links have {}, and the kernel laboratory counts in whole Mbit/s", first.rate),
                mend: "take a `rate` in whole Mbit/s".into(),
            });
        }
        Ok(Self { rate: first.rate })
    }

    /// Sets the links up, before the first of them is made.
    ///
    /// # Errors
    /// This is not the kernel of the laboratory.
    pub(crate) fn enter(self) -> Result<(), LabError> {
        let set = |parameter: &str, value: u64| fs::write(parameter, value.to_string());
        set(SPEED, self.rate.0 / Rate::from_mbit(1).0).and_then(|()| set(WIRE, WIRE_BYTES.into())).map_err(|error| {
            match error.kind() {
                io::ErrorKind::NotFound => LabError::Host {
                    what: "this kernel's links cannot be given a rate: it is not that of the kernel laboratory, or an \
                           older one"
                        .into(),
                    mend: "use `downbeat run --in kernel-lab`; after an update run `make kernel-lab` again".into(),
                },
                _ => LabError::io("setting the rate of the laboratory's links")(error),
            }
        })
    }

    /// Adds to the machine's description what is special about the place.
    pub(crate) fn describe(self, scenario: &Scenario, machine: &mut Machine) {
        // What is left of it differs from start to start, and nothing depends on it.
        machine.remove("memory_bytes");
        let stretch = scenario.links.iter().map(|link| link.propagation).max().unwrap_or_default();
        let entries = [
            ("place", json!("kernel-lab")),
            (
                "time",
                json!("virtual: it moves only while every thread sleeps, and 10 ns with each reading of the clock"),
            ),
            ("virtual_machine", json!("User Mode Linux")),
            ("clock", json!("virtual (time-travel=inf-cpu)")),
            (
                "link",
                json!(format!(
                    "veth pairs of the kernel laboratory, {}, each end with a pfifo or what the port asks for",
                    self.rate
                )),
            ),
            (
                "wire",
                json!(format!(
                    "on: a port sends one frame at a time, {WIRE_BYTES} bytes longer than in the kernel (FCS, preamble, gap); it \
                     arrives when its last bit has left; no propagation delay{}",
                    if stretch.0 > 0 { format!(" (the scenario has up to {stretch})") } else { String::new() }
                )),
            ),
            ("wire_bytes", json!(WIRE_BYTES)),
            ("link_rate_bit_s", json!(self.rate.0)),
        ];
        machine.extend(entries.map(|(key, value)| (key.to_owned(), value)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(change: impl Fn(&str) -> String) -> Result<KernelLab, LabError> {
        let text = change(scenario::template("bridged").unwrap());
        KernelLab::of(&scenario::read(&text, "bridged.toml").unwrap())
    }

    #[test]
    fn links_of_one_rate_are_taken() {
        assert_eq!(of(str::to_owned).unwrap().rate, Rate::from_gbit(1));
        assert_eq!(of(|text| text.replace("1Gbit/s", "100Mbit/s")).unwrap().rate, Rate::from_mbit(100));
    }

    #[test]
    fn mixed_rates_are_refused_in_words() {
        let error = of(|text| text.replacen("1Gbit/s", "100Mbit/s", 1)).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("100Mbit/s") && error.to_string().contains("1Gbit/s"), "{error}");
    }
}
