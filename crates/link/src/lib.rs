//! Packet sockets for UADP over Ethernet: frames with their VLAN tags, and the kernel's timestamps.
//!
//! A [`Sender`] hands over complete frames, tag included, and can tell through a [`StampReader`] when each
//! one left the kernel. A [`Receiver`] sees the frames of EtherType 0xB62C that reach an interface, with
//! whatever tag they carried, and when the kernel got them. Neither allocates after `open`.
//!
//! Both need `CAP_NET_RAW` (root, or an own user and network namespace).
//!
//! - Frames come through a ring shared with the kernel, without a system call, where the kernel gives one.
//! - Software stamps are taken in the driver (sending) and on entry into the stack (receiving).
//!   The kernel has them in UTC; they are returned in TAI with the offset given on opening.
//! - The kernel switches receive stamps on in the background: frames of about the first 50 ms may have none.
//! - [`udp`] has both ends over UDP, for unprivileged programs and routed networks.
//! - [`xdp`] has both ends over AF_XDP, past the stack.
//! - The core strips the outer tag before any socket sees the frame; [`Received::tag`] has it back.
//!
//! ```no_run
//! use downbeat_link::{Departure, Receiver, ReceiverOptions, Sender, SenderOptions, Stamps};
//! use units::Nanos;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let tai_minus_utc = Nanos(37_000_000_000);
//! # let frame = [0_u8; 60];
//! let sender = Sender::open("veth0", SenderOptions { priority: 7, stamps: Stamps::Software, ..Default::default() })?;
//! let mut left = sender.stamps(tai_minus_utc)?;
//! let options = ReceiverOptions { tai_minus_utc, stamps: Stamps::Software, ..Default::default() };
//! let mut receiver = Receiver::open("veth1", options)?;
//!
//! sender.send(&frame)?;
//! if receiver.wait(Nanos::from_millis(100))? {
//!     while let Some(received) = receiver.receive()? {
//!         println!("{} bytes, tag {:?}, at {:?}", received.uadp.len(), received.tag, received.stamp);
//!     }
//! }
//! if let Some(Departure::Left(stamp)) = left.wait(Nanos::from_millis(100))? {
//!     println!("send {} left at {:?}", stamp.id, stamp.at);
//! }
//! # Ok(())
//! # }
//! ```

pub mod bare;
mod control;
mod error;
mod ethtool;
mod filter;
mod frame;
pub mod interface;
mod packet;
mod publishers;
mod receiver;
mod ring;
mod sender;
mod sends;
mod socket;
mod stamping;
mod stampmode;
mod stamps;
mod txtime;
pub mod udp;
mod wait;
pub mod xdp;

pub use error::{InterfaceName, LinkError};
pub use frame::Tag;
pub use receiver::{BusyPoll, ReceiveWay, Received, Receiver, ReceiverOptions, TagUse};
pub use sender::{Sender, SenderOptions};
pub use stampmode::Stamps;
pub use stamps::{Departure, StampReader, TxStamp};
pub use txtime::{LaunchClock, LaunchError, LaunchLosses, LostLaunch, TxTime};

/// EtherType of OPC UA UADP (OPC 10000-14 §7.3.3).
pub const ETHERTYPE_UADP: u16 = 0xB62C;
/// EtherType of an 802.1Q tag.
pub const ETHERTYPE_VLAN: u16 = 0x8100;
