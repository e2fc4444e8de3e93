//! Instants, spans, rates and frame sizes: integers with their unit in the type.
//!
//! Everything above this crate counts time in [`Nanos`] and [`Tai`], or in [`Picos`] inside the
//! simulator, where a byte at 100 Gbit/s lasts 80 ps. Sizes on the wire come from [`FrameSize`],
//! so that nobody adds 18, 22 or 42 bytes by hand.
//!
//! ```
//! use downbeat_units::{FrameSize, Nanos, Rate};
//! let cycle: Nanos = "250us".parse().unwrap();
//! let rate: Rate = "1Gbit/s".parse().unwrap();
//! let frame = FrameSize::tagged(59);
//! assert_eq!(frame.physical_bytes(), 101);
//! assert_eq!(rate.transmission(frame.physical_bits()).to_nanos_ceil(), Nanos(808));
//! assert_eq!(cycle / 2, Nanos(125_000));
//! ```
//!
//! `no_std`, no dependencies.
#![no_std]
#![forbid(unsafe_code)]

mod frame;
mod quantity;
mod rate;
mod time;

pub use frame::{FrameSize, MAX_PAYLOAD_BYTES};
pub use quantity::QuantityError;
pub use rate::Rate;
pub use time::{Nanos, Picos, Tai};
