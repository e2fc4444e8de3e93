//! `[[traffic]]`: what else is on the links.

use std::ops::Range;

use crate::diagnostic::Sink;
use crate::hosts::Hosts;
use crate::links::Links;
use crate::model::{Traffic, TrafficKind};
use crate::node::Table;
use crate::streams;

/// Payload of the largest frame: the MTU less IPv4 and UDP header, or IPv4 and TCP header with timestamps.
const MOST_PAYLOAD: [u16; 2] = [1472, 1448];
/// Smallest payload that the generators send.
const LEAST_PAYLOAD: u16 = 64;

/// Traffic and where it stands.
pub(crate) struct AllTraffic {
    pub(crate) list: Vec<Traffic>,
    pub(crate) spans: Vec<Range<usize>>,
}

pub(crate) fn read(root: &Table<'_>, hosts: &Hosts, links: &Links, sink: &mut Sink) -> AllTraffic {
    let mut all = AllTraffic { list: Vec::new(), spans: Vec::new() };
    for table in root.tables(sink, "traffic") {
        if let Some(traffic) = traffic(&table, hosts, links, sink) {
            all.list.push(traffic);
            all.spans.push(table.span);
        }
    }
    all
}

fn traffic(table: &Table<'_>, hosts: &Hosts, links: &Links, sink: &mut Sink) -> Option<Traffic> {
    table.only(sink, &["from", "to", "kind", "rate", "payload", "pcp"]);
    let ends = streams::ends(table, ["from", "to"], hosts, sink);
    let ends = ends.and_then(|ends| Some((streams::way(&ends, hosts, links, "traffic", sink)?, ends)));
    let kind = table
        .require(sink, "kind", "kind = \"udp\"")
        .and_then(|entry| entry.word(sink, &[("udp", TrafficKind::Udp), ("tcp", TrafficKind::Tcp)]));
    let rate = table.get("rate").map_or(Some(None), |entry| entry.rate(sink, "200Mbit/s").map(Some));
    let pcp = streams::pcp(table, sink);
    let kind = kind?;
    let most = MOST_PAYLOAD[usize::from(kind == TrafficKind::Tcp)];
    let payload = table.get("payload").map_or(Some(most), |entry| entry.integer(sink, LEAST_PAYLOAD..=most));
    let (path, [from, to]) = ends?;
    Some(Traffic { from: from.value, to: to.value, kind, rate: rate?, payload_bytes: payload?, pcp: pcp?, path })
}
