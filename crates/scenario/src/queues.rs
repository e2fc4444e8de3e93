//! `queue = { root = "…", … }`: one queue discipline, before it is known on which ports it stands.

use std::ops::Range;

use units::{Nanos, Rate};

use crate::diagnostic::Sink;
use crate::node::{At, Entry, Table};
use crate::queue::{Cbs, Classes, Etf, GateEntry, GateSchedule, Queue, Shaper, TaprioMode};
use crate::time::Time;

/// Priorities that a map has places for; `tc` fills missing ones with class 0, so all have to be written.
const MAP_PLACES: usize = 16;
/// Traffic classes of 802.1Q.
const CLASSES: usize = 8;
/// Highest share of the need that an idleSlope can be given as.
const MOST_PERCENT: f64 = 10_000.0;

/// A queue discipline as the file has it; slopes in percent are resolved port by port.
pub(crate) struct QueueDraft {
    /// The queue, with a rate of zero where a slope is still to be computed.
    pub(crate) queue: Queue,
    /// Slopes in parts per million of what the streams of a class need: (class, share).
    pub(crate) shares: Vec<At<(u8, u64)>>,
    /// Where the slopes of its classes stand.
    pub(crate) slopes: Vec<At<u8>>,
    /// Where the whole stands.
    pub(crate) span: Range<usize>,
    /// Where `schedule` stands, or the whole.
    pub(crate) schedule: Range<usize>,
    /// Whether nothing in it was wrong, so that it can be checked against the streams.
    pub(crate) usable: bool,
}

pub(crate) fn read(entry: &Entry<'_>, time: &Time, sink: &mut Sink) -> Option<QueueDraft> {
    let before = sink.list.len();
    let table = entry.table(sink, "`queue`")?;
    let mut draft = QueueDraft {
        queue: Queue::Fifo,
        shares: Vec::new(),
        slopes: Vec::new(),
        span: entry.span.clone(),
        schedule: entry.span.clone(),
        usable: false,
    };
    let root = table.require(sink, "root", "root = \"mqprio\"")?;
    let words = ["fifo", "fq_codel", "mqprio", "taprio", "cbs", "etf"].map(|word| (word, word));
    let root = root.word(sink, &words)?;
    table.only(
        sink,
        match root {
            "mqprio" => &["root", "map", "classes"],
            "taprio" => &["root", "map", "classes", "schedule", "cycle", "base_time", "mode", "txtime_delay"],
            "cbs" => &["root", "idle_slope", "offload"],
            "etf" => &["root", "delta", "offload", "deadline_mode", "skip_sock_check"],
            _ => &["root"],
        },
    );
    draft.queue = match root {
        "mqprio" => Queue::Mqprio(classes(&table, &mut draft, sink)?),
        "taprio" => {
            let classes = classes(&table, &mut draft, sink);
            let schedule = schedule(&table, time, classes.as_ref(), &mut draft, sink);
            Queue::Taprio { classes: classes?, schedule: schedule? }
        }
        "cbs" => Queue::Cbs(cbs(&table, 0, &mut draft, sink)?),
        "etf" => Queue::Etf(etf(&table, sink)?),
        "fq_codel" => Queue::FqCodel,
        _ => Queue::Fifo,
    };
    draft.usable = sink.list.len() == before;
    Some(draft)
}

fn classes(table: &Table<'_>, draft: &mut QueueDraft, sink: &mut Sink) -> Option<Classes> {
    let map = table.require(sink, "map", "map = [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]");
    let map = map.and_then(|entry| map_of(&entry, sink));
    let shapers = match table.get("classes") {
        None => Some(None),
        Some(entry) if entry.is_integer() => entry
            .integer(sink, 1..=CLASSES as u8)
            .map(|count| Some((vec![Shaper::None; usize::from(count)], entry.span))),
        Some(entry) => shapers(&entry, draft, sink).map(|shapers| Some((shapers, entry.span))),
    };
    let (map, shapers) = (map?, shapers?);
    let highest = map.value.iter().copied().max().unwrap_or(0);
    let Some((shapers, span)) = shapers else {
        return Some(Classes { map: map.value, shapers: vec![Shaper::None; usize::from(highest) + 1] });
    };
    if shapers.len() <= usize::from(highest) {
        sink.error(
            &span,
            format!(
                "`classes` has {}, but the map uses class {highest}",
                count_words(shapers.len(), "class", "classes")
            ),
            format!("expected {} classes, index 0 first", highest + 1),
            "add `{}` for a class without shaper, or change the map",
        )
        .and(map.span, format!("class {highest} is the highest here"));
        return None;
    }
    Some(Classes { map: map.value, shapers })
}

