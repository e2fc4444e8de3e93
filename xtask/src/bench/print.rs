//! The results, for people and for machines.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::rounds::{Amount, BATCH, Failure, Measured, WARM_UP};
use super::statistics::{Median, Spread, differences, ratios};
use super::surroundings::Surroundings;
use super::{hand, streams};

/// What the record of a frame may take, without the reading of the clock.
const RECORD_BELOW_NS: f64 = 50.0;

/// What was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Publish,
    Receive,
    Codec,
    Dispatch,
}

impl Side {
    fn key(self) -> &'static str {
        match self {
            Self::Publish => "publish",
            Self::Receive => "receive",
            Self::Codec => "codec",
            Self::Dispatch => "dispatch",
        }
    }

    /// How much of a hand-written loop's time sending or receiving may take; none where no goal is set.
    fn goal(self) -> Option<f64> {
        match self {
            Self::Publish => Some(1.02),
            Self::Receive => Some(1.05),
            Self::Codec | Self::Dispatch => None,
        }
    }

    /// The rows that are held to it, what each is compared with, and what that is called.
    fn judged(self) -> &'static [(&'static str, &'static str, &'static str)] {
        match self {
            Self::Publish => {
                &[("ours_publisher", "hand_values", "send / send"), ("ours", "hand", "send / send, application")]
            }
            Self::Receive => &[
                ("ours_ring_subscriber", "hand", "ring / recv"),
                ("ours_subscriber", "hand", "recv / recv"),
                ("ours_ring_subscriber", "hand_ring", "ring / ring"),
                ("ours_ring", "hand", "ring / recv, application"),
                ("ours_required", "hand", "recv / recv, application"),
                ("ours_ring", "hand_ring", "ring / ring, application"),
            ],
            Self::Codec | Self::Dispatch => &[],
        }
    }

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Publish => "Publish: from the counter to the frame in the kernel's hands",
            Self::Receive => "Receive: from the frame in the socket to the counter in the application",
            Self::Codec => "Codec: no socket",
            Self::Dispatch => "Dispatch: from the bytes of a message to its subscriber, one of many",
        }
    }
}

/// One table.
#[derive(Debug)]
pub(super) struct Part {
    side: Side,
    fields: u16,
    frame_bytes: usize,
    rows: Vec<Measured>,
}

impl Part {
    pub(super) fn new(side: Side, fields: u16, rows: Vec<Measured>) -> Result<Self, Failure> {
        Ok(Self { side, fields, frame_bytes: streams::frame(fields)?.len(), rows })
    }

    fn blocks(&self, key: &str) -> Option<&[f64]> {
        self.rows.iter().find(|row| row.key == key).map(|row| row.blocks.as_slice())
    }

    /// How a row compares with another one, block by block.
    fn ratio(&self, row: &Measured, to: &str) -> Option<Median> {
        let other = self.blocks(to).filter(|_| row.key != to)?;
        Some(Median::of(&ratios(&row.blocks, other)))
    }

    /// How two rows compare.
    pub(super) fn compare(&self, key: &str, to: &str) -> Option<Median> {
        self.ratio(self.rows.iter().find(|row| row.key == key)?, to)
    }

    /// The bare call, where there is one.
    fn to_bare(&self, row: &Measured) -> Option<Median> {
        self.ratio(row, "bare")
    }

    /// The hand-written loop that does the same.
    fn to_hand(&self, row: &Measured) -> Option<Median> {
        let to = match (self.side, row.key) {
            (Side::Codec, key) if key.ends_with("_build") => "hand_build",
            (Side::Codec, _) => "hand_take_apart",
            (Side::Dispatch, _) | (_, "bare" | "recvmsg") => return None,
            (_, "hand_ring" | "ours_ring" | "ours_ring_subscriber") => "hand_ring",
            (_, "ours_publisher") => "hand_values",
            _ => "hand",
        };
        self.ratio(row, to)
    }

    /// What a step adds, in nanoseconds a frame: from one row to the next.
    fn steps(&self) -> Vec<(&'static str, &'static str, Median)> {
        let steps: &[_] = match self.side {
            Side::Publish => &[
                ("ours_over_bare", "ours over the bare call", "bare", "ours"),
                ("ours_over_hand", "ours over hand-written", "hand", "ours"),
                ("clock", "tracing: clock", "ours", "ours_clock"),
                ("record", "tracing: record", "ours_clock", "ours_record"),
                ("stamps", "tracing: kernel stamps", "ours_record", "ours_traced"),
                ("tracing", "tracing: both", "ours", "ours_traced"),
            ],
            Side::Receive => &[
                ("tag", "the kernel's part for telling the tag", "bare", "recvmsg"),
                ("ours_over_bare", "ours over the bare call", "bare", "ours"),
                ("ours_over_hand", "ours over hand-written", "hand", "ours"),
                ("clock", "tracing: clock", "ours", "ours_clock"),
                ("record", "tracing: record", "ours_clock", "ours_record"),
                ("stamps", "tracing: kernel stamps", "ours_record", "ours_traced"),
                ("tracing", "tracing: both", "ours", "ours_traced"),
            ],
            Side::Codec => &[],
            Side::Dispatch => &[("flat", "1000 groups over 10", "groups_10", "groups_1000")],
        };
        let step = |&(key, name, from, to): &(&'static str, &'static str, &str, &str)| {
            Some((key, name, Median::of(&differences(self.blocks(to)?, self.blocks(from)?))))
        };
        steps.iter().filter_map(step).collect()
    }

