//! Where frames come in, and whose they are.

use link::xdp::XdpReceiver;
use link::{Received, Receiver};
use measure::EventKind;
use pubsub::{Dispatcher, Mismatch, Reception};
use rt::ring::Producer;
use units::{Nanos, Tai};

use crate::beat::End;

/// What a frame of another layout is, when nobody asks where it differs.
const FOREIGN: Reception = Reception::Foreign(Mismatch { offset: 0, expected: None, found: None });

/// What brings frames.
#[derive(Debug)]
pub enum Source {
    /// A packet socket or its ring.
    Socket(Receiver),
    /// One end of an AF_XDP port.
    Xdp(Box<XdpReceiver>),
}

impl Source {
    #[inline]
    fn receive(&mut self) -> std::io::Result<Option<Received<'_>>> {
        match self {
            Self::Socket(receiver) => receiver.receive(),
            Self::Xdp(receiver) => receiver.receive(),
        }
    }
}

/// A source of frames and the ends that read from it.
#[derive(Debug)]
pub struct Inlet {
    source: Source,
    /// From a message to the places of its readers in `ends`.
    readers: Dispatcher,
    /// Indices in the beat of the ends that read from here.
    ends: Vec<usize>,
    /// In this cycle one message has been read, and one is all that the backlog rule allows.
    read_in: Option<i64>,
}

impl Inlet {
    /// An inlet for the ends of these indices in their beat; what `readers` finds are places in `ends`.
    pub fn new(source: Source, readers: Dispatcher, ends: Vec<usize>) -> Self {
        Self { source, readers, ends, read_in: None }
    }

    /// Frames that the kernel dropped before the socket.
    pub(crate) fn drops(&self) -> u64 {
        match &self.source {
            Source::Socket(receiver) => receiver.drops(),
            Source::Xdp(receiver) => receiver.drops(),
        }
        .unwrap_or(0)
    }

    /// Waits until a frame is there, at most for `sleep`. The kernel tells an error once, and this may be the one who
    /// hears it: it is recorded.
    ///
    /// # Errors
    /// That error.
    pub(crate) fn wait(
        &self,
        sleep: Nanos,
        ends: &[End],
        now: impl Fn() -> Tai,
        trace: &mut Producer,
    ) -> std::io::Result<()> {
        let waited = match &self.source {
            Source::Socket(receiver) => receiver.wait(sleep),
            Source::Xdp(receiver) => receiver.wait(sleep),
        };
        if let Err(error) = &waited {
            failed(&self.ends, ends, error, now(), trace);
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
        while !(one && self.read_in == Some(cycle)) {
            let received = match self.source.receive() {
                Ok(Some(received)) => received,
                Ok(None) => return,
                // The interface may come back: the ends go on.
                Err(error) => return failed(&self.ends, ends, &error, decoded(), trace),
            };
            let readers = self.readers.find(received.uadp);
            if readers.is_empty()
                && let Some(end) = self.ends.first().and_then(|first| ends.get(*first))
            {
                end.record(trace, EventKind::Foreign { at: decoded() });
            }
            for reader in readers {
                let end = self.ends.get(*reader as usize).and_then(|index| ends.get_mut(*index));
                if let Some(end) = end
                    && take(end, &received, cycle, &decoded, trace)
                {
                    self.read_in = Some(cycle);
                }
            }
        }
    }
}

/// Gives a frame to one of its readers; tells whether it was a message for it.
#[inline]
fn take(end: &mut End, received: &Received<'_>, cycle: i64, decoded: impl Fn() -> Tai, trace: &mut Producer) -> bool {
    let tag = received.tag.map(|tag| (tag.vid, tag.pcp));
    // With another tag it is not of this stream, whatever it holds: counted, not taken.
    let reception = if tag == end.tag {
        end.endpoint.receive(received.uadp)
    } else {
        end.endpoint.peek(received.uadp).map_or(FOREIGN, |counter| Reception::Message { counter, superseded: None })
    };
    let decoded = decoded();
    end.endpoint.decoded(decoded);
    let arrived = |counter, superseded, inconsistent| EventKind::Arrived {
        cycle,
        counter,
        stamp: received.stamp,
        decoded,
        tag,
        superseded,
        inconsistent,
    };
    let kind = match reception {
        Reception::Message { counter, superseded } => arrived(counter, superseded, false),
        Reception::Inconsistent { counter } => arrived(counter, None, true),
        Reception::Substitute { value } => EventKind::Substitute { at: decoded, value, handle: None },
        Reception::Foreign(_) => EventKind::Foreign { at: decoded },
    };
    end.record(trace, kind);
    matches!(reception, Reception::Message { .. } | Reception::Substitute { .. })
}

fn failed(readers: &[usize], ends: &[End], error: &std::io::Error, at: Tai, trace: &mut Producer) {
    for end in readers.iter().filter_map(|index| ends.get(*index)) {
        end.record(trace, EventKind::ReceiveFailed { at, errno: error.raw_os_error().unwrap_or(0) });
    }
}
