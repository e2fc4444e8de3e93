//! Gate schedules: the windows of a class, and a schedule made around one window.

use std::fmt;

use scenario::{GateEntry, GateSchedule, Open, TaprioMode, Window};
use units::{Nanos, Tai};

/// Where in its window an instant of the cycle lies: the window and the instant, moved by a cycle where the window
/// reaches past the end.
pub fn window_of(schedule: &GateSchedule, class: u8, instant: Nanos) -> Option<(Window, Nanos)> {
    let Open::In(windows) = schedule.open(class) else { return None };
    let phase = Nanos(instant.0.rem_euclid(schedule.cycle.0.max(1)));
    let inside = |window: &Window, at: Nanos| window.start <= at && at <= window.end;
    windows.into_iter().find_map(|window| {
        let later = phase + schedule.cycle;
        if inside(&window, phase) { Some((window, phase)) } else { inside(&window, later).then_some((window, later)) }
    })
}

/// Whether the kernel takes a launch at `instant` of a frame that is on the line for `length`: it lies within one entry in which
/// the gate of `class` is open, both ends strictly. Linux looks at entries one by one (`find_entry_to_transmit` in
/// `net/sched/sch_taprio.c`): a gate that stays open from one to the next is none to it.
pub fn takes_launch(schedule: &GateSchedule, class: u8, instant: Nanos, length: Nanos) -> bool {
    let phase = Nanos(instant.0.rem_euclid(schedule.cycle.0.max(1)));
    let mut start = Nanos::ZERO;
    schedule.entries.iter().any(|entry| {
        let (from, end) = (start, start + entry.interval);
        start = end;
        entry.gates >> class & 1 == 1 && from < phase && phase + length < end
    })
}

/// How long before `instant` every gate but that of `class` has been shut: the guard band that stands there. `None`
/// when no other gate ever opens.
pub fn shut_before(schedule: &GateSchedule, class: u8, instant: Nanos) -> Option<Nanos> {
    let others = !(1_u8 << class);
    let cycle = schedule.cycle;
    let phase = Nanos(instant.0.rem_euclid(cycle.0.max(1)));
    let mut at = Nanos::ZERO;
    let mut shut = None;
    for entry in &schedule.entries {
        let end = at + entry.interval;
        if entry.gates & others != 0 && entry.interval > Nanos::ZERO {
            // Open at the instant itself, or shut for the time since it closed last.
            let since =
                if at < phase && phase < end { Nanos::ZERO } else { Nanos((phase - end).0.rem_euclid(cycle.0)) };
            shut = Some(shut.map_or(since, |shortest: Nanos| shortest.min(since)));
        }
        at = end;
    }
    shut
}

/// One class alone in a window, behind and before a guard band, all others in the rest of the cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Protected {
    /// Cycle of the schedule.
    pub cycle: Nanos,
    /// The class that has the window for itself.
    pub class: u8,
    /// Number of classes.
    pub classes: u8,
    /// The launch that the window is for, from the start of the cycle.
    pub launch: Nanos,
    /// How long before the launch the window opens; above zero, because Linux drops a frame whose launch time is the
    /// edge of its window.
    pub lead: Nanos,
    /// How long the window is.
    pub window: Nanos,
    /// How long all gates are shut before it and after it.
    pub guard: Nanos,
}

/// Why no schedule can be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScheduleError {
    /// The window and its guard bands fill the cycle: nobody else would ever send.
    NoRoom {
        /// What they need.
        needed: Nanos,
        /// What there is.
        cycle: Nanos,
    },
    /// The launch would be at an edge of the window or outside.
    Edge {
        /// How long before the launch it opens.
        lead: Nanos,
        /// How long it is.
        window: Nanos,
    },
    /// There is no class for it, or none beside it.
    Class {
        /// The class.
        class: u8,
        /// Number of classes.
        classes: u8,
    },
    /// A span is negative.
    Negative,
}

impl fmt::Display for ScheduleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRoom { needed, cycle } => write!(
                f,
                "window and guard bands take {needed} of a cycle of {cycle}: expected some time for the other classes; \
                 shorten the window or lengthen the cycle"
            ),
            Self::Edge { lead, window } => write!(
                f,
                "the launch is {lead} into a window of {window}: expected it strictly inside, because Linux drops frames \
                 at the edges; lengthen the window or change the lead"
            ),
            Self::Class { class, classes } => {
                write!(f, "class {class} of {classes}: expected 2 to 8 classes and one of them")
            }
            Self::Negative => write!(f, "a span is negative: expected spans from zero up"),
        }
    }
}

impl std::error::Error for ScheduleError {}

