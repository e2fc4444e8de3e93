//! What was seen, put together: samples, events, convergence, in bounded memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use measure::{Course, PtpEvent, PtpPort, PtpRow, ResultsError, Tally};
use rt::clock;
use units::Nanos;

use crate::log::{self, Said};
use crate::management::{Answer, ClockIdentity, port_state_named};
use crate::shelf::Shelf;
use crate::watch::{Facts, Options};

mod conclusion;

/// Events that are kept.
const EVENTS: usize = 1_000;
/// Offsets that are kept one by one from the beginning.
const FIRST: usize = 1_000;
/// So many offsets make one root mean square.
const EIGHT: usize = 8;
/// Two readings of a clock closer than this belong together.
const TOGETHER: Nanos = Nanos(20_000);
/// Larger jumps between two polls are steps: what ptp4l slews in that time is less.
const STEP: Nanos = Nanos(100_000);

/// Root mean squares of eight offsets each.
#[derive(Debug, Default)]
struct Eights {
    window: Vec<i64>,
    tally: Tally,
}

impl Eights {
    fn record(&mut self, offset: i64) {
        self.window.push(offset);
        if self.window.len() == EIGHT {
            let squares: f64 = self.window.iter().map(|offset| *offset as f64 * *offset as f64).sum();
            self.tally.record((squares / EIGHT as f64).sqrt().round() as i64);
            self.window.clear();
        }
    }
}

#[derive(Debug, Default)]
struct System {
    offset: Tally,
    read_delay: Tally,
    course: Course,
    locked: bool,
}

/// Puts together what is told.
#[derive(Debug)]
pub(crate) struct Observer {
    began: Nanos,
    began_utc_s: i64,
    facts: Facts,
    domain: u8,
    ports: BTreeMap<u16, PtpPort>,
    /// Ports whose transitions the log tells, to the millisecond.
    logged: bool,
    /// Delay of each port to its neighbour.
    peer_delay: BTreeMap<u16, i64>,
    path_delay: Option<i64>,
    clock: Option<ClockIdentity>,
    grandmaster: Option<(ClockIdentity, Arc<str>)>,
    last_ingress: i64,
    offset_seen: bool,
    /// When the last sync message was seen.
    last_sample: Option<i64>,
    /// What lies between two of them, nanoseconds, as the port tells.
    sync_interval: i64,
    stamps: Option<&'static str>,
    servo: Option<u8>,
    frequency: Option<f64>,
    best_master: Option<i64>,
    own_best: Option<i64>,
    locked_at: Option<i64>,
    locked: bool,
    all: Tally,
    kept: Tally,
    all_eights: Eights,
    kept_eights: Eights,
    delays: Tally,
    system: BTreeMap<String, System>,
    first_offsets: Vec<(i64, i64)>,
    offset_course: Course,
    delay_course: Course,
    events: Vec<PtpEvent>,
    events_left_out: u64,
    clocks: Option<(Nanos, Nanos)>,
    shelf: Shelf,
}

impl Observer {
    pub(crate) fn new(options: &Options, facts: &Facts) -> Self {
        Self {
            began: clock::monotonic(),
            began_utc_s: (clock::now() - clock::tai_minus_utc()).0 / 1_000_000_000,
            facts: facts.clone(),
            domain: options.domain,
            ports: BTreeMap::new(),
            logged: facts.started && facts.log,
            peer_delay: BTreeMap::new(),
            path_delay: None,
            clock: None,
            grandmaster: None,
            last_ingress: 0,
            offset_seen: false,
            last_sample: None,
            sync_interval: 0,
            stamps: facts.stamps,
            servo: None,
            frequency: None,
            best_master: None,
            own_best: None,
            locked_at: None,
            locked: false,
            all: Tally::default(),
            kept: Tally::default(),
            all_eights: Eights::default(),
            kept_eights: Eights::default(),
            delays: Tally::default(),
            system: BTreeMap::new(),
            first_offsets: Vec::new(),
            offset_course: Course::default(),
            delay_course: Course::default(),
            events: Vec::new(),
            events_left_out: 0,
            clocks: None,
            shelf: Shelf::new(&options.dir, options.rows),
        }
    }

    pub(crate) fn events(&self) -> &[PtpEvent] {
        &self.events
    }

    fn now(&self) -> i64 {
        (clock::monotonic() - self.began).0
    }

    fn event(&mut self, at_ns: i64, kind: &str, text: String) {
        if self.events.len() < EVENTS {
            self.events.push(PtpEvent { at_ns: at_ns.max(0), kind: kind.into(), text });
        } else {
            self.events_left_out += 1;
        }
    }

