//! The cyclic executive: one thread that drives ends of streams through their phases.
//!
//! Within a cycle of length c that begins at t0 + k·c an end subscribes (and goes on reading until its receive
//! window closes), runs the application, and publishes; a frame with a launch time then waits in the launch queue for
//! the next cycle start + offset, which may lie beyond the next publish phase; where a queue of the kernel keeps launch
//! times, it gets the frame in the publish phase, and no launch is waited for here. All instants are absolute, so lateness
//! never adds up. Where two fall together the launch goes first: it is the one that the wire sees.
//!
//! **Waiting.** By [`Wait`] the thread sleeps, is awake all the time, or, as a rule, sleeps and is awake shortly before
//! what the wire sees: a launch, and a publish phase whose frames go at once. With an
//! [`EventClock`](rt::events::EventClock) a device ends the wait for one phase of a cycle.
//!
//! **Flood.** Reading ends when the application phase is due, or a launch: more frames than can be read until then stay
//! in the queue of their socket and are read in the next window, and what finds no room there the kernel drops and
//! counts. So strangers' frames cost readings, never the instants of the phases.
//!
//! **Overrun.** A beat that comes a whole cycle or more late skips to the next whole cycle: the cycles between are
//! counted, and its frames whose launch they held are not sent late but dropped and counted.
//!
//! **Time that is set.** Sleeps do not depend on it. Once a cycle the thread looks; when TAI was stepped, all instants to come
//! move with it, by a multiple of all cycles, so that no cycle is skipped or run twice and the phases keep their
//! places on the new time. What is left of the step, less than half that multiple, is waited for or is an overrun.
//!
//! After [`Executive::new`] nothing here allocates, locks or formats: the trace goes into a shared ring.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use measure::{Event, EventKind, LAUNCH_SKIPPED, Phase, Side};
use rt::clock::Clock;
use rt::ring::Producer;
use rt::wait::{Pacer, Wait};
use units::{Nanos, Tai};

use crate::beat::Beat;
use crate::launch::LaunchQueue;
use crate::outlet::Outlet;
use crate::sends::Publication;
use crate::spec::Dropped;

/// Longest wait in one socket while another window is open too.
const GLANCE: Nanos = Nanos(20_000);

/// When the executive runs.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    /// Start of cycle 0 of every beat.
    pub t0: Tai,
    /// Cycles begin until `t0 + duration`.
    pub duration: Nanos,
    /// How far TAI is ahead of UTC, for the timestamps in messages.
    pub tai_minus_utc: Nanos,
}

/// What a launch has to know about the end whose frame it is.
struct Owner {
    stream: u16,
    side: Side,
    outlet: Option<usize>,
    cycle: Nanos,
}

/// Beats, the outlets they share, and the trace.
pub struct Executive<'a, C> {
    span: Span,
    clock: C,
    wait: Wait,
    pacer: Pacer,
    /// Instants move by multiples of this when the time is set: of all cycles.
    common_cycle: Nanos,
    beats: Vec<Beat>,
    outlets: Vec<Outlet>,
    trace: Producer,
    stop: &'a dyn Fn() -> bool,
    /// The last request to drain.
    drains: &'a dyn Fn() -> u64,
    /// The next phase of every beat that is not done.
    agenda: BinaryHeap<Reverse<(Tai, usize)>>,
    launches: LaunchQueue,
    /// The ends of all beats by number: whose the frames in the launch queue are.
    owners: Vec<Owner>,
}

impl<'a, C: Clock> Executive<'a, C> {
    /// Builds everything that the cycles need.
    pub fn new(
        (clock, wait): (C, Wait),
        span: Span,
        mut beats: Vec<Beat>,
        outlets: Vec<Outlet>,
        trace: Producer,
        stop: &'a dyn Fn() -> bool,
    ) -> Self {
        let (mut depth, mut owners) = (0, Vec::new());
        for beat in &mut beats {
            beat.t0 = span.t0;
            beat.first_end = owners.len() as u32;
            let cycle = beat.times.cycle;
            depth += beat.ends.iter().map(|end| end.launch_depth(&beat.times)).sum::<usize>();
            owners.extend(beat.ends.iter().map(|end| Owner {
                stream: end.stream,
                side: end.side,
                outlet: end.outlet,
                cycle,
            }));
        }
        let agenda = beats.iter().enumerate().map(|(index, beat)| Reverse((beat.due(), index))).collect();
        let launches = LaunchQueue::new(depth);
        let cycles = || beats.iter().map(|beat| beat.times.cycle);
        let pacer = Pacer::new(wait, cycles().min().unwrap_or(span.duration));
        let common_cycle = cycles().reduce(common).unwrap_or(span.duration);
        Self {
            span,
            clock,
            wait,
            pacer,
            common_cycle,
            beats,
            outlets,
            trace,
            stop,
            drains: &never,
            agenda,
            launches,
            owners,
        }
    }

