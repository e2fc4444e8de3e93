//! UADP frames over AF_XDP: past the stack, through memory shared with the kernel.
//!
//! [`XdpPort::open`] gives an [`XdpSender`] and an [`XdpReceiver`] of one queue of an interface, in the shapes of
//! [`Sender`](crate::Sender) and [`Receiver`](crate::Receiver). A small programme of ours in the driver hands the wanted
//! UADP frames to the receiver; everything else goes on to the stack. It is attached as long as the receiver lives, and
//! vanishes with the process however that ends.
//!
//! It needs `CAP_NET_RAW`, `CAP_NET_ADMIN` and `CAP_BPF`, and kernel 5.9 or newer.
//!
//! - XDP sees a tag only when it stands in the frame: see [`set_vlan_offload`](crate::interface::set_vlan_offload).
//! - Stamps of received frames are software stamps of `CLOCK_TAI`, taken when the programme runs, or on request those of
//!   the network card, where its driver hands them to programmes (kernel 6.3 and its type information, BTF).
//! - Several threads share a queue by [`XdpPort::open_shared`]: each has receivers and senders of its own, and none ever
//!   waits for another.
//! - Attaching restarts the port of many network cards: afterwards wait with
//!   [`wait_until_running`](crate::interface::wait_until_running).
//!
//! ```no_run
//! use downbeat_link::Stamps;
//! use downbeat_link::xdp::{XdpOptions, XdpPort};
//! use units::Nanos;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let frame = [0_u8; 60];
//! let options = XdpOptions { stamps: Stamps::Software, ..XdpOptions::default() };
//! let (mut sender, mut receiver) = XdpPort::open("eth1", options)?;
//! println!("{}", receiver.how());
//! sender.send(&frame)?;
//! if receiver.wait(Nanos::from_millis(100))? {
//!     while let Some(received) = receiver.receive()? {
//!         println!("{} bytes, tag {:?}, at {:?}", received.uadp.len(), received.tag, received.stamp);
//!     }
//! }
//! # Ok(())
//! # }
//! ```

mod assembler;
mod bpf;
mod btf;
mod memory;
mod netlink;
mod options;
mod pool;
mod port;
mod programme;
mod receive;
mod rings;
mod send;
mod socket;
mod stamp;

pub use options::{SendStamps, XdpCopy, XdpHow, XdpKey, XdpMode, XdpOptions};
pub use port::{XdpPort, offers_zero_copy};
pub use programme::Filtered;
pub use receive::XdpReceiver;
pub use send::XdpSender;