    /// Takes an answer of ptp4l.
    pub(crate) fn answer(&mut self, answer: &Answer) -> Result<(), ResultsError> {
        match answer {
            Answer::Default { clock } => self.clock = Some(*clock),
            Answer::Current { path_delay } => self.path_delay = Some(*path_delay).filter(|delay| *delay != 0),
            Answer::Parent { grandmaster } => self.grandmaster_is(*grandmaster),
            Answer::Port { number, state, peer_delay, peer_to_peer, log_sync } => {
                self.sync_interval = interval(*log_sync);
                if *peer_to_peer {
                    self.peer_delay.insert(*number, *peer_delay);
                }
                self.state_is(*number, state, None);
            }
            Answer::Properties { number, stamps, interface } => self.properties(*number, stamps, interface),
            Answer::TimeStatus { offset, ingress, followed, grandmaster } => {
                self.grandmaster_is(*grandmaster);
                if *followed && *ingress != self.last_ingress {
                    self.last_ingress = *ingress;
                    return self.sample(*offset);
                }
            }
            Answer::Refused { .. } => {}
        }
        Ok(())
    }

    fn properties(&mut self, number: u16, stamps: &'static str, interface: &str) {
        let port = self.port(number);
        port.interface = Some(interface.to_owned());
        if port.stamps != stamps {
            port.stamps = stamps.into();
        }
        self.stamps = match self.stamps {
            Some(known) if known != stamps && self.ports.len() > 1 => Some("mixed"),
            _ => Some(stamps),
        };
    }

    fn port(&mut self, number: u16) -> &mut PtpPort {
        let stamps = self.stamps.unwrap_or("unknown").to_owned();
        self.ports.entry(number).or_insert_with(|| PtpPort { number, interface: None, state: "UNKNOWN".into(), stamps })
    }

    fn grandmaster_is(&mut self, found: ClockIdentity) {
        if self.grandmaster.as_ref().is_some_and(|(known, _)| *known == found) {
            return;
        }
        let before = self.grandmaster.replace((found, found.to_string().into()));
        let own = if self.clock == Some(found) { ", this host's own clock" } else { "" };
        let text = match before {
            Some((before, _)) => format!("grandmaster {found}{own}, {before} before"),
            None => format!("grandmaster {found}{own}"),
        };
        self.event(self.now(), "grandmaster", text);
    }

    /// A port is in a state; `told` where the log says when and why.
    fn state_is(&mut self, number: u16, state: &str, told: Option<(i64, &str)>) {
        // A log that tells transitions is exact; an answer may be older than its last line.
        if told.is_none() && self.logged && self.ports.contains_key(&number) {
            return;
        }
        let now = self.now();
        let first = !self.ports.contains_key(&number);
        let port = self.port(number);
        if port.state == state {
            return;
        }
        let before = std::mem::replace(&mut port.state, state.to_owned());
        let (at, why) = told.map_or((now, String::new()), |(at, why)| (at, format!(" ({why})")));
        let text = if first || before == "UNKNOWN" {
            format!("port {number}: {state}{why}")
        } else {
            format!("port {number}: {before} to {state}{why}")
        };
        self.event(at, "port_state", text);
        // What was so before somebody looked has no span.
        let begun = self.facts.started || !first;
        match state {
            "UNCALIBRATED" | "SLAVE" if begun => _ = self.best_master.get_or_insert(at),
            "MASTER" | "GRAND_MASTER" if begun => _ = self.own_best.get_or_insert(at),
            _ => {}
        }
        self.lock_is(state == "SLAVE", before == "SLAVE", at);
    }

    fn lock_is(&mut self, now: bool, before: bool, at: i64) {
        if now && !self.locked {
            self.locked = true;
            self.locked_at.get_or_insert(at);
            self.event(at, "locked", "the servo has locked".into());
        } else if before && !now && self.locked {
            self.locked = false;
            self.event(at, "unlocked", "the port follows no more".into());
        }
    }

    fn sample(&mut self, offset: i64) -> Result<(), ResultsError> {
        // Until the path delay is known no offset is computed, and 0 is told.
        if offset == 0 && !self.offset_seen {
            return Ok(());
        }
        self.offset_seen = true;
        let at = self.now();
        let follows = self.ports.values().find(|port| matches!(port.state.as_str(), "SLAVE" | "UNCALIBRATED"));
        let (port_state, number) = match follows {
            Some(port) => (Some(port_state_named(&port.state)), Some(port.number)),
            None => (None, None),
        };
        let delay = self.path_delay.or_else(|| self.peer_delay.get(&number?).copied());
        self.last_sample = Some(at);
        self.all.record(offset);
        self.all_eights.record(offset);
        if self.locked_at.is_some() {
            self.kept.record(offset);
            self.kept_eights.record(offset);
        }
        if self.first_offsets.len() < FIRST {
            self.first_offsets.push((at, offset));
        }
        self.offset_course.push(at, offset);
        if let Some(delay) = delay {
            self.delays.record(delay);
            self.delay_course.push(at, delay);
        }
        let row = PtpRow {
            at: clock::now().0,
            source: "ptp".into(),
            offset,
            delay,
            servo: self.servo,
            frequency: self.frequency,
            port_state,
            stamps: self.stamps.unwrap_or("unknown"),
            grandmaster: self.grandmaster.as_ref().map(|(_, text)| Arc::clone(text)),
        };
        self.shelf.push(row)
    }

