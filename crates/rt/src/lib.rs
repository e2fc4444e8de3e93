//! Clocks, threads, memory and the shared trace ring of one Linux host.
//!
//! What a cyclic station needs of the operating system, behind a safe surface: [`clock`] sleeps on an
//! absolute TAI instant, [`thread`] asks for real-time scheduling and says plainly what was refused,
//! [`ring`] carries trace records out of the cyclic thread without a system call, [`alloc`] proves that
//! the cyclic path allocates nothing, [`process`] places a thread in a network namespace, and
//! [`machine`] describes the host for the results.
//!
//! ```
//! use downbeat_rt::{clock, ring::Ring};
//! use units::Nanos;
//!
//! let ring = Ring::create("trace", 1024)?;
//! let mut producer = ring.producer()?;
//! let mut consumer = ring.consumer()?;
//!
//! let mut pacer = clock::Pacer::new(Nanos::from_micros(100));
//! let start = clock::now();
//! for cycle in 1..=3 {
//!     let due = start + Nanos::from_millis(1) * cycle;
//!     let began = pacer.wait(due);
//!     assert!(producer.push(&[cycle as u64, (began - due).0 as u64, 0, 0, 0, 0, 0, 0]));
//! }
//! assert_eq!(consumer.pop().map(|record| record[0]), Some(1));
//! assert_eq!(ring.overflowed(), 0);
//! # Ok::<(), std::io::Error>(())
//! ```

pub mod alloc;
pub mod clock;
pub mod machine;
pub mod process;
pub mod ring;
pub mod thread;
