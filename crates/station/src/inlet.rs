//! Where frames come in, and whose they are.

use link::udp::UdpReceiver;
use link::xdp::XdpReceiver;
use link::{Received, Receiver};
use measure::{EventKind, Refused};
use pubsub::{Dispatcher, Reception};
use rt::ring::Producer;
use units::{Nanos, Tai};

use crate::beat::End;
use crate::spec::Dropped;

/// In one go so many messages of a kind that are not taken have an event of their own; the others are counted. A flood must not
/// fill the trace.
const SINGLY: u32 = 4;

/// What brings frames.
#[derive(Debug)]
pub enum Source {
    /// A packet socket or its ring.
    Socket(Receiver),
    /// One end of an AF_XDP port.
    Xdp(Box<XdpReceiver>),
    /// A UDP socket, for what comes to one address.
    Udp(UdpReceiver),
    /// The same frame, so many times.
    #[cfg(test)]
    Scripted {
        /// Its bytes after the EtherType.
        uadp: Vec<u8>,
        /// Its tag.
        tag: link::Tag,
        /// How often it still comes.
        left: usize,
    },
    /// Frames, each from an instant on.
    #[cfg(test)]
    Timed {
        /// When they come, and their bytes after the EtherType.
        arrivals: Vec<(Tai, Vec<u8>)>,
        /// How many were read.
        read: usize,
        /// Their tag.
        tag: link::Tag,
        /// What a clock shows.
        now: std::sync::Arc<std::sync::atomic::AtomicI64>,
    },
}

impl Source {
    #[inline]
    fn receive(&mut self) -> std::io::Result<Option<Received<'_>>> {
        match self {
            Self::Socket(receiver) => receiver.receive(),
            Self::Xdp(receiver) => receiver.receive(),
            Self::Udp(receiver) => Ok(receiver.receive()?.map(|datagram| Received {
                frame: &[],
                uadp: datagram.uadp,
                tag: None,
                stamp: datagram.stamp,
            })),
            #[cfg(test)]
            Self::Timed { arrivals, read, tag, now } => {
                let now = Tai(now.load(std::sync::atomic::Ordering::Relaxed));
                let Some(index) = arrivals.get(*read).filter(|(at, _)| *at <= now).map(|_| *read) else {
                    return Ok(None);
                };
                *read += 1;
                Ok(Some(Received { frame: &[], uadp: &arrivals[index].1, tag: Some(*tag), stamp: None }))
            }
            #[cfg(test)]
            Self::Scripted { uadp, tag, left } => {
                let some = *left > 0;
                *left -= usize::from(some);
                Ok(some.then_some(Received { frame: &[], uadp, tag: Some(*tag), stamp: None }))
            }
        }
    }
}

/// A source of frames and the ends that read from it.
#[derive(Debug)]
pub struct Inlet {
    /// What the interface is called.
    interface: Box<str>,
    source: Source,
    /// From a message to the places of its readers in `ends`.
    readers: Dispatcher,
    /// Indices in the beat of the ends that read from here.
    ends: Vec<usize>,
    /// In this cycle one message has been read, and one is all that the backlog rule allows.
    read_in: Option<i64>,
    /// Messages read since the start.
    pub(crate) messages: u32,
}

impl Inlet {
    /// An inlet for the ends of these indices in their beat; what `readers` finds are places in `ends`.
    pub fn new(interface: &str, source: Source, readers: Dispatcher, ends: Vec<usize>) -> Self {
        Self { interface: interface.into(), source, readers, ends, read_in: None, messages: 0 }
    }

    /// Frames for which there was no room when they arrived.
    pub(crate) fn drops(&self) -> Dropped {
        let frames = match &self.source {
            Source::Socket(receiver) => receiver.drops(),
            Source::Xdp(receiver) => receiver.drops(),
            Source::Udp(receiver) => receiver.drops(),
            #[cfg(test)]
            Source::Scripted { .. } | Source::Timed { .. } => Ok(0),
        };
        Dropped { interface: self.interface.as_ref().into(), frames: frames.unwrap_or(0) }
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
            Source::Udp(receiver) => receiver.wait(sleep),
            #[cfg(test)]
            Source::Scripted { left, .. } => Ok(*left > 0),
            #[cfg(test)]
            Source::Timed { .. } => Ok(false),
        };
        if let Err(error) = &waited {
            failed(&self.ends, ends, error, now(), trace);
        }
        waited.map(drop)
    }

    /// Reads all that is there, or one message a cycle, and stops after the first frame that is read at or after
    /// `until`: what then remains is left for the next time. Tells whether something may. A failure of the socket is
    /// recorded.
    #[inline]
    pub(crate) fn drain(
        &mut self,
        cycle: i64,
        one: bool,
        until: Tai,
        ends: &mut [End],
        clock: impl Fn() -> Tai,
        trace: &mut Producer,
    ) -> bool {
        let (mut refused, mut remains) = (None, false);
        while !(remains || one && self.read_in == Some(cycle)) {
            let received = match self.source.receive() {
                Ok(Some(received)) => received,
                Ok(None) => break,
                Err(error) => {
                    // The interface may come back: the ends go on.
                    failed(&self.ends, ends, &error, clock(), trace);
                    break;
                }
            };
            let readers = self.readers.find(received.uadp);
            if readers.is_empty() {
                let at = clock();
                if let Some(end) = self.ends.first().and_then(|first| ends.get_mut(*first)) {
                    end.refused.foreign += 1;
                    refused = Some(at);
                }
                remains = at >= until;
            }
            for reader in readers {
                let Some(end) = self.ends.get(*reader as usize).and_then(|index| ends.get_mut(*index)) else {
                    continue;
                };
                let (taken, at) = take(end, &received, cycle, &clock, trace);
                let message = u32::from(!matches!(taken, Taken::Not));
                match taken {
                    Taken::Message => self.read_in = Some(cycle),
                    Taken::Old => (self.read_in, refused) = (Some(cycle), Some(at)),
                    Taken::Not => refused = Some(at),
                }
                self.messages = self.messages.wrapping_add(message);
                remains = at >= until;
            }
        }
        if let Some(at) = refused {
            self.count(at, ends, trace);
        }
        remains
    }

    /// Records how many frames were refused since the last time.
    #[cold]
    fn count(&self, at: Tai, ends: &mut [End], trace: &mut Producer) {
        for index in &self.ends {
            let Some(end) = ends.get_mut(*index) else { continue };
            let frames = std::mem::take(&mut end.refused);
            end.singly = [0; 3];
            if frames != Refused::default() {
                end.record(trace, EventKind::Refused { at, frames });
            }
        }
    }
}

