//! The scenario file and its checked model.
#![forbid(unsafe_code)]

mod model;
mod queue;
mod requirement;

pub use model::*;
pub use queue::*;
pub use requirement::*;
