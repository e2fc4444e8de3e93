//! `[[ports]]`: which queue discipline stands where, and which network interface a port is.

use std::ops::Range;

use units::{Nanos, Rate};

use crate::counted::Counted;
use crate::diagnostic::Sink;
use crate::hosts::{self, Hosts};
use crate::installation::Nic;
use crate::links::Links;
use crate::machines::{self, NicDraft};
use crate::model::{HostId, LinkId, Port, Stream};
use crate::node::{Entry, Table};
use crate::paths::{self, NoPath};
use crate::queue::{Cbs, Queue, Shaper};
use crate::queues::{self, QueueDraft};
use crate::time::Time;

/// Names every host in `at`.
const ALL: &str = "*";
/// Slopes are given to `tc` in kbit/s.
const SLOPE_STEP: u128 = 1_000;

/// The ports and where in the file their queues come from.
pub(crate) struct Ports {
    pub(crate) list: Vec<Port>,
    /// Queues as the file has them.
    pub(crate) drafts: Vec<QueueDraft>,
    /// For each port the index of its draft.
    pub(crate) draft_of: Vec<Option<usize>>,
    /// The network interface behind each.
    pub(crate) nics: Vec<Nic>,
}

/// How narrowly an entry of `[[ports]]` says which ports it means; the narrower one wins.
type Rank = (bool, bool);

pub(crate) fn read(
    root: &Table<'_>,
    time: &Time,
    hosts: &Hosts,
    links: &Links,
    streams: &[Stream],
    sink: &mut Sink,
) -> Ports {
    let mut list: Vec<Port> = Vec::new();
    for (index, link) in links.list.iter().enumerate() {
        let [a, b] = link.ends;
        for (host, peer) in [(a, b), (b, a)] {
            list.push(Port {
                host,
                peer,
                link: LinkId(index),
                queue: Queue::Fifo,
                shift: Nanos::ZERO,
                interface: None,
            });
        }
    }
    let mut drafts: Vec<QueueDraft> = Vec::new();
    let mut queue_from: Vec<Option<(Rank, usize, Range<usize>)>> = vec![None; list.len()];
    let mut shift_from: Vec<Option<(Rank, Nanos, Range<usize>)>> = vec![None; list.len()];
    let mut interface_from: Vec<Option<(Rank, String, Range<usize>)>> = vec![None; list.len()];
    let mut nic_from: Vec<Option<(Rank, Nic, Range<usize>)>> = vec![None; list.len()];
    for table in root.tables(sink, "ports") {
        table.only(sink, &["at", "towards", "queue", "shift", "interface", "nic"]);
        let chosen = choose(&table, hosts, links, &list, sink);
        let queue = table.get("queue").and_then(|entry| queues::read(&entry, time, sink));
        let shift = table.get("shift").and_then(|entry| shift(&entry, sink));
        let interface = table.get("interface").and_then(|entry| hosts::interface(&entry, sink));
        let nic = table.get("nic").and_then(|entry| machines::nic(&entry, sink));
        if ["queue", "shift", "interface", "nic"].iter().all(|key| table.get(key).is_none()) {
            sink.error(
                &table.span,
                "[[ports]] says nothing about its ports",
                "needs `queue`, `shift`, `interface` or `nic`",
                "add for example `queue = { root = \"fq_codel\" }`",
            );
        }
        let Some((rank, ports)) = chosen else { continue };
        if let Some(draft) = queue {
            for &port in &ports {
                let value = (rank, drafts.len(), draft.span.clone());
                set(&mut queue_from[port], value, "queue", &list[port], hosts, sink);
            }
            drafts.push(draft);
        }
        if let Some((shift, span)) = shift {
            for &port in &ports {
                set(&mut shift_from[port], (rank, shift, span.clone()), "shift", &list[port], hosts, sink);
            }
        }
        if let Some(NicDraft { value, span }) = nic {
            for &port in &ports {
                set(&mut nic_from[port], (rank, value.clone(), span.clone()), "nic", &list[port], hosts, sink);
            }
        }
        if let Some(interface) = interface {
            for &port in &ports {
                let value = (rank, interface.value.clone(), interface.span.clone());
                set(&mut interface_from[port], value, "interface", &list[port], hosts, sink);
            }
        }
    }
    name_interfaces(&mut list, interface_from, hosts, links, sink);
    let draft_of: Vec<Option<usize>> = queue_from.into_iter().map(|from| from.map(|(_, draft, _)| draft)).collect();
    for (index, port) in list.iter_mut().enumerate() {
        if let Some((_, shift, _)) = shift_from[index] {
            port.shift = shift;
        }
        if let Some(draft) = draft_of[index] {
            port.queue = resolve(&drafts[draft], index, streams);
        }
    }
    let nics = nics(&list, nic_from, hosts, sink);
    Ports { list, drafts, draft_of, nics }
}

