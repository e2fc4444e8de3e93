//! One self-contained page for a run, its simulation and its bound.
//!
//! [`page`] makes HTML out of runs that were read already, [`from_dirs`] reads run folders first. The page has its
//! style and drawings inside, loads nothing, and works without scripts; runs of the same scenario file stand side
//! by side, others in sections of their own.
//!
//! [`ptp_page`] makes the same of watches over clock synchronisation.
//!
//! ```no_run
//! let page = downbeat_report::from_dirs(&["runs/measured".into(), "runs/simulated".into()])?;
//! std::fs::write("report.html", page)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod bounds;
mod charts;
mod error;
mod explain;
mod figures;
mod group;
mod machine;
mod page;
mod picture;
mod ptp;
mod style;
mod tables;
mod text;
mod verdict;

pub use error::ReportError;
pub use page::{RunInput, from_dirs, page};
pub use ptp::ptp_page;
