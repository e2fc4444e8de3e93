//! Clock synchronisation while it runs: starts `ptp4l` and `phc2sys` of linuxptp, and watches how well they keep a clock.
//!
//! What ptp4l knows it tells on its Unix socket, in management messages of IEEE 1588 ([`management`]); what only its log
//! says, the servo's state and the instants of transitions, is read there ([`log`]). [`watch`] puts both together into the
//! form of `ptp.json` ([`measure::PtpFile`]) and the samples beside it, in bounded memory. [`Setup`] makes out of a
//! scenario what a host is to run, and says what is missing; [`Children`] are the processes, and end with us.
#![forbid(unsafe_code)]

mod children;
mod client;
mod error;
pub mod log;
pub mod management;
mod observer;
mod rivals;
mod setup;
mod shelf;
mod watch;

pub use children::{Children, Launcher};
pub use error::PtpError;
pub use setup::Setup;
pub use watch::{Facts, Line, Options, follow, watch};
