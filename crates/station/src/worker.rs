//! One cyclic thread: its ends opened, prepared, run.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use link::Departure;
use measure::{Event, EventKind, Side};
use pubsub::StandingBacklog;
use rt::clock::{Clock, SystemClock};
use rt::ptp::EventQueue;
use rt::ring::{Producer, Ring};
use scenario::{ApplicationKind, HostId, Scenario, StreamEnd};
use units::{Nanos, Tai};

use crate::beat::{Beat, End, Times};
use crate::departure;
use crate::executive::{Executive, Span};
use crate::outlet::Outlet;
use crate::outside::{Outside, image_name};
use crate::scheduling::{self, Scheduling};
use crate::sends::{Publication, Sends};
use crate::sockets::{Entrance, Sockets};
use crate::spec::{EndSpec, OutletSpec, RoleSpec, ThreadSpec, WorkerFinished, WorkerSpec, cells};

/// SCHED_FIFO priority of a thread that runs all phases, or the application phase. Where phases have threads of their own
/// what the wire sees comes first, then what it brings.
const PRIORITY: u8 = 80;

/// A cyclic thread before it starts.
pub(crate) struct Worker {
    beats: Vec<Beat>,
    outlets: Vec<Outlet>,
    ring: Ring,
    trace: Producer,
    /// One for each outlet; they go to the threads that fetch stamps.
    stamps: Vec<Producer>,
    cpu: usize,
    /// Its priority where it has SCHED_FIFO.
    priority: u8,
    tai_minus_utc: Nanos,
    /// The events that begin a phase of its cycles; none where a timer does.
    events: Option<EventQueue>,
    /// Base time of the cycles, where counters begin with the number of their cycle since then.
    counted_since: Option<Tai>,
}

