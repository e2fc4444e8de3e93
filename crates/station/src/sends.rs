//! Which publication each send of a socket was.
//!
//! A transmit timestamp comes back with the number of its send. Several streams may share a socket, and publications
//! and sends count differently once an overrun has skipped launches; this table leads from one to the other.

use std::sync::atomic::{AtomicU64, Ordering};

/// Sends remembered: stamps come back within milliseconds, a second of the shortest cycles is plenty.
const ROOM: usize = 1 << 15;

/// A publication: which end of the station, and the handle that the end gave it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Publication {
    /// Index of the end among those that share the socket.
    pub(crate) end: u32,
    /// Number of the publication at that end.
    pub(crate) handle: u32,
}

/// Publications by number of send, for the newest sends.
#[derive(Debug)]
pub(crate) struct Sends(Box<[AtomicU64]>);

impl Sends {
    /// A table of no sends.
    pub(crate) fn new() -> Self {
        Self((0..ROOM).map(|_| AtomicU64::new(0)).collect())
    }

    /// Notes which publication the next send will be. Called before the send, whose stamp cannot come earlier.
    #[inline]
    pub(crate) fn note(&self, send: u32, publication: Publication) {
        let packed = u64::from(publication.end) << 32 | u64::from(publication.handle);
        self.0[send as usize % ROOM].store(packed, Ordering::Release);
    }

    /// The publication that a send was.
    pub(crate) fn publication(&self, send: u32) -> Publication {
        let packed = self.0[send as usize % ROOM].load(Ordering::Acquire);
        Publication { end: (packed >> 32) as u32, handle: packed as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_sends_are_known() {
        let sends = Sends::new();
        let (first, second) = (Publication { end: 0, handle: 0 }, Publication { end: 3, handle: u32::MAX });
        sends.note(0, first);
        sends.note(1, second);
        assert_eq!((sends.publication(0), sends.publication(1)), (first, second));
        sends.note(ROOM as u32 + 1, first);
        assert_eq!(sends.publication(1), first);
    }
}
