//! `[hosts.NAME]`: stations and bridges.

use std::collections::HashMap;
use std::ops::Range;

use units::Nanos;

use crate::diagnostic::Sink;
use crate::machines::{self, MachineDraft};
use crate::model::{ClockRole, Forwarder, Host, HostId, HostKind};
use crate::node::{At, Entry, Table, nearest};
use crate::time::{self, Time};

/// Longest name of a host: it becomes a network interface, and Linux gives those 15 characters.
const NAME_CHARS: usize = 15;
/// PublisherId of the first host: open62541's TSN example.
const FIRST_PUBLISHER_ID: u16 = 2234;
/// Most hosts: their index is two bytes of their MAC address, their PublisherIds have to fit.
const MOST: usize = 1024;

/// Hosts and where their names stand.
pub(crate) struct Hosts {
    pub(crate) list: Vec<Host>,
    pub(crate) spans: Vec<Range<usize>>,
    /// The network interface of a host that has one port.
    pub(crate) interfaces: Vec<Option<At<String>>>,
    /// The machine that each is.
    pub(crate) machines: Vec<MachineDraft>,
    /// False when the kind of a host could not be read: it may be the bridge that connects others.
    pub(crate) complete: bool,
}

impl Hosts {
    fn named(&self, name: &str) -> Option<HostId> {
        self.list.iter().position(|host| host.name == name).map(HostId)
    }

    pub(crate) fn name(&self, id: HostId) -> &str {
        &self.list[id.0].name
    }

    pub(crate) fn is_bridge(&self, id: HostId) -> bool {
        matches!(self.list[id.0].kind, HostKind::Bridge { .. })
    }

    /// The host that an entry names.
    pub(crate) fn find(&self, entry: &Entry<'_>, sink: &mut Sink) -> Option<At<HostId>> {
        let text = entry.text(sink, self.list.first().map_or("pub", |host| &host.name))?;
        let found = self.named(text.value);
        if found.is_none() {
            let known: Vec<&str> = self.list.iter().map(|host| host.name.as_str()).collect();
            sink.error(
                &text.span,
                format!("{}: there is no host \"{}\"", entry.name(), text.value),
                "expected the name of a host",
                match nearest(text.value, &known) {
                    Some(near) => format!("did you mean \"{near}\"? Otherwise add `[hosts.{}]`", text.value),
                    None if is_name(text.value) => format!("add `[hosts.{}]`", text.value),
                    None => "name one of the tables `[hosts.NAME]`".to_owned(),
                },
            );
        }
        found.map(|value| At { value, span: text.span })
    }

