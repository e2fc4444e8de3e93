//! `cargo xtask bench groups`: many WriterGroups of 1 ms in one thread on one processor.
//!
//! What a cycle of all groups takes, group by group: a new value into its image, its frame built and sent through one
//! socket. Nothing shall depend on how many groups there are, but for what falls out of the caches.

use std::fmt::Write as _;
use std::hint::black_box;

use link::{Sender, SenderOptions};
use pubsub::{NetworkMessageLayout, Publisher, Value};
use serde_json::json;
use units::Nanos;

use super::place::{self, frames_received};
use super::print::shown_ratio;
use super::rounds::{Amount, Failure, Measured, Row, run};
use super::statistics::{Median, Spread, ratios};
use super::streams;
use super::surroundings::Surroundings;

/// UInt64 of each group's message.
const FIELDS: u16 = 9;
const CYCLE: Nanos = Nanos::from_millis(1);
/// Frames a batch, whatever the number of groups.
const FRAMES: u32 = 1_000;
/// How much more a group may cost among a thousand than among ten.
const FLAT: f64 = 1.10;
/// Groups with the keys of building alone and with sending.
const SIZES: [(u32, &str, &str); 3] =
    [(10, "build_10", "send_10"), (100, "build_100", "send_100"), (1_000, "build_1000", "send_1000")];

/// What was measured.
#[derive(Debug)]
pub(super) struct Report {
    surroundings: Surroundings,
    amount: Amount,
    rows: Vec<Measured>,
}

/// Measures all rows.
pub(super) fn measure(amount: Amount) -> Result<Report, Failure> {
    let pairs = place::make_pairs(1)?;
    let pair = pairs.first().ok_or("no veth pair")?;
    let surroundings = Surroundings::begin();
    let granted = place::settle();
    let sender = Sender::open(&pair.near, SenderOptions { priority: 3, ..SenderOptions::default() })?;
    let mut rows = Vec::new();
    for (groups, build, send) in SIZES {
        rows.push(row(build, groups, None)?);
        rows.push(row(send, groups, Some(&sender))?);
    }
    let sent = u64::from(FRAMES) * SIZES.len() as u64 * ((amount.blocks + 1) * amount.batches) as u64;
    let before = frames_received(&pair.far)?;
    let rows = run(rows, amount, FRAMES)?;
    match frames_received(&pair.far)? - before {
        // Each batch begins with one cycle that is not timed.
        received if received >= sent => Ok(Report { surroundings: surroundings.end(granted.describe()), amount, rows }),
        received => Err(format!("more than {sent} frames were sent, {received} came out at the other end").into()),
    }
}

struct Group {
    publisher: Publisher,
    image: Vec<u8>,
}

impl Group {
    fn new(number: u16) -> Result<Self, Failure> {
        let layout = NetworkMessageLayout::papers(2_000 + number / 8, 100 + number % 8, FIELDS);
        let publisher = Publisher::new(&layout, Some(&streams::HEADER))?;
        let mut image = vec![0; publisher.image().bytes()];
        publisher.image().set(&mut image, 0, 0, Value::Boolean(true));
        Ok(Self { publisher, image })
    }

    #[inline]
    fn publish(&mut self, counter: u64, sender: Option<&Sender>) -> Result<(), Failure> {
        if let Some(value) = self.image.as_chunks_mut().0.get_mut(1) {
            *value = counter.to_le_bytes();
        }
        let frame = self.publisher.publish(&self.image, streams::ticks(counter as i64))?.frame;
        match sender {
            Some(sender) => sender.send(frame)?,
            None => _ = black_box(frame),
        }
        Ok(())
    }
}

/// A batch is so many cycles as make [`FRAMES`] frames, after one that warms up.
fn row<'a>(key: &'static str, groups: u32, sender: Option<&'a Sender>) -> Result<Row<'a>, Failure> {
    let mut all = (0..groups as u16).map(Group::new).collect::<Result<Vec<_>, _>>()?;
    let mut counter = 0;
    Ok(Row::new(key, key, move || {
        let mut cycle = || {
            counter += 1;
            all.iter_mut().try_for_each(|group| group.publish(counter, sender))
        };
        cycle()?;
        let started = std::time::Instant::now();
        for _ in 0..FRAMES / groups {
            cycle()?;
        }
        Ok(started.elapsed())
    }))
}

impl Report {
    fn row(&self, key: &str) -> Option<&Measured> {
        self.rows.iter().find(|row| row.key == key)
    }

    /// What a group costs among the most, to what it costs among the fewest.
    fn flat(&self, keys: impl Fn(&(u32, &'static str, &'static str)) -> &'static str) -> Option<Median> {
        let [first, .., last] = &SIZES;
        Some(Median::of(&ratios(&self.row(keys(last))?.blocks, &self.row(keys(first))?.blocks)))
    }

