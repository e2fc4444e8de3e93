//! A port as the kernel drives it: transmit queues whose disciplines timers and the line schedule one by one.

use units::Picos;

use super::class::clock;
use super::{Keeper, OutputPort};
use crate::frames::FrameId;

impl OutputPort {
    /// Transmit queues with a discipline of their own: one for each class below mqprio, the highest class first; else one
    /// root for all.
    fn queues(&self) -> usize {
        if self.has_root() { 1 } else { self.classes.len() }
    }

    fn has_root(&self) -> bool {
        self.root.is_some() || matches!(self.gates, Keeper::Linux(_))
    }

    /// The queue of a class.
    pub(super) fn queue_of(&self, class: usize) -> usize {
        self.queues() - 1 - if self.has_root() { 0 } else { class }
    }

    /// What no kernel drives: a shaper or gates of hardware.
    pub(super) fn hardware(&self) -> Option<&'static str> {
        if matches!(self.gates, Keeper::Hardware(_)) {
            Some("gates of hardware on a processor")
        } else if self.classes.iter().any(|class| class.credit.is_some()) {
            Some("cbs of hardware on a processor")
        } else {
            None
        }
    }

    /// The earliest instant to which one of its timers is set.
    pub(super) fn timer(&mut self) -> Option<Picos> {
        let root = self.root.as_mut().and_then(|root| root.timer()?.checked_mul(1_000)).map(Picos);
        let gates = if let Keeper::Linux(taprio) = &self.gates { taprio.timer() } else { None };
        self.classes.iter().filter_map(super::Class::timer).chain(root).chain(gates).min()
    }

    /// All its timers that are due at `now` go off, in the kernel's order; gives the queues which they schedule, in this order.
    ///
    /// Those on CLOCK_MONOTONIC, of shapers and single disciplines, come before those on CLOCK_TAI, of launch times and gates.
    pub(super) fn fire(&mut self, now: Picos) -> Vec<usize> {
        let mut due = Vec::new();
        if let Some(root) = &mut self.root
            && root.woken(clock(now))
        {
            due.push((false, Picos::ZERO, 0));
        }
        for index in (0..self.classes.len()).rev() {
            let queue = self.queue_of(index);
            let class = &mut self.classes[index];
            if let Some(at) = class.timer()
                && class.interrupt(now)
            {
                due.push((class.launches.is_some(), at, queue));
            }
        }
        if let Keeper::Linux(taprio) = &mut self.gates
            && taprio.interrupt(now)
        {
            due.push((true, now, 0));
        }
        due.sort_by_key(|(tai, at, _)| (*tai, *at));
        due.into_iter().map(|(.., queue)| queue).collect()
    }

    /// The frame being sent is through; gives the queues that the free line schedules, in this order.
    pub(super) fn free(&mut self) -> std::ops::Range<usize> {
        self.sending = None;
        if let Some(root) = &mut self.root {
            root.sent();
        }
        0..self.queues()
    }

    /// Runs the discipline of a queue: the frame that goes onto the line.
    pub(super) fn run(&mut self, now: Picos, queue: usize) -> Option<FrameId> {
        if let Some(root) = &mut self.root {
            root.look();
            return root.next(clock(now), &mut self.dropped);
        }
        let mut look = None;
        let (packet, class) = match &mut self.gates {
            Keeper::Linux(taprio) => {
                let sent = taprio.run(now, self.sending.is_some(), &mut self.classes, &mut self.lost, &mut look);
                self.planned = look;
                sent?
            }
            // Of a queue that stands still nothing is asked.
            _ if self.sending.is_some() => return None,
            _ => {
                let class = self.classes.len() - 1 - queue;
                (self.classes[class].take(now, &mut self.lost, &mut look)?, class)
            }
        };
        self.sending = Some((packet.frame, class));
        Some(packet.frame)
    }

    /// Whether it has nothing to do any more, if no frame comes.
    pub(super) fn is_at_rest(&mut self) -> bool {
        match self.gates {
            Keeper::Linux(_) => self.planned.is_none(),
            _ => self.timer().is_none(),
        }
    }
}
