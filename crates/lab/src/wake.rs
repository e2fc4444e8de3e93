//! The hardware clock whose events wake the threads of a run: looked at before anything is made, set up and set back.

use std::fmt::Display;
use std::io;
use std::path::Path;

use measure::Side;
use rt::events::Grid;
use rt::ptp::{Ahead, Edge, EventQueue, ExternalTimestamps, HardwareClock, PeriodicOutput, PinFunction};
use scenario::Scenario;
use serde_json::{Value, json};
use station::{EventSpec, PtpWake, Wake};
use units::{Nanos, Tai};

use crate::error::LabError;

/// What for its clock has to show TAI.
const PURPOSE: &str = "so that its event comes when the cycle says";

/// How long before its first edge an output is tried.
const TRIED_AHEAD: Nanos = Nanos::from_millis(10_000);

/// A hardware clock with its pins set. Dropped, it sets them back.
pub(crate) struct Bell {
    clock: HardwareClock,
    events: EventSpec,
    out_channel: u32,
    /// Its two pins; none where channels are wired.
    pins: Option<[u32; 2]>,
    /// What those of them did that were changed.
    before: Vec<(u32, PinFunction, u32)>,
    edge: Edge,
    ahead: Ahead,
    /// Whether every thread has a queue of its own.
    apart: bool,
}

/// The signal, while it is put out and stamped.
pub(crate) struct Ringing<'a> {
    _output: PeriodicOutput<'a>,
    _stamps: ExternalTimestamps<'a>,
}

impl Bell {
    /// Opens the clock that is asked for, sets its pins, and tries everything that a run will want of it; none where
    /// timers wake the threads.
    ///
    /// # Errors
    /// The machine has no such clock, the clock cannot do it, or it does not show the TAI of this machine.
    pub(crate) fn open(
        wake: &Wake,
        scenario: &Scenario,
        has: impl Fn(usize, Side) -> bool,
    ) -> Result<Option<Self>, LabError> {
        let Wake::Ptp(wanted) = wake else { return Ok(None) };
        let cannot = |error: io::Error| LabError::Host { what: told(wake, &error), mend: mend_of(&error).into() };
        let clock = if wanted.device.contains('/') {
            HardwareClock::open(Path::new(&wanted.device))
        } else {
            HardwareClock::of_interface(&wanted.device)
        }
        .map_err(cannot)?;
        can(&clock, wanted).map_err(|(what, mend)| LabError::Host { what: told(wake, &what), mend })?;
        let path = clock.path().to_owned();
        let Some(events) = EventSpec::of(scenario, has, (path.clone(), wanted.in_channel)) else { return Ok(None) };
        let ahead = clock.ahead().map_err(cannot)?;
        agrees(&path, ahead, Grid::limit(Nanos(events.period_ns)), (PURPOSE, "leave --wake out"))
            .map_err(|(what, mend)| LabError::Host { what: told(wake, &what), mend })?;
        let apart = EventQueue::open(&path, wanted.in_channel).map_err(cannot)?.is_apart();
        let (out_channel, pins, before) = (wanted.out_channel, None, Vec::new());
        let mut bell = Self { clock, events, out_channel, pins, before, edge: Edge::Rising, ahead, apart };
        bell.set_pins(wanted).map_err(cannot)?;
        // Tried now, so that a refusal comes before a network is made. Many cards stamp both edges or none.
        match bell.try_out() {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                bell.edge = Edge::Both;
                bell.try_out()
            }
            other => other,
        }
        .map_err(cannot)?;
        Ok(Some(bell))
    }

    /// What the threads need to know of the events.
    pub(crate) fn events(&self) -> &EventSpec {
        &self.events
    }

    /// Looks whether so many threads can wait for them.
    ///
    /// # Errors
    /// They would take each other's events.
    pub(crate) fn serves(&self, threads: usize) -> Result<(), LabError> {
        serve(threads, self.apart)
    }

    /// Puts the signal out from the first cycle on.
    ///
    /// # Errors
    /// The driver refuses it.
    pub(crate) fn begin(&self, t0: Tai) -> Result<Ringing<'_>, LabError> {
        let cannot = |error: io::Error| LabError::Host { what: error.to_string(), mend: mend_of(&error).into() };
        // First the stamps: the first edge is the event of the first cycle.
        let _stamps = self.clock.external_timestamps(self.events.channel, self.edge).map_err(cannot)?;
        let first = self.events.grid(t0).first;
        let _output = self.clock.periodic_output(self.out_channel, first, self.signal()).map_err(cannot)?;
        Ok(Ringing { _output, _stamps })
    }

    /// For the result.
    pub(crate) fn describe(&self) -> Value {
        let EventSpec { device, channel, period_ns, offset_ns, phase } = &self.events;
        json!({
            "device": device,
            "pins": self.pins,
            "channels": [self.out_channel, *channel],
            "edges": if self.edge == Edge::Both { "both" } else { "rising" },
            "period_ns": period_ns,
            "offset_ns": offset_ns,
            "phase": phase,
            "ahead_of_tai_ns": self.ahead.by.0,
            "ahead_error_ns": self.ahead.error.0,
            "limit_ns": Grid::limit(Nanos(*period_ns)).0,
        })
    }

    /// The period of the signal: with both edges stamped each of them is an event.
    fn signal(&self) -> Nanos {
        Nanos(self.events.period_ns) * if self.edge == Edge::Both { 2 } else { 1 }
    }

    fn try_out(&self) -> io::Result<()> {
        let _stamps = self.clock.external_timestamps(self.events.channel, self.edge)?;
        let start = rt::clock::now() + self.ahead.by + TRIED_AHEAD;
        self.clock.periodic_output(self.out_channel, start, self.signal()).map(drop)
    }

    fn set_pins(&mut self, wanted: &PtpWake) -> io::Result<()> {
        let count = self.clock.capabilities().pins;
        if count == 0 {
            return Ok(());
        }
        let found = (0..count).map(|pin| self.clock.pin(pin).ok()).collect::<Vec<_>>();
        let pins = choose(wanted, &found);
        let roles =
            [(PinFunction::PeriodicOutput, wanted.out_channel), (PinFunction::ExternalTimestamps, wanted.in_channel)];
        for (pin, role) in pins.into_iter().zip(roles) {
            let was = found.get(pin as usize).copied().flatten();
            if was != Some(role) {
                self.clock.set_pin(pin, role.0, role.1)?;
                let (function, channel) = was.unwrap_or((PinFunction::None, 0));
                self.before.push((pin, function, channel));
            }
        }
        self.pins = Some(pins);
        Ok(())
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        // Nobody to tell: the run is over.
        self.before.iter().rev().for_each(|(pin, function, channel)| _ = self.clock.set_pin(*pin, *function, *channel));
    }
}

