//! `sch_taprio` of Linux 6.12 as the root of a port, without hardware: gates by timers, or turned into launch times.
//!
//! Its length is that of the frame on the line, which `stab overhead 24` makes of Linux' own.
//!
//! What it does that 802.1Q does not: a root of several transmit queues hands a frame and up to eight more of its queue
//! on at once (`try_bulk_dequeue_skb_slow`), and one of another queue that was taken out in vain stands aside and goes
//! next. It does so while the line is still busy, too, whenever nothing stands ahead. Such frames go whatever becomes
//! of their gates.

mod assist;
mod list;
mod timers;

use std::collections::VecDeque;

use scenario::{BULK_FRAMES, GateSchedule, TaprioMode};
use units::{Nanos, Picos};

use super::{Cause, Class, LinuxCredit, Packet};
use crate::frames::FrameId;

use assist::Assist;
use list::GateList;
pub(super) use list::OVERHEAD_BYTES;
use timers::Timers;

/// Who looks after the gates.
#[derive(Debug)]
enum Keeper {
    Timers(Timers),
    Launches(Assist),
}

/// The root of a port.
#[derive(Debug)]
pub(crate) struct Taprio {
    list: GateList,
    keeper: Keeper,
    /// Handed to the driver, in this order.
    ahead: VecDeque<(Packet, usize)>,
    /// Taken out and of another queue than those ahead.
    aside: Option<(Packet, usize)>,
    /// Runs one after the other in which nothing left though the line was free, and no shaper earned a byte.
    fruitless: usize,
    /// What shapers owed at the last of them.
    owed: i64,
}

impl Taprio {
    /// The discipline at a line of `rate`; its cycles begin at `start`, before which all gates are open.
    pub(crate) fn new(schedule: &GateSchedule, start: Nanos, late: Picos, rate: units::Rate) -> Self {
        let list = GateList::new(schedule, rate);
        let keeper = match schedule.mode {
            TaprioMode::TxtimeAssist { txtime_delay } => Keeper::Launches(Assist::new(&list, start, txtime_delay)),
            TaprioMode::Software | TaprioMode::FullOffload => Keeper::Timers(Timers::new(start, late)),
        };
        Self { list, keeper, ahead: VecDeque::new(), aside: None, fruitless: 0, owed: 0 }
    }

    /// What becomes of a frame that comes: its launch time, or why it is lost.
    pub(crate) fn admit(&mut self, now: Picos, class: usize, packet: Packet) -> Result<Option<Picos>, Cause> {
        let (bytes, launch) = (line_bytes(packet), packet.launch);
        self.fruitless = 0;
        let clock = now.to_nanos_floor();
        let started = match &mut self.keeper {
            Keeper::Timers(timers) => {
                timers.advance(&self.list, now);
                timers.has_started()
            }
            Keeper::Launches(_) => true,
        };
        if started && !self.list.takes(class, bytes) {
            return Err(Cause::Gate);
        }
        match (&mut self.keeper, launch) {
            (keeper, Some(launch)) => {
                let start = match keeper {
                    Keeper::Timers(timers) => timers.start(),
                    Keeper::Launches(assist) => assist.start(),
                };
                let within = started && self.list.is_within(start, launch.to_nanos_floor(), class, bytes);
                if within { Ok(Some(launch)) } else { Err(Cause::Gate) }
            }
            (Keeper::Launches(assist), None) => {
                let at = assist.launch(&self.list, clock, class, bytes).ok_or(Cause::Gate)?;
                Ok(Some(at.to_picos()))
            }
            (Keeper::Timers(_), None) => Ok(None),
        }
    }

    /// The instant to which the timer of its gates is set, if timers move them.
    pub(crate) fn timer(&self) -> Option<Picos> {
        if let Keeper::Timers(timers) = &self.keeper { Some(timers.timer()) } else { None }
    }

    /// An interrupt, in which its timer goes off if it is due; whether it is.
    pub(crate) fn interrupt(&mut self, now: Picos) -> bool {
        let due = self.timer().is_some_and(|at| at <= now);
        if let Keeper::Timers(timers) = &mut self.keeper {
            timers.fire(&self.list, now);
        }
        due
    }