/// The network interface behind each port: its driver is that of the host's machine unless `nic` names one.
fn nics(list: &[Port], said: Vec<Option<(Rank, Nic, Range<usize>)>>, hosts: &Hosts, sink: &mut Sink) -> Vec<Nic> {
    let mut nics = Vec::new();
    for (port, said) in list.iter().zip(said) {
        let mut nic = Nic::default();
        if let Some((_, said, span)) = said {
            nic = said;
            if nic.preemptable != 0 {
                let classes = match &port.queue {
                    Queue::Mqprio(classes) | Queue::Taprio { classes, .. } => classes.shapers.len(),
                    Queue::Fifo | Queue::FqCodel | Queue::Cbs(_) | Queue::Etf(_) => 1,
                };
                let name = format!("{} → {}", hosts.name(port.host), hosts.name(port.peer));
                machines::check_preemptable(&nic, classes, &name, &span, sink);
            }
        }
        nic.driver = nic.driver.or_else(|| hosts.machines[port.host.0].driver.clone());
        nics.push(nic);
    }
    nics
}

/// Names the interface of each port: what `[[ports]]` says, else what its host says. One interface is one port.
fn name_interfaces(
    list: &mut [Port],
    said: Vec<Option<(Rank, String, Range<usize>)>>,
    hosts: &Hosts,
    links: &Links,
    sink: &mut Sink,
) {
    let mut spans: Vec<Option<Range<usize>>> = vec![None; list.len()];
    for (index, said) in said.into_iter().enumerate() {
        let of_host =
            hosts.interfaces[list[index].host.0].as_ref().filter(|_| !links.list[list[index].link.0].ptp_only);
        let of_link = links.interfaces[list[index].link.0].as_ref().map(|ends| &ends[index % 2]);
        let found = said.map(|(_, name, span)| (name, span));
        let Some((name, span)) = found.or_else(|| of_link.or(of_host).map(|at| (at.value.clone(), at.span.clone())))
        else {
            continue;
        };
        let host = list[index].host;
        let same = |other: &usize| list[*other].host == host && list[*other].interface.as_deref() == Some(&name);
        if let Some(other) = (0..index).find(same) {
            let [here, there] = [index, other].map(|port| hosts.name(list[port].peer));
            sink.error(
                &span,
                format!("{}: \"{name}\" would be its port to {there} and its port to {here}", hosts.name(host)),
                "expected an interface of its own for each port",
                format!(
                    "name them one by one: `[[ports]]` with `at = \"{}\"`, `towards = \"{here}\"` and `interface`",
                    hosts.name(host)
                ),
            )
            .and(spans[other].clone().unwrap_or_default(), "named here");
        }
        (list[index].interface, spans[index]) = (Some(name), Some(span));
    }
}

/// Puts `new` on a port unless a narrower entry has been there, or as narrow a one, which is an error.
fn set<T>(
    place: &mut Option<(Rank, T, Range<usize>)>,
    new: (Rank, T, Range<usize>),
    what: &str,
    port: &Port,
    hosts: &Hosts,
    sink: &mut Sink,
) {
    match place {
        Some((rank, _, first)) if *rank == new.0 => {
            let (host, peer) = (hosts.name(port.host), hosts.name(port.peer));
            // One complaint for a pair of entries, however many ports they share.
            if !sink.list.iter().any(|diagnostic| diagnostic.span == new.2 && diagnostic.message.contains("twice")) {
                sink.error(
                    &new.2,
                    format!("port {host} → {peer} is given a {what} twice"),
                    format!("expected one {what} for a port"),
                    format!("remove one of them, or say with `towards = \"{peer}\"` which port is meant"),
                )
                .and(first.clone(), "the first");
            }
        }
        Some((rank, ..)) if *rank > new.0 => {}
        _ => *place = Some(new),
    }
}