/// What became of a frame.
enum Taken {
    /// It was a message, and taken.
    Message,
    /// It was a message, and nothing new.
    Old,
    /// It was none for this end.
    Not,
}

/// Gives a frame to one of its readers; tells when that was done.
#[inline]
fn take(
    end: &mut End,
    received: &Received<'_>,
    cycle: i64,
    clock: impl Fn() -> Tai,
    trace: &mut Producer,
) -> (Taken, Tai) {
    let tag = received.tag.map(|tag| (tag.vid, tag.pcp));
    let arrived = |counter, superseded, inconsistent, decoded| EventKind::Arrived {
        cycle,
        counter,
        stamp: received.stamp,
        decoded,
        tag,
        superseded,
        inconsistent,
    };
    // With another tag it is not of this stream, whatever it holds: counted, not taken.
    let mine = tag == end.tag;
    let reception = mine.then(|| end.endpoint.receive(received.uadp));
    let at = clock();
    let reception = reception.map(|reception| end.endpoint.decoded(at, reception));
    if let (Some(standing), Some(reception)) = (&mut end.standing, reception) {
        standing.read(cycle, reception);
    }
    if let Some(Reception::Message { counter, superseded }) = reception {
        end.record(trace, arrived(counter, superseded, false, at));
        return (Taken::Message, at);
    }
    if let Some(Reception::Substitute { value }) = reception {
        end.record(trace, EventKind::Substitute { at, value, handle: None });
        return (Taken::Message, at);
    }
    let event = |counter, inconsistent| arrived(counter, None, inconsistent, at);
    (refuse(end, reception, received.uadp, event, trace), at)
}

/// Counts a frame that is not taken; the first few have an event of their own.
fn refuse(
    end: &mut End,
    reception: Option<Reception>,
    uadp: &[u8],
    arrived: impl Fn(u64, bool) -> EventKind,
    trace: &mut Producer,
) -> Taken {
    let (counter, taken) = match reception {
        Some(Reception::Old { counter, .. }) => (Some(counter), Taken::Old),
        Some(Reception::Inconsistent { counter } | Reception::Message { counter, .. }) => (Some(counter), Taken::Not),
        Some(Reception::Foreign(_) | Reception::Substitute { .. }) => (None, Taken::Not),
        None => match end.endpoint.peek(uadp) {
            Some(counter) => (Some(counter), Taken::Old),
            None => (None, Taken::Not),
        },
    };
    let Some(counter) = counter else {
        end.refused.foreign += 1;
        return taken;
    };
    let inconsistent = matches!(reception, Some(Reception::Inconsistent { .. }));
    let kind = &mut end.singly[if inconsistent { 0 } else { 1 + usize::from(reception.is_none()) }];
    let singly = *kind < SINGLY;
    *kind += u32::from(singly);
    match reception {
        Some(Reception::Old { repeated: true, .. }) => end.refused.repeated += 1,
        Some(Reception::Old { .. }) => end.refused.stale += 1,
        _ if singly => {}
        Some(_) => end.refused.inconsistent += 1,
        None => end.refused.wrong_tag += 1,
    }
    if singly {
        end.record(trace, arrived(counter, inconsistent));
    }
    taken
}

fn failed(readers: &[usize], ends: &[End], error: &std::io::Error, at: Tai, trace: &mut Producer) {
    for end in readers.iter().filter_map(|index| ends.get(*index)) {
        end.record(trace, EventKind::ReceiveFailed { at, errno: error.raw_os_error().unwrap_or(0) });
    }
}

#[cfg(test)]
#[path = "inlet_tests.rs"]
mod tests;
