//! Ends written by hand: what someone would write who knows the offsets, and nothing else.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use link::bare::Ring;
use link::{Sender, SenderOptions};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::socket::{MsgFlags, recv, setsockopt, sockopt::ReceiveTimeout};
use nix::sys::time::{TimeSpec, TimeVal};
use pubsub::{Endpoint, EndpointConfig, NetworkMessageLayout, Role};
use rt::clock::{now, tai_minus_utc};
use units::Nanos;

use super::super::{hand, streams};
use super::Ids;
use super::drive::End;

const FRAME_ROOM_BYTES: usize = 2048;
/// Room for some hundreds of frames.
const BUFFER_BYTES: usize = 1 << 20;
/// Ethernet header of a received frame: the kernel has taken the tag out.
const HEADER_BYTES: usize = 14;
/// How long a blocking `recv` waits.
const GLANCE: TimeVal = TimeVal::new(0, 50_000);

/// A finished frame of these ids.
pub(super) fn frame(ids: (u16, u16), fields: u16) -> Result<Vec<u8>, String> {
    let write = Some((NetworkMessageLayout::papers(ids.0, ids.1, fields), Some(streams::HEADER)));
    let mut source = Endpoint::new(EndpointConfig { role: Role::Source, write, read: None, variables: fields })
        .map_err(|error| error.to_string())?;
    source.application(1);
    source.publish(0).map(|outgoing| outgoing.frame.to_vec()).ok_or_else(|| "nothing to publish".to_owned())
}

/// The two halves that do not care how frames come in.
struct Halves {
    reader: hand::Reader,
    writer: hand::Writer,
    sender: Sender,
    tai_minus_utc: Nanos,
    /// What is published: a counter, or what was read last.
    next: Option<u64>,
}

impl Halves {
    fn open(interface: &str, ids: Ids, fields: u16) -> Result<Self, String> {
        let sender = Sender::open(interface, SenderOptions { priority: 3, ..SenderOptions::default() });
        Ok(Self {
            reader: hand::Reader::new(&frame(ids.reads, fields)?, fields),
            writer: hand::Writer::new(&frame(ids.writes, fields)?, fields),
            sender: sender.map_err(|error| error.to_string())?,
            tai_minus_utc: tai_minus_utc(),
            next: None,
        })
    }

    #[inline]
    fn build(&mut self) -> &[u8] {
        let ticks = now().to_date_time(self.tai_minus_utc);
        match self.next {
            Some(counter) => self.writer.build(counter, ticks),
            None => {
                let (running, values) = self.reader.newest();
                self.writer.build_values(running, values, ticks)
            }
        }
    }

    #[inline]
    fn send(&self, frame: &[u8]) -> Result<(), String> {
        match link::bare::send(self.sender.as_fd(), frame) {
            Ok(_) => Ok(()),
            Err(error) => Err(format!("send: {error}")),
        }
    }

    #[inline]
    fn publish_now(&mut self) -> Result<(), String> {
        self.build();
        self.send(self.writer.frame())
    }
}

/// Waits for a frame, at most so long.
fn wait(fd: BorrowedFd<'_>, timeout: Nanos) -> Result<(), String> {
    let timeout = timeout.0.max(0);
    let timeout = TimeSpec::new(timeout / 1_000_000_000, timeout % 1_000_000_000);
    match ppoll(&mut [PollFd::new(fd, PollFlags::POLLIN)], Some(timeout), None) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(errno) => Err(format!("ppoll: {}", errno.desc())),
    }
}

/// With `recv`.
pub(super) struct RecvLoop {
    halves: Halves,
    socket: OwnedFd,
    buffer: [u8; FRAME_ROOM_BYTES],
    /// Bytes of a frame that came while nothing but a frame was waited for.
    ready: Option<usize>,
}