    pub(super) fn text(&self) -> String {
        let message_bytes = self.frame_bytes - hand::TAGGED_HEADER_BYTES;
        let mut text =
            format!("\n{} fields, message {message_bytes} bytes, frame {} bytes\n", self.fields, self.frame_bytes);
        _ = writeln!(
            text,
            "  {:<31} {:>9}  {:<17}  {:<21}  × hand-written (95 %)",
            "",
            "ns/frame",
            "quartiles",
            if matches!(self.side, Side::Codec | Side::Dispatch) { "" } else { "× bare (95 %)" },
        );
        for row in &self.rows {
            let spread = Spread::of(&row.blocks);
            let quartiles = format!("{:.1}…{:.1}", spread.quarter, spread.three_quarters);
            let line = format!(
                "  {:<31} {:>9.1}  {quartiles:<17}  {:<21}  {}",
                row.name,
                spread.median,
                shown_ratio(self.to_bare(row)),
                shown_ratio(self.to_hand(row)),
            );
            _ = writeln!(text, "{}", line.trim_end());
        }
        for (_, name, cost) in self.steps() {
            _ = writeln!(text, "    {name:<38} {:>+8.1} ns ({:+.1}…{:+.1})", cost.value, cost.low, cost.high);
        }
        text
    }

    pub(super) fn json(&self) -> Value {
        let rows: Vec<_> = self
            .rows
            .iter()
            .map(|row| {
                json!({
                    "key": row.key,
                    "ns_per_frame": Spread::of(&row.blocks).json(),
                    "to_bare": self.to_bare(row).map(Median::json),
                    "to_hand_written": self.to_hand(row).map(Median::json),
                })
            })
            .collect();
        let steps: serde_json::Map<_, _> =
            self.steps().into_iter().map(|(key, _, cost)| (key.to_owned(), cost.json())).collect();
        json!({
            "side": self.side.key(), "fields": self.fields, "frame_bytes": self.frame_bytes,
            "rows": rows, "steps_ns": steps,
        })
    }
}

pub(super) fn shown_ratio(ratio: Option<Median>) -> String {
    ratio.map_or_else(String::new, |Median { value, low, high }| format!("{value:.3} ({low:.3}…{high:.3})"))
}

/// Everything.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) surroundings: Surroundings,
    pub(super) amount: Amount,
    pub(super) parts: Vec<Part>,
}

/// What is said about a goal for one table.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Found {
    side: Side,
    fields: u16,
    /// Which calls of ours, and which by hand.
    way: &'static str,
    ratio: Median,
    at_most: f64,
}

/// Whether an interval lies at or below a limit, above it, or on both sides.
fn verdict(found: Median, at_most: f64) -> &'static str {
    match found {
        Median { high, .. } if high <= at_most => "met",
        Median { low, .. } if low > at_most => "not met",
        _ => "undecided",
    }
}

impl Report {
    /// What a record takes, without the reading of the clock.
    fn records(&self) -> Vec<(Side, u16, Median)> {
        let record = |part: &Part| {
            let (.., cost) = part.steps().into_iter().find(|(key, ..)| *key == "record")?;
            Some((part.side, part.fields, cost))
        };
        self.parts.iter().filter_map(record).collect()
    }

