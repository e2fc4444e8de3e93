//! What the command does in the kernel laboratory: one program of tests, so that those of all files share the processors.
//!
//!     cargo test -p downbeat-cli --test lab
//!
//! runs them all and says how long they took; `cargo test -p downbeat-cli --test lab -- traps::` those of one file.

mod apply;
mod bad_plans;
#[path = "../common/mod.rs"]
mod common;
mod papers;
mod ports;
mod probe;
mod run;
mod ssh;
mod traps;
mod unit;
mod watch;
