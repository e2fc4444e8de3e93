//! From observations to `run.json`.

use std::fmt::Write as _;

use scenario::{Scenario, Stream};
use sha2::{Digest, Sha256};

use crate::verdict::judge;
use crate::{
    Dist, FrameRow, Jitter, Kind, Launch, Machine, Observations, RUN_FORMAT, RoundTrips, RunFile, ScenarioRef, Stage,
    StreamObservations, StreamResult, WithoutHostOutliers, explain, flags, join,
};

/// Sums up observations into the form of `run.json`.
///
/// Reads no clock: equal inputs give equal files.
pub fn summarise(scenario: &Scenario, observations: &Observations, kind: Kind, machine: Machine) -> RunFile {
    let mechanism = machine.get("pacing").and_then(|value| value.as_str()).map(str::to_owned);
    let mut rest = observations.rows.as_slice();
    let mut streams = Vec::new();
    for (number, (stream, seen)) in scenario.streams.iter().zip(&observations.streams).enumerate() {
        let (rows, others) = rest.split_at(rest.partition_point(|row| usize::from(row.stream) <= number));
        rest = others;
        // Where the kernel keeps its launch times, a stream has words of its own.
        let kept = machine.get("launch_kept").and_then(|kept| kept[&stream.name].as_str()).map(str::to_owned);
        streams.push(stream_result(scenario, stream, rows, seen, kept.or_else(|| mechanism.clone())));
    }
    let elsewhere: Vec<_> = observations.streams.iter().map(|seen| seen.elsewhere).collect();
    let verdict = judge(scenario, &streams, &elsewhere);
    RunFile {
        format: RUN_FORMAT.to_owned(),
        kind,
        scenario: ScenarioRef {
            name: scenario.name.clone(),
            sha256: fingerprint(&scenario.source),
            cycle_ns: scenario.cycle.0,
            offset_ns: scenario.streams.first().map_or(0, |stream| stream.offset.0),
        },
        machine,
        clocks: None,
        streams,
        hosts: observations.hosts.clone(),
        verdict,
        parts: Vec::new(),
        incidents: observations.incidents.clone(),
        incidents_left_out: observations.incidents_left_out.clone(),
    }
}

/// SHA-256 of a scenario file's text, hexadecimal.
pub fn fingerprint(source: &str) -> String {
    Sha256::digest(source.as_bytes()).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn stream_result(
    scenario: &Scenario,
    stream: &Stream,
    rows: &[FrameRow],
    seen: &StreamObservations,
    mechanism: Option<String>,
) -> StreamResult {
    let over = |span: fn(&FrameRow) -> Option<i64>| Dist::of(rows.iter().filter_map(span));
    let cycle = stream.cycle.0;
    let successive = || {
        rows.windows(2).filter_map(|pair| match pair {
            [before, row] if before.counter.checked_add(1) == Some(row.counter) => Some((before, row)),
            _ => None,
        })
    };
    let step = |n: usize| successive().filter_map(move |(before, row)| row.at(n)?.checked_sub(before.at(n)?));
    let variation = successive().filter_map(|(before, row)| {
        Some(row.round_trip_wire()?.checked_sub(before.round_trip_wire()?)?.saturating_abs())
    });
    let elapsed = || seen.round_trip_cycles.iter().copied();
    StreamResult {
        name: stream.name.clone(),
        frames: rows.iter().filter(|row| !row.has(flags::NOT_SEEN_PUBLISHED)).count() as u64,
        arrived: seen.arrived,
        bytes: stream.payload_bytes(),
        cycle_ns: Some(cycle),
        offset_ns: Some(stream.offset.0),
        round_trip: RoundTrips {
            wire: over(FrameRow::round_trip_wire),
            stack: over(FrameRow::round_trip_stack),
            counter: Dist::of(elapsed()),
            counter_used: Dist::of(elapsed().map(|cycles| cycles.saturating_add(1))),
        },
        one_way: over(FrameRow::one_way),
        one_way_stack: over(FrameRow::one_way_stack),
        spacing: Dist::of(step(3)),
        jitter: Jitter {
            spacing_error: Dist::of(step(3).map(|spacing| spacing.saturating_sub(cycle).saturating_abs())),
            packet_to_packet: Dist::of(step(2).map(|spacing| spacing.saturating_sub(cycle))),
            round_trip_variation: Dist::of(variation),
        },
        loss: seen.loss.clone(),
        counters: seen.counters.clone(),
        breaches: seen.breaches.clone(),
        applications: seen.applications.clone(),
        drains: seen.drains.clone(),
        launch: launch(stream, rows, mechanism),
        stages: stages(stream, rows),
        split: explain::split(stream.echo, rows, &seen.parts),
        counter_reference: explain::counter_reference(scenario, stream, &seen.round_trip_cycles),
        margins: seen.margins.clone(),
        without_host_outliers: without_host_outliers(rows),
    }
}

fn launch(stream: &Stream, rows: &[FrameRow], mechanism: Option<String>) -> Option<Launch> {
    rows.iter().any(|row| row.launch.is_some()).then(|| Launch {
        late: rows.iter().filter(|row| row.has(flags::LATE_LAUNCH)).count() as u64,
        late_after_ns: join::late_after(stream),
        error: Dist::of(rows.iter().filter_map(|row| row.at(2)?.checked_sub(row.launch?))),
        mechanism,
    })
}

/// Stages over the messages that came all the way, so that their means add up to the mean of the whole.
fn stages(stream: &Stream, rows: &[FrameRow]) -> Vec<Stage> {
    let last = if stream.echo { 8 } else { 4 };
    const WORDS: [&str; 7] = [
        "writer's host: from hand-over to departure",
        "network, out",
        "reader's host: from arrival to decoded",
        "reader's application: from decoded to hand-over of the answer",
        "reader's host: from hand-over to departure",
        "network, back",
        "writer's host: from arrival to decoded",
    ];
    let stage = |from: usize| {
        let spans = rows.iter().filter(|row| row.at(last).is_some()).filter_map(|row| row.span(from, from + 1));
        Some(Stage {
            name: format!("T{}−T{from}", from + 1),
            words: WORDS[from - 1].to_owned(),
            spent: Dist::of(spans)?,
        })
    };
    (1..last).filter_map(stage).collect()
}

fn without_host_outliers(rows: &[FrameRow]) -> Option<WithoutHostOutliers> {
    let left_out = rows.iter().filter(|row| row.has(flags::HOST_OUTLIER)).count() as u64;
    let others = || rows.iter().filter(|row| !row.has(flags::HOST_OUTLIER));
    (left_out > 0).then(|| WithoutHostOutliers {
        left_out,
        round_trip_wire: Dist::of(others().filter_map(FrameRow::round_trip_wire)),
        one_way: Dist::of(others().filter_map(FrameRow::one_way)),
    })
}