/// Output and input pin: those that were named, else those that do it already, else the first two that are left.
fn choose(wanted: &PtpWake, found: &[Option<(PinFunction, u32)>]) -> [u32; 2] {
    let does = |function, channel| {
        let pin = found.iter().position(|pin| *pin == Some((function, channel)))?;
        u32::try_from(pin).ok()
    };
    let set_in = || does(PinFunction::ExternalTimestamps, wanted.in_channel);
    let set_out = || does(PinFunction::PeriodicOutput, wanted.out_channel);
    // Only whole: a pin that is set and one that is not are no wire.
    let set = set_out().zip(set_in()).filter(|_| wanted.out_pin.is_none() && wanted.in_pin.is_none());
    if let Some((out, inside)) = set {
        return [out, inside];
    }
    match (wanted.out_pin, wanted.in_pin) {
        (Some(out), Some(inside)) => [out, inside],
        (Some(out), None) => [out, u32::from(out != 1)],
        (None, Some(inside)) => [u32::from(inside == 0), inside],
        (None, None) => [0, 1],
    }
}

/// Whether the clock has what an event of its own needs; what it lacks, and the mend.
fn can(clock: &HardwareClock, wanted: &PtpWake) -> Result<(), (String, String)> {
    let has = clock.capabilities();
    let what = |what: String| format!("hardware clock {}: {what}", clock.path().display());
    if has.periodic_outputs == 0 || has.external_timestamps == 0 {
        return Err((
            what(format!(
                "it has {} periodic outputs and {} external timestamps, and an event of its own takes one of each",
                has.periodic_outputs, has.external_timestamps
            )),
            "take a network card whose clock has both, as those of i210, i225 and i226 have, or leave --wake out"
                .into(),
        ));
    }
    let within = |key: &str, index: u32, count: u32| match index < count {
        true => Ok(()),
        false => Err((
            what(format!("{key}={index}: it has {count}, counted from 0")),
            format!("give a number below {count}"),
        )),
    };
    within("out-channel", wanted.out_channel, has.periodic_outputs)?;
    within("in-channel", wanted.in_channel, has.external_timestamps)?;
    let pins = [("out", wanted.out_pin), ("in", wanted.in_pin)];
    if has.pins == 0 {
        return match pins.iter().find(|(_, pin)| pin.is_some()) {
            Some((key, _)) => Err((
                what(format!("{key}: its channels are wired, it has no pins to choose")),
                format!("leave {key} out"),
            )),
            None => Ok(()),
        };
    }
    pins.iter().filter_map(|(key, pin)| Some((key, (*pin)?))).try_for_each(|(key, pin)| within(key, pin, has.pins))
}

