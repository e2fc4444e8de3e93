//! Network interfaces: link, queues, and what makes their frames wait.

use std::path::{Path, PathBuf};

use serde_json::Value;
use units::{Nanos, Rate};

use crate::apply::value_of;
use crate::change::Change;
use crate::finding::{Finding, Severity};
use crate::look::Look;
use crate::needs::{NeededInterface, Needs};

pub(super) fn examine(look: &impl Look, needs: &Needs, wanted: &NeededInterface, found: &mut Vec<Finding>) {
    let name = wanted.name.as_str();
    let folder = Path::new("/sys/class/net").join(name);
    if look.read(&folder.join("ifindex")).is_none() {
        let there = look.list("/sys/class/net".as_ref()).join(", ");
        found.push(Finding::new(
            "interface",
            Severity::Error,
            name,
            ["this machine has no such interface", &format!("one of: {there}"), "name another with --interface"],
        ));
        return;
    }
    let device = Device { name, folder };
    device.link(look, wanted, found);
    device.queues(look, wanted, found);
    device.energy(look, found);
    device.coalescing(look, found);
    device.gro(look, needs, found);
    device.vlan_offload(look, needs, found);
    device.stamps(look, wanted, found);
    device.preemption(look, found);
    device.launch(look, found);
    device.priorities(look, needs, wanted, found);
}

struct Device<'a> {
    name: &'a str,
    folder: PathBuf,
}