fn count_words(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

fn map_of(entry: &Entry<'_>, sink: &mut Sink) -> Option<At<[u8; MAP_PLACES]>> {
    let places = entry.list(sink, "a list of 16 classes")?;
    if places.len() != MAP_PLACES {
        let mut mended: Vec<String> =
            places.iter().take(MAP_PLACES).map(|place| place.number().unwrap_or(0.0).to_string()).collect();
        mended.resize(MAP_PLACES, "0".to_owned());
        sink.error(
            &entry.span,
            format!("`map` has {}", count_words(places.len(), "entry", "entries")),
            "expected 16: the class of priority 0, 1, … 15",
            format!("`tc` would fill in class 0; write them all: `map = [{}]`", mended.join(", ")),
        );
        return None;
    }
    let mut map = [0; MAP_PLACES];
    let mut good = true;
    for (place, class) in places.iter().zip(&mut map) {
        match place.integer(sink, 0..=CLASSES as u8 - 1) {
            Some(value) => *class = value,
            None => good = false,
        }
    }
    good.then(|| At { value: map, span: entry.span.clone() })
}

fn shapers(entry: &Entry<'_>, draft: &mut QueueDraft, sink: &mut Sink) -> Option<Vec<Shaper>> {
    let elements = entry.list(sink, "a list of classes or their number")?;
    if !(1..=CLASSES).contains(&elements.len()) {
        sink.error(
            &entry.span,
            format!("`classes` has {}", count_words(elements.len(), "class", "classes")),
            format!("expected 1 to {CLASSES}"),
            "write one pair of braces for each traffic class, index 0 first: `classes = [ {}, {} ]`",
        );
        return None;
    }
    let mut shapers = Vec::new();
    let mut good = true;
    for (class, element) in elements.iter().enumerate() {
        match shaper(element, class as u8, draft, sink) {
            Some(shaper) => shapers.push(shaper),
            None => good = false,
        }
    }
    good.then_some(shapers)
}

fn shaper(element: &Entry<'_>, class: u8, draft: &mut QueueDraft, sink: &mut Sink) -> Option<Shaper> {
    let table = element.table(sink, &format!("class {class}"))?;
    table.only(sink, &["cbs", "etf"]);
    match (table.get("cbs"), table.get("etf")) {
        (None, None) => Some(Shaper::None),
        (Some(entry), None) => {
            let table = entry.table(sink, "`cbs`")?;
            table.only(sink, &["idle_slope", "offload"]);
            cbs(&table, class, draft, sink).map(Shaper::Cbs)
        }
        (None, Some(entry)) => {
            let table = entry.table(sink, "`etf`")?;
            table.only(sink, &["delta", "offload", "deadline_mode", "skip_sock_check"]);
            etf(&table, sink).map(Shaper::Etf)
        }
        (Some(_), Some(etf)) => {
            sink.error(
                &etf.span,
                format!("class {class} has both `cbs` and `etf`"),
                "expected one of them",
                "a class is shaped by credit or by launch time",
            );
            None
        }
    }
}

fn cbs(table: &Table<'_>, class: u8, draft: &mut QueueDraft, sink: &mut Sink) -> Option<Cbs> {
    let offload = boolean(table, "offload", sink);
    let entry = table.require(sink, "idle_slope", "idle_slope = \"110%\"")?;
    let percent = match entry.is_text().then(|| entry.text(sink, "110%")).flatten() {
        Some(text) => text.value.trim_end().strip_suffix('%'),
        None => None,
    };
    let idle_slope = match percent {
        None => entry.rate(sink, "20Mbit/s")?,
        Some(percent) => match percent.trim().parse::<f64>() {
            Ok(percent) if percent > 0.0 && percent <= MOST_PERCENT => {
                let share = (percent * 10_000.0).round() as u64;
                draft.shares.push(At { value: (class, share), span: entry.span.clone() });
                Rate(0)
            }
            _ => {
                sink.error(
                    &entry.span,
                    format!("{}: \"{percent}%\" is not a share", entry.name()),
                    format!("expected a percentage above 0% and up to {MOST_PERCENT}%, or a rate"),
                    "write for example `idle_slope = \"110%\"`: a tenth more than the streams of the class need there",
                );
                return None;
            }
        },
    };
    draft.slopes.push(At { value: class, span: entry.span });
    Some(Cbs { idle_slope, offload: offload? })
}

fn etf(table: &Table<'_>, sink: &mut Sink) -> Option<Etf> {
    let flags = ["offload", "deadline_mode", "skip_sock_check"].map(|key| boolean(table, key, sink));
    let entry = table.require(sink, "delta", "delta = \"200us\"")?;
    let delta = entry.any_nanos(sink, "200us")?;
    if delta <= Nanos::ZERO {
        sink.error(
            &entry.span,
            format!("{} is {delta}", entry.name()),
            "expected a span above 0",
            "delta has to exceed the largest wake-up latency of the host, or nearly every frame is dropped: \
             write for example `delta = \"200us\"`",
        );
        return None;
    }
    let delta = entry.nanos(sink, Nanos(1), "200us")?;
    let [offload, deadline_mode, skip_sock_check] = flags;
    Some(Etf { delta, offload: offload?, deadline_mode: deadline_mode?, skip_sock_check: skip_sock_check? })
}

/// A switch that is off unless the file turns it on; `None` when it could not be read.
fn boolean(table: &Table<'_>, key: &str, sink: &mut Sink) -> Option<bool> {
    table.get(key).map_or(Some(false), |entry| entry.boolean(sink))
}

fn schedule(
    table: &Table<'_>,
    time: &Time,
    classes: Option<&Classes>,
    draft: &mut QueueDraft,
    sink: &mut Sink,
) -> Option<GateSchedule> {
    let cycle = match table.get("cycle") {
        Some(entry) => entry.nanos(sink, Nanos(1), "250us"),
        None => time.cycle_known.then_some(time.cycle),
    };
    let base_time = match table.get("base_time") {
        Some(entry) => crate::time::base_time(&entry, sink),
        None => Some(time.base_time),
    };
    let mode = mode(table, sink);
    let entry =
        table.require(sink, "schedule", "schedule = [{ gates = [1], interval = \"50us\" }, { gates = [0], … }]")?;
    draft.schedule = entry.span.clone();
    let mut entries = Vec::new();
    let mut good = true;
    let elements = entry.list(sink, "a list of { gates, interval }")?;
    if elements.is_empty() {
        sink.error(
            &entry.span,
            "`schedule` has no entry",
            "expected at least one { gates, interval }",
            "write for example `schedule = [{ gates = [0, 1], interval = \"250us\" }]`",
        );
        return None;
    }
    for element in &elements {
        match gate_entry(element, classes, sink) {
            Some(gate_entry) => entries.push(gate_entry),
            None => good = false,
        }
    }
    if !good {
        return None;
    }
    let (cycle, base_time, mode) = (cycle?, base_time?, mode?);
    let sum: Nanos = entries.iter().map(|entry| entry.interval).sum();
    if sum != cycle {
        let mended = entries.last().map_or(Nanos::ZERO, |last| last.interval) + cycle - sum;
        sink.error(
            &entry.span,
            format!("the intervals of `schedule` sum to {sum}, its cycle is {cycle}"),
            format!("expected intervals that sum to {cycle}"),
            if mended > Nanos::ZERO {
                format!("make the last interval {mended}, or write `cycle = \"{sum}\"`")
            } else {
                format!("shorten the intervals by {}, or write `cycle = \"{sum}\"`", sum - cycle)
            },
        );
        return None;
    }
    Some(GateSchedule { base_time, cycle, entries, mode })
}

fn mode(table: &Table<'_>, sink: &mut Sink) -> Option<TaprioMode> {
    const MODES: [(&str, u8); 3] = [("software", 0), ("txtime-assist", 1), ("full-offload", 2)];
    let mode = table.get("mode").map_or(Some(0), |entry| entry.word(sink, &MODES))?;
    let delay = table.get("txtime_delay");
    if mode == 1 {
        let entry = table.require(sink, "txtime_delay", "txtime_delay = \"200us\"")?;
        return Some(TaprioMode::TxtimeAssist { txtime_delay: entry.nanos(sink, Nanos(1), "200us")? });
    }
    if let Some(entry) = delay {
        sink.error(
            &entry.span,
            format!("`txtime_delay` with mode \"{}\"", MODES[usize::from(mode)].0),
            "only mode \"txtime-assist\" has it",
            "leave it out, or write `mode = \"txtime-assist\"`",
        );
        return None;
    }
    Some(if mode == 2 { TaprioMode::FullOffload } else { TaprioMode::Software })
}

fn gate_entry(element: &Entry<'_>, classes: Option<&Classes>, sink: &mut Sink) -> Option<GateEntry> {
    let table = element.table(sink, "an entry of `schedule`")?;
    table.only(sink, &["gates", "interval"]);
    let interval =
        table.require(sink, "interval", "interval = \"50us\"").and_then(|entry| entry.nanos(sink, Nanos(1), "50us"));
    let highest = classes.map_or(CLASSES, |classes| classes.shapers.len()) as u8 - 1;
    let entry = table.require(sink, "gates", "gates = [1]")?;
    let gates = if entry.is_integer() {
        entry.integer(sink, 0..=u8::MAX >> (CLASSES as u8 - 1 - highest))
    } else {
        let mut mask = Some(0);
        for class in entry.list(sink, "a list of classes or a mask of bits")? {
            let class = class.integer(sink, 0..=highest);
            mask = mask.zip(class).map(|(mask, class)| mask | 1 << class);
        }
        mask
    };
    Some(GateEntry { gates: gates?, interval: interval? })
}
