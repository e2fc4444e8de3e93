//! Queues of flows in turn, each kept short: `sch_fq_codel`.

mod codel;

use std::collections::{BTreeMap, VecDeque};

use super::{Discipline, Dropped, FqCodel};
use crate::port::{Cause, Packet};
use codel::{Codel, Controls};

/// Frames that are dropped at once from the longest queue when there are too many.
const BATCH: usize = 64;

#[derive(Debug, Default)]
struct Flow {
    /// With the time each came, in units of CoDel.
    waiting: VecDeque<(u32, Packet)>,
    bytes: u64,
    deficit: i64,
    /// In one of the lists.
    listed: bool,
    codel: Codel,
}

#[derive(Debug)]
pub(super) struct FlowQueues {
    parameters: FqCodel,
    controls: Controls,
    /// By bucket.
    flows: BTreeMap<u32, Flow>,
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    frames: usize,
    bytes: u64,
    /// A frame that has been taken out for a look.
    held: Option<Packet>,
    timer: Option<i64>,
}

impl FlowQueues {
    pub(super) fn new(parameters: FqCodel) -> Self {
        let controls = Controls::new(parameters.target, parameters.interval, parameters.mtu);
        Self {
            parameters,
            controls,
            flows: BTreeMap::new(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            frames: 0,
            bytes: 0,
            held: None,
            timer: None,
        }
    }

    /// Halves the longest queue, from its head.
    fn drop_from_longest(&mut self, dropped: &mut Dropped) {
        let mut longest: Option<(u64, u32)> = None;
        for (bucket, flow) in &self.flows {
            if longest.is_none_or(|(bytes, _)| flow.bytes > bytes) {
                longest = Some((flow.bytes, *bucket));
            }
        }
        let Some(flow) = longest.and_then(|(_, bucket)| self.flows.get_mut(&bucket)) else { return };
        let enough = flow.bytes / 2;
        let (mut count, mut bytes) = (0, 0);
        while let Some((_, packet)) = flow.waiting.pop_front() {
            bytes += u64::from(packet.counted);
            count += 1;
            dropped.push((packet.frame, Cause::Full));
            if count == BATCH || bytes >= enough {
                break;
            }
        }
        flow.codel.dropped(count as u32);
        flow.bytes -= bytes;
        self.bytes -= bytes;
        self.frames -= count;
    }

    /// The next in turn.
    fn take(&mut self, now: i64, dropped: &mut Dropped) -> Option<Packet> {
        loop {
            let from_new = !self.new.is_empty();
            let list = if from_new { &mut self.new } else { &mut self.old };
            let bucket = *list.front()?;
            let Some(flow) = self.flows.get_mut(&bucket) else {
                list.pop_front();
                continue;
            };
            if flow.deficit <= 0 {
                flow.deficit += i64::from(self.parameters.quantum);
                list.pop_front();
                self.old.push_back(bucket);
                continue;
            }
            let (frames, bytes) = (&mut self.frames, &mut self.bytes);
            let (waiting, own) = (&mut flow.waiting, &mut flow.bytes);
            let mut pop = |all: &mut u64| {
                let (came, packet) = waiting.pop_front()?;
                *frames -= 1;
                *own -= u64::from(packet.counted);
                *all -= u64::from(packet.counted);
                Some((came, packet))
            };
            let lost = &mut |packet: Packet| dropped.push((packet.frame, Cause::Codel));
            match flow.codel.dequeue(codel::time(now), &self.controls, bytes, &mut pop, lost) {
                Some(packet) => {
                    flow.deficit -= i64::from(packet.counted);
                    return Some(packet);
                }
                None => {
                    list.pop_front();
                    // A new flow has one more turn among the old ones, or new ones would starve them.
                    if from_new && !self.old.is_empty() {
                        self.old.push_back(bucket);
                    } else {
                        flow.listed = false;
                    }
                }
            }
        }
    }
}

impl Discipline for FlowQueues {
    fn enqueue(&mut self, now: i64, packet: Packet, dropped: &mut Dropped) -> bool {
        let flow = self.flows.entry(packet.flow).or_default();
        flow.waiting.push_back((codel::time(now), packet));
        flow.bytes += u64::from(packet.counted);
        self.bytes += u64::from(packet.counted);
        self.frames += 1;
        if !flow.listed {
            flow.listed = true;
            flow.deficit = self.parameters.quantum.into();
            self.new.push_back(packet.flow);
        }
        if self.len() > self.parameters.limit {
            self.drop_from_longest(dropped);
        }
        // Nobody is told, whosesoever frames it drops (`NET_XMIT_CN`).
        true
    }

    fn peek(&mut self, now: i64, dropped: &mut Dropped) -> Option<Packet> {
        if self.held.is_none() {
            self.held = self.take(now, dropped);
        }
        self.held
    }

    fn dequeue(&mut self, now: i64, dropped: &mut Dropped) -> Option<Packet> {
        self.held.take().or_else(|| self.take(now, dropped))
    }

    fn len(&self) -> usize {
        self.frames + usize::from(self.held.is_some())
    }

    fn timer(&mut self) -> &mut Option<i64> {
        &mut self.timer
    }
}