    pub(super) fn text(&self) -> String {
        let mut text = self.surroundings.head();
        let Amount { blocks, batches } = self.amount;
        _ = writeln!(
            text,
            "{blocks} blocks a row, {batches} batches of {FRAMES} frames a block; rows take turns batch by batch.\n\n\
             WriterGroups of 1 ms, {FIELDS} UInt64 and a Boolean each, in one thread through one socket\n  \
             {:<8} {:>13} {:>13} {:>13}  {:<17} {:>10}",
            "groups", "build ns", "with send ns", "cycle µs", "quartiles", "head-room"
        );
        for (groups, build, send) in SIZES {
            let (Some(build), Some(send)) = (self.row(build), self.row(send)) else { continue };
            let (build, send) = (Spread::of(&build.blocks), Spread::of(&send.blocks));
            let cycle_us = |ns: f64| ns * f64::from(groups) / 1e3;
            _ = writeln!(
                text,
                "  {groups:<8} {:>13.1} {:>13.1} {:>13.1}  {:<17} {:>8.1} %",
                build.median,
                send.median,
                cycle_us(send.median),
                format!("{:.1}…{:.1}", cycle_us(send.quarter), cycle_us(send.three_quarters)),
                head_room(groups, send.median) * 100.0,
            );
        }
        let word = |flat: Median| match flat {
            Median { high, .. } if high <= FLAT => "met",
            Median { low, .. } if low > FLAT => "not met",
            _ => "undecided",
        };
        let flat = [("build", self.flat(|size| size.1)), ("with send", self.flat(|size| size.2))];
        _ = writeln!(text, "\nGoal: a group costs among 1000 at most {FLAT} × what it costs among 10. Found:");
        for (name, flat) in flat {
            _ = writeln!(text, "  {name:<10} {:<21} {}", shown_ratio(flat), flat.map_or("", word));
        }
        text +=
            "\nA send on a veth pair includes the receiving side's softirq, up to where the frame is thrown away.\n";
        text + &self.surroundings.caveats()
    }

    pub(super) fn json(&self) -> serde_json::Value {
        let row = |(groups, build, send): (u32, &str, &str)| {
            let spread = |key| self.row(key).map(|row| Spread::of(&row.blocks));
            json!({
                "groups": groups, "build_ns_per_group": spread(build).map(Spread::json),
                "send_ns_per_group": spread(send).map(Spread::json),
                "head_room": spread(send).map(|send| head_room(groups, send.median)),
            })
        };
        json!({
            "format": "downbeat/bench-groups/1",
            "machine": self.surroundings.json(),
            "blocks": self.amount.blocks,
            "frames_per_block": self.amount.batches * FRAMES as usize,
            "cycle_ns": CYCLE.0,
            "rows": SIZES.map(row),
            "flat_at_most": FLAT,
            "build_1000_to_10": self.flat(|size| size.1).map(Median::json),
            "send_1000_to_10": self.flat(|size| size.2).map(Median::json),
        })
    }
}

/// Share of a cycle that is left.
fn head_room(groups: u32, ns: f64) -> f64 {
    1.0 - f64::from(groups) * ns / CYCLE.0 as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cost_and_head_room_are_told() {
        let ns = |key: &str| match key {
            "build_1000" => 22.0,
            "send_1000" => 900.0,
            key if key.starts_with("send") => 700.0,
            _ => 21.0,
        };
        let keys = SIZES.iter().flat_map(|size| [size.1, size.2]);
        let rows = keys.map(|key| Measured { key, name: key, blocks: vec![ns(key); 20] }).collect();
        let report = Report { surroundings: Surroundings::default(), amount: Amount { blocks: 20, batches: 16 }, rows };
        let text = report.text();
        assert!(text.contains("900.0         900.0  900.0…900.0           10.0 %"), "{text}");
        assert!(text.contains("build      1.048 (1.048…1.048)   met"), "{text}");
        assert!(text.contains("with send  1.286 (1.286…1.286)   not met"), "{text}");
        assert_eq!(report.json()["send_1000_to_10"]["median"], 1.2857);
    }

    #[test]
    fn each_group_writes_its_own_ids() {
        let mut frames = std::collections::BTreeSet::new();
        for number in 0..1_000 {
            let mut group = Group::new(number).unwrap();
            group.publish(1, None).unwrap();
            frames.insert(group.publisher.publish(&group.image, 1).unwrap().frame.to_vec());
        }
        assert_eq!(frames.len(), 1_000);
    }
}
