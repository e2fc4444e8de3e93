//! The speed that an interface tells, against the one that a plan counts with.

use scenario::{HostId, Queue, Scenario, Shaper, TaprioMode};
use units::Rate;

use super::{Finding, Severity};
use crate::arithmetic;
use crate::port::LinuxPort;
use crate::qdiscs::span;

/// What Linux takes an interface for that tells no speed (`cbs_set_port_rate`, `taprio_set_picos_per_byte`).
const WITHOUT: Rate = Rate::from_mbit(10);

/// What computes with the speed of a port, in words; nothing where a wrong one does no harm.
fn computes(port: &LinuxPort<'_>) -> Option<&'static str> {
    let shaped = (0..port.class_count()).any(|class| matches!(port.shaper(class), Shaper::Cbs(cbs) if !cbs.offload));
    let gated = matches!(port.queue, Queue::Taprio { schedule, .. } if schedule.mode != TaprioMode::FullOffload);
    match (shaped, gated) {
        (true, true) => Some("credit of cbs and what fits into a window of taprio"),
        (true, false) => Some("credit of cbs"),
        (false, true) => Some("what fits into a window of taprio"),
        (false, false) => None,
    }
}

/// Compares the speeds that the interfaces of a host tell with those that its plan counts with. `told` gives what an interface
/// tells: nothing where it is not there, `Some(None)` where it tells no speed.
///
/// Linux charges the credit of a cbs, and fills the windows of a taprio, at the speed that it is told; with another the shaper is
/// too fast or too slow by up to their ratio, and no bound holds.
///
/// # Panics
/// If `host` is not one of the scenario's.
pub fn speeds(scenario: &Scenario, host: HostId, told: impl Fn(&str) -> Option<Option<Rate>>) -> Vec<Finding> {
    let of_port = |port: LinuxPort<'_>| {
        let what = computes(&port)?;
        let (planned, told) = (port.speed(), told(&port.device)?);
        let taken = told.unwrap_or(WITHOUT);
        (taken != planned).then(|| Finding {
            rule: "speed-differs",
            severity: if told.is_none() { Severity::Error } else { Severity::Warning },
            place: format!("{} ({})", port.name, port.device),
            found: match told {
                Some(speed) => format!("the interface tells {speed}, the plan counts with {planned}"),
                None => format!(
                    "the interface tells no speed, and Linux takes it for {WITHOUT}: intervals below {} are refused; the plan counts \
                     with {planned}",
                    span(arithmetic::shortest_interval(WITHOUT))
                ),
            },
            needed: format!("the same: {what} is computed from it, wrong by up to their ratio else"),
            mend: format!(
                "bring the link up with {planned} (`ethtool {}`), or write the `rate` of the link and the `driver` that are there",
                port.device
            ),
            source: "tried, Linux 6.12.118",
        })
    };
    LinuxPort::all(scenario, host).into_iter().filter_map(of_port).collect()
}