    /// Carries out requests to drain: `drains` gives the last of them, as [`crate::drain_request`] makes it, 0 before the
    /// first. It is asked once in each subscribe phase.
    #[must_use]
    pub fn with_drains(mut self, drains: &'a dyn Fn() -> u64) -> Self {
        self.drains = drains;
        self
    }

    /// Runs until the cycles are done or somebody says stop.
    pub fn run(&mut self) {
        loop {
            if (self.stop)() {
                return;
            }
            let next = self.agenda.peek().map(|Reverse(next)| *next);
            let launch = self.launches.first_due();
            if let Some(launch) = launch.filter(|launch| next.is_none_or(|(due, _)| *launch <= due)) {
                self.wait_until(launch, true);
                self.launch(launch);
                continue;
            }
            let Some((due, index)) = next else { return };
            self.agenda.pop();
            self.wait_until(due, self.beats[index].is_seen());
            let phase = self.beats[index].phase;
            self.phase(index, due);
            let beat = &self.beats[index];
            if beat.start_of(beat.cycle) < beat.t0 + self.span.duration {
                self.agenda.push(Reverse((beat.due(), index)));
            }
            if phase == self.beats[index].first() {
                self.follow_the_time();
            }
        }
    }

    /// The clock that it ran by.
    pub fn into_clock(self) -> C {
        self.clock
    }

    /// Frames for which the receive queues of this thread had no room, by interface; those without any are left out.
    pub fn dropped(&self) -> Vec<Dropped> {
        let inlets = self.beats.iter().flat_map(|beat| &beat.inlets);
        inlets.map(crate::Inlet::drops).filter(|dropped| dropped.frames > 0).collect()
    }

    /// Looks whether the time was set, and moves everything to come if so.
    fn follow_the_time(&mut self) {
        let Some(by) = self.clock.check_step() else { return };
        let whole = self.common_cycle.0.max(1);
        let moved = Nanos((by.0 + whole / 2).div_euclid(whole) * whole);
        self.span.t0 += moved;
        self.launches.shift(moved);
        for beat in &mut self.beats {
            beat.t0 += moved;
            beat.window_end = beat.window_end.map(|end| end + moved);
        }
        // In place: all move by the same span.
        let mut agenda = std::mem::take(&mut self.agenda).into_vec();
        agenda.iter_mut().for_each(|Reverse((due, _))| *due += moved);
        self.agenda = agenda.into();
        let at = self.clock.now();
        // Of threads with a phase each one tells it.
        let all = self.beats.iter().filter(|beat| beat.first() == Phase::Subscribe);
        if let Some(end) = all.flat_map(|beat| &beat.ends).next() {
            end.record(&mut self.trace, EventKind::ClockStepped { at, by });
        }
    }

    /// Runs the due phase of a beat, or skips cycles after an overrun.
    fn phase(&mut self, index: usize, due: Tai) {
        let began = self.clock.now();
        let late = began - due;
        let beat = &mut self.beats[index];
        if late >= beat.times.cycle {
            self.skip(index, began);
            return;
        }
        let (cycle, phase) = (beat.cycle, beat.phase);
        match phase {
            Phase::Subscribe => self.subscribe(index, due, began),
            Phase::Application => self.application(index, cycle, began),
            Phase::Publish | Phase::Launch => self.publish(index, cycle, began),
        }
        let took = self.clock.now() - began;
        let beat = &mut self.beats[index];
        for end in &beat.ends {
            end.record(&mut self.trace, EventKind::Phase { cycle, phase, due, late, took });
        }
        beat.advance();
    }

