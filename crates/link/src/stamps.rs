//! What became of frames that were sent, read from the error queue of their socket.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use nix::errno::Errno;
use units::{Nanos, Tai};

use crate::control::{Control, ControlBuffer, messages};
use crate::packet::duration;
use crate::sends::Ledger;
use crate::socket::receive_message;
use crate::stampmode::Stamps;
use crate::txtime::LostLaunch;
use crate::wait::{Ready, wait};

/// When one frame left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TxStamp {
    /// Which call of `send` or `send_at`, from 0; failed calls count.
    pub id: u32,
    /// When the driver took it, or with [`Stamps::Hardware`] the network card sent it, in TAI.
    pub at: Tai,
}

/// What became of a frame that was handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Departure {
    /// It left. Told of every frame when the sender has stamps.
    Left(TxStamp),
    /// It was lost for its launch time. Told when the sender reports errors
    /// ([`TxTime::report_errors`](crate::TxTime::report_errors)).
    Lost(LostLaunch),
}

impl Departure {
    /// The stamp, if it left.
    pub fn stamp(self) -> Option<TxStamp> {
        match self {
            Self::Left(stamp) => Some(stamp),
            Self::Lost(_) => None,
        }
    }
}

/// Which kind of socket an error queue belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SocketKind {
    Packet,
    /// It is also told what the network answers (ICMP), which is no error of the reader's.
    Udp,
}

/// Reads what became of frames, in a thread that is not the sending one.
#[derive(Debug)]
pub struct StampReader {
    fd: OwnedFd,
    kind: SocketKind,
    control: ControlBuffer,
    meaning: Meaning,
}

impl StampReader {
    pub(crate) fn new(
        fd: OwnedFd,
        kind: SocketKind,
        ledger: Arc<Ledger>,
        stamps: Stamps,
        tai_minus_utc: Nanos,
    ) -> Self {
        Self { fd, kind, control: ControlBuffer::new(), meaning: Meaning { ledger, stamps, tai_minus_utc } }
    }

