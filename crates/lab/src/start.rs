//! When cycle 0 of a run begins.

use std::ops::ControlFlow;
use std::thread;
use std::time::Duration;

use scenario::{Queue, Scenario};
use units::{Nanos, Tai};

use crate::error::LabError;

/// From the last preparation to cycle 0: the kernel switches receive timestamps on some 50 ms after they were asked for.
const LEAD: Nanos = Nanos(200_000_000);
/// The longest that a run waits for a schedule to come.
const PATIENCE: Nanos = Nanos(3_600 * 1_000_000_000);
/// How often a waiting run looks whether it is to stop.
const TURN: Duration = Duration::from_millis(20);

/// When the last of the gate schedules that the kernel keeps has begun: until then all gates are open.
fn gated_from(scenario: &Scenario) -> Option<Tai> {
    let begins = scenario.ports.iter().filter(|port| !scenario.link(port.link).ptp_only).filter_map(|port| {
        let Queue::Taprio { schedule, .. } = &port.queue else { return None };
        Some(tsn::arithmetic::base_time(schedule.base_time, port.shift, schedule.cycle))
    });
    begins.max()
}

/// How long a run has to wait for the last of its gate schedules.
///
/// # Errors
/// It begins so late that nobody would wait for it.
pub(crate) fn to_wait(scenario: &Scenario, now: Tai) -> Result<Nanos, LabError> {
    let ahead = gated_from(scenario).map_or(Nanos::ZERO, |gated| gated - now);
    if ahead <= PATIENCE {
        return Ok((ahead - LEAD).max(Nanos::ZERO));
    }
    let second = Nanos(1_000_000_000);
    Err(LabError::Scenario {
        what: format!(
            "a gate schedule begins {} s from now by this machine's clock, and all gates are open until then; a run waits up to {} s \
             for it",
            ahead / second,
            PATIENCE / second
        ),
        mend: "write `base_time = \"0s\"`: cycles are counted from there".into(),
    })
}

/// How long a run that begins now will wait for the base-time of its gates; zero where it need not, or refuses to.
pub fn wait_for_gates(scenario: &Scenario) -> Nanos {
    to_wait(scenario, rt::clock::now()).unwrap_or(Nanos::ZERO)
}

/// How a run stands that has not begun.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waiting {
    /// The instant.
    pub(crate) now: Tai,
    /// When cycle 0 will begin.
    pub(crate) start: Tai,
}

/// Waits until the last gate schedule is as near as the first cycle of a run. `turn` is told in turns how the waiting
/// stands, and tells whether to stop it; at least once.
///
/// # Errors
/// Stopped meanwhile, or nobody would wait for so long.
pub(crate) fn wait(scenario: &Scenario, mut turn: impl FnMut(Waiting) -> ControlFlow<()>) -> Result<(), LabError> {
    loop {
        let now = rt::clock::now();
        let left = to_wait(scenario, now)?;
        if turn(Waiting { now, start: first_cycle(scenario, now) }).is_break() {
            return Err(LabError::Interrupted);
        }
        if left == Nanos::ZERO {
            return Ok(());
        }
        // In turns, so that it can be stopped.
        thread::sleep(Duration::from_nanos(left.0.unsigned_abs()).min(TURN));
    }
}

/// The start of the first cycle that the hosts can be told of in time and that no gate schedule begins behind.
pub(crate) fn first_cycle(scenario: &Scenario, now: Tai) -> Tai {
    let (base, cycle) = (scenario.base_time, scenario.cycle);
    let earliest = gated_from(scenario).map_or(now + LEAD, |gated| gated.max(now + LEAD));
    base + cycle * ((earliest - base).0.div_euclid(cycle.0) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gated(base: &str) -> Scenario {
        let text = format!(
            "{}\n[[ports]]\nat = \"pub\"\nqueue = {{ root = \"taprio\", map = [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0], classes \
             = 2, base_time = \"{base}\", schedule = [{{ gates = [0], interval = \"400us\" }}, {{ gates = [1], interval = \"600us\" \
             }}] }}\n",
            scenario::template("two-hosts").unwrap()
        );
        scenario::read(&text, "gated.toml").unwrap()
    }

    const NOW: Tai = Tai(1_700_000_037_000_400_000);
    const MS: i64 = 1_000_000;

    #[test]
    fn a_run_begins_with_a_whole_cycle_and_after_its_lead() {
        let start = first_cycle(&gated("0s"), NOW);
        assert_eq!(start, Tai(1_700_000_037_201_000_000));
    }

    #[test]
    fn it_waits_for_a_schedule_to_come() {
        let base = 1_700_000_040_000_300_000;
        let start = first_cycle(&gated(&format!("{base}ns")), NOW);
        assert!(start.0 > base && start.0 <= base + MS && start.0 % MS == 0, "{start:?}");
        assert_eq!(to_wait(&gated("1700000040s"), NOW).unwrap(), Nanos(2_799_600_000));
        assert_eq!(to_wait(&gated("0s"), NOW).unwrap(), Nanos::ZERO);
        // On the edge of a cycle it is the next: nobody is sent before the gates move.
        let edge = first_cycle(&gated("1700000040s"), NOW);
        assert_eq!(edge.0, 1_700_000_040_000_000_000 + MS);
    }

    #[test]
    fn nobody_waits_for_years() {
        let error = to_wait(&gated("2000000000s"), NOW).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("299999962 s") && error.to_string().contains("base_time"), "{error}");
    }
}
