//! Gates turned into launch times: `get_packet_txtime`.

use units::Nanos;

use super::list::GateList;

/// Where the next frame of each entry goes.
#[derive(Debug)]
pub(super) struct Assist {
    start: i64,
    delay: i64,
    /// By entry: from when on a frame may be put there.
    next: Vec<i64>,
}

/// An entry for a frame, and when it is.
struct Found {
    index: usize,
    from: i64,
    to: i64,
}

impl Assist {
    pub(super) fn new(list: &GateList, start: Nanos, delay: Nanos) -> Self {
        let mut at = start.0;
        let next = list
            .entries()
            .iter()
            .map(|entry| {
                let from = at;
                at += entry.interval;
                from
            })
            .collect();
        Self { start: start.0, delay: delay.0, next }
    }

    pub(super) fn start(&self) -> i64 {
        self.start
    }

    /// The launch time of a frame that comes now; `None` when no entry is open for it.
    pub(super) fn launch(&mut self, list: &GateList, now: Nanos, class: usize, bytes: u32) -> Option<Nanos> {
        let span = list.duration(bytes);
        let mut least = now.0 + self.delay;
        if least < self.start {
            return Some(Nanos(least));
        }
        loop {
            let Found { index, from, to } = self.find(list, least, class, span)?;
            let launch = self.next[index].max(least).max(from);
            let end = launch + span;
            if end <= to {
                self.next[index] = end;
                // 0 means to Linux that there is none.
                return (launch != 0).then_some(Nanos(launch));
            }
            least = end;
            self.next[index] = from + list.cycle();
        }
    }

    /// `find_entry_to_transmit`: the first entry in the list that suits, as Linux goes through it.
    fn find(&self, list: &GateList, time: i64, class: usize, span: i64) -> Option<Found> {
        let cycle = list.cycle();
        let mut to = time - (time - self.start) % cycle;
        let end = to + cycle;
        let (mut found, mut earliest, mut wrapped) = (None, i64::MAX, false);
        for (index, entry) in list.entries().iter().enumerate() {
            let from = to;
            to = (from + entry.interval).min(end);
            if entry.gates >> class & 1 == 0 || span > entry.interval {
                continue;
            }
            let next = self.next[index];
            if next < time {
                if (from < time && time + span < to) || from > time {
                    return Some(Found { index, from, to });
                }
                if !wrapped {
                    wrapped = true;
                    found = Some(Found { index, from: from + cycle, to: to + cycle });
                }
            } else if next < earliest && !wrapped {
                earliest = next;
                let cycles = (next - from) / cycle * cycle;
                found = Some(Found { index, from: from + cycles, to: to + cycles });
            }
        }
        found
    }
}
