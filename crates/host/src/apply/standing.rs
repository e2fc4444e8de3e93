//! How a step of a plan stands on the machine: done, to be done, in the way of something else.

use serde::Serialize;
use serde_json::Value;
use tsn::{Command, Program, Setting, Step, Undo};

use super::qdisc::{self, Planned, plain};
use super::setting::{current, features, has_flag, link, value_of};
use crate::look::Look;

/// How a step stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum Standing {
    /// The machine is as the step wants it.
    AsPlanned,
    /// What it makes is not there.
    ToDo,
    /// Something else is there that the step changes.
    Different {
        /// In what it differs.
        now: String,
    },
    /// Somebody else's is there, which could not be made again.
    Foreign {
        /// What.
        now: String,
    },
    /// The machine does not tell: the step is done, and not compared.
    Untold,
}

/// Looks at one step.
pub(super) fn standing(look: &impl Look, step: &Step) -> Standing {
    let words: Vec<&str> = step.command.words.iter().map(String::as_str).collect();
    match step.command.program {
        Program::Tc => tc(look, &step.command, &words),
        Program::Ip => ip(look, &words),
        Program::Bridge => vlan_of_port(look, &words),
        Program::Ethtool => ethtool(look, step, &words),
        Program::OvsVsctl => ovs(look, &words),
        Program::Systemctl => unit(look, &words),
        // What `dcb` shows differs from driver to driver.
        Program::Dcb => Standing::Untold,
    }
}

fn different(now: impl Into<String>) -> Standing {
    Standing::Different { now: now.into() }
}

/// Disciplines of a device.
pub(super) fn disciplines(look: &impl Look, device: &str) -> Result<Vec<Value>, String> {
    let printed =
        look.run(&["tc", "-j", "qdisc", "show", "dev", device]).ok_or("tc is missing: apt-get install iproute2")?;
    if !printed.well {
        return Err(printed.error);
    }
    qdisc::parse(&printed.out).map_err(|error| format!("tc -j qdisc show dev {device}: {error}"))
}

fn tc(look: &impl Look, command: &Command, words: &[&str]) -> Standing {
    if let ["filter", _, "dev", device, way, rest @ ..] = words {
        return filter(look, device, way, rest);
    }
    let (Some(planned), Some(device)) = (Planned::read(&command.words), words.get(3)) else { return Standing::Untold };
    let Ok(shown) = disciplines(look, device) else { return Standing::ToDo };
    let Some(now) = planned.find(&shown) else { return Standing::ToDo };
    match planned.difference(now).or_else(|| overhead(look, device, &planned)) {
        None => Standing::AsPlanned,
        // The handle of what the kernel puts there itself is 0.
        Some(_) if now["handle"] == "0:" => Standing::ToDo,
        Some(difference) if planned.parent == "root" => {
            let (kind, handle) = (plain(&now["kind"]), plain(&now["handle"]));
            Standing::Foreign { now: format!("{kind} {handle} at the root of {device} ({difference})") }
        }
        Some(difference) => different(difference),
    }
}

/// In what the bytes that a root counts of each frame differ.
fn overhead(look: &impl Look, device: &str, planned: &Planned<'_>) -> Option<String> {
    let wanted: u32 = planned.overhead?.parse().ok()?;
    let printed = look.run(&["tc", "-d", "qdisc", "show", "dev", device]).filter(|printed| printed.well)?;
    let now = qdisc::root_overhead(&printed.out)?;
    (now != wanted).then(|| format!("stab overhead is {now}, planned {wanted}"))
}

/// Filters of a device on `ingress` or `egress`.
fn filters(look: &impl Look, device: &str, way: &str) -> Vec<Value> {
    let printed = look.run(&["tc", "-j", "filter", "show", "dev", device, way]).filter(|printed| printed.well);
    printed.and_then(|printed| serde_json::from_str(&printed.out).ok()).unwrap_or_default()
}

/// Whether there is a filter of this preference.
pub(super) fn has_filter(look: &impl Look, device: &str, way: &str, pref: &str) -> bool {
    filters(look, device, way).iter().any(|entry| entry["pref"].as_u64() == pref.parse().ok())
}

