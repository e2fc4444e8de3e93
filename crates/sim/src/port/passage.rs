//! One port alone: arrivals in, fates out.

use scenario::Queue;
use units::{Picos, Rate};

use super::{Cause, Next, OutputPort};
use crate::frames::FrameId;

/// A port to be passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passage<'a> {
    /// Its queue discipline.
    pub queue: &'a Queue,
    /// Rate of its line.
    pub rate: Rate,
}

/// A frame that comes to a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// When; arrivals are given in this order.
    pub at: Picos,
    /// Its priority, 0 to 15.
    pub priority: u8,
    /// Physical bytes: preamble and inter-frame gap included.
    pub bytes: u32,
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
    let mut port = OutputPort::new(passage.queue, passage.rate)?;
    let mut fates = vec![Fate::Kept; arrivals.len()];
    let (mut coming, mut free, mut look) = (0, None::<Picos>, None::<Picos>);
    loop {
        let next = arrivals.get(coming).map(|arrival| arrival.at);
        let Some(now) = [next, free, look].into_iter().flatten().min() else { return Ok(fates) };
        if free == Some(now) {
            port.sent(now);
            free = None;
        } else if look == Some(now) {
            port.looked(now);
            look = None;
        } else {
            let it = arrivals[coming];
            let class = usize::from(passage.queue.class_of(it.priority & 15));
            if let Err(cause) = port.enqueue(now, class, FrameId::of(coming as u32), it.launch, false) {
                fates[coming] = Fate::Lost(cause);
            }
            coming += 1;
        }
        match port.next(now) {
            Next::Send(frame) => {
                let end = now + passage.rate.transmission(u64::from(arrivals[frame.index()].bytes) * 8);
                fates[frame.index()] = Fate::Left { begin: now, end };
                free = Some(end);
            }
            Next::Wait(at) => look = Some(look.map_or(at, |earlier| earlier.min(at))),
            Next::Nothing => {}
        }
        while let Some(frame) = port.lost() {
            fates[frame.index()] = Fate::Lost(Cause::LaunchMissed);
        }
    }
}
