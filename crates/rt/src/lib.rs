//! Clocks, threads, memory and what is shared between processes, on one Linux host.
//!
//! What a cyclic station needs of the operating system, behind a safe surface:
//!
//! | module | for |
//! |---|---|
//! | [`clock`] | TAI without surprises: a clock that detects steps, and sleeps on absolute instants |
//! | [`wait`] | waiting for the instants of a cycle: asleep, spinning, or both with a margin that is learned |
//! | [`thread`] | asking for real-time scheduling, and saying plainly what was refused |
//! | [`ptp`] | the clock of a network interface, and its periodic event |
//! | [`events`] | waiting for that event, and going on without it |
//! | [`image`] | the process image, shared with an application in another thread or process |
//! | [`exchange`] | the newest of something, from one thread of a process to another |
//! | [`ring`] | trace records out of the cyclic thread without a system call |
//! | [`alloc`] | proof that the cyclic path allocates nothing |
//! | [`process`] | placing and telling apart processes |
//! | [`machine`] | what the host is, for the results |
//! | [`wakeup`] | how late the host wakes a thread |
//! | [`testing`] | a clock from a script |
//!
//! ```
//! use downbeat_rt::clock::{Clock, SystemClock};
//! use downbeat_rt::ring::Ring;
//! use downbeat_rt::wait::{Pacer, Wait};
//! use units::Nanos;
//!
//! let ring = Ring::create("trace", 1024)?;
//! let mut producer = ring.producer()?;
//! let mut consumer = ring.consumer()?;
//!
//! let period = Nanos::from_millis(1);
//! let clock = SystemClock::new();
//! let mut pacer = Pacer::new(Wait::Hybrid, period);
//! let start = clock.now();
//! for cycle in 1..=3 {
//!     let due = start + period * cycle;
//!     let began = pacer.wait(&clock, due);
//!     assert!(producer.push(&[cycle as u64, (began - due).0 as u64, 0, 0, 0, 0, 0, 0]));
//! }
//! assert_eq!(consumer.pop().map(|record| record[0]), Some(1));
//! assert_eq!(ring.overflowed(), 0);
//! # Ok::<(), std::io::Error>(())
//! ```

pub mod alloc;
pub mod clock;
pub mod events;
pub mod exchange;
pub mod image;
pub mod machine;
mod memory;
pub mod process;
pub mod ptp;
pub mod ring;
pub mod testing;
pub mod thread;
pub mod wait;
pub mod wakeup;
