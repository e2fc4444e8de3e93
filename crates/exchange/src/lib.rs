//! Files of other tools, in and out.
//!
//! | module | the file | in | out |
//! |---|---|---|---|
//! | [`tsd`] | the TSN stream file of VxWorks (`tsnconfig`, Time Specific Departure) | a scenario | the streams of a host |
//! | [`detd`] | a talker request of detd | a stream of a scenario | the requests of a host, and the reply to one |
//! | [`yang`] | instance data of the YANG modules of IEEE 802.1Q (RFC 7951) | | a bridge |
//!
//! What a format cannot say gets a default that is told of, and what the other side cannot hold is a [`Note`] that
//! names it: nothing is dropped silently. A file that cannot be used gives [`Problems`]: what, where, what was
//! expected, how to mend it.
//!
//! ```
//! use downbeat_exchange::tsd;
//! let file = r#"{
//!   "schedule": { "cycle time": 250000, "start sec": 0, "start nsec": 0 },
//!   "stream objects": [{ "stream": {
//!     "name": "flow1", "dst mac": "01:00:5E:00:00:01", "vid": 3000, "pcp": 7, "tclass": 7, "tx time": { "offset": 200000 }
//!   }}]
//! }"#;
//! let (read, notes) = tsd::read(file, "flow.json").unwrap();
//! assert!(notes.is_empty());
//! let toml = tsd::to_scenario(&read, "flow", "flow.json", &notes).unwrap().text;
//! let scenario = scenario::read(&toml, "flow.toml").unwrap();
//! assert_eq!(scenario.streams[0].offset, units::Nanos(200_000));
//! assert_eq!(tsd::of_host(&scenario, scenario.streams[0].writer).unwrap().0, read);
//! ```
//!
//! Nothing here reads or writes files: text comes in as an argument and goes out as a value.
#![forbid(unsafe_code)]

pub mod detd;
mod json;
mod mac;
mod problem;
pub mod tsd;
pub mod yang;

pub use mac::{parse as parse_mac, with as mac_text};
pub use problem::{Note, Problem, Problems};