    /// Waits for an instant, exactly if the wire sees what happens then; reads meanwhile where a receive window is open.
    fn wait_until(&mut self, due: Tai, exactly: bool) {
        let margin = match self.wait {
            Wait::Spin => due - Tai(0),
            Wait::Hybrid if exactly => self.pacer.margin(),
            _ => Nanos::ZERO,
        };
        while let Some(closing) = self.beats.iter().filter_map(|beat| beat.window_end).min() {
            let end = closing.min(due);
            self.read_until(end, due - margin, due);
            if end == due {
                break;
            }
        }
        if exactly || self.wait == Wait::Spin {
            self.pacer.wait(&self.clock, due);
        } else {
            self.clock.sleep_until(due);
        }
    }

    /// Reads what arrives until `end`, before something that is `due` then or later. From `awake` on the thread does not
    /// sleep in the socket, so that a launch is not missed.
    fn read_until(&mut self, end: Tai, awake: Tai, due: Tai) {
        loop {
            let now = self.clock.now();
            if now >= end {
                return self.close(end, now, due);
            }
            self.drain_open(now, end);
            let sleep = end.min(awake) - self.clock.now();
            if sleep > Nanos::ZERO {
                self.sleep_in_socket(sleep);
            }
        }
    }

    fn drain_open(&mut self, now: Tai, until: Tai) {
        let Self { beats, clock, trace, .. } = self;
        for beat in beats.iter_mut().filter(|beat| beat.window_end.is_some()) {
            beat.drain(now, until, || clock.now(), trace);
        }
    }

    /// Reads once more where the window closes at `end`: what came in its last moments belongs to it.
    fn close(&mut self, end: Tai, now: Tai, due: Tai) {
        let Self { beats, clock, trace, .. } = self;
        for beat in beats.iter_mut().filter(|beat| beat.window_end.is_some_and(|closing| closing <= end)) {
            beat.drain(end, due.max(now + beat.grace()), || clock.now(), trace);
            beat.window_end = None;
        }
    }

    /// Sleeps until a frame arrives: in the one socket that can bring one, else by turns in short naps.
    fn sleep_in_socket(&mut self, sleep: Nanos) {
        let open = || self.beats.iter().enumerate().filter(|(_, beat)| beat.window_end.is_some());
        let mut sockets = open().flat_map(|(index, beat)| (0..beat.inlets.len()).map(move |inlet| (index, inlet)));
        let ((index, inlet), sleep) = match (sockets.next(), sockets.next()) {
            (None, _) => return self.nap(sleep),
            (Some(only), None) => (only, sleep),
            (Some(first), Some(_)) => (first, sleep.min(GLANCE)),
        };
        drop(sockets);
        let Beat { inlets, ends, .. } = &mut self.beats[index];
        let clock = &self.clock;
        if inlets[inlet].wait(sleep, ends, || clock.now(), &mut self.trace).is_err() {
            // The socket may have an error at once and for ever: the thread must not spin for it.
            self.nap(sleep.min(GLANCE));
        }
    }

    fn nap(&self, span: Nanos) {
        self.clock.sleep_until(self.clock.now() + span);
    }

    fn subscribe(&mut self, index: usize, due: Tai, began: Tai) {
        let request = (self.drains)();
        let Self { beats, clock, trace, agenda, launches, .. } = self;
        let next = agenda.peek().map(|Reverse((next, _))| *next).into_iter().chain(launches.first_due()).min();
        let beat = &mut beats[index];
        beat.asked(request);
        beat.ends.iter_mut().for_each(|end| end.endpoint.poll(began));
        beat.window_end = (beat.times.window > Nanos::ZERO).then_some(due + beat.times.window);
        // Late, it reads for a little while all the same, so that it catches up.
        let soonest = began + beat.grace();
        let end = (beat.start_of(beat.cycle) + beat.times.application).max(soonest);
        let until = next.map_or(end, |next| next.clamp(soonest, end));
        if beat.drain(due, until, || clock.now(), trace) && until < end {
            // Another beat or a launch is due. It goes first, then the reading goes on.
            beat.window_end = beat.window_end.max(Some(end));
        }
    }

    fn application(&mut self, index: usize, cycle: i64, began: Tai) {
        for end in &mut self.beats[index].ends {
            let changes = end.endpoint.supervise(cycle, began, self.span.tai_minus_utc);
            end.record_breaches(changes, cycle, began, &mut self.trace);
            let step = end.endpoint.application(cycle);
            let kind = EventKind::Application {
                cycle,
                wrote: step.wrote,
                read: step.read,
                repeated: step.repeated,
                missed: step.missed,
                round_trip_cycles: step.round_trip_cycles,
            };
            end.record(&mut self.trace, kind);
            end.give(cycle, began, step.read.is_some() && !step.repeated, &mut self.trace);
        }
    }

