//! A port as Linux sees it: its interface, its driver, which class is which `tc` and which queue.

use scenario::{Counted, Credits, Kernel, Nic, PortId, Queue, Scenario, Shaper, Stream, TaprioMode, Traffic};
use units::{FrameSize, Nanos, Rate};

use crate::drivers::{self, Driver, First};

/// The kernel that a plan is for when the scenario names none: the latest with long support that the rules were tried on.
pub const DEFAULT_KERNEL: Kernel = Kernel { major: 6, minor: 12 };
/// From here on taprio serves the highest `tc` first, and a class may have a queue before that of the class below it.
const TC_ORDER: Kernel = Kernel { major: 6, minor: 3 };

/// Where a class of the scenario goes on Linux.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Its number for `tc`.
    pub tc: u8,
    /// Its transmit queue.
    pub queue: u16,
}

/// A port of a scenario on Linux.
#[derive(Debug, Clone)]
pub struct LinuxPort<'a> {
    /// Which port.
    pub id: PortId,
    /// "pub → loop".
    pub name: String,
    /// Its interface.
    pub device: String,
    /// Rate of its link.
    pub rate: Rate,
    /// Its driver; [`drivers::UNKNOWN`] when it is not in the table or not named.
    pub driver: &'static Driver,
    /// What the scenario says of the NIC.
    pub nic: Nic,
    /// Kernel of its host.
    pub kernel: Kernel,
    /// Its queue discipline.
    pub queue: &'a Queue,
    /// Added to the base-time of its gates.
    pub shift: Nanos,
    /// Its place for each class.
    pub places: Vec<Place>,
    /// Slopes and credits of each class that is shaped by credit.
    pub credits: Vec<Option<Credits>>,
    /// What each class counts of a frame that is shaped by credit.
    pub counted: Vec<Counted>,
    /// Streams that leave here, each direction once.
    pub streams: Vec<&'a Stream>,
    /// Other traffic that leaves here.
    pub traffic: Vec<&'a Traffic>,
}

/// The interface of a port: the one named in the scenario, else the name that a laboratory gives it, `eth0` and on
/// in the order of the file.
pub fn device(scenario: &Scenario, id: PortId) -> String {
    let port = scenario.port(id);
    if let Some(interface) = &port.interface {
        return interface.clone();
    }
    let before = &scenario.ports[..id.0];
    let of_host = |ptp_only| {
        let same = |other: &&scenario::Port| other.host == port.host && scenario.link(other.link).ptp_only == ptp_only;
        before.iter().filter(same).count()
    };
    match scenario.link(port.link).ptp_only {
        true => format!("ptp{}", of_host(true)),
        false => format!("eth{}", of_host(false)),
    }
}

impl<'a> LinuxPort<'a> {
    /// The port of an index.
    pub fn of(scenario: &'a Scenario, id: PortId) -> Self {
        let port = scenario.port(id);
        let nic = scenario.nic(id);
        let driver = nic.driver.as_deref().and_then(drivers::named).unwrap_or(&drivers::UNKNOWN);
        let kernel = scenario.machine(port.host).kernel.unwrap_or(DEFAULT_KERNEL);
        let streams = scenario.streams.iter().flat_map(|stream| {
            let there = stream.path.contains(&id);
            let back = stream.echo && stream.return_path.contains(&id);
            std::iter::repeat_n(stream, usize::from(there) + usize::from(back))
        });
        Self {
            id,
            name: scenario.port_name(id),
            device: device(scenario, id),
            rate: scenario.port_rate(id),
            driver,
            nic,
            kernel,
            queue: &port.queue,
            shift: port.shift,
            places: places(&port.queue, driver, kernel),
            credits: scenario.credits(id, driver.speed(scenario.port_rate(id))),
            counted: (0..8).map(|class| scenario.counted(id, class)).collect(),
            streams: streams.collect(),
            traffic: scenario.traffic.iter().filter(|traffic| traffic.path.contains(&id)).collect(),
        }
    }

    /// The ports of a host that carry streams or traffic, in the order of the file.
    pub fn all(scenario: &'a Scenario, host: scenario::HostId) -> Vec<Self> {
        (0..scenario.ports.len())
            .map(PortId)
            .filter(|id| scenario.port(*id).host == host && !scenario.link(scenario.port(*id).link).ptp_only)
            .map(|id| Self::of(scenario, id))
            .collect()
    }

    /// The speed that Linux computes with.
    pub fn speed(&self) -> Rate {
        self.driver.speed(self.rate)
    }

    /// Its transmit queues, if known.
    pub fn queues(&self) -> Option<u16> {
        self.nic.queues.or((self.driver.queues > 0).then_some(self.driver.queues))
    }

    /// The class of each priority, and the shaper of each class; nothing where there are no classes.
    pub fn classes(&self) -> Option<&'a scenario::Classes> {
        self.queue.classes()
    }

    /// The shaper of a class, where the whole port is one class too.
    pub fn shaper(&self, class: u8) -> Shaper {
        match self.queue {
            Queue::Cbs(cbs) => Shaper::Cbs(cbs.clone()),
            Queue::Etf(etf) => Shaper::Etf(etf.clone()),
            _ => self
                .classes()
                .and_then(|classes| classes.shapers.get(usize::from(class)).cloned())
                .unwrap_or(Shaper::None),
        }
    }

    /// Number of classes; 1 where there are none.
    pub fn class_count(&self) -> u8 {
        self.classes().map_or(1, |classes| classes.shapers.len() as u8)
    }

    /// Streams that leave in a class.
    pub fn streams_of(&self, class: u8) -> impl Iterator<Item = &'a Stream> {
        let queue = self.queue;
        self.streams.iter().copied().filter(move |stream| queue.class_of(stream.pcp) == class)
    }

    /// The frames of streams and traffic in a class.
    pub fn frames_of(&self, class: u8) -> Vec<FrameSize> {
        let traffic = self.traffic.iter().filter(|traffic| self.queue.class_of(traffic.pcp) == class);
        self.streams_of(class).map(Stream::frame).chain(traffic.map(|traffic| traffic.frame())).collect()
    }

    /// The mask of gates as `tc` has it: bit = `tc`, where the scenario has bit = class.
    pub fn gate_mask(&self, classes: u8) -> u8 {
        let mut mask = 0;
        for (class, place) in self.places.iter().enumerate() {
            mask |= (classes >> class & 1) << place.tc;
        }
        mask
    }
}

/// Where each class goes. The scenario's highest class is to go first, whatever order Linux and the NIC have:
///
/// - a NIC that empties its highest queue first gets class = tc = queue;
/// - else the highest class gets queue 0, and the tc of its queue, which every kernel takes;
/// - taprio out of the kernel serves the highest tc first since 6.3, before that the lowest queue: there the class
///   is the tc, on the queue of before.
fn places(queue: &Queue, driver: &Driver, kernel: Kernel) -> Vec<Place> {
    let (classes, by_tc) = match queue {
        Queue::Mqprio(classes) => (classes, false),
        Queue::Taprio { classes, schedule } => {
            (classes, schedule.mode != TaprioMode::FullOffload && kernel >= TC_ORDER)
        }
        Queue::Fifo | Queue::FqCodel | Queue::Cbs(_) | Queue::Etf(_) => return vec![Place { tc: 0, queue: 0 }],
    };
    let count = classes.shapers.len() as u8;
    let place = |class: u8| {
        let turned = count - 1 - class;
        match driver.first {
            First::Highest => Place { tc: class, queue: class.into() },
            First::Lowest => Place { tc: if by_tc { class } else { turned }, queue: turned.into() },
        }
    };
    (0..count).map(place).collect()
}