/// Makes the gate control list of one protected window, which is one entry of it. Its intervals sum to the cycle; base-time is zero,
/// or the start of the first guard band where the window would go over the end of a cycle.
///
/// # Errors
/// Why there is none.
///
/// ```
/// use downbeat_tsn::gates::{Protected, protected};
/// use units::Nanos;
/// // Kirdan et al., Table X: 62.5 µs for the stream, 15 µs of guard on both sides, launch at 150 µs.
/// let us = Nanos::from_micros;
/// let spec = Protected {
///     cycle: us(250), class: 1, classes: 2, launch: us(150), lead: us(15), window: Nanos(62_500), guard: us(15),
/// };
/// let schedule = protected(&spec).unwrap();
/// let entries: Vec<_> = schedule.entries.iter().map(|entry| (entry.gates, entry.interval.0)).collect();
/// assert_eq!(entries, [(1, 120_000), (0, 15_000), (2, 62_500), (0, 15_000), (1, 37_500)]);
/// ```
pub fn protected(spec: &Protected) -> Result<GateSchedule, ScheduleError> {
    let Protected { cycle, class, classes, launch, lead, window, guard } = *spec;
    if [launch, lead, window, guard].iter().any(|span| *span < Nanos::ZERO) {
        return Err(ScheduleError::Negative);
    }
    if !(2..=8).contains(&classes) || class >= classes {
        return Err(ScheduleError::Class { class, classes });
    }
    if lead <= Nanos::ZERO || lead >= window {
        return Err(ScheduleError::Edge { lead, window });
    }
    let needed = guard + window + guard;
    if needed >= cycle {
        return Err(ScheduleError::NoRoom { needed, cycle });
    }
    let own = 1 << class;
    let others = (u8::MAX >> (8 - classes)) & !own;
    // Laid out from the start of the first guard band, then turned so that the cycle starts where it has to; but a window that
    // goes over its end would become two entries, and a launch where one ends is lost. Then cycles begin with the guard band.
    let parts = [(0, guard), (own, window), (0, guard), (others, cycle - needed)];
    let begin = Nanos((launch - lead - guard).0.rem_euclid(cycle.0));
    let cut = begin + guard < cycle && begin + guard + window > cycle;
    let (base_time, start) = if cut { (Tai(begin.0), Nanos::ZERO) } else { (Tai(0), begin) };
    let mut entries: Vec<GateEntry> = Vec::with_capacity(6);
    let mut put = |gates, interval| {
        if interval > Nanos::ZERO {
            entries.push(GateEntry { gates, interval });
        }
    };
    let mut at = start;
    let mut wrapped = Vec::new();
    for (gates, interval) in parts {
        let end = at + interval;
        if end <= cycle {
            wrapped.push((at, gates, interval));
        } else if at >= cycle {
            wrapped.push((at - cycle, gates, interval));
        } else {
            wrapped.push((at, gates, cycle - at));
            wrapped.push((Nanos::ZERO, gates, end - cycle));
        }
        at = end;
    }
    wrapped.sort_by_key(|(at, ..)| *at);
    wrapped.into_iter().for_each(|(_, gates, interval)| put(gates, interval));
    Ok(GateSchedule { base_time, cycle, entries, mode: TaprioMode::Software })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(entries: &[(u8, i64)]) -> GateSchedule {
        let entries: Vec<_> =
            entries.iter().map(|&(gates, us)| GateEntry { gates, interval: Nanos::from_micros(us) }).collect();
        let cycle = entries.iter().map(|entry| entry.interval).sum();
        GateSchedule { base_time: Tai(0), cycle, entries, mode: TaprioMode::Software }
    }

    #[test]
    fn windows_across_the_end_of_the_cycle_are_one() {
        let schedule = schedule(&[(2, 50), (1, 100), (2, 60), (3, 40)]);
        let us = Nanos::from_micros;
        assert_eq!(schedule.open(1), Open::In(vec![Window { start: us(150), end: us(300) }]));
        assert_eq!(
            schedule.open(0),
            Open::In(vec![Window { start: us(50), end: us(150) }, Window { start: us(210), end: us(250) }])
        );
        assert_eq!(schedule.open(2), Open::In(vec![]));
        let (window, at) = window_of(&schedule, 1, us(20)).unwrap();
        assert_eq!((window.start, at), (us(150), us(270)));
    }

    #[test]
    fn a_launch_lies_within_one_entry() {
        let schedule = schedule(&[(1, 20), (2, 60), (3, 10), (1, 10)]);
        let takes = |class, us: i64, ns| takes_launch(&schedule, class, Nanos(us * 1_000 + ns), Nanos(800));
        assert!(takes(0, 0, 1) && takes(0, 119, 0) && takes(1, 20, 1));
        // At an edge, whether the gate moves there or not; and over one.
        assert!(!takes(0, 0, 0) && !takes(0, 90, 0) && !takes(0, 89, 500) && !takes(1, 80, 0));
        assert!(takes(0, 89, 199) && !takes(0, 89, 200) && !takes(0, 50, 0));
    }

    #[test]
    fn the_guard_before_an_instant_is_measured() {
        let schedule = schedule(&[(1, 120), (0, 15), (2, 60), (0, 15), (1, 40)]);
        let us = Nanos::from_micros;
        assert_eq!(shut_before(&schedule, 1, us(135)), Some(us(15)));
        assert_eq!(shut_before(&schedule, 1, us(150)), Some(us(30)));
        assert_eq!(shut_before(&schedule, 1, us(60)), Some(Nanos::ZERO));
        assert_eq!(shut_before(&schedule, 0, us(0)), Some(us(55)));
        assert_eq!(shut_before(&super::tests::schedule(&[(1, 100), (0, 20)]), 0, us(0)), None);
    }

    #[test]
    fn what_cannot_be_laid_out_says_why() {
        let us = Nanos::from_micros;
        let good = Protected {
            cycle: us(250),
            class: 1,
            classes: 2,
            launch: us(150),
            lead: us(15),
            window: us(60),
            guard: us(15),
        };
        let at_edge = protected(&Protected { lead: Nanos::ZERO, ..good }).unwrap_err();
        assert!(at_edge.to_string().contains("strictly inside"), "{at_edge}");
        let full = protected(&Protected { window: us(220), ..good }).unwrap_err();
        assert!(full.to_string().contains("250us"), "{full}");
        assert!(protected(&Protected { class: 2, ..good }).unwrap_err().to_string().contains("class 2 of 2"));
        assert_eq!(protected(&Protected { guard: us(-1), ..good }), Err(ScheduleError::Negative));
    }
}