impl Worker {
    /// Opens the sockets and rings of a thread; or of three threads, with a phase each.
    ///
    /// # Errors
    /// What could not be opened, in words.
    pub(crate) fn open(
        spec: &RoleSpec,
        worker: &WorkerSpec,
        scenario: &Scenario,
        sockets: &mut Sockets<'_>,
    ) -> Result<Vec<Self>, String> {
        let names = worker.outlets(scenario);
        let (mut outlets, mut places): (Vec<Outlet>, Vec<usize>) = (Vec::new(), Vec::new());
        for (number, wanted) in names.iter().enumerate() {
            let same = |other: &OutletSpec<'_>| (other.interface, other.to) == (wanted.interface, wanted.to);
            let earlier = names[..number].iter().position(same).filter(|_| sockets.all_leave_alike(wanted));
            if let Some(earlier) = earlier {
                places.push(places[earlier]);
            } else {
                places.push(outlets.len());
                outlets.push(sockets.outlet(wanted)?);
            }
        }
        // The first of those that share an outlet has its ring.
        let first = |place: usize| places.iter().position(|other| *other == place);
        let kept: Vec<usize> = (0..outlets.len()).filter_map(first).collect();
        let mut beats = Vec::new();
        for (times, ends) in rhythms(scenario, HostId(spec.host), &worker.ends) {
            let mut opened = Vec::new();
            let mut reading: Vec<(Entrance<'_>, Vec<(usize, &EndSpec)>)> = Vec::new();
            for (index, end) in ends.into_iter().enumerate() {
                let outlet = end.outlet(scenario);
                let outlet = end.sends(scenario).then(|| names.iter().position(|name| *name == outlet)).flatten();
                let outlet = outlet.map(|name| places[name]);
                opened.push(open_end(spec, scenario, end, outlet)?);
                if end.receives(scenario) {
                    let entrance = Entrance { interface: &end.interface, at: end.receives_at(scenario) };
                    match reading.iter_mut().find(|(other, _)| *other == entrance) {
                        Some((_, ends)) => ends.push((index, end)),
                        None => reading.push((entrance, vec![(index, end)])),
                    }
                }
            }
            let inlets =
                reading.iter().map(|(entrance, ends)| sockets.inlet(*entrance, ends)).collect::<Result<_, _>>()?;
            let mut beat = Beat::new(times, opened, inlets);
            beat.backlog = scenario.backlog;
            beats.push(beat);
        }
        let attach = |number: &_| Ring::attach_inherited(*number).map_err(|error| error.to_string());
        let produce = |number: &_| attach(number)?.producer().map_err(|error| error.to_string());
        let stamps = kept.iter().filter_map(|name| worker.stamps.get(*name)).map(produce).collect::<Result<_, _>>()?;
        let tai_minus_utc = sockets.tai_minus_utc();
        let counted_since = spec.absolute_counters.then_some(scenario.base_time);
        let thread = |thread: &ThreadSpec, priority, beats: Vec<Beat>, outlets, stamps| {
            let ring = attach(&thread.trace)?;
            let trace = ring.producer().map_err(|error| error.to_string())?;
            let cpu = thread.cpu;
            let events = spec.events.as_ref().map(|events| events.queue(&beats)).transpose()?.flatten();
            Ok::<_, String>(Self {
                beats,
                outlets,
                ring,
                trace,
                stamps,
                cpu,
                priority,
                tai_minus_utc,
                events,
                counted_since,
            })
        };
        let [reads, computes, writes] = match &worker.threads[..] {
            [all] => return Ok(vec![thread(all, PRIORITY, beats, outlets, stamps)?]),
            [reads, computes, writes] => [reads, computes, writes],
            other => return Err(format!("{} threads for these ends: there may be one or three", other.len())),
        };
        let mut parts = [const { Vec::new() }; 3];
        for beat in beats {
            let apart = beat.apart()?;
            parts.iter_mut().zip(apart).for_each(|(parts, beat)| parts.push(beat));
        }
        let [reading, computing, writing] = parts;
        Ok(vec![
            thread(reads, PRIORITY + 1, reading, Vec::new(), Vec::new())?,
            thread(computes, PRIORITY, computing, Vec::new(), Vec::new())?,
            thread(writes, PRIORITY + 2, writing, outlets, stamps)?,
        ])
    }

    /// Runs the thread from its preparation to its last cycle.
    pub(crate) fn run(
        mut self,
        spec: &RoleSpec,
        granted: &std::sync::mpsc::Sender<Vec<String>>,
        terminated: &Arc<AtomicBool>,
    ) -> WorkerFinished {
        // The threads that fetch stamps start first: they must not inherit the processor and stay ordinary.
        let tells = spec.is_stamped() || self.outlets.iter().any(Outlet::keeps_launch_times);
        let fetching = Arc::new(AtomicBool::new(tells));
        let fetchers = if tells { self.fetch_stamps(&fetching) } else { Vec::new() };
        let wished = if spec.realtime { spec.scheduling } else { Scheduling::None };
        let deadline = (wished == Scheduling::Deadline)
            .then(|| {
                let only = self.beats.first().and_then(|beat| beat.only);
                scheduling::share(self.beats.iter().map(|beat| &beat.times), only, spec.wait)
            })
            .flatten();
        let requested = rt::thread::Requested {
            fifo_priority: (wished == Scheduling::Fifo).then_some(self.priority),
            // The kernel gives deadlines only to threads that may run on every processor.
            cpu: (spec.realtime && deadline.is_none()).then_some(self.cpu),
            lock_memory: spec.realtime,
            timer_slack_1ns: true,
            cpu_dma_latency: spec.realtime,
            deadline,
        };
        let grant = rt::thread::prepare(&requested);
        _ = granted.send(grant.describe());
        while self.ring.cell(cells::START).load(Ordering::Acquire) == 0 && !is_to_stop(&self.ring, terminated) {
            rt::clock::sleep_through(rt::clock::now() + Nanos::from_millis(1));
        }
        let t0 = Tai(self.ring.cell(cells::START).load(Ordering::Acquire) as i64);
        if let Some(base) = self.counted_since {
            count_from(&mut self.beats, base, t0);
        }
        self.beats.iter().flat_map(|beat| &beat.ends).filter_map(|end| end.outside.as_ref()).for_each(Outside::begin);
        let finished = match (self.events.take(), &spec.events) {
            (Some(queue), Some(events)) => {
                let (mut finished, clock) = self.cycles(spec, events.clock(queue, t0), t0, terminated);
                finished.events = Some(clock.counts().into());
                finished
            }
            _ => self.cycles(spec, SystemClock::new(), t0, terminated).0,
        };
        // The last frames' stamps are still on their way.
        rt::clock::sleep_through(rt::clock::now() + Nanos::from_millis(5));
        fetching.store(false, Ordering::Relaxed);
        fetchers.into_iter().for_each(|fetcher| _ = fetcher.join());
        drop(grant);
        finished
    }

    /// Runs the cycles by a clock; gives it back.
    fn cycles<C: Clock>(self, spec: &RoleSpec, clock: C, t0: Tai, terminated: &AtomicBool) -> (WorkerFinished, C) {
        let ring = self.ring;
        let stop = || is_to_stop(&ring, terminated);
        let drains = || ring.cell(cells::DRAIN).load(Ordering::Relaxed);
        let span = Span { t0, duration: spec.duration(), tai_minus_utc: self.tai_minus_utc };
        let by = (clock, spec.wait);
        let mut executive = Executive::new(by, span, self.beats, self.outlets, self.trace, &stop).with_drains(&drains);
        let before = rt::alloc::allocations_of_this_thread();
        if !stop() {
            executive.run();
        }
        let allocations = rt::alloc::allocations_of_this_thread() - before;
        (WorkerFinished { allocations, dropped: executive.dropped(), events: None }, executive.into_clock())
    }

    /// Starts the threads that fetch transmit timestamps and put them into their rings, one an outlet.
    fn fetch_stamps(&mut self, fetching: &Arc<AtomicBool>) -> Vec<JoinHandle<()>> {
        let names: Arc<[(u16, Side)]> =
            self.beats.iter().flat_map(|beat| &beat.ends).map(|end| (end.stream, end.side)).collect();
        let mut fetchers = Vec::new();
        for (outlet, mut ring) in self.outlets.iter().zip(std::mem::take(&mut self.stamps)) {
            let Some(Ok(mut reader)) = outlet.stamps(self.tai_minus_utc) else { continue };
            let (fetching, sends, names) = (Arc::clone(fetching), Arc::clone(outlet.sends()), Arc::clone(&names));
            fetchers.push(thread::spawn(move || {
                while fetching.load(Ordering::Relaxed) {
                    while let Ok(Some(departure)) = reader.wait(Nanos::from_millis(20)) {
                        if let Some(event) = event_of(&departure, &sends, &names) {
                            ring.push(&event.pack());
                        }
                    }
                }
            }));
        }
        fetchers
    }
}

/// Whether the parent, or whoever ends this process, says stop.
fn is_to_stop(ring: &Ring, terminated: &AtomicBool) -> bool {
    ring.cell(cells::STOP).load(Ordering::Relaxed) != 0 || terminated.load(Ordering::Relaxed)
}

/// What a trace says of what became of a send; none when nobody knows which it was.
fn event_of(departure: &Departure, sends: &Sends, names: &[(u16, Side)]) -> Option<Event> {
    let id = match departure {
        Departure::Left(stamp) => stamp.id,
        // Launch times of an outlet differ, so that only a loss of a thousand sends ago has no number.
        Departure::Lost(lost) => lost.id?,
    };
    let Publication { end, handle } = sends.publication(id);
    let &(stream, side) = names.get(end as usize)?;
    let kind = match departure {
        Departure::Left(stamp) => EventKind::Left { handle, at: stamp.at },
        Departure::Lost(lost) => EventKind::NotSent { handle, errno: departure::lost(lost) },
    };
    Some(Event { stream, side, kind })
}

/// Lets writers count from the number of the first cycle since the base time.
fn count_from(beats: &mut [Beat], base: Tai, t0: Tai) {
    for beat in beats {
        let elapsed = (t0 - base).0.div_euclid(beat.times.cycle.0).max(0);
        beat.ends.iter_mut().for_each(|end| end.endpoint.count_from(elapsed.unsigned_abs() + 1));
    }
}

/// The ends of a thread by their rhythm, in the order of the scenario.
pub(crate) fn rhythms<'a>(scenario: &Scenario, host: HostId, ends: &'a [EndSpec]) -> Vec<(Times, Vec<&'a EndSpec>)> {
    let phases = scenario.host(host).phases;
    let mut found: Vec<(Times, Vec<&EndSpec>)> = Vec::new();
    let mut known: HashMap<Times, usize> = HashMap::new();
    for end in ends {
        let cycle = scenario.streams[end.stream].cycle;
        let times = Times {
            cycle,
            subscribe: phases.subscribe.of(cycle),
            window: phases.window.of(cycle),
            application: phases.application.of(cycle),
            publish: phases.publish.of(cycle),
        };
        // An end that reads one message a cycle counts for itself.
        let shared = known.get(&times).copied().filter(|_| !scenario.backlog.is_kept());
        match shared {
            Some(index) => found[index].1.push(end),
            None => {
                known.insert(times, found.len());
                found.push((times, vec![end]));
            }
        }
    }
    found
}

