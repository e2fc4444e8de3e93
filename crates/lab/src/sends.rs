//! Which publication each send of a socket was.
//!
//! A transmit timestamp comes back with the number of its send. Publications and sends count differently once an
//! overrun has skipped launches; this table leads from one to the other.

use std::sync::atomic::{AtomicU32, Ordering};

/// Sends remembered: stamps come back within milliseconds, a second of the shortest cycles is plenty.
const ROOM: usize = 1 << 15;

/// Publications by number of send, for the newest sends.
pub(crate) struct Sends(Box<[AtomicU32]>);

impl Sends {
    /// A table of no sends.
    pub(crate) fn new() -> Self {
        Self((0..ROOM).map(|_| AtomicU32::new(0)).collect())
    }

    /// Notes which publication the next send will be. Called before the send, whose stamp cannot come earlier.
    pub(crate) fn note(&self, send: u32, publication: u32) {
        self.0[send as usize % ROOM].store(publication, Ordering::Release);
    }

    /// The publication that a send was.
    pub(crate) fn publication(&self, send: u32) -> u32 {
        self.0[send as usize % ROOM].load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_sends_are_known() {
        let sends = Sends::new();
        sends.note(0, 0);
        sends.note(1, 7);
        assert_eq!((sends.publication(0), sends.publication(1)), (0, 7));
        sends.note(ROOM as u32 + 1, 9);
        assert_eq!(sends.publication(1), 9);
    }
}
