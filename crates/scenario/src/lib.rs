//! The scenario file and its checked model.
//!
//! A scenario is one TOML file that says everything once: hosts, links, queues, streams, when things
//! happen, and what has to hold. [`read`] makes a [`Scenario`] of it, or [`Diagnostics`]: everything
//! that is wrong, each item with its place, what was expected there, and how to mend it. Bound, simulation
//! and run take the [`Scenario`] and need no checks of their own.
//!
//! ```
//! use downbeat_scenario::{Quantity, read};
//! let text = r#"
//! name = "two"
//! requirement = { one_way = "1ms" }
//! time = { cycle = "250us", offset = "150us" }
//! hosts = { pub = {}, loop = {} }
//! links = [{ between = ["pub", "loop"], cable = "5m" }]
//! streams = [{ name = "loop", writer = "pub", reader = "loop", echo = true, variables = 3, pcp = 7 }]
//! "#;
//! let scenario = read(text, "two.toml").unwrap();
//! assert_eq!(scenario.requirement[0].quantity, Quantity::OneWay);
//! assert_eq!(scenario.streams[0].frame().physical_bytes(), 101);
//! assert_eq!(scenario.port_name(scenario.streams[0].path[0]), "pub → loop");
//!
//! let wrong = read(&text.replace("\"1ms\"", "1"), "two.toml").unwrap_err();
//! assert!(wrong.render().contains("`one_way = \"1ms\"`"));
//! ```
//!
//! One file reads one table (`time`, `hosts`, `links`, `ports`, `streams`, `traffic`, `limits`,
//! `on_breach`; `machines` what Linux is told); `node` has the
//! typed access to TOML that they share, `checks` what concerns several tables, `file` puts them in order.
#![forbid(unsafe_code)]

mod application;
mod breaches;
mod checks;
mod counted;
mod credits;
mod diagnostic;
mod file;
mod frames;
mod gates;
mod hosts;
mod installation;
mod limits;
mod line;
mod links;
mod long_run;
mod machines;
mod model;
mod node;
mod on_breach;
mod paths;
mod ports;
mod queue;
mod queues;
mod requirement;
mod settings;
mod streams;
mod templates;
mod time;
mod traffic;
mod transport;

pub use breaches::{BreachPlan, Breaches, StreamEnd};
pub use counted::{Counted, LINE_OVERHEAD_BYTES};
pub use credits::{Credits, LONGEST_FRAME_BYTES, Reservation, credits};
pub use diagnostic::{Diagnostic, Diagnostics, Placed, Severity};
pub use file::{ReadError, read, read_file, read_file_with, read_with_warnings};
pub use gates::{BULK_FRAMES, Open, Window};
pub use installation::{Installation, Kernel, Machine, Nic, Ptp, PtpWay, TimeSource};
pub use line::{LineSpec, line};
pub use long_run::{LongRun, Ratio};
pub use model::*;
pub use pubsub::{Action, BreachChange, BreachRule, Condition};
pub use queue::*;
pub use requirement::*;
pub use settings::{Setting, SettingError};
pub use templates::{TEMPLATES, Template, template};
