//! Worst-case bounds in exact arithmetic.
//!
//! [`bound`] takes a checked scenario and answers, for every stream, the longest one-way delay and the
//! longest round trips, or why there is none. Two models:
//!
//! * [`Model::Packet`], the default: whole physical frames, store and forward, bursts paid once per
//!   stretch of the path that the same streams share, strict priority and credit-based shaping. A
//!   simulated frame never takes longer.
//! * [`Model::Paper`]: the fluid model of Rezabek et al., byte for byte as in their Table IV
//!   ([`paper_table`]). It is there to compare with the paper, not to rely on.
//!
//! Every number is a fraction of integers, so equal scenarios give equal bits everywhere; decimals are
//! rounded up. [`BoundReport::table`] is the certificate: formula, and each port's numbers in it.
//!
//! ```
//! use downbeat_calculus::{Bound, Exact, paper_table};
//! // 59 B over one link and back, as printed by Rezabek et al.: 0.954 ms.
//! let cell = Bound::At(paper_table().cells[0][0].clone());
//! assert_eq!(cell.to_string(), "954.957 µs");
//!
//! let delay = Bound::At(Exact::new(3.into(), 6250.into()));
//! assert_eq!(delay.to_string(), "480.000 µs");
//! let third = Bound::At(Exact::new(1.into(), 3_000_000.into()));
//! assert_eq!(third.to_string(), "0.334 µs");
//! let never = Bound::Unbounded("more arrives than leaves".into());
//! assert_eq!(never.seconds(), None);
//! ```
#![forbid(unsafe_code)]

mod assisted;
mod curve;
mod cycle;
mod exact;
mod flow;
mod gated;
mod gated_cbs;
mod gates;
mod linux_cbs;
mod packet;
mod paper;
mod phased;
mod report;
mod service;
mod table;

use scenario::Scenario;
use units::Nanos;

pub use curve::{Curve, RateLatency};
pub use exact::{Bound, Exact, Number};
pub use paper::{PaperTable, paper_table};
pub use report::{BoundReport, Count, Direction, PortBound, RoundTrip, StreamBound, Terms};

/// How delays are modelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Model {
    /// The fluid model of Rezabek et al. with its quirks.
    Paper,
    /// Whole frames, store and forward: the model to rely on.
    #[default]
    Packet,
}

impl Model {
    /// Its name on the command line and in results.
    pub fn key(self) -> &'static str {
        match self {
            Self::Paper => "paper",
            Self::Packet => "packet",
        }
    }
}

/// What a bound assumes beyond the scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// How late hosts may do what they do, at most; zero takes them as punctual.
    pub host_jitter: Nanos,
    /// How far clocks of different hosts are apart, at most.
    pub clock_error: Nanos,
    /// Physical bytes of the largest lower-priority frame that the scenario does not name but that may
    /// turn up at any port with several classes (1542 for any Ethernet frame); zero believes the scenario.
    pub unnamed_frame_bytes: u32,
}

/// Bounds of all streams of a scenario, with punctual hosts and no traffic but the scenario's.
pub fn bound(scenario: &Scenario, model: Model) -> BoundReport {
    bound_with(scenario, model, &Options::default())
}

/// Bounds of all streams of a scenario.
pub fn bound_with(scenario: &Scenario, model: Model, options: &Options) -> BoundReport {
    match model {
        Model::Paper => paper::report(scenario, options),
        Model::Packet => packet::report(scenario, options),
    }
}
