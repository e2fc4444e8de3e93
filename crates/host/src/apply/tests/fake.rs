//! A kernel of a few interfaces that keeps what `ip`, `bridge`, `tc` and `systemctl` tell it, and can fail or die.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use serde_json::{Value, json};
use units::Nanos;

use crate::look::{Act, Look, Printed};

/// An interface.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Device {
    up: bool,
    master: Option<String>,
    /// What made it, for bridges and VLAN devices.
    made: Vec<String>,
    vlans: Vec<(u64, Vec<String>)>,
    /// Parent (`root`, `clsact`, `100:1`), handle, words of the kind.
    disciplines: BTreeMap<String, Vec<String>>,
    filters: BTreeMap<u64, u64>,
}

/// What can be compared before and after.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct State {
    devices: BTreeMap<String, Device>,
    pub(crate) files: BTreeMap<String, String>,
    units: Vec<String>,
}

impl State {
    pub(crate) fn unplug(&mut self, device: &str) {
        self.devices.remove(device);
    }

    pub(crate) fn plug(&mut self, device: &str) {
        self.devices.insert(device.to_owned(), Device::default());
    }
}

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The change of this number is refused.
    Refuse(usize),
    /// The process dies before this change.
    DieBefore(usize),
    /// The process dies after this change.
    DieAfter(usize),
    /// The interface is pulled out before this change.
    Unplug(usize, &'static str),
    /// This word is kept as another.
    Keep(&'static str, &'static str),
}

#[derive(Debug, Default)]
pub(crate) struct Fake {
    pub(crate) state: RefCell<State>,
    pub(crate) trouble: Cell<Option<Trouble>>,
    pub(crate) changes: Cell<usize>,
    /// Every command that changed something.
    pub(crate) log: RefCell<Vec<String>>,
    pub(crate) boot: RefCell<String>,
}

impl Fake {
    pub(crate) fn with(devices: &[&str]) -> Self {
        let fake = Self::default();
        let device = |name: &&str| ((*name).to_owned(), Device::default());
        fake.state.borrow_mut().devices = devices.iter().map(device).collect();
        *fake.boot.borrow_mut() = "one".into();
        fake
    }

    /// As after a boot: files stay.
    pub(crate) fn reboot(&self) {
        *self.boot.borrow_mut() = "two".into();
        let mut state = self.state.borrow_mut();
        state.devices.retain(|_, device| device.made.is_empty());
        state.devices.values_mut().for_each(|device| *device = Device::default());
    }

    /// A root discipline that somebody else has put there.
    pub(crate) fn put_root(&self, device: &str, words: &str) {
        let words = words.split_whitespace().map(str::to_owned).collect();
        self.state.borrow_mut().devices.get_mut(device).unwrap().disciplines.insert("root".into(), words);
    }

    pub(crate) fn has(&self, device: &str, parent: &str) -> bool {
        self.state.borrow().devices.get(device).is_some_and(|device| device.disciplines.contains_key(parent))
    }

    fn answer(&self, words: &[&str]) -> Result<String, String> {
        let state = self.state.borrow();
        let device = |name: &str| state.devices.get(name).ok_or(format!("Cannot find device \"{name}\""));
        match words {
            ["tc", "-j", "qdisc", "show", "dev", name] => Ok(shown(device(name)?)),
            ["tc", "-j", "filter", "show", "dev", name, _] => {
                let filters = device(name)?.filters.iter().map(|(pref, pcp)| {
                    let action = json!({ "kind": "skbedit", "priority": format!(":{pcp}") });
                    json!({ "pref": pref, "kind": "flower", "options": { "keys": { "vlan_prio": pcp }, "actions": [action] } })
                });
                Ok(Value::Array(filters.collect()).to_string())
            }
            ["ip", "-j", "-d", "link", "show", "dev", name] => {
                let found = device(name)?;
                let flags = if found.up { json!(["UP"]) } else { json!([]) };
                let mut link = json!({ "ifname": name, "flags": flags, "master": found.master });
                let value = |key: &str| {
                    let at = found.made.iter().position(|word| word == key)?;
                    found.made.get(at + 1).cloned()
                };
                if let Some(kind) = value("type") {
                    let number = |key: &str| value(key).and_then(|text| text.parse::<u64>().ok());
                    let keys = ["id", "vlan_filtering", "vlan_default_pvid", "mcast_snooping"];
                    let data: Value = keys.iter().map(|key| ((*key).to_owned(), json!(number(key)))).collect();
                    link["linkinfo"] = json!({ "info_kind": kind, "info_data": data });
                    link["link"] = json!(value("link"));
                }
                Ok(json!([link]).to_string())
            }
            ["bridge", "-j", "vlan", "show", "dev", name] => {
                let vlans = device(name)?.vlans.iter().map(|(vid, flags)| json!({ "vlan": vid, "flags": flags }));
                Ok(json!([{ "ifname": name, "vlans": vlans.collect::<Vec<_>>() }]).to_string())
            }
            ["systemctl", "is-active" | "is-enabled", unit] => {
                state.units.iter().any(|known| known == unit).then(|| "active".into()).ok_or("inactive".into())
            }
            _ => Err(format!("not answered: {words:?}")),
        }
    }

