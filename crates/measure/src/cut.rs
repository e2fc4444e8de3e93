//! Cutting a run into parts, so that its memory stays flat however long it goes on.
//!
//! What happened before the cut goes into the part, whole messages at a time: a message belongs to the part in which
//! it was first seen, unless an end may still send it again, and then to the next. The caller leaves enough time before
//! now for messages under way, so that none is lost by a cut.

use units::Tai;

use crate::Collector;
use crate::collect::{EndLog, NONE, Send, StreamLog};
use crate::index::Index;

/// Where a message of the whole lies in what is kept.
const GONE: u32 = u32::MAX;

impl Collector {
    /// Cuts off what was settled before `before`. The part joins with [`Collector::finish`] on its own: none of its
    /// messages counts as under way.
    #[must_use]
    pub fn cut(&mut self, before: Tai) -> Self {
        let mut part = Self::empty();
        // Those of a gap that the cut goes through are told with what came before it.
        part.lost_records = std::mem::take(&mut self.lost_records);
        part.streams = self.streams.iter_mut().map(|stream| stream.cut(before.0)).collect();
        part
    }
}

impl StreamLog {
    fn cut(&mut self, before: i64) -> Self {
        let last_sent = [0, 1].map(|end| self.ends[end].last_message());
        let (mut kept, mut gone) = (Vec::new(), Vec::new());
        let mut index = Index::default();
        let mut places = Vec::with_capacity(self.messages.len());
        for (position, message) in std::mem::take(&mut self.messages).into_iter().enumerate() {
            let first = message.t.iter().copied().filter(|&at| at != NONE).min();
            if first.is_some_and(|first| first >= before) || last_sent.contains(&Some(position)) {
                index.insert(message.counter, kept.len());
                places.push(kept.len() as u32);
                kept.push(message);
            } else {
                places.push(GONE);
                gone.push(message);
            }
        }
        (self.messages, self.index) = (kept, index);
        let ends = [0, 1].map(|end| self.ends[end].cut(before, &places));
        let mut part = self.without_log();
        (part.messages, part.ends, part.part) = (gone, ends, true);
        part
    }
}

impl EndLog {
    /// Place of the message that this end sent last, and may send again.
    fn last_message(&self) -> Option<usize> {
        let published = self.sends.iter().filter(|send| send.message != GONE);
        published.max_by_key(|send| send.at).map(|send| send.message as usize)
    }

    fn cut(&mut self, before: i64, places: &[u32]) -> Self {
        let (mut old, mut index) = (Vec::new(), Index::default());
        let mut kept = Vec::new();
        for send in std::mem::take(&mut self.sends) {
            let place = places.get(send.message as usize).copied().unwrap_or(GONE);
            // Its publication may still be on its way: the ring of stamps is another.
            let waits = send.message == GONE && (send.left == NONE || send.left >= before);
            if place != GONE || waits {
                index.insert(u64::from(send.handle), kept.len());
                kept.push(Send { message: place, ..send });
            } else {
                old.push(send);
            }
        }
        (self.sends, self.send_index) = (kept, index);
        let first_kept = self.cycle_at(before);
        let early = |cycle: i64| first_kept.is_none_or(|first| cycle < first);
        let mut part = self.without_log();
        // Only failed sends are looked at once messages are joined.
        part.sends = split(&mut old, |send| send.failed.is_some());
        part.refusals = std::mem::take(&mut self.refusals);
        part.breaches = self.breaches.cut(before, first_kept);
        part.outside = self.outside.cut();
        (part.wrong_tag, part.inconsistent) = (self.wrong_tag.take(), self.inconsistent.take());
        part.application = self.application.take();
        part.round_trips = split(&mut self.round_trips, |(cycle, _)| early(*cycle));
        part.phases = [0, 1, 2, 3].map(|phase| split(&mut self.phases[phase], |ran| ran.due < before));
        part.outliers = split(&mut self.outliers, |outlier| outlier.due < before);
        part.skipped = split(&mut self.skipped, |(cycle, _)| early(*cycle));
        part.drained = split(&mut self.drained, |drain| early(drain.cycle));
        part.receive_failed = std::mem::take(&mut self.receive_failed);
        part.steps = split(&mut self.steps, |(at, _)| *at < before);
        part
    }
}

/// Takes out what is old; both keep their order.
fn split<T>(all: &mut Vec<T>, old: impl Fn(&T) -> bool) -> Vec<T> {
    let (part, kept) = std::mem::take(all).into_iter().partition(old);
    *all = kept;
    part
}

#[cfg(test)]
mod tests {
    use scenario::{LineSpec, line};

    use super::*;
    use crate::{Event, EventKind, Side};

    const CYCLE: i64 = 250_000;

    fn published(cycle: i64, repeated: bool, handle: u32) -> EventKind {
        EventKind::Published {
            cycle,
            counter: cycle as u64 + 1,
            sequence: cycle as u16,
            handle,
            at: Tai(cycle * CYCLE + 1),
            launch: None,
            bytes: 100,
            repeated,
        }
    }

