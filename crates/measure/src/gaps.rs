//! Cycles that are missing from the trace of an end whose records found no room.
//!
//! Every end reports its application phase in every cycle, or that it left cycles out; what it reported neither of was
//! lost on the way to the collector. A message under way there may have been lost or not: nobody knows.

use units::Nanos;

use crate::Phase;
use crate::collect::EndLog;

/// How many cycles around a gap a message may have been under way in it.
const REACH_CYCLES: i64 = 8;

/// First and last cycle of each stretch that is missing, in order.
pub(crate) type Gaps = Vec<(i64, i64)>;

/// Finds the gaps of an end; `until` is the last cycle that any end reported.
pub(crate) fn of(end: &EndLog, cycle: Nanos, until: Option<i64>) -> Gaps {
    let Some(origin) = end.origin else { return Gaps::new() };
    let begins = end.phases[Phase::Application as usize].iter();
    let reported = begins.map(|ran| ran.due.saturating_sub(origin).div_euclid(cycle.0.max(1))).map(|at| (at, at));
    let left_out =
        end.skipped.iter().map(|&(first, count)| (first, first.saturating_add(i64::from(count)).saturating_sub(1)));
    let mut known: Vec<_> = reported.chain(left_out).collect();
    known.sort_unstable();
    let mut gaps = Gaps::new();
    let mut next = None;
    for (first, last) in known {
        if let Some(next) = next.filter(|&next| first > next) {
            gaps.push((next, first - 1));
        }
        next = next.max(Some(last.saturating_add(1)));
    }
    if let (Some(next), Some(until)) = (next, until)
        && until > next
    {
        gaps.push((next, until));
    }
    gaps
}

/// Whether a message of this cycle may have been under way in a gap.
pub(crate) fn reach(gaps: &Gaps, cycle: i64) -> bool {
    let first = gaps.partition_point(|&(_, last)| last.saturating_add(REACH_CYCLES) < cycle);
    gaps.get(first).is_some_and(|&(first, _)| first.saturating_sub(REACH_CYCLES) <= cycle)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collect::Ran;

    #[test]
    fn cycles_without_a_word_are_gaps() {
        let mut end = EndLog { origin: Some(1_000), ..EndLog::default() };
        let ran = |cycle: i64| Ran { due: 1_000 + cycle * 100 + 30, late: 0, took: 1 };
        end.phases[Phase::Application as usize] = [0, 1, 2, 5, 6, 9, 10].map(ran).to_vec();
        end.skipped = vec![(3, 2)];
        assert_eq!(of(&end, Nanos(100), Some(10)), [(7, 8)]);
        assert_eq!(of(&end, Nanos(100), Some(11)), [(7, 8)], "ends stop a cycle apart");
        let gaps = of(&end, Nanos(100), Some(40));
        assert_eq!(gaps, [(7, 8), (11, 40)]);
        assert!(of(&EndLog::default(), Nanos(100), Some(40)).is_empty());
        let gaps = vec![(100, 110), (200, 300)];
        let reached: Vec<_> = [91, 92, 118, 119, 191, 192, 250, 308, 309].map(|cycle| reach(&gaps, cycle)).to_vec();
        assert_eq!(reached, [false, true, true, false, false, true, true, true, false]);
    }
}
