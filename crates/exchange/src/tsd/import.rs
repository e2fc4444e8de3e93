//! From a stream file to a scenario whose comments say where each value comes from.

use std::collections::HashMap;
use std::fmt::Write;

use super::{StreamFile, TimedStream};
use crate::mac;
use crate::problem::{Note, Problems, Sink};

/// Longest name of a scenario or a stream.
const NAME_CHARS: usize = 40;
/// Traffic classes of 802.1Q.
const CLASSES: u8 = 8;

/// A scenario made of another tool's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// The TOML.
    pub text: String,
    /// What was renamed or not taken over; the comments of the text say it too.
    pub notes: Vec<Note>,
}

/// Makes a scenario named after `name` of a stream file that was read from `file`; `left` is what reading it noted.
///
/// # Errors
/// Streams that one network cannot have side by side: one name, one address and VLAN, or one PCP in two classes.
pub fn to_scenario(read: &StreamFile, name: &str, file: &str, left: &[Note]) -> Result<Imported, Problems> {
    let mut sink = Sink::default();
    sink.notes.extend_from_slice(left);
    let names = names(&read.streams, &mut sink);
    let map = map(&read.streams, &mut sink);
    check_addresses(&read.streams, &mut sink);
    let (scenario_name, _) = usable(name, "streams");
    let done = sink.problems.is_empty().then_some(());
    let ((), notes) = sink.finish(done, file)?;
    let mut text = head(read, &scenario_name, file, &notes);
    text.push_str(&network(read, map));
    for (stream, name) in read.streams.iter().zip(&names) {
        text.push_str(&stream_table(stream, name));
    }
    Ok(Imported { text, notes })
}

/// The nearest name that a scenario can have, and whether it is the same.
fn usable(name: &str, otherwise: &str) -> (String, bool) {
    let mended: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(NAME_CHARS).collect();
    let mended = mended.trim_start_matches('-');
    let same = mended == name;
    (if mended.is_empty() { otherwise.to_owned() } else { mended.to_owned() }, same)
}

fn names(streams: &[TimedStream], sink: &mut Sink) -> Vec<String> {
    let mut known: HashMap<String, usize> = HashMap::new();
    let mut names = Vec::new();
    for (index, stream) in streams.iter().enumerate() {
        let (name, same) = usable(&stream.name, &format!("stream-{}", index + 1));
        let at = format!("stream objects[{index}].stream.name");
        if let Some(first) = known.insert(name.clone(), index) {
            sink.problem(
                &at,
                format!("\"{}\" and \"{}\" are both \"{name}\" in a scenario", streams[first].name, stream.name),
                "a name of its own, of ASCII letters, digits and -, the first 40 of which count",
                "rename one of the two streams",
            );
        } else if !same {
            let was = stream.name.escape_debug();
            sink.notes.push(Note::new(
                at,
                format!("\"{was}\" is called \"{name}\": names have ASCII letters, digits and - only"),
            ));
        }
        names.push(name);
    }
    names
}

/// The traffic class of each priority; 0 for those that no stream has.
fn map(streams: &[TimedStream], sink: &mut Sink) -> [u8; 16] {
    let mut map = [0; 16];
    let mut set: [Option<usize>; 8] = [None; 8];
    for (index, stream) in streams.iter().enumerate() {
        let pcp = usize::from(stream.pcp);
        match set[pcp] {
            Some(first) if map[pcp] != stream.tclass => sink.problem(
                format!("stream objects[{index}].stream.tclass"),
                format!(
                    "PCP {pcp} is in traffic class {} here and in {} for \"{}\"",
                    stream.tclass, map[pcp], streams[first].name
                ),
                "one traffic class for a PCP: a scenario sorts frames by priority",
                "give one of the two streams another pcp, or both the same tclass",
            ),
            _ => (map[pcp], set[pcp]) = (stream.tclass, Some(index)),
        }
    }
    map
}