fn open_end(spec: &RoleSpec, scenario: &Scenario, end: &EndSpec, outlet: Option<usize>) -> Result<End, String> {
    let stream = &scenario.streams[end.stream];
    let (side, which) = if end.writer { (Side::Writer, StreamEnd::Writer) } else { (Side::Reader, StreamEnd::Reader) };
    let mut endpoint = stream.engine(scenario, which).map_err(|error| format!("stream {}: {error}", stream.name))?;
    let mut outside = None;
    if stream.application(which) == ApplicationKind::Image {
        let folder = spec.images.as_ref().ok_or("no folder for the images of applications")?;
        let (timeout, path) = (stream.receive_timeout(), folder.join(image_name(scenario, end.stream, which)));
        endpoint = endpoint.outside(timeout);
        let offered = Outside::offer(&mut endpoint, &path, timeout);
        outside = Some(offered.map_err(|error| format!("stream {}: {error}", stream.name))?);
    }
    let mut opened = End::new(end.stream as u16, side, stream.tag(), endpoint);
    opened.outside = outside;
    opened.outlet = outlet;
    opened.launch = outlet.filter(|_| stream.launch).map(|_| stream.offset);
    opened.start = stream.start;
    opened.standing = scenario.backlog.drain_after().filter(|_| end.receives(scenario)).map(StandingBacklog::new);
    Ok(opened)
}

