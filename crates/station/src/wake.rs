//! What wakes cyclic threads up: a timer, or once a cycle the clock of a network interface.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use measure::Phase;
use rt::clock::SystemClock;
use rt::events::{Counts, EventClock, Grid};
use rt::ptp::EventQueue;
use scenario::{HostId, Scenario};
use serde::{Deserialize, Serialize};
use units::{Nanos, Tai};

use crate::beat::{Beat, Times};
use crate::spec::WorkerSpec;
use crate::worker::rhythms;

/// What ends the sleeps of cyclic threads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Wake {
    /// `CLOCK_MONOTONIC`.
    #[default]
    Monotonic,
    /// Once a cycle the periodic event of a PTP hardware clock, else `CLOCK_MONOTONIC`.
    Ptp(PtpWake),
}

/// A hardware clock, and the way of its signal: put out on one pin, read back on another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PtpWake {
    /// `/dev/ptpN`, or the network interface whose clock it is.
    pub device: String,
    /// Pin of the output; none leaves it to what is set, or else to the first pin.
    pub out_pin: Option<u32>,
    /// Pin of the input; none leaves it to what is set, or else to the second pin.
    pub in_pin: Option<u32>,
    /// Channel of periodic outputs.
    pub out_channel: u32,
    /// Channel of external timestamps.
    pub in_channel: u32,
}

impl fmt::Display for Wake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Ptp(PtpWake { device, out_pin, in_pin, out_channel, in_channel }) = self else {
            return f.write_str("monotonic");
        };
        write!(f, "ptp:{device}")?;
        let channel = |channel: &u32| (*channel != 0).then_some(*channel);
        let keys = [
            ("out", *out_pin),
            ("in", *in_pin),
            ("out-channel", channel(out_channel)),
            ("in-channel", channel(in_channel)),
        ];
        for (number, (key, value)) in keys.iter().filter_map(|(key, value)| Some((key, (*value)?))).enumerate() {
            write!(f, "{}{key}={value}", if number == 0 { ':' } else { ',' })?;
        }
        Ok(())
    }
}

impl FromStr for Wake {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const FORM: &str = "for example ptp:/dev/ptp0, ptp:enp1s0 or ptp:/dev/ptp0:out=0,in=1";
        if text == "monotonic" {
            return Ok(Self::Monotonic);
        }
        let Some(rest) = text.strip_prefix("ptp:") else {
            return Err(format!("expected monotonic or ptp:DEVICE, {FORM}"));
        };
        let (device, keys) = rest.split_once(':').map_or((rest, None), |(device, keys)| (device, Some(keys)));
        if device.is_empty() {
            return Err(format!("a device or a network interface expected behind ptp:, {FORM}"));
        }
        let mut wake = PtpWake { device: device.into(), out_pin: None, in_pin: None, out_channel: 0, in_channel: 0 };
        let mut known: Vec<&str> = Vec::new();
        for part in keys.into_iter().flat_map(|keys| keys.split(',')) {
            let (key, value) = part.split_once('=').ok_or_else(|| format!("`{part}` is no KEY=NUMBER, {FORM}"))?;
            let number = || value.parse::<u32>().map_err(|_| format!("`{key}={value}`: a number expected, {FORM}"));
            match key {
                _ if known.contains(&key) => return Err(format!("`{key}` stands there twice")),
                "out" => wake.out_pin = Some(number()?),
                "in" => wake.in_pin = Some(number()?),
                "out-channel" => wake.out_channel = number()?,
                "in-channel" => wake.in_channel = number()?,
                _ => return Err(format!("there is no `{key}`: expected out, in, out-channel or in-channel, {FORM}")),
            }
            known.push(key);
        }
        if wake.out_pin.is_some() && wake.out_pin == wake.in_pin {
            return Err("one pin cannot put out and read back: join two by a wire, out=0,in=1".into());
        }
        Ok(Self::Ptp(wake))
    }
}

/// The events of a run, as its threads need to know them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventSpec {
    /// The device.
    pub device: PathBuf,
    /// Channel of external timestamps that they come on.
    pub channel: u32,
    /// From one event to the next.
    pub period_ns: i64,
    /// From the start of a cycle to its event.
    pub offset_ns: i64,
    /// The phase that begins then.
    pub phase: String,
}

impl EventSpec {
    /// The events that serve the ends which `wanted` names: one in the shortest cycle of those that send, when frames are
    /// published; where none sends, when they are read. None without ends.
    pub fn of(
        scenario: &Scenario,
        wanted: impl Fn(usize, measure::Side) -> bool,
        (device, channel): (PathBuf, u32),
    ) -> Option<Self> {
        let ends = scenario.streams.iter().enumerate().flat_map(|(index, stream)| {
            let sides =
                [(measure::Side::Writer, stream.writer, true), (measure::Side::Reader, stream.reader, stream.echo)];
            sides.map(|(side, host, sends)| (index, side, (!sends, stream.cycle, host.0)))
        });
        let (reads, cycle, host) = ends.filter(|(index, side, _)| wanted(*index, *side)).map(|(.., end)| end).min()?;
        let phases = scenario.host(HostId(host)).phases;
        let (phase, offset) = if reads {
            (Phase::Subscribe, phases.subscribe.of(cycle))
        } else {
            (Phase::Publish, phases.publish.of(cycle))
        };
        Some(Self { device, channel, period_ns: cycle.0, offset_ns: offset.0, phase: phase.key().into() })
    }

