//! `[[streams]]`: what is published, by whom, for whom.

use std::collections::HashMap;
use std::ops::Range;

use units::{MAX_PAYLOAD_BYTES, Nanos};

use crate::application;
use crate::diagnostic::Sink;
use crate::hosts::Hosts;
use crate::links::Links;
use crate::model::{FieldEncoding, HostId, PortId, Stream};
use crate::node::{At, Entry, Table};
use crate::on_breach::{self, Known};
use crate::paths::{self, NoPath};
use crate::requirement::Limit;
use crate::time::{SHORTEST_CYCLE, Time};
use crate::transport;

/// Longest name of a scenario or stream.
const NAME_CHARS: usize = 40;
/// Most streams: their index is two bytes in trace events and part of their address.
const MOST: usize = 1024;
/// WriterGroupId of the first stream.
const FIRST_WRITER_GROUP: u16 = 101;
/// Highest VLAN identifier; 4095 is reserved (802.1Q Table 9-2).
const HIGHEST_VID: i64 = 4094;

/// Streams and where they stand.
pub(crate) struct Streams {
    pub(crate) list: Vec<Stream>,
    pub(crate) spans: Vec<Range<usize>>,
    /// False when a stream could not be read.
    pub(crate) complete: bool,
}

pub(crate) fn read(
    root: &Table<'_>,
    time: &Time,
    hosts: &Hosts,
    links: &Links,
    requirement: Option<&[Limit]>,
    sink: &mut Sink,
) -> Streams {
    let mut streams = Streams { list: Vec::new(), spans: Vec::new(), complete: true };
    let tables = root.tables(sink, "streams");
    if let Some(table) = tables.get(MOST) {
        sink.error(
            &table.span,
            format!("{} streams", tables.len()),
            format!("expected at most {MOST}"),
            "split the scenario",
        );
    }
    for (index, table) in tables.iter().take(MOST).enumerate() {
        match stream(table, index as u16, time, hosts, links, requirement, sink) {
            Some(stream) => {
                streams.list.push(stream);
                streams.spans.push(table.get("name").map_or_else(|| table.span.clone(), |entry| entry.span));
            }
            None => streams.complete = false,
        }
    }
    check_unique(&streams, hosts, sink);
    transport::check_hosts(&streams, hosts, sink);
    streams
}

/// The name of a scenario or a stream.
pub(crate) fn name(table: &Table<'_>, sink: &mut Sink, example: &str) -> Option<String> {
    let entry = table.require(sink, "name", &format!("name = \"{example}\""))?;
    let text = entry.text(sink, example)?;
    let good = text.value.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
        && text.value.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.value.len() <= NAME_CHARS;
    if !good {
        let mended: String =
            text.value.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(NAME_CHARS).collect();
        let mended = mended.trim_matches('-');
        sink.error(
            &text.span,
            format!("{}: \"{}\" is not a usable name", entry.name(), text.value),
            format!("expected ASCII letters, digits and `-`, a letter or digit first, at most {NAME_CHARS}"),
            format!("write for example `name = \"{}\"`", if mended.is_empty() { example } else { mended }),
        );
        return None;
    }
    Some(text.value.to_owned())
}

