//! Safety margins: what the phases left of the time the plan gives them (Gopiga et al., figure 11).

use scenario::{HostId, Scenario, Stream};

use super::{EndMargins, Margin, Margins, SmallestPhases};
use crate::collect::{EndLog, Ran, StreamLog};
use crate::dist::rank;
use crate::{Phase, words};

/// How long the shared image is held: readers and writers of a wait-free image never wait for each other.
const HELD_NS: i64 = 0;
/// Recommended shares are rounded up to a thousandth.
const STEPS: i128 = 1_000;

/// The margins of both ends of a stream; absent at an end whose phases left no trace.
pub(crate) fn margins(scenario: &Scenario, stream: &Stream, log: &StreamLog) -> Margins {
    let [writer, reader] = &log.ends;
    Margins {
        writer: end(scenario, stream, stream.writer, writer, stream.echo, true),
        reader: end(scenario, stream, stream.reader, reader, true, stream.echo),
    }
}

fn end(
    scenario: &Scenario,
    stream: &Stream,
    host: HostId,
    log: &EndLog,
    reads: bool,
    publishes: bool,
) -> Option<EndMargins> {
    let host = scenario.host(host);
    let cycle = stream.cycle.0.max(1);
    let at = |fraction: scenario::Fraction| fraction.of(stream.cycle).0;
    let phases = host.phases;
    let (subscribe, application, publish) = (at(phases.subscribe), at(phases.application), at(phases.publish));
    let subscribed = Worst::of(&log.phases[Phase::Subscribe as usize]).filter(|_| reads);
    let applied = Worst::of(&log.phases[Phase::Application as usize]);
    let transfer = subscribed.as_ref().map(|worst| worst.margin(application - subscribe, cycle));
    let before_publish = applied.as_ref().filter(|_| publishes);
    let before_publish = before_publish.map(|worst| worst.margin(publish - application, cycle));
    if transfer.is_none() && before_publish.is_none() {
        return None;
    }
    // The application phase does not come before the receive window closes.
    let window = if reads { at(phases.window) } else { 0 };
    let smallest = |with: &str, pick: fn(&Worst<'_>) -> (i64, i64)| {
        let share = |ns: i128| share_up(ns, cycle);
        let reading = subscribed.as_ref().map_or(0, |worst| spent(pick(worst))).max(window.into());
        let application = i128::from(subscribe) + reading;
        let publish = applied.as_ref().filter(|_| publishes).map(|worst| application + spent(pick(worst)));
        SmallestPhases {
            with: with.to_owned(),
            subscribe: f64::from(phases.subscribe.0) / f64::from(scenario::Fraction::WHOLE),
            application: share(application),
            publish: publish.and_then(share),
        }
    };
    let smallest_phases = vec![smallest("max", |worst| worst.at_most), smallest("p99_9", |worst| worst.mostly)];
    let count = transfer.iter().chain(&before_publish).map(|margin| margin.count).min().unwrap_or(0);
    Some(EndMargins {
        host: host.name.clone(),
        advice: advice(&smallest_phases, count, publishes),
        transfer_safety_margin: transfer,
        application_safety_margin: before_publish,
        held_ns: HELD_NS,
        smallest_phases,
    })
}

/// What a phase took at worst.
struct Worst<'a> {
    ran: &'a [Ran],
    /// Largest lateness and run time, and those at 99.9 %.
    at_most: (i64, i64),
    mostly: (i64, i64),
}

impl<'a> Worst<'a> {
    fn of(ran: &'a [Ran]) -> Option<Self> {
        if ran.is_empty() {
            return None;
        }
        let mostly = |pick: fn(&Ran) -> i64| {
            let mut values: Vec<i64> = ran.iter().map(pick).collect();
            let index = rank(values.len(), 9_990) - 1;
            *values.select_nth_unstable(index).1
        };
        let most = |pick: fn(&Ran) -> i64| ran.iter().map(pick).max().unwrap_or(0);
        Some(Self {
            ran,
            at_most: (most(|ran| ran.late), most(|ran| ran.took)),
            mostly: (mostly(|ran| ran.late), mostly(|ran| ran.took)),
        })
    }

    fn margin(&self, configured: i64, cycle: i64) -> Margin {
        let found = i128::from(configured) - spent(self.at_most);
        let found_ns = i64::try_from(found).unwrap_or(i64::MIN);
        let over = |ran: &&Ran| spent((ran.late, ran.took)) > configured.into();
        Margin {
            configured_ns: configured,
            configured_share: configured as f64 / cycle as f64,
            found_ns,
            found_share: found_ns as f64 / cycle as f64,
            late_max_ns: self.at_most.0,
            took_max_ns: self.at_most.1,
            count: self.ran.len() as u64,
            violated: self.ran.iter().filter(over).count() as u64,
        }
    }
}

/// Lateness and run time together, and how long the shared image is held.
fn spent((late, took): (i64, i64)) -> i128 {
    i128::from(late) + i128::from(took) + i128::from(HELD_NS)
}

/// A span as a share of the cycle, rounded up; `None` when it is no instant of the cycle.
fn share_up(ns: i128, cycle: i64) -> Option<f64> {
    let cycle = i128::from(cycle);
    let steps = (ns.checked_mul(STEPS)? + cycle - 1).div_euclid(cycle);
    (0..STEPS).contains(&steps).then(|| steps as f64 / STEPS as f64)
}

fn advice(smallest: &[SmallestPhases], count: u64, publishes: bool) -> String {
    let phases = |phases: &SmallestPhases| match (phases.application, phases.publish) {
        (Some(application), Some(publish)) => format!("application = {application}, publish = {publish}"),
        (Some(application), None) if !publishes => format!("application = {application}"),
        _ => "no phases within the cycle".to_owned(),
    };
    let with = |phases: &SmallestPhases| if phases.with == "max" { "the largest values" } else { "those of 99.9 %" };
    let mut parts: Vec<String> = Vec::new();
    for entry in smallest {
        let begin = format!("{} would hold with ", phases(entry));
        match parts.iter_mut().find(|part| part.starts_with(&begin)) {
            Some(same) => *same += &format!(" and with {}", with(entry)),
            None => parts.push(begin + with(entry)),
        }
    }
    format!("{}, as seen in {}", parts.join("; "), words::number(count, "cycle"))
}
