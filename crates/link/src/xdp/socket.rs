//! The AF_XDP sockets: setting up, binding, waking the kernel.

use std::ffi::c_int;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use nix::errno::Errno;

use super::memory::{CHUNK_BYTES, FrameMemory, Mapping};
use super::rings::{Consumer, Entry, Layout, Producer, SharedConsumer};
use crate::error::{InterfaceName, LinkError};
use crate::socket::{CAP_NET_ADMIN, CAP_NET_RAW};

/// `struct xsk_tx_metadata` up to its launch time: flags, checksum places or completion stamp, launch time.
pub(super) const METADATA_BYTES: usize = 24;

/// One AF_XDP socket.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) fd: OwnedFd,
    pub(super) interface: InterfaceName,
    index: u32,
}

/// The rings of the socket that owns the memory.
#[derive(Debug)]
pub(super) struct MemoryRings {
    /// Chunks for frames to come.
    pub(super) free: Producer<u64>,
    /// Chunks whose frames have left.
    pub(super) completed: SharedConsumer,
}

impl Socket {
    pub(super) fn open(interface: InterfaceName, index: u32) -> Result<Self, LinkError> {
        // SAFETY: takes no pointers.
        let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        let fd = Errno::result(fd).map_err(|errno| match errno {
            Errno::EAFNOSUPPORT => LinkError::Unsupported {
                interface,
                what: "AF_XDP",
                mend: "its kernel is built without CONFIG_XDP_SOCKETS; use a packet socket",
            },
            errno => LinkError::of(errno, "opening an AF_XDP socket", CAP_NET_RAW, interface),
        })?;
        // SAFETY: the kernel has just made this descriptor for us; nobody else owns it.
        Ok(Self { fd: unsafe { OwnedFd::from_raw_fd(fd) }, interface, index })
    }

    fn set<T: Copy>(&self, level: c_int, option: c_int, value: &T) -> Result<(), Errno> {
        // SAFETY: the kernel reads `size_of::<T>()` bytes of a live value: integers, or a structure without padding
        // whose one address, of frame memory, is registered and kept alive by both ends.
        let result = unsafe {
            libc::setsockopt(
                self.fd.as_raw_fd(),
                level,
                option,
                std::ptr::from_ref(value).cast(),
                size_of::<T>() as libc::socklen_t,
            )
        };
        Errno::result(result).map(drop)
    }

    /// Fills in `value` as far as this kernel knows it.
    pub(super) fn get<T: Copy>(&self, option: c_int, mut value: T) -> Result<T, Errno> {
        let mut bytes = size_of::<T>() as libc::socklen_t;
        // SAFETY: the kernel writes at most `bytes` bytes into a live structure of integers, and the length.
        let result = unsafe {
            libc::getsockopt(self.fd.as_raw_fd(), libc::SOL_XDP, option, (&raw mut value).cast(), &raw mut bytes)
        };
        Errno::result(result).map(|_| value)
    }

    fn error(&self, call: &'static str) -> impl Fn(Errno) -> LinkError {
        let interface = self.interface;
        move |errno| LinkError::of(errno, call, CAP_NET_RAW, interface)
    }

    /// Gives the kernel the frame memory; returns whether it takes metadata with frames to be sent.
    pub(super) fn register(&self, memory: &FrameMemory) -> Result<bool, LinkError> {
        let bytes = memory.mapping.bytes();
        let plain = libc::xdp_umem_reg {
            addr: memory.mapping.address(),
            len: bytes as u64,
            chunk_size: CHUNK_BYTES as u32,
            headroom: 0,
            flags: 0,
            tx_metadata_len: 0,
        };
        let with_metadata = libc::xdp_umem_reg {
            flags: libc::XDP_UMEM_TX_METADATA_LEN,
            tx_metadata_len: METADATA_BYTES as u32,
            ..plain
        };
        let register = |registration| self.set(libc::SOL_XDP, libc::XDP_UMEM_REG, &registration);
        match register(with_metadata) {
            Ok(()) => Ok(true),
            // Kernels before 6.8 do not know the flag.
            Err(Errno::EINVAL) => register(plain).map(|()| false),
            Err(errno) => Err(errno),
        }
        .map_err(|errno| match errno {
            Errno::ENOBUFS => LinkError::LockedMemory { bytes },
            errno => LinkError::of(errno, "XDP_UMEM_REG", CAP_NET_RAW, self.interface),
        })
    }

