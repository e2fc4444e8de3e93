//! The events of one channel, read by a thread that must not allocate.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::{TimeSpec, TimeValLike};
use units::Nanos;

use super::{Ahead, HardwareClock, Tick, abi, offset};
use crate::clock::monotonic;
use crate::events::Events;

/// Events that one system call takes.
const BATCH: usize = 8;

/// The queue of events of one descriptor of a hardware clock.
///
/// Since Linux 6.7 every descriptor has a queue of its own, for the channels that it asks for; before, all that read
/// from a clock shared one, and each event went to one of them ([`Self::is_apart`]).
#[derive(Debug)]
pub struct EventQueue {
    file: File,
    apart: bool,
    bytes: [u8; BATCH * Tick::BYTES],
    /// What of `bytes` was read and not yet given out.
    from: usize,
    to: usize,
}

impl EventQueue {
    /// Opens `/dev/ptpN` anew, for the events of a channel of external timestamps. It does not begin to stamp:
    /// [`HardwareClock::external_timestamps`] does, of whichever descriptor.
    ///
    /// # Errors
    /// As for [`HardwareClock::open`].
    pub fn open(path: &Path, channel: u32) -> io::Result<Self> {
        let HardwareClock { file, .. } = HardwareClock::open(path)?;
        // SAFETY: the first takes no argument, the second reads one number.
        let masked = unsafe {
            abi::mask_clear_all(file.as_raw_fd()).and_then(|_| abi::mask_enable(file.as_raw_fd(), &raw const channel))
        };
        Ok(Self::of(file, masked.is_ok()))
    }

    fn of(file: File, apart: bool) -> Self {
        Self { file, apart, bytes: [0; BATCH * Tick::BYTES], from: 0, to: 0 }
    }

    /// Whether nobody else takes events out of this queue.
    pub const fn is_apart(&self) -> bool {
        self.apart
    }

    fn pop(&mut self) -> Option<[u8; Tick::BYTES]> {
        let next = self.from + Tick::BYTES;
        let event = self.bytes.get(self.from..next).filter(|_| next <= self.to)?;
        let event = event.try_into().ok();
        self.from = next;
        event
    }
}

impl Events for EventQueue {
    fn next(&mut self, patience: Nanos) -> io::Result<Option<Tick>> {
        let invalid = || io::Error::from(io::ErrorKind::InvalidData);
        if let Some(event) = self.pop() {
            return Tick::from_bytes(&event).map(Some).ok_or_else(invalid);
        }
        let until = monotonic() + patience;
        loop {
            let left = (until - monotonic()).max(Nanos::ZERO);
            let mut files = [PollFd::new(self.file.as_fd(), PollFlags::POLLIN)];
            match ppoll(&mut files, Some(TimeSpec::nanoseconds(left.0)), None) {
                Ok(0) if left == Nanos::ZERO => return Ok(None),
                Ok(0) | Err(Errno::EINTR) => continue,
                Ok(_) => {}
                Err(errno) => return Err(errno.into()),
            }
            // A device that has gone is readable, and reading it is the error.
            let read = self.file.read(&mut self.bytes)?;
            if read == 0 || !read.is_multiple_of(Tick::BYTES) {
                return Err(invalid());
            }
            (self.from, self.to) = (0, read);
            return match self.pop() {
                Some(event) => Tick::from_bytes(&event).map(Some).ok_or_else(invalid),
                None => Err(invalid()),
            };
        }
    }

    fn ahead(&mut self) -> io::Result<Ahead> {
        offset::ahead(self.file.as_raw_fd())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::Duration;

    use units::Tai;

    use super::*;

    fn event(nanos: u32, index: u32) -> [u8; Tick::BYTES] {
        let mut bytes = [0; Tick::BYTES];
        bytes[..8].copy_from_slice(&5_i64.to_ne_bytes());
        bytes[8..12].copy_from_slice(&nanos.to_ne_bytes());
        bytes[16..20].copy_from_slice(&index.to_ne_bytes());
        bytes
    }

    /// A pipe that gives what a device would give.
    fn queue() -> (EventQueue, File) {
        let (read, write) = nix::unistd::pipe().unwrap();
        (EventQueue::of(read.into(), true), write.into())
    }

    #[test]
    fn events_come_in_order_however_many_a_call_brings() {
        let (mut queue, mut device) = queue();
        // More than a batch, and of two channels.
        let all: Vec<u8> = (0..11).flat_map(|number| event(number, number % 2)).collect();
        device.write_all(&all).unwrap();
        for number in 0..11 {
            let tick = queue.next(Nanos::ZERO).unwrap().unwrap();
            assert_eq!(tick, Tick { at: Tai(5_000_000_000 + i64::from(number)), index: number % 2 });
        }
        assert_eq!(queue.next(Nanos::ZERO).unwrap(), None);
    }

    #[test]
    fn it_waits_as_long_as_it_may_and_wakes_when_one_comes() {
        let (mut queue, mut device) = queue();
        let began = monotonic();
        assert_eq!(queue.next(Nanos(1_234_567)).unwrap(), None);
        assert!(monotonic() - began >= Nanos(1_234_567));
        let writer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(5));
            device.write_all(&event(7, 0)).unwrap();
            device
        });
        assert_eq!(queue.next(Nanos::from_millis(60_000)).unwrap().map(|tick| tick.at), Some(Tai(5_000_000_007)));
        drop(writer.join().unwrap());
        // A device that is gone.
        assert_eq!(queue.next(Nanos::from_millis(60_000)).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn what_is_no_event_is_an_error_and_the_next_is_read() {
        let (mut queue, mut device) = queue();
        device.write_all(&[event(1_000_000_000, 0), event(9, 0)].concat()).unwrap();
        assert!(queue.next(Nanos::ZERO).is_err());
        assert_eq!(queue.next(Nanos::ZERO).unwrap().map(|tick| tick.at), Some(Tai(5_000_000_009)));
        device.write_all(&[0; 33]).unwrap();
        assert!(queue.next(Nanos::ZERO).is_err());
        assert!(queue.ahead().is_err(), "a pipe is no clock");
        assert!(EventQueue::open(Path::new("/dev/null"), 0).is_err());
    }
}
