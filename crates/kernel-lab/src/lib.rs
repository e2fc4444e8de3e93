//! The kernel laboratory: a Linux kernel of its own as an ordinary program (User Mode Linux), with the real queueing
//! disciplines and a clock that moves only when everything sleeps.
//!
//! `make kernel-lab` builds that kernel; [`Kernel::find`] finds it. A [`Script`] runs on it as root, sees the programs of
//! the host, and changes nothing of the host: the same script gives the same bytes each time, on a busy machine too.
//!
//! ```no_run
//! use downbeat_kernel_lab::{Kernel, Script};
//!
//! let batch = "qdisc replace dev va root handle 1: tbf rate 1gbit burst 1600 limit 100000\n";
//! let script = "set -e\n\
//!               ip link add va type veth peer name vb\n\
//!               tc -batch batch\n\
//!               tc -j qdisc show dev va\n";
//! let ended = Script::new(script).file("batch", batch).run(&Kernel::find()?)?;
//! assert_eq!(ended.code, 0, "{}", ended.stderr);
//! println!("{}", ended.stdout);
//! # Ok::<(), downbeat_kernel_lab::KernelLabError>(())
//! ```
//!
//! The folder `kernel-lab/` of the repository holds what the kernel is built from; `docs/kernel-lab.md` says what is
//! different in it.
#![forbid(unsafe_code)]

mod boot;
mod error;
mod kernel;
mod processor;
mod room;
mod script;
mod stage;
pub mod testing;

pub use error::KernelLabError;
pub use kernel::Kernel;
pub use script::{Ended, Script};

/// What the programs in the laboratory find in their environment, and nobody else.
pub const MARK: &str = "KERNEL_LAB";

/// Where the host's folder appears inside; a script starts there.
pub const FOLDER_INSIDE: &str = "/tmp/lab";
