//! Requirements: every limit names the quantity it means.

use std::fmt;

use units::Nanos;

/// A quantity that a requirement can limit and a result reports; definitions in ARCHITECTURE.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Quantity {
    /// T3 − T2: from the writer's port to the reader's.
    OneWay,
    /// T4 − T1: from the publisher's hand-over to the subscriber's decoded message.
    OneWayStack,
    /// T7 − T2.
    RoundTripWire,
    /// T8 − T1.
    RoundTripStack,
    /// Application cycles from writing a counter to reading it back, elapsed.
    RoundTripCounter,
    /// |T3(k) − T3(k−1) − cycle| at the reader's port.
    SpacingError,
    /// |RTT(k) − RTT(k−1)| of the wire round trip.
    RoundTripVariation,
    /// Published, never left the publisher's host, as a share of the frames published.
    LossPublisher,
    /// Arrived at the loopback, not answered in its cycle, as a share.
    LossLoopback,
    /// All losses, as a share of the frames published.
    LossSum,
    /// Counters that the writer's application never read back.
    MissedCounters,
}

impl Quantity {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::OneWay,
        Self::OneWayStack,
        Self::RoundTripWire,
        Self::RoundTripStack,
        Self::RoundTripCounter,
        Self::SpacingError,
        Self::RoundTripVariation,
        Self::LossPublisher,
        Self::LossLoopback,
        Self::LossSum,
        Self::MissedCounters,
    ];

    /// Its name in scenario files and results.
    pub fn key(self) -> &'static str {
        match self {
            Self::OneWay => "one_way",
            Self::OneWayStack => "one_way_stack",
            Self::RoundTripWire => "round_trip_wire",
            Self::RoundTripStack => "round_trip_stack",
            Self::RoundTripCounter => "round_trip_counter",
            Self::SpacingError => "spacing_error",
            Self::RoundTripVariation => "round_trip_variation",
            Self::LossPublisher => "dP",
            Self::LossLoopback => "dL",
            Self::LossSum => "dSum",
            Self::MissedCounters => "missed",
        }
    }

    /// What it is, in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::OneWay => "one-way delay T3 − T2",
            Self::OneWayStack => "one-way delay T4 − T1",
            Self::RoundTripWire => "round trip T7 − T2",
            Self::RoundTripStack => "round trip T8 − T1",
            Self::RoundTripCounter => "round trip of a counter, elapsed cycles",
            Self::SpacingError => "spacing error |T3(k) − T3(k−1) − cycle|",
            Self::RoundTripVariation => "variation of the round trip T7 − T2 from frame to frame",
            Self::LossPublisher => "share lost at the publisher, dP",
            Self::LossLoopback => "share not answered by the loopback, dL",
            Self::LossSum => "share lost in all, dΣ",
            Self::MissedCounters => "missed counters",
        }
    }

    /// The quantity of a name.
    pub fn from_key(key: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|quantity| quantity.key() == key)
    }
}

/// The value a quantity must not exceed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LimitValue {
    /// A span, compared with the maximum found.
    Span(Nanos),
    /// A share between 0 and 1.
    Share(f64),
    /// A number of cycles or counters.
    Count(u64),
}

impl fmt::Display for LimitValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Span(span) => span.fmt(f),
            Self::Share(share) => write!(f, "{share:e}"),
            Self::Count(count) => count.fmt(f),
        }
    }
}

/// One limit of a requirement. Limits are maxima: a mean never meets one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limit {
    /// What is limited.
    pub quantity: Quantity,
    /// The most that is allowed.
    pub value: LimitValue,
}

/// A named class of requirements with its limits fixed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Class {
    /// Its name in scenario files.
    pub name: &'static str,
    /// Where it comes from and what its words are taken to mean.
    pub source: &'static str,
    /// Its limits.
    pub limits: &'static [Limit],
}

/// The classes a scenario can name.
pub const CLASSES: [Class; 2] = [
    Class {
        name: "motion-control",
        source: "Kirdan et al. § I after Lu et al.: latency 0.1 ms (taken as T4 − T1, not said there), \
                 jitter 0.05 ms (taken as spacing error), reliability 99.999 %",
        limits: &[
            Limit { quantity: Quantity::OneWayStack, value: LimitValue::Span(Nanos(100_000)) },
            Limit { quantity: Quantity::SpacingError, value: LimitValue::Span(Nanos(50_000)) },
            Limit { quantity: Quantity::LossSum, value: LimitValue::Share(1e-5) },
        ],
    },
    Class {
        name: "SR-A",
        source: "Rezabek et al. § I: 2 ms (one way, talker port to listener port) and 125 µs jitter \
                 (taken as spacing error) over seven links",
        limits: &[
            Limit { quantity: Quantity::OneWay, value: LimitValue::Span(Nanos(2_000_000)) },
            Limit { quantity: Quantity::SpacingError, value: LimitValue::Span(Nanos(125_000)) },
        ],
    },
];
