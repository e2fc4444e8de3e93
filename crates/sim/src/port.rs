//! Output ports: FIFO, strict priority, credit-based shapers, launch queues and gates.

mod class;
mod etf;
mod gates;
mod passage;
mod processor;
mod queues;
mod taprio;

use scenario::{Classes, Credits, QUEUE_FRAMES, Queue, Shaper, TaprioMode};
use units::{Nanos, Picos, Rate};

use crate::credit::{Credit, During, LinuxCredit};
use crate::frames::FrameId;
use crate::qdisc::{Dropped, FqCodel, Qdisc, Root};

use class::{Class, clock};
use etf::Launches;
use gates::{Gates, Start};
pub use passage::{Arrival, Fate, Passage, Passed, pass};
pub use processor::Processor;
use taprio::Taprio;

/// Why a port lost a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The queue of its class was full.
    Full,
    /// It came to a launch queue without launch time, after it, or with one before that of a frame that had left.
    LaunchInvalid,
    /// Its launch time passed while it waited.
    LaunchMissed,
    /// Taprio of Linux' refused it: no window of its class is long enough, or its launch time is outside of them.
    Gate,
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

impl Packet {
    /// How long it takes of a line: padded, with FCS, preamble and gap.
    fn transmission(self, rate: Rate) -> Picos {
        rate.transmission(u64::from(self.counted.max(60) + 24) * 8)
    }
}

/// How a port is made, beside its discipline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Making<'a> {
    pub(crate) rate: Rate,
    /// Linux keeps its gates, not hardware.
    pub(crate) linux: bool,
    /// When a cycle of its gates begins. Before it Linux' gates are open; hardware's have been running.
    pub(crate) gates: Nanos,
    /// How late the timers of Linux are.
    pub(crate) late: Picos,
    /// Of each class that Linux shapes itself.
    pub(crate) credits: &'a [Option<Credits>],
}

/// Who keeps the gates of a port.
#[derive(Debug)]
enum Keeper {
    /// It has none.
    Nobody,
    /// Hardware, as the standard has it.
    Hardware(Gates),
    /// Linux.
    Linux(Box<Taprio>),
}

/// The sending side of one direction of a link.
#[derive(Debug)]
pub(crate) struct OutputPort {
    rate: Rate,
    classes: Vec<Class>,
    gates: Keeper,
    /// The frame being sent and its class.
    sending: Option<(FrameId, usize)>,
    /// When it has to be asked again.
    planned: Option<Picos>,
    /// What of that has been told.
    told: Option<Picos>,
    /// Frames whose launch time has passed while they waited.
    lost: Vec<FrameId>,
    /// Instead of classes: one discipline of Linux for all.
    root: Option<Root>,
    /// What it has dropped.
    dropped: Dropped,
}

