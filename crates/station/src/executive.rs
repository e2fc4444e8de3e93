//! The cyclic executive: one thread that drives ends of streams through their phases.
//!
//! Within a cycle of length c that begins at t0 + k·c an end subscribes (and goes on reading until its receive
//! window closes), runs the application, and publishes; a frame with a launch time then waits in the launch queue for
//! the next cycle start + offset, which may lie beyond the next publish phase. All instants are absolute, so lateness
//! never adds up. Where two fall together the launch goes first: it is the one that the wire sees.
//!
//! **Overrun.** A beat that comes a whole cycle or more late skips to the next whole cycle: the cycles between are
//! counted, and its frames whose launch they held are not sent late but dropped and counted.
//!
//! After [`Executive::new`] nothing here allocates, locks or formats: the trace goes into a shared ring.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use measure::{Event, EventKind, LAUNCH_SKIPPED, Phase, Side};
use rt::clock;
use rt::ring::Producer;
use units::{Nanos, Tai};

use crate::beat::Beat;
use crate::launch::LaunchQueue;
use crate::outlet::Outlet;
use crate::sends::Publication;

/// How long before a launch the thread stops sleeping and spins, so that a late wake-up does not delay the frame.
const SPIN_MARGIN: Nanos = Nanos(100_000);

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
pub struct Executive<'a> {
    span: Span,
    beats: Vec<Beat>,
    outlets: Vec<Outlet>,
    trace: Producer,
    stop: &'a dyn Fn() -> bool,
    /// The next phase of every beat that is not done.
    agenda: BinaryHeap<Reverse<(Tai, usize)>>,
    launches: LaunchQueue,
    /// The ends of all beats by number: whose the frames in the launch queue are.
    owners: Vec<Owner>,
}

impl<'a> Executive<'a> {
    /// Builds everything that the cycles need.
    pub fn new(
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
        Self { span, beats, outlets, trace, stop, agenda, launches, owners }
    }

    /// Runs until the cycles are done or somebody says stop.
    pub fn run(&mut self) {
        let until = self.span.t0 + self.span.duration;
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
            self.wait_until(due, false);
            self.phase(index, due);
            let beat = &self.beats[index];
            if beat.start_of(beat.cycle) < until {
                self.agenda.push(Reverse((beat.due(), index)));
            }
        }
    }

    /// Frames that the kernel dropped before the sockets of this thread.
    pub fn receiver_drops(&self) -> u64 {
        self.beats.iter().flat_map(|beat| &beat.inlets).map(crate::Inlet::drops).sum()
    }

    /// Runs the due phase of a beat, or skips cycles after an overrun.
    fn phase(&mut self, index: usize, due: Tai) {
        let began = clock::now();
        let late = began - due;
        let beat = &mut self.beats[index];
        if late >= beat.times.cycle {
            self.skip(index, began);
            return;
        }
        let (cycle, phase) = (beat.cycle, beat.phase);
        match phase {
            Phase::Subscribe => self.subscribe(index, due),
            Phase::Application => self.application(index, cycle),
            Phase::Publish | Phase::Launch => self.publish(index, cycle, began),
        }
        let took = clock::now() - began;
        let beat = &mut self.beats[index];
        for end in &beat.ends {
            end.record(&mut self.trace, EventKind::Phase { cycle, phase, due, late, took });
        }
        beat.advance();
    }

    /// Waits for an instant; reads meanwhile where a receive window is open.
    fn wait_until(&mut self, due: Tai, spin: bool) {
        let margin = if spin { SPIN_MARGIN } else { Nanos::ZERO };
        while let Some(closing) = self.beats.iter().filter_map(|beat| beat.window_end).min() {
            let end = closing.min(due);
            self.read_until(end, due - margin);
            self.beats.iter_mut().for_each(|beat| beat.window_end = beat.window_end.filter(|closing| *closing > end));
            if end == due {
                break;
            }
        }
        clock::sleep_through(due - margin);
        while clock::now() < due {
            std::hint::spin_loop();
        }
    }

    /// Reads what arrives until `end`, and once more after it: what came in the last moments belongs to the window.
    /// From `awake` on the thread does not sleep in the socket, so that a launch is not missed.
    fn read_until(&mut self, end: Tai, awake: Tai) {
        loop {
            let now = clock::now();
            self.drain_open(now.min(end));
            if now >= end {
                return;
            }
            let sleep = end.min(awake) - now;
            if sleep > Nanos::ZERO {
                self.sleep_in_socket(sleep);
            }
        }
    }

    fn drain_open(&mut self, now: Tai) {
        for beat in self.beats.iter_mut().filter(|beat| beat.window_end.is_some()) {
            beat.drain(now, clock::now, &mut self.trace);
        }
    }

    /// Sleeps until a frame arrives: in the one socket that can bring one, else by turns in short naps.
    fn sleep_in_socket(&mut self, sleep: Nanos) {
        let open = || self.beats.iter().enumerate().filter(|(_, beat)| beat.window_end.is_some());
        let mut sockets = open().flat_map(|(index, beat)| (0..beat.inlets.len()).map(move |inlet| (index, inlet)));
        let ((index, inlet), sleep) = match (sockets.next(), sockets.next()) {
            (None, _) => return clock::sleep_through(clock::now() + sleep),
            (Some(only), None) => (only, sleep),
            (Some(first), Some(_)) => (first, sleep.min(GLANCE)),
        };
        drop(sockets);
        let Beat { inlets, ends, .. } = &mut self.beats[index];
        if inlets[inlet].wait(sleep, ends, &mut self.trace).is_err() {
            // The socket may have an error at once and for ever: the thread must not spin for it.
            clock::sleep_through(clock::now() + sleep.min(GLANCE));
        }
    }

    fn subscribe(&mut self, index: usize, due: Tai) {
        let beat = &mut self.beats[index];
        beat.window_end = (beat.times.window > Nanos::ZERO).then_some(due + beat.times.window);
        beat.drain(due, clock::now, &mut self.trace);
    }

    fn application(&mut self, index: usize, cycle: i64) {
        for end in &mut self.beats[index].ends {
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
            let at = first.take().unwrap_or_else(clock::now);
            if launch.unwrap_or(at) < beat.t0 + end.start {
                continue;
            }
            let Some(outgoing) = end.endpoint.publish(at.to_date_time(self.span.tai_minus_utc)) else { continue };
            let handle = end.handle;
            end.handle = handle.wrapping_add(1);
            let publication = Publication { end: number, handle };
            let handed_over = match launch {
                Some(due) if self.launches.push(due, publication, outgoing.frame) => Ok(()),
                Some(_) => Err(LAUNCH_SKIPPED),
                None => outlet.send(publication, outgoing.frame),
            };
            let published = EventKind::Published {
                cycle,
                counter: outgoing.counter,
                sequence: outgoing.sequence,
                handle,
                at,
                launch,
                bytes: outgoing.frame.len() as u32,
                repeated: outgoing.repeated,
            };
            end.record(&mut self.trace, published);
            if let Err(errno) = handed_over {
                end.record(&mut self.trace, EventKind::NotSent { handle, errno });
            }
        }
    }

    fn launch(&mut self, due: Tai) {
        let began = clock::now();
        let Some((publication, frame)) = self.launches.first() else { return };
        let owner = &self.owners[publication.end as usize];
        let sent = match owner.outlet.and_then(|outlet| self.outlets.get_mut(outlet)) {
            Some(outlet) => outlet.send(publication, frame),
            None => Ok(()),
        };
        let took = clock::now() - began;
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
        (beat.cycle, beat.phase, beat.window_end) = (next, Phase::Subscribe, None);
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