    fn publish(&mut self, index: usize, cycle: i64, began: Tai) {
        let beat = &mut self.beats[index];
        let next_start = beat.start_of(cycle + 1);
        // The first end hands over when the phase begins; the others look at the clock.
        let mut first = Some(began);
        for (number, end) in (beat.first_end..).zip(&mut beat.ends) {
            let launch = end.launch.map(|offset| next_start + offset);
            let Some(outlet) = end.outlet.and_then(|outlet| self.outlets.get_mut(outlet)) else { continue };
            let at = first.take().unwrap_or_else(|| self.clock.now());
            end.take(cycle, at, &mut self.trace);
            if launch.unwrap_or(at) < beat.t0 + end.start {
                continue;
            }
            let Some(outgoing) = end.endpoint.publish(at.to_date_time(self.span.tai_minus_utc)) else { continue };
            let handle = end.handle;
            end.handle = handle.wrapping_add(1);
            let publication = Publication { end: number, handle };
            let handed_over = match launch {
                Some(due) if outlet.keeps_launch_times() => outlet.send_at(publication, outgoing.frame, due),
                Some(due) if self.launches.push(due, publication, outgoing.frame) => Ok(()),
                Some(_) => Err(LAUNCH_SKIPPED),
                None => outlet.send(publication, outgoing.frame),
            };
            let published = if outgoing.substitute {
                EventKind::Substitute { at, value: outgoing.counter, handle: Some(handle) }
            } else {
                EventKind::Published {
                    cycle,
                    counter: outgoing.counter,
                    sequence: outgoing.sequence,
                    handle,
                    at,
                    launch,
                    bytes: outgoing.frame.len() as u32,
                    repeated: outgoing.repeated,
                }
            };
            end.record(&mut self.trace, published);
            if let Err(errno) = handed_over {
                end.record(&mut self.trace, EventKind::NotSent { handle, errno });
            }
        }
    }

    fn launch(&mut self, due: Tai) {
        let began = self.clock.now();
        let Some((publication, frame)) = self.launches.first() else { return };
        let owner = &self.owners[publication.end as usize];
        let sent = match owner.outlet.and_then(|outlet| self.outlets.get_mut(outlet)) {
            Some(outlet) => outlet.send(publication, frame),
            None => Ok(()),
        };
        let took = self.clock.now() - began;
        self.launches.pop();
        let mut record = |kind| self.trace.push(&Event { stream: owner.stream, side: owner.side, kind }.pack());
        if let Err(errno) = sent {
            record(EventKind::NotSent { handle: publication.handle, errno });
        }
        let cycle = (due - self.span.t0).0.div_euclid(owner.cycle.0);
        record(EventKind::Phase { cycle, phase: Phase::Launch, due, late: began - due, took });
    }

    /// Overrun: the beat came a whole cycle or more late. Goes on with the next whole cycle and counts the rest.
    fn skip(&mut self, index: usize, now: Tai) {
        let beat = &mut self.beats[index];
        let next = beat.cycle_of(now) + 1;
        let skipped =
            EventKind::Skipped { cycle: beat.cycle, cycles: u32::try_from(next - beat.cycle).unwrap_or(u32::MAX) };
        (beat.cycle, beat.phase, beat.window_end) = (next, beat.first(), None);
        let ends = &beat.ends;
        let last = beat.first_end + ends.len() as u32;
        self.launches.discard(beat.first_end..last, |publication| {
            let kind = EventKind::NotSent { handle: publication.handle, errno: LAUNCH_SKIPPED };
            ends[(publication.end - beat.first_end) as usize].record(&mut self.trace, kind);
        });
        for end in ends {
            end.record(&mut self.trace, skipped);
        }
    }
}

/// No request to drain.
fn never() -> u64 {
    0
}

/// The least common multiple of two cycles; the longer of them where that is beyond all bounds.
fn common(a: Nanos, b: Nanos) -> Nanos {
    let (mut x, mut y) = (a.0, b.0);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    (a.0 / x.max(1)).checked_mul(b.0).map_or(a.max(b), Nanos)
}

#[cfg(test)]
mod tests {
    use pubsub::{Endpoint, EndpointConfig, NetworkMessageLayout, Role};
    use rt::ring::Ring;
    use rt::testing::FakeClock;

    use super::*;
    use crate::beat::{End, Times};