impl OutputPort {
    /// A port with the discipline `queue`; `Err` names a discipline that is not modelled.
    pub(crate) fn new(queue: &Queue, making: &Making<'_>) -> Result<Self, &'static str> {
        let rate = making.rate;
        let class = |credit| Class { credit, ..Class::default() };
        let launches = |etf: &scenario::Etf| Class { launches: Some(Launches::new(etf)), ..class(None) };
        let shaped = |Classes { shapers, .. }: &Classes| -> Vec<Class> {
            shapers
                .iter()
                .map(|shaper| match shaper {
                    Shaper::None => class(None),
                    Shaper::Cbs(cbs) => class(Some(Credit::new(cbs.idle_slope, rate))),
                    Shaper::Etf(etf) => launches(etf),
                })
                .collect()
        };
        let mut gates = Keeper::Nobody;
        let mut classes = match queue {
            Queue::Fifo => vec![class(None)],
            Queue::Cbs(cbs) => vec![class(Some(Credit::new(cbs.idle_slope, rate)))],
            Queue::Mqprio(classes) => shaped(classes),
            Queue::Etf(etf) => vec![launches(etf)],
            Queue::Taprio { classes, schedule } => {
                gates = if making.linux && schedule.mode != TaprioMode::FullOffload {
                    Keeper::Linux(Box::new(Taprio::new(schedule, making.gates, making.late, rate)))
                } else {
                    Keeper::Hardware(Gates::new(schedule, making.gates, classes.shapers.len()))
                };
                let mut made = shaped(classes);
                if matches!(gates, Keeper::Hardware(_)) {
                    for (index, shaper) in classes.shapers.iter().enumerate() {
                        if let Shaper::Cbs(cbs) = shaper {
                            let slope = schedule.slope_while_open(index as u8, cbs.idle_slope, rate);
                            made[index].credit = Some(Credit::new(slope, rate));
                        }
                    }
                }
                made
            }
            Queue::FqCodel => return Ok(Self::of(&Qdisc::FqCodel(FqCodel::default()), rate)),
        };
        for (class, credits) in classes.iter_mut().zip(making.credits) {
            if let (Some(_), Some(credits)) = (&class.credit, credits) {
                class.credit = None;
                class.linux = Some(LinuxCredit::new(credits));
            }
        }
        if matches!(gates, Keeper::Linux(_)) {
            classes.iter_mut().for_each(|class| class.overhead = taprio::OVERHEAD_BYTES);
        }
        if matches!(gates, Keeper::Linux(_)) && classes.iter().any(|class| class.credit.is_some()) {
            return Err("cbs of a NIC below gates of Linux");
        }
        Ok(Self { gates, ..Self::plain(classes, rate) })
    }

    /// A port with one discipline of Linux.
    pub(crate) fn of(qdisc: &Qdisc, rate: Rate) -> Self {
        Self { root: Some(Root::new(qdisc)), ..Self::plain(vec![Class::default()], rate) }
    }

    fn plain(classes: Vec<Class>, rate: Rate) -> Self {
        Self {
            rate,
            classes,
            gates: Keeper::Nobody,
            sending: None,
            planned: None,
            told: None,
            lost: Vec::new(),
            root: None,
            dropped: Vec::new(),
        }
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
            let frame = packet.frame;
            if root.enqueue(clock(now), packet, &mut self.dropped) {
                return Ok(());
            }
            let place = self.dropped.iter().rposition(|(dropped, _)| *dropped == frame);
            return place.map_or(Ok(()), |place| Err(self.dropped.swap_remove(place).1));
        }
        let mut packet = packet;
        if let Keeper::Linux(taprio) = &mut self.gates {
            let own = packet.launch.is_some();
            packet.launch = taprio.admit(now, class, packet)?;
            // An etf queue asks the socket for SO_TXTIME, unless it is told not to.
            let etf = self.classes[class].launches.as_ref();
            if !own && packet.launch.is_some() && etf.is_some_and(|etf| !etf.takes_any_socket()) {
                return Err(Cause::LaunchInvalid);
            }
        }
        if let Some(launches) = &mut self.classes[class].launches {
            return launches.enqueue(now, packet);
        }
        if self.classes[class].waiting.len() >= QUEUE_FRAMES && !always {
            return Err(Cause::Full);
        }
        self.advance(now, class);
        let class = &mut self.classes[class];
        if let (true, Some(linux)) = (class.is_empty(), &mut class.linux) {
            linux.begins(clock(now));
        }
        class.looked = true;
        class.waiting.push_back(packet);
        Ok(())
    }

    /// The last bit of the frame being sent is out.
    pub(crate) fn sent(&mut self, now: Picos) -> Option<FrameId> {
        if let Some(root) = &mut self.root {
            return root.sent();
        }
        let (_, class) = self.sending?;
        self.advance(now, class);
        let (frame, _) = self.sending.take()?;
        // With nothing behind it, credit above 0 is lost at once.
        self.advance(now, class);
        for class in &mut self.classes {
            // Linux wakes all queues.
            class.woken(now);
            class.looked = true;
        }
        Some(frame)
    }

