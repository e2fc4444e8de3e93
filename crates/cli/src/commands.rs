//! The commands, a file each.

pub(crate) mod apply;
pub(crate) mod bound;
pub(crate) mod check;
pub(crate) mod ctl;
pub(crate) mod export;
pub(crate) mod import;
pub(crate) mod init;
pub(crate) mod join;
pub(crate) mod kernel_lab;
pub(crate) mod latency;
pub(crate) mod playing;
pub(crate) mod ptp;
pub(crate) mod render;
pub(crate) mod report;
pub(crate) mod restore;
pub(crate) mod role;
pub(crate) mod run;
mod settings;
pub(crate) mod simulate;
mod told;
