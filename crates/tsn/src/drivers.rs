//! What drivers do and refuse: a table, each line with where it is known from.

use scenario::Kernel;
use units::Rate;

/// What a qdisc can hand to the NIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Feature {
    /// Traffic classes on its queues.
    Mqprio,
    /// Credit-based shapers.
    Cbs,
    /// Launch times.
    Etf,
    /// A gate schedule.
    Taprio,
}

impl Feature {
    /// The name of its qdisc.
    pub fn qdisc(self) -> &'static str {
        match self {
            Self::Mqprio => "mqprio",
            Self::Cbs => "cbs",
            Self::Etf => "etf",
            Self::Taprio => "taprio",
        }
    }
}

/// Which of its transmit queues a NIC empties first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum First {
    /// Queue 0.
    Lowest,
    /// The queue with the highest number.
    Highest,
}

/// The speed that Linux computes with: what `ethtool` tells of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speed {
    /// That of the link.
    Link,
    /// Always this.
    Fixed(Rate),
}

/// Who stamps frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stamps {
    /// The NIC, by a clock of its own.
    Hardware,
    /// The kernel.
    Software,
}

/// How `ethtool -L` calls its queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channels {
    /// Pairs of both directions.
    Combined,
    /// It cannot be set.
    Fixed,
}

/// What a driver demands or does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// It refuses to take this over.
    No(Feature),
    /// It takes it over on the queues below this one only.
    Below(Feature, u16),
    /// It takes it over on this queue and those above only.
    From(Feature, u16),
    /// It takes it over on this many of its highest queues only.
    Top(Feature, u16),
    /// It takes these over on some models only; the text says which.
    Models(&'static [Feature], &'static str),
    /// It rounds an idleSlope up to a multiple of this many bit/s.
    SlopeUp(u64),
    /// It rounds an idleSlope down to a whole percent of the link.
    SlopePercentDown,
    /// idleSlope − sendSlope has to be one of these, in Mbit/s.
    PortRates(&'static [u64]),
    /// A class of its schedule may open once in a cycle only.
    OneWindow,
    /// Some models want a base-time in the past; the text says which.
    PastBaseTime(&'static str),
    /// A schedule has less entries than this.
    Entries(usize),
    /// An interval has at most this many bits, of ns.
    IntervalBits(u32),
    /// It refuses the second of these two.
    Excludes(Feature, Feature),
    /// Launch times count within the cycle of its schedule.
    LaunchWithinCycle,
    /// Frames of preemptable classes can be interrupted: MAC merge from the first version, classes from the second.
    Preemption(Kernel, Kernel),
    /// Something that cannot be checked and should be known.
    Note(&'static str),
}

/// One line of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// What holds.
    pub limit: Limit,
    /// From this kernel on; `None` for all known.
    pub since: Option<Kernel>,
    /// Where it is known from.
    pub source: &'static str,
}

/// A driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Driver {
    /// As `ethtool -i` names it.
    pub name: &'static str,
    /// What it drives.
    pub what: &'static str,
    /// Its transmit queues, as far as they are not set otherwise; zero when nothing is known.
    pub queues: u16,
    /// Which queue goes first.
    pub first: First,
    /// What Linux takes its speed for.
    pub speed: Speed,
    /// Who stamps.
    pub stamps: Stamps,
    /// How the number of queues is set.
    pub channels: Channels,
    /// Whether interrupts can be held back, and rings, EEE and segmentation be set: a piece of hardware.
    pub hardware: bool,
    /// What it demands.
    pub rules: &'static [Rule],
}

const fn rule(limit: Limit, source: &'static str) -> Rule {
    Rule { limit, since: None, source }
}

/// Read in the sources of Linux 6.1.192.
const K: &str = "Linux 6.1.192, sources";
/// Read in a later commit.
const U: &str = "Linux net-next, 2025";
/// Tried in a laboratory kernel.
const T: &str = "tried, Linux 6.12.117";
const SOFTWARE: &[Rule] = &[
    rule(Limit::No(Feature::Mqprio), T),
    rule(Limit::No(Feature::Cbs), T),
    rule(Limit::No(Feature::Etf), T),
    rule(Limit::No(Feature::Taprio), T),
];

/// What holds for a driver that is not in the table.
pub const UNKNOWN: Driver = Driver {
    name: "unknown",
    what: "a driver that is not in the table",
    queues: 0,
    first: First::Lowest,
    speed: Speed::Link,
    stamps: Stamps::Hardware,
    channels: Channels::Fixed,
    hardware: true,
    rules: &[],
};

