//! One station of a run: the cyclic executive, and the process that plays a host.
//!
//! [`Executive`] drives ends of streams through their phases: it takes frames from `link`, gives them to the engine of
//! `pubsub`, sends what the engine publishes, and puts what happened into a ring of `rt`. [`role_process`] is the whole
//! life of a process that plays one host of a scenario: it reads a [`RoleSpec`], opens sockets, runs one executive a
//! thread, and tells how it went.
#![forbid(unsafe_code)]

mod beat;
mod departure;
mod engine;
mod executive;
mod inlet;
mod launch;
mod outlet;
mod outside;
#[cfg(test)]
mod outside_tests;
mod parts;
#[cfg(test)]
mod phase_tests;
mod role;
mod scheduling;
mod sends;
mod sockets;
mod spec;
mod stamping;
#[cfg(test)]
mod standing_tests;
mod wake;
mod ways;
mod worker;

pub use beat::{Beat, End, Times};
pub use departure::{Departure, Launch, Txtime};
pub use engine::Engine;
pub use executive::{Executive, Span};
pub use inlet::{Inlet, Source};
pub use outlet::{Outlet, Target};
pub use outside::{Outside, image_name};
pub use role::role_process;
pub use scheduling::Scheduling;
pub use spec::{
    Dropped, EndSpec, Finished, OutletSpec, Ready, RoleSpec, ThreadSpec, WorkerFinished, WorkerSpec, cells,
    drain_request, workers,
};
pub use stamping::{StampPlan, WantedStamps};
pub use wake::{EventSpec, PtpWake, Wake, WakeEvents};
pub use ways::{Link, Reached};
