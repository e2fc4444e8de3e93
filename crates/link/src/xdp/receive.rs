//! The receiving end.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::PollFlags;
use units::Nanos;

use super::memory::CHUNK_BYTES;
use super::options::XdpHow;
use super::pool::Pool;
use super::programme::{Filtered, Programme};
use super::rings::Consumer;
use super::socket::Socket;
use super::stamp;
use crate::ETHERTYPE_VLAN;
use crate::frame::Tag;
use crate::receiver::Received;
use crate::socket::PacketSocket;
use crate::stampmode::Stamps;
use crate::wait::{Ready, wait};

const HEADER_BYTES: usize = 14;
const TAG_BYTES: usize = 4;
/// Both addresses, which stand before the tag.
const ADDRESSES_BYTES: usize = 12;

/// Gets the wanted UADP frames of one queue, past the stack. Closing the last one of a port detaches the programme; the
/// frames of one that is closed before go on to the stack.
#[derive(Debug)]
pub struct XdpReceiver {
    /// Which receiver of the port it is, from 0.
    number: u32,
    // Dropped first: as soon as nobody reads, frames go on to the stack again.
    attached: Arc<Attached>,
    socket: Socket,
    arrived: Consumer<libc::xdp_desc>,
    pool: Arc<Pool>,
    /// The chunk that was given out last, as the kernel names it.
    held: Option<u64>,
    /// Chunks to be given back. Never longer than the number of chunks, for which it has room.
    read: Vec<u64>,
    /// From so many on.
    give_back_from: usize,
    /// Whether it has been told that the interface is down.
    told_down: Cell<bool>,
    how: XdpHow,
}

/// What goes when the last receiver of a port does.
#[derive(Debug)]
pub(super) struct Attached {
    pub(super) _link: OwnedFd,
    pub(super) programme: Programme,
    /// Keeps the interface promiscuous.
    pub(super) _promiscuous: PacketSocket,
}

/// Chunks are given back together: the ring they go into is shared, and each turn at it costs two atomic operations.
const TOGETHER: u32 = 16;

impl XdpReceiver {
    pub(super) fn new(
        number: u32,
        (socket, arrived): (Socket, Consumer<libc::xdp_desc>),
        attached: Arc<Attached>,
        pool: Arc<Pool>,
        how: XdpHow,
    ) -> Self {
        Self {
            number,
            attached,
            socket,
            arrived,
            held: None,
            read: Vec::with_capacity(pool.shares.received() as usize),
            give_back_from: (pool.shares.receive_chunks / TOGETHER).clamp(1, TOGETHER) as usize,
            pool,
            told_down: Cell::new(false),
            how,
        }
    }

