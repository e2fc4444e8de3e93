//! Output ports: FIFO, strict priority, credit-based shapers and launch queues.

mod etf;
mod passage;

use std::collections::VecDeque;

use scenario::{Classes, Credits, QUEUE_FRAMES, Queue, Shaper};
use units::{Picos, Rate};

use crate::credit::{Credit, During, LinuxCredit};
use crate::frames::FrameId;
use crate::qdisc::{Dropped, FqCodel, Qdisc, Root};

use etf::{Launches, Look};
pub use passage::{Arrival, Fate, Passage, Passed, pass};

/// Why a port lost a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The queue of its class was full.
    Full,
    /// It came to a launch queue without launch time, after it, or with one before that of a frame that had left.
    LaunchInvalid,
    /// Its launch time passed while it waited.
    LaunchMissed,
    /// CoDel dropped it: frames of its flow had waited for too long. Nobody is told.
    Codel,
    /// It is longer than a token bucket can hold.
    TooLong,
}

/// A frame on its way into a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Packet {
    /// Which.
    pub(crate) frame: FrameId,
    /// Its priority.
    pub(crate) priority: u8,
    /// Its flow, for a discipline that takes flows in turn.
    pub(crate) flow: u32,
    /// Bytes that a discipline of Linux counts: without FCS, preamble and gap.
    pub(crate) counted: u32,
    /// Its launch time.
    pub(crate) launch: Option<Picos>,
}

/// What a port can do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// It has begun to send this frame.
    Send(FrameId),
    /// It waits for credit until then.
    Wait(Picos),
    /// It is busy, has nothing to send, or knows already when to look again.
    Nothing,
}

#[derive(Debug)]
struct Class {
    waiting: VecDeque<Packet>,
    credit: Option<Credit>,
    /// Instead of the standard's: that of Linux' software shaper.
    linux: Option<LinuxCredit>,
    /// Linux looks at the class now.
    looked: bool,
    launches: Option<Launches>,
}

impl Class {
    fn is_empty(&self) -> bool {
        self.launches.as_ref().map_or(self.waiting.is_empty(), Launches::is_empty)
    }

    /// Whether the timer of Linux' shaper goes off.
    fn woken(&mut self, now: Picos) -> bool {
        self.linux.as_mut().is_some_and(|linux| linux.woken(clock(now)))
    }

    fn advance(&mut self, now: Picos, sending: bool) {
        let during = match (sending, self.waiting.is_empty()) {
            (true, _) => During::Sending,
            (false, false) => During::Waiting,
            (false, true) => During::Empty,
        };
        if let Some(credit) = &mut self.credit {
            credit.advance(now, during);
        }
    }
}

/// The sending side of one direction of a link.
#[derive(Debug)]
pub(crate) struct OutputPort {
    classes: Vec<Class>,
    /// The frame being sent and its class.
    sending: Option<(FrameId, usize)>,
    /// The earliest look at the credit that is already planned.
    planned: Option<Picos>,
    /// Frames whose launch time has passed while they waited.
    lost: Vec<FrameId>,
    /// Instead of classes: one discipline of Linux for all.
    root: Option<Root>,
    /// What it has dropped.
    dropped: Dropped,
}