    /// Waits for the next stamp or loss; none when `timeout` passes without one. Stamps come in the order the frames
    /// left; a frame that the queue dropped has none.
    ///
    /// # Errors
    /// The socket's, or more than 1024 sends were refused, so that stamps can no longer be told apart.
    pub fn wait(&mut self, timeout: Nanos) -> io::Result<Option<Departure>> {
        let deadline = Instant::now() + duration(timeout);
        loop {
            if let Some(departure) = self.read()? {
                return Ok(Some(departure));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            // The error queue cannot be asked for; it is always reported.
            match wait(&self.fd, nix::poll::PollFlags::empty(), left) {
                Ok(Ready::Nothing) => return Ok(None),
                Ok(Ready::Interrupted | Ready::Input | Ready::ErrorQueue) => {}
                // Asking has cleared it.
                Err(_) if self.kind == SocketKind::Udp => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The next that is there already. Anything else in the queue is passed over.
    fn read(&mut self) -> io::Result<Option<Departure>> {
        while let Some(bytes) = self.next_message()? {
            if let Some(departure) = self.meaning.of(&self.control.0[..bytes])? {
                return Ok(Some(departure));
            }
        }
        Ok(None)
    }

    fn next_message(&mut self) -> Result<Option<usize>, Errno> {
        // No frame comes with a stamp (OPT_TSONLY), and that of a loss is not needed: nothing to make room for.
        let message = receive_message(&self.fd, &mut [], &mut self.control, libc::MSG_ERRQUEUE)?;
        Ok(message.map(|message| message.control_bytes))
    }
}

/// What the messages of an error queue mean.
#[derive(Debug)]
struct Meaning {
    ledger: Arc<Ledger>,
    stamps: Stamps,
    tai_minus_utc: Nanos,
}

impl Meaning {
    /// Of the control messages of one packet; none when they tell nothing of a departure. Counts the losses.
    fn of(&self, control: &[u8]) -> io::Result<Option<Departure>> {
        let (mut error, mut stamp) = (None, None);
        for control in messages(control) {
            error = error.or_else(|| control.extended_error());
            stamp = stamp.or_else(|| self.stamp(&control));
        }
        let Some(error) = error else { return Ok(None) };
        // A loss comes with a stamp too, which is the launch time: what is told decides.
        if let Some(lost) = self.ledger.launches.lost(&error) {
            self.ledger.losses.add(lost.cause);
            return Ok(Some(Departure::Lost(lost)));
        }
        let (Some(id), Some(at)) = (error.stamped_send(), stamp) else { return Ok(None) };
        let id = self.ledger.numbering.attempt(id).ok_or_else(|| {
            io::Error::other("too many frames were refused on sending; transmit stamps cannot be assigned")
        })?;
        Ok(Some(Departure::Left(TxStamp { id, at })))
    }

    fn stamp(&self, control: &Control<'_>) -> Option<Tai> {
        match self.stamps {
            Stamps::Off => None,
            Stamps::Software => control.software_stamp().map(|utc| Tai(utc) + self.tai_minus_utc),
            Stamps::Hardware => control.hardware_stamp().map(Tai),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::tests::message;
    use crate::txtime::{LaunchClock, LaunchError, LaunchLosses};

    fn meaning(stamps: Stamps) -> Meaning {
        let ledger = Ledger::new(LaunchClock::Tai, Arc::new(LaunchLosses::default()));
        Meaning { ledger: Arc::new(ledger), stamps, tai_minus_utc: Nanos(37) }
    }

    /// The two control messages of one packet in an error queue: a stamp for each clock, and `sock_extended_err`.
    fn packet(software_ns: i64, hardware_ns: i64, error: (i32, u8, u8, u32, u32)) -> Vec<u8> {
        let mut stamps = [0, software_ns].map(i64::to_ne_bytes).concat();
        stamps.extend([0_u8; 16]);
        stamps.extend([0, hardware_ns].map(i64::to_ne_bytes).concat());
        let (errno, origin, code, info, data) = error;
        let mut extended = errno.to_ne_bytes().to_vec();
        extended.extend([origin, 0, code, 0]);
        extended.extend([info, data].map(u32::to_ne_bytes).concat());
        let mut bytes = message(libc::SOL_SOCKET, libc::SCM_TIMESTAMPING, &stamps);
        bytes.extend(message(libc::SOL_PACKET, libc::PACKET_TX_TIMESTAMP, &extended));
        bytes
    }

    #[test]
    fn a_stamp_is_of_the_clock_that_was_asked_for() {
        let left = |id, at| Some(Departure::Left(TxStamp { id, at: Tai(at) }));
        let both = packet(100, 500, (libc::ENOMSG, libc::SO_EE_ORIGIN_TIMESTAMPING, 0, 0, 3));
        assert_eq!(meaning(Stamps::Software).of(&both).unwrap(), left(3, 137));
        assert_eq!(meaning(Stamps::Hardware).of(&both).unwrap(), left(3, 500), "the card's clock is TAI already");
        assert_eq!(meaning(Stamps::Off).of(&both).unwrap(), None);
        let software = packet(100, 0, (libc::ENOMSG, libc::SO_EE_ORIGIN_TIMESTAMPING, 0, 0, 3));
        assert_eq!(meaning(Stamps::Hardware).of(&software).unwrap(), None);
        assert_eq!(meaning(Stamps::Software).of(&[]).unwrap(), None);
    }

    #[test]
    fn a_lost_launch_is_no_stamp_and_counts() {
        let meaning = meaning(Stamps::Software);
        meaning.ledger.launches.note(0, Tai(1));
        meaning.ledger.launches.note(1, Tai(5 << 32 | 900));
        // The frame that was lost carries its launch time where stamps stand.
        let missed = packet(5 << 32 | 900, 0, (libc::ECANCELED, 6, 2, 900, 5));
        let lost = LostLaunch { id: Some(1), launch: Tai(5 << 32 | 900), cause: LaunchError::Missed };
        assert_eq!(meaning.of(&missed).unwrap(), Some(Departure::Lost(lost)));
        let invalid = packet(0, 0, (libc::EINVAL, 6, 1, 901, 5));
        let lost = LostLaunch { id: None, launch: Tai(5 << 32 | 901), cause: LaunchError::Invalid };
        assert_eq!(meaning.of(&invalid).unwrap(), Some(Departure::Lost(lost)));
        let losses = &meaning.ledger.losses;
        assert_eq!([losses.dropped(), losses.invalid(), losses.missed(), losses.other()], [0, 1, 1, 0]);
        // What the network answers is nobody's departure.
        let refused = packet(0, 0, (libc::ECONNREFUSED, libc::SO_EE_ORIGIN_ICMP, 3, 0, 0));
        assert_eq!(meaning.of(&refused).unwrap(), None);
    }
}