#[cfg(test)]
mod tests {
    use link::{LaunchError, LostLaunch, TxStamp};
    use measure::{LAUNCH_INVALID, LAUNCH_MISSED};

    use super::*;

    #[test]
    fn what_the_error_queue_tells_becomes_an_event_of_its_stream() {
        let (sends, names) = (Sends::new(), [(3, Side::Writer), (7, Side::Reader)]);
        sends.note(0, Publication { end: 0, handle: 40 });
        sends.note(1, Publication { end: 1, handle: 50 });
        let lost = |id, cause| Departure::Lost(LostLaunch { id, launch: Tai(9), cause });
        let event = |departure| event_of(&departure, &sends, &names);
        let (stream, side) = (7, Side::Reader);
        for (cause, errno) in [(LaunchError::Invalid, LAUNCH_INVALID), (LaunchError::Missed, LAUNCH_MISSED)] {
            let kind = EventKind::NotSent { handle: 50, errno };
            assert_eq!(event(lost(Some(1), cause)), Some(Event { stream, side, kind }));
            assert_eq!(event(lost(None, cause)), None);
        }
        let kind = EventKind::Left { handle: 40, at: Tai(5) };
        let left = event(Departure::Left(TxStamp { id: 0, at: Tai(5) }));
        assert_eq!(left, Some(Event { stream: 3, side: Side::Writer, kind }));
    }
}
