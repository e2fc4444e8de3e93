//! `gate-parameter-table` of ieee802-dot1q-sched.

use scenario::GateSchedule;
use units::Nanos;

use crate::json::{Node, table};

const SECOND: u64 = 1_000_000_000;
/// Longest `time-interval-value`, a uint32 of nanoseconds.
const LONGEST: u64 = u32::MAX as u64;
/// Gates before the schedule begins: all open, the default of AdminGateStates (802.1Q §8.6.9.4.5).
const ALL_OPEN: u64 = 255;

/// The parameters of a schedule whose base time is shifted at this port, or why they cannot be said.
pub(super) fn parameters(schedule: &GateSchedule, shift: Nanos) -> Result<Node, String> {
    let cycle = u64::try_from(schedule.cycle.0).ok().filter(|cycle| *cycle > 0).ok_or("its cycle is not above 0")?;
    let (numerator, denominator) = shortened(cycle, SECOND);
    if numerator > LONGEST {
        return Err(format!("its cycle {} is no fraction of 32 bits of a second", schedule.cycle));
    }
    let base = base_time(schedule, shift);
    Ok(table([
        ("gate-enabled", true.into()),
        ("admin-gate-states", ALL_OPEN.into()),
        ("admin-control-list", table([("gate-control-entry", entries(schedule).into())])),
        ("admin-cycle-time", table([("numerator", numerator.into()), ("denominator", denominator.into())])),
        // RFC 7951 §6.1: a uint64 is a text.
        (
            "admin-base-time",
            table([("seconds", (base / SECOND).to_string().into()), ("nanoseconds", (base % SECOND).into())]),
        ),
        ("config-change", true.into()),
    ]))
}

/// The entries in order; one that is longer than 32 bits of nanoseconds is several with the same gates.
fn entries(schedule: &GateSchedule) -> Vec<Node> {
    let mut entries = Vec::new();
    for entry in &schedule.entries {
        let mut rest = entry.interval.0.unsigned_abs();
        while rest > 0 {
            let interval = rest.min(LONGEST);
            rest -= interval;
            entries.push(table([
                ("index", (entries.len() as u64).into()),
                ("operation-name", "ieee802-dot1q-sched:set-gate-states".into()),
                ("time-interval-value", interval.into()),
                ("gate-states-value", u64::from(entry.gates).into()),
            ]));
        }
    }
    entries
}

/// The base time at this port; moved by whole cycles to where a PTP time can be, which is the same schedule.
fn base_time(schedule: &GateSchedule, shift: Nanos) -> u64 {
    let (base, cycle) = (schedule.base_time.0 + shift.0, schedule.cycle.0);
    if base < 0 { base.rem_euclid(cycle).unsigned_abs() } else { base.unsigned_abs() }
}

fn shortened(numerator: u64, denominator: u64) -> (u64, u64) {
    let (mut a, mut b) = (numerator, denominator);
    while b > 0 {
        (a, b) = (b, a % b);
    }
    (numerator / a, denominator / a)
}

#[cfg(test)]
mod tests {
    use scenario::{GateEntry, TaprioMode};
    use units::Tai;

    use super::*;

    fn schedule(base: i64, intervals: &[i64]) -> GateSchedule {
        GateSchedule {
            base_time: Tai(base),
            cycle: Nanos(intervals.iter().sum()),
            entries: intervals.iter().map(|interval| GateEntry { gates: 1, interval: Nanos(*interval) }).collect(),
            mode: TaprioMode::Software,
        }
    }

    #[test]
    fn cycles_are_shortened_fractions_of_a_second() {
        assert_eq!(shortened(250_000, SECOND), (1, 4_000));
        assert_eq!(shortened(31_250, SECOND), (1, 32_000));
        assert_eq!(shortened(7, SECOND), (7, SECOND));
    }

    #[test]
    fn a_base_time_before_1970_is_moved_by_whole_cycles() {
        assert_eq!(base_time(&schedule(0, &[250_000]), Nanos(-20_000)), 230_000);
        assert_eq!(base_time(&schedule(5_000_000_001, &[250_000]), Nanos(20_000)), 5_000_020_001);
    }

    #[test]
    fn long_intervals_are_cut_and_odd_cycles_refused() {
        let long = schedule(0, &[10 * SECOND as i64]);
        let listed = entries(&long);
        assert_eq!(listed.len(), 3);
        assert!(parameters(&long, Nanos::ZERO).is_ok());
        // 5.000000001 s is 5000000001 / 10⁹, and the numerator has 32 bits.
        assert!(parameters(&schedule(0, &[5 * SECOND as i64 + 1]), Nanos::ZERO).unwrap_err().contains("5.000000001s"));
    }
}