fn choose(
    table: &Table<'_>,
    hosts: &Hosts,
    links: &Links,
    ports: &[Port],
    sink: &mut Sink,
) -> Option<(Rank, Vec<usize>)> {
    let at = table.require(sink, "at", "at = [\"pub\", \"loop\"]");
    let towards = table.get("towards").map(|entry| hosts.find(&entry, sink));
    let at = at?;
    let everywhere = at.is_text() && at.text(sink, ALL)?.value == ALL;
    let mut named: Vec<(HostId, Range<usize>)> = Vec::new();
    if everywhere {
        named.extend((0..hosts.list.len()).map(|index| (HostId(index), at.span.clone())));
    } else {
        let entries: Vec<Entry<'_>> =
            if at.is_text() { vec![at.clone()] } else { at.list(sink, "a host, a list of hosts or \"*\"")? };
        for entry in entries {
            let host = hosts.find(&entry, sink)?;
            named.push((host.value, host.span));
        }
    }
    let towards = match towards {
        Some(None) => return None,
        Some(Some(host)) => Some(host),
        None => None,
    };
    let mut chosen = Vec::new();
    for (host, span) in named {
        let first_ports: Vec<usize> = match &towards {
            Some(to) if to.value == host => Vec::new(),
            Some(to) => match paths::path(hosts, links, host, to.value) {
                Ok(path) => path.first().map(|port| port.0).into_iter().collect(),
                Err(NoPath::Several(ways)) => ways.iter().filter_map(|way| way.first()).map(|port| port.0).collect(),
                Err(NoPath::Unconnected) => Vec::new(),
            },
            None => (0..ports.len()).filter(|index| ports[*index].host == host).collect(),
        };
        let before = chosen.len();
        for port in first_ports {
            if !links.list[ports[port].link.0].ptp_only && !chosen.contains(&port) {
                chosen.push(port);
            }
        }
        if chosen.len() == before && !everywhere && links.complete && hosts.complete {
            let name = hosts.name(host);
            match &towards {
                Some(to) => {
                    let to_name = hosts.name(to.value);
                    sink.error(
                        &span,
                        format!("\"{name}\" has no port towards \"{to_name}\""),
                        format!("expected a host from which links lead to \"{to_name}\""),
                        "remove one of the two, or add the link",
                    )
                    .and(to.span.clone(), "towards here");
                }
                None => {
                    sink.error(
                        &span,
                        format!("\"{name}\" has no port"),
                        "expected a host with a link, named once",
                        format!("remove it here, or add `[[links]]` with `between = [\"{name}\", …]`"),
                    );
                }
            }
        }
    }
    Some(((towards.is_some(), !everywhere), chosen))
}

fn shift(entry: &Entry<'_>, sink: &mut Sink) -> Option<(Nanos, Range<usize>)> {
    let shift = entry.any_nanos(sink, "20us")?;
    if shift.0.unsigned_abs() > 1_000_000_000 {
        sink.error(
            &entry.span,
            format!("{} is {shift}", entry.name()),
            "expected a span from -1s to 1s",
            "gates repeat every cycle: shift them by less than a cycle, for example `shift = \"20us\"`",
        );
        return None;
    }
    Some((shift, entry.span.clone()))
}

/// Streams that go through a port, answers included.
pub(crate) fn through(port: usize, streams: &[Stream]) -> impl Iterator<Item = &Stream> {
    streams.iter().flat_map(move |stream| {
        let there = stream.path.iter().any(|way| way.0 == port);
        let back = stream.echo && stream.return_path.iter().any(|way| way.0 == port);
        std::iter::repeat_n(stream, usize::from(there) + usize::from(back))
    })
}

/// What the streams of a class need at a port, in millionths of a bit per second; rounded up or down for each.
pub(crate) fn need(queue: &Queue, class: u8, port: usize, streams: &[Stream], counted: Counted, up: bool) -> u128 {
    through(port, streams)
        .filter(|stream| queue.class_of(stream.pcp) == class)
        .map(|stream| {
            let bits = u128::from(counted.bytes(stream.frame())) * 8_000_000_000_000_000;
            let cycle = stream.cycle.0 as u128;
            if up { bits.div_ceil(cycle) } else { bits / cycle }
        })
        .sum()
}

/// The queue of a draft at one port: slopes that are shares become rates there. A class without streams at
/// this port needs no shaper.
fn resolve(draft: &QueueDraft, port: usize, streams: &[Stream]) -> Queue {
    let mut queue = draft.queue.clone();
    for share in &draft.shares {
        let (class, share) = share.value;
        let need = need(&draft.queue, class, port, streams, Counted::Line, true);
        let bits = (need * u128::from(share)).div_ceil(1_000_000_000_000);
        let slope = Rate((bits.div_ceil(SLOPE_STEP) * SLOPE_STEP) as u64);
        match &mut queue {
            Queue::Cbs(_) if slope.0 == 0 => return Queue::Fifo,
            Queue::Cbs(cbs) => cbs.idle_slope = slope,
            Queue::Mqprio(classes) | Queue::Taprio { classes, .. } => {
                if let Some(shaper @ Shaper::Cbs(_)) = classes.shapers.get_mut(usize::from(class)) {
                    *shaper = match shaper {
                        Shaper::Cbs(cbs) if slope.0 > 0 => Shaper::Cbs(Cbs { idle_slope: slope, ..*cbs }),
                        _ => Shaper::None,
                    };
                }
            }
            Queue::Fifo | Queue::FqCodel | Queue::Etf(_) => {}
        }
    }
    queue
}
