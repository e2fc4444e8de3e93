//! `cargo xtask bench wire`: messages built and taken apart without a socket, by Downbeat, by a hand-written loop and by
//! open62541, the stack of the papers.
//!
//! The rows take turns batch by batch. open62541 runs in a process of its own on the same processor, which waits while the
//! other rows have their turn.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use super::codec::{self, FRAMES};
use super::interop::{Process, Program};
use super::place;
use super::print::{Part, Side, shown_ratio};
use super::rounds::{Amount, Failure, Row, run};
use super::statistics::Median;
use super::streams::CODEC_FIELDS;
use super::surroundings::Surroundings;

/// What is compared with what: open62541 with what does at least the same.
const COMPARED: [(&str, &str, &str); 3] = [
    ("build", "open62541_build", "publisher_build"),
    ("take apart, arena", "open62541_take_apart", "subscriber_take_apart"),
    ("take apart, malloc", "open62541_malloc_take_apart", "subscriber_take_apart"),
];

/// What was measured.
#[derive(Debug)]
pub(super) struct Report {
    surroundings: Surroundings,
    amount: Amount,
    /// Why open62541 is missing.
    left_out: Option<String>,
    parts: Vec<Part>,
}

/// Measures all rows for all sizes.
pub(super) fn measure(amount: Amount) -> Result<Report, Failure> {
    let surroundings = Surroundings::begin();
    let (program, left_out) = match Program::open62541() {
        Ok(program) => (Some(program), None),
        Err(reason) => (None, Some(reason)),
    };
    let granted = place::settle();
    let cpu = place::last_cpu().map_or_else(|| "0".to_owned(), |cpu| cpu.to_string());
    let sizes = CODEC_FIELDS.map(|fields| fields.to_string()).join(",");
    // A process for each row: none finds in the caches what another one has left there.
    let start = || program.as_ref().map(|program| program.start(&["codec", &cpu, &sizes])).transpose();
    let mut parts = Vec::new();
    for fields in CODEC_FIELDS {
        let mut rows = codec::rows(fields)?;
        for (key, name, what) in [
            ("open62541_build", "build, open62541", "encode"),
            ("open62541_take_apart", "take apart, open62541, arena", "decode"),
            ("open62541_malloc_take_apart", "take apart, open62541, malloc", "decode-malloc"),
        ] {
            rows.extend(start()?.map(|process| row(key, name, what, fields, process)));
        }
        parts.push(Part::new(Side::Codec, fields, run(rows, amount, FRAMES)?)?);
    }
    Ok(Report { surroundings: surroundings.end(granted.describe()), amount, left_out, parts })
}

fn row(key: &'static str, name: &'static str, what: &'static str, fields: u16, mut process: Process) -> Row<'static> {
    let mut next = 1;
    Row::new(key, name, move || {
        let answer = process.ask(&format!("{what} {fields} {FRAMES} {next}"))?;
        next += u64::from(FRAMES);
        let took = answer.parse().map_err(|_| format!("expected nanoseconds, found {answer:?}"))?;
        Ok(Duration::from_nanos(took))
    })
}

impl Report {
    pub(super) fn text(&self) -> String {
        let mut text = self.surroundings.head();
        let Amount { blocks, batches } = self.amount;
        _ = writeln!(
            text,
            "{blocks} blocks a row, {batches} batches of {FRAMES} messages a block; rows take turns batch by batch. Shown are medians \
             of the\nblocks; ratios are formed within blocks, in parentheses 95 % intervals of their medians."
        );
        if let Some(reason) = &self.left_out {
            _ = writeln!(text, "LEFT OUT: open62541: {reason}");
        }
        for part in &self.parts {
            text += &part.text();
            for (name, theirs, ours) in COMPARED {
                if let Some(ratio) = part.compare(theirs, ours) {
                    _ = writeln!(text, "    {name:<20} open62541 / Downbeat: {}", shown_ratio(Some(ratio)));
                }
            }
        }
        text += "\n\
How to read it: n fields are n UInt64 and a Boolean, as Variants: byte for byte the papers' message, from every contestant.
Hand-written, template, layout and open62541 do the same: one new value, all values written, the timestamp; constant bytes
checked, all values copied out. Publisher and subscriber also count, number and watch the time; an endpoint keeps one value.
open62541 1.5.10 encodes into a buffer that is there already, and decodes into an arena or with malloc and free.
";
        text + &self.surroundings.caveats()
    }

    pub(super) fn json(&self) -> Value {
        let compared = |part: &Part| {
            let one = |(name, theirs, ours): (&str, &str, &str)| {
                (name.to_owned(), json!(part.compare(theirs, ours).map(Median::json)))
            };
            COMPARED.into_iter().map(one).collect::<serde_json::Map<_, _>>()
        };
        json!({
            "format": "downbeat/bench-wire/1",
            "machine": self.surroundings.json(),
            "blocks": self.amount.blocks,
            "frames_per_block": self.amount.batches * FRAMES as usize,
            "left_out": { "open62541": self.left_out },
            "parts": self.parts.iter().map(Part::json).collect::<Vec<_>>(),
            "open62541_to_downbeat": self.parts.iter().map(compared).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::rounds::Measured;
    use super::*;

    #[test]
    fn open62541_is_compared_or_said_to_be_missing() {
        let row = |key, ns| Measured { key, name: key, blocks: vec![ns; 20] };
        let rows = vec![row("hand_build", 10.0), row("publisher_build", 20.0), row("open62541_build", 150.0)];
        let parts = vec![Part::new(Side::Codec, 9, rows).unwrap()];
        let amount = Amount { blocks: 20, batches: 16 };
        let mut report = Report { surroundings: Surroundings::default(), amount, left_out: None, parts };
        let text = report.text();
        assert!(text.contains("15.000 (15.000…15.000)"), "to the hand-written loop: {text}");
        assert!(text.contains("open62541 / Downbeat: 7.500 (7.500…7.500)") && !text.contains("LEFT OUT"), "{text}");
        assert_eq!(report.json()["open62541_to_downbeat"][0]["build"]["median"], 7.5);

        report.left_out = Some("no cmake".to_owned());
        assert!(report.text().contains("LEFT OUT: open62541: no cmake"));
        assert_eq!(report.json()["left_out"]["open62541"], "no cmake");
    }
}
