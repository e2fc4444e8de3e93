//! Output ports: FIFO, strict priority and credit-based shapers.

use std::collections::VecDeque;

use scenario::{Classes, Queue, Shaper};
use units::{Picos, Rate};

use crate::credit::{Credit, During};
use crate::frames::FrameId;

/// Frames that wait in one class before the next is dropped: `pfifo` with Linux' default `txqueuelen`.
pub const QUEUE_FRAMES: usize = 1000;

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
    waiting: VecDeque<FrameId>,
    credit: Option<Credit>,
}

impl Class {
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
}

impl OutputPort {
    /// A port of `rate` with the discipline `queue`; `Err` names a discipline that is not modelled.
    pub(crate) fn new(queue: &Queue, rate: Rate) -> Result<Self, &'static str> {
        let class = |credit| Class { waiting: VecDeque::new(), credit };
        let classes = match queue {
            Queue::Fifo => vec![class(None)],
            Queue::Cbs(cbs) => vec![class(Some(Credit::new(cbs.idle_slope, rate)))],
            Queue::Mqprio(Classes { shapers, .. }) => shapers
                .iter()
                .map(|shaper| match shaper {
                    Shaper::None => Ok(class(None)),
                    Shaper::Cbs(cbs) => Ok(class(Some(Credit::new(cbs.idle_slope, rate)))),
                    Shaper::Etf(_) => Err("mqprio with etf"),
                })
                .collect::<Result<_, _>>()?,
            Queue::FqCodel | Queue::Taprio { .. } | Queue::Etf(_) => return Err(queue.kind()),
        };
        Ok(Self { classes, sending: None, planned: None })
    }

    /// Number of traffic classes.
    pub(crate) fn classes(&self) -> usize {
        self.classes.len()
    }

    /// Puts a frame at the end of its class. `false`: the queue is full and the frame is dropped; `always` lifts
    /// the limit.
    pub(crate) fn enqueue(&mut self, now: Picos, class: usize, frame: FrameId, always: bool) -> bool {
        let sending = self.is_sending(class);
        let class = &mut self.classes[class];
        if class.waiting.len() >= QUEUE_FRAMES && !always {
            return false;
        }
        class.advance(now, sending);
        class.waiting.push_back(frame);
        true
    }

    /// The last bit of the frame being sent is out.
    pub(crate) fn sent(&mut self, now: Picos) -> Option<FrameId> {
        let (frame, class) = self.sending.take()?;
        self.classes[class].advance(now, true);
        // With nothing behind it, credit above 0 is lost at once.
        self.classes[class].advance(now, false);
        Some(frame)
    }

    /// The credit is looked at again at `now`, as planned.
    pub(crate) fn looked(&mut self, now: Picos) {
        if self.planned.is_some_and(|planned| planned <= now) {
            self.planned = None;
        }
    }

    /// Begins to send when it can: the highest class whose credit allows it, without interrupting anything.
    pub(crate) fn next(&mut self, now: Picos) -> Next {
        if self.sending.is_some() {
            return Next::Nothing;
        }
        let mut look: Option<Picos> = None;
        for (index, class) in self.classes.iter_mut().enumerate().rev() {
            if class.waiting.is_empty() {
                continue;
            }
            class.advance(now, false);
            let enough = match &class.credit {
                None => Some(now),
                Some(credit) => credit.enough_at(),
            };
            match enough {
                Some(at) if at <= now => {
                    if let Some(frame) = class.waiting.pop_front() {
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
