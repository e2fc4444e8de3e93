//! What a class gets whose gates Linux turns into launch times (`get_packet_txtime` of Linux 6.12).
//!
//! A frame that comes at a gets the first instant ℓ ≥ a + `txtime_delay` from which all of it fits into an entry of the list
//! that is open for its class, behind those of its class before it; entries that follow each other are not one window. An etf
//! queue releases it `delta` before ℓ.
//!
//! * **An entry is not found as it begins.** At a + `txtime_delay` = its begin, or where the end of the frame would be its
//!   end, the frame goes into the next cycle, and those behind it do. That costs the first of a busy period a cycle, others
//!   none: as they reserve behind each other, an entry serves its work a cycle, as [`crate::gates`] has it. So
//!   ℓ(n) ≤ a(k) + `txtime_delay` + T + B(k..n)/R with T = one cycle, R = work/cycle.
//! * **Of several entries** the one whose reservations end first is taken while all have some. When it is full another is
//!   taken, which may be one that is over: up to a cycle after the end of the full one. So each serves its work less a frame
//!   (as it may be met late) in a cycle and its length, at least: R = min (work − L)/(cycle + length), and T is two cycles and
//!   a length, for the one that the busy period begins in.
//! * **On the line** a frame is as soon as it is released, if all classes have the same `delta` and only launch times of the
//!   kernel's, of which no two overlap, and Linux counts no frame for shorter than it is: at ℓ − `delta` + 1 ns, as its clock
//!   has to be beyond. If not, it leaves the etf queue at ℓ or is dropped, and waits for a bulk of others then.

use num_traits::Zero;
use scenario::{Etf, PortId, Shaper};
use units::Nanos;

use crate::exact::{Exact, bits, micros_up, seconds, whole};
use crate::gated::{Gates, no_room};
use crate::gates::{Opening, Turns};
use crate::service::{Analysis, Service};

/// Why classes that share a window have no bound with launch times of the kernel's.
const SHARED: &str = "taprio with txtime-assist is not bounded where classes share a window";

/// How the kernel's launch times delay a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Assist {
    /// `txtime_delay`, in seconds.
    pub(crate) delay: Exact,
    /// How long before its launch time it is released.
    pub(crate) delta: Exact,
    /// From the launch time to the start on the line, at most; negative where it is sent as it is released.
    pub(crate) after: Exact,
    /// From its arrival to its start, at least.
    pub(crate) least: Exact,
}

