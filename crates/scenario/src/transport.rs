//! How the NetworkMessages of a stream travel: `transport` and the addresses that go with it.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::diagnostic::Sink;
use crate::hosts::Hosts;
use crate::node::{Entry, Table};
use crate::streams::Streams;

/// UDP port of UADP (OPC 10000-14 §7.3.2.1).
const PORT: u16 = 4840;
/// Group of the first stream, of organisation-local scope (RFC 2365); each stream takes two.
const FIRST_GROUP: Ipv4Addr = Ipv4Addr::new(239, 192, 0, 1);
/// Address of the first stream on Ethernet, from open62541's TSN example; each stream takes two.
const FIRST_DESTINATION: [u8; 6] = [0x01, 0x00, 0x5E, 0x7F, 0x00, 0x01];
/// What an address over UDP begins with (OPC 10000-14 §7.3.2.1).
const SCHEME: &str = "opc.udp://";

/// Where the messages of both directions go: from writer to reader, and the answers.
pub(crate) struct Destinations {
    pub(crate) ethernet: [[u8; 6]; 2],
    pub(crate) udp: Option<[SocketAddr; 2]>,
}

/// Reads `transport`, `destination` and `answer_destination` of a stream.
pub(crate) fn read(table: &Table<'_>, index: u16, sink: &mut Sink) -> Option<Destinations> {
    let udp = match table.get("transport") {
        Some(entry) => entry.word(sink, &[("ethernet", false), ("udp", true)])?,
        None => false,
    };
    let ethernet = after(FIRST_DESTINATION, 2 * index);
    if !udp {
        let there = table.get("destination").map_or(Some(ethernet), |entry| mac(&entry, sink));
        let answer = match table.get("answer_destination") {
            Some(entry) => mac(&entry, sink),
            None => there.map(|there| after(there, 1)),
        };
        return Some(Destinations { ethernet: [there?, answer?], udp: None });
    }
    if let Some(vid) = table.get("vid") {
        sink.error(
            &vid.span,
            format!("{} has no place in a stream over UDP", vid.name()),
            "expected no `vid`: such frames leave the host without a tag",
            "remove it; for a tag let the messages leave through a VLAN interface of the host",
        );
        return None;
    }
    let group = |step: u16| SocketAddr::new(IpAddr::V4((u32::from(FIRST_GROUP) + u32::from(step)).into()), PORT);
    let there = table.get("destination").map_or(Some(group(2 * index)), |entry| socket(&entry, sink));
    let answer = match (table.get("answer_destination"), table.get("destination")) {
        (Some(entry), _) => socket(&entry, sink),
        (None, None) => Some(group(2 * index + 1)),
        // The next port, so that both directions can use one group or, in tests, one host.
        (None, Some(_)) => there.map(|there| SocketAddr::new(there.ip(), there.port().wrapping_add(1).max(1))),
    };
    let (there, answer) = (there?, answer?);
    if there.is_ipv4() != answer.is_ipv4() {
        sink.error(
            &table.span,
            format!("{} goes to {there} and its answers to {answer}", table.what),
            "expected one version of the Internet Protocol for both",
            "give both addresses of IPv4 or both of IPv6",
        );
        return None;
    }
    Some(Destinations { ethernet: [ethernet, after(ethernet, 1)], udp: Some([there, answer]) })
}

/// Reads "opc.udp://239.192.0.1:4840"; IPv6 addresses stand in brackets.
fn socket(entry: &Entry<'_>, sink: &mut Sink) -> Option<SocketAddr> {
    let text = entry.text(sink, "opc.udp://239.192.0.1:4840")?;
    let address = text.value.strip_prefix(SCHEME).and_then(|rest| {
        let rest = rest.trim_end_matches('/');
        let alone = rest.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(rest);
        rest.parse().ok().or_else(|| Some(SocketAddr::new(alone.parse().ok()?, PORT)))
    });
    let address = address.filter(|address: &SocketAddr| address.port() != 0 && is_of_a_receiver(address.ip()));
    if address.is_none() {
        sink.error(
            &text.span,
            format!("{}: \"{}\" is not an address of UDP", entry.name(), text.value),
            "expected opc.udp://ADDRESS[:PORT] with the IPv4 address of a host or group, or an IPv6 address in brackets; \
             names are not looked up",
            format!("write for example `{} = \"{SCHEME}239.192.0.1:{PORT}\"`", entry.key),
        );
    }
    address
}