    /// Takes the oldest frame that has arrived; none when there is none. Never waits, allocates nothing, and while
    /// frames keep coming needs no system call.
    ///
    /// The frame is as a packet socket gives it: a tag is reported in [`Received::tag`] and taken out (the two
    /// addresses are moved up to the EtherType within the chunk).
    ///
    /// # Errors
    /// The socket's. Without busy polling an interface that goes down is told by [`Self::wait`] only.
    #[inline]
    pub fn receive(&mut self) -> io::Result<Option<Received<'_>>> {
        if let Some(chunk) = self.held.take() {
            if self.read.len() < self.read.capacity() {
                self.read.push(chunk);
            }
            if self.read.len() >= self.give_back_from {
                self.pool.give_back(&mut self.read);
            }
        }
        let descriptor = match self.arrived.pop() {
            Some(descriptor) => descriptor,
            None => {
                if !self.read.is_empty() {
                    self.pool.give_back(&mut self.read);
                }
                if !self.how.busy_poll && !self.pool.needs_wakeup() {
                    return Ok(None);
                }
                self.wake()?;
                let Some(descriptor) = self.arrived.pop() else { return Ok(None) };
                descriptor
            }
        };
        let (offset, bytes) = (descriptor.addr as usize, descriptor.len as usize);
        let memory = &self.pool.memory;
        let before = offset % CHUNK_BYTES;
        let taken = before.min(stamp::BYTES);
        let start = memory.within_chunk(offset - taken, taken + bytes, |chunk| chunk < memory.receive_chunks);
        let Some(start) = start else {
            return Err(io::Error::other("the kernel delivered a frame outside its memory"));
        };
        self.held = Some(descriptor.addr);
        // SAFETY: within one chunk for receiving, which the kernel has handed to this socket and gets back through `held`;
        // the slice ends with the borrow of `self`, before that. Every byte was written: the memory began zeroed.
        let chunk = unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), taken + bytes) };
        let (before, frame) = chunk.split_at_mut(taken);
        let stamp = before.first_chunk().filter(|_| self.how.receive_stamps != Stamps::Off).and_then(stamp::read);
        // The next frame in this chunk may come without one.
        before.fill(0);
        let (tag, frame) = take_tag(frame);
        Ok(Some(Received { frame, uadp: frame.get(HEADER_BYTES..).unwrap_or_default(), tag, stamp }))
    }

    /// Waits until a frame is there, at most for `timeout`; returns whether one is. A signal ends the wait early.
    ///
    /// # Errors
    /// The socket's; `ENETDOWN` once when the interface was down at the end of a wait (frames arrive again when it is
    /// back), `ENXIO` when it has gone.
    pub fn wait(&self, timeout: Nanos) -> io::Result<bool> {
        if !self.arrived.is_empty() {
            return Ok(true);
        }
        let timeout = Duration::from_nanos(timeout.0.max(0).cast_unsigned());
        if wait(&self.socket.fd, PollFlags::POLLIN, timeout)? == Ready::Input {
            return Ok(true);
        }
        self.wake()?;
        Ok(!self.arrived.is_empty())
    }

    /// Has the kernel look for free chunks and frames.
    fn wake(&self) -> io::Result<()> {
        match self.socket.wake_to_receive() {
            Err(Errno::ENETDOWN) if self.told_down.replace(true) => Ok(()),
            Err(errno @ (Errno::ENETDOWN | Errno::ENXIO)) => Err(errno.into()),
            // Others say only that there was nothing to do; kernels before 5.11 do not know the call.
            _ => {
                self.told_down.set(false);
                Ok(())
            }
        }
    }

    /// How many frames wanted by this receiver were lost since opening because the ones before had not been received in time.
    ///
    /// # Errors
    /// The kernel's.
    pub fn drops(&self) -> io::Result<u64> {
        let statistics = self.socket.statistics()?;
        Ok(statistics.rx_dropped + statistics.rx_ring_full)
    }

    /// What the programme of the port has seen since opening.
    ///
    /// # Errors
    /// The kernel's.
    pub fn filtered(&self) -> io::Result<Filtered> {
        Ok(self.attached.programme.filtered()?)
    }

    /// What the port got.
    pub const fn how(&self) -> XdpHow {
        self.how
    }
}

impl Drop for XdpReceiver {
    fn drop(&mut self) {
        // The rings of the memory, which the others use, may keep the socket alive.
        self.attached.programme.disconnect(self.number);
    }
}

/// For `poll`.
impl AsFd for XdpReceiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.fd.as_fd()
    }
}

/// Takes the tag out of a frame that has one.
#[inline]
fn take_tag(frame: &mut [u8]) -> (Option<Tag>, &[u8]) {
    let Some([t0, t1, c0, c1]) = frame.get(ADDRESSES_BYTES..).and_then(|rest| rest.first_chunk::<TAG_BYTES>()) else {
        return (None, frame);
    };
    if u16::from_be_bytes([*t0, *t1]) != ETHERTYPE_VLAN {
        return (None, frame);
    }
    let tag = Tag::new(u16::from_be_bytes([*c0, *c1]));
    frame.copy_within(..ADDRESSES_BYTES, TAG_BYTES);
    (Some(tag), &frame[TAG_BYTES..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_is_cut_out() {
        let mut frame: Vec<u8> = (0..12).chain([0x81, 0x00, 0xFB, 0xB8, 0xB6, 0x2C, 0xAA]).collect();
        let plain: Vec<u8> = (0..12).chain([0xB6, 0x2C, 0xAA]).collect();
        let tag = Tag { vid: 3000, pcp: 7, dei: true };
        assert_eq!(take_tag(&mut frame), (Some(tag), &plain[..]));
        assert_eq!(take_tag(&mut plain.clone()), (None, &plain[..]));
        for bytes in 0..16 {
            let mut short: Vec<u8> = (0..12).chain([0x81, 0x00, 0xFB, 0xB8]).take(bytes).collect();
            let whole = short.clone();
            assert_eq!(take_tag(&mut short), (None, &whole[..]), "{bytes}");
        }
    }
}
