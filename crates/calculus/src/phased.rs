//! Delays where the instant of departure is known, through gates whose phases are known.
//!
//! A frame that comes earlier to a port does not start later there, with the same in front of it. So the latest instant is
//! carried from port to port, and the earliest; ports without gates add what they add whatever the phase. In front of a
//! frame are those that came while the oldest of them could still be waiting: of a flow with bursts b and rate r so
//! many as fit into its longest wait at this port.

use num_traits::{ToPrimitive, Zero};
use scenario::{Open, PortId, Queue, Scenario, Stream};

use crate::assisted::Assist;
use crate::cycle::{Release, Scheduled};
use crate::exact::{Exact, seconds, whole};
use crate::flow::{latency, propagation, transmission};
use crate::gates::Turns;
use crate::service::Analysis;

/// Phases that are looked at, one after the other, before the worst of all is taken.
const PHASES: usize = 256;

/// How the first ports of a stream and of its answer release launch times.
pub(crate) fn release(scenario: &Scenario, stream: &Stream) -> [Release; 2] {
    [&stream.path, &stream.return_path].map(|path| match scenario.launch_queue(path, stream.pcp) {
        Some(etf) if etf.deadline_mode => Release::AtOnce,
        Some(etf) if !etf.offload => Release::Before(seconds(etf.delta)),
        _ => Release::Before(Exact::zero()),
    })
}

/// The delay of a flow whose frames come to its first port within `leaves`, cycle after cycle; `any_phase` where no gate
/// stands in its way, and as the limit of all.
pub(crate) fn scheduled(
    analysis: &mut Analysis,
    flow: usize,
    leaves: &[Exact; 2],
    cycle: &Exact,
    any_phase: Scheduled,
) -> Result<Scheduled, String> {
    let path = analysis.flows.flows[flow].path.clone();
    let gated = (0..path.len()).map(|at| gated(analysis, flow, at)).collect::<Result<Vec<_>, _>>()?;
    if gated.iter().all(Option::is_none) {
        return Ok(any_phase);
    }
    let legs = legs(analysis, flow, &path, gated)?;
    let mut gates = path.iter().filter_map(|port| match &analysis.scenario.port(*port).queue {
        Queue::Taprio { schedule, .. } => Some(seconds(schedule.cycle)),
        _ => None,
    });
    let phases = gates.try_fold(1_usize, |phases, gate| repeats(phases, cycle, &gate));
    let Some(phases) = phases else { return Ok(any_phase) };
    let mut found: Option<Scheduled> = None;
    for number in 0..phases {
        let [early, late] = leaves.each_ref().map(|at| at + cycle * whole(number));
        let one = walk(&legs, [early, late], &any_phase.begins);
        found = Some(match found {
            None => one,
            Some(worst) => worst.with(one),
        });
    }
    let mut found = found.unwrap_or_else(|| any_phase.clone());
    found.latest = found.latest.min(any_phase.latest);
    found.earliest = found.earliest.max(any_phase.earliest);
    Ok(found)
}

impl Scheduled {
    /// The worst of both.
    fn with(self, other: Self) -> Self {
        let ([first, last], [other_first, other_last]) = (self.begins, other.begins);
        Self {
            latest: self.latest.max(other.latest),
            earliest: self.earliest.min(other.earliest),
            begins: [first.min(other_first), last.max(other_last)],
        }
    }
}