fn stream(
    table: &Table<'_>,
    index: u16,
    time: &Time,
    hosts: &Hosts,
    links: &Links,
    requirement: Option<&[Limit]>,
    sink: &mut Sink,
) -> Option<Stream> {
    table.only(
        sink,
        &[
            "name",
            "writer",
            "reader",
            "echo",
            "variables",
            "payload",
            "encoding",
            "vid",
            "pcp",
            "cycle",
            "start",
            "offset",
            "launch",
            "transport",
            "destination",
            "answer_destination",
            "writer_group",
            "receive_timeout",
            "on_breach",
            "application",
        ],
    );
    let name = name(table, sink, "loop");
    let ends = ends(table, ["writer", "reader"], hosts, sink);
    let ends = ends.and_then(|ends| Some((way(&ends, hosts, links, "stream", sink)?, ends)));
    let echo = switch(table, "echo", false, sink);
    let encoding = table.get("encoding").map_or(Some(FieldEncoding::Variant), |entry| {
        entry.word(sink, &[("variant", FieldEncoding::Variant), ("raw", FieldEncoding::RawData)])
    });
    let variables = encoding.and_then(|encoding| variables(table, encoding, sink));
    let vid = table.get("vid").map_or(Some(0), |entry| vid(&entry, sink));
    let pcp = pcp(table, sink);
    let cycle = match table.get("cycle") {
        Some(entry) => {
            entry.nanos(sink, SHORTEST_CYCLE, "250us").inspect(|cycle| check_cycle(&entry, *cycle, time, sink))
        }
        None => Some(time.cycle),
    };
    let mut span = |key: &str, default: Nanos, example: &str| {
        table.get(key).map_or(Some(default), |entry| entry.nanos(sink, Nanos::ZERO, example))
    };
    let start = span("start", Nanos::ZERO, "0s");
    let offset = span("offset", time.offset, "150us");
    let launch = switch(table, "launch", true, sink);
    let destinations = transport::read(table, index, sink);
    let writer_group_id =
        table.get("writer_group").map_or(Some(FIRST_WRITER_GROUP + index), |entry| entry.integer(sink, 1..=u16::MAX));
    let breaches = on_breach::read(table, &Known { echo, encoding, cycle, requirement }, sink);
    let applications = application::read(table, variables, breaches.as_ref().and_then(Option::as_ref), sink);
    let (path, [writer, reader]) = ends?;
    let destinations = destinations?;
    let stream = Stream {
        name: name?,
        writer: writer.value,
        reader: reader.value,
        echo: echo?,
        variables: variables?,
        encoding: encoding?,
        vid: vid?,
        pcp: pcp?,
        destinations: destinations.ethernet,
        udp: destinations.udp,
        writer_group_id: writer_group_id?,
        cycle: cycle?,
        start: start?,
        offset: offset?,
        launch: launch?,
        breaches: breaches?,
        applications: applications?,
        return_path: paths::back(&path),
        path,
    };
    fits(table, &stream, sink).then_some(stream)
}

/// Whether a message fits a datagram: it may not be fragmented.
fn fits(table: &Table<'_>, stream: &Stream, sink: &mut Sink) -> bool {
    let bytes = stream.frame().payload_bytes();
    if bytes > MAX_PAYLOAD_BYTES {
        let headers = bytes - stream.payload_bytes();
        let none = stream.encoding.payload_bytes(0);
        let most = (MAX_PAYLOAD_BYTES - headers - none) / (stream.encoding.payload_bytes(1) - none);
        sink.error(
            &table.span,
            format!(
                "{} bytes of UADP and {headers} of UDP and IP headers are above the MTU of {MAX_PAYLOAD_BYTES}",
                stream.payload_bytes()
            ),
            format!("expected at most {most} variables over UDP"),
            "several streams can carry the variables together; datagrams are not fragmented",
        );
    }
    bytes <= MAX_PAYLOAD_BYTES
}

fn switch(table: &Table<'_>, key: &str, default: bool, sink: &mut Sink) -> Option<bool> {
    table.get(key).map_or(Some(default), |entry| entry.boolean(sink))
}

/// The two stations that `keys` name.
pub(crate) fn ends(table: &Table<'_>, keys: [&str; 2], hosts: &Hosts, sink: &mut Sink) -> Option<[At<HostId>; 2]> {
    let example = hosts.list.first().map_or("pub", |host| &host.name);
    let [from, to] = keys.map(|key| {
        let entry = table.require(sink, key, &format!("{key} = \"{example}\""))?;
        hosts.find_station(&entry, sink)
    });
    let (from, to) = (from?, to?);
    if from.value == to.value {
        let name = hosts.name(from.value);
        sink.error(
            &to.span,
            format!("`{}` and `{}` of {} are both \"{name}\"", keys[0], keys[1], table.what),
            "expected another station",
            "name the station at the other end",
        )
        .and(from.span, format!("the {} is here", keys[0]));
        return None;
    }
    Some([from, to])
}