    /// When they come, where cycle 0 begins at `t0`.
    pub fn grid(&self, t0: Tai) -> Grid {
        Grid { first: t0 + Nanos(self.offset_ns), period: Nanos(self.period_ns.max(1)) }
    }

    /// Whether a phase of every cycle begins with an event.
    fn serves(&self, times: &Times, phase: Phase) -> bool {
        let from_event = times.of(phase).0 - self.offset_ns;
        times.cycle.0 % self.period_ns.max(1) == 0 && from_event % self.period_ns.max(1) == 0
    }

    /// Whether a thread is to wait for them, with these rhythms, for all phases or for one.
    fn serves_any<'a>(&self, rhythms: impl IntoIterator<Item = &'a Times>, only: Option<Phase>) -> bool {
        let all = [Phase::Subscribe, Phase::Application, Phase::Publish];
        let runs = |phase: &&Phase| only.is_none_or(|only| only == **phase);
        rhythms.into_iter().any(|times| all.iter().filter(runs).any(|phase| self.serves(times, *phase)))
    }

    /// How many threads of a host wait for them.
    pub fn listeners(&self, scenario: &Scenario, host: HostId, workers: &[WorkerSpec]) -> usize {
        let of_worker = |worker: &WorkerSpec| {
            let times: Vec<Times> = rhythms(scenario, host, &worker.ends).into_iter().map(|(times, _)| times).collect();
            let phases = [Phase::Subscribe, Phase::Application, Phase::Publish];
            match worker.threads.len() {
                3 => phases.iter().filter(|phase| self.serves_any(&times, Some(**phase))).count(),
                _ => usize::from(self.serves_any(&times, None)),
            }
        };
        workers.iter().map(of_worker).sum()
    }

    /// Opens a queue of them for a thread with these beats; none when no phase of it begins with one.
    ///
    /// # Errors
    /// The device cannot be opened, in words.
    pub(crate) fn queue(&self, beats: &[Beat]) -> Result<Option<EventQueue>, String> {
        let serves = beats.iter().any(|beat| self.serves_any([&beat.times], beat.only));
        let open = || EventQueue::open(&self.device, self.channel).map_err(|error| error.to_string());
        serves.then(open).transpose()
    }

    /// The clock of such a thread.
    pub(crate) fn clock(&self, queue: EventQueue, t0: Tai) -> EventClock<SystemClock, EventQueue> {
        EventClock::new(SystemClock::new(), queue, self.channel, self.grid(t0))
    }
}

/// What became of the events of one thread, and of the waits that they should have ended: [`Counts`], for the result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WakeEvents {
    /// Waits that their event ended.
    pub woken: u64,
    /// Waits that the monotonic clock ended in its place.
    pub fallbacks: u64,
    /// Events that were waited for and did not come.
    pub lost: u64,
    /// Events that came when their wait had been ended without them.
    pub late: u64,
    /// Events that nobody waited for.
    pub passed_over: u64,
    /// Events that came twice.
    pub doubled: u64,
    /// Events stamped with an instant at which none was due.
    pub astray: u64,
    /// Events of other channels.
    pub foreign: u64,
    /// Events that came before their instant by more than the limit.
    pub early: u64,
    /// How often the thread stopped waiting for them.
    pub stops: u64,
    /// How often the device failed.
    pub errors: u64,
    /// The last error number of it; absent when there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<i32>,
    /// How far the device's clock was ahead of TAI when it was too far off; absent when it never was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apart_ns: Option<i64>,
    /// From the stamp of an event to the thread: least, mean and greatest; absent when none was woken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_ns: Option<[i64; 3]>,
}

impl From<Counts> for WakeEvents {
    fn from(counts: Counts) -> Self {
        let mean = counts.after_sum.0.checked_div(i64::try_from(counts.woken).unwrap_or(i64::MAX));
        Self {
            woken: counts.woken,
            fallbacks: counts.fallbacks,
            lost: counts.lost,
            late: counts.late,
            passed_over: counts.passed_over,
            doubled: counts.doubled,
            astray: counts.astray,
            foreign: counts.foreign,
            early: counts.early,
            stops: counts.stops,
            errors: counts.errors,
            last_error: (counts.last_error != 0).then_some(counts.last_error),
            apart_ns: counts.apart.map(|apart| apart.0),
            after_ns: mean.map(|mean| [counts.after_min.0, mean, counts.after_max.0]),
        }
    }
}

impl WakeEvents {
    /// What was not as it should be, in words; none when all was.
    pub fn told(&self) -> Option<String> {
        let causes = [
            (self.lost, "events lost"),
            (self.late, "late"),
            (self.early, "early by more than the clocks may be apart"),
            (self.doubled, "doubled"),
            (self.astray, "at instants at which none was due"),
            (self.errors, "failures of the device"),
            (self.stops, "times given up for a second"),
        ];
        let mut words: Vec<String> =
            causes.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
        if let Some(apart) = self.apart_ns {
            words.push(format!("its clock {} ahead of TAI when compared after the time was set", Nanos(apart)));
        }
        if self.fallbacks == 0 && words.is_empty() {
            return None;
        }
        let all = self.woken + self.fallbacks;
        Some(format!(
            "{} of {all} waits for an event of the hardware clock were ended by the monotonic clock ({})",
            self.fallbacks,
            if words.is_empty() { "none was expected".into() } else { words.join(", ") }
        ))
    }
}

#[cfg(test)]
#[path = "wake_tests.rs"]
mod tests;