    /// Takes a line of a log; false when it says nothing that is known.
    pub(crate) fn line(&mut self, line: &str) -> bool {
        let Some((stamp, said)) = log::read(line) else { return false };
        self.said(stamp, said);
        true
    }

    /// What a program said before it ended by itself, read or not.
    pub(crate) fn last_words(&mut self, lines: impl IntoIterator<Item = String>) {
        for text in lines {
            self.event(self.now(), "fault", text);
        }
    }

    fn said(&mut self, stamp: Option<Nanos>, said: Said) {
        // An old line of a log that was there before is not of this watch.
        let at = stamp.map_or_else(|| self.now(), |stamp| (stamp - self.began).0);
        if at < -1_000_000_000 {
            return;
        }
        match said {
            Said::Offset { servo, frequency, offset, .. } => {
                if servo == 1 && self.facts.free_running != Some(true) {
                    self.event(at, "step", format!("the servo steps the clock, offset {}", Nanos(offset)));
                }
                // ptp4l writes computed offsets alone, of 0 as well.
                self.offset_seen = true;
                (self.servo, self.frequency) = (Some(servo), Some(frequency));
            }
            Said::Summary { frequency, .. } => self.frequency = Some(frequency),
            Said::PortState { port, to, why, .. } => {
                self.logged = true;
                self.state_is(port, port_state_named(&to), Some((at, &why)));
            }
            Said::BestMaster { .. } => {}
            Said::System { clock, offset, servo, delay, frequency } => {
                self.system(&clock, at, offset, servo, delay, frequency);
            }
            Said::Fault(text) => self.event(at, "fault", text),
        }
    }

    fn system(&mut self, clock: &str, at: i64, offset: i64, servo: u8, delay: Option<i64>, frequency: f64) {
        let system = self.system.entry(clock.to_owned()).or_default();
        system.course.push(at, offset);
        system.locked |= servo >= 2;
        if system.locked {
            system.offset.record(offset);
            delay.into_iter().for_each(|delay| system.read_delay.record(delay));
        }
        if servo == 1 {
            self.event(at, "step", format!("phc2sys steps {clock}, offset {}", Nanos(offset)));
        }
        let row = PtpRow {
            at: clock::now().0,
            source: clock.into(),
            offset,
            delay,
            servo: Some(servo),
            frequency: Some(frequency),
            port_state: None,
            stamps: self.stamps.unwrap_or("unknown"),
            grandmaster: None,
        };
        // A full disk shows at the next sample of ptp4l, which is told.
        _ = self.shelf.push(row);
    }

    /// Looks whether the system clock has jumped against the one that nobody sets.
    pub(crate) fn steps(&mut self) {
        let (before, now, after) = (clock::monotonic(), clock::now(), clock::monotonic());
        if after - before > TOGETHER {
            return;
        }
        let apart = Nanos(now.0.saturating_sub(before.0));
        if let Some((known, at)) = self.clocks.replace((apart, before)) {
            let moved = apart - known;
            // 500 ppm is the most that the kernel slews.
            let slewed = Nanos((before - at).0 / 2_000);
            if moved.0.abs() > (STEP + slewed).0 {
                self.event(self.now(), "step", format!("the system clock (TAI) was stepped by {moved}"));
            }
        }
    }

    /// ptp4l says nothing any more, or speaks again.
    pub(crate) fn silence(&mut self, silent: bool, why: Option<String>) {
        let why = why.map_or_else(String::new, |why| format!(": {why}"));
        let (kind, text) =
            if silent { ("silent", format!("ptp4l does not answer{why}")) } else { ("back", "ptp4l answers".into()) };
        self.event(self.now(), kind, text);
    }
}

/// Two to this power seconds, in nanoseconds; a day at most, as an int8 of a stranger's may say more.
fn interval(log: i8) -> i64 {
    let span = 2_f64.powi(log.into()) * 1e9;
    span.min(86_400e9) as i64
}

#[cfg(test)]
#[path = "observer_tests.rs"]
mod tests;