/// The way between two stations.
pub(crate) fn way(
    [from, to]: &[At<HostId>; 2],
    hosts: &Hosts,
    links: &Links,
    what: &str,
    sink: &mut Sink,
) -> Option<Vec<PortId>> {
    let (a, b) = (hosts.name(from.value), hosts.name(to.value));
    match paths::path(hosts, links, from.value, to.value) {
        Ok(path) => Some(path),
        // A link or bridge that could not be read has been reported; the hosts may be connected by it.
        Err(NoPath::Unconnected) if !(links.complete && hosts.complete) => None,
        Err(NoPath::Unconnected) => {
            let over_ptp = links.list.iter().any(|link| {
                link.ptp_only && (link.ends == [from.value, to.value] || link.ends == [to.value, from.value])
            });
            sink.error(
                &to.span,
                format!("{what} between unconnected hosts: no links lead from \"{a}\" to \"{b}\""),
                format!("expected a station that \"{a}\" can reach"),
                if over_ptp {
                    "the link between them has `ptp_only = true` and carries neither streams nor traffic; add another"
                        .to_owned()
                } else {
                    format!(
                        "add `[[links]]` with `between = [\"{a}\", \"{b}\"]`, or bridges between them; \
                         stations do not forward"
                    )
                },
            )
            .and(from.span.clone(), "from here");
            None
        }
        Err(NoPath::Several([first, second])) => {
            sink.error(
                &to.span,
                format!("several ways lead from \"{a}\" to \"{b}\""),
                "expected one way",
                format!(
                    "{} and {}: remove a link of one of them, or give it `ptp_only = true`",
                    paths::words(hosts, links, from.value, &first),
                    paths::words(hosts, links, from.value, &second)
                ),
            )
            .and(from.span.clone(), "from here");
            None
        }
    }
}

fn variables(table: &Table<'_>, encoding: FieldEncoding, sink: &mut Sink) -> Option<u16> {
    let none = encoding.payload_bytes(0);
    let each = encoding.payload_bytes(1) - none;
    let most = ((MAX_PAYLOAD_BYTES - none) / each) as u16;
    let variables = table.get("variables");
    let Some(payload) = table.get("payload") else {
        let entry = variables.or_else(|| table.require(sink, "variables", "variables = 8"))?;
        let number = entry.integer(sink, i64::MIN..=i64::MAX)?;
        if (1..=i64::from(most)).contains(&number) {
            return Some(number as u16);
        }
        sink.error(
            &entry.span,
            if number > 0 {
                let bytes = i128::from(none) + i128::from(each) * i128::from(number);
                format!("{number} variables make {bytes} bytes of UADP, more than the MTU of {MAX_PAYLOAD_BYTES}")
            } else {
                format!("{} is {number}", entry.name())
            },
            format!("expected 1 to {most} variables"),
            if number > 0 {
                "several streams can carry the variables together; frames are not split".to_owned()
            } else {
                "a frame needs a variable to count with: write for example `variables = 8`".to_owned()
            },
        );
        return None;
    };
    if let Some(variables) = variables {
        sink.error(
            &payload.span,
            format!("{} has both `variables` and `payload`", table.what),
            "expected one of them",
            "keep `variables`: the payload follows from it",
        )
        .and(variables.span, "the variables");
        return None;
    }
    let bytes = payload.integer(sink, i64::MIN..=i64::MAX)?;
    if bytes > i64::from(MAX_PAYLOAD_BYTES) {
        sink.error(
            &payload.span,
            format!("a payload of {bytes} bytes is above the MTU of {MAX_PAYLOAD_BYTES}"),
            format!("expected at most {}", encoding.payload_bytes(u32::from(most) as u16)),
            "several streams can carry the variables together; frames are not split",
        );
        return None;
    }
    let (none, each) = (i64::from(none), i64::from(each));
    let below = ((bytes - none).div_euclid(each)).clamp(0, i64::from(most));
    if below >= 1 && none + each * below == bytes {
        return Some(below as u16);
    }
    let size = |variables: i64| format!("{} ({variables} variables)", none + each * variables);
    let near = match below {
        0 => size(1).replace("variables", "variable"),
        below if below == i64::from(most) => size(below),
        below => format!("{} or {}", size(below).replace("(1 variables)", "(1 variable)"), size(below + 1)),
    };
    sink.error(
        &payload.span,
        format!("no number of variables makes a payload of {bytes} bytes"),
        format!("expected {none} + {each}·n bytes, n at least 1"),
        format!("the nearest possible: {near}"),
    );
    None
}