    /// Asks the kernel to poll the driver; whether it does.
    pub(super) fn busy_poll(&self, micros: u32) -> bool {
        const SO_PREFER_BUSY_POLL: c_int = 69;
        const SO_BUSY_POLL_BUDGET: c_int = 70;
        let micros = c_int::try_from(micros).unwrap_or(c_int::MAX);
        [(SO_PREFER_BUSY_POLL, 1), (libc::SO_BUSY_POLL, micros), (SO_BUSY_POLL_BUDGET, 64)]
            .iter()
            .all(|(option, value)| self.set(libc::SOL_SOCKET, *option, value).is_ok())
    }

    fn size(&self, option: c_int, count: u32, call: &'static str) -> Result<(), LinkError> {
        self.set(libc::SOL_XDP, option, &count).map_err(self.error(call))
    }

    fn offsets(&self) -> Result<libc::xdp_mmap_offsets, LinkError> {
        let empty = || libc::xdp_ring_offset { producer: 0, consumer: 0, desc: 0, flags: 0 };
        let none = libc::xdp_mmap_offsets { rx: empty(), tx: empty(), fr: empty(), cr: empty() };
        self.get(libc::XDP_MMAP_OFFSETS, none).map_err(self.error("XDP_MMAP_OFFSETS"))
    }

    fn map<T>(&self, page: i64, at: libc::xdp_ring_offset, count: u32) -> Result<(Arc<Mapping>, Layout), LinkError> {
        let bytes = at.desc as usize + count as usize * size_of::<T>();
        let mapping = Mapping::of(self.fd.as_fd(), page, bytes).map_err(self.error("mapping an AF_XDP ring"))?;
        let layout = Layout {
            producer: at.producer as usize,
            consumer: at.consumer as usize,
            flags: at.flags as usize,
            entries: at.desc as usize,
            count,
        };
        Ok((Arc::new(mapping), layout))
    }

    fn producer<T: Entry>(&self, page: i64, at: libc::xdp_ring_offset, count: u32) -> Result<Producer<T>, LinkError> {
        let (mapping, layout) = self.map::<T>(page, at, count)?;
        Producer::new(mapping, layout).ok_or_else(|| self.error("reading XDP_MMAP_OFFSETS")(Errno::EPROTO))
    }

    fn consumer<T: Entry>(&self, page: i64, at: libc::xdp_ring_offset, count: u32) -> Result<Consumer<T>, LinkError> {
        let (mapping, layout) = self.map::<T>(page, at, count)?;
        Consumer::new(mapping, layout).ok_or_else(|| self.error("reading XDP_MMAP_OFFSETS")(Errno::EPROTO))
    }

    /// The rings of the socket that owns the memory, with room for so many chunks, powers of two.
    pub(super) fn memory_rings(&self, receive_chunks: u32, send_chunks: u32) -> Result<MemoryRings, LinkError> {
        self.size(libc::XDP_UMEM_FILL_RING, receive_chunks, "XDP_UMEM_FILL_RING")?;
        self.size(libc::XDP_UMEM_COMPLETION_RING, send_chunks, "XDP_UMEM_COMPLETION_RING")?;
        let offsets = self.offsets()?;
        let page = libc::XDP_UMEM_PGOFF_COMPLETION_RING.cast_signed();
        let (mapping, layout) = self.map::<u64>(page, offsets.cr, send_chunks)?;
        let completed = SharedConsumer::new(mapping, layout)
            .ok_or_else(|| self.error("reading XDP_MMAP_OFFSETS")(Errno::EPROTO))?;
        let page = libc::XDP_UMEM_PGOFF_FILL_RING.cast_signed();
        Ok(MemoryRings { free: self.producer(page, offsets.fr, receive_chunks)?, completed })
    }

