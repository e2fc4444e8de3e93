//! What a scenario asks of Linux: planned, checked, with the reason for every number.
//!
//! [`plan`] makes a [`Plan`] for one host: the commands of `ip`, `bridge`, `ethtool` and `tc` in an order in which
//! no schedule dies, each with a comment on its numbers and with how it is undone, the files of linuxptp, and advice.
//! [`Plan::text`] writes it as what those programs read; whoever applies it goes through [`Plan::steps`].
//!
//! ```
//! use downbeat_tsn::{Form, plan};
//! let scenario = scenario::read(
//!     r#"
//! name = "two"
//! time = { cycle = "250us", offset = "150us" }
//! hosts = { pub = { interface = "eth1", machine = { driver = "igb" } }, loop = {} }
//! links = [{ between = ["pub", "loop"] }]
//! ports = [{ at = "pub", queue = { root = "cbs", idle_slope = "110%" } }]
//! streams = [{ name = "s", writer = "pub", reader = "loop", variables = 3, vid = 8, pcp = 3 }]
//! "#,
//!     "two.toml",
//! )
//! .unwrap();
//! let plan = plan(&scenario, scenario.host_named("pub").unwrap());
//! // 101 B on the line every 250 µs are 3232 kbit/s; a tenth more.
//! let tc = plan.text(Form::Tc).unwrap();
//! assert!(tc.contains("cbs idleslope 3556 sendslope -996444 hicredit 6 locredit -101 offload 0"), "{tc}");
//! ```
//!
//! [`rules::check`] says what Linux or a driver would refuse or do otherwise than meant, by a table of drivers
//! ([`drivers`]) whose every line names its source.
//!
//! Nothing here reads the machine: the same scenario always gives the same plan.
#![forbid(unsafe_code)]

mod advice;
pub mod arithmetic;
mod bridge;
pub mod drivers;
mod elsewhere;
mod ethtool;
pub mod gates;
mod plan;
mod port;
mod ptp;
mod qdiscs;
pub mod rules;
mod shown;
mod vlan;

pub use bridge::{BRIDGE, Passing, native_vid, passing};
pub use elsewhere::elsewhere;
pub use plan::{Command, Existing, Form, Plan, PlannedFile, Program, Setting, Step, Undo, plan};
pub use port::{DEFAULT_KERNEL, LinuxPort, Place, device};
pub use rules::{Finding, Severity, Situation};
pub use shown::named_json;
pub use vlan::device as vlan_device;
