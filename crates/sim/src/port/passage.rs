//! One port alone: arrivals in, fates out.

use scenario::{Credits, Queue};
use units::{Nanos, Picos, Rate};

use super::{Cause, Making, OutputPort, Packet};
use crate::frames::FrameId;
use crate::qdisc::Qdisc;

/// A port to be passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passage<'a> {
    /// Its queue discipline.
    pub through: Passed<'a>,
    /// Rate of its line.
    pub rate: Rate,
    /// How late timers are, that of a line of software, which ends each frame, and those of gates: zero but in the kernel
    /// laboratory.
    pub pause: Picos,
    /// For how long before each arrival no timer goes off, as who sends reads the clock: zero but in the kernel laboratory.
    /// What falls due meanwhile happens at the arrival, before it.
    pub reading: Picos,
    /// For how long after an arrival that is lost at once no timer goes off, as a system call fails: zero but in the kernel
    /// laboratory. What falls due meanwhile happens at its end.
    pub failing: Picos,
}

/// What frames pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passed<'a> {
    /// A queue of a scenario, with what Linux is told of each class that it shapes itself
    /// ([`scenario::Scenario::linux_credits`]): by class, and where there is none the standard's credit counts.
    Queue(&'a Queue, &'a [Option<Credits>]),
    /// A discipline of Linux that a scenario may not know.
    Qdisc(&'a Qdisc),
}

impl<'a> Passage<'a> {
    /// A port whose timers are exact, and whose shapers are the standard's.
    pub fn new(queue: &'a Queue, rate: Rate) -> Self {
        Self {
            through: Passed::Queue(queue, &[]),
            rate,
            pause: Picos::ZERO,
            reading: Picos::ZERO,
            failing: Picos::ZERO,
        }
    }
}

/// A frame that comes to a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// When; arrivals are given in this order.
    pub at: Picos,
    /// Its priority, 0 to 15.
    pub priority: u8,
    /// Its flow, where flows are taken in turn.
    pub flow: u32,
    /// Physical bytes: preamble and inter-frame gap included.
    pub bytes: u32,
    /// Bytes that a discipline of Linux counts: those of the socket's frame.
    pub counted: u32,
    /// Its launch time, on the clock of `at`.
    pub launch: Option<Picos>,
}

/// What became of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It was sent.
    Left {
        /// The first bit.
        begin: Picos,
        /// The end of its last bit, gap included.
        end: Picos,
    },
    /// It was not.
    Lost(Cause),
    /// It waits for ever: a shaper without slope.
    Kept,
}

/// Sends `arrivals` through a port; fates are in the order of the arrivals. At one instant the line is free first,
/// then frames arrive.
///
/// Gates are kept by Linux, but for full offload; `base_time` of their schedule is on the clock of the arrivals.
///
/// # Errors
/// The name of a discipline that is not modelled.
pub fn pass(passage: &Passage<'_>, arrivals: &[Arrival]) -> Result<Vec<Fate>, &'static str> {
    let mut port = match passage.through {
        Passed::Queue(queue, credits) => {
            let gates = if let Queue::Taprio { schedule, .. } = queue { schedule.base_time.0 } else { 0 };
            let (rate, late) = (passage.rate, passage.pause);
            OutputPort::new(queue, &Making { rate, linux: true, gates: Nanos(gates), late, credits })?
        }
        Passed::Qdisc(qdisc) => OutputPort::of(qdisc, passage.rate),
    };
    let mut fates = vec![Fate::Kept; arrivals.len()];
    let (mut coming, mut free, mut look) = (0, None::<Picos>, None::<Picos>);
    let mut sending = None;
    // Timers stand still from here to there.
    let mut failing = [Picos::ZERO; 2];
    loop {
        let next = arrivals.get(coming).map(|arrival| arrival.at);
        let still = [next.map(|next| [next - passage.reading, next]), Some(failing)];
        let late = |at: Picos| {
            if next.is_some_and(|next| at == next - passage.reading + passage.pause) {
                // The timer that woke the sender is an interrupt, in which this one is found due.
                return at - passage.pause;
            }
            let over = still.into_iter().flatten().filter(|[from, to]| *from < at && at < *to).map(|[_, to]| to);
            over.fold(at, Ord::max)
        };
        // A gate that moves beside a busy line is an interrupt, too, in which that of the line may be found due.
        let edge = port.edge().filter(|_| free.is_some());
        let timer = [free, look, edge].into_iter().flatten().map(late).min();
        let Some(now) = [next, timer].into_iter().flatten().min() else { return Ok(fates) };
        if timer == Some(now) {
            // All timers fire that are due, hard ones first: what is set for the next moment, too.
            port.interrupt(now);
            if let Some(frame) = sending.filter(|_| free.is_some_and(|free| late(free) <= now + passage.pause)) {
                if look.is_some_and(|look| late(look) <= now + passage.pause) {
                    port.next(now);
                }
                port.sent(now);
                (free, sending) = (None, None);
                if let Fate::Left { end, .. } = &mut fates[frame] {
                    *end = now;
                }
                if passage.reading > Picos::ZERO && next == Some(now + passage.reading) {
                    // In the interrupt that wakes the sender: Linux lets that go on first, and runs the queues with its frame.
                    look = look.filter(|look| late(*look) > now);
                    continue;
                }
            }
        } else {
            let it = arrivals[coming];
            let class = match passage.through {
                Passed::Queue(queue, _) => queue.class_of(it.priority & 15).into(),
                Passed::Qdisc(_) => 0,
            };
            let packet = Packet {
                frame: FrameId::of(coming as u32),
                priority: it.priority,
                flow: it.flow,
                counted: it.counted,
                launch: it.launch,
            };
            if let Err(cause) = port.enqueue(now, class, packet, false) {
                fates[coming] = Fate::Lost(cause);
                failing = [now, now + passage.failing];
            }
            coming += 1;
        }
        if let Some(frame) = port.next(now) {
            let span = passage.rate.transmission(u64::from(arrivals[frame.index()].bytes) * 8);
            let end = now + span + passage.pause;
            fates[frame.index()] = Fate::Left { begin: now, end };
            (free, sending) = (Some(end), Some(frame.index()));
        }
        look = port.planned();
        while let Some((frame, cause)) = port.lost() {
            fates[frame.index()] = Fate::Lost(cause);
        }
    }
}
