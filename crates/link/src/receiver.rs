//! Seeing the frames that reach an interface.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::PollFlags;
use units::{Nanos, Tai};

use crate::control::{ControlBuffer, messages};
use crate::error::LinkError;
use crate::socket::{CAP_NET_ADMIN, CAP_NET_RAW, PacketSocket, receive_message};
use crate::wait::{Ready, wait};
use crate::{ETHERTYPE_VLAN, filter};

/// Any frame fits, whatever the MTU: no frame is ever cut.
const BUFFER_BYTES: usize = 65_536 + 64;
const HEADER_BYTES: usize = 14;
const TAG_BYTES: usize = 4;

/// How a receiver is set up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReceiverOptions {
    /// Only frames to this address; none for all that reach the interface.
    pub destination: Option<[u8; 6]>,
    /// Makes TAI of the stamps, which arrive in UTC.
    pub tai_minus_utc: Nanos,
    /// Whether the kernel shall say when each frame arrived.
    pub stamps: bool,
    /// Receive buffer in bytes; 0 leaves the system's. A frame takes its length and about 800 bytes more.
    pub buffer_bytes: usize,
    /// How long the kernel polls the driver before it sleeps, in microseconds; 0 leaves the system's. Needs
    /// `CAP_NET_ADMIN` and a driver that can.
    pub busy_poll_us: u32,
}

/// The 802.1Q tag a frame carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tag {
    /// VLAN identifier; 0 for a tag that has a priority only.
    pub vid: u16,
    /// Priority code point.
    pub pcp: u8,
    /// Drop eligible.
    pub dei: bool,
}

impl Tag {
    /// From tag control information (802.1Q-2022 §9.6).
    #[inline]
    const fn new(tci: u16) -> Self {
        Self { vid: tci & 0x0FFF, pcp: (tci >> 13) as u8, dei: tci & 0x1000 != 0 }
    }
}

/// A frame as it was received; borrowed from the receiver until the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received<'a> {
    /// From the destination address on. The tag has been taken out, unless the frame had two.
    pub frame: &'a [u8],
    /// What follows the EtherType 0xB62C; on a real line padded with zero bytes to 46.
    pub uadp: &'a [u8],
    /// The tag, when there was one.
    pub tag: Option<Tag>,
    /// When the kernel got it; none without stamps, and for the first frames after opening (about 50 ms).
    pub stamp: Option<Tai>,
}

/// A socket that sees the UADP frames arriving at an interface, of any VID and PCP, and none that this host sends.
///
/// It sees frames before bridges and VLAN sub-devices take them. The interface is promiscuous as long as the
/// receiver lives: otherwise a network card may drop frames of VIDs nobody has configured.
#[derive(Debug)]
pub struct Receiver {
    socket: PacketSocket,
    tai_minus_utc: Nanos,
    buffer: Box<[u8]>,
    control: ControlBuffer,
    drops: AtomicU64,
}

impl Receiver {
    /// Opens a receiver on an interface of the calling thread's network namespace.
    ///
    /// # Errors
    /// No such interface, interface down, or a right is missing: `CAP_NET_RAW`, for busy polling `CAP_NET_ADMIN`.
    pub fn open(interface: &str, options: ReceiverOptions) -> Result<Self, LinkError> {
        let socket = PacketSocket::open(interface)?;
        attach_filter(&socket, options.destination)?;
        // The tag is out of the frame when it gets here; this message has it.
        socket.set(libc::SOL_PACKET, libc::PACKET_AUXDATA, &1_i32, "PACKET_AUXDATA", CAP_NET_RAW)?;
        // Spares the copy of outgoing frames. Kernels before 4.20 do not know it; the filter drops them anyway.
        _ = socket.set(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1_i32, "PACKET_IGNORE_OUTGOING", CAP_NET_RAW);
        if options.stamps {
            let flags = libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
            socket.set(libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &flags, "SO_TIMESTAMPING", CAP_NET_RAW)?;
        }
        if options.buffer_bytes > 0 {
            socket.set_receive_buffer(options.buffer_bytes)?;
        }
        if options.busy_poll_us > 0 {
            let micros = libc::c_int::try_from(options.busy_poll_us).unwrap_or(libc::c_int::MAX);
            socket.set(libc::SOL_SOCKET, libc::SO_BUSY_POLL, &micros, "SO_BUSY_POLL", CAP_NET_ADMIN)?;
        }
        let membership = libc::packet_mreq {
            mr_ifindex: socket.index,
            mr_type: libc::PACKET_MR_PROMISC as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        socket.set(libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership, "PACKET_ADD_MEMBERSHIP", CAP_NET_RAW)?;
        // All protocols: a socket for 0xB62C alone would be served after the tag is forgotten.
        socket.bind(libc::ETH_P_ALL as u16)?;
        Ok(Self {
            socket,
            tai_minus_utc: options.tai_minus_utc,
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            control: ControlBuffer::new(),
            drops: AtomicU64::new(0),
        })
    }

    /// Takes the oldest frame that has arrived; none when there is none. Never waits, allocates nothing.
    ///
    /// # Errors
    /// The socket's; `ENETDOWN` once when the interface goes down (frames arrive again when it is back).
    #[inline]
    pub fn receive(&mut self) -> io::Result<Option<Received<'_>>> {
        let Some(message) = receive_message(&self.socket.fd, &mut self.buffer, &mut self.control, 0)? else {
            return Ok(None);
        };
        let (mut tag, mut stamp) = (None, None);
        for control in messages(&self.control.0[..message.control_bytes]) {
            if let Some((ETHERTYPE_VLAN, tci)) = control.stripped_tag() {
                tag = Some(Tag::new(tci));
            } else if let Some(utc) = control.software_stamp() {
                stamp = Some(Tai(utc) + self.tai_minus_utc);
            }
        }
        let frame = &self.buffer[..message.bytes];
        let (inner_tag, uadp) = split(frame);
        Ok(Some(Received { frame, uadp, tag: tag.or(inner_tag), stamp }))
    }

