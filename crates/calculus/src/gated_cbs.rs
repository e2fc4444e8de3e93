//! What a class shaped by credit gets behind gates.
//!
//! # As the standard has it
//!
//! Credit stands while the gate is shut, and rises at I' = operIdleSlope while it is open (802.1Q §8.6.8.2). So count time by
//! how long the gate has been open: O(t). Let k be the last frame up to n that came to an empty queue with no credit below 0.
//! From its arrival on credit has risen by I'·O and has paid for B(k..n); with u the last instant before the start of n at
//! which credit was below 0, and j the frame in front then,
//!
//! > O(u) = O(arrival(k)) + B(k..j)/I'
//!
//! From u on the class has frames and credit. It is served like an unshaped class behind the same gates, measured in O: with
//! windows that follow each other without a gap, of each of which the line may be taken at first, and the end is too short for
//! a frame: O(start(n)) ≤ O(u) + y + B(j..n)/I', with y the latency of [`crate::gates`] for these, what holds the line as it
//! looks, and classes above. If those take at most b_H + r_H·t, they take b_H + r_H·T_g and r_H·D of O. So
//!
//! > start(n) ≤ arrival(k) + T_g + D·y + B(k..n)·D/I'
//!
//! where O lasts x at most T_g + D·x: D = cycle/open, T_g the longest that a gate is ahead of that. Where the classes above
//! leave less than I', that counts instead. What it takes itself is at most I'·O, and what credit goes from and to, from I'·y
//! to −L·(C − I')/C.
//!
//! # As Linux has it, below software taprio
//!
//! Its credit is that of [`crate::linux_cbs`], by the clock: a shut gate costs none, and gains up to hiCredit. Nothing of that
//! is counted here: if the clock of the credit stood whenever no frame of the class may start (outside of the turns of
//! [`crate::gates`], Θ of them), no frame would leave sooner. A frame is paid for when taprio looks at it, and is kept where it
//! does not fit, which is sooner than in the turn that it leaves in.
//!
//! Taprio looks at its classes at every end of a frame, at every arrival, also while the line is busy, at every edge, by the
//! shaper's timer; each look with the gate open may forget a byte: F_b + F_r·t of them (arrivals of all flows, entries, ends of
//! a bulk that holds the line as the gate opens, and three a frame of its own, one more than are known). A frame may wait for
//! a bulk of a lower class whose gate is open, too, each time. So in turns, with w what may stand ahead in the driver (of its
//! own as much as hiCredit lets go at once, and the bulk of others), φ = byte·F_r·cycle/(Θ·I),
//!
//! > R = Θ/cycle·(1 − φ)·I/(1 + (3 bytes + I·w_L)/L_min), T = T_Θ + (w + byte·(F_b + F_r·T_Θ)/I)·cycle/(Θ·(1 − φ)) + w

use num_traits::{One, Zero};
use scenario::{BULK_FRAMES, Cbs, Credits, Open};
use units::Nanos;

use crate::exact::{Exact, Number, bits, micros_up, seconds, whole};
use crate::gated::{Gates, first_words, no_room, taken};
use crate::gates::{Frames, Opening, Turns};
use crate::linux_cbs::told;
use crate::service::{Analysis, Service};

/// What neither has.
const MIXED: &str = "cbs behind gates is bounded where hardware keeps both, or Linux both";

/// What Linux' shaper has no bound beside.
const FIRST: &str = "cbs of Linux' behind gates is not bounded where a class above is open at the same time";

