//! The scenario in virtual time.
//!
//! [`simulate`] runs a checked scenario: the engine of `pubsub` at every stream end, driven at the phases of its host,
//! and a network of links, store-and-forward bridges and output ports under it. Time is counted in
//! whole picoseconds, all arithmetic is on integers, and what is random comes from one seed: equal inputs give equal
//! bytes on every machine.
//!
//! What is modelled, and how:
//!
//! * A frame takes its physical size of every line, preamble and inter-frame gap included; it has arrived when all of
//!   that is in. T2 and T6 are the instant a station's port begins to send, T3 and T7 that of the last bit in. Transmission
//!   times are rounded down to a picosecond.
//! * Bridges take a constant latency from the last bit in to the output queue. Ports never interrupt a frame; the class
//!   with the highest number goes first; a class holds [`scenario::QUEUE_FRAMES`] waiting frames and drops what comes then.
//! * Credit-based shapers follow 802.1Q §8.6.8.2 and count physical bits (Linux' software shaper counts less).
//! * A frame with launch time enters its port's queue exactly then, as with launch time in the NIC, or at once when it
//!   is handed over too late. Without launch time it enters when it is handed over.
//! * What arrives within the receive window, its end included, is read at once; anything else waits for the next window.
//! * UDP traffic is paced evenly from a random phase; without a rate one frame always waits behind the one being sent.
//!   TCP is modelled as paced datagrams of its rate, as full segments.
//!
//! * Launch queues (etf) take a frame as it is handed over and release it by `sch_etf`'s rules.
//! * Gates that Linux keeps, by timers or as launch times (`txtime-assist`), are those of `sch_taprio`, which hands up to nine
//!   frames on at once, on a clock without latency; those of hardware and of full offload the standard's (802.1Q §8.6.8.4).
//!   They have been running when the simulation begins. Preemption is not modelled.
//!
//! [`pass`] drives one port alone.
//!
//! ```
//! use downbeat_sim::{Options, simulate};
//! use units::Picos;
//! let text = r#"
//! name = "two"
//! time = { cycle = "250us", offset = "150us" }
//! hosts = { pub = {}, loop = {} }
//! links = [{ between = ["pub", "loop"], rate = "1Gbit/s", cable = "0m" }]
//! streams = [{ name = "loop", writer = "pub", reader = "loop", echo = true, variables = 3, pcp = 7, launch = true }]
//! "#;
//! let scenario = scenario::read(text, "two.toml").unwrap();
//! let options = Options { cycles: 100, host_latency: "exp:5us,max=50us".parse().unwrap(), ..Options::default() };
//! let outcome = simulate(&scenario, &options).unwrap();
//! // However late the hosts wake up: 101 physical bytes at 1 Gbit/s.
//! assert_eq!(outcome.network.delays[0].forward.max, Some(Picos(808_000)));
//! assert_eq!(outcome.network.delays[0].back.min, Some(Picos(808_000)));
//! ```
#![forbid(unsafe_code)]

mod agenda;
mod credit;
mod engine;
mod flow;
mod frames;
mod latency;
mod outcome;
mod port;
mod qdisc;
mod simulate;
mod station;
mod world;

pub use latency::{HostLatency, LatencyError, Measured};
pub use outcome::{Delays, Drops, Network, Options, SimError, StreamDelays, TrafficCount};
pub use port::{Arrival, Cause, Fate, Passage, Passed, Processor, pass};
pub use qdisc::{FqCodel, Qdisc};
pub use simulate::{Outcome, simulate, trace};