    fn change(&self, words: &[&str]) -> Result<(), String> {
        let number = self.changes.replace(self.changes.get() + 1);
        match self.trouble.get() {
            Some(Trouble::Refuse(at)) if at == number => return Err("RTNETLINK answers: Invalid argument".into()),
            Some(Trouble::DieBefore(at)) if at == number => panic!("killed"),
            Some(Trouble::Unplug(at, device)) if at == number => {
                self.state.borrow_mut().devices.remove(device);
            }
            _ => {}
        }
        self.log.borrow_mut().push(words.join(" "));
        let done = self.take(words);
        if self.trouble.get() == Some(Trouble::DieAfter(number)) {
            panic!("killed");
        }
        done
    }

    fn take(&self, words: &[&str]) -> Result<(), String> {
        let mut state = self.state.borrow_mut();
        let missing = |name: &str| format!("Cannot find device \"{name}\"");
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        match words {
            ["systemctl", "daemon-reload"] | ["systemctl", "stop" | "restart", _] => {}
            ["systemctl", "enable", "--now", unit] | ["systemctl", "enable", unit] => {
                state.units.push((*unit).to_owned())
            }
            ["systemctl", "disable", "--now", unit] | ["systemctl", "disable", unit] => {
                state.units.retain(|known| known != unit)
            }
            ["ip", "link", "add", rest @ ..] => {
                let name = rest.iter().position(|word| *word == "name").map_or(rest[0], |at| rest[at + 1]);
                let device = Device { made: owned(rest), ..Device::default() };
                if state.devices.insert(name.to_owned(), device).is_some() {
                    return Err("RTNETLINK answers: File exists".into());
                }
            }
            ["ip", "link", "del", name] => {
                state.devices.remove(*name).ok_or_else(|| missing(name))?;
                state.devices.values_mut().filter(|device| device.master.as_deref() == Some(name)).for_each(|device| {
                    (device.master, device.vlans) = (None, Vec::new());
                });
            }
            [program @ ("ip" | "bridge" | "tc"), rest @ ..] => {
                let at = rest.iter().position(|word| *word == "dev").map_or(2, |at| at + 1);
                let device = state.devices.get_mut(rest[at]).ok_or_else(|| missing(rest[at]))?;
                let behind = &rest[at + 1..];
                match (*program, rest[0], rest[1]) {
                    ("ip", "link", "set") => match behind {
                        ["up"] => device.up = true,
                        ["down"] => device.up = false,
                        ["master", bridge] => device.master = Some((*bridge).to_owned()),
                        ["nomaster"] => (device.master, device.vlans) = (None, Vec::new()),
                        _ => return Err(format!("not known: {words:?}")),
                    },
                    ("bridge", "vlan", "add") => {
                        let names = |flag: &&&str| if **flag == "pvid" { "PVID" } else { "Egress Untagged" }.to_owned();
                        let flags = behind[2..].iter().collect::<Vec<_>>();
                        device.vlans.push((behind[1].parse().unwrap(), flags.iter().map(names).collect()));
                    }
                    ("tc", "qdisc", "replace") => {
                        if behind[0] == "clsact" {
                            device.disciplines.insert("clsact".into(), Vec::new());
                        } else {
                            let (parent, rest) =
                                if behind[0] == "root" { ("root", &behind[1..]) } else { (behind[1], &behind[2..]) };
                            if parent != "root" && !device.disciplines.contains_key("root") {
                                return Err("Error: Failed to find specified qdisc.".into());
                            }
                            let kept = |word: &&str| match self.trouble.get() {
                                Some(Trouble::Keep(from, to)) if from == *word => to.to_owned(),
                                _ => (*word).to_owned(),
                            };
                            device.disciplines.insert(parent.to_owned(), rest.iter().map(kept).collect());
                        }
                    }
                    ("tc", "qdisc", "del") if behind[0] == "root" => {
                        let clsact = device.disciplines.remove("clsact");
                        let had = !device.disciplines.is_empty();
                        device.disciplines.clear();
                        device.disciplines.extend(clsact.map(|words| ("clsact".to_owned(), words)));
                        if !had {
                            return Err("Error: Cannot delete qdisc with handle of zero.".into());
                        }
                    }
                    ("tc", "qdisc", "del") => {
                        device.filters.clear();
                        device.disciplines.remove("clsact").ok_or("Error: Invalid handle.")?;
                    }
                    ("tc", "filter", verb) => {
                        if !device.disciplines.contains_key("clsact") {
                            return Err("Error: Parent Qdisc doesn't exists.".into());
                        }
                        let pref = behind.iter().position(|word| *word == "pref").unwrap();
                        let pref: u64 = behind[pref + 1].parse().unwrap();
                        if verb == "del" {
                            device
                                .filters
                                .remove(&pref)
                                .ok_or("Error: Filter with specified priority/protocol not found.")?;
                        } else {
                            device.filters.insert(pref, pref);
                        }
                    }
                    _ => return Err(format!("not known: {words:?}")),
                }
            }
            _ => return Err(format!("not known: {words:?}")),
        }
        Ok(())
    }
}