impl Analysis<'_> {
    pub(crate) fn shaped_behind_gates(&mut self, gates: &Gates<'_>, cbs: &Cbs) -> Result<Service, String> {
        match (self.linux_credits(gates.port, gates.class), gates.linux) {
            (None, false) => self.shaped_by_the_standard(gates, cbs),
            (Some(credits), true) => self.shaped_below_taprio(gates, &credits),
            _ => Err(MIXED.into()),
        }
    }

    fn shaped_by_the_standard(&mut self, gates: &Gates<'_>, cbs: &Cbs) -> Result<Service, String> {
        let (port, class, line) = (gates.port, gates.class, &gates.line);
        let cycle = seconds(gates.schedule.cycle);
        let slope = gates.schedule.slope_while_open(class, cbs.idle_slope, self.scenario.port_rate(port));
        let slope = whole(slope.0).min(line.clone());
        let openings = match gates.schedule.open(class) {
            Open::In(windows) => gates.openings(&windows),
            // One without an end, that nothing is taken of and no frame is too long for.
            Open::Always => Vec::new(),
        };
        let open: Exact = openings.iter().map(|opening| &opening.end - &opening.start).sum();
        let dilation = if open.is_zero() { Exact::one() } else { &cycle / &open };
        // O in real time.
        let fluid = Frames { largest: Exact::zero(), alike: false };
        let free: Vec<Opening> =
            openings.iter().map(|opening| Opening { taken: Exact::zero(), ..opening.clone() }).collect();
        let shut = Turns::new(cycle.clone(), line.clone(), &free, &fluid)
            .map_or_else(Exact::zero, |it| it.latency(&it.rate()));
        let beside = gates.beside();
        let frames = self.frames(port, class, beside.is_empty());
        let turns = match openings.is_empty() {
            true => None,
            false => {
                let turns = Turns::new(open, line.clone(), &joined(&openings), &frames);
                Some(turns.ok_or_else(|| no_room(class, &openings, &frames, line))?)
            }
        };
        let served = turns.as_ref().map_or_else(|| line.clone(), Turns::rate);
        let (above_rate, above_bits) = self.going_first(gates)?;
        let left = &served - &above_rate * &dilation;
        if left <= Exact::zero() {
            return Err(taken(class, &(served / &dilation)));
        }
        let rate = slope.clone().min(left.clone());
        let wait = |rate: &Exact| turns.as_ref().map_or_else(Exact::zero, |turns| turns.latency(rate));
        let initial = gates.blocked(beside);
        let behind = match above_rate.is_zero() && above_bits.is_zero() {
            true => wait(&rate) + &initial,
            false => (&served * (wait(&served) + &initial) + &above_bits + &above_rate * &shut) / &left,
        };
        // Credit goes up as far as classes above let it.
        let takes = (slope <= left).then(|| {
            let most = &slope * (gathered(&openings, &cycle, &dilation) + &behind);
            [&slope / &dilation, most + &frames.largest * (line - &slope) / line]
        });
        let words = format!(
            "shaped behind gates, credit stands while they are shut: I' {} bit/s while open, 1/{} of the time, R = I'/that, T = {} \
             µs for the gates and {} µs of an open one{}",
            Number(slope),
            Number(dilation.clone()),
            micros_up(&shut),
            micros_up(&behind),
            first_words(&above_rate, &above_bits)
        );
        let latency = shut + behind * &dilation;
        Ok(Service { latency, lower: gates.worst.clone(), takes, ..Service::alone(rate / dilation, &words) })
    }

    fn shaped_below_taprio(&mut self, gates: &Gates<'_>, credits: &Credits) -> Result<Service, String> {
        let (port, class, line) = (gates.port, gates.class, &gates.line);
        let beside = gates.beside();
        if beside.iter().any(|other| other.class > class) {
            return Err(FIRST.into());
        }
        let (byte, one) = (bits(1), Exact::one());
        let idle = whole(told(credits).0);
        let members = self.members(port, class);
        let sizes = || members.iter().map(|flow| self.flows.flows[*flow].frame.clone());
        let (Some(largest), Some(least)) = (sizes().max(), sizes().min()) else {
            return Err(format!("no frames of class {class} are known"));
        };
        let cycle = seconds(gates.schedule.cycle);
        // The turns: how long in a cycle, and how far they are behind at most.
        let (windows, share, shut) = match gates.schedule.open(class) {
            Open::Always => (0, one.clone(), Exact::zero()),
            Open::In(windows) => {
                let openings = gates.openings(&windows);
                let frames = Frames { largest: largest.clone(), alike: false };
                let turns = Turns::new(cycle.clone(), line.clone(), &openings, &frames);
                let turns = turns.ok_or_else(|| no_room(class, &openings, &frames, line))?;
                (windows.len(), turns.rate() / line, turns.latency(&turns.rate()))
            }
        };
        // What its credit lets go at once stands in the driver, and a bulk of others.
        let high = whole(credits.hi_credit_bytes.max(0)) * &byte;
        let at_once = match line > &idle {
            true => (high * line / (line - &idle) + &largest).min(whole(BULK_FRAMES) * &largest),
            false => whole(BULK_FRAMES) * &largest,
        };
        let blocked = gates.blocked(beside.iter().copied());
        let ahead = at_once / line + &blocked;
        let (often, at_first) = self.looks(gates, windows)?;
        let cost = &byte * &often / (&share * &idle);
        if cost >= one {
            return Err(format!(
                "Linux' software shaper may look at class {class} {} times a second, and forget a byte each time: as much as it \
                 earns at its idleSlope",
                Number(often)
            ));
        }
        let kept = &one - cost;
        let per_frame = &one + (whole(3) * &byte + &idle * &blocked) / &least;
        let rate = &share * &kept * &idle / per_frame;
        let forgotten = &byte * (at_first + &often * &shut) / &idle;
        let latency = &shut + (&ahead + forgotten) / (&share * &kept) + &ahead;
        let (most, credit) = self.linux_share(port, class, credits);
        let takes = Some([most.clone(), most * &ahead + credit + &largest]);
        let words = format!(
            "shaped by Linux below taprio: R = Θ/cycle·(1 − φ)·I/(1 + (3 bytes + I·w_L)/L_min), with I {} bit/s, Θ {} of a cycle, \
             {} looks a second, w_L {} µs; T with {} µs for the gates and {} µs for what is ahead",
            Number(idle),
            Number(share),
            Number(often),
            micros_up(&blocked),
            micros_up(&shut),
            micros_up(&ahead)
        );
        Ok(Service { latency, lower: gates.worst.clone(), takes, ..Service::alone(rate.min(line.clone()), &words) })
    }

    /// How often taprio looks at a class while its gate is open: a second, and at first; beside three times a frame of its own.
    fn looks(&mut self, gates: &Gates<'_>, windows: usize) -> Result<(Exact, Exact), String> {
        let (mut often, mut at_first) = (Exact::zero(), whole(2));
        for class in 0..8 {
            for flow in self.members(gates.port, class) {
                let (_, rate) = self.flows.flows[flow].source.clone()?;
                let burst = self.burst(flow, self.flows.position(flow, gates.port))?;
                let frame = &self.flows.flows[flow].frame;
                often += rate / frame;
                at_first += burst / frame;
            }
        }
        let edges = whole(gates.schedule.entries.len() + windows * (BULK_FRAMES as usize + 2));
        often += &edges / seconds(Nanos(gates.schedule.cycle.0.max(1)));
        at_first += edges;
        let beside: Vec<u8> = gates.beside().iter().map(|other| other.class).collect();
        let flows = beside.into_iter().flat_map(|class| self.members(gates.port, class));
        if let Some(shortest) = flows.map(|flow| self.flows.flows[flow].frame.clone()).min() {
            // Each of their ends.
            often += &gates.line / shortest;
            at_first += Exact::one();
        }
        Ok((often, at_first))
    }
}

