//! TSN stream files: the JSON that `tsnconfig` of VxWorks reads for Time Specific Departure.
//!
//! A file has one schedule and the streams that one machine sends in it. The paper that shows it writes `tx time` and
//! `stream objects` in its listing and `stream_objects` and `tclass_mask` in its text: both are read, the listing's is
//! written. "The JSON file supports many other configuration parameters": those are told of and not taken over.

mod export;
mod import;

use units::{Nanos, Tai};

use crate::json::{self, Entry, Node, Table, table};
use crate::problem::{Note, Problems, Sink};

pub use export::of_host;
pub use import::{Imported, to_scenario};

/// Cycles that a scenario can have: a microsecond to an hour.
const CYCLES: std::ops::RangeInclusive<u64> = 1_000..=3_600_000_000_000;
/// Latest start: what a scenario's base time can be.
const LATEST_SECONDS: u64 = 4_611_686_017;
/// Most streams of a scenario.
const MOST: usize = 1024;
/// 802.1Q Table 9-2: 4095 is reserved.
const HIGHEST_VID: u64 = 4094;
/// A stream of the paper, for messages.
const STREAM: &str = r#"{ "stream": { "name": "flow1", "dst mac": "01:00:5E:00:00:01", "vid": 3000, "pcp": 7, "tclass": 7, "tx time": { "offset": 200000 } } }"#;

/// A stream file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamFile {
    /// Cycle time of the schedule.
    pub cycle: Nanos,
    /// When the schedule starts; zero is at once.
    pub start: Tai,
    /// The streams, in the order of the file.
    pub streams: Vec<TimedStream>,
    /// The `tclass mask` of `preemption`: bit c is set when frames of traffic class c may be interrupted; zero without.
    pub preemptable: u8,
}

/// A stream of a stream file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimedStream {
    /// Its name, by which a socket is tied to it.
    pub name: String,
    /// Destination address.
    pub destination: [u8; 6],
    /// VLAN identifier, 0 (priority tag) to 4094.
    pub vid: u16,
    /// Priority code point, 0 to 7.
    pub pcp: u8,
    /// Traffic class, 0 to 7.
    pub tclass: u8,
    /// Launch, from the start of a cycle of the schedule; `None` without launch time.
    pub offset: Option<Nanos>,
}

/// Reads a stream file; `file` is how it is named in messages. The notes name what is not taken over.
///
/// # Errors
/// What is no JSON, lacks a key, or has a value that no schedule can have.
pub fn read(text: &str, file: &str) -> Result<(StreamFile, Vec<Note>), Problems> {
    let node = json::parse(text, file)?;
    let mut sink = Sink::default();
    let read = read_file(&json::root(&node), &mut sink);
    sink.finish(read, file)
}