/// What `tc -j qdisc show` prints.
fn shown(device: &Device) -> String {
    let mut all = Vec::new();
    if !device.disciplines.contains_key("root") {
        all.push(json!({ "kind": "noqueue", "handle": "0:", "root": true }));
    }
    for (parent, words) in &device.disciplines {
        let value = |key: &str| {
            let at = words.iter().position(|word| word == key)?;
            words.get(at + 1).cloned()
        };
        let list = |key: &str| {
            let behind = words.iter().skip_while(|word| *word != key).skip(1);
            behind.take_while(|word| word.starts_with(|c: char| c.is_ascii_digit())).cloned().collect::<Vec<_>>()
        };
        let number = |key: &str| value(key).and_then(|text| text.parse::<i64>().ok());
        let kinds = ["mqprio", "taprio", "cbs", "etf", "fq_codel", "htb", "pfifo"];
        let kind = words.iter().find(|word| kinds.contains(&word.as_str())).map_or("clsact", |kind| kind);
        let flag = |key: &str| if words.iter().any(|word| word == key) { "on" } else { "off" };
        let map: Vec<u64> = list("map").iter().map(|word| word.parse().unwrap()).collect();
        let queues: Vec<Value> = list("queues")
            .iter()
            .map(|word| {
                let (count, offset) = word.split_once('@').unwrap();
                json!({ "offset": offset.parse::<u64>().unwrap(), "count": count.parse::<u64>().unwrap() })
            })
            .collect();
        let entries = words.windows(4).filter(|words| words[0] == "sched-entry").map(|words| {
            json!({ "cmd": "S", "gatemask": format!("0x{}", words[2]), "interval": words[3].parse::<i64>().unwrap() })
        });
        let options = match kind {
            "cbs" => json!({ "idleslope": number("idleslope"), "sendslope": number("sendslope"), "hicredit":
                number("hicredit"), "locredit": number("locredit"), "offload": number("offload") }),
            "etf" => json!({ "clockid": "TAI", "delta": number("delta"), "offload": flag("offload"), "deadline_mode":
                flag("deadline_mode"), "skip_sock_check": flag("skip_sock_check") }),
            "mqprio" => json!({ "tc": number("num_tc"), "map": map, "queues": queues }),
            "taprio" => json!({ "tc": number("num_tc"), "map": map, "queues": queues, "clockid": "TAI", "base_time":
                number("base-time"), "cycle_time": number("cycle-time"), "schedule": entries.collect::<Vec<_>>() }),
            "pfifo" => json!({ "limit": number("limit") }),
            _ => json!({}),
        };
        let mut entry =
            json!({ "kind": kind, "options": options, "handle": value("handle").unwrap_or("ffff:".into()) });
        match parent.as_str() {
            "root" => entry["root"] = json!(true),
            "clsact" => entry["parent"] = json!("ffff:fff1"),
            parent => entry["parent"] = json!(parent),
        }
        all.push(entry);
    }
    Value::Array(all).to_string()
}

impl Look for Fake {
    fn read(&self, path: &Path) -> Option<String> {
        if path == Path::new(super::super::BOOT_ID) {
            return Some(self.boot.borrow().clone());
        }
        self.text(path).map(|text| text.trim().to_owned())
    }

    fn list(&self, _: &Path) -> Vec<String> {
        Vec::new()
    }

    fn leads_to(&self, _: &Path) -> Option<String> {
        None
    }

    fn run(&self, arguments: &[&str]) -> Option<Printed> {
        let words = ["show", "is-active", "is-enabled", "-V", "--version"];
        let looks = arguments[0] == "ethtool" || arguments.iter().any(|word| words.contains(word));
        let done = if looks { self.answer(arguments) } else { self.change(arguments).map(|()| String::new()) };
        Some(match done {
            Ok(out) => Printed { well: true, out, error: String::new() },
            Err(error) => Printed { well: false, out: String::new(), error },
        })
    }

    fn writable(&self, _: &Path) -> bool {
        true
    }

    fn machine(&self) -> rt::machine::Machine {
        rt::machine::Machine::default()
    }

    fn tai_minus_utc(&self) -> Nanos {
        Nanos::ZERO
    }

    fn is_root(&self) -> bool {
        true
    }

    fn lockable_memory(&self) -> Option<u64> {
        None
    }
}

impl Act for Fake {
    fn text(&self, path: &Path) -> Option<String> {
        self.state.borrow().files.get(path.to_str()?).cloned()
    }

    fn write_file(&self, path: &Path, text: &str) -> io::Result<()> {
        self.state.borrow_mut().files.insert(path.to_str().unwrap().to_owned(), text.to_owned());
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let removed = self.state.borrow_mut().files.remove(path.to_str().unwrap());
        removed.map(|_| ()).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}