/// Windows without the time between them.
fn joined(openings: &[Opening]) -> Vec<Opening> {
    let mut at = Exact::zero();
    let join = |opening: &Opening| {
        let start = at.clone();
        at += &opening.end - &opening.start;
        Opening { start, end: at.clone(), taken: opening.taken.clone() }
    };
    openings.iter().map(join).collect()
}

/// By how much a gate is open for longer than in the mean, at most: over some of its windows that follow each other.
fn gathered(openings: &[Opening], cycle: &Exact, dilation: &Exact) -> Exact {
    let mut most = Exact::zero();
    for first in 0..openings.len() {
        let mut open = Exact::zero();
        for number in first..first + openings.len() {
            let opening = &openings[number % openings.len()];
            open += &opening.end - &opening.start;
            let end = &opening.end + cycle * whole(number / openings.len());
            most = most.max(&open - (end - &openings[first].start) / dilation);
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opening(start: i64, end: i64) -> Opening {
        Opening { start: whole(start), end: whole(end), taken: whole(1) }
    }

    #[test]
    fn windows_are_joined_and_gather() {
        let two = [opening(10, 20), opening(50, 90)];
        let expected = [Opening { start: whole(0), ..opening(0, 10) }, opening(10, 50)];
        assert_eq!(joined(&two), expected);
        // Half of the time: 40 in 40 is 20 more, and 50 in 80 only 10.
        assert_eq!(gathered(&two, &whole(100), &whole(2)), whole(20));
        // 10 in 10, and over the end of the cycle 50 in 60.
        assert_eq!(gathered(&[opening(0, 10), opening(60, 100)], &whole(100), &whole(2)), whole(25));
    }
}
