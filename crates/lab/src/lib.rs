//! A scenario run for real on this machine: a network namespace and a process a host, veth pairs and Linux bridges
//! between them, results in the form of every run.
//!
//! [`run()`] makes all of it and undoes it; [`restore`] undoes what a killed run left. A role process is the same program
//! started again, answering in `station::role_process`. [`Load`] keeps the machine busy meanwhile, if asked to.
//!
//! ```no_run
//! use downbeat_lab::{RunOptions, run};
//! let scenario = scenario::read(scenario::template("two-hosts").unwrap(), "two-hosts.toml").unwrap();
//! let options = RunOptions {
//!     duration: "5s".parse().unwrap(),
//!     folder: "runs/first".into(),
//!     stamps: true,
//!     realtime: true,
//!     rights: downbeat_lab::Rights::take("runs/first".as_ref())?,
//!     pauses: Vec::new(),
//!     load: None,
//!     program: std::env::current_exe().unwrap(),
//!     role_arguments: vec!["role".into()],
//!     command: "downbeat run two-hosts.toml".into(),
//! };
//! let outcome = run(&scenario, &options, &mut |live, _| eprintln!("{} frames", live.frames))?;
//! println!("{}", outcome.run.verdict.met);
//! # Ok::<(), downbeat_lab::LabError>(())
//! ```
#![forbid(unsafe_code)]

mod error;
mod host;
mod journal;
mod load;
mod machine;
mod rights;
mod run;
mod topology;
mod traffic;

pub use error::LabError;
pub use journal::{Restored, restore};
pub use load::{Load, LoadOptions, Profile, load_process};
pub use machine::host_machine;
pub use rights::Rights;
pub use run::{Pause, RunOptions, RunOutcome, check, interrupt_flag, run, utc_seconds};
pub use station::Link;