    fn arrived(cycle: i64, later: i64) -> EventKind {
        let at = cycle * CYCLE + later;
        EventKind::Arrived {
            cycle,
            counter: cycle as u64 + 1,
            stamp: Some(Tai(at)),
            decoded: Tai(at + 10),
            tag: None,
            superseded: None,
            inconsistent: false,
        }
    }

    /// What happens to the message of one cycle, except that some are lost.
    fn message(cycle: i64) -> Vec<(Side, EventKind)> {
        let handle = cycle as u32;
        let mut events = vec![
            (Side::Writer, published(cycle, false, handle)),
            (Side::Writer, EventKind::Left { handle, at: Tai(cycle * CYCLE + 50) }),
        ];
        if cycle % 10 != 3 {
            events.push((Side::Reader, arrived(cycle, 70)));
            events.push((Side::Reader, published(cycle, false, handle)));
            events.push((Side::Reader, EventKind::Left { handle, at: Tai(cycle * CYCLE + 90) }));
            events.push((Side::Writer, arrived(cycle, 600_000)));
        }
        events
    }

    #[test]
    fn parts_hold_every_message_once_and_no_cut_loses_one() {
        let scenario = line(&LineSpec::default());
        let count = 400;
        // Answers come three cycles later: at every cut some are under way.
        let mut events: Vec<_> =
            (0..count).flat_map(|cycle| message(cycle).into_iter().map(move |event| (cycle, event))).collect();
        events.sort_by_key(|(cycle, (side, kind))| {
            let back = *side == Side::Writer && matches!(kind, EventKind::Arrived { .. });
            cycle + if back { 3 } else { 0 }
        });
        let collect = |cuts: &[i64]| {
            let mut collector = Collector::new(&scenario);
            let (mut parts, mut cuts) = (Vec::new(), cuts.iter().copied().peekable());
            for (cycle, (side, kind)) in &events {
                while cuts.next_if(|cut| cut < cycle).is_some() {
                    parts.push(collector.cut(Tai((cycle - 10) * CYCLE)));
                }
                collector.push(Event { stream: 0, side: *side, kind: *kind });
            }
            let counts = collector.counts();
            parts.push(collector);
            (counts, parts.into_iter().map(|part| part.finish(&scenario)).collect::<Vec<_>>())
        };
        let (whole_counts, whole) = collect(&[]);
        let (counts, parts) = collect(&[100, 101, 250, 399]);
        assert_eq!(parts.len(), 4, "the last cut comes after the last event");
        assert_eq!(counts, whole_counts);
        let rows: Vec<_> = parts.iter().flat_map(|part| &part.rows).collect();
        assert_eq!(rows.len(), count as usize);
        assert!(
            rows.iter().zip(&whole[0].rows).all(|(part, whole)| (part.counter, part.t) == (whole.counter, whole.t))
        );
        let sum = |of: fn(&crate::Loss) -> u64| parts.iter().map(|part| of(&part.streams[0].loss)).sum::<u64>();
        let all = &whole[0].streams[0].loss;
        assert_eq!(sum(|loss| loss.published + loss.under_way), count as u64);
        assert_eq!(sum(|loss| loss.dSum.unwrap_or(0)), all.dSum.unwrap());
        for part in &parts[..3] {
            assert_eq!(part.streams[0].loss.under_way, 0);
        }
    }

    #[test]
    fn a_time_that_was_set_is_told_by_the_part_in_which_it_was() {
        let mut collector = Collector::new(&line(&LineSpec::default()));
        for cycle in [10, 30] {
            let kind = EventKind::ClockStepped { at: Tai(cycle * CYCLE), by: units::Nanos(-1) };
            collector.push(Event { stream: 0, side: Side::Writer, kind });
        }
        let part = collector.cut(Tai(20 * CYCLE));
        let told = |collector: &Collector| collector.streams[0].ends[0].steps.clone();
        assert_eq!((told(&part), told(&collector)), (vec![(10 * CYCLE, -1)], vec![(30 * CYCLE, -1)]));
    }

    #[test]
    fn what_is_sent_again_and_again_stays_until_something_else_is() {
        let scenario = line(&LineSpec::default());
        let mut collector = Collector::new(&scenario);
        let push = |collector: &mut Collector, kind| collector.push(Event { stream: 0, side: Side::Reader, kind });
        push(&mut collector, arrived(0, 70));
        push(&mut collector, published(0, false, 0));
        let again = |handle: u32| match published(0, true, handle) {
            EventKind::Published { cycle, counter, sequence, handle, launch, bytes, repeated, .. } => {
                let at = Tai(i64::from(handle) * CYCLE);
                EventKind::Published { cycle, counter, sequence, handle, at, launch, bytes, repeated }
            }
            other => other,
        };
        for handle in 1..50 {
            push(&mut collector, again(handle));
        }
        let part = collector.cut(Tai(40 * CYCLE)).finish(&scenario);
        assert!(part.rows.is_empty());
        push(&mut collector, again(50));
        let rest = collector.finish(&scenario);
        assert_eq!(rest.rows.len(), 1);
        assert_eq!(rest.rows[0].at(3), Some(70));
    }
}
