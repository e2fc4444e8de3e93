//! What a class gets behind the gates of a port, as the standard has them and as Linux has them.
//!
//! By 802.1Q a frame starts only if it ends before its gate closes, so nothing is on the line when the next gate opens
//! but frames of classes whose gates stay open. `sch_taprio` asks the same of each frame when it leaves the queue, but as a
//! root of several transmit queues it hands up to [`BULK_FRAMES`] frames to the driver at once, with one more of another class
//! behind them: they are on the line beyond their gates (tried with the wire of the kernel laboratory).
//!
//! A class whose gate is open at the same time goes first or blocks as under strict priority. One that goes first may
//! have waited for its own gate before: its frames count with what came during the longest of its own waits.
//!
//! With txtime-assist the kernel gives each frame of its own the next time at which it fits into the window, not before
//! `txtime_delay`, and an etf queue releases it `delta` before. A frame that leaves the etf queue later than its launch
//! time is dropped, so that none waits longer than `delta` there.

use num_traits::Zero;
use scenario::{BULK_FRAMES, Classes, GateSchedule, Open, PortId, Shaper, TaprioMode, Window};
use units::Nanos;

use crate::exact::{Exact, Number, micros_up, seconds, whole};
use crate::gates::{Frames, Opening, Turns};
use crate::service::{Analysis, Service, goes_first};

/// Why classes that share a window have no bound with launch times of the kernel's.
const SHARED: &str = "taprio with txtime-assist is not bounded where classes share a window";

/// Why a shaper behind gates has no bound.
const CBS: &str = "cbs behind gates has no bound: by 802.1Q its credit stands still while the gate is shut; Linux' shaper gains \
                   credit then, up to hiCredit, and loses what a shut gate keeps it from using, window by window";

/// What Linux does not gate.
const UNGATED: &str = "taprio with txtime-assist gates only classes with an etf queue below";

/// Another class at the port.
struct Other {
    class: u8,
    open: Open,
    /// Bits of its largest frame.
    largest: Exact,
}