impl Analysis<'_> {
    pub(crate) fn assisted(&mut self, gates: &Gates<'_>, etf: &Etf, txtime_delay: Nanos) -> Result<Service, String> {
        let (port, class, line) = (gates.port, gates.class, &gates.line);
        if !gates.beside().is_empty() {
            return Err(SHARED.into());
        }
        if !self.scenario.port_rate(port).0.is_multiple_of(1_000_000) {
            return Err("taprio of Linux counts whole megabits per second of the line".into());
        }
        let frames = self.frames(port, class, true);
        let cycle = seconds(gates.schedule.cycle);
        let entries = self.entries(gates);
        let each: Option<Vec<Turns>> = entries
            .iter()
            .map(|entry| Turns::new(cycle.clone(), line.clone(), std::slice::from_ref(entry), &frames))
            .collect();
        let each = each.filter(|each| !each.is_empty()).ok_or_else(|| no_room(class, &entries, &frames, line))?;
        let length = |entry: &Opening| &entry.end - &entry.start;
        let (rate, wait) = match (&each[..], entries.iter().map(length).max()) {
            ([one], _) => (one.rate(), cycle.clone()),
            (several, longest) => {
                let least = |(turns, entry): (&Turns, &Opening)| {
                    (turns.rate() * &cycle - &frames.largest) / (&cycle + length(entry))
                };
                let rate = several.iter().zip(&entries).map(least).min().unwrap_or_default();
                (rate, &cycle * whole(2) + longest.unwrap_or_default())
            }
        };
        if rate <= Exact::zero() {
            return Err(format!("an entry of class {class} is sure to hold a single frame only, and there are others"));
        }
        let (delay, delta) = (seconds(txtime_delay), seconds(etf.delta));
        let blocked = gates.blocked(&gates.others);
        let undisturbed = self.is_undisturbed(gates, etf, txtime_delay);
        let after = if undisturbed { seconds(Nanos(1)) - &delta } else { blocked.clone() };
        let own_launch = self.members(port, class).into_iter().any(|flow| self.has_launch(flow, port));
        let mut latency = &wait + &delay + &after;
        if own_launch {
            // Counted from the release.
            latency = latency.max(&delta + &blocked);
        }
        let least = if own_launch { Exact::zero() } else { (&delay - &delta).max(Exact::zero()) };
        let several = if each.len() == 1 { "R = bits a gate cycle" } else { "R = the least of an entry's bits" };
        let mut words = format!(
            "behind gates by launch times of the kernel's, in {}: {several}, T = {} µs for the gates, txtime_delay {txtime_delay}",
            each.iter().map(Turns::words).collect::<Vec<_>>().join(", "),
            micros_up(&wait)
        );
        words += &match undisturbed {
            true => format!("; on the line {} earlier", etf.delta),
            false => {
                format!(", {} µs for the line behind it; released up to {} earlier", micros_up(&blocked), etf.delta)
            }
        };
        let turns = if let [one] = &each[..] { Some(one.clone()) } else { None };
        let assist = Some(Assist { delay, delta, after, least });
        Ok(Service { latency, lower: gates.worst.clone(), turns, assist, ..Service::alone(rate, &words) })
    }

    /// Whether a frame comes to a port with a launch time of its own.
    pub(crate) fn has_launch(&self, flow: usize, port: PortId) -> bool {
        self.flows.flows[flow].launch && self.flows.position(flow, port) == 0
    }

    /// The entries in which a frame of the class may be put.
    fn entries(&self, gates: &Gates<'_>) -> Vec<Opening> {
        let members = self.members(gates.port, gates.class);
        let shortest = members.iter().map(|flow| self.counted_time(*flow, &gates.line)).min().unwrap_or_default();
        let mut at = Nanos::ZERO;
        let mut entries = Vec::new();
        for entry in &gates.schedule.entries {
            let end = at + entry.interval;
            // Linux cuts a frame's time to nanoseconds.
            if entry.gates >> gates.class & 1 == 1 && seconds(entry.interval) + seconds(Nanos(1)) > shortest {
                entries.push(Opening { start: seconds(at), end: seconds(end), taken: Exact::zero() });
            }
            at = end;
        }
        entries
    }

    /// How long Linux takes a frame for, but for the part of a nanosecond.
    fn counted_time(&self, flow: usize, line: &Exact) -> Exact {
        bits(scenario::Counted::SocketAndOverhead.bytes(self.flows.flows[flow].size)) / line
    }

    /// Whether no frame of the port is on the line but from when the kernel releases it.
    fn is_undisturbed(&self, gates: &Gates<'_>, etf: &Etf, delay: Nanos) -> bool {
        let classes = gates.others.iter().map(|other| other.class).chain([gates.class]);
        let alike = |class: u8| match gates.classes.shapers.get(usize::from(class)) {
            Some(Shaper::Etf(other)) => other.delta == etf.delta && !other.offload && !other.deadline_mode,
            _ => false,
        };
        let whole_nanos = |time: &Exact| (time * whole(1_000_000_000)).is_integer();
        let exact = |flow: usize| {
            let time = self.counted_time(flow, &gates.line);
            !self.has_launch(flow, gates.port)
                && whole_nanos(&time)
                && time == &self.flows.flows[flow].frame / &gates.line
        };
        etf.delta <= delay
            && self.unnamed.is_zero()
            && classes.clone().all(alike)
            && classes.clone().all(|class| self.members(gates.port, class).into_iter().all(exact))
    }
}