    /// The ring of a receiving socket.
    pub(super) fn receiving_ring(&self, chunks: u32) -> Result<Consumer<libc::xdp_desc>, LinkError> {
        self.size(libc::XDP_RX_RING, chunks, "XDP_RX_RING")?;
        self.consumer(libc::XDP_PGOFF_RX_RING, self.offsets()?.rx, chunks)
    }

    /// The ring of the sending socket.
    pub(super) fn sending_ring(&self, send_chunks: u32) -> Result<Producer<libc::xdp_desc>, LinkError> {
        self.size(libc::XDP_TX_RING, send_chunks, "XDP_TX_RING")?;
        self.producer(libc::XDP_PGOFF_TX_RING, self.offsets()?.tx, send_chunks)
    }

    /// Binds to a queue, with memory of its own or that of another socket of the same queue.
    pub(super) fn bind(&self, queue: u32, flags: u16, memory_of: Option<&Self>) -> Result<(), Errno> {
        let shared = if memory_of.is_some() { libc::XDP_SHARED_UMEM } else { 0 };
        let address = libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            sxdp_flags: flags | shared,
            sxdp_ifindex: self.index,
            sxdp_queue_id: queue,
            sxdp_shared_umem_fd: memory_of.map_or(0, |other| other.fd.as_raw_fd().cast_unsigned()),
        };
        // SAFETY: the kernel reads `address`, which is live and as long as said.
        let result = unsafe {
            libc::bind(
                self.fd.as_raw_fd(),
                (&raw const address).cast(),
                size_of::<libc::sockaddr_xdp>() as libc::socklen_t,
            )
        };
        Errno::result(result).map(drop)
    }

    /// Whether the network card uses our memory itself.
    pub(super) fn is_zero_copy(&self) -> Result<bool, LinkError> {
        let options = self.get(libc::XDP_OPTIONS, libc::xdp_options { flags: 0 }).map_err(self.error("XDP_OPTIONS"))?;
        Ok(options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0)
    }

    /// Has the kernel look at the ring of frames to be sent.
    #[inline]
    pub(super) fn wake_to_send(&self) -> Result<(), Errno> {
        // SAFETY: no address and no data are passed.
        let result =
            unsafe { libc::sendto(self.fd.as_raw_fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT, std::ptr::null(), 0) };
        Errno::result(result).map(drop)
    }

    /// Has the kernel look at the ring of free frames, and at the driver when it polls; fails when the interface is down.
    #[inline]
    pub(super) fn wake_to_receive(&self) -> Result<(), Errno> {
        // SAFETY: no buffer is passed.
        let result = unsafe { libc::recv(self.fd.as_raw_fd(), std::ptr::null_mut(), 0, libc::MSG_DONTWAIT) };
        Errno::result(result).map(drop)
    }

    /// What the kernel has counted.
    pub(super) fn statistics(&self) -> Result<libc::xdp_statistics, Errno> {
        let zero = libc::xdp_statistics {
            rx_dropped: 0,
            rx_invalid_descs: 0,
            tx_invalid_descs: 0,
            rx_ring_full: 0,
            rx_fill_ring_empty_descs: 0,
            tx_ring_empty_descs: 0,
        };
        self.get(libc::XDP_STATISTICS, zero)
    }

    /// What a refused `bind` means.
    pub(super) fn bind_error(&self, errno: Errno, queue: u32) -> LinkError {
        let interface = self.interface;
        match errno {
            Errno::EBUSY => LinkError::QueueTaken { interface, queue },
            Errno::EOPNOTSUPP => LinkError::Unsupported {
                interface,
                what: "AF_XDP without copying",
                mend: "let the kernel copy (`XdpCopy::Auto` or `XdpCopy::Copy`)",
            },
            errno => LinkError::of(errno, "binding an AF_XDP socket", CAP_NET_ADMIN, interface),
        }
    }
}
