//! UADP over UDP (OPC 10000-14 §7.3.2): one NetworkMessage a datagram, unicast or multicast, IPv4 or IPv6.
//!
//! The methods are those of [`Sender`](crate::Sender) and [`Receiver`](crate::Receiver), with NetworkMessages in place
//! of frames. No right is needed but for launch times by `CLOCK_TAI`, hardware stamps and priority 7.
//!
//! - An end belongs to one interface. A socket cannot be kept off the others on kernels before 5.7 without
//!   `CAP_NET_RAW`: there, unicast takes the way that the routes say. Where they say another interface than the
//!   sender's, later kernels look for the destination beside the sender's.
//! - Multicast stays in the subnet (TTL 1) and off this host's own receivers unless told otherwise.
//! - A datagram is never fragmented: one lost fragment would lose the whole.
//! - A host that answers that nobody listens, or does not answer at all, does not stop a sender: it may come later.
//!
//! ```no_run
//! use downbeat_link::udp::{UdpReceiver, UdpReceiverOptions, UdpSender, UdpSenderOptions};
//! use units::Nanos;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let network_message = [0_u8; 60];
//! let group = "224.0.2.14:4840".parse()?;
//! let sender = UdpSender::open("eth0", group, UdpSenderOptions { priority: 6, dscp: 46, ..Default::default() })?;
//! let mut receiver = UdpReceiver::open("eth1", group, UdpReceiverOptions::default())?;
//!
//! sender.send(&network_message)?;
//! if receiver.wait(Nanos::from_millis(100))? {
//!     while let Some(received) = receiver.receive()? {
//!         println!("{} bytes from {}", received.uadp.len(), received.from);
//!     }
//! }
//! # Ok(())
//! # }
//! ```

mod numbers;
mod receive;
mod send;
mod socket;

pub use receive::{ReceivedDatagram, UdpReceiver, UdpReceiverOptions};
pub use send::{UdpSender, UdpSenderOptions};

/// The port that is meant when none is given (OPC 10000-14 §7.3.2.1).
pub const DEFAULT_PORT: u16 = 4840;
