//! One processor on which Linux runs the timers and queues of a port, and which sends what comes to it: that of the kernel
//! laboratory, in virtual time, nanosecond by nanosecond.
//!
//! - Its clock wakes it a nanosecond after the instant to which the first timer is set (`itimer_next_event`), and two after now if
//!   that instant is over. All timers go off that are due in an interrupt, whatever it is for (`hrtimer_interrupt`): some on time.
//! - Timers of disciplines, of gates and of who sleeps are hard: they schedule queues, which run afterwards, in this order. The
//!   line's is soft: it goes off behind them (`HRTIMER_SOFTIRQ` comes after `NET_TX_SOFTIRQ`), so they find the line busy. It then
//!   schedules all queues, the first one first.
//! - If the interrupt wakes the sender, that goes on before these queues run (`handle_softirqs`), reads the clock, and gives its
//!   frame to its discipline, which runs; only then the others do.

use std::collections::VecDeque;

use units::Picos;

use super::{Arrival, Fate, OutputPort, Packet, Passage};
use crate::frames::FrameId;

const NANOSECOND: Picos = Picos(1_000);

/// What its clock costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Processor {
    /// For how long who sends reads the clock before each arrival. What falls due meanwhile happens at its end.
    pub reading: Picos,
    /// The same after an arrival that is lost at once, and of which the sender is told: a system call fails.
    pub failing: Picos,
}

/// The processor at work.
struct Kernel<'a> {
    passage: &'a Passage<'a>,
    port: OutputPort,
    arrivals: &'a [Arrival],
    fates: Vec<Fate>,
    /// The frame on the line, and the instant to which the line's timer is set.
    line: Option<(usize, Picos)>,
    /// Queues to be run.
    scheduled: VecDeque<usize>,
    /// The instant of the first timer, and when the clock wakes the processor for it.
    first: Option<Picos>,
    wakes: Option<Picos>,
}

/// Passes a port that such a processor drives.
pub(super) fn pass(
    passage: &Passage<'_>,
    processor: Processor,
    port: OutputPort,
    arrivals: &[Arrival],
) -> Result<Vec<Fate>, &'static str> {
    if let Some(hardware) = port.hardware() {
        return Err(hardware);
    }
    let fates = vec![Fate::Kept; arrivals.len()];
    let (line, scheduled) = (None, VecDeque::new());
    let mut kernel = Kernel { passage, port, arrivals, fates, line, scheduled, first: None, wakes: None };
    let mut clock = Picos(i64::MIN);
    kernel.set_clock(clock);
    for (index, arrival) in arrivals.iter().enumerate() {
        let woken = (arrival.at - processor.reading).max(clock);
        while let Some(now) = kernel.wakes.filter(|now| *now < woken) {
            kernel.interrupt(now, false);
        }
        kernel.interrupt(woken, true);
        if kernel.wakes.is_some_and(|at| at <= arrival.at) {
            kernel.interrupt(arrival.at, false);
        }
        clock = arrival.at;
        if !kernel.arrive(index) {
            clock = arrival.at + processor.failing;
            if kernel.wakes.is_some_and(|at| at <= clock) {
                kernel.interrupt(clock, false);
            }
        }
    }
    while let Some(now) = kernel.wakes {
        if kernel.line.is_none() && kernel.port.is_at_rest() {
            break;
        }
        kernel.interrupt(now, false);
    }
    Ok(kernel.fates)
}

impl Kernel<'_> {
    /// Sets the clock to the first timer, unless it is.
    fn set_clock(&mut self, now: Picos) {
        let line = self.line.map(|(_, at)| at);
        let first = self.port.timer().into_iter().chain(line).min();
        if first != self.first {
            self.first = first;
            self.wakes = first.map(|at| at.max(now + NANOSECOND) + NANOSECOND);
        }
    }

    /// An interrupt; `waking`: in it the sender wakes up.
    fn interrupt(&mut self, now: Picos, waking: bool) {
        (self.first, self.wakes) = (None, None);
        let due = self.port.fire(now);
        due.into_iter().for_each(|queue| self.schedule(queue));
        let through = self.line.filter(|(_, at)| *at <= now);
        self.run_scheduled(now);
        if let Some((frame, _)) = through {
            self.line = None;
            if let Fate::Left { end, .. } = &mut self.fates[frame] {
                *end = now;
            }
            self.port.free().for_each(|queue| self.schedule(queue));
            if !waking {
                self.run_scheduled(now);
            }
        }
        self.set_clock(now);
    }

    fn schedule(&mut self, queue: usize) {
        if !self.scheduled.contains(&queue) {
            self.scheduled.push_back(queue);
        }
    }

    fn run_scheduled(&mut self, now: Picos) {
        while let Some(queue) = self.scheduled.pop_front() {
            self.run(now, queue);
        }
    }

    fn run(&mut self, now: Picos, queue: usize) {
        while let Some(frame) = self.port.run(now, queue) {
            let index = frame.index();
            let span = self.passage.rate.transmission(u64::from(self.arrivals[index].bytes) * 8);
            // Whole nanoseconds; none where there is no line.
            let span = Picos(span.0 / 1_000 * 1_000);
            self.fates[index] = Fate::Left { begin: now, end: now + span };
            if span > Picos::ZERO {
                self.line = Some((index, now + span));
                break;
            }
            self.port.free();
        }
        while let Some((frame, cause)) = self.port.lost() {
            self.fates[frame.index()] = Fate::Lost(cause);
        }
    }

    /// A frame comes; whether it is taken.
    fn arrive(&mut self, index: usize) -> bool {
        let arrival = self.arrivals[index];
        let (now, class) = (arrival.at, self.passage.through.class_of(arrival.priority));
        let packet = Packet::of(FrameId::of(index as u32), &arrival);
        let taken = self.port.enqueue(now, class, packet, false);
        if let Err(cause) = taken {
            self.fates[index] = Fate::Lost(cause);
        }
        self.run(now, self.port.queue_of(class));
        self.set_clock(now);
        self.run_scheduled(now);
        self.set_clock(now);
        taken.is_ok()
    }
}
