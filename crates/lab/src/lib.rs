//! A scenario run for real on this machine, results in the form of every run: all of it in a laboratory, a network
//! namespace and a process a host, veth pairs and Linux bridges between them; or one host of it as a [`Role`] in the
//! machine's own network, the others being elsewhere.
//!
//! [`run()`] makes all of it and undoes it; [`restore`] undoes what a killed run left. A role process is the same program
//! started again, answering in `station::role_process`. [`Load`] keeps the machine busy meanwhile, if asked to.
//!
//! ```no_run
//! use downbeat_lab::{RunOptions, run};
//! let scenario = scenario::read(scenario::template("two-hosts").unwrap(), "two-hosts.toml").unwrap();
//! let options = RunOptions {
//!     duration: Some("5s".parse().unwrap()),
//!     folder: "runs/first".into(),
//!     stamps: downbeat_lab::WantedStamps::Auto,
//!     realtime: true,
//!     scheduling: downbeat_lab::Scheduling::Fifo,
//!     place: downbeat_lab::Place::Laboratory(downbeat_lab::Rights::take("runs/first".as_ref())?),
//!     link: downbeat_lab::Link::Auto,
//!     launch: downbeat_lab::Launch::Auto,
//!     wait: rt::wait::Wait::Hybrid,
//!     wake: downbeat_lab::Wake::Monotonic,
//!     rotate_every: None,
//!     pauses: Vec::new(),
//!     lateness: Vec::new(),
//!     images: None,
//!     load: None,
//!     program: std::env::current_exe().unwrap(),
//!     role_arguments: vec!["role".into()],
//!     command: "downbeat run two-hosts.toml".into(),
//! };
//! let progress = &mut |live: &measure::Live, _: units::Nanos| eprintln!("{} frames", live.frames);
//! let outcome = run(&scenario, &options, None, progress)?;
//! println!("{}", outcome.run.verdict.met);
//! # Ok::<(), downbeat_lab::LabError>(())
//! ```
#![forbid(unsafe_code)]

mod addresses;
mod control;
mod departure;
mod drains;
mod error;
mod here;
mod hook;
mod host;
mod images;
mod journal;
mod kernel_lab;
mod laboratory;
mod lateness;
mod load;
mod lost;
mod machine;
mod ports;
mod rights;
mod role;
mod rotation;
mod run;
mod socket;
mod stamp_setting;
mod stamps;
mod start;
mod topology;
mod traffic;
mod venue;
mod wake;
mod watch;

pub use error::LabError;
pub use images::ImageFolder;
pub use journal::{Restored, restore};
pub use kernel_lab::KernelLab;
pub use lateness::Lateness;
pub use load::{Load, LoadOptions, Profile, load_process};
pub use machine::host_machine;
pub use rights::Rights;
pub use role::{Part, Role, interfaces_of_host};
pub use run::{Pause, RunOptions, RunOutcome, interrupt_flag, run, utc_seconds};
pub use socket::{ControlSocket, ask_control, control_folder, find_control};
pub use start::wait_for_gates;
pub use station::{Launch, Link, Scheduling, Wake, WantedStamps};
pub use venue::Place;
pub use watch::{Beginning, TraceState, Turn, Watch};
