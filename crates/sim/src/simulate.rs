//! From a scenario to its outcome.

use measure::{Collector, Event, Machine, Observations};
use scenario::{HostKind, PortId, QUEUE_FRAMES, Queue, Scenario};

use crate::flow::traffic_model;
use crate::outcome::{Network, Options, SimError};
use crate::world::World;

/// What a simulation gives.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Rows, losses, counters: joined by the same code as those of a real run.
    pub observations: Observations,
    /// What was simulated and how: `machine` of `run.json`.
    pub machine: Machine,
    /// Exact figures of the network.
    pub network: Network,
}

/// Simulates `scenario` from its base time on.
///
/// # Errors
/// See [`SimError`]: a queue discipline that is not modelled, no cycles, too many.
pub fn simulate(scenario: &Scenario, options: &Options) -> Result<Outcome, SimError> {
    let mut collector = Collector::new(scenario);
    let network = trace(scenario, options, &mut |event| collector.push(event))?;
    Ok(Outcome { observations: collector.finish(scenario), machine: machine(scenario, options), network })
}

/// Simulates `scenario` and gives every event to `sink` in the order of time, for progress or a trace of one's own.
///
/// # Errors
/// Those of [`simulate`].
pub fn trace(scenario: &Scenario, options: &Options, sink: &mut dyn FnMut(Event)) -> Result<Network, SimError> {
    Ok(World::new(scenario, options, sink)?.run())
}

/// What a simulated run ran on. Nothing of the computer it was computed on.
fn machine(scenario: &Scenario, options: &Options) -> Machine {
    let launch = scenario.streams.iter().any(|stream| stream.launch);
    let bridges = scenario.hosts.iter().any(|host| matches!(host.kind, HostKind::Bridge { .. }));
    let entries = [
        ("clock", "virtual, one for all hosts, picoseconds".to_owned()),
        ("cycles", options.cycles.to_string()),
        ("seed", options.seed.to_string()),
        ("host_latency", host_latency(scenario, options)),
        (
            "pacing",
            if launch && scenario.ports.iter().any(|port| (0..8).any(|class| port.queue.etf(class).is_some())) {
                "exact launch, and by etf where a port has it: software etf leaves 1 ns after launch - delta"
            } else if launch {
                "exact launch: in the simulator a frame handed over in time leaves for its queue at its launch time"
            } else {
                "none: a frame leaves for its queue when it is handed over"
            }
            .to_owned(),
        ),
        ("bridges", if bridges { "store and forward, constant latency" } else { "none" }.to_owned()),
        ("link", "physical frames: preamble and inter-frame gap included".to_owned()),
        ("cbs_counts", cbs_counts(scenario).to_owned()),
        ("gates", gates(scenario).to_owned()),
        ("queue_frames", QUEUE_FRAMES.to_string()),
        ("traffic", traffic_model(&scenario.traffic).to_owned()),
    ];
    entries.into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect()
}

/// Of all hosts, and behind it of those that have their own.
fn host_latency(scenario: &Scenario, options: &Options) -> String {
    let own = options.hosts.iter().map(|(host, latency)| format!("; {}: {latency}", scenario.host(*host).name));
    std::iter::once(options.host_latency.to_string()).chain(own).collect()
}

/// Who keeps gates.
fn gates(scenario: &Scenario) -> &'static str {
    let gated = |port: &usize| matches!(scenario.ports[*port].queue, Queue::Taprio { .. });
    let ports = (0..scenario.ports.len()).filter(gated);
    let (linux, hardware): (Vec<_>, Vec<_>) = ports.partition(|port| scenario.has_linux_gates(PortId(*port)));
    match (linux.is_empty(), hardware.is_empty()) {
        (true, true) => "none",
        (true, false) => "of hardware (802.1Q)",
        (false, true) => "of Linux (sch_taprio 6.12), up to nine frames at once",
        (false, false) => "of Linux (sch_taprio 6.12), up to nine frames at once, and of hardware (802.1Q)",
    }
}

/// What shapers count of a frame.
fn cbs_counts(scenario: &Scenario) -> &'static str {
    let software = |port| scenario.linux_credits(PortId(port)).iter().any(Option::is_some);
    match (0..scenario.ports.len()).any(software) {
        true => {
            "whole bytes without FCS, preamble and gap in software of Linux (sch_cbs 6.12); physical bits elsewhere (802.1Q)"
        }
        false => "physical bits (802.1Q)",
    }
}