    const CYCLE: Nanos = Nanos::from_millis(1);
    const CYCLES: i64 = 20;

    fn beat(stream: u16, cycle: Nanos) -> Beat {
        let times = Times {
            cycle,
            subscribe: Nanos::ZERO,
            window: Nanos::ZERO,
            application: cycle * 3 / 10,
            publish: cycle * 6 / 10,
        };
        let write = Some((NetworkMessageLayout::papers(1, 101 + stream, 3), None));
        let endpoint = Endpoint::new(EndpointConfig { role: Role::Source, write, read: None, variables: 3 }).unwrap();
        Beat::new(times, vec![End::new(stream, Side::Writer, None, endpoint)], Vec::new())
    }

    /// Runs beats by a scripted clock: what they told, and how long it took.
    fn run(clock: FakeClock, beats: Vec<Beat>) -> (Vec<EventKind>, Nanos) {
        let ring = Ring::create("executive", 4096).unwrap();
        let (producer, mut consumer) = (ring.producer().unwrap(), ring.consumer().unwrap());
        let span = Span { t0: clock.now() + CYCLE, duration: CYCLE * CYCLES, tai_minus_utc: Nanos::ZERO };
        let never = || false;
        let mut executive = Executive::new((clock, Wait::Sleep), span, beats, Vec::new(), producer, &never);
        executive.run();
        let elapsed = executive.clock.elapsed();
        let records = std::iter::from_fn(|| consumer.pop());
        (records.filter_map(|record| Event::unpack(&record)).map(|event| event.kind).collect(), elapsed)
    }

    fn clock() -> FakeClock {
        FakeClock::new(Tai(1_000_000_000_000)).with_read_cost(Nanos(20))
    }

    /// Cycles in which this phase ran, in the order in which it did.
    fn cycles(events: &[EventKind], of: Phase) -> Vec<i64> {
        let ran = |kind: &EventKind| match kind {
            EventKind::Phase { cycle, phase, .. } if *phase == of => Some(*cycle),
            _ => None,
        };
        events.iter().filter_map(ran).collect()
    }

    fn is_step(kind: &EventKind) -> bool {
        matches!(kind, EventKind::ClockStepped { .. })
    }

    #[test]
    fn every_phase_runs_once_a_cycle_and_is_never_early() {
        let (events, elapsed) = run(clock(), vec![beat(0, CYCLE)]);
        for phase in [Phase::Subscribe, Phase::Application, Phase::Publish] {
            assert_eq!(cycles(&events, phase), (0..CYCLES).collect::<Vec<_>>(), "{phase:?}");
        }
        let late = |kind: &EventKind| matches!(kind, EventKind::Phase { late, .. } if !(0..1_000).contains(&late.0));
        assert_eq!(events.iter().find(|kind| late(kind)), None);
        assert!(elapsed > CYCLE * CYCLES && elapsed < CYCLE * (CYCLES + 1), "{elapsed}");
    }

    #[test]
    fn setting_the_time_neither_stops_nor_skips_cycles() {
        for seconds in [1, -1, 37] {
            let by = Nanos::from_millis(1_000 * seconds);
            let clock = clock().with_step(CYCLE * 5 + Nanos(100_000), by);
            let (events, elapsed) = run(clock, vec![beat(0, CYCLE), beat(1, CYCLE * 4)]);
            let subscribed = cycles(&events, Phase::Subscribe);
            assert_eq!(subscribed.len() as i64, CYCLES + CYCLES / 4, "{seconds} s: {subscribed:?}");
            assert!(!events.iter().any(|kind| matches!(kind, EventKind::Skipped { .. })), "{seconds} s");
            let steps: Vec<_> = events.iter().filter(|kind| is_step(kind)).collect();
            assert!(matches!(steps[..], [EventKind::ClockStepped { by: told, .. }] if *told == by), "{steps:?}");
            assert!(elapsed < CYCLE * (CYCLES + 1), "{seconds} s: {elapsed}");
        }
    }

    #[test]
    fn after_a_step_that_is_no_whole_cycle_phases_keep_their_places_on_the_new_time() {
        let clock = clock().with_step(CYCLE * 5 + Nanos(100_000), CYCLE * 7 + Nanos(300_000));
        let (events, _) = run(clock, vec![beat(0, CYCLE)]);
        let mut dues = events.iter().filter_map(|kind| match kind {
            EventKind::Phase { phase: Phase::Subscribe, due, .. } => Some(*due),
            _ => None,
        });
        let first = dues.next().unwrap();
        assert!(dues.all(|due| (due - first).0 % CYCLE.0 == 0));
        let subscribed = cycles(&events, Phase::Subscribe);
        assert!(subscribed.is_sorted_by(|a, b| a < b), "none twice: {subscribed:?}");
    }