fn vid(entry: &Entry<'_>, sink: &mut Sink) -> Option<u16> {
    let number = entry.integer(sink, i64::MIN..=i64::MAX)?;
    if (0..=HIGHEST_VID).contains(&number) {
        return Some(number as u16);
    }
    let reserved = if number == HIGHEST_VID + 1 { ", which 802.1Q reserves" } else { "" };
    sink.error(
        &entry.span,
        format!("{} is {number}{reserved}", entry.name()),
        format!("expected a VLAN identifier from 0 to {HIGHEST_VID}"),
        "write for example `vid = 3000`; 0 tags the frame with its priority only",
    );
    None
}

/// `pcp`, 0 when left out.
pub(crate) fn pcp(table: &Table<'_>, sink: &mut Sink) -> Option<u8> {
    table.get("pcp").map_or(Some(0), |entry| entry.integer(sink, 0..=7))
}

fn check_cycle(entry: &Entry<'_>, cycle: Nanos, time: &Time, sink: &mut Sink) {
    let (short, long) = (cycle.min(time.cycle), cycle.max(time.cycle));
    if time.cycle_known && long % short != Nanos::ZERO {
        sink.warning(
            &entry.span,
            format!("{} is {cycle}, neither a multiple nor a divisor of the cycle {}", entry.name(), time.cycle),
            format!("a multiple or a divisor of {} would keep them in step", time.cycle),
            "phases and gates drift against this stream; fine when that is what is to be seen",
        );
    }
}

fn check_unique(streams: &Streams, hosts: &Hosts, sink: &mut Sink) {
    let mut names: HashMap<&str, usize> = HashMap::new();
    let mut addresses: HashMap<String, usize> = HashMap::new();
    let mut groups: HashMap<(HostId, u16), usize> = HashMap::new();
    for (index, stream) in streams.list.iter().enumerate() {
        let span = &streams.spans[index];
        if let Some(first) = names.insert(&stream.name, index) {
            sink.error(
                span,
                format!("two streams are called \"{}\"", stream.name),
                "expected a name of its own",
                format!("write for example `name = \"{}-{}\"`", stream.name, index + 1),
            )
            .and(streams.spans[first].clone(), "the first of them");
        }
        let directions = if stream.echo { 2 } else { 1 };
        for (answer, publisher) in [false, true].into_iter().zip([stream.writer, stream.reader]).take(directions) {
            let address = match stream.udp {
                Some(destinations) => format!("destination {}", destinations[usize::from(answer)]),
                None => {
                    let octets = stream.destinations[usize::from(answer)].map(|octet| format!("{octet:02X}"));
                    format!("vid {} and destination {}", stream.vid, octets.join("-"))
                }
            };
            if let Some(first) = addresses.insert(address.clone(), index) {
                sink.error(
                    span,
                    format!("two directions of streams have {address}"),
                    "expected a vid or a destination of its own",
                    "leave `destination` out: each stream then gets two addresses that nobody else has",
                )
                .and(streams.spans[first].clone(), "has them too");
            }
            if let Some(first) = groups.insert((publisher, stream.writer_group_id), index) {
                sink.error(
                    span,
                    format!(
                        "host \"{}\" publishes two streams with writer_group {}",
                        hosts.name(publisher),
                        stream.writer_group_id
                    ),
                    "expected a writer_group of its own",
                    "leave `writer_group` out: each stream then gets one that nobody else has",
                )
                .and(streams.spans[first].clone(), "has it too");
            }
        }
    }
}
