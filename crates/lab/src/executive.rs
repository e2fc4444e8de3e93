//! The cyclic executive: one thread that drives one end of a stream through its phases.
//!
//! Within a cycle of length c that begins at t0 + k·c the end subscribes (and goes on reading until its receive
//! window closes), runs the application, and publishes; a frame with a launch time then waits in the launch queue for
//! the next cycle start + offset, which may lie beyond the next publish phase. All instants are absolute, so lateness
//! never adds up. Where two fall together the launch goes first: it is the one that the wire sees.
//!
//! After [`Executive::new`] nothing here allocates, locks or formats: the trace goes into a shared ring.

use std::sync::Arc;

use link::{Receiver, Sender};
use measure::{Event, EventKind, Phase, Side};
use pubsub::{Endpoint, Mismatch, Reception};
use rt::clock::{self, Pacer};
use rt::ring::Producer;
use units::{Nanos, Tai};

use crate::launch::LaunchQueue;
use crate::sends::Sends;

/// How long before a launch the thread stops sleeping and spins, so that a late wake-up does not delay the frame.
const SPIN_MARGIN: Nanos = Nanos(100_000);

/// `errno` of a launch that an overrun skipped.
const ETIME: i32 = 62;

/// What a frame of another layout is, when nobody asks where it differs.
const FOREIGN: Reception = Reception::Foreign(Mismatch { offset: 0, expected: None, found: None });

/// When one end of a stream does what.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    /// Index of the stream in the scenario.
    pub stream: u16,
    /// Which end.
    pub side: Side,
    /// Start of cycle 0.
    pub t0: Tai,
    /// The stream's cycle.
    pub cycle: Nanos,
    /// From the start of the cycle to the subscribe phase.
    pub subscribe: Nanos,
    /// How long the subscribe phase reads.
    pub window: Nanos,
    /// From the start of the cycle to the application phase.
    pub application: Nanos,
    /// From the start of the cycle to the publish phase.
    pub publish: Nanos,
    /// From the start of the next cycle to the launch; `None` sends when the frame is built.
    pub launch: Option<Nanos>,
    /// No launch before `t0 + start`.
    pub start: Nanos,
    /// Ends after so many cycles.
    pub cycles: i64,
    /// VID and PCP that frames of the stream carry.
    pub tag: (u16, u8),
    /// How far TAI is ahead of UTC, for the timestamps in messages.
    pub tai_minus_utc: Nanos,
}

/// Why an executive ended before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// All cycles done.
    Done,
    /// Told to stop.
    Stopped,
    /// The receiving socket failed with this `errno`.
    Receive(i32),
}

/// Where frames and trace records go and come from.
pub(crate) struct Doors {
    /// None for an end that only reads.
    pub(crate) sender: Option<Sender>,
    /// None for an end that only writes.
    pub(crate) receiver: Option<Receiver>,
    /// The shared ring.
    pub(crate) trace: Producer,
    /// Which publication each send was.
    pub(crate) sends: Arc<Sends>,
}

/// One end of a stream, its sockets and its trace.
pub(crate) struct Executive<'a> {
    plan: Plan,
    endpoint: Endpoint,
    doors: Doors,
    stop: &'a dyn Fn() -> bool,
    launches: LaunchQueue,
    /// Until when the receive window is open; none outside it.
    window_end: Option<Tai>,
    /// Publications so far: the handle of the next.
    handle: u32,
    /// Calls of `send` so far.
    sent: u32,
    receive_error: Option<i32>,
}

impl<'a> Executive<'a> {
    /// Builds everything that the cycle needs.
    pub(crate) fn new(plan: Plan, endpoint: Endpoint, doors: Doors, stop: &'a dyn Fn() -> bool) -> Self {
        // Frames wait from the publish phase to the launch; one more than fit in between.
        let wait = plan.launch.map_or(Nanos::ZERO, |offset| plan.cycle - plan.publish + offset);
        let depth = wait.0.div_euclid(plan.cycle.0) as usize + 2;
        Self {
            plan,
            endpoint,
            doors,
            stop,
            launches: LaunchQueue::new(depth),
            window_end: None,
            handle: 0,
            sent: 0,
            receive_error: None,
        }
    }

