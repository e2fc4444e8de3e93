//! The machine under a scenario: what it has for real time and TSN, what it lacks, and how to mend that.
//!
//! [`examine`] is the doctor. It looks at the machine through [`Look`], so that its rules can be tried on machines that
//! are not there, and tells a [`Finding`] each: found, needed, how to mend. What can be set right while the machine runs
//! and set back again is a [`Change`]; [`Changes`] writes into a journal how to undo it before it is made.
//!
//! [`Apply`] puts a plan of `tsn` onto the machine, reads it back, and takes it off again, also after a crash. [`Watch`]
//! keeps it true from then on.
#![forbid(unsafe_code)]

mod apply;
mod change;
mod doctor;
mod finding;
mod lock;
mod look;
mod needs;
mod notify;
mod probe;
mod unit;
mod watch;

pub use apply::{Applied, Apply, ApplyError, Held, Refused, Standing, StepFailure, StepState};
pub use change::{Change, ChangeError, Changes, Undone, undo_all};
pub use doctor::examine;
pub use finding::{Finding, Severity};
pub use lock::LockError;
pub use look::{Act, Look, Printed, ThisMachine};
pub use needs::{NeededInterface, Needs};
pub use notify::Notifier;
pub use unit::WatchUnit;
pub use watch::{OnChange, Told, Watch, What};

#[cfg(test)]
mod scripted;