fn read_file(root: &Entry<'_>, sink: &mut Sink) -> Option<StreamFile> {
    const SCHEDULE: &str = r#""schedule": { "cycle time": 250000, "start sec": 0, "start nsec": 0 }"#;
    let root = root.table(sink, &format!("{{ {SCHEDULE}, \"stream objects\": [ … ] }}"))?;
    root.note_others(sink, &["schedule", "stream objects", "preemption"]);
    let schedule = root.require(sink, &["schedule"], SCHEDULE).and_then(|entry| entry.table(sink, SCHEDULE));
    let schedule = schedule.and_then(|table| read_schedule(&table, sink));
    let preemptable = match root.get(sink, &["preemption"]) {
        None => Some(0),
        Some(entry) => entry.table(sink, r#"{ "tclass mask": 1 }"#).and_then(|table| read_preemption(&table, sink)),
    };
    let objects = root.require(sink, &["stream objects"], &format!("\"stream objects\": [ {STREAM} ]"));
    let objects = objects.and_then(|entry| Some((entry.list(sink, &format!("[ {STREAM} ]"))?, entry)));
    let cycle = schedule.map(|(cycle, _)| cycle);
    let (objects, entry) = objects?;
    if !(1..=MOST).contains(&objects.len()) {
        sink.problem(
            entry.at,
            format!("has {} streams", objects.len()),
            format!("1 to {MOST} streams"),
            "name at least one stream; split a file of more",
        );
        return None;
    }
    let streams: Vec<Option<TimedStream>> = objects.iter().map(|object| read_stream(object, cycle, sink)).collect();
    let (cycle, start) = schedule?;
    Some(StreamFile { cycle, start, streams: streams.into_iter().collect::<Option<_>>()?, preemptable: preemptable? })
}

fn read_schedule(table: &Table<'_>, sink: &mut Sink) -> Option<(Nanos, Tai)> {
    table.note_others(sink, &["cycle time", "start sec", "start nsec"]);
    let cycle = table
        .require(sink, &["cycle time"], r#""cycle time": 250000"#)
        .and_then(|entry| entry.integer(sink, CYCLES, "nanoseconds", "250000"));
    let mut part = |key: &str, highest: u64, unit: &str| match table.get(sink, &[key]) {
        None => Some(0),
        Some(entry) => entry.integer(sink, 0..=highest, unit, "0"),
    };
    let seconds = part("start sec", LATEST_SECONDS, "seconds");
    let nanos = part("start nsec", 999_999_999, "nanoseconds");
    Some((Nanos(cycle? as i64), Tai(seconds? as i64 * 1_000_000_000 + nanos? as i64)))
}

fn read_preemption(table: &Table<'_>, sink: &mut Sink) -> Option<u8> {
    table.note_others(sink, &["tclass mask"]);
    let entry = table.require(sink, &["tclass mask"], r#""tclass mask": 1"#)?;
    let mask = entry.integer(sink, 0..=255, "bit c for traffic class c", "1")?;
    if mask == 255 {
        sink.problem(
            entry.at,
            "makes every traffic class preemptable",
            "an express class that may interrupt",
            "leave out the bit of the streams' class",
        );
        return None;
    }
    Some(mask as u8)
}

fn read_stream(object: &Entry<'_>, cycle: Option<Nanos>, sink: &mut Sink) -> Option<TimedStream> {
    let outer = object.table(sink, STREAM)?;
    outer.note_others(sink, &["stream"]);
    let table = outer.require(sink, &["stream"], STREAM)?.table(sink, STREAM)?;
    table.note_others(sink, &["name", "dst mac", "vid", "pcp", "tclass", "tx time"]);
    let name = table.require(sink, &["name"], r#""name": "flow1""#).and_then(|entry| entry.text(sink, r#""flow1""#));
    let destination =
        table.require(sink, &["dst mac"], r#""dst mac": "01:00:5E:00:00:01""#).and_then(|entry| entry.mac(sink));
    let mut number = |key: &str, highest: u64, example: &str| {
        let entry = table.require(sink, &[key], &format!("\"{key}\": {example}"))?;
        entry.integer(sink, 0..=highest, "", example)
    };
    let (vid, pcp, tclass) = (number("vid", HIGHEST_VID, "3000"), number("pcp", 7, "7"), number("tclass", 7, "7"));
    let offset = match table.get(sink, &["tx time"]) {
        None => Some(None),
        Some(entry) => read_offset(&entry, cycle, sink).map(Some),
    };
    Some(TimedStream {
        name: name?.to_owned(),
        destination: destination?,
        vid: vid? as u16,
        pcp: pcp? as u8,
        tclass: tclass? as u8,
        offset: offset?,
    })
}

/// `tx time`: an offset into the schedule, so below its cycle.
fn read_offset(entry: &Entry<'_>, cycle: Option<Nanos>, sink: &mut Sink) -> Option<Nanos> {
    let table = entry.table(sink, r#"{ "offset": 200000 }"#)?;
    table.note_others(sink, &["offset"]);
    let entry = table.require(sink, &["offset"], r#""offset": 200000"#)?;
    let highest = cycle.map_or(*CYCLES.end(), |cycle| cycle.0 as u64) - 1;
    let offset = entry.integer(sink, 0..=highest, "nanoseconds, below the cycle time", "200000")?;
    Some(Nanos(offset as i64))
}

impl StreamFile {
    /// The text of the file, with the keys of the paper's listing.
    pub fn to_json(&self) -> String {
        let nanos = |span: i64| Node::from(span.unsigned_abs());
        let schedule = table([
            ("cycle time", nanos(self.cycle.0)),
            ("start sec", nanos(self.start.0 / 1_000_000_000)),
            ("start nsec", nanos(self.start.0 % 1_000_000_000)),
        ]);
        let objects = self.streams.iter().map(|stream| table([("stream", stream.node())])).collect::<Vec<_>>();
        let mut entries = vec![("schedule".to_owned(), schedule)];
        if self.preemptable != 0 {
            let mask = u64::from(self.preemptable).into();
            entries.push(("preemption".to_owned(), table([("tclass mask", mask)])));
        }
        entries.push(("stream objects".to_owned(), objects.into()));
        json::write(&Node::Table(entries))
    }
}

impl TimedStream {
    fn node(&self) -> Node {
        let mut node = vec![
            ("name".to_owned(), self.name.as_str().into()),
            ("dst mac".to_owned(), crate::mac::with(self.destination, ":").into()),
            ("vid".to_owned(), u64::from(self.vid).into()),
            ("pcp".to_owned(), u64::from(self.pcp).into()),
            ("tclass".to_owned(), u64::from(self.tclass).into()),
        ];
        if let Some(offset) = self.offset {
            node.push(("tx time".to_owned(), table([("offset", offset.0.unsigned_abs().into())])));
        }
        Node::Table(node)
    }
}