impl Analysis<'_> {
    pub(crate) fn gated(
        &mut self,
        port: PortId,
        class: u8,
        classes: &Classes,
        schedule: &GateSchedule,
    ) -> Result<Service, String> {
        let line = whole(self.scenario.port_rate(port).0);
        let linux = self.scenario.has_linux_gates(port);
        let others = self.others(port, class, schedule);
        let assist = match schedule.mode {
            TaprioMode::TxtimeAssist { txtime_delay } => Some(txtime_delay),
            TaprioMode::Software | TaprioMode::FullOffload => None,
        };
        // Frames of a bulk, and the one of another class behind it.
        let worst = others.iter().map(|other| &other.largest).max().cloned().unwrap_or_default();
        let held = |largest: &Exact, frames: u32| match linux {
            true => (largest * whole(frames) + &worst) / &line,
            false => largest / &line,
        };
        let blocked = others.iter().map(|other| held(&other.largest, BULK_FRAMES)).max().unwrap_or_default();
        let delta = match classes.shapers.get(usize::from(class)) {
            Some(Shaper::Cbs(_)) => return Err(CBS.into()),
            Some(Shaper::Etf(etf)) => match (self.launched(port, class), assist) {
                (Ok(()), _) => {
                    let wait = if etf.offload { Exact::zero() } else { seconds(etf.delta) };
                    let words = "behind gates, released by launch time: R = C, T = delta + what is on the line; what is later is lost";
                    let latency = wait + blocked;
                    return Ok(Service { rate: line, latency, lower: worst, turns: None, words: words.into() });
                }
                (Err(reason), None) => return Err(reason),
                (Err(_), Some(_)) => Some(etf.delta),
            },
            Some(Shaper::None) | None if assist.is_some() => return Err(UNGATED.into()),
            Some(Shaper::None) | None => None,
        };
        let sharing = |other: &&Other| overlap(&schedule.open(class), &other.open, schedule.cycle);
        let beside: Vec<&Other> = others.iter().filter(sharing).collect();
        if assist.is_some() && !beside.is_empty() {
            return Err(SHARED.into());
        }
        let (above_rate, above_bits) = self.going_first(port, class, classes, &beside)?;
        let initial = beside.iter().map(|other| held(&other.largest, BULK_FRAMES)).max().unwrap_or_default();
        let turns = match schedule.open(class) {
            Open::Always => None,
            Open::In(windows) => {
                // Assisted, a frame gets its time whatever is on the line.
                let before = if assist.is_some() { &[] } else { others.as_slice() };
                let openings: Vec<Opening> = windows
                    .iter()
                    .map(|window| {
                        let taken =
                            before.iter().map(|other| match last_close(&other.open, window.start, schedule.cycle) {
                                Last::Open => held(&other.largest, BULK_FRAMES),
                                Last::Closed(since) if linux => held(&other.largest, BULK_FRAMES - 1) - seconds(since),
                                Last::Closed(_) | Last::Never => Exact::zero(),
                            });
                        let taken = taken.max().unwrap_or_default().max(Exact::zero());
                        Opening { start: seconds(window.start), end: seconds(window.end), taken }
                    })
                    .collect();
                let frames = self.frames(port, class, beside.is_empty());
                let turns = Turns::new(seconds(schedule.cycle), line.clone(), &openings, &frames);
                Some(turns.ok_or_else(|| no_room(class, &openings, &frames, &line))?)
            }
        };
        let open_rate = turns.as_ref().map_or_else(|| line.clone(), Turns::rate);
        let rate = &open_rate - &above_rate;
        if rate <= Exact::zero() {
            return Err(format!(
                "classes above {class} may take all of the {} bit/s that its windows hold",
                Number(open_rate)
            ));
        }
        let gates = turns.as_ref().map_or_else(Exact::zero, |turns| turns.latency(&open_rate));
        let mut latency = (&open_rate * (&gates + &initial) + &above_bits) / &rate;
        let mut words = match &turns {
            None => "behind gates that are always open for it".to_owned(),
            Some(turns) => format!("behind gates, starts in {}: R = bits a gate cycle", turns.words()),
        };
        words += &format!(", T = {} µs for the gates and {} µs for the line", micros_up(&gates), micros_up(&initial));
        if !above_rate.is_zero() {
            words += &format!(", r_H = {} bit/s, b_H = {} bit", Number(above_rate), Number(above_bits));
        }
        if let Some(delay) = assist {
            latency += seconds(delay) + &blocked;
            words += &format!(", txtime_delay {delay} and {} µs for the line behind it", micros_up(&blocked));
            words += &delta.map_or_else(String::new, |delta| format!("; released up to {delta} earlier"));
        }
        let turns = turns.filter(|_| assist.is_none() && beside.is_empty());
        Ok(Service { rate, latency, lower: worst, turns, words })
    }

    /// Rate and bits of classes that go first and whose gates are open at the same time.
    fn going_first(
        &mut self,
        port: PortId,
        class: u8,
        classes: &Classes,
        beside: &[&Other],
    ) -> Result<(Exact, Exact), String> {
        let (mut sum_rate, mut sum_bits) = (Exact::zero(), Exact::zero());
        for other in beside.iter().filter(|other| other.class > class) {
            if matches!(classes.shapers.get(usize::from(other.class)), Some(Shaper::Cbs(_))) {
                return Err(format!("a class that goes first: {CBS}"));
            }
            let (burst, rate) = self.arrivals(port, other.class).map_err(|reason| goes_first(other.class, &reason))?;
            let service = self.service_here(port, other.class)?;
            // What came while it waited itself, and what comes.
            sum_bits += &burst + &rate * (service.latency + &burst / service.rate);
            sum_rate += rate;
        }
        Ok((sum_rate, sum_bits))
    }

    /// Other classes with frames at the port.
    fn others(&self, port: PortId, class: u8, schedule: &GateSchedule) -> Vec<Other> {
        let largest = |other: u8| {
            let named = self.flows.largest(self.scenario, port, other..other + 1);
            if other < class { named.max(self.unnamed.clone()) } else { named }
        };
        (0..8)
            .filter(|other| *other != class)
            .map(|other| Other { class: other, open: schedule.open(other), largest: largest(other) })
            .filter(|other| !other.largest.is_zero() && other.open != Open::In(Vec::new()))
            .collect()
    }

    fn frames(&self, port: PortId, class: u8, alone: bool) -> Frames {
        let largest = self.flows.largest(self.scenario, port, class..class + 1);
        let members = self.members(port, class);
        let alike = alone && members.iter().all(|flow| self.flows.flows[*flow].frame == largest);
        Frames { largest, alike }
    }
}

/// When a gate was open last before an instant.
enum Last {
    /// It stays open over the instant.
    Open,
    /// It closed so long before.
    Closed(Nanos),
    Never,
}

fn last_close(open: &Open, instant: Nanos, cycle: Nanos) -> Last {
    let Open::In(windows) = open else { return Last::Open };
    let mut since: Option<Nanos> = None;
    for window in windows {
        let opened = Nanos((instant - window.start).0.rem_euclid(cycle.0.max(1)));
        if opened > Nanos::ZERO && opened < window.length() {
            return Last::Open;
        }
        // Opening right now, it closed a cycle less a window ago.
        let opened = if opened == Nanos::ZERO { cycle } else { opened };
        let closed = opened - window.length();
        since = Some(since.map_or(closed, |other| other.min(closed)));
    }
    since.map_or(Last::Never, Last::Closed)
}

/// Whether both gates are open at some time.
fn overlap(a: &Open, b: &Open, cycle: Nanos) -> bool {
    let (Open::In(a), Open::In(b)) = (a, b) else { return true };
    let within = |a: &Window, b: &Window| (b.start - a.start).0.rem_euclid(cycle.0.max(1)) < a.length().0;
    a.iter().any(|a| b.iter().any(|b| within(a, b) || within(b, a)))
}

fn no_room(class: u8, openings: &[Opening], frames: &Frames, line: &Exact) -> String {
    let needed = micros_up(&(&frames.largest / line));
    match openings.iter().max_by_key(|opening| &opening.end - &opening.start - &opening.taken) {
        None => format!("the gate of class {class} never opens"),
        Some(opening) => format!(
            "no window of class {class} is sure to hold a frame of {needed} µs: the longest is {} µs, and for {} µs of it the \
             line may still be taken by what others began before",
            micros_up(&(&opening.end - &opening.start)),
            micros_up(&opening.taken)
        ),
    }
}
