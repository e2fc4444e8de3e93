//! One port alone: arrivals in, fates out.

use scenario::{Credits, Queue};
use units::{Picos, Rate};

use super::{Cause, Next, OutputPort, Packet};
use crate::frames::FrameId;
use crate::qdisc::Qdisc;

/// A port to be passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passage<'a> {
    /// Its queue discipline.
    pub through: Passed<'a>,
    /// Rate of its line.
    pub rate: Rate,
    /// How much longer than its bits the line is busy with a frame: zero but in the kernel laboratory.
    pub pause: Picos,
    /// For how long before each arrival no timer goes off, as who sends reads the clock: zero but in the kernel laboratory.
    /// What falls due meanwhile happens at the arrival, before it.
    pub reading: Picos,
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
    /// A port whose shapers are the standard's.
    pub fn new(queue: &'a Queue, rate: Rate) -> Self {
        Self { through: Passed::Queue(queue, &[]), rate, pause: Picos::ZERO, reading: Picos::ZERO }
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
/// # Errors
/// The name of a discipline that is not modelled.
pub fn pass(passage: &Passage<'_>, arrivals: &[Arrival]) -> Result<Vec<Fate>, &'static str> {
    let mut port = match passage.through {
        Passed::Queue(queue, credits) => OutputPort::new(queue, passage.rate, credits)?,
        Passed::Qdisc(qdisc) => OutputPort::of(qdisc),
    };
    let mut fates = vec![Fate::Kept; arrivals.len()];
    let (mut coming, mut free, mut look) = (0, None::<Picos>, None::<Picos>);
    let mut sending = None;
    loop {
        let next = arrivals.get(coming).map(|arrival| arrival.at);
        let late = |at: Picos| next.filter(|next| at < *next && at > *next - passage.reading).unwrap_or(at);
        let Some(due) = [next, free, look].into_iter().flatten().min() else { return Ok(fates) };
        let now = late(due);
        if let (true, Some(frame)) = (free == Some(due), sending) {
            port.sent(now);
            free = None;
            if let Fate::Left { end, .. } = &mut fates[frame] {
                *end = now;
            }
        } else if look == Some(due) {
            port.looked(now);
            look = None;
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
            }
            coming += 1;
        }
        match port.next(now) {
            Next::Send(frame) => {
                let lasting = passage.rate.transmission(u64::from(arrivals[frame.index()].bytes) * 8);
                let end = now + lasting + passage.pause;
                fates[frame.index()] = Fate::Left { begin: now, end };
                free = Some(end);
                sending = Some(frame.index());
            }
            Next::Wait(at) => look = Some(look.map_or(at, |earlier| earlier.min(at))),
            Next::Nothing => {}
        }
        while let Some((frame, cause)) = port.lost() {
            fates[frame.index()] = Fate::Lost(cause);
        }
    }
}
