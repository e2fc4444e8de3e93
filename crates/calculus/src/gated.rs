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
//! With txtime-assist: see [`crate::assisted`]; shaped by credit: [`crate::gated_cbs`].

use num_traits::Zero;
use scenario::{BULK_FRAMES, Classes, GateSchedule, Open, PortId, Shaper, TaprioMode, Window};
use units::Nanos;

use crate::exact::{Exact, Number, micros_up, seconds, whole};
use crate::gates::{Frames, Opening, Turns};
use crate::service::{Analysis, Service, goes_first};

/// What Linux does not gate.
const UNGATED: &str = "taprio with txtime-assist gates only classes with an etf queue below";

/// Another class at the port.
pub(crate) struct Other {
    pub(crate) class: u8,
    open: Open,
    /// Bits of its largest frame.
    largest: Exact,
}

/// The gates of a port as a class sees them.
pub(crate) struct Gates<'a> {
    pub(crate) port: PortId,
    pub(crate) class: u8,
    pub(crate) classes: &'a Classes,
    pub(crate) schedule: &'a GateSchedule,
    /// Bits a second.
    pub(crate) line: Exact,
    /// Linux keeps them.
    pub(crate) linux: bool,
    /// Other classes with frames whose gates open.
    pub(crate) others: Vec<Other>,
    /// Bits of their largest frame.
    pub(crate) worst: Exact,
}

impl Gates<'_> {
    /// How long `frames` of a bulk hold the line, and the one of another class behind it; by the standard one does.
    fn held(&self, largest: &Exact, frames: u32) -> Exact {
        match self.linux {
            true => (largest * whole(frames) + &self.worst) / &self.line,
            false => largest / &self.line,
        }
    }

    /// Those whose gates are open while that of the class is.
    pub(crate) fn beside(&self) -> Vec<&Other> {
        let own = self.schedule.open(self.class);
        self.others.iter().filter(|other| overlap(&own, &other.open, self.schedule.cycle)).collect()
    }

    /// How long any of these may hold the line.
    pub(crate) fn blocked<'a>(&self, by: impl IntoIterator<Item = &'a Other>) -> Exact {
        by.into_iter().map(|other| self.held(&other.largest, BULK_FRAMES)).max().unwrap_or_default()
    }

    /// The windows, with how long the line may still be taken when each opens.
    pub(crate) fn openings(&self, windows: &[Window]) -> Vec<Opening> {
        let taken = |window: &Window| {
            let by = self.others.iter().map(|other| match last_close(&other.open, window.start, self.schedule.cycle) {
                Last::Open => self.held(&other.largest, BULK_FRAMES),
                Last::Closed(since) if self.linux => self.held(&other.largest, BULK_FRAMES - 1) - seconds(since),
                Last::Closed(_) | Last::Never => Exact::zero(),
            });
            by.max().unwrap_or_default().max(Exact::zero())
        };
        let opening =
            |window: &Window| Opening { start: seconds(window.start), end: seconds(window.end), taken: taken(window) };
        windows.iter().map(opening).collect()
    }
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
        let others = self.others(port, class, schedule);
        let worst = others.iter().map(|other| &other.largest).max().cloned().unwrap_or_default();
        let linux = self.scenario.has_linux_gates(port);
        let gates = Gates { port, class, classes, schedule, line, linux, others, worst };
        let assist = match schedule.mode {
            TaprioMode::TxtimeAssist { txtime_delay } => Some(txtime_delay),
            TaprioMode::Software | TaprioMode::FullOffload => None,
        };
        match (classes.shapers.get(usize::from(class)), assist) {
            (Some(Shaper::Etf(etf)), _) => match (self.launched(port, class), assist) {
                (Ok(()), _) => {
                    let wait = if etf.offload { Exact::zero() } else { seconds(etf.delta) };
                    let latency = wait + gates.blocked(&gates.others);
                    let words = "behind gates, released by launch time: R = C, T = delta + what is on the line; what is later is lost";
                    Ok(Service { latency, lower: gates.worst, ..Service::alone(gates.line, words) })
                }
                (Err(reason), None) => Err(reason),
                (Err(_), Some(delay)) => self.assisted(&gates, etf, delay),
            },
            (_, Some(_)) => Err(UNGATED.into()),
            (Some(Shaper::Cbs(cbs)), None) => self.shaped_behind_gates(&gates, cbs),
            (Some(Shaper::None) | None, None) => self.unshaped_behind_gates(gates),
        }
    }

    fn unshaped_behind_gates(&mut self, gates: Gates<'_>) -> Result<Service, String> {
        let (port, class, line) = (gates.port, gates.class, &gates.line);
        let beside = gates.beside();
        let (above_rate, above_bits) = self.going_first(&gates)?;
        let initial = gates.blocked(beside.iter().copied());
        let turns = match gates.schedule.open(class) {
            Open::Always => None,
            Open::In(windows) => {
                let openings = gates.openings(&windows);
                let frames = self.frames(port, class, beside.is_empty());
                let turns = Turns::new(seconds(gates.schedule.cycle), line.clone(), &openings, &frames);
                Some(turns.ok_or_else(|| no_room(class, &openings, &frames, line))?)
            }
        };
        let open_rate = turns.as_ref().map_or_else(|| line.clone(), Turns::rate);
        let rate = &open_rate - &above_rate;
        if rate <= Exact::zero() {
            return Err(taken(class, &open_rate));
        }
        let shut = turns.as_ref().map_or_else(Exact::zero, |turns| turns.latency(&open_rate));
        let latency = (&open_rate * (&shut + &initial) + &above_bits) / &rate;
        let mut words = match &turns {
            None => "behind gates that are always open for it".to_owned(),
            Some(turns) => format!("behind gates, starts in {}: R = bits a gate cycle", turns.words()),
        };
        words += &format!(", T = {} µs for the gates and {} µs for the line", micros_up(&shut), micros_up(&initial));
        words += &first_words(&above_rate, &above_bits);
        let turns = turns.filter(|_| beside.is_empty());
        Ok(Service { latency, lower: gates.worst.clone(), turns, ..Service::alone(rate, &words) })
    }

    /// Rate and bits of classes that go first and whose gates are open at the same time.
    pub(crate) fn going_first(&mut self, gates: &Gates<'_>) -> Result<(Exact, Exact), String> {
        let (mut sum_rate, mut sum_bits) = (Exact::zero(), Exact::zero());
        for other in gates.beside().into_iter().filter(|other| other.class > gates.class) {
            let service = self.service_here(gates.port, other.class).map_err(|why| goes_first(other.class, &why))?;
            if let Some([rate, bits]) = service.takes {
                sum_rate += rate;
                sum_bits += bits;
                continue;
            }
            let arrivals = self.arrivals(gates.port, other.class);
            let (burst, rate) = arrivals.map_err(|reason| goes_first(other.class, &reason))?;
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

    pub(crate) fn frames(&self, port: PortId, class: u8, alone: bool) -> Frames {
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

/// Why nothing is left for a class.
pub(crate) fn taken(class: u8, open_rate: &Exact) -> String {
    format!("classes above {class} may take all of the {} bit/s that its windows hold", Number(open_rate.clone()))
}

/// What goes first, for people.
pub(crate) fn first_words(rate: &Exact, bits: &Exact) -> String {
    match rate.is_zero() && bits.is_zero() {
        true => String::new(),
        false => format!(", r_H = {} bit/s, b_H = {} bit", Number(rate.clone()), Number(bits.clone())),
    }
}

pub(crate) fn no_room(class: u8, openings: &[Opening], frames: &Frames, line: &Exact) -> String {
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