impl OutputPort {
    /// A port of `rate` with the discipline `queue`, in which Linux shapes the classes with `credits` itself; `Err`
    /// names a discipline that is not modelled.
    pub(crate) fn new(queue: &Queue, rate: Rate, credits: &[Option<Credits>]) -> Result<Self, &'static str> {
        let class = |credit| Class { waiting: VecDeque::new(), credit, linux: None, looked: false, launches: None };
        let launches = |etf| Class { launches: Some(Launches::new(etf)), ..class(None) };
        let mut classes = match queue {
            Queue::Fifo => vec![class(None)],
            Queue::Cbs(cbs) => vec![class(Some(Credit::new(cbs.idle_slope, rate)))],
            Queue::Mqprio(Classes { shapers, .. }) => shapers
                .iter()
                .map(|shaper| match shaper {
                    Shaper::None => class(None),
                    Shaper::Cbs(cbs) => class(Some(Credit::new(cbs.idle_slope, rate))),
                    Shaper::Etf(etf) => launches(etf),
                })
                .collect(),
            Queue::Etf(etf) => vec![launches(etf)],
            Queue::FqCodel => return Ok(Self::of(&Qdisc::FqCodel(FqCodel::default()))),
            Queue::Taprio { .. } => return Err(queue.kind()),
        };
        for (class, credits) in classes.iter_mut().zip(credits) {
            if let (Some(_), Some(credits)) = (&class.credit, credits) {
                class.credit = None;
                class.linux = Some(LinuxCredit::new(credits));
            }
        }
        Ok(Self { classes, sending: None, planned: None, lost: Vec::new(), root: None, dropped: Vec::new() })
    }

    /// A port with one discipline of Linux.
    pub(crate) fn of(qdisc: &Qdisc) -> Self {
        let class = Class { waiting: VecDeque::new(), credit: None, linux: None, looked: false, launches: None };
        let root = Some(Root::new(qdisc));
        Self { classes: vec![class], sending: None, planned: None, lost: Vec::new(), root, dropped: Vec::new() }
    }

    /// Number of traffic classes.
    pub(crate) fn classes(&self) -> usize {
        self.classes.len()
    }

    /// When a frame that comes to a class at `now` may go: its delay counts from then.
    pub(crate) fn release(&self, now: Picos, class: usize, launch: Option<Picos>) -> Picos {
        match (&self.classes[class].launches, launch) {
            (Some(launches), Some(launch)) => launches.release(now, launch),
            _ => now,
        }
    }

    /// A frame that the port has lost, other than the one that came.
    pub(crate) fn lost(&mut self) -> Option<(FrameId, Cause)> {
        self.dropped.pop().or_else(|| Some((self.lost.pop()?, Cause::LaunchMissed)))
    }

    /// Puts a frame into its class, or says why not; `always` lifts the limit of a full queue.
    pub(crate) fn enqueue(&mut self, now: Picos, class: usize, packet: Packet, always: bool) -> Result<(), Cause> {
        if let Some(root) = &mut self.root {
            root.enqueue(clock(now), packet, &mut self.dropped);
            return Ok(());
        }
        if let Some(launches) = &mut self.classes[class].launches {
            return launches.enqueue(now, packet.frame, packet.launch);
        }
        let sending = self.is_sending(class);
        let class = &mut self.classes[class];
        if class.waiting.len() >= QUEUE_FRAMES && !always {
            return Err(Cause::Full);
        }
        class.advance(now, sending);
        if let (Some(linux), true) = (&mut class.linux, class.waiting.is_empty()) {
            linux.begins(clock(now));
        }
        class.looked = true;
        class.waiting.push_back(packet);
        Ok(())
    }

    /// The last bit of the frame being sent is out.
    pub(crate) fn sent(&mut self, now: Picos) -> Option<FrameId> {
        if let Some(root) = &mut self.root {
            return root.sent(clock(now));
        }
        let (frame, class) = self.sending.take()?;
        self.classes[class].advance(now, true);
        // With nothing behind it, credit above 0 is lost at once.
        self.classes[class].advance(now, false);
        for class in &mut self.classes {
            // Linux wakes all queues.
            class.woken(now);
            class.looked = true;
        }
        Some(frame)
    }

    /// The credit is looked at again at `now`, as planned.
    pub(crate) fn looked(&mut self, now: Picos) {
        if let Some(root) = &mut self.root {
            return root.woken(clock(now));
        }
        if self.planned.is_some_and(|planned| planned <= now) {
            self.planned = None;
        }
        for class in &mut self.classes {
            class.looked |= class.woken(now);
        }
    }

    /// Begins to send when it can: the highest class whose credit allows it, without interrupting anything.
    pub(crate) fn next(&mut self, now: Picos) -> Next {
        if let Some(root) = &mut self.root {
            return root.next(clock(now), &mut self.dropped);
        }
        if self.sending.is_some() {
            // Linux looks at no queue while its line is busy.
            self.classes.iter_mut().for_each(|class| class.looked = false);
            return Next::Nothing;
        }
        let mut look: Option<Picos> = None;
        for (index, class) in self.classes.iter_mut().enumerate().rev() {
            if let Some(linux) = &mut class.linux {
                // Without frames, too.
                if std::mem::take(&mut class.looked)
                    && linux.look(clock(now))
                    && let Some(packet) = class.waiting.pop_front()
                {
                    linux.take(clock(now), packet.counted);
                    self.sending = Some((packet.frame, index));
                    return Next::Send(packet.frame);
                }
                if let Some(at) = linux.wakes().and_then(|at| at.checked_mul(1_000)).map(Picos) {
                    look = Some(look.map_or(at, |earlier| earlier.min(at)));
                }
                continue;
            }
            if class.is_empty() {
                continue;
            }
            if let Some(launches) = &mut class.launches {
                match launches.look(now, &mut self.lost) {
                    Look::Empty => {}
                    Look::At(at) => look = Some(look.map_or(at, |earlier| earlier.min(at))),
                    Look::Ready(frame) => {
                        launches.take();
                        self.sending = Some((frame, index));
                        return Next::Send(frame);
                    }
                }
                continue;
            }
            class.advance(now, false);
            let enough = match &class.credit {
                None => Some(now),
                Some(credit) => credit.enough_at(),
            };
            match enough {
                Some(at) if at <= now => {
                    if let Some(Packet { frame, .. }) = class.waiting.pop_front() {
                        self.sending = Some((frame, index));
                        return Next::Send(frame);
                    }
                }
                Some(at) => look = Some(look.map_or(at, |earlier| earlier.min(at))),
                None => {}
            }
        }
        match look {
            Some(at) if self.planned.is_none_or(|planned| at < planned) => {
                self.planned = Some(at);
                Next::Wait(at)
            }
            _ => Next::Nothing,
        }
    }

    fn is_sending(&self, class: usize) -> bool {
        self.sending.is_some_and(|(_, sending)| sending == class)
    }
}

/// The instant as Linux' clock has it.
fn clock(now: Picos) -> i64 {
    now.to_nanos_floor().0
}
