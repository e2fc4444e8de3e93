//! Talker requests of detd, the time-sensitive system service of Avnu and Intel, as JSON.
//!
//! detd's clients send a `StreamQosRequest` in protocol buffers. Here it is the JSON of that message, with the names of
//! its fields (`setup_socket`) or those of the JSON mapping of protobuf (`setupSocket`); the names of its Python
//! interface (`interval`, `addr`, `txoffset`) are read too:
//!
//! ```json
//! { "interface": "eth0", "period": 2000000, "size": 1522, "dmac": "7a:b9:ed:d6:d2:12", "vid": 3, "pcp": 6,
//!   "txmin": 250000, "txmax": 250000, "setup_socket": false, "talker": true }
//! ```
//!
//! [`add`] makes a stream of it, [`answer`] the `StreamQosResponse` out of a scenario's plan, [`of_host`] the requests
//! that the streams of a host amount to.

mod add;
mod answer;

use scenario::{HostId, HostKind, PortId, Scenario, Stream};
use units::Nanos;

use crate::json::{self, Entry, Node, table};
use crate::problem::{Note, Problems, Sink, one};

pub use add::{Added, Told, add};
pub use answer::{Reply, answer};

/// A `uint32` of the protocol.
const U32: u64 = u32::MAX as u64;
/// Shortest cycle of a scenario.
const SHORTEST_PERIOD: u64 = 1_000;
/// An example, for messages.
const EXAMPLE: &str = r#"{ "interface": "eth0", "period": 2000000, "size": 1522, "dmac": "7a:b9:ed:d6:d2:12", "vid": 3, "pcp": 6, "txmin": 250000, "txmax": 250000 }"#;
/// What else is read; the second of a pair is the JSON mapping of protobuf.
const KEYS: [&str; 15] = [
    "interface",
    "period",
    "interval",
    "size",
    "dmac",
    "addr",
    "vid",
    "pcp",
    "txmin",
    "txmax",
    "txoffset",
    "setup_socket",
    "setupSocket",
    "basetime",
    "talker",
];

/// A request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The network interface that frames leave at.
    pub interface: String,
    /// Destination address.
    pub destination: [u8; 6],
    /// VLAN identifier, 1 to 4094.
    pub vid: u16,
    /// Priority code point, 0 to 7.
    pub pcp: u8,
    /// What a talker sends; `None` for the request of a listener.
    pub talker: Option<Talker>,
}

/// What a talker sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Talker {
    /// Time between two frames.
    pub period: Nanos,
    /// Bytes from the destination address to the FCS, tag included: detd opens its gate for so many.
    pub size_bytes: u32,
    /// Earliest launch, from the start of a cycle.
    pub launch: Nanos,
}

/// Reads a request; `file` is how it is named in messages. The notes name what is not taken over.
///
/// # Errors
/// What is no JSON, lacks a key, or has a value that no stream can have.
pub fn read(text: &str, file: &str) -> Result<(Request, Vec<Note>), Problems> {
    let node = json::parse(text, file)?;
    let mut sink = Sink::default();
    let request = read_request(&json::root(&node), &mut sink);
    sink.finish(request, file)
}