    /// Runs until the cycles are done or somebody says stop.
    pub(crate) fn run(&mut self) -> Ended {
        let mut cycle = 0;
        let mut phase = Phase::Subscribe;
        loop {
            if (self.stop)() {
                return Ended::Stopped;
            }
            if let Some(errno) = self.receive_error {
                return Ended::Receive(errno);
            }
            let due = self.due(cycle, phase);
            if let Some(launch) = self.launches.first_due().filter(|launch| *launch <= due) {
                self.wait_until(launch, true);
                self.launch(launch);
                continue;
            }
            if cycle >= self.plan.cycles {
                return Ended::Done;
            }
            self.wait_until(due, false);
            let began = clock::now();
            let late = began - due;
            if late >= self.plan.cycle {
                cycle = self.skip(cycle, began);
                phase = Phase::Subscribe;
                continue;
            }
            match phase {
                Phase::Subscribe => self.subscribe(due),
                Phase::Application => self.application(cycle),
                Phase::Publish | Phase::Launch => self.publish(cycle, began),
            }
            self.record(EventKind::Phase { cycle, phase, due, late, took: clock::now() - began });
            (cycle, phase) = match phase {
                Phase::Subscribe => (cycle, Phase::Application),
                Phase::Application => (cycle, Phase::Publish),
                Phase::Publish | Phase::Launch => (cycle + 1, Phase::Subscribe),
            };
        }
    }

    /// Frames that the kernel dropped before this end's socket.
    pub(crate) fn receiver_drops(&self) -> u64 {
        self.doors.receiver.as_ref().and_then(|receiver| receiver.drops().ok()).unwrap_or(0)
    }

    fn due(&self, cycle: i64, phase: Phase) -> Tai {
        let within = match phase {
            Phase::Subscribe => self.plan.subscribe,
            Phase::Application => self.plan.application,
            Phase::Publish | Phase::Launch => self.plan.publish,
        };
        self.plan.t0 + self.plan.cycle * cycle + within
    }

    /// Waits for an instant; reads meanwhile as long as the receive window is open.
    fn wait_until(&mut self, due: Tai, spin: bool) {
        let margin = if spin { SPIN_MARGIN } else { Nanos::ZERO };
        if let Some(window_end) = self.window_end {
            self.read_until(window_end.min(due), due - margin);
            if window_end <= due {
                self.window_end = None;
            }
        }
        Pacer::new(margin).wait(due);
    }

    /// Reads what arrives until `end`, and once more after it: what came in the last moments belongs to the window.
    /// From `awake` on the thread does not sleep in the socket, so that a launch is not missed.
    fn read_until(&mut self, end: Tai, awake: Tai) {
        loop {
            let now = clock::now();
            self.drain(now.min(end));
            if now >= end {
                return;
            }
            let sleep = end.min(awake) - now;
            if let Some(receiver) = &self.doors.receiver
                && sleep > Nanos::ZERO
            {
                // An error shows at the next read.
                _ = receiver.wait(sleep);
            }
        }
    }

    fn subscribe(&mut self, due: Tai) {
        self.window_end = (self.plan.window > Nanos::ZERO).then_some(due + self.plan.window);
        self.drain(due);
    }