    /// The station that an entry names; bridges have no application.
    pub(crate) fn find_station(&self, entry: &Entry<'_>, sink: &mut Sink) -> Option<At<HostId>> {
        let found = self.find(entry, sink)?;
        if self.is_bridge(found.value) {
            let name = self.name(found.value);
            sink.error(
                &found.span,
                format!("{}: \"{name}\" is a bridge", entry.name()),
                "expected a station",
                "a bridge only forwards: name a station, or connect one to the bridge",
            )
            .and(self.spans[found.value.0].clone(), "the bridge");
            return None;
        }
        Some(found)
    }
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && !name.ends_with('-')
        && name.len() <= NAME_CHARS
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

pub(crate) fn read(root: &Table<'_>, time: &Time, sink: &mut Sink) -> Hosts {
    let mut hosts =
        Hosts { list: Vec::new(), spans: Vec::new(), interfaces: Vec::new(), machines: Vec::new(), complete: true };
    let Some(entry) = root.require(sink, "hosts", "[hosts.pub]") else { return hosts };
    let Some(table) = entry.table(sink, "[hosts]") else { return hosts };
    for key in table.keys() {
        let Some(inner) = table.table(sink, key.value, &format!("[hosts.{}]", key.value)) else { continue };
        if hosts.list.len() == MOST {
            sink.error(
                &key.span,
                format!("more than {MOST} hosts"),
                format!("expected at most {MOST} hosts"),
                "split the scenario",
            );
            break;
        }
        check_name(&key, sink);
        let (host, complete) = host(key.value, hosts.list.len(), &inner, time, sink);
        hosts.complete &= complete;
        hosts.list.push(host);
        hosts.spans.push(key.span);
        hosts.interfaces.push(inner.get("interface").and_then(|entry| interface(&entry, sink)));
        let machine = inner.get("machine").and_then(|entry| machines::machine(&entry, sink));
        hosts.machines.push(machine.unwrap_or_default());
    }
    check_publisher_ids(&hosts, sink);
    check_clocks(&hosts, sink);
    hosts
}

fn check_name(key: &At<&str>, sink: &mut Sink) {
    if is_name(key.value) {
        return;
    }
    let mut mended: String = key
        .value
        .to_lowercase()
        .chars()
        .map(|c| if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { '-' })
        .skip_while(|c| !c.is_ascii_lowercase())
        .take(NAME_CHARS)
        .collect();
    mended.truncate(mended.trim_end_matches('-').len());
    let mended = if mended.is_empty() { "node".to_owned() } else { mended };
    let long = key.value.chars().count() > NAME_CHARS;
    sink.error(
        &key.span,
        if long {
            format!("the host name \"{}\" has {} characters", key.value, key.value.chars().count())
        } else {
            format!("\"{}\" cannot name a host", key.value)
        },
        format!("expected a letter, then letters, digits and `-`, all lower case, at most {NAME_CHARS}"),
        format!("it becomes a network namespace and an interface: write for example `[hosts.{mended}]`"),
    );
}

fn host(name: &str, index: usize, table: &Table<'_>, time: &Time, sink: &mut Sink) -> (Host, bool) {
    const BRIDGE: [&str; 2] = ["latency", "forwarder"];
    const STATION: [&str; 4] = ["phases", "window", "poll", "interface"];
    table.only(
        sink,
        &[
            "kind",
            "latency",
            "forwarder",
            "clock",
            "phases",
            "window",
            "poll",
            "publisher_id",
            "interface",
            "machine",
            "ssh",
        ],
    );
    let known =
        table.get("kind").map_or(Some(false), |entry| entry.word(sink, &[("station", false), ("bridge", true)]));
    // Of unknown kind, it is what its keys make it.
    let bridge = known.unwrap_or(table.get("latency").or(table.get("forwarder")).is_some());
    let (foreign, of): (&[&str], _) = if bridge { (&STATION, "station") } else { (&BRIDGE, "bridge") };
    for key in table.keys().filter(|key| foreign.contains(&key.value)) {
        sink.error(
            &key.span,
            format!("`{}` in {}, which is a {}", key.value, table.what, if bridge { "bridge" } else { "station" }),
            format!("only a {of} has `{}`", key.value),
            if bridge {
                "leave it out: a bridge has no application".to_owned()
            } else {
                "leave it out, or add `kind = \"bridge\"`".to_owned()
            },
        );
    }
    let kind = if bridge {
        HostKind::Bridge {
            latency: table
                .get("latency")
                .and_then(|entry| entry.nanos(sink, Nanos::ZERO, "2us"))
                .unwrap_or(Nanos::ZERO),
            forwarder: table
                .get("forwarder")
                .and_then(|entry| {
                    entry.word(
                        sink,
                        &[
                            ("linux", Forwarder::Linux),
                            ("ovs", Forwarder::OpenVSwitch),
                            ("hardware", Forwarder::Hardware),
                        ],
                    )
                })
                .unwrap_or(Forwarder::Linux),
        }
    } else {
        HostKind::Station
    };
    let host = Host {
        name: name.to_owned(),
        kind,
        clock: table
            .get("clock")
            .and_then(|entry| {
                entry.word(
                    sink,
                    &[
                        ("shared", ClockRole::Shared),
                        ("grandmaster", ClockRole::Grandmaster),
                        ("slave", ClockRole::Slave),
                    ],
                )
            })
            .unwrap_or(ClockRole::Shared),
        phases: if bridge { time.phases } else { time::phases(table, time.phases, sink) },
        publisher_id: table
            .get("publisher_id")
            .and_then(|entry| entry.integer(sink, 1..=u16::MAX))
            .unwrap_or(FIRST_PUBLISHER_ID + index as u16),
        ssh: table.get("ssh").and_then(|entry| ssh(&entry, sink)),
    };
    (host, known.is_some())
}

/// What `ssh` takes for a destination, in one word that is no option of it.
fn ssh(entry: &Entry<'_>, sink: &mut Sink) -> Option<String> {
    let text = entry.text(sink, "root@10.0.0.2")?;
    let odd = |c: char| c.is_whitespace() || c.is_control();
    if text.value.is_empty() || text.value.starts_with('-') || text.value.contains(odd) {
        sink.error(
            &text.span,
            format!("{}: \"{}\" is no destination of ssh", entry.name(), text.value),
            "expected a host, USER@HOST or ssh://USER@HOST:PORT; \"here\" for this machine, \"none\" for no way there",
            "write for example `ssh = \"root@10.0.0.2\"`; ports and keys can stand in ~/.ssh/config",
        );
        return None;
    }
    Some(text.value.to_owned())
}

/// The name of a network interface of Linux: 1 to 15 bytes without `/`, `:` and blanks.
pub(crate) fn interface(entry: &Entry<'_>, sink: &mut Sink) -> Option<At<String>> {
    let text = entry.text(sink, "eth1")?;
    let odd = |c: char| c.is_whitespace() || c.is_control() || c == '/' || c == ':';
    if text.value.is_empty() || text.value.len() > NAME_CHARS || text.value.contains(odd) || text.value.starts_with('.')
    {
        sink.error(
            &text.span,
            format!("{}: \"{}\" cannot be a network interface", entry.name(), text.value),
            format!("expected 1 to {NAME_CHARS} characters without `/`, `:` and blanks"),
            "`ip link` lists those of a machine: write for example `interface = \"eth1\"`",
        );
        return None;
    }
    Some(At { value: text.value.to_owned(), span: text.span })
}

fn check_publisher_ids(hosts: &Hosts, sink: &mut Sink) {
    let mut seen: HashMap<u16, usize> = HashMap::new();
    for (index, host) in hosts.list.iter().enumerate() {
        if let Some(&first) = seen.get(&host.publisher_id) {
            sink.error(
                &hosts.spans[index],
                format!(
                    "hosts \"{}\" and \"{}\" have the same publisher_id {}",
                    hosts.list[first].name, host.name, host.publisher_id
                ),
                "expected a publisher_id of its own",
                format!(
                    "leave `publisher_id` out of both for {} and {}",
                    usize::from(FIRST_PUBLISHER_ID) + first,
                    usize::from(FIRST_PUBLISHER_ID) + index
                ),
            )
            .and(hosts.spans[first].clone(), "has it too");
        } else {
            seen.insert(host.publisher_id, index);
        }
    }
}

fn check_clocks(hosts: &Hosts, sink: &mut Sink) {
    let with = |role| hosts.list.iter().enumerate().filter(move |(_, host)| host.clock == role).map(|(index, _)| index);
    let mut masters = with(ClockRole::Grandmaster);
    let first = masters.next();
    if let (Some(first), Some(second)) = (first, masters.next()) {
        sink.error(
            &hosts.spans[second],
            format!("hosts \"{}\" and \"{}\" are both grandmaster", hosts.list[first].name, hosts.list[second].name),
            "expected one grandmaster",
            "let one of them be `clock = \"slave\"`",
        )
        .and(hosts.spans[first].clone(), "is grandmaster already");
    }
    if let (None, Some(slave)) = (first, with(ClockRole::Slave).next()) {
        sink.warning(
            &hosts.spans[slave],
            format!("host \"{}\" is a slave, but no host is grandmaster", hosts.list[slave].name),
            "follows nobody",
            "give one host `clock = \"grandmaster\"`",
        );
    }
}
