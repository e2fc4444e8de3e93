//! A gate schedule and a port behind it, for the tests' own simulation: as the standard has it, and as Linux has it.

use scenario::*;
use units::{Nanos, Rate, Tai};

/// The schedule in which these classes have these windows (start, length in µs) of a cycle, and nobody the rest.
pub fn taprio(cycle_us: i64, windows: &[(u8, i64, i64)], mode: TaprioMode) -> Queue {
    let mut edges: Vec<i64> = windows.iter().flat_map(|(_, start, length)| [*start, start + length]).collect();
    edges.extend([0, cycle_us]);
    edges.sort_unstable();
    edges.dedup();
    let entries = edges
        .windows(2)
        .map(|edge| GateEntry {
            gates: windows
                .iter()
                .filter(|(_, start, length)| *start <= edge[0] && edge[1] <= start + length)
                .fold(0, |gates, (class, ..)| gates | 1 << class),
            interval: Nanos::from_micros(edge[1] - edge[0]),
        })
        .collect();
    Queue::Taprio {
        classes: super::classes(&[]),
        schedule: GateSchedule { base_time: Tai(0), cycle: Nanos::from_micros(cycle_us), entries, mode },
    }
}

const PICOS_A_NANO: i128 = 1_000;

/// How long the gate of a class stays open from an instant on (picoseconds), or when it opens next.
fn gate(schedule: &GateSchedule, class: u8, at: i128) -> Result<i128, i128> {
    let Open::In(windows) = schedule.open(class) else { return Ok(i128::MAX) };
    let cycle = i128::from(schedule.cycle.0) * PICOS_A_NANO;
    let origin = at.div_euclid(cycle) * cycle;
    let mut next = i128::MAX;
    for shift in [-1, 0, 1] {
        for window in &windows {
            let edges =
                [window.start, window.end].map(|edge| origin + shift * cycle + i128::from(edge.0) * PICOS_A_NANO);
            if edges[0] <= at && at < edges[1] {
                return Ok(edges[1]);
            }
            if edges[0] > at {
                next = next.min(edges[0]);
            }
        }
    }
    Err(next)
}

/// A frame that waits: which, when it came, its class, its bits.
pub type Waiting = (usize, i128, u8, i128);

/// Sends frames through gates, in strict priority among the open; of `Software` up to nine at once, each of which
/// fits for itself. Returns which started when, in their order.
pub fn pass(schedule: &GateSchedule, rate: Rate, frames: &[Waiting]) -> Vec<(usize, i128)> {
    let line = |bits: i128| bits * 1_000_000_000_000 / i128::from(rate.0);
    let bulk = if schedule.mode == TaprioMode::Software { 9 } else { 1 };
    let mut left: Vec<Waiting> = frames.to_vec();
    let mut started = Vec::new();
    let mut now = 0;
    while !left.is_empty() {
        let fits = |frame: &Waiting| match gate(schedule, frame.2, now) {
            Ok(closes) => now + line(frame.3) <= closes,
            Err(_) => false,
        };
        // The head of each class that has something, the highest first.
        let heads = (0..8_u8).rev().filter_map(|class| left.iter().find(|frame| frame.1 <= now && frame.2 == class));
        let Some(class) = heads.clone().find(|frame| fits(frame)).map(|frame| frame.2) else {
            let opens = heads.clone().map(|frame| match gate(schedule, frame.2, now) {
                // Open, but too short by now.
                Ok(edge) | Err(edge) => edge,
            });
            let comes = left.iter().map(|frame| frame.1).filter(|at| *at > now);
            now = opens.chain(comes).min().expect("something waits or comes");
            continue;
        };
        let mut taken = 0;
        let mut at = now;
        while taken < bulk {
            let next = left.iter().position(|frame| frame.1 <= now && frame.2 == class);
            let Some(index) = next.filter(|index| fits(&left[*index])) else { break };
            let frame = left.remove(index);
            started.push((frame.0, at));
            at += line(frame.3);
            taken += 1;
        }
        now = at;
    }
    started
}