fn check_addresses(streams: &[TimedStream], sink: &mut Sink) {
    let mut known: HashMap<(u16, [u8; 6]), usize> = HashMap::new();
    for (index, stream) in streams.iter().enumerate() {
        if let Some(first) = known.insert((stream.vid, stream.destination), index) {
            sink.problem(
                format!("stream objects[{index}].stream.dst mac"),
                format!("vid and dst mac are those of \"{}\"", streams[first].name),
                "a vid or a destination of its own, by which readers tell streams apart",
                "give one of the two streams another address",
            );
        }
    }
}

/// A line of a comment: nothing in it can end it.
fn comment(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn head(read: &StreamFile, name: &str, file: &str, notes: &[Note]) -> String {
    let mut text = format!(
        "# The TSN stream file {}, as a scenario.\n\
         #\n\
         # \"file:\" names the key a value comes from. \"default:\" stands where the file says nothing: change it freely.\n",
        comment(file)
    );
    if !notes.is_empty() {
        text.push_str("#\n# Of the file, and not or otherwise here:\n");
    }
    for note in notes {
        let _ = writeln!(text, "#   {}", comment(&note.to_string()));
    }
    let (cycle, start) = (read.cycle, units::Nanos(read.start.0));
    let at = if read.start.0 == 0 { "; 0 is at once" } else { ", counted in TAI" };
    let _ = write!(
        text,
        "\nname = \"{name}\"  # default: the name of the file\n\n\
         [time]\n\
         cycle = \"{cycle}\"  # file: schedule, cycle time {}\n\
         base_time = \"{start}\"  # file: schedule, start sec {} and start nsec {}{at}\n\
         # default: phases = {{ subscribe = 0.0, application = 0.3, publish = 0.6 }}; what is published at 0.6 of a cycle is\n\
         # launched in the next one, at the offset of its stream.\n",
        cycle.0,
        read.start.0 / 1_000_000_000,
        read.start.0 % 1_000_000_000,
    );
    text
}

fn network(read: &StreamFile, map: [u8; 16]) -> String {
    let map = map.map(|class| class.to_string()).join(", ");
    let mut text = format!(
        "\n# default: the file is of one machine, \"talker\", and names no other; \"listener\" is whoever reads.\n\
         [hosts.talker]\n\n\
         [hosts.listener]\n\n\
         # default: a cable between them.\n\
         [[links]]\n\
         between = [\"talker\", \"listener\"]\n\
         rate = \"1Gbit/s\"  # default\n\n\
         [[ports]]\n\
         at = \"talker\"\n\
         # file: pcp and tclass of each stream. default: class 0 for other priorities, {CLASSES} classes, strict priority.\n\
         queue = {{ root = \"mqprio\", map = [{map}], classes = {CLASSES} }}\n"
    );
    if read.preemptable != 0 {
        let classes: Vec<String> =
            (0..CLASSES).filter(|class| read.preemptable >> class & 1 == 1).map(|class| class.to_string()).collect();
        let _ = writeln!(
            text,
            "nic = {{ preemptable = [{}] }}  # file: preemption, tclass mask {}",
            classes.join(", "),
            read.preemptable
        );
    }
    text
}

fn stream_table(stream: &TimedStream, name: &str) -> String {
    let was = if stream.name == name { String::new() } else { format!(" \"{}\"", stream.name.escape_debug()) };
    let mut text = format!(
        "\n[[streams]]\n\
         name = \"{name}\"  # file: name{}\n\
         writer = \"talker\"  # default: the machine of the file\n\
         reader = \"listener\"  # default\n\
         variables = 1  # default: the file says nothing of the payload; 32 + 9·n bytes of UADP\n\
         destination = \"{}\"  # file: dst mac\n\
         vid = {}  # file: vid\n\
         pcp = {}  # file: pcp; its tclass {} is in the map of the port\n",
        comment(&was),
        mac::with(stream.destination, "-"),
        stream.vid,
        stream.pcp,
        stream.tclass,
    );
    match stream.offset {
        Some(offset) => {
            let _ = writeln!(text, "offset = \"{offset}\"  # file: tx time, offset {}", offset.0);
        }
        None => text.push_str("launch = false  # file: no tx time\n"),
    }
    text
}