    #[test]
    fn an_overrun_goes_on_with_the_next_whole_cycle_and_counts_the_rest() {
        // The fourth sleep, for the first phase of cycle 1, ends 3.5 cycles late.
        let errors = [Nanos(0), Nanos(0), Nanos(0), CYCLE * 7 / 2];
        let (events, _) = run(clock().with_wake_errors(errors), vec![beat(0, CYCLE)]);
        let skipped: Vec<_> = events.iter().filter(|kind| matches!(kind, EventKind::Skipped { .. })).collect();
        assert_eq!(skipped, [&EventKind::Skipped { cycle: 1, cycles: 4 }]);
        let expected: Vec<_> = [0].into_iter().chain(5..CYCLES).collect();
        assert_eq!(cycles(&events, Phase::Subscribe), expected);
    }

    /// Runs two beats whose frames a queue of the kernel keeps: what they told, and what the queue got.
    fn run_with_launch_times(refuses: bool) -> (Vec<EventKind>, Vec<Tai>) {
        let taken = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let target = crate::Target::Scripted { taken: std::sync::Arc::clone(&taken), refuses };
        let mut beats = vec![beat(0, CYCLE), beat(1, CYCLE)];
        for end in beats.iter_mut().flat_map(|beat| &mut beat.ends) {
            (end.outlet, end.launch) = (Some(0), Some(CYCLE / 2));
        }
        let ring = Ring::create("executive", 4096).unwrap();
        let (producer, mut consumer) = (ring.producer().unwrap(), ring.consumer().unwrap());
        let clock = clock();
        let span = Span { t0: clock.now() + CYCLE, duration: CYCLE * CYCLES, tai_minus_utc: Nanos::ZERO };
        let never = || false;
        let outlets = vec![Outlet::with_launch_times(target)];
        let mut executive = Executive::new((clock, Wait::Sleep), span, beats, outlets, producer, &never);
        executive.run();
        assert_eq!(executive.launches.first_due(), None, "nothing waits for its launch here");
        let records = std::iter::from_fn(|| consumer.pop());
        let events = records.filter_map(|record| Event::unpack(&record)).map(|event| event.kind).collect();
        let taken = taken.lock().unwrap().clone();
        (events, taken)
    }

    #[test]
    fn what_the_kernel_keeps_goes_to_it_in_the_publish_phase_with_its_launch_time() {
        let (events, taken) = run_with_launch_times(false);
        assert!(cycles(&events, Phase::Launch).is_empty());
        assert_eq!(taken.len() as i64, 2 * CYCLES);
        let launches: Vec<_> = events
            .iter()
            .filter_map(|kind| match kind {
                EventKind::Published { at, launch, .. } => Some((*at, launch.unwrap())),
                _ => None,
            })
            .collect();
        // Both streams have one launch time a cycle: the queue gets them a nanosecond apart, the trace as planned.
        for (pair, got) in launches.chunks(2).zip(taken.chunks(2)) {
            assert_eq!((pair[0].1, pair[1].1), (got[0], got[0]));
            assert_eq!(got[1], got[0] + Nanos(1));
            assert!(pair.iter().all(|(at, launch)| at < launch), "{pair:?}");
        }
        assert!(launches.iter().is_sorted_by_key(|(_, launch)| *launch));
    }

    #[test]
    fn what_the_queue_refuses_is_told_of_its_send() {
        let (events, taken) = run_with_launch_times(true);
        assert!(taken.is_empty());
        let refused = |kind: &&EventKind| matches!(kind, EventKind::NotSent { errno: measure::LAUNCH_REFUSED, .. });
        assert_eq!(events.iter().filter(refused).count() as i64, 2 * CYCLES);
    }

    #[test]
    fn cycles_have_a_common_multiple() {
        assert_eq!(common(Nanos(250), Nanos(1_000)), Nanos(1_000));
        assert_eq!(common(Nanos(4), Nanos(6)), Nanos(12));
        assert_eq!(common(Nanos(i64::MAX), Nanos(i64::MAX - 1)), Nanos(i64::MAX));
    }
}