/// Cycles of the stream until it meets the gates in the same phase again, with those before.
fn repeats(before: usize, cycle: &Exact, gate: &Exact) -> Option<usize> {
    // cycle/gate = a/b in lowest terms: after b cycles.
    let b = (cycle / gate).denom().to_usize()?;
    let both = before.checked_mul(b)? / gcd(before, b);
    (both <= PHASES).then_some(both)
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Ports without gates one after the other, or one with.
enum Leg {
    /// Longest and shortest delay, from before the bridge in front of it on.
    Any {
        longest: Exact,
        shortest: Exact,
    },
    Gated(Box<Gated>),
}

/// A port with gates.
struct Gated {
    turns: Turns,
    /// When the gate is open, in seconds, and its cycle.
    windows: Vec<[Exact; 2]>,
    cycle: Exact,
    /// The kernel's launch times.
    assist: Option<Assist>,
    /// No frame of its class is there as the gate opens but this flow's.
    sure: bool,
    /// Start of the gates' cycle after the start of the streams' cycles.
    phase: Exact,
    /// Bits in front of a frame.
    ahead: Exact,
    /// Longest until the start, whatever the phase.
    wait: Exact,
    bridge: Exact,
    /// From the start to the next host.
    line: Exact,
    /// How far its clock may be from the sender's.
    clocks: Exact,
}

/// The legs of a path, given its ports with gates.
fn legs(
    analysis: &mut Analysis,
    flow: usize,
    path: &[PortId],
    mut gated: Vec<Option<Gated>>,
) -> Result<Vec<Leg>, String> {
    let scenario = analysis.scenario;
    let mut legs = Vec::new();
    let mut at = 0;
    while at < path.len() {
        if let Some(gated) = gated[at].take() {
            legs.push(Leg::Gated(Box::new(gated)));
            at += 1;
            continue;
        }
        // As far as the same flows share the way and no gate comes.
        let mut end = at;
        while end + 1 < path.len()
            && analysis.flows.stretch_start(scenario, flow, end + 1) <= at
            && gated[end + 1].is_none()
        {
            end += 1;
        }
        let stretch = analysis.stretch(flow, at, end)?;
        let frame = analysis.flows.flows[flow].frame.clone();
        let (mut longest, mut shortest) = (stretch.burst_delay(&frame), Exact::zero());
        for (service, (index, port)) in stretch.services.iter().zip((at..=end).zip(&path[at..=end])) {
            let fixed = latency(scenario, *port) + propagation(scenario, *port);
            let sent = transmission(scenario, *port, if index == end { &frame } else { &stretch.largest });
            longest += &service.latency + &fixed + sent;
            shortest += fixed + transmission(scenario, *port, &frame);
        }
        legs.push(Leg::Any { longest, shortest });
        at = end + 1;
    }
    Ok(legs)
}

/// What a port of the path is to the flow, if it has gates that are not always open for it.
fn gated(analysis: &mut Analysis, flow: usize, at: usize) -> Result<Option<Gated>, String> {
    let scenario = analysis.scenario;
    let port = analysis.flows.flows[flow].path[at];
    let class = analysis.class_of(flow, port);
    let Queue::Taprio { schedule, .. } = &scenario.port(port).queue else { return Ok(None) };
    let service = analysis.service(port, class)?;
    let (Some(turns), Open::In(windows)) = (service.turns.clone(), schedule.open(class)) else { return Ok(None) };
    if service.assist.is_some() && analysis.has_launch(flow, port) {
        return Ok(None);
    }
    let frame = analysis.flows.flows[flow].frame.clone();
    let (burst, rate) = analysis.arrivals(port, class)?;
    let longest = windows.iter().map(|window| seconds(window.length())).max().unwrap_or_default();
    // No two of its frames come within a window.
    let sure = analysis.members(port, class) == [flow] && &burst + &rate * longest < &frame * whole(2);
    let wait = (burst - &frame) / &service.rate + &service.latency;
    let largest = analysis.flows.largest(scenario, port, class..class + 1);
    let oldest = &wait + transmission(scenario, port, &largest);
    let mut ahead = Exact::zero();
    for member in analysis.members(port, class) {
        let bits = analysis.flows.flows[member].frame.clone();
        let (_, rate) = analysis.flows.flows[member].source.clone()?;
        let burst = analysis.burst(member, analysis.flows.position(member, port))?;
        let within = ((&oldest * &rate + burst - &bits) / &bits).floor();
        ahead += (if member == flow { within } else { within + whole(1) }) * bits;
    }
    Ok(Some(Gated {
        turns,
        windows: windows.iter().map(|window| [seconds(window.start), seconds(window.end)]).collect(),
        cycle: seconds(schedule.cycle),
        assist: service.assist,
        sure,
        phase: seconds(scenario.gate_phase(port)),
        ahead,
        wait,
        bridge: latency(scenario, port),
        line: transmission(scenario, port, &frame) + propagation(scenario, port),
        clocks: if at == 0 { Exact::zero() } else { analysis.clocks.clone() },
    }))
}

/// One frame's way, from the earliest and the latest departure.
fn walk(legs: &[Leg], leaves: [Exact; 2], first: &[Exact; 2]) -> Scheduled {
    let [mut early, mut late] = leaves.clone();
    let mut begins = first.clone();
    for (number, leg) in legs.iter().enumerate() {
        match leg {
            Leg::Any { longest, shortest } => {
                early += shortest;
                late += longest;
            }
            Leg::Gated(gated) => {
                let Gated { turns, windows, cycle, assist, sure, phase, ahead, wait, bridge, line, clocks } = &**gated;
                early += bridge;
                late += bridge;
                let there = [&early - phase - clocks, &late - phase + clocks];
                let (earliest, latest) = match assist {
                    None => (opens(windows, cycle, &there[0]), turns.start(&there[1], ahead)),
                    Some(Assist { delay, delta, after, .. }) => {
                        let there = there.map(|at| at + delay);
                        (opens(windows, cycle, &there[0]) - delta, turns.launch(&there, ahead, *sure) + after)
                    }
                };
                let (earliest, latest) = (earliest + phase - clocks, latest + phase + clocks);
                late = latest.min(&late + wait);
                early = earliest.max(early);
                if number == 0 {
                    begins = [&early - &leaves[0], &late - &leaves[1]];
                }
                early += line;
                late += line;
            }
        }
    }
    let [earliest_departure, latest_departure] = leaves;
    Scheduled { latest: late - latest_departure, earliest: early - earliest_departure, begins }
}

/// When a gate is open first, from `at` on.
fn opens(windows: &[[Exact; 2]], cycle: &Exact, at: &Exact) -> Exact {
    let origin = ((at / cycle).floor() - whole(1)) * cycle;
    let within = at - &origin;
    let from =
        |shift: i64| windows.iter().map(move |[start, end]| [start, end].map(|edge| edge + cycle * whole(shift)));
    let first =
        (0..3).flat_map(from).filter(|[_, end]| *end > within).map(|[start, _]| start.max(within.clone())).min();
    origin + first.unwrap_or(within)
}