/// All drivers that something is known of.
pub const DRIVERS: &[Driver] = &[
    Driver {
        name: "igb",
        what: "Intel i210, i211, i350 and others",
        queues: 4,
        first: First::Lowest,
        channels: Channels::Combined,
        rules: &[
            rule(Limit::Models(&[Feature::Cbs, Feature::Etf], "i210 only, not i211 or i350 (`mac.type`)"), K),
            rule(Limit::No(Feature::Taprio), K),
            rule(Limit::No(Feature::Mqprio), "igb offers no offload of mqprio; Linux 6.1.192, sources"),
            rule(Limit::Below(Feature::Cbs, 2), K),
            rule(Limit::Below(Feature::Etf, 2), K),
            rule(Limit::SlopeUp(16_384), K),
            rule(
                Limit::Note(
                    "the NIC orders its queues only while a CBS or ETF offload is on; then its transmit buffer is cut into \
                     4 × 6 kB, frames end at 4 kB, and best effort gets slower (Kirdan et al.: 590 of 940 Mbit/s)",
                ),
                "Linux 6.1.192, igb_setup_tx_mode; the order without offload is inferred",
            ),
        ],
        ..UNKNOWN
    },
    Driver {
        name: "igc",
        what: "Intel i225, i226",
        queues: 4,
        first: First::Lowest,
        channels: Channels::Combined,
        rules: &[
            rule(Limit::OneWindow, K),
            rule(Limit::PastBaseTime("i225"), K),
            rule(Limit::Below(Feature::Cbs, 2), K),
            rule(Limit::SlopeUp(40_960), K),
            rule(Limit::LaunchWithinCycle, K),
            rule(Limit::Preemption(Kernel { major: 6, minor: 16 }, Kernel { major: 6, minor: 17 }), U),
            Rule {
                limit: Limit::Note("offloaded mqprio orders the queues the other way round than before 6.17"),
                since: Some(Kernel { major: 6, minor: 17 }),
                source: U,
            },
            rule(Limit::Note("CLOCK_TAI has to be the NIC's clock: phc2sys keeps it so"), K),
        ],
        ..UNKNOWN
    },
    Driver {
        name: "stmmac",
        what: "Synopsys DesignWare MAC of many SoCs",
        queues: 4,
        first: First::Highest,
        rules: &[
            rule(Limit::From(Feature::Cbs, 1), K),
            rule(Limit::PortRates(&[100, 1_000, 2_500, 5_000, 10_000]), K),
            rule(Limit::Entries(64), "Linux 6.1.192, sources: 64 … 1024 by its depth; the least is taken"),
            rule(Limit::IntervalBits(16), "Linux 6.1.192, sources: 16, 20 or 24 bits; the least is taken"),
            rule(Limit::Models(&[Feature::Etf], "queues whose TBS the platform has switched on"), K),
        ],
        ..UNKNOWN
    },
    Driver {
        name: "enetc",
        what: "NXP ENETC, LS1028A",
        queues: 8,
        first: First::Highest,
        rules: &[
            rule(Limit::Top(Feature::Cbs, 2), K),
            rule(Limit::SlopePercentDown, K),
            rule(Limit::Excludes(Feature::Etf, Feature::Taprio), K),
        ],
        ..UNKNOWN
    },
    Driver {
        name: "veth",
        what: "a pair of virtual interfaces",
        queues: 0,
        speed: Speed::Fixed(Rate::from_gbit(10)),
        stamps: Stamps::Software,
        hardware: false,
        rules: SOFTWARE,
        ..UNKNOWN
    },
    Driver {
        name: "lab",
        what: "the laboratory kernel's virtual interface, with speed and wire of its link",
        queues: 0,
        stamps: Stamps::Software,
        hardware: false,
        rules: SOFTWARE,
        ..UNKNOWN
    },
    Driver {
        name: "netdevsim",
        what: "a simulated interface for tests of commands",
        queues: 0,
        speed: Speed::Fixed(Rate::from_mbit(10)),
        stamps: Stamps::Software,
        hardware: false,
        rules: &[
            rule(Limit::No(Feature::Mqprio), T),
            rule(Limit::No(Feature::Cbs), T),
            rule(Limit::No(Feature::Etf), T),
            rule(Limit::Note("takes a schedule by full offload and does not keep it"), T),
        ],
        ..UNKNOWN
    },
];

/// The driver of this name.
pub fn named(name: &str) -> Option<&'static Driver> {
    DRIVERS.iter().find(|driver| driver.name == name)
}

impl Driver {
    /// The rules that hold under a kernel; all of them when it is not known.
    pub fn rules(&self, kernel: Option<Kernel>) -> impl Iterator<Item = &'static Rule> {
        self.rules.iter().filter(move |rule| rule.since.is_none_or(|since| kernel.is_none_or(|kernel| kernel >= since)))
    }

    /// Why this driver does not take a qdisc over; `None` when nothing speaks against it.
    pub fn refuses(&self, feature: Feature) -> Option<&'static Rule> {
        self.rules.iter().find(|rule| rule.limit == Limit::No(feature))
    }

    /// The speed that Linux computes with on a link of this rate.
    pub fn speed(&self, link: Rate) -> Rate {
        match self.speed {
            Speed::Link => link,
            Speed::Fixed(rate) => rate,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_every_rule_has_a_source() {
        for (index, driver) in DRIVERS.iter().enumerate() {
            assert!(DRIVERS[..index].iter().all(|other| other.name != driver.name));
            assert!(driver.rules.iter().all(|rule| !rule.source.is_empty()));
        }
    }

    #[test]
    fn rules_of_later_kernels_stay_away_from_earlier_ones() {
        let igc = named("igc").unwrap();
        let kernel = |minor| Some(Kernel { major: 6, minor });
        assert_eq!(igc.rules(kernel(12)).count() + 1, igc.rules(kernel(17)).count());
        assert_eq!(igc.rules(None).count(), igc.rules.len());
    }
}