fn read_request(root: &Entry<'_>, sink: &mut Sink) -> Option<Request> {
    let root = root.table(sink, EXAMPLE)?;
    root.note_others(sink, &KEYS);
    let interface =
        root.require(sink, &["interface"], r#""interface": "eth0""#).and_then(|entry| entry.text(sink, r#""eth0""#));
    let destination =
        root.require(sink, &["dmac", "addr"], r#""dmac": "7a:b9:ed:d6:d2:12""#).and_then(|entry| entry.mac(sink));
    let vid = root.require(sink, &["vid"], r#""vid": 3"#).and_then(|entry| entry.integer(sink, 1..=4094, "", "3"));
    let pcp = root.require(sink, &["pcp"], r#""pcp": 6"#).and_then(|entry| entry.integer(sink, 0..=7, "", "6"));
    if let Some(entry) = root.get(sink, &["setup_socket", "setupSocket"])
        && entry.boolean(sink) == Some(true)
    {
        sink.notes.push(Note::new(&entry.at, "no socket is handed over: open one on the interface of the reply"));
    }
    if let Some(entry) = root.get(sink, &["basetime"])
        && entry.integer(sink, 0..=U32, "nanoseconds", "0").is_some_and(|base| base > 0)
    {
        sink.notes.push(Note::new(
            &entry.at,
            format!("{} is not taken over: cycles begin at the scenario's base_time", entry.shown()),
        ));
    }
    // protobuf leaves out what is false, so a request without `talker` is told by what a talker sends.
    let talks = match root.get(sink, &["talker"]) {
        Some(entry) => entry.boolean(sink),
        None => Some(true),
    };
    let talker = match talks? {
        false => Some(None),
        true => read_talker(&root, sink).map(Some),
    };
    Some(Request {
        interface: interface?.to_owned(),
        destination: destination?,
        vid: vid? as u16,
        pcp: pcp? as u8,
        talker: talker?,
    })
}

fn read_talker(root: &json::Table<'_>, sink: &mut Sink) -> Option<Talker> {
    let period = root
        .require(sink, &["period", "interval"], r#""period": 2000000"#)
        .and_then(|entry| entry.integer(sink, SHORTEST_PERIOD..=U32, "nanoseconds", "2000000"));
    let size = root
        .require(sink, &["size"], r#""size": 1522"#)
        .and_then(|entry| entry.integer(sink, 64..=1522, "bytes from address to FCS", "1522"));
    let highest = period.unwrap_or(U32) - 1;
    let mut launch = |names: &[&str]| {
        let entry = root.get(sink, names)?;
        Some((entry.integer(sink, 0..=highest, "nanoseconds, below the period", "250000"), entry.at))
    };
    let (single, first, last) = (launch(&["txoffset"]), launch(&["txmin"]), launch(&["txmax"]));
    let launch = match (single, first, last) {
        (Some((_, single)), Some((_, range)), _) | (Some((_, single)), _, Some((_, range))) => {
            sink.problem(
                &range,
                format!("\"{single}\" and \"{range}\" say the same"),
                "one launch, or a range of it",
                format!("remove \"{single}\" or \"{range}\""),
            );
            None
        }
        (Some((launch, _)), None, None) => launch,
        (None, Some((first, _)), Some((last, at))) => {
            let (first, last) = (first?, last?);
            if last < first {
                sink.problem(
                    &at,
                    format!("is {last}, before txmin"),
                    format!("{first} or later"),
                    "swap txmin and txmax",
                );
            } else if last > first {
                sink.notes.push(Note::new(
                    &at,
                    format!("{last} is not taken over: frames are launched at txmin, as detd does"),
                ));
            }
            Some(first)
        }
        (None, Some((launch, _)), None) => launch,
        (None, None, last) => {
            let at = last.map_or_else(|| "the file".to_owned(), |(_, at)| at);
            sink.problem(at, "\"txmin\" is missing", "when frames are launched", r#"add for example "txmin": 250000"#);
            None
        }
    };
    Some(Talker { period: Nanos(period? as i64), size_bytes: size? as u32, launch: Nanos(launch? as i64) })
}

impl Request {
    fn node(&self) -> Node {
        let mut entries = vec![("interface".to_owned(), Node::from(self.interface.as_str()))];
        if let Some(talker) = self.talker {
            entries.push(("period".to_owned(), talker.period.0.unsigned_abs().into()));
            entries.push(("size".to_owned(), u64::from(talker.size_bytes).into()));
        }
        entries.push(("dmac".to_owned(), crate::mac::with(self.destination, ":").to_lowercase().into()));
        entries.push(("vid".to_owned(), u64::from(self.vid).into()));
        entries.push(("pcp".to_owned(), u64::from(self.pcp).into()));
        if let Some(talker) = self.talker {
            let launch = talker.launch.0.unsigned_abs();
            entries.push(("txmin".to_owned(), launch.into()));
            entries.push(("txmax".to_owned(), launch.into()));
        }
        entries.push(("setup_socket".to_owned(), false.into()));
        entries.push(("talker".to_owned(), self.talker.is_some().into()));
        Node::Table(entries)
    }

    /// The text of the request.
    pub fn to_json(&self) -> String {
        json::write(&self.node())
    }
}

/// What the streams of a host would ask detd for: `{"requests": [{"stream": …, "request": …}, …]}`. The notes name what
/// a request cannot say.
///
/// # Errors
/// A host whose streams make no request.
pub fn of_host(scenario: &Scenario, host: HostId) -> Result<(String, Vec<Note>), Problems> {
    let (mut notes, mut list) = (Vec::new(), Vec::new());
    for stream in &scenario.streams {
        let directions = [(stream.writer, false), (stream.reader, true)];
        for (_, answer) in directions.into_iter().filter(|(from, answer)| *from == host && (!answer || stream.echo)) {
            let at = format!("stream {}{}", stream.name, if answer { " (answer)" } else { "" });
            match request_of(scenario, stream, answer) {
                Err(why) => notes.push(Note::new(at, format!("left out: {why}"))),
                Ok(request) => {
                    if stream.start > Nanos::ZERO {
                        notes.push(Note::new(&at, format!("its start {} is not said", stream.start)));
                    }
                    list.push(table([("stream", stream.name.as_str().into()), ("request", request.node())]));
                }
            }
        }
    }
    if list.is_empty() {
        let why = notes.first().map_or_else(|| "it publishes nothing".to_owned(), Note::to_string);
        return Err(one(
            &scenario.name,
            format!("host {}", scenario.host(host).name),
            format!("none of its streams makes a request: {why}"),
            "a host that publishes over Ethernet with launch times and a VID",
            "name another host",
        ));
    }
    Ok((json::write(&table([("requests", list.into())])), notes))
}

/// The request that one direction of a stream amounts to, or why there is none.
pub(crate) fn request_of(scenario: &Scenario, stream: &Stream, answer: bool) -> Result<Request, String> {
    let path = if answer { &stream.return_path } else { &stream.path };
    let Some(port) = path.first().copied() else { return Err("it has no way".to_owned()) };
    if stream.udp.is_some() {
        return Err("it travels over UDP".to_owned());
    }
    if stream.vid == 0 {
        return Err("it has no VID, and detd makes a VLAN interface for each".to_owned());
    }
    if !stream.launch || stream.offset >= stream.cycle {
        return Err("it has no launch time inside its cycle".to_owned());
    }
    if stream.cycle.0 as u64 > U32 {
        return Err(format!("its cycle {} is longer than a request can say, 4.294967295s", stream.cycle));
    }
    Ok(Request {
        interface: tsn::device(scenario, port),
        destination: stream.destinations[usize::from(answer)],
        vid: stream.vid,
        pcp: stream.pcp,
        talker: Some(Talker { period: stream.cycle, size_bytes: stream.frame().link_bytes(), launch: stream.offset }),
    })
}

/// The stations that have an interface of this name for streams.
pub(crate) fn hosts_with(scenario: &Scenario, interface: &str) -> Vec<HostId> {
    let has = |host: &HostId| {
        (0..scenario.ports.len()).map(PortId).any(|id| {
            let port = scenario.port(id);
            port.host == *host && !scenario.link(port.link).ptp_only && tsn::device(scenario, id) == interface
        })
    };
    let station = |host: &HostId| scenario.host(*host).kind == HostKind::Station;
    (0..scenario.hosts.len()).map(HostId).filter(station).filter(has).collect()
}