    /// One run of the discipline: the frame that goes onto the line, if it is free and one can go.
    pub(crate) fn run(
        &mut self,
        now: Picos,
        busy: bool,
        classes: &mut [Class],
        lost: &mut Vec<FrameId>,
        look: &mut Option<Picos>,
    ) -> Option<(Packet, usize)> {
        let mut sent = None;
        loop {
            let busy = busy || sent.is_some();
            if let Some(next) = self.ahead.front().copied() {
                if busy {
                    break;
                }
                self.ahead.pop_front();
                sent = Some(next);
                continue;
            }
            let head = match self.aside {
                Some(_) if busy => break,
                Some(aside) => {
                    self.aside = None;
                    Some(aside)
                }
                None => self.dequeue(now, classes, lost, look),
            };
            let Some(head) = head else { break };
            self.ahead.push_back(head);
            for _ in 1..BULK_FRAMES {
                match self.dequeue(now, classes, lost, look) {
                    Some(next) if next.1 == head.1 => self.ahead.push_back(next),
                    other => {
                        self.aside = other;
                        break;
                    }
                }
            }
            if busy {
                break;
            }
        }
        self.plan(now, busy || sent.is_some(), sent.is_some(), classes, look);
        sent
    }

    /// When it runs next by itself.
    fn plan(&mut self, now: Picos, busy: bool, fruitful: bool, classes: &[Class], look: &mut Option<Picos>) {
        let launches = classes.iter().filter(|class| class.launches.is_some());
        let launches = launches.filter_map(|class| class.wakes_at(now)).min();
        *look = [*look, launches].into_iter().flatten().min();
        let shapers = || classes.iter().filter_map(|class| class.linux.as_ref());
        let credits =
            classes.iter().filter(|class| class.linux.is_some()).filter_map(|class| class.wakes_at(now)).min();
        let owed: Vec<i64> = shapers().filter_map(LinuxCredit::owed).collect();
        let earned = std::mem::replace(&mut self.owed, owed.iter().sum()) != self.owed;
        let Keeper::Timers(timers) = &mut self.keeper else {
            *look = [*look, credits].into_iter().flatten().min();
            return;
        };
        // A gate that moves is a look at each shaper, which forgets a fraction of a byte while it owes some.
        let waits = !owed.is_empty() || classes.iter().any(|class| !class.is_empty());
        let held = !self.ahead.is_empty() || self.aside.is_some();
        self.fruitless = if busy || fruitful || held || earned || look.is_some() { 0 } else { self.fruitless + 1 };
        // After two cycles in which nothing could go nothing ever will: the next are the same. In each entry the timer of each
        // shaper may go off in vain.
        if self.fruitless <= 2 * self.list.entries().len() * (1 + shapers().count()) + 2 {
            timers.advance(&self.list, now);
            let edge = waits.then(|| timers.next());
            *look = [*look, credits, edge].into_iter().flatten().min();
        }
    }

    /// The next frame of the highest class that may go.
    fn dequeue(
        &mut self,
        now: Picos,
        classes: &mut [Class],
        lost: &mut Vec<FrameId>,
        look: &mut Option<Picos>,
    ) -> Option<(Packet, usize)> {
        for (index, class) in classes.iter_mut().enumerate().rev() {
            if let Keeper::Timers(timers) = &mut self.keeper {
                timers.advance(&self.list, now);
                if !timers.is_open(&self.list, index) {
                    continue;
                }
                let Some(packet) = class.peek(now) else { continue };
                if !timers.allows(&self.list, now.to_nanos_floor(), index, line_bytes(packet)) {
                    continue;
                }
            }
            if let Some(frame) = class.take(now, lost, look) {
                return Some((frame, index));
            }
        }
        None
    }
}

/// What Linux counts of a frame with `stab overhead 24`.
fn line_bytes(packet: Packet) -> u32 {
    packet.counted + OVERHEAD_BYTES
}
