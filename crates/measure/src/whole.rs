//! The whole of a run that was rotated into parts.
//!
//! Counts add up exactly, and requirements are judged over all parts: every limit is one of a maximum or of a count.
//! Percentiles of parts do not add up, so the whole has no distributions: they are in the parts.

use scenario::Scenario;

use crate::incidents::most;
use crate::verdict::judge;
use crate::{
    Counters, Dist, Jitter, Launch, Loss, Machine, Margins, PartRef, RoundTrips, RunFile, StreamObservations,
    StreamResult,
};

/// Sums up the parts of a run, one after the other.
#[derive(Debug)]
pub struct Whole {
    run: Option<RunFile>,
    parts: Vec<PartRef>,
    /// Which ends of each stream run elsewhere.
    elsewhere: Vec<[bool; 2]>,
}

impl Whole {
    /// The whole of no parts.
    pub fn new() -> Self {
        Self { run: None, parts: Vec::new(), elsewhere: Vec::new() }
    }

    /// Adds the next part.
    pub fn add(&mut self, folder: String, part: RunFile, seen: &[StreamObservations]) {
        let frames = part.streams.iter().map(|stream| stream.frames).sum();
        self.parts.push(PartRef { folder, frames, met: part.verdict.met });
        self.elsewhere = seen.iter().map(|seen| seen.elsewhere).collect();
        let Some(run) = &mut self.run else {
            self.run = Some(part);
            return;
        };
        run.streams.iter_mut().zip(part.streams).for_each(|(whole, part)| add_stream(whole, part));
        run.incidents.extend(part.incidents);
        for (kind, count) in part.incidents_left_out {
            *run.incidents_left_out.entry(kind).or_insert(0) += count;
        }
        let (kept, left_out) = most(std::mem::take(&mut run.incidents));
        run.incidents = kept;
        for (kind, count) in left_out {
            *run.incidents_left_out.entry(kind).or_insert(0) += count;
        }
    }

    /// How many parts there are.
    pub fn parts(&self) -> usize {
        self.parts.len()
    }

    /// The result of the whole; none without parts.
    pub fn finish(self, scenario: &Scenario, machine: Machine) -> Option<RunFile> {
        let mut run = self.run?;
        run.verdict = judge(scenario, &run.streams, &self.elsewhere);
        run.machine = machine;
        run.parts = self.parts;
        // Lateness is told as a distribution.
        run.hosts = Vec::new();
        run.streams.iter_mut().for_each(without_distributions);
        Some(run)
    }
}

impl Default for Whole {
    fn default() -> Self {
        Self::new()
    }
}

fn add_stream(whole: &mut StreamResult, part: StreamResult) {
    whole.frames += part.frames;
    add(&mut whole.arrived, part.arrived);
    let RoundTrips { wire, stack, counter, .. } = part.round_trip;
    extend(&mut whole.round_trip.wire, wire);
    extend(&mut whole.round_trip.stack, stack);
    extend(&mut whole.round_trip.counter, counter);
    extend(&mut whole.one_way, part.one_way);
    extend(&mut whole.one_way_stack, part.one_way_stack);
    extend(&mut whole.jitter.spacing_error, part.jitter.spacing_error);
    extend(&mut whole.jitter.round_trip_variation, part.jitter.round_trip_variation);
    add_loss(&mut whole.loss, &part.loss);
    add_counters(&mut whole.counters, &part.counters);
    for (whole, part) in whole.breaches.iter_mut().zip(part.breaches) {
        whole.times += part.times;
        whole.cycles += part.cycles;
        whole.longest_cycles = whole.longest_cycles.max(part.longest_cycles);
        whole.lasting = part.lasting;
    }
    for part in part.applications {
        match whole.applications.iter_mut().find(|whole| whole.end == part.end) {
            Some(whole) => {
                whole.attached |= part.attached;
                whole.cycles += part.cycles;
                whole.without_new += part.without_new;
                whole.longest_without = whole.longest_without.max(part.longest_without);
                whole.uncertain += part.uncertain;
                whole.bad += part.bad;
            }
            None => whole.applications.push(part),
        }
    }
    for part in part.drains {
        match whole.drains.iter_mut().find(|whole| whole.end == part.end) {
            Some(whole) => {
                whole.asked += part.asked;
                whole.standing += part.standing;
                whole.empty += part.empty;
                whole.messages += part.messages;
            }
            None => whole.drains.push(part),
        }
    }
    match (&mut whole.launch, part.launch) {
        (Some(whole), Some(part)) => whole.late += part.late,
        (whole @ None, part) => *whole = part,
        (Some(_), None) => {}
    }
}

/// What a verdict asks of a distribution: its maximum and how many values it is of.
fn extend(whole: &mut Option<Dist>, part: Option<Dist>) {
    match (whole.as_mut(), part) {
        (Some(whole), Some(part)) => {
            whole.count += part.count;
            (whole.min, whole.max) = (whole.min.min(part.min), whole.max.max(part.max));
        }
        (None, part) => *whole = part,
        (Some(_), None) => {}
    }
}

fn without_distributions(stream: &mut StreamResult) {
    stream.round_trip = RoundTrips::default();
    (stream.one_way, stream.one_way_stack, stream.spacing) = (None, None, None);
    stream.jitter = Jitter::default();
    stream.stages = Vec::new();
    (stream.split, stream.counter_reference, stream.without_host_outliers) = (None, None, None);
    stream.margins = Margins::default();
    stream.applications.iter_mut().for_each(|application| application.answered_after = None);
    if let Some(Launch { error, .. }) = &mut stream.launch {
        *error = None;
    }
}

fn add(whole: &mut Option<u64>, part: Option<u64>) {
    *whole = match (*whole, part) {
        (Some(whole), Some(part)) => Some(whole + part),
        (whole, part) => whole.or(part),
    };
}

#[allow(non_snake_case)] // the papers' names
fn add_loss(whole: &mut Loss, part: &Loss) {
    whole.published += part.published;
    whole.under_way += part.under_way;
    whole.unknown += part.unknown;
    let Loss { dP, dL, dbL, dbP, dLinkL, dLinkP, dSum, .. } = part;
    let mine = [
        &mut whole.dP,
        &mut whole.dL,
        &mut whole.dbL,
        &mut whole.dbP,
        &mut whole.dLinkL,
        &mut whole.dLinkP,
        &mut whole.dSum,
    ];
    mine.into_iter().zip([dP, dL, dbL, dbP, dLinkL, dLinkP, dSum]).for_each(|(whole, part)| add(whole, *part));
    let published = whole.published;
    let share = |count: Option<u64>| count.filter(|_| published > 0).map(|count| count as f64 / published as f64);
    whole.launches = match (whole.launches, part.launches) {
        (Some(one), Some(other)) => Some(one.plus(other)),
        (one, other) => one.or(other),
    };
    (whole.dP_share, whole.dL_share, whole.dSum_share) = (share(whole.dP), share(whole.dL), share(whole.dSum));
}

fn add_counters(whole: &mut Counters, part: &Counters) {
    add(&mut whole.missed, part.missed);
    add(&mut whole.repeated, part.repeated);
    add(&mut whole.missed_at_reader, part.missed_at_reader);
    add(&mut whole.repeated_at_reader, part.repeated_at_reader);
    whole.inconsistent += part.inconsistent;
    whole.stale += part.stale;
    whole.received_again += part.received_again;
    whole.wrong_tag += part.wrong_tag;
    whole.foreign += part.foreign;
    whole.substituted += part.substituted;
}