    /// Brings the credit of a class up to `now`.
    fn advance(&mut self, now: Picos, class: usize) {
        let sending = self.is_sending(class);
        let it = &mut self.classes[class];
        let Some(credit) = &mut it.credit else { return };
        let during = match (sending, it.waiting.is_empty()) {
            (true, _) => During::Sending,
            (false, false) => During::Waiting,
            (false, true) => During::Empty,
        };
        let Keeper::Hardware(gates) = &self.gates else { return credit.advance(now, during) };
        while credit.since() < now {
            let (open, until) = gates.phase(credit.since(), class);
            credit.advance(until.min(now), if open { during } else { During::Shut });
        }
    }

    /// When it is to be asked again.
    pub(crate) fn planned(&self) -> Option<Picos> {
        self.planned
    }

    /// When it is to be asked again, if nobody knows yet.
    pub(crate) fn look(&mut self) -> Option<Picos> {
        if self.told == self.planned {
            return None;
        }
        self.told = self.planned;
        self.planned
    }

    /// It is asked again at `now`; false if it has nothing to say then.
    pub(crate) fn looked(&mut self, now: Picos) -> bool {
        if self.planned != Some(now) {
            return false;
        }
        self.interrupt(now);
        true
    }

    /// Timers of its host fire: all of them that are due at `now`.
    fn interrupt(&mut self, now: Picos) {
        if let Keeper::Linux(taprio) = &mut self.gates {
            taprio.interrupt(now);
        }
        if let Some(root) = &mut self.root {
            root.woken(clock(now));
        }
        self.classes.iter_mut().for_each(|class| {
            class.interrupt(now);
        });
        (self.planned, self.told) = (None, None);
    }

    /// Begins to send this frame when it can: of the highest class that may, without interrupting anything.
    pub(crate) fn next(&mut self, now: Picos) -> Option<FrameId> {
        if let Some(root) = &mut self.root {
            let sent = root.next(clock(now), &mut self.dropped);
            // The kernel's clock is past the instant when its timer goes off.
            let again = root.timer().and_then(|at| at.checked_add(1)?.checked_mul(1_000)).map(Picos);
            self.planned = again;
            return sent;
        }
        if let Keeper::Linux(taprio) = &mut self.gates {
            let mut look = None;
            let sent = taprio.run(now, self.sending.is_some(), &mut self.classes, &mut self.lost, &mut look);
            self.planned = look;
            let (packet, class) = sent?;
            self.sending = Some((packet.frame, class));
            return Some(packet.frame);
        }
        if self.sending.is_some() {
            // Linux looks at no queue while its line is busy.
            self.classes.iter_mut().for_each(|class| class.looked = false);
            return None;
        }
        let mut look: Option<Picos> = None;
        let mut earlier = |at: Picos| look = Some(look.map_or(at, |look: Picos| look.min(at)));
        for index in (0..self.classes.len()).rev() {
            self.advance(now, index);
            let class = &mut self.classes[index];
            if class.linux.is_some() {
                if std::mem::take(&mut class.looked)
                    && let Some(packet) = class.shaped(now)
                {
                    self.sending = Some((packet.frame, index));
                    return Some(packet.frame);
                }
                class.wakes_at(now).into_iter().for_each(&mut earlier);
                continue;
            }
            let Some(packet) = class.peek(now) else { continue };
            let mut shuts = None;
            if let Keeper::Hardware(gates) = &self.gates {
                match gates.start(now, index, packet.transmission(self.rate)) {
                    Start::At(at) if at <= now => shuts = Some(gates.phase(now, index).1),
                    Start::At(at) => {
                        earlier(at);
                        continue;
                    }
                    Start::Never => continue,
                }
            }
            match class.credit.as_ref().map_or(Some(now), Credit::enough_at) {
                Some(at) if at > now => {
                    // Of a gate that shuts before, when it opens next is asked then.
                    earlier(shuts.map_or(at, |shuts| shuts.min(at)));
                    continue;
                }
                Some(_) => {}
                None => continue,
            }
            let mut again = None;
            if let Some(packet) = class.take(now, &mut self.lost, &mut again) {
                self.sending = Some((packet.frame, index));
                return Some(packet.frame);
            }
            again.into_iter().for_each(&mut earlier);
        }
        self.planned = look;
        None
    }

    fn is_sending(&self, class: usize) -> bool {
        self.sending.is_some_and(|(_, sending)| sending == class)
    }
}
