//! Which real-time class cyclic threads ask for, and the share of a processor that a deadline thread needs.

use std::fmt;
use std::str::FromStr;

use measure::Phase;
use rt::thread::Deadline;
use rt::wait::Wait;
use serde::{Deserialize, Serialize};
use units::Nanos;

use crate::beat::Times;

/// A scheduling class (sched(7)).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scheduling {
    /// SCHED_FIFO.
    #[default]
    Fifo,
    /// SCHED_DEADLINE: above all SCHED_FIFO threads, and on whichever processor is free.
    Deadline,
    /// That of ordinary threads.
    None,
}

impl fmt::Display for Scheduling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fifo => "fifo",
            Self::Deadline => "deadline",
            Self::None => "none",
        })
    }
}

impl FromStr for Scheduling {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = [Self::Fifo, Self::Deadline, Self::None];
        all.into_iter().find(|class| class.to_string() == text).ok_or_else(|| "expected fifo, deadline or none".into())
    }
}

/// What a thread with these rhythms asks for: the shortest cycle as period and as deadline, because with a shorter deadline the
/// kernel holds a thread that wakes up after it back until the next period (`dl_check_constrained_dl` in
/// kernel/sched/deadline.c), which the later phases of a cycle do; as runtime the shortest time from one
/// of its phases to the next, and the quarter of the cycle that a hybrid wait may spin. Threads with one phase each share
/// what one with all would ask for: a third of that time each, and the spinning for the one that publishes. `None` without a
/// rhythm.
pub(crate) fn share<'a>(rhythms: impl Iterator<Item = &'a Times>, only: Option<Phase>, wait: Wait) -> Option<Deadline> {
    let times = rhythms.min_by_key(|times| times.cycle)?;
    let starts = [times.subscribe, times.application, times.publish, times.cycle + times.subscribe];
    let between = starts.windows(2).map(|pair| pair[1] - pair[0]).filter(|span| *span > Nanos::ZERO).min()?;
    let spins = wait != Wait::Sleep && !matches!(only, Some(Phase::Subscribe | Phase::Application));
    let spinning = if spins { times.cycle / 4 } else { Nanos::ZERO };
    // Two phases may be a cycle apart.
    let runtime = (between / if only.is_some() { 3 } else { 1 } + spinning).min(times.cycle * 9 / 10);
    Some(Deadline { runtime, deadline: times.cycle, period: times.cycle })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(cycle: Nanos, phases: [i64; 3]) -> Times {
        let [subscribe, application, publish] = phases.map(|tenths| cycle * tenths / 10);
        Times { cycle, subscribe, window: Nanos::ZERO, application, publish }
    }

    #[test]
    fn a_share_follows_from_the_shortest_cycle_and_its_closest_phases() {
        let all = [times(Nanos::from_millis(4), [0, 1, 2]), times(Nanos::from_millis(1), [0, 3, 6])];
        let us = Nanos::from_micros;
        let share = |wait| share(all.iter(), None, wait).unwrap();
        assert_eq!(share(Wait::Sleep), Deadline { runtime: us(300), deadline: us(1_000), period: us(1_000) });
        assert_eq!(share(Wait::Hybrid), Deadline { runtime: us(550), deadline: us(1_000), period: us(1_000) });
        assert_eq!(super::share([].iter(), None, Wait::Sleep), None);
    }

    #[test]
    fn threads_with_a_phase_each_ask_for_no_more_than_one_with_all() {
        let all = [times(Nanos::from_millis(1), [0, 3, 6])];
        for (wait, expected) in [(Wait::Sleep, [100, 100, 100]), (Wait::Hybrid, [100, 100, 350])] {
            let of = |only| share(all.iter(), only, wait).unwrap().runtime;
            let each = [Phase::Subscribe, Phase::Application, Phase::Publish].map(|phase| of(Some(phase)));
            assert_eq!(each, expected.map(Nanos::from_micros), "{wait}");
            assert_eq!(each[0] + each[1] + each[2], of(None), "{wait}");
        }
    }

    #[test]
    fn no_phases_make_an_impossible_share() {
        for phases in [[0, 0, 0], [0, 0, 9], [0, 9, 9], [3, 3, 9], [9, 9, 9]] {
            for wait in [Wait::Sleep, Wait::Hybrid] {
                let Deadline { runtime, deadline, period } =
                    share([times(Nanos::from_millis(1), phases)].iter(), None, wait).unwrap();
                assert!(Nanos::ZERO < runtime && runtime <= deadline && deadline <= period, "{phases:?} {wait}");
            }
        }
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for class in [Scheduling::Fifo, Scheduling::Deadline, Scheduling::None] {
            assert_eq!(class.to_string().parse(), Ok(class));
        }
        assert!("rr".parse::<Scheduling>().unwrap_err().contains("deadline"));
    }
}