/// Whether it shows the TAI of this machine, for some purpose; how far it does not, and the mend or what else can be done.
pub(crate) fn agrees(
    path: &Path,
    ahead: Ahead,
    limit: Nanos,
    (purpose, or_else): (&str, &str),
) -> Result<(), (String, String)> {
    if ahead.by.abs() <= limit {
        return Ok(());
    }
    // Leap seconds that one of both does not know of.
    let second = Nanos::from_millis(1_000);
    let whole = Nanos((ahead.by.0 + second.0 / 2).div_euclid(second.0) * second.0);
    let leap = (10..60).contains(&(whole / second)) && (ahead.by - whole).abs() <= Nanos::from_millis(1);
    let settle = format!(
        "run ptp4l and phc2sys, which keep both together (`downbeat apply` or `downbeat ptp run` starts them as the scenario \
         plans), and wait until they have settled; or {or_else}"
    );
    let mend = if leap && rt::clock::tai_minus_utc() == Nanos::ZERO {
        "the kernel does not know how far TAI is ahead of UTC: phc2sys of linuxptp tells it (`downbeat apply` or `downbeat ptp run` starts \
         it as the scenario plans)"
    } else {
        &settle
    };
    Err((
        format!(
            "hardware clock {} is {} ahead of this machine's TAI (± {}): within {limit} expected, {purpose}",
            path.display(),
            ahead.by,
            ahead.error
        ),
        mend.into(),
    ))
}

fn serve(threads: usize, apart: bool) -> Result<(), LabError> {
    if threads <= 1 || apart {
        return Ok(());
    }
    Err(LabError::Host {
        what: format!(
            "{threads} threads are to be woken by the hardware clock, and this kernel gives each of its events to one reader"
        ),
        mend: "take Linux 6.7 or later; or play one host, with `threads = \"host\"` in [time]".into(),
    })
}

fn told(wake: &Wake, what: &impl Display) -> String {
    format!("--wake {wake}: {what}")
}

/// What helps against an error of the device that does not say it itself.
fn mend_of(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => {
            "name a clock that there is (`ls /dev/ptp*`; `ethtool -T IFACE` tells that of a network card), or leave --wake out"
        }
        io::ErrorKind::PermissionDenied => "become root, or leave --wake out",
        io::ErrorKind::Unsupported => "take a network card whose driver offers it, or leave --wake out",
        _ => "see docs/wake.md for what a card needs; `downbeat run` without --wake goes by timers",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(text: &str) -> PtpWake {
        let Ok(Wake::Ptp(wanted)) = format!("ptp:/dev/ptp0{text}").parse() else { panic!("{text}") };
        wanted
    }

    #[test]
    fn pins_are_those_named_else_those_set_else_the_first_two() {
        let none = Some((PinFunction::None, 0));
        let out = |channel| Some((PinFunction::PeriodicOutput, channel));
        let inside = |channel| Some((PinFunction::ExternalTimestamps, channel));
        let set = [none, none, inside(0), out(0)];
        for (text, found, pins) in [
            ("", [none; 4], [0, 1]),
            ("", set, [3, 2]),
            (":out=1,in=0", set, [1, 0]),
            (":out=1", set, [1, 0]),
            (":out=3", [none; 4], [3, 1]),
            (":in=0", [none; 4], [1, 0]),
            (":in=2", [none; 4], [0, 2]),
            // Of another channel, or half of it: not what is wanted.
            (":out-channel=1", set, [0, 1]),
            (":out-channel=1", [out(1), none, none, inside(0)], [0, 3]),
            ("", [none, none, none, out(0)], [0, 1]),
            // One that cannot be read.
            ("", [None, none, inside(0), out(0)], [3, 2]),
        ] {
            assert_eq!(choose(&wanted(text), &found), pins, "{text:?} {found:?}");
        }
    }

    #[test]
    fn a_clock_that_is_elsewhere_is_refused_with_the_distance() {
        let agrees = |by, period| {
            let ahead = Ahead { by, error: Nanos(400) };
            agrees(Path::new("/dev/ptp0"), ahead, Grid::limit(period), (PURPOSE, "leave --wake out"))
        };
        let ms = Nanos::from_millis(1);
        assert!(agrees(Nanos(10_000), ms).is_ok() && agrees(Nanos(-10_000), ms).is_ok());
        for (by, period) in [(Nanos(10_001), ms), (Nanos(-10_001), ms), (Nanos(1_600), Nanos(31_250))] {
            let (what, mend) = agrees(by, period).unwrap_err();
            assert!(what.contains("/dev/ptp0") && what.contains(&by.to_string()), "{what}");
            assert!(mend.contains("ptp4l and phc2sys"), "{mend}");
        }
    }

    #[test]
    fn one_reader_is_served_by_any_kernel_and_several_by_those_with_queues_apart() {
        assert!(serve(0, false).is_ok() && serve(1, false).is_ok() && serve(5, true).is_ok());
        let error = serve(2, false).unwrap_err();
        assert_eq!(error.exit_code(), 3);
        assert!(error.to_string().contains("6.7") && error.to_string().contains("threads = \"host\""), "{error}");
    }
}
