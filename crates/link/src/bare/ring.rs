//! The bare receive ring: the status word, the frame, and giving the slot back.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::ETHERTYPE_UADP;
use crate::error::LinkError;
use crate::ring::{RingMemory, Slot};
use crate::socket::PacketSocket;

/// The least there is for reading UADP frames out of a `PACKET_RX_RING`: no tag, no stamp, no look at the length.
#[derive(Debug)]
pub struct Ring {
    slot: NonNull<Slot>,
    memory: RingMemory,
    fd: OwnedFd,
}

// SAFETY: the pointer leads into `memory`, which may be sent; it is used through `&mut self` alone.
unsafe impl Send for Ring {}

impl Ring {
    /// Opens a socket that gets the UADP frames of an interface, with a ring of about `buffer_bytes`; 0 for 512 KiB.
    ///
    /// # Errors
    /// As [`Receiver::open`](crate::Receiver::open) with a ring.
    pub fn open(interface: &str, buffer_bytes: usize) -> Result<Self, LinkError> {
        let socket = PacketSocket::open(interface)?;
        let memory = RingMemory::new(&socket, interface, buffer_bytes)?;
        socket.bind(ETHERTYPE_UADP)?;
        Ok(Self { slot: memory.first(), memory, fd: socket.fd })
    }

    /// The frame that has arrived, if one has: from the destination address on, without its tag. It stays until
    /// [`Self::release`].
    #[inline]
    pub fn frame(&mut self) -> Option<&[u8]> {
        let slot = self.slot.as_ptr();
        if self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: the kernel has filled the slot and leaves it alone until it is given back, which takes `&mut self`.
        unsafe {
            let start = slot.cast::<u8>().add((*slot).tp_mac.into());
            Some(std::slice::from_raw_parts(start, (*slot).tp_snaplen as usize))
        }
    }

    /// Gives the slot of that frame back and goes on to the next. Only after [`Self::frame`] has found one.
    #[inline]
    pub fn release(&mut self) {
        self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.slot = self.memory.after(self.slot);
    }

    #[inline]
    fn status(&self) -> &AtomicU32 {
        // SAFETY: aligned, mapped as long as `self`, and only ever reached atomically, here and by the kernel.
        unsafe { AtomicU32::from_ptr(self.slot.as_ptr().cast()) }
    }
}

/// For `poll`.
impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
