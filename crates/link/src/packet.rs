//! Receiving by a system call for each frame.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use nix::poll::PollFlags;
use units::{Nanos, Tai};

use crate::ETHERTYPE_VLAN;
use crate::control::{ControlBuffer, messages};
use crate::error::LinkError;
use crate::frame::{Tag, split};
use crate::receiver::{Received, ReceiverOptions, TagUse};
use crate::socket::{CAP_NET_RAW, PacketSocket, receive_message, receive_plain};
use crate::stampmode::Stamps;
use crate::wait::{Ready, wait};

/// Any frame fits, whatever the MTU: no frame is ever cut.
pub(crate) const LONGEST_FRAME_BYTES: usize = 65_536 + 64;

/// What belongs to receiving by system calls.
#[derive(Debug)]
pub(crate) struct PacketReceiver {
    buffer: Box<[u8]>,
    control: Box<ControlBuffer>,
    reports_tag: bool,
    stamps: Stamps,
    tai_minus_utc: Nanos,
}

impl PacketReceiver {
    /// Sets up what only this way needs on a socket that is not bound yet.
    pub(crate) fn new(socket: &PacketSocket, options: &ReceiverOptions<'_>) -> Result<Self, LinkError> {
        let reports_tag = options.tag == TagUse::Report;
        if reports_tag {
            // The tag is out of the frame when it gets here; this message has it.
            socket.set(libc::SOL_PACKET, libc::PACKET_AUXDATA, &1_i32, "PACKET_AUXDATA", CAP_NET_RAW)?;
        }
        if options.buffer_bytes > 0 {
            socket.set_receive_buffer(options.buffer_bytes)?;
        }
        let buffer = vec![0; LONGEST_FRAME_BYTES].into_boxed_slice();
        let ReceiverOptions { stamps, tai_minus_utc, .. } = *options;
        Ok(Self { buffer, control: Box::new(ControlBuffer::new()), reports_tag, stamps, tai_minus_utc })
    }

    #[inline(always)]
    pub(crate) fn receive(&mut self, fd: &OwnedFd) -> io::Result<Option<Received<'_>>> {
        // Without messages about the frame the cheaper call does. It is inlined down to the call: the kernel's own calls
        // leave the processor without a memory of where to return to, so that each return after it is mispredicted.
        if !self.reports_tag && self.stamps == Stamps::Off {
            let Some(bytes) = receive_plain(fd, &mut self.buffer)? else { return Ok(None) };
            let frame = &self.buffer[..bytes];
            return Ok(Some(Received { frame, uadp: split(frame).1, tag: None, stamp: None }));
        }
        self.receive_with_messages(fd)
    }

    // Not inlined: the other ways are the shorter for it.
    #[inline(never)]
    fn receive_with_messages(&mut self, fd: &OwnedFd) -> io::Result<Option<Received<'_>>> {
        let Some(message) = receive_message(fd, &mut self.buffer, &mut self.control, 0)? else {
            return Ok(None);
        };
        let (mut tag, mut stamp) = (None, None);
        for control in messages(&self.control.0[..message.control_bytes]) {
            if let Some((ETHERTYPE_VLAN, tci)) = control.stripped_tag() {
                tag = Some(Tag::new(tci));
            } else if self.stamps == Stamps::Hardware {
                stamp = control.hardware_stamp().map(Tai).or(stamp);
            } else if let Some(utc) = control.software_stamp() {
                stamp = Some(Tai(utc) + self.tai_minus_utc);
            }
        }
        let frame = &self.buffer[..message.bytes];
        let (inner_tag, uadp) = split(frame);
        let tag = if self.reports_tag { tag.or(inner_tag) } else { None };
        Ok(Some(Received { frame, uadp, tag, stamp }))
    }

    pub(crate) fn wait(&self, fd: &OwnedFd, timeout: Nanos) -> io::Result<bool> {
        Ok(wait(fd, PollFlags::POLLIN, duration(timeout))? == Ready::Input)
    }
}

/// A span that is over counts as none.
pub(crate) fn duration(timeout: Nanos) -> Duration {
    Duration::from_nanos(timeout.0.max(0).cast_unsigned())
}
