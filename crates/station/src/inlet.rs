//! Where frames come in, and whose they are.

use link::Receiver;
use measure::EventKind;
use pubsub::{Mismatch, Reception};
use rt::clock;
use rt::ring::Producer;
use units::{Nanos, Tai};

use crate::beat::End;

/// What a frame of another layout is, when nobody asks where it differs.
const FOREIGN: Reception = Reception::Foreign(Mismatch { offset: 0, expected: None, found: None });

/// A receiving socket and the end that reads from it.
#[derive(Debug)]
pub struct Inlet {
    receiver: Receiver,
    end: usize,
    /// In this cycle one message has been read, and one is all that the backlog rule allows.
    read_in: Option<i64>,
}

impl Inlet {
    /// An inlet for the end of index `end` of its beat.
    pub fn new(receiver: Receiver, end: usize) -> Self {
        Self { receiver, end, read_in: None }
    }

    /// Frames that the kernel dropped before the socket.
    pub(crate) fn drops(&self) -> u64 {
        self.receiver.drops().unwrap_or(0)
    }

    /// Waits until a frame is there, at most for `sleep`. The kernel tells an error once, and this may be the one who
    /// hears it: it is recorded.
    ///
    /// # Errors
    /// That error.
    pub(crate) fn wait(&self, sleep: Nanos, ends: &[End], trace: &mut Producer) -> std::io::Result<()> {
        let waited = self.receiver.wait(sleep);
        if let (Err(error), Some(end)) = (&waited, ends.get(self.end)) {
            failed(end, error, clock::now(), trace);
        }
        waited.map(drop)
    }

    /// Reads all that is there, or one message a cycle. A failure of the socket is recorded.
    #[inline]
    pub(crate) fn drain(
        &mut self,
        cycle: i64,
        one: bool,
        ends: &mut [End],
        decoded: impl Fn() -> Tai,
        trace: &mut Producer,
    ) {
        let Some(end) = ends.get_mut(self.end) else { return };
        while !(one && self.read_in == Some(cycle)) {
            let received = match self.receiver.receive() {
                Ok(Some(received)) => received,
                Ok(None) => return,
                // The interface may come back: the end goes on.
                Err(error) => return failed(end, &error, decoded(), trace),
            };
            let tag = received.tag.map(|tag| (tag.vid, tag.pcp));
            let stamp = received.stamp;
            // With another tag it is not of this stream, whatever it holds: counted, not taken.
            let reception = if tag == Some(end.tag) {
                end.endpoint.receive(received.uadp)
            } else {
                end.endpoint
                    .peek(received.uadp)
                    .map_or(FOREIGN, |counter| Reception::Message { counter, superseded: None })
            };
            let decoded = decoded();
            let arrived = |counter, superseded, inconsistent| EventKind::Arrived {
                cycle,
                counter,
                stamp,
                decoded,
                tag,
                superseded,
                inconsistent,
            };
            let kind = match reception {
                Reception::Message { counter, superseded } => {
                    self.read_in = Some(cycle);
                    arrived(counter, superseded, false)
                }
                Reception::Inconsistent { counter } => arrived(counter, None, true),
                Reception::Foreign(_) => EventKind::Foreign { at: decoded },
            };
            end.record(trace, kind);
        }
    }
}

fn failed(end: &End, error: &std::io::Error, at: Tai, trace: &mut Producer) {
    end.record(trace, EventKind::ReceiveFailed { at, errno: error.raw_os_error().unwrap_or(0) });
}