impl RecvLoop {
    pub(super) fn open(interface: &str, ids: Ids, fields: u16) -> Result<Self, String> {
        let socket = link::bare::receiver(interface, BUFFER_BYTES).map_err(|error| error.to_string())?;
        setsockopt(&socket, ReceiveTimeout, &GLANCE).map_err(|errno| format!("SO_RCVTIMEO: {}", errno.desc()))?;
        let halves = Halves::open(interface, ids, fields)?;
        Ok(Self { halves, socket, buffer: [0; FRAME_ROOM_BYTES], ready: None })
    }
}

impl End for RecvLoop {
    #[inline]
    fn read(&mut self) -> Result<Option<u64>, String> {
        let bytes = match self.ready.take() {
            Some(bytes) => bytes,
            None => match recv(self.socket.as_raw_fd(), &mut self.buffer, MsgFlags::MSG_DONTWAIT) {
                Ok(bytes) => bytes,
                Err(Errno::EAGAIN) => return Ok(None),
                Err(errno) => return Err(format!("recv: {}", errno.desc())),
            },
        };
        let values = self.buffer.get(HEADER_BYTES..bytes).and_then(|uadp| self.halves.reader.take_apart(uadp));
        Ok(values.and_then(|values| values.last().copied()))
    }

    fn wait(&mut self, timeout: Nanos) -> Result<(), String> {
        wait(self.socket.as_fd(), timeout)
    }

    #[inline]
    fn wait_long(&mut self) -> Result<(), String> {
        if self.ready.is_none() {
            match link::bare::recv(self.socket.as_fd(), &mut self.buffer) {
                Ok(bytes) => self.ready = Some(bytes),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(format!("recv: {error}")),
            }
        }
        Ok(())
    }

    fn application(&mut self, counter: Option<u64>) {
        self.halves.next = counter;
    }

    fn publish(&mut self) -> Result<(), String> {
        self.halves.build();
        Ok(())
    }

    fn launch(&mut self) -> Result<(), String> {
        self.halves.send(self.halves.writer.frame())
    }

    #[inline]
    fn publish_now(&mut self) -> Result<(), String> {
        self.halves.publish_now()
    }
}

/// With a receive ring.
pub(super) struct RingLoop {
    halves: Halves,
    ring: Ring,
}

impl RingLoop {
    pub(super) fn open(interface: &str, ids: Ids, fields: u16) -> Result<Self, String> {
        let ring = Ring::open(interface, BUFFER_BYTES).map_err(|error| error.to_string())?;
        Ok(Self { halves: Halves::open(interface, ids, fields)?, ring })
    }
}

impl End for RingLoop {
    #[inline]
    fn read(&mut self) -> Result<Option<u64>, String> {
        let Some(frame) = self.ring.frame() else { return Ok(None) };
        let values = frame.get(HEADER_BYTES..).and_then(|uadp| self.halves.reader.take_apart(uadp));
        let last = values.and_then(|values| values.last().copied());
        self.ring.release();
        Ok(last)
    }

    fn wait(&mut self, timeout: Nanos) -> Result<(), String> {
        wait(self.ring.as_fd(), timeout)
    }

    fn application(&mut self, counter: Option<u64>) {
        self.halves.next = counter;
    }

    fn publish(&mut self) -> Result<(), String> {
        self.halves.build();
        Ok(())
    }

    fn launch(&mut self) -> Result<(), String> {
        self.halves.send(self.halves.writer.frame())
    }

    #[inline]
    fn publish_now(&mut self) -> Result<(), String> {
        self.halves.publish_now()
    }
}

/// No frames: what is left of the cycle is the waiting, which nobody can do better.
pub(super) struct Nothing;

impl End for Nothing {
    fn read(&mut self) -> Result<Option<u64>, String> {
        Ok(None)
    }

    fn wait(&mut self, timeout: Nanos) -> Result<(), String> {
        rt::clock::sleep_through(now() + timeout);
        Ok(())
    }

    fn application(&mut self, _counter: Option<u64>) {}

    fn publish(&mut self) -> Result<(), String> {
        Ok(())
    }

    fn launch(&mut self) -> Result<(), String> {
        Ok(())
    }
}