/// Whether a host or a group can have it: not the unspecified one, not all hosts, not IPv4 in the clothes of IPv6.
fn is_of_a_receiver(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => !v4.is_unspecified() && !v4.is_broadcast(),
        IpAddr::V6(v6) => !v6.is_unspecified() && v6.to_ipv4_mapped().is_none(),
    }
}

/// Checks that the address of a host is not that of another one.
pub(crate) fn check_hosts(streams: &Streams, hosts: &Hosts, sink: &mut Sink) {
    let mut known: HashMap<IpAddr, (crate::HostId, usize)> = HashMap::new();
    for (index, stream) in streams.list.iter().enumerate() {
        let Some(addresses) = stream.udp else { continue };
        let directions = if stream.echo { 2 } else { 1 };
        for (address, receiver) in addresses.into_iter().zip([stream.reader, stream.writer]).take(directions) {
            let ip = address.ip();
            if ip.is_multicast() {
                continue;
            }
            let &mut (owner, first) = known.entry(ip).or_insert((receiver, index));
            if owner != receiver {
                let key = if receiver == stream.writer { "answer_destination" } else { "destination" };
                sink.error(
                    &streams.spans[index],
                    format!(
                        "messages of stream \"{}\" to host \"{}\" would go to {ip}, an address of host \"{}\"",
                        stream.name,
                        hosts.name(receiver),
                        hosts.name(owner)
                    ),
                    "expected an address of the host that receives, or a group",
                    format!("give `{key}` an address of host \"{}\"", hosts.name(receiver)),
                )
                .and(streams.spans[first].clone(), "first told here");
            }
        }
    }
}

/// Reads "01-00-5E-7F-00-01", with `-` or `:`.
fn mac(entry: &Entry<'_>, sink: &mut Sink) -> Option<[u8; 6]> {
    let text = entry.text(sink, "01-00-5E-7F-00-01")?;
    let separator = if text.value.contains(':') { ':' } else { '-' };
    let octets: Vec<Option<u8>> = text
        .value
        .split(separator)
        .map(|octet| u8::from_str_radix(octet, 16).ok().filter(|_| octet.len() == 2 && !octet.starts_with('+')))
        .collect();
    let address = <[Option<u8>; 6]>::try_from(octets).ok().and_then(|octets| {
        let mut address = [0; 6];
        for (place, octet) in address.iter_mut().zip(octets) {
            *place = octet?;
        }
        Some(address)
    });
    let address = address.filter(|address| *address != [0; 6]);
    if address.is_none() {
        let udp = text.value.starts_with(SCHEME);
        sink.error(
            &text.span,
            format!("{}: \"{}\" is not an address of Ethernet", entry.name(), text.value),
            "expected six pairs of hexadecimal digits, not all zero",
            if udp {
                "for UDP add `transport = \"udp\"` to the stream".to_owned()
            } else {
                format!("write for example `{} = \"01-00-5E-7F-00-01\"`", entry.key)
            },
        );
    }
    address
}

/// The address `step` after `address`, the last three octets counting together.
fn after(address: [u8; 6], step: u16) -> [u8; 6] {
    let [a, b, c, d, e, f] = address;
    let [_, d, e, f] = (u32::from_be_bytes([0, d, e, f]) + u32::from(step)).to_be_bytes();
    [a, b, c, d, e, f]
}
