//! A packet socket as a user of open62541 opens one beside its event loop: one EtherType, one interface.

use std::ffi::CString;

use units::Nanos;

const ETHERTYPE_UADP: u16 = 0xB62C;
/// Ethernet header of a received frame: the kernel has taken the tag out.
const HEADER_BYTES: usize = 14;

/// How long [`Socket::wait_long`] waits.
static GLANCE: libc::timeval = libc::timeval { tv_sec: 0, tv_usec: 50_000 };

pub(crate) struct Socket {
    fd: libc::c_int,
    buffer: Box<[u8; 2048]>,
    /// Bytes of a frame that came while nothing but a frame was waited for.
    ready: Option<usize>,
}

impl Socket {
    pub(crate) fn open(interface: &str) -> Result<Self, String> {
        let name = CString::new(interface).map_err(|error| error.to_string())?;
        // SAFETY: plain system calls; `address` lives and is of the length given.
        unsafe {
            let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
            if fd < 0 {
                return Err(format!("packet socket: {}", std::io::Error::last_os_error()));
            }
            let mut address: libc::sockaddr_ll = std::mem::zeroed();
            address.sll_family = libc::AF_PACKET as u16;
            address.sll_protocol = ETHERTYPE_UADP.to_be();
            address.sll_ifindex = libc::if_nametoindex(name.as_ptr()) as i32;
            let bytes = size_of::<libc::sockaddr_ll>() as u32;
            if address.sll_ifindex == 0 || libc::bind(fd, (&raw const address).cast(), bytes) < 0 {
                return Err(format!("{interface}: {}", std::io::Error::last_os_error()));
            }
            let size = size_of::<libc::timeval>() as u32;
            libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_RCVTIMEO, (&raw const GLANCE).cast(), size);
            Ok(Self { fd, buffer: Box::new([0; 2048]), ready: None })
        }
    }

    /// The UADP bytes of the next frame, if one is there.
    pub(crate) fn receive(&mut self) -> Result<Option<&mut [u8]>, String> {
        let bytes = match self.ready.take() {
            Some(bytes) => Some(bytes),
            None => self.next(libc::MSG_DONTWAIT)?,
        };
        Ok(bytes.and_then(|bytes| self.buffer.get_mut(HEADER_BYTES..bytes)))
    }

    fn next(&mut self, flags: libc::c_int) -> Result<Option<usize>, String> {
        // SAFETY: the kernel writes at most the length of a live, exclusively borrowed buffer.
        let bytes = unsafe { libc::recv(self.fd, self.buffer.as_mut_ptr().cast(), self.buffer.len(), flags) };
        match usize::try_from(bytes) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(_) if std::io::Error::last_os_error().kind() == std::io::ErrorKind::WouldBlock => Ok(None),
            Err(_) => Err(format!("recv: {}", std::io::Error::last_os_error())),
        }
    }

    /// Waits for a frame as nobody does faster: in the call that fetches it.
    pub(crate) fn wait_long(&mut self) -> Result<(), String> {
        if self.ready.is_none() {
            self.ready = self.next(0)?;
        }
        Ok(())
    }

    pub(crate) fn send(&self, frame: &[u8]) -> Result<(), String> {
        // SAFETY: the kernel reads the length of a live slice.
        match unsafe { libc::send(self.fd, frame.as_ptr().cast(), frame.len(), 0) } {
            0.. => Ok(()),
            _ => Err(format!("send: {}", std::io::Error::last_os_error())),
        }
    }

    pub(crate) fn wait(&self, timeout: Nanos) {
        let mut poll = libc::pollfd { fd: self.fd, events: libc::POLLIN, revents: 0 };
        let timeout = timeout.0.max(0);
        let timeout = libc::timespec { tv_sec: timeout / 1_000_000_000, tv_nsec: timeout % 1_000_000_000 };
        // SAFETY: both structures live for the call. Its result is of no use: the socket is read next.
        unsafe { libc::ppoll(&raw mut poll, 1, &raw const timeout, std::ptr::null()) };
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // SAFETY: the descriptor is ours alone.
        unsafe { libc::close(self.fd) };
    }
}
