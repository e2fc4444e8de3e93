//! What a host of a scenario needs of the machine that plays it.

use std::collections::BTreeSet;

use scenario::{ClockRole, Forwarder, Host, HostId, HostKind, Queue, Scenario, Shaper, TaprioMode};
use units::{Nanos, Rate};

/// A network interface that is looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeededInterface {
    /// Its name.
    pub name: String,
    /// Rate of its link in the scenario.
    pub rate: Option<Rate>,
    /// How many transmit queues its classes need.
    pub queues: usize,
    /// It has traffic classes, for which frames that it forwards need their PCP read.
    pub classes: bool,
    /// Frames shall be launched by the network card.
    pub launches: bool,
}

impl NeededInterface {
    /// An interface of which nothing more is known.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), rate: None, queues: 1, classes: false, launches: false }
    }
}

/// What is needed of a machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needs {
    /// Name of the host in the scenario; none when only the machine is looked at.
    pub host: Option<String>,
    /// Queueing disciplines that its ports ask for.
    pub disciplines: BTreeSet<&'static str>,
    /// Its shortest cycle.
    pub cycle: Option<Nanos>,
    /// Its interfaces.
    pub interfaces: Vec<NeededInterface>,
    /// It is a bridge of Linux or Open vSwitch.
    pub forwards: bool,
    /// Its clock follows another machine's, or leads it.
    pub synchronised: bool,
    /// Processors that its cyclic threads get; empty lets the doctor take those that are kept free, else the last.
    pub processors: Vec<usize>,
    /// Frames are to come and go by AF_XDP.
    pub xdp: bool,
}

impl Needs {
    /// What `host` needs, on interfaces that `interface` names by the index of their port.
    pub fn of(scenario: &Scenario, host: HostId, interface: impl Fn(usize) -> Option<String>) -> Self {
        let Host { name, kind, clock, .. } = scenario.host(host);
        let mut needs = Self {
            host: Some(name.clone()),
            forwards: matches!(kind, HostKind::Bridge { forwarder: Forwarder::Linux | Forwarder::OpenVSwitch, .. }),
            synchronised: *clock != ClockRole::Shared,
            ..Self::default()
        };
        let ends = scenario.streams.iter().filter(|stream| stream.writer == host || stream.reader == host);
        needs.cycle = ends.map(|stream| stream.cycle).min();
        for (index, port) in scenario.ports.iter().enumerate().filter(|(_, port)| port.host == host) {
            needs.disciplines.extend(disciplines(&port.queue));
            let Some(name) = interface(index).or_else(|| port.interface.clone()) else { continue };
            needs.interfaces.push(NeededInterface {
                name,
                rate: Some(scenario.links[port.link.0].rate),
                queues: queues(&port.queue),
                classes: queues(&port.queue) > 1,
                launches: launches(&port.queue),
            });
        }
        if needs.forwards && needs.interfaces.iter().any(|interface| interface.classes) {
            needs.disciplines.insert("clsact");
        }
        needs
    }
}

fn shapers(queue: &Queue) -> &[Shaper] {
    match queue {
        Queue::Mqprio(classes) | Queue::Taprio { classes, .. } => &classes.shapers,
        _ => &[],
    }
}

fn queues(queue: &Queue) -> usize {
    shapers(queue).len().max(1)
}

/// The kinds that `tc` knows and the kernel must have.
fn disciplines(queue: &Queue) -> BTreeSet<&'static str> {
    let mut found = BTreeSet::new();
    if *queue != Queue::Fifo {
        found.insert(queue.kind());
    }
    for shaper in shapers(queue) {
        match shaper {
            Shaper::None => {}
            Shaper::Cbs(_) => _ = found.insert("cbs"),
            Shaper::Etf(_) => _ = found.insert("etf"),
        }
    }
    if let Queue::Taprio { schedule, .. } = queue
        && matches!(schedule.mode, TaprioMode::TxtimeAssist { .. })
    {
        found.insert("etf");
    }
    found
}

/// Whether the card is to launch frames.
fn launches(queue: &Queue) -> bool {
    let offloaded = |shaper: &Shaper| matches!(shaper, Shaper::Etf(etf) if etf.offload);
    matches!(queue, Queue::Etf(etf) if etf.offload) || shapers(queue).iter().any(offloaded)
}
