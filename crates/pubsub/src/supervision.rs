//! Whether readers still hear their writers: the MessageReceiveTimeout (OPC 10000-14 §6.2.9).

use alloc::vec;
use alloc::vec::Vec;

use units::{Nanos, Tai};

/// What is known of a reader's writer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum ReaderState {
    /// No message yet.
    #[default]
    PreOperational,
    /// Messages come in time.
    Operational,
    /// None came for longer than the MessageReceiveTimeout: PubSubState Error until the next.
    Timeout,
}

/// A reader's new state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// Index of the reader.
    pub reader: usize,
    /// Its DataSetWriterId.
    pub writer_id: u16,
    /// What it is now.
    pub state: ReaderState,
}

/// The timers of the readers of one subscriber. It knows no clock.
#[derive(Debug, Clone)]
pub(crate) struct Supervision {
    timeout: Nanos,
    readers: Vec<Timer>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Timer {
    heard: Option<Tai>,
    state: ReaderState,
    told: ReaderState,
}

impl Timer {
    /// When its time is over; `None` while nothing is expected.
    #[inline]
    fn deadline(&self, timeout: Nanos) -> Option<Tai> {
        let heard = self.heard.filter(|_| timeout > Nanos::ZERO && self.state == ReaderState::Operational)?;
        Some(Tai(heard.0.saturating_add(timeout.0)))
    }
}

impl Supervision {
    pub(crate) fn new(readers: usize, timeout: Nanos) -> Self {
        Self { timeout, readers: vec![Timer::default(); readers] }
    }

    pub(crate) fn set_timeout(&mut self, timeout: Nanos) {
        self.timeout = timeout;
    }

    /// A new message, keep-alive or heartbeat came.
    #[inline]
    pub(crate) fn heard(&mut self, reader: usize, now: Tai) {
        if let Some(timer) = self.readers.get_mut(reader) {
            timer.heard = Some(now);
            timer.state = ReaderState::Operational;
        }
    }

    /// The readers whose time has run out by now; they are not told again.
    pub(crate) fn expire(&mut self, now: Tai) -> impl Iterator<Item = usize> + '_ {
        let timeout = self.timeout;
        self.readers.iter_mut().enumerate().filter_map(move |(index, timer)| {
            let over = timer.deadline(timeout).is_some_and(|deadline| now > deadline);
            if over {
                timer.state = ReaderState::Timeout;
            }
            over.then_some(index)
        })
    }

    /// Whether all have timed out.
    pub(crate) fn is_silent(&self) -> bool {
        self.readers.iter().all(|timer| timer.state == ReaderState::Timeout)
    }

    /// A state that has not been told yet.
    pub(crate) fn change(&mut self) -> Option<(usize, ReaderState)> {
        let (index, timer) = self.readers.iter_mut().enumerate().find(|(_, timer)| timer.state != timer.told)?;
        timer.told = timer.state;
        Some((index, timer.state))
    }

    pub(crate) fn heard_at(&self, reader: usize) -> Option<Tai> {
        self.readers.get(reader)?.heard
    }

    #[inline]
    pub(crate) fn state(&self, reader: usize) -> ReaderState {
        self.readers.get(reader).map_or(ReaderState::PreOperational, |timer| timer.state)
    }

    /// Whether it is Operational, and its time not over by now.
    #[inline]
    pub(crate) fn is_in_time(&self, reader: usize, now: Tai) -> bool {
        let over = |timer: &Timer| timer.deadline(self.timeout).is_some_and(|deadline| now > deadline);
        self.readers.get(reader).is_some_and(|timer| timer.state == ReaderState::Operational && !over(timer))
    }

    #[inline]
    pub(crate) fn age(&self, reader: usize, now: Tai) -> Option<Nanos> {
        let heard = self.readers.get(reader)?.heard?;
        Some(Nanos(now.0.saturating_sub(heard.0)))
    }

    pub(crate) fn deadline(&self) -> Option<Tai> {
        self.readers.iter().filter_map(|timer| timer.deadline(self.timeout)).min()
    }
}
