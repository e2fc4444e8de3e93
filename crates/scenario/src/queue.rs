//! Queue disciplines of an output port, as `tc` knows them.

use units::{Nanos, Rate, Tai};

/// A queue discipline at the root of a port.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Queue {
    /// One first-in first-out queue: what a port has when the file says nothing.
    #[default]
    Fifo,
    /// FQ-CoDel, the default of most distributions.
    FqCodel,
    /// Strict priority between traffic classes (802.1Q §8.6.8.1), the highest class number first,
    /// whatever order a driver gives its queues.
    Mqprio(Classes),
    /// Gates by a schedule (802.1Q §8.6.8.4).
    Taprio {
        /// Classes behind the gates.
        classes: Classes,
        /// The schedule.
        schedule: GateSchedule,
    },
    /// One class shaped by credit, at the root.
    Cbs(Cbs),
    /// One class released by launch time, at the root.
    Etf(Etf),
}

/// Traffic classes and what shapes each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Classes {
    /// Traffic class of each priority; entries 8 to 15 are the kernel's, unused on the wire.
    pub map: [u8; 16],
    /// What each class has, index = class; strict priority, the highest index first.
    pub shapers: Vec<Shaper>,
}

/// Frames that wait in one class before the next is dropped: a `pfifo` as long as Linux' `txqueuelen` when nothing says
/// otherwise.
pub const QUEUE_FRAMES: usize = 1000;

/// What a traffic class has in front of the port.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Shaper {
    /// Nothing: strict priority alone.
    #[default]
    None,
    /// Credit-based shaper.
    Cbs(Cbs),
    /// Launch time.
    Etf(Etf),
}

/// Parameters of a credit-based shaper (802.1Q §8.6.8.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cbs {
    /// Rate at which credit rises, of physical bits.
    pub idle_slope: Rate,
    /// Whether the NIC shapes.
    pub offload: bool,
}

/// Parameters of earliest-txtime-first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Etf {
    /// How long before the launch time a frame goes to the driver.
    pub delta: Nanos,
    /// Whether the NIC launches.
    pub offload: bool,
    /// Launch times are deadlines only.
    pub deadline_mode: bool,
    /// Sockets without SO_TXTIME are let through.
    pub skip_sock_check: bool,
}

/// A gate control list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateSchedule {
    /// The schedule starts at `base_time + k·cycle`.
    pub base_time: Tai,
    /// Sum of the intervals.
    pub cycle: Nanos,
    /// Entries in order.
    pub entries: Vec<GateEntry>,
    /// Who keeps it.
    pub mode: TaprioMode,
}

/// One entry of a gate control list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GateEntry {
    /// Bit c is set when the gate of class c is open.
    pub gates: u8,
    /// How long.
    pub interval: Nanos,
}

/// Who keeps a gate schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaprioMode {
    /// The kernel, by timers.
    Software,
    /// The kernel turns gates into launch times (flags 0x1).
    TxtimeAssist {
        /// Between the time a frame reaches the qdisc and its launch.
        txtime_delay: Nanos,
    },
    /// The NIC (flags 0x2).
    FullOffload,
}

impl Queue {
    /// Whether it has gates.
    pub fn is_gated(&self) -> bool {
        matches!(self, Self::Taprio { .. })
    }

    /// The name `tc` has for it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Fifo => "fifo",
            Self::FqCodel => "fq_codel",
            Self::Mqprio(_) => "mqprio",
            Self::Taprio { .. } => "taprio",
            Self::Cbs(_) => "cbs",
            Self::Etf(_) => "etf",
        }
    }

    /// The traffic class in which frames of `pcp` wait; 0 where there is one class only.
    ///
    /// The model takes the PCP as the priority: `tsn` installs that mapping on bridges, which a Linux bridge
    /// does not have by itself.
    pub fn class_of(&self, pcp: u8) -> u8 {
        self.classes().map_or(0, |classes| classes.map[usize::from(pcp)])
    }

    /// The class of each priority, and the shaper of each class; nothing where there are no classes.
    pub fn classes(&self) -> Option<&Classes> {
        match self {
            Self::Mqprio(classes) | Self::Taprio { classes, .. } => Some(classes),
            Self::Fifo | Self::FqCodel | Self::Cbs(_) | Self::Etf(_) => None,
        }
    }

    fn shaper(&self, class: u8) -> Option<&Shaper> {
        self.classes()?.shapers.get(usize::from(class))
    }

    /// The release by launch time of a class, if it has one.
    pub fn etf(&self, class: u8) -> Option<&Etf> {
        match (self, self.shaper(class)) {
            (Self::Etf(etf), _) | (_, Some(Shaper::Etf(etf))) => Some(etf),
            _ => None,
        }
    }

    /// The credit-based shaper of a class, if it has one.
    pub fn cbs(&self, class: u8) -> Option<&Cbs> {
        match (self, self.shaper(class)) {
            (Self::Cbs(cbs), _) | (_, Some(Shaper::Cbs(cbs))) => Some(cbs),
            _ => None,
        }
    }
}