/// `ingress protocol 802.1Q pref P handle 1 flower vlan_prio P action skbedit priority P`.
fn filter(look: &impl Look, device: &str, way: &str, words: &[&str]) -> Standing {
    let value = |key: &str| words.iter().position(|word| *word == key).and_then(|place| words.get(place + 1)).copied();
    let (Some(pref), Some(pcp), Some(priority)) = (value("pref"), value("vlan_prio"), value("priority")) else {
        return Standing::Untold;
    };
    let shown = filters(look, device, way);
    let number = |text: &str| text.parse::<u64>().ok();
    let here = |entry: &&Value| entry["pref"].as_u64() == number(pref) && entry["options"]["keys"].is_object();
    let Some(entry) = shown.iter().find(here) else { return Standing::ToDo };
    let options = &entry["options"];
    let same = entry["kind"] == "flower"
        && options["keys"]["vlan_prio"].as_u64() == number(pcp)
        && options["actions"].as_array().is_some_and(|actions| {
            // Shown as a number, or as a class identifier like ":7".
            let set = |action: &Value| plain(&action["priority"]).trim_start_matches(':').to_owned();
            actions.iter().any(|action| action["kind"] == "skbedit" && set(action) == priority)
        });
    if same { Standing::AsPlanned } else { different(format!("another filter of preference {pref} on {device}")) }
}

fn ip(look: &impl Look, words: &[&str]) -> Standing {
    match words {
        ["link", "add", rest @ ..] => made(look, rest),
        ["link", "set", device, "up"] => match link(look, device) {
            Some(link) if has_flag(&link, "UP") => Standing::AsPlanned,
            _ => Standing::ToDo,
        },
        ["link", "set", device, "master", bridge] => match link(look, device).map(|link| link["master"].clone()) {
            Some(master) if master == **bridge => Standing::AsPlanned,
            Some(Value::Null) | None => Standing::ToDo,
            Some(master) => Standing::Foreign { now: format!("{device} is a port of {}", plain(&master)) },
        },
        _ => Standing::Untold,
    }
}

/// A VLAN device or a bridge.
fn made(look: &impl Look, words: &[&str]) -> Standing {
    let value = |key: &str| words.iter().position(|word| *word == key).and_then(|place| words.get(place + 1)).copied();
    let name = value("name").or_else(|| words.first().copied().filter(|word| *word != "link")).unwrap_or_default();
    let kind = value("type").unwrap_or_default();
    let Some(now) = link(look, name) else { return Standing::ToDo };
    let info = &now["linkinfo"];
    if info["info_kind"] != kind {
        return Standing::Foreign { now: format!("{name} is a {}", plain(&info["info_kind"])) };
    }
    let data = &info["info_data"];
    let number = |text: &str| text.parse::<u64>().ok();
    let told = |key: &str, now: &Value| {
        // A kernel built without a thing does not tell of it.
        let planned = value(key).filter(|_| !now.is_null())?;
        (now.as_u64() != number(planned)).then(|| format!("{key} of {name} is {}, planned {planned}", plain(now)))
    };
    let difference = match kind {
        "vlan" => told("id", &data["id"]).or_else(|| {
            let base = value("link")?;
            (now["link"] != base).then(|| format!("{name} lies on {}, planned {base}", plain(&now["link"])))
        }),
        "bridge" => told("vlan_filtering", &data["vlan_filtering"])
            .or_else(|| told("vlan_default_pvid", &data["vlan_default_pvid"]))
            .or_else(|| told("mcast_snooping", &data["mcast_snooping"])),
        _ => None,
    };
    match difference {
        None => Standing::AsPlanned,
        // It cannot be changed from here without what hangs on it.
        Some(now) => Standing::Foreign { now },
    }
}

/// `vlan add dev D vid V [pvid untagged]`.
fn vlan_of_port(look: &impl Look, words: &[&str]) -> Standing {
    let ["vlan", "add", "dev", device, "vid", vid, flags @ ..] = words else { return Standing::Untold };
    let printed = look.run(&["bridge", "-j", "vlan", "show", "dev", device]).filter(|printed| printed.well);
    let shown: Value = printed.and_then(|printed| serde_json::from_str(&printed.out).ok()).unwrap_or_default();
    let vid: u64 = vid.parse().unwrap_or(0);
    let holds = |entry: &&Value| {
        let first = entry["vlan"].as_u64().unwrap_or(0);
        (first..=entry["vlanEnd"].as_u64().unwrap_or(first)).contains(&vid)
    };
    let entries = shown[0]["vlans"].as_array().cloned().unwrap_or_default();
    let Some(entry) = entries.iter().find(holds) else { return Standing::ToDo };
    let has = |flag: &str| entry["flags"].as_array().is_some_and(|flags| flags.iter().any(|known| known == flag));
    let wanted = |flag: &str| flags.contains(&flag);
    match has("PVID") == wanted("pvid") && has("Egress Untagged") == wanted("untagged") {
        true => Standing::AsPlanned,
        false => different(format!("VLAN {vid} of {device} has other flags")),
    }
}

