//! From a scenario to the stream file of one of its hosts.

use scenario::{HostId, PortId, Queue, Scenario, Shaper, Stream};
use units::Nanos;

use super::{StreamFile, TimedStream};
use crate::problem::{Note, Problems, one};

/// The stream file of what a host publishes, answers too. The notes name what the file cannot say.
///
/// # Errors
/// A host that publishes nothing which the file can hold.
pub fn of_host(scenario: &Scenario, host: HostId) -> Result<(StreamFile, Vec<Note>), Problems> {
    let mut notes = Vec::new();
    let written = written_by(scenario, host);
    let Some(port) = written.iter().find(|written| written.stream.udp.is_none()).map(|written| written.port) else {
        return Err(nothing(scenario, host, &notes));
    };
    let cycle = match written.iter().any(|written| written.stream.cycle == scenario.cycle) {
        true => scenario.cycle,
        false => written[0].stream.cycle,
    };
    let mut streams = Vec::new();
    for Written { stream, answer, port: leaves } in &written {
        let at = format!("stream {}{}", stream.name, if *answer { " (answer)" } else { "" });
        if let Some(why) = why_not(scenario, stream, cycle, port, *leaves) {
            notes.push(Note::new(at, format!("left out: {why}")));
            continue;
        }
        notes.extend(unsaid(&at, stream));
        streams.push(TimedStream {
            name: stream.name.clone(),
            destination: stream.destinations[usize::from(*answer)],
            vid: stream.vid,
            pcp: stream.pcp,
            tclass: scenario.port(port).queue.class_of(stream.pcp),
            offset: stream.launch.then_some(stream.offset),
        });
    }
    if streams.is_empty() {
        return Err(nothing(scenario, host, &notes));
    }
    notes.extend(of_port(scenario, port));
    notes.extend(of_rest(scenario, host));
    Ok((StreamFile { cycle, start: scenario.base_time, streams, preemptable: scenario.nic(port).preemptable }, notes))
}

/// A direction of a stream that a host publishes, and the port it leaves at.
struct Written<'a> {
    stream: &'a Stream,
    answer: bool,
    port: PortId,
}

fn written_by(scenario: &Scenario, host: HostId) -> Vec<Written<'_>> {
    let mut written = Vec::new();
    for stream in &scenario.streams {
        let there = (stream.writer == host).then(|| stream.path.first()).flatten();
        let back = (stream.echo && stream.reader == host).then(|| stream.return_path.first()).flatten();
        written.extend(there.map(|port| Written { stream, answer: false, port: *port }));
        written.extend(back.map(|port| Written { stream, answer: true, port: *port }));
    }
    written
}

fn nothing(scenario: &Scenario, host: HostId, notes: &[Note]) -> Problems {
    let name = &scenario.host(host).name;
    let writers: Vec<&str> = (0..scenario.hosts.len())
        .map(HostId)
        .filter(|host| written_by(scenario, *host).iter().any(|written| written.stream.udp.is_none()))
        .map(|host| scenario.host(host).name.as_str())
        .collect();
    let why = notes.first().map_or_else(|| "it publishes no stream over Ethernet".to_owned(), Note::to_string);
    one(
        &scenario.name,
        format!("host {name}"),
        format!("nothing of it can stand in a stream file: {why}"),
        "a host that publishes streams over Ethernet",
        match writers.as_slice() {
            [] => "the scenario has no stream over Ethernet".to_owned(),
            _ => format!("name one of: {}", writers.join(", ")),
        },
    )
}

/// Why a stream cannot stand in the file.
fn why_not(scenario: &Scenario, stream: &Stream, cycle: Nanos, port: PortId, leaves: PortId) -> Option<String> {
    if stream.udp.is_some() {
        return Some("it travels over UDP, and the file knows frames of Ethernet alone".to_owned());
    }
    if stream.cycle != cycle {
        return Some(format!("its cycle is {}, and the schedule of the file has one, {cycle}", stream.cycle));
    }
    if leaves != port {
        return Some(format!(
            "it leaves at port {}, and the file is of {}",
            scenario.port_name(leaves),
            scenario.port_name(port)
        ));
    }
    if stream.launch && stream.offset >= stream.cycle {
        return Some(format!("its offset {} is not below the cycle {cycle}", stream.offset));
    }
    None
}

/// What the file does not say of a stream.
fn unsaid(at: &str, stream: &Stream) -> Vec<Note> {
    let mut notes = vec![Note::new(
        at,
        format!("its reader, encoding and payload of {} B are not said in the file", stream.payload_bytes()),
    )];
    if stream.start > Nanos::ZERO {
        notes.push(Note::new(at, format!("its start {} is not said: the file has one start for all", stream.start)));
    }
    notes
}

/// What the file does not say of the port.
fn of_port(scenario: &Scenario, id: PortId) -> Vec<Note> {
    let (port, nic) = (scenario.port(id), scenario.nic(id));
    let at = format!("port {}", scenario.port_name(id));
    let mut notes = Vec::new();
    let shaped = |shaper: &Shaper| match shaper {
        Shaper::None => None,
        Shaper::Cbs(_) => Some("the credit-based shaper"),
        Shaper::Etf(_) => Some("etf, as the launch times are the machine's own there"),
    };
    match &port.queue {
        Queue::Fifo => {}
        Queue::Mqprio(classes) | Queue::Taprio { classes, .. } => {
            for (class, shaper) in classes.shapers.iter().enumerate() {
                notes.extend(shaped(shaper).map(|what| Note::new(&at, format!("{what} of class {class} is not said"))));
            }
        }
        queue => {
            notes.push(Note::new(&at, format!("its queue {} is not said; every stream is in class 0", queue.kind())))
        }
    }
    if let Queue::Taprio { .. } = port.queue {
        notes.push(Note::new(&at, "its gates are not said: Time Specific Departure has launch times in their place"));
    }
    if nic.preemptable != 0 && nic.fragment_bytes > 0 {
        notes.push(Note::new(&at, format!("its smallest fragment of {} B is not said", nic.fragment_bytes)));
    }
    notes
}

/// What the file does not say of the rest.
fn of_rest(scenario: &Scenario, host: HostId) -> Vec<Note> {
    let mut notes = Vec::new();
    let others: Vec<&str> = (0..scenario.hosts.len())
        .filter(|index| HostId(*index) != host)
        .map(|index| scenario.hosts[index].name.as_str())
        .collect();
    notes.push(Note::new("hosts and links", format!("not said, the file is of one machine: {}", others.join(", "))));
    if !scenario.traffic.is_empty() {
        notes.push(Note::new(
            "traffic",
            match scenario.traffic.len() {
                1 => "1 flow beside the streams is not said".to_owned(),
                count => format!("{count} flows beside the streams are not said"),
            },
        ));
    }
    if !scenario.requirement.is_empty() {
        notes.push(Note::new("requirement", "not said"));
    }
    notes
}
