//! Clocks of network cards that took the stamps of a run: how far they were from the clock of everything else.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Machine;

/// Key of `machine` in `run.json`: a [`StampClock`] for each interface with hardware stamps.
pub const STAMP_CLOCKS: &str = "stamp_clocks";

/// The clock of a network card against `CLOCK_TAI` of its machine, compared from before the first cycle until behind the
/// last one. Its stamps (T2, T3, T6, T7) are by it, all other instants by `CLOCK_TAI`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StampClock {
    /// `/dev/ptpN`.
    pub device: String,
    /// How far it was ahead of TAI before the run and when it was last looked at; below zero: behind.
    pub ahead_ns: [i64; 2],
    /// The most that it was apart whenever it was looked at, in either direction, and the error of that look.
    pub error_ns: i64,
    /// How often it was looked at.
    pub looks: u64,
    /// Why it could not be looked at again; from then on nothing is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread: Option<String>,
}

/// The clocks that took the stamps of a run, by interface; none with stamps of the kernel, whose clock is that of the machine.
pub fn stamp_clocks(machine: &Machine) -> BTreeMap<String, StampClock> {
    let clocks = machine.get(STAMP_CLOCKS).cloned();
    clocks.and_then(|clocks| serde_json::from_value(clocks).ok()).unwrap_or_default()
}

/// The most that stamps of a run may be off `CLOCK_TAI`, nanoseconds; 0 with stamps of the kernel.
pub(crate) fn stamp_error(machine: &Machine) -> i64 {
    stamp_clocks(machine).values().map(|clock| clock.error_ns).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_clock_that_was_farthest_counts_and_none_is_no_error() {
        let machine = |value: serde_json::Value| value.as_object().unwrap().clone();
        let clock = |error: i64| json!({ "device": "/dev/ptp0", "ahead_ns": [5, -7], "error_ns": error, "looks": 2 });
        let two = machine(json!({ "stamp_clocks": { "eth0": clock(40), "eth1": clock(900) } }));
        assert_eq!((stamp_error(&two), stamp_clocks(&two).len()), (900, 2));
        assert_eq!(stamp_error(&machine(json!({ "stamps": "software" }))), 0);
        let read = &stamp_clocks(&two)["eth0"];
        assert_eq!(serde_json::to_value(read).unwrap(), clock(40), "what is not there is left out");
    }
}