fn ethtool(look: &impl Look, step: &Step, words: &[&str]) -> Standing {
    let [_, device, rest @ ..] = words else { return Standing::Untold };
    let Undo::Former(setting) = step.undo else { return Standing::Untold };
    let option = match setting {
        Setting::Channels => "-l",
        Setting::Rings => "-g",
        Setting::Coalescing => "-c",
        Setting::Eee => "--show-eee",
        Setting::MacMerge => "--show-mm",
        Setting::Features | Setting::State | Setting::Master => "-k",
    };
    let Some(printed) = look.run(&["ethtool", option, device]) else { return Standing::Untold };
    if !printed.well {
        return Standing::Untold;
    }
    let text = printed.out;
    let now = |key: &str| -> Option<String> {
        let found = match setting {
            Setting::Channels => current(&text, &[("RX", "rx"), ("TX", "tx"), ("Combined", "combined")]),
            Setting::Rings => current(&text, &[("RX", "rx"), ("TX", "tx")]),
            Setting::Coalescing => return value_of(&text, key).map(str::to_owned),
            Setting::Eee => {
                let on = value_of(&text, "EEE status")?.starts_with("enabled");
                return Some(if on { "on" } else { "off" }.to_owned());
            }
            Setting::MacMerge => {
                let printed = match key {
                    "pmac-enabled" => "pMAC enabled",
                    "tx-enabled" => "TX enabled",
                    "verify-enabled" => "Verify enabled",
                    "tx-min-frag-size" => "TX minimum fragment size",
                    _ => return None,
                };
                return value_of(&text, printed).map(str::to_owned);
            }
            Setting::Features | Setting::State | Setting::Master => {
                let long = match key {
                    "tso" => "tcp-segmentation-offload",
                    "gso" => "generic-segmentation-offload",
                    "gro" => "generic-receive-offload",
                    other => other,
                };
                let active = features(look, device)[long]["active"].as_bool()?;
                return Some(if active { "on" } else { "off" }.to_owned());
            }
        };
        found.into_iter().find(|(word, _)| *word == key).map(|(_, value)| value)
    };
    let (pairs, _) = rest.as_chunks::<2>();
    let differs = |[key, planned]: &[&str; 2]| match now(key) {
        Some(now) if now == *planned => None,
        Some(now) => Some(format!("{key} of {device} is {now}, planned {planned}")),
        None => None,
    };
    pairs.iter().find_map(differs).map_or(Standing::AsPlanned, Standing::different_from)
}

impl Standing {
    fn different_from(now: String) -> Self {
        Self::Different { now }
    }
}

fn ovs(look: &impl Look, words: &[&str]) -> Standing {
    match words {
        ["--may-exist", "add-br", bridge] => match look.run(&["ovs-vsctl", "br-exists", bridge]) {
            Some(printed) if printed.well => Standing::AsPlanned,
            _ => Standing::ToDo,
        },
        ["--may-exist", "add-port", bridge, device, ..] => {
            let owner = look.run(&["ovs-vsctl", "port-to-br", device]).filter(|printed| printed.well);
            match owner {
                Some(owner) if owner.out == *bridge => Standing::Untold,
                Some(owner) => Standing::Foreign { now: format!("{device} is a port of {}", owner.out) },
                None => Standing::ToDo,
            }
        }
        _ => Standing::Untold,
    }
}

fn unit(look: &impl Look, words: &[&str]) -> Standing {
    match words {
        ["enable", unit] => match look.run(&["systemctl", "is-enabled", unit]) {
            Some(printed) if printed.well => Standing::AsPlanned,
            _ => Standing::ToDo,
        },
        ["enable", "--now", unit] => match look.run(&["systemctl", "is-active", unit]) {
            Some(printed) if printed.well => Standing::AsPlanned,
            _ => Standing::ToDo,
        },
        _ => Standing::Untold,
    }
}
