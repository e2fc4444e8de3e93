//! One port alone: arrivals in, fates out.

use scenario::{Credits, Queue};
use units::{Nanos, Picos, Rate};

use super::{Cause, Making, OutputPort, Packet, Processor, processor};
use crate::frames::FrameId;
use crate::qdisc::Qdisc;

/// A port to be passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passage<'a> {
    /// Its queue discipline.
    pub through: Passed<'a>,
    /// Rate of its line.
    pub rate: Rate,
    /// The processor on which Linux drives the port; none where all happens as soon as it can.
    pub processor: Option<Processor>,
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

impl Passed<'_> {
    /// The class of a priority.
    pub(super) fn class_of(self, priority: u8) -> usize {
        match self {
            Self::Queue(queue, _) => queue.class_of(priority & 15).into(),
            Self::Qdisc(_) => 0,
        }
    }
}

impl<'a> Passage<'a> {
    /// A port whose timers are exact, and whose shapers are the standard's.
    pub fn new(queue: &'a Queue, rate: Rate) -> Self {
        Self { through: Passed::Queue(queue, &[]), rate, processor: None }
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

impl Packet {
    pub(super) fn of(frame: FrameId, arrival: &Arrival) -> Self {
        let Arrival { priority, flow, counted, launch, .. } = *arrival;
        Self { frame, priority, flow, counted, launch }
    }
}

/// Sends `arrivals` through a port; fates are in the order of the arrivals. At one instant the line is free first,
/// then frames arrive.
///
/// Gates are kept by Linux, but for full offload; `base_time` of their schedule is on the clock of the arrivals.
///
/// # Errors
/// The name of a discipline that is not modelled, or that no processor drives.
pub fn pass(passage: &Passage<'_>, arrivals: &[Arrival]) -> Result<Vec<Fate>, &'static str> {
    let mut port = match passage.through {
        Passed::Queue(queue, credits) => {
            let gates = if let Queue::Taprio { schedule, .. } = queue { schedule.base_time.0 } else { 0 };
            // A gate that is told to move at an instant has moved after it.
            let late = if passage.processor.is_some() { Picos(1_000) } else { Picos::ZERO };
            let making = Making { rate: passage.rate, linux: true, gates: Nanos(gates), late, credits };
            OutputPort::new(queue, &making)?
        }
        Passed::Qdisc(qdisc) => OutputPort::of(qdisc, passage.rate),
    };
    if let Some(processor) = passage.processor {
        return processor::pass(passage, processor, port, arrivals);
    }
    let mut fates = vec![Fate::Kept; arrivals.len()];
    let (mut coming, mut free, mut look) = (0, None::<Picos>, None::<Picos>);
    loop {
        let next = arrivals.get(coming).map(|arrival| arrival.at);
        let Some(now) = [free, look, next].into_iter().flatten().min() else { return Ok(fates) };
        if free == Some(now) {
            port.interrupt(now);
            port.sent(now);
            free = None;
        } else if look == Some(now) {
            port.interrupt(now);
        } else {
            let it = arrivals[coming];
            let packet = Packet::of(FrameId::of(coming as u32), &it);
            if let Err(cause) = port.enqueue(now, passage.through.class_of(it.priority), packet, false) {
                fates[coming] = Fate::Lost(cause);
            }
            coming += 1;
        }
        if let Some(frame) = port.next(now) {
            let end = now + passage.rate.transmission(u64::from(arrivals[frame.index()].bytes) * 8);
            fates[frame.index()] = Fate::Left { begin: now, end };
            free = Some(end);
        }
        look = port.planned();
        while let Some((frame, cause)) = port.lost() {
            fates[frame.index()] = Fate::Lost(cause);
        }
    }
}
