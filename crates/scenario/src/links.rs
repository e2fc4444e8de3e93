//! `[[links]]`: cables between hosts.

use std::ops::Range;

use units::{Nanos, Rate};

use crate::diagnostic::Sink;
use crate::hosts::{self, Hosts};
use crate::model::{HostId, Link};
use crate::node::{At, Entry, Table};

/// Propagation in a cable: 5 ns a metre, two thirds of the speed of light.
const NANOS_PER_METRE: i64 = 5;
/// Longest cable, in millimetres: 100 km.
const LONGEST_MM: i64 = 100_000_000;

/// Links and where they stand.
pub(crate) struct Links {
    pub(crate) list: Vec<Link>,
    pub(crate) spans: Vec<Range<usize>>,
    /// The network interfaces at the ends of a link for clock synchronisation alone.
    pub(crate) interfaces: Vec<Option<[At<String>; 2]>>,
    /// False when a link could not be read: what is unconnected then may be so for that reason.
    pub(crate) complete: bool,
}

pub(crate) fn read(root: &Table<'_>, hosts: &Hosts, sink: &mut Sink) -> Links {
    let mut links = Links { list: Vec::new(), spans: Vec::new(), interfaces: Vec::new(), complete: true };
    for table in root.tables(sink, "links") {
        table.only(sink, &["between", "rate", "cable", "ptp_only", "interfaces"]);
        let between = table.require(sink, "between", "between = [\"pub\", \"loop\"]");
        let rate = table.get("rate").map_or(Some(Rate::from_gbit(1)), |entry| entry.rate(sink, "1Gbit/s"));
        let propagation = table.get("cable").map_or(Some(Nanos::ZERO), |entry| cable(&entry, sink));
        let ptp_only = table.get("ptp_only").and_then(|entry| entry.boolean(sink)).unwrap_or(false);
        let interfaces = table.get("interfaces").and_then(|entry| interfaces(&entry, ptp_only, sink));
        let Some((ends, span)) = between.and_then(|entry| Some((ends(&entry, hosts, sink)?, entry.span))) else {
            links.complete = false;
            continue;
        };
        links.list.push(Link {
            ends,
            rate: rate.unwrap_or(Rate::from_gbit(1)),
            propagation: propagation.unwrap_or(Nanos::ZERO),
            ptp_only,
        });
        links.spans.push(span);
        links.interfaces.push(interfaces);
    }
    check_loops(&links, hosts, sink);
    links
}

fn ends(entry: &Entry<'_>, hosts: &Hosts, sink: &mut Sink) -> Option<[HostId; 2]> {
    let ends = entry.list(sink, "a list of two hosts")?;
    let [first, second] = ends.as_slice() else {
        sink.error(
            &entry.span,
            format!("{} names {} hosts", entry.name(), ends.len()),
            "expected the two hosts at its ends",
            "write for example `between = [\"pub\", \"loop\"]`; a further host needs a link of its own",
        );
        return None;
    };
    let (first, second) = (hosts.find(first, sink), hosts.find(second, sink));
    let (first, second) = (first?, second?);
    if first.value == second.value {
        sink.error(
            &entry.span,
            format!("a link from \"{}\" to itself", hosts.name(first.value)),
            "expected two different hosts",
            "name the host at the other end",
        );
        return None;
    }
    Some([first.value, second.value])
}

/// The two interfaces of a link that `[[ports]]` and hosts do not name: one for clock synchronisation alone.
fn interfaces(entry: &Entry<'_>, ptp_only: bool, sink: &mut Sink) -> Option<[At<String>; 2]> {
    if !ptp_only {
        sink.error(
            &entry.span,
            format!("{}, but the link carries streams", entry.name()),
            "only a link with `ptp_only = true` has it",
            "name them with `interface` in `[hosts.NAME]` or `[[ports]]`",
        );
        return None;
    }
    let names = entry.list(sink, "a list of two interfaces")?;
    let [first, second] = names.as_slice() else {
        sink.error(
            &entry.span,
            format!("{} names {}", entry.name(), names.len()),
            "expected two, in the order of `between`",
            "write for example `interfaces = [\"eth2\", \"eth2\"]`",
        );
        return None;
    };
    Some([hosts::interface(first, sink)?, hosts::interface(second, sink)?])
}

/// Reads "5m", "0.5m" or "2km" as propagation delay, rounded up to a nanosecond.
fn cable(entry: &Entry<'_>, sink: &mut Sink) -> Option<Nanos> {
    let text = entry.text(sink, "5m")?;
    let millimetres = ["km", "m"].iter().find_map(|unit| text.value.strip_suffix(unit).map(|number| (unit, number)));
    // A millimetre is to a metre what a nanosecond is to a microsecond, so the exact reader of spans serves here.
    let millimetres = millimetres.and_then(|(unit, number)| {
        let number = number.trim_end();
        number.ends_with(|c: char| c.is_ascii_digit()).then_some(())?;
        format!("{number}{}", if *unit == "km" { "ms" } else { "us" }).parse::<Nanos>().ok()
    });
    match millimetres {
        Some(Nanos(mm)) if (0..=LONGEST_MM).contains(&mm) => Some(Nanos((mm * NANOS_PER_METRE + 999) / 1000)),
        _ => {
            sink.error(
                &text.span,
                format!("{}: \"{}\" is not a length of cable", entry.name(), text.value),
                "expected a length from 0m to 100km",
                "write for example `cable = \"5m\"`",
            );
            None
        }
    }
}

/// Bridges that form a ring would forward a multicast frame for ever.
fn check_loops(links: &Links, hosts: &Hosts, sink: &mut Sink) {
    let mut group: Vec<usize> = (0..hosts.list.len()).collect();
    for (link, span) in links.list.iter().zip(&links.spans) {
        let [a, b] = link.ends;
        if link.ptp_only || !hosts.is_bridge(a) || !hosts.is_bridge(b) {
            continue;
        }
        let (keep, merge) = (group[a.0], group[b.0]);
        if keep == merge {
            sink.error(
                span,
                format!("the link between \"{}\" and \"{}\" closes a loop of bridges", hosts.name(a), hosts.name(b)),
                "expected bridges without loops",
                "remove one link of the loop: without a ring protocol its bridges forward a frame for ever; \
                 a link for clock synchronisation alone can say `ptp_only = true`",
            );
        } else {
            group.iter_mut().filter(|group| **group == merge).for_each(|group| *group = keep);
        }
    }
}