    fn found(&self) -> Vec<Found> {
        let found = |part: &'_ Part| {
            let of = |&(key, to, way): &(&str, &str, &'static str)| {
                let (ratio, at_most) = (part.compare(key, to)?, part.side.goal()?);
                Some(Found { side: part.side, fields: part.fields, way, ratio, at_most })
            };
            part.side.judged().iter().filter_map(of).collect::<Vec<_>>()
        };
        self.parts.iter().flat_map(found).collect()
    }

    pub(super) fn text(&self) -> String {
        let mut text = self.head();
        let mut side = None;
        for part in &self.parts {
            if side.replace(part.side) != Some(part.side) {
                let title = part.side.title();
                _ = writeln!(text, "\n{title}\n{}", "─".repeat(title.chars().count()));
            }
            text += &part.text();
        }
        let found = self.found();
        if !found.is_empty() {
            _ = writeln!(
                text,
                "\nGoals: ours, not traced / hand-written; in a run it is send and ring. 'application': with the one that counts and\nexplains every round trip, which nobody has written by hand here. Found:"
            );
        }
        for Found { side, fields, way, ratio, at_most } in found {
            let (side, shown, word) = (side.key(), shown_ratio(Some(ratio)), verdict(ratio, at_most));
            _ = writeln!(text, "  {side}, {fields:>3} fields, {way:<24} {shown:<21} of {at_most:.2}, {word}");
        }
        for (side, fields, cost) in self.records() {
            let (side, word) = (side.key(), verdict(cost, RECORD_BELOW_NS));
            let Median { value, low, high } = cost;
            _ = writeln!(
                text,
                "  {side}, {fields:>3} fields, record                   {value:.1} ns ({low:.1}…{high:.1}) of {RECORD_BELOW_NS} ns, {word}"
            );
        }
        text + &self.caveats()
    }

    fn head(&self) -> String {
        let mut text = self.surroundings.head();
        let Amount { blocks, batches } = self.amount;
        let frames = batches * BATCH as usize;
        _ = writeln!(
            text,
            "{blocks} blocks a row, {frames} frames a block in batches of {BATCH} ({WARM_UP} more before each, not timed). \
             Rows take turns\nbatch by batch. A block is the median of its batches; shown are medians of the blocks. \
             Ratios and\ndifferences are formed within blocks; in parentheses 95 % intervals of their medians."
        );
        text
    }

    fn caveats(&self) -> String {
        let mut text = "\n\
How to read it: a send on a veth pair includes the receiving side's softirq, up to where the frame is thrown away.
Receiving: bare recv does not learn the frame's tag; ours does, with recvmsg, or has the kernel drop other tags, or reads
it beside the frame in a ring. The hand-written loops check the constant bytes and copy values; an endpoint also checks
that all values are equal and keeps sequence, loss and age, but keeps one value. Without a socket, hand-written, template
and layout do the same with n values and the Boolean; publisher and subscriber also count, number and watch the time.
Intervals tell the scatter within this run; another start or build can move a ratio by 0.01 or so beyond them.
"
        .to_owned();
        text += &self.surroundings.caveats();
        if self.amount.blocks < 20 {
            _ = writeln!(text, "Fewer than 20 blocks: intervals are wide; below 6 they are the whole range.");
        }
        text
    }

    pub(super) fn json(&self) -> Value {
        let goal = |Found { side, fields, way, ratio, at_most }: Found| {
            json!({
                "side": side.key(), "fields": fields, "way": way, "to_hand_written": ratio.json(), "at_most": at_most,
                "verdict": verdict(ratio, at_most),
            })
        };
        let record = |(side, fields, cost): (Side, u16, Median)| {
            json!({
                "side": side.key(), "fields": fields, "record_ns": cost.json(), "at_most": RECORD_BELOW_NS,
                "verdict": verdict(cost, RECORD_BELOW_NS),
            })
        };
        let goals: Vec<_> = self.found().into_iter().map(goal).chain(self.records().into_iter().map(record)).collect();
        json!({
            "format": "downbeat/bench-publish/1",
            "machine": self.surroundings.json(),
            "blocks": self.amount.blocks,
            "frames_per_block": self.amount.batches * BATCH as usize,
            "goals": goals,
            "parts": self.parts.iter().map(Part::json).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(key: &'static str, blocks: &[f64]) -> Measured {
        Measured { key, name: key, blocks: blocks.to_vec() }
    }

    fn report(ours: f64) -> Report {
        let rows = vec![
            row("bare", &[1000.0; 20]),
            row("hand", &[1010.0; 20]),
            row("ours", &[ours; 20]),
            row("ours_clock", &[ours + 25.0; 20]),
            row("ours_record", &[ours + 40.0; 20]),
            row("ours_traced", &[ours + 540.0; 20]),
        ];
        let parts = vec![Part::new(Side::Publish, 8, rows).unwrap()];
        let amount = Amount { blocks: 20, batches: 16 };
        Report { surroundings: Surroundings::default(), amount, parts }
    }

    #[test]
    fn the_table_says_what_was_found() {
        let text = report(1020.0).text();
        assert!(text.contains("8 fields, message 104 bytes, frame 122 bytes"), "{text}");
        assert!(text.contains("1.020 (1.020…1.020)    1.010 (1.010…1.010)"), "{text}");
        assert!(text.contains("tracing: kernel stamps                   +500.0 ns"), "{text}");
        assert!(
            text.contains("publish,   8 fields, send / send, application 1.010 (1.010…1.010)   of 1.02, met"),
            "{text}"
        );
        assert!(
            text.contains("publish,   8 fields, record                   15.0 ns (15.0…15.0) of 50 ns, met"),
            "{text}"
        );
        assert!(report(1060.0).text().contains("1.050 (1.050…1.050)   of 1.02, not met"));
    }

    #[test]
    fn the_json_form_says_the_same() {
        let json = report(1060.0).json();
        assert_eq!(json["goals"][0]["verdict"], "not met");
        assert_eq!(json["parts"][0]["rows"][2]["to_bare"]["median"], 1.06);
        assert_eq!(json["parts"][0]["steps_ns"]["record"]["median"], 15.0);
    }
}
