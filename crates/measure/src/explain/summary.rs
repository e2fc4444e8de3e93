//! From the parts of every message to their distributions and to the messages worth showing.

use super::{Parts, Split, SplitMessage, SplitTimes};
use crate::dist::rank;
use crate::{Dist, FrameRow};

/// How many of the longest messages a result shows.
const WORST: usize = 10;

/// Sums up the parts of a stream's messages; `None` when no message came all the way.
pub(crate) fn split(echo: bool, rows: &[FrameRow], parts: &[Parts]) -> Option<Split> {
    let all: Vec<(&FrameRow, &Parts)> = rows.iter().zip(parts).filter(|(_, parts)| parts.whole.is_some()).collect();
    if all.is_empty() {
        return None;
    }
    let over = |part: fn(&Parts) -> Option<i64>| Dist::of(all.iter().filter_map(|(_, parts)| part(parts)));
    // By length, then by counter: equal inputs give equal messages.
    let length = |&(row, parts): &(&FrameRow, &Parts)| (parts.whole, std::cmp::Reverse(row.counter));
    let mut told: Vec<_> = all.iter().copied().filter(|(_, parts)| parts.stack.is_some()).collect();
    let mut at = |per_10_000: u128| {
        let index = rank(told.len(), per_10_000) - 1;
        (index < told.len()).then(|| {
            let (_, &mut (row, parts), _) = told.select_nth_unstable_by_key(index, length);
            message(row, parts)
        })
    };
    let (median, p99) = (at(5_000), at(9_900));
    let mut worst = all.clone();
    let longest = |entry: &(&FrameRow, &Parts)| std::cmp::Reverse(length(entry));
    if worst.len() > WORST {
        worst.select_nth_unstable_by_key(WORST, longest);
        worst.truncate(WORST);
    }
    worst.sort_unstable_by_key(longest);
    Some(Split {
        of: if echo { "round_trip.stack" } else { "one_way_stack" }.to_owned(),
        schedule: over(|parts| parts.schedule),
        stack: over(|parts| parts.stack),
        wire: over(|parts| parts.wire),
        host: over(|parts| parts.host),
        median,
        p99,
        worst: worst.iter().map(|&(row, parts)| message(row, parts)).collect(),
    })
}

fn message(row: &FrameRow, parts: &Parts) -> SplitMessage {
    let [t1, t2, t3, t4, t5, t6, t7, t8] = row.t;
    SplitMessage {
        counter: row.counter,
        cycle: row.cycle,
        whole_ns: parts.whole.unwrap_or_default(),
        schedule_ns: parts.schedule,
        stack_ns: parts.stack,
        wire_ns: parts.wire,
        host_ns: parts.host,
        t: SplitTimes { t1, t2, t3, t4, t5, t6, t7, t8 },
    }
}
