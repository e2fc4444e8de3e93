//! `requirement = { … }`: limits of named quantities, or a class of them.

use units::Nanos;

use crate::diagnostic::Sink;
use crate::node::{At, Entry, Table, list, nearest};
use crate::requirement::{CLASSES, Class, Limit, LimitValue, Quantity};

/// Words that people use for more than one quantity, what they may mean, and what is most likely.
const VAGUE: [(&[&str], &[Quantity], &str); 4] = [
    (
        &["latency", "delay", "max_latency", "max_delay", "end_to_end", "deadline"],
        &[Quantity::OneWayStack, Quantity::OneWay, Quantity::RoundTripWire, Quantity::RoundTripStack],
        "a delay between applications is `one_way_stack`, one between ports `one_way`",
    ),
    (
        &["round_trip", "rtt", "roundtrip", "round_trip_time"],
        &[Quantity::RoundTripWire, Quantity::RoundTripStack, Quantity::RoundTripCounter],
        "a capture at the publisher's port sees `round_trip_wire`, its application `round_trip_stack`",
    ),
    (
        &["jitter", "max_jitter", "variation", "pdv"],
        &[Quantity::SpacingError, Quantity::RoundTripVariation],
        "the distance between arrivals against the cycle is `spacing_error`",
    ),
    (
        &["loss", "reliability", "packet_loss", "drop", "drops", "availability"],
        &[Quantity::LossSum, Quantity::LossPublisher, Quantity::LossLoopback, Quantity::MissedCounters],
        "the share of all frames lost is `dSum`; a reliability of 99.999% is `dSum = \"1e-5\"`",
    ),
];

pub(crate) fn read(root: &Table<'_>, sink: &mut Sink) -> (Vec<Limit>, Option<String>) {
    let none = (Vec::new(), None);
    let Some(entry) = root.get("requirement") else { return none };
    if entry.is_text() {
        sink.error(
            &entry.span,
            "`requirement` is a text",
            "expected limits in braces",
            "write for example `requirement = { one_way = \"2ms\" }` or `requirement = { class = \"SR-A\" }`",
        );
        return none;
    }
    let Some(table) = entry.table(sink, "`requirement`") else { return none };
    let class = table.get("class").and_then(|entry| class(&entry, sink));
    let mut limits: Vec<Limit> = class.map_or_else(Vec::new, |class| class.limits.to_vec());
    for key in table.keys().filter(|key| key.value != "class") {
        let Some(quantity) = Quantity::from_key(key.value) else {
            unnamed(&key, sink);
            continue;
        };
        let Some(value) = table.get(key.value).and_then(|entry| limit(quantity, &entry, sink)) else { continue };
        match limits.iter_mut().find(|limit| limit.quantity == quantity) {
            Some(limit) => limit.value = value,
            None => limits.push(Limit { quantity, value }),
        }
    }
    (limits, class.map(|class| class.name.to_owned()))
}

fn class(entry: &Entry<'_>, sink: &mut Sink) -> Option<Class> {
    entry.word(sink, &CLASSES.map(|class| (class.name, class)))
}

/// A key that names no quantity: latency, jitter and their like mean several.
fn unnamed(key: &At<&str>, sink: &mut Sink) {
    let known: Vec<&str> = Quantity::ALL.iter().map(|quantity| quantity.key()).collect();
    let word = key.value.to_lowercase().replace(['-', ' '], "_");
    if let Some((_, quantities, probably)) = VAGUE.iter().find(|(words, _, _)| words.contains(&word.as_str())) {
        let which: Vec<String> =
            quantities.iter().map(|quantity| format!("`{}` ({})", quantity.key(), quantity.words())).collect();
        sink.error(
            &key.span,
            format!("a requirement has to name its quantity: `{}` can mean several", key.value),
            format!("expected one of {}", list(&quantities.iter().map(|quantity| quantity.key()).collect::<Vec<_>>())),
            format!("probably `{}` was meant: {probably}. There are {}", quantities[0].key(), which.join(", ")),
        );
        return;
    }
    sink.error(
        &key.span,
        format!("a requirement has to name its quantity: there is none called `{}`", key.value),
        format!("expected one of {}", list(&known)),
        match nearest(key.value, &known) {
            Some(near) => format!("did you mean `{near}`?"),
            None => {
                "name a quantity, or a class of requirements: `class = \"motion-control\"` or `\"SR-A\"`".to_owned()
            }
        },
    );
}

fn limit(quantity: Quantity, entry: &Entry<'_>, sink: &mut Sink) -> Option<LimitValue> {
    match quantity {
        Quantity::OneWay
        | Quantity::OneWayStack
        | Quantity::RoundTripWire
        | Quantity::RoundTripStack
        | Quantity::SpacingError
        | Quantity::RoundTripVariation => entry.nanos(sink, Nanos::ZERO, "2ms").map(LimitValue::Span),
        Quantity::LossPublisher | Quantity::LossLoopback | Quantity::LossSum => share(entry, sink),
        Quantity::RoundTripCounter | Quantity::MissedCounters => {
            entry.integer(sink, 0..=u32::MAX).map(|count| LimitValue::Count(u64::from(count)))
        }
    }
}

/// Reads 1e-5, "1e-5" or "0.001%".
fn share(entry: &Entry<'_>, sink: &mut Sink) -> Option<LimitValue> {
    let value = match entry.is_text() {
        true => {
            let text = entry.text(sink, "1e-5")?.value.trim();
            match text.strip_suffix('%') {
                Some(percent) => percent.trim_end().parse::<f64>().ok().map(|percent| percent / 100.0),
                None => text.parse().ok(),
            }
        }
        false => entry.number(),
    };
    if let Some(value) = value.filter(|value| (0.0..=1.0).contains(value)) {
        return Some(LimitValue::Share(value));
    }
    sink.error(
        &entry.span,
        format!("{} is not a share", entry.name()),
        "expected a share from 0 to 1, such as \"1e-5\" or \"0.001%\"",
        format!("write for example `{} = \"1e-5\"`: one frame in 100000", entry.key),
    );
    None
}