impl Device<'_> {
    fn setting(&self, look: &impl Look, file: &str) -> Option<String> {
        look.read(&self.folder.join(file))
    }

    fn found(&self, rule: &'static str, severity: Severity, words: [&str; 3]) -> Finding {
        Finding::new(rule, severity, self.name, words)
    }

    fn ethtool(&self, look: &impl Look, option: &str) -> Option<String> {
        look.run(&["ethtool", option, self.name]).filter(|printed| printed.well).map(|printed| printed.out)
    }

    fn link(&self, look: &impl Look, wanted: &NeededInterface, found: &mut Vec<Finding>) {
        let state = self.setting(look, "operstate").unwrap_or_default();
        if state == "down" || state == "lowerlayerdown" {
            let mend = format!("ip link set {} up, and look at the cable", self.name);
            found.push(self.found("link", Severity::Error, [&format!("the link is {state}"), "a link", &mend]));
            return;
        }
        // Virtual interfaces have none, or -1.
        let speed = look.number(&self.folder.join("speed")).filter(|speed| *speed > 0);
        let Some(speed) = speed.and_then(|speed| u64::try_from(speed).ok()).map(|speed| Rate(speed * 1_000_000)) else {
            found.push(Finding::good("link", self.name, "up, without a speed of its own"));
            return;
        };
        match wanted.rate {
            Some(rate) if speed < rate => found.push(self.found(
                "link-speed",
                Severity::Error,
                [
                    &format!("the link came up with {speed}"),
                    &format!("{rate}, as the scenario says: windows and slopes are worked out for it"),
                    "look at cable and partner (`ethtool` shows what both offer), or change `rate` of the link",
                ],
            )),
            Some(rate) if speed > rate => found.push(self.found(
                "link-speed",
                Severity::Warning,
                [
                    &format!("the link came up with {speed}"),
                    &format!("{rate}, as the scenario says: what is shaped to shares of it is sent too fast"),
                    "change `rate` of the link in the scenario",
                ],
            )),
            _ => found.push(Finding::good("link-speed", self.name, speed.to_string())),
        }
        if self.setting(look, "duplex").as_deref() == Some("half") {
            let mend = format!("ethtool -s {} autoneg on, and look at the partner", self.name);
            found.push(self.found("duplex", Severity::Error, ["half duplex", "full duplex", &mend]));
        }
    }

    fn queues(&self, look: &impl Look, wanted: &NeededInterface, found: &mut Vec<Finding>) {
        let names = look.list(&self.folder.join("queues"));
        let there = names.iter().filter(|name| name.starts_with("tx-")).count();
        if there >= wanted.queues {
            found.push(Finding::good("queues", self.name, format!("{there} transmit queues")));
            return;
        }
        let virtual_device = look.leads_to(&self.folder.join("device/driver")).is_none();
        let mend = match virtual_device {
            true => format!("make the device with `numtxqueues {}`", wanted.queues),
            false => format!("ethtool -L {} combined {} (or tx), if the card has them", self.name, wanted.queues),
        };
        let needed = format!("{}, one a traffic class", wanted.queues);
        let severity = if wanted.queues > 1 { Severity::Error } else { Severity::Warning };
        found.push(self.found("queues", severity, [&format!("{there} transmit queues"), &needed, &mend]));
    }

    fn energy(&self, look: &impl Look, found: &mut Vec<Finding>) {
        let Some(text) = self.ethtool(look, "--show-eee") else { return };
        let status = value_of(&text, "EEE status").unwrap_or_default();
        if !status.starts_with("enabled") {
            found.push(Finding::good("eee", self.name, "energy-efficient Ethernet is off"));
            return;
        }
        let change = |to: &str| ["ethtool", "--set-eee", self.name, "eee", to].map(str::to_owned).to_vec();
        let finding = self.found(
            "eee",
            Severity::Warning,
            [
                "energy-efficient Ethernet is on",
                "off: a link that sleeps takes some 17 µs at 1 Gbit/s before a frame leaves",
                &format!("ethtool --set-eee {} eee off", self.name),
            ],
        );
        found.push(finding.mended_by(Change::Command { run: change("off"), undo: change("on") }));
    }

    fn coalescing(&self, look: &impl Look, found: &mut Vec<Finding>) {
        let Some(text) = self.ethtool(look, "-c") else { return };
        let on: Vec<(&str, &str)> = ["rx-usecs", "tx-usecs"]
            .into_iter()
            .filter_map(|key| Some((key, value_of(&text, key)?)))
            .filter(|(_, value)| value.parse::<u64>().is_ok_and(|value| value > 0))
            .collect();
        if on.is_empty() {
            found.push(Finding::good("coalescing", self.name, "interrupts come at once"));
            return;
        }
        let set = |value: &dyn Fn(&str) -> String| -> Vec<String> {
            let pairs = on.iter().flat_map(|(key, now)| [(*key).to_owned(), value(now)]);
            ["ethtool", "-C", self.name].into_iter().map(str::to_owned).chain(pairs).collect()
        };
        let told: Vec<_> = on.iter().map(|(key, value)| format!("{key} {value}")).collect();
        let run = set(&|_| "0".to_owned());
        let finding = self.found(
            "coalescing",
            Severity::Warning,
            [
                &format!("interrupts are held back: {}", told.join(", ")),
                "none held back: frames and their stamps are late by as many microseconds",
                &run.join(" "),
            ],
        );
        found.push(finding.mended_by(Change::Command { run, undo: set(&str::to_owned) }));
    }

    fn gro(&self, look: &impl Look, needs: &Needs, found: &mut Vec<Finding>) {
        let path = self.folder.join("gro_flush_timeout");
        let Some(timeout) = look.number(&path).map(Nanos) else { return };
        let limit = needs.cycle.unwrap_or(Nanos(100_000));
        if timeout < limit {
            found.push(Finding::good("gro-flush-timeout", self.name, timeout.to_string()));
            return;
        }
        let finding = self.found(
            "gro-flush-timeout",
            Severity::Warning,
            [
                &format!("received frames may be held for {timeout}"),
                &format!("less than a cycle ({limit}); 0 hands them on at once"),
                &format!("echo 0 > {}", path.display()),
            ],
        );
        found.push(finding.mended_by(Change::File { path, value: "0".into() }));
    }

    /// A card that takes the tag off puts it where an XDP programme does not see it.
    fn vlan_offload(&self, look: &impl Look, needs: &Needs, found: &mut Vec<Finding>) {
        let Some(printed) = look.run(&["ethtool", "--json", "-k", self.name]) else { return };
        let features: Value = serde_json::from_str(&printed.out).unwrap_or_default();
        let active = features[0]["rx-vlan-offload"]["active"].as_bool().unwrap_or(false);
        // A veth hands the tag over beside the frame only when the sender put it there.
        let hardware = look.leads_to(&self.folder.join("device/driver")).is_some();
        if !active || !hardware {
            return;
        }
        let change = |to: &str| ["ethtool", "-K", self.name, "rxvlan", to].map(str::to_owned).to_vec();
        let finding = self.found(
            "rx-vlan-offload",
            if needs.xdp { Severity::Error } else { Severity::Note },
            [
                "the card takes VLAN tags off received frames",
                "that it leaves them, where frames come by AF_XDP: the tag is lost there",
                &format!("ethtool -K {} rxvlan off", self.name),
            ],
        );
        let fixed = needs.xdp.then(|| Change::Command { run: change("off"), undo: change("on") });
        found.push(fixed.into_iter().fold(finding, Finding::mended_by));
    }

    fn stamps(&self, look: &impl Look, wanted: &NeededInterface, found: &mut Vec<Finding>) {
        // The loopback device has no wire.
        let Some(text) = self.ethtool(look, "-T").filter(|_| self.name != "lo") else { return };
        let clock =
            value_of(&text, "PTP Hardware Clock").or_else(|| value_of(&text, "Hardware timestamp provider index"));
        match clock {
            Some(clock) if clock != "none" => {
                found.push(Finding::good("ptp-clock", self.name, format!("PTP hardware clock {clock}")));
            }
            _ => found.push(self.found(
                "ptp-clock",
                if wanted.launches { Severity::Error } else { Severity::Note },
                [
                    "no PTP hardware clock",
                    "one, for stamps of the wire, launch times by the card, and synchronisation below a microsecond",
                    "another card (i210, i225, i226 and many of embedded boards have one); without, ptp4l runs with -S \
                     and stamps are the kernel's",
                ],
            )),
        }
    }

    fn preemption(&self, look: &impl Look, found: &mut Vec<Finding>) {
        let Some(text) = self.ethtool(look, "--show-mm") else { return };
        if value_of(&text, "TX enabled") != Some("on") {
            return;
        }
        let status = value_of(&text, "Verification status").unwrap_or("unknown").to_owned();
        if status.eq_ignore_ascii_case("succeeded") {
            found.push(Finding::good("preemption", self.name, "frame preemption is verified"));
            return;
        }
        found.push(self.found(
            "preemption",
            Severity::Error,
            [
                &format!("frame preemption is on and its verification is {status}"),
                "succeeded on both ends: without, no frame is preempted",
                &format!(
                    "ethtool --set-mm {} pmac-enabled on tx-enabled on verify-enabled on, there as here",
                    self.name
                ),
            ],
        ));
    }

    /// Without offload ETF hands frames over up to delta early: a launch time is not kept by it.
    fn launch(&self, look: &impl Look, found: &mut Vec<Finding>) {
        let Some(printed) = look.run(&["tc", "-j", "qdisc", "show", "dev", self.name]) else { return };
        // A pending taprio schedule is not JSON; ETF beside it is found all the same by its words.
        let kinds: Vec<Value> = serde_json::from_str(&printed.out).unwrap_or_default();
        for etf in kinds.iter().filter(|kind| kind["kind"] == "etf") {
            let options = &etf["options"];
            if options["offload"] != "on" && options["deadline_mode"] != "on" {
                let delta =
                    options["delta"].as_i64().map_or_else(|| "delta".to_owned(), |delta| Nanos(delta).to_string());
                found.push(self.found(
                    "etf-offload",
                    Severity::Warning,
                    [
                        &format!("ETF without offload (parent {})", etf["parent"].as_str().unwrap_or("root")),
                        &format!("to know that its frames leave {delta} before their launch time, not at it"),
                        "offload on, where the card has launch times; else leave pacing to Downbeat, which is late by \
                         microseconds instead",
                    ],
                ));
            }
        }
    }

    /// A bridge does not look at the PCP: filters on ingress have to make a priority of it.
    fn priorities(&self, look: &impl Look, needs: &Needs, wanted: &NeededInterface, found: &mut Vec<Finding>) {
        if !needs.forwards || !wanted.classes {
            return;
        }
        let shown = |way: &str| {
            let printed = look.run(&["tc", "filter", "show", "dev", self.name, way]);
            printed.map(|printed| printed.out).unwrap_or_default()
        };
        let filters = shown("ingress");
        if filters.contains("vlan_prio") && filters.contains("skbedit") {
            found.push(Finding::good("pcp-priority", self.name, "filters make the PCP the priority"));
            return;
        }
        found.push(self.found(
            "pcp-priority",
            Severity::Error,
            [
                "nothing makes a priority of the PCP of received frames",
                "one filter a PCP: a bridge of Linux or Open vSwitch leaves every frame in class 0 otherwise",
                &format!(
                    "tc qdisc add dev {0} clsact; tc filter add dev {0} ingress protocol 802.1Q flower vlan_prio 7 \
                     action skbedit priority 7 (and so for each PCP)",
                    self.name
                ),
            ],
        ));
    }
}
