//! The fingerprint of this machine, as it goes into a result.

use measure::Machine;
use rt::wait::Wait;
use scenario::Scenario;
use serde_json::{Value, json};
use station::Scheduling;

use crate::run::RunOptions;
use crate::venue::{Place, Venue};

/// Describes machine, network and way of running.
pub(crate) fn describe(scenario: &Scenario, options: &RunOptions, venue: &Venue) -> Machine {
    let launch = scenario.streams.iter().any(|stream| stream.launch);
    let pacing = match (launch, options.wait) {
        (false, _) => "none: frames are sent when the publish phase has built them",
        (true, Wait::Sleep) if matches!(options.place, Place::KernelLab(_)) => {
            "own pacing: the thread sleeps until the launch time, then sends (no ETF, no launch time of network cards); in virtual time \
             the wake-up and the system call take nothing but the readings of the clock"
        }
        (true, Wait::Sleep) => {
            "own pacing: the thread sleeps until the launch time, then sends (the launch time of network cards is not used); frames leave late \
             by the wake-up and the system call, never early"
        }
        (true, Wait::Hybrid) => {
            "own pacing: the thread sleeps until shortly before the launch time, by a margin that it learns, then spins to \
             it, then sends (the launch time of network cards is not used); frames leave late by the system call, never early"
        }
        (true, Wait::Spin) => {
            "own pacing: the thread spins to the launch time, then sends (the launch time of network cards is not used); frames leave late by \
             the system call, never early"
        }
    };
    let entries = [
        ("link_wanted", json!(options.link)),
        ("launch_wanted", json!(options.launch)),
        ("pacing", json!(pacing)),
        ("stamps_wanted", json!(options.stamps)),
        ("realtime", json!(options.realtime)),
        ("scheduling", json!(if options.realtime { options.scheduling } else { Scheduling::None }.to_string())),
        ("wait", json!(options.wait.to_string())),
        ("wake", json!(options.wake.to_string())),
        ("command", json!(options.command)),
    ];
    let mut machine = host_machine();
    machine.extend(entries.map(|(key, value)| (key.to_string(), value)));
    venue.describe(scenario, &mut machine);
    machine
}

/// Describes this host: the part of `machine` that a run and a latency test have in common.
pub fn host_machine() -> Machine {
    let found = rt::machine::Machine::read();
    let known = |value: &Option<String>| value.clone().map_or(Value::Null, Value::from);
    let entries = [
        ("kernel", json!(format!("{} {}", found.kernel_release, found.kernel_version))),
        ("cpu", known(&found.cpu_model)),
        ("cpus", json!(found.cpus)),
        ("clock", known(&found.clocksource)),
        ("governor", known(&found.governor)),
        ("virtual_machine", known(&found.hypervisor)),
        ("preempt_rt", json!(found.preempt_rt)),
        ("sched_rt_runtime_us", json!(found.sched_rt_runtime_us)),
        ("memory_bytes", json!(found.memory_bytes)),
        ("isolated_cpus", known(&found.isolated_cpus)),
        ("tai_minus_utc_s", json!(rt::clock::tai_minus_utc().0 / 1_000_000_000)),
    ];
    entries.into_iter().map(|(key, value)| (key.to_string(), value)).collect()
}

/// Frames that the kernel has dropped since boot because a processor's backlog was full (second column of
/// `/proc/net/softnet_stat`); every frame on a veth waits in it.
pub(crate) fn backlog_drops() -> u64 {
    let table = std::fs::read_to_string("/proc/net/softnet_stat").unwrap_or_default();
    let dropped = |line: &str| line.split_whitespace().nth(1).and_then(|word| u64::from_str_radix(word, 16).ok());
    table.lines().filter_map(dropped).sum()
}