    fn drain(&mut self, now: Tai) {
        let Some(receiver) = &mut self.doors.receiver else { return };
        let cycle = (now - self.plan.t0).0.div_euclid(self.plan.cycle.0);
        loop {
            let received = match receiver.receive() {
                Ok(Some(received)) => received,
                Ok(None) => return,
                Err(error) => {
                    self.receive_error = Some(error.raw_os_error().unwrap_or(0));
                    return;
                }
            };
            let tag = received.tag.map(|tag| (tag.vid, tag.pcp));
            let stamp = received.stamp;
            // With another tag it is not of this stream, whatever it holds: counted, not taken.
            let reception = if tag == Some(self.plan.tag) {
                self.endpoint.receive(received.uadp)
            } else {
                self.endpoint
                    .peek(received.uadp)
                    .map_or(FOREIGN, |counter| Reception::Message { counter, superseded: None })
            };
            let decoded = clock::now();
            let arrived = |counter, superseded, inconsistent| EventKind::Arrived {
                cycle,
                counter,
                stamp,
                decoded,
                tag,
                superseded,
                inconsistent,
            };
            let kind = match reception {
                Reception::Message { counter, superseded } => arrived(counter, superseded, false),
                Reception::Inconsistent { counter } => arrived(counter, None, true),
                Reception::Foreign(_) => EventKind::Foreign { at: decoded },
            };
            self.doors.trace.push(&Event { stream: self.plan.stream, side: self.plan.side, kind }.pack());
        }
    }

    fn application(&mut self, cycle: i64) {
        let step = self.endpoint.application(cycle);
        self.record(EventKind::Application {
            cycle,
            wrote: step.wrote,
            read: step.read,
            repeated: step.repeated,
            missed: step.missed,
            round_trip_cycles: step.round_trip_cycles,
        });
    }

    fn publish(&mut self, cycle: i64, at: Tai) {
        let launch = self.plan.launch.map(|offset| self.plan.t0 + self.plan.cycle * (cycle + 1) + offset);
        if launch.unwrap_or(at) < self.plan.t0 + self.plan.start {
            return;
        }
        let Some(sender) = &self.doors.sender else { return };
        let Some(outgoing) = self.endpoint.publish(at.to_date_time(self.plan.tai_minus_utc)) else { return };
        let handle = self.handle;
        self.handle = self.handle.wrapping_add(1);
        let failed = match launch {
            Some(due) => !self.launches.push(due, handle, outgoing.frame),
            None => false,
        };
        let sent = if launch.is_none() {
            self.doors.sends.note(self.sent, handle);
            self.sent = self.sent.wrapping_add(1);
            sender.send(outgoing.frame).map_err(|error| error.errno())
        } else {
            Ok(())
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
        self.record(published);
        if let Err(errno) = sent {
            self.record(EventKind::NotSent { handle, errno });
        } else if failed {
            self.record(EventKind::NotSent { handle, errno: ETIME });
        }
    }

    fn launch(&mut self, due: Tai) {
        let began = clock::now();
        let (Some(sender), Some((handle, frame))) = (&self.doors.sender, self.launches.first()) else { return };
        self.doors.sends.note(self.sent, handle);
        self.sent = self.sent.wrapping_add(1);
        let sent = sender.send(frame);
        let took = clock::now() - began;
        self.launches.pop();
        if let Err(error) = sent {
            self.record(EventKind::NotSent { handle, errno: error.errno() });
        }
        let cycle = (due - self.plan.t0).0.div_euclid(self.plan.cycle.0);
        self.record(EventKind::Phase { cycle, phase: Phase::Launch, due, late: began - due, took });
    }

    /// Overrun: the thread came a whole cycle or more late. Goes on with the next whole cycle and counts the rest.
    fn skip(&mut self, cycle: i64, now: Tai) -> i64 {
        let next = (now - self.plan.t0).0.div_euclid(self.plan.cycle.0) + 1;
        while let Some((handle, _)) = self.launches.first() {
            self.launches.pop();
            self.record(EventKind::NotSent { handle, errno: ETIME });
        }
        self.window_end = None;
        self.record(EventKind::Skipped { cycle, cycles: u32::try_from(next - cycle).unwrap_or(u32::MAX) });
        next
    }

    fn record(&mut self, kind: EventKind) {
        self.doors.trace.push(&Event { stream: self.plan.stream, side: self.plan.side, kind }.pack());
    }
}