    /// Waits until a frame is there, at most for `timeout`; returns whether one is. A signal ends the wait early.
    ///
    /// # Errors
    /// As [`Self::receive`].
    pub fn wait(&self, timeout: Nanos) -> io::Result<bool> {
        let timeout = Duration::from_nanos(timeout.0.max(0).cast_unsigned());
        Ok(wait(&self.socket.fd, PollFlags::POLLIN, timeout)? == Ready::Input)
    }

    /// How many frames found no room in the receive buffer since opening.
    ///
    /// # Errors
    /// The kernel's.
    pub fn drops(&self) -> io::Result<u64> {
        let mut statistics = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let mut bytes = size_of::<libc::tpacket_stats>() as libc::socklen_t;
        // SAFETY: the kernel writes at most `bytes` bytes into `statistics`, two integers, and the length into `bytes`.
        let result = unsafe {
            libc::getsockopt(
                self.socket.fd.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut statistics).cast(),
                &raw mut bytes,
            )
        };
        Errno::result(result)?;
        // Reading sets the kernel's counters back to 0.
        let new = u64::from(statistics.tp_drops);
        Ok(self.drops.fetch_add(new, Ordering::Relaxed) + new)
    }
}

/// For `poll` and for comparisons with the [bare calls](crate::bare).
impl AsFd for Receiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.fd.as_fd()
    }
}

fn attach_filter(socket: &PacketSocket, destination: Option<[u8; 6]>) -> Result<(), LinkError> {
    let mut program = filter::uadp(destination);
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    socket.set(libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program, "SO_ATTACH_FILTER", CAP_NET_RAW)
}

/// A tag that is still in the frame, and what follows the EtherType.
#[inline]
fn split(frame: &[u8]) -> (Option<Tag>, &[u8]) {
    if frame.get(12..14) != Some(&ETHERTYPE_VLAN.to_be_bytes()) {
        return (None, frame.get(HEADER_BYTES..).unwrap_or_default());
    }
    let tag = frame.get(14..16).map(|tci| Tag::new(u16::from_be_bytes([tci[0], tci[1]])));
    (tag, frame.get(HEADER_BYTES + TAG_BYTES..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_taken_apart() {
        assert_eq!(Tag::new(0xEBB8), Tag { vid: 3000, pcp: 7, dei: false });
        assert_eq!(Tag::new(0x1000), Tag { vid: 0, pcp: 0, dei: true });
        assert_eq!(Tag::new(0x3FFF), Tag { vid: 4095, pcp: 1, dei: true });
    }

    #[test]
    fn short_frames_have_no_content() {
        let mut frame = [0_u8; 20];
        frame[12..14].copy_from_slice(&[0x81, 0x00]);
        frame[14..18].copy_from_slice(&[0xEB, 0xB8, 0xB6, 0x2C]);
        assert_eq!(split(&frame), (Some(Tag { vid: 3000, pcp: 7, dei: false }), &frame[18..]));
        for length in 0..18 {
            assert_eq!(split(&frame[..length]).1, [0_u8; 0], "{length}");
        }
        frame[12..14].copy_from_slice(&[0xB6, 0x2C]);
        assert_eq!(split(&frame), (None, &frame[14..]));
    }
}
