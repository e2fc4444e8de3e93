//! The reading part of an endpoint: it takes messages, and knows which of them are news.

use alloc::boxed::Box;

use units::{Nanos, Tai};
use wire::Value;

use super::passed::{Inputs, Newest, Signs};
use super::{NO_TIME, RESYNC_PHASES, Reception};
use crate::breach::Places;
use crate::data_set_reader::SEVERITY_BAD;
use crate::error::Mismatch;
use crate::image::ImageLayout;
use crate::subscriber::{Admission, Staged, Subscriber};

/// The part of an endpoint that takes messages. What there is for the [`Computing`](super::Computing) part is in
/// [`Self::inputs`]; how far that has got comes back as a [`Progress`](super::Progress).
#[derive(Debug, Clone)]
pub struct Reading {
    pub(super) subscriber: Option<Subscriber>,
    /// Place of the counter in the image.
    counter_at: usize,
    /// Index of the first counter in what is read.
    counter_field: usize,
    /// Counter of the newest message; none before the first, and when the next is taken whatever it is.
    newest: Option<u64>,
    /// Older by their counter.
    stale: u64,
    pub(super) resynchronised: u64,
    /// Received without a layout to read.
    unread: u64,
    /// What somebody wants to know besides values.
    seen: Option<Box<Seen>>,
}

/// What messages tell besides their values.
#[derive(Debug, Clone, Default)]
struct Seen {
    signs: Signs,
    /// Where messages tell that they have no counter: for a watch.
    watched: Option<Places>,
    /// The latest instant that the watch was told.
    now: Tai,
    /// The message that was received last is of the stream, and nobody has told yet when it was decoded.
    undated: bool,
    /// The same for an application outside: whether it is news, and its Status.
    undated_news: Option<(bool, u16)>,
}

/// What became of a staged message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taken {
    /// Old by its sequence numbers.
    Old,
    /// Old by its counter.
    OldCounter,
    /// The newest counter once more.
    Repeated,
    News {
        superseded: Option<u64>,
    },
}

impl Taken {
    /// What a message with this counter was.
    #[inline(always)]
    fn of(self, counter: u64) -> Reception {
        match self {
            Self::Old | Self::OldCounter => Reception::Old { counter, repeated: false },
            Self::Repeated => Reception::Old { counter, repeated: true },
            Self::News { superseded } => Reception::Message { counter, superseded },
        }
    }
}

impl Reading {
    pub(super) fn new(subscriber: Option<Subscriber>, counter_at: usize, counter_field: usize) -> Self {
        Self { subscriber, counter_at, counter_field, newest: None, stale: 0, resynchronised: 0, unread: 0, seen: None }
    }

    /// Tells a watch what messages show; where they have no counter is told by `places`.
    pub(super) fn watched(&mut self, places: Places) {
        self.seen.get_or_insert_default().watched = Some(places);
    }

    /// Tells an application outside how old its inputs are.
    pub(super) fn outside(&mut self) {
        let _ = self.seen.get_or_insert_default();
    }

    /// Takes the UADP bytes of a received frame: [`Endpoint::receive`](super::Endpoint::receive). So many application phases in
    /// a row had no news; when there were too many, `forget` tells the computing part to [forget](super::Computing::forget).
    #[inline(always)]
    pub fn receive(&mut self, uadp: &[u8], phases_without_news: u32, forget: impl FnOnce()) -> Reception {
        let Some(subscriber) = &mut self.subscriber else {
            self.unread += 1;
            return Reception::Foreign(Mismatch { offset: 0, expected: None, found: uadp.first().copied() });
        };
        match subscriber.stage(uadp) {
            Staged::Message => {}
            Staged::Inconsistent => return self.inconsistent(),
            Staged::Foreign(mismatch) => return Reception::Foreign(mismatch),
            // A strict subscriber rejects nothing.
            Staged::Rejected(_) => return Reception::Foreign(Mismatch { offset: 0, expected: None, found: None }),
        }
        if self.seen.is_some() {
            return self.receive_seen(uadp, phases_without_news, forget);
        }
        let counter = ImageLayout::uint64(subscriber.staged(), self.counter_at).unwrap_or(0);
        self.take(counter, phases_without_news, forget, NO_TIME).of(counter)
    }

    /// The counter of the staged message.
    fn staged(&self) -> u64 {
        let staged = self.subscriber.as_ref().map_or(&[][..], Subscriber::staged);
        ImageLayout::uint64(staged, self.counter_at).unwrap_or(0)
    }

    #[cold]
    fn inconsistent(&mut self) -> Reception {
        let counter = self.staged();
        if let Some(seen) = &mut self.seen {
            seen.inconsistent(counter);
        }
        Reception::Inconsistent { counter }
    }

    /// What is staged, with a word to those who want to know more.
    #[cold]
    #[inline(never)]
    fn receive_seen(&mut self, uadp: &[u8], phases_without_news: u32, forget: impl FnOnce()) -> Reception {
        let counter = self.staged();
        let Self { subscriber: Some(subscriber), seen: Some(seen), .. } = self else {
            return Reception::Message { counter, superseded: None };
        };
        let substitute = seen
            .watched
            .as_ref()
            .is_some_and(|places| places.is_substitute(subscriber.staged(), subscriber.staged_status()));
        if substitute {
            // Its numbers count all the same.
            match subscriber.admit() {
                Admission::Stale => seen.undated = false,
                _ => seen.substituted(),
            }
            return Reception::Substitute { value: counter };
        }
        // The same values may have become another thing to rely on.
        let status = subscriber.staged_status();
        let (now, stamped) = (seen.now, seen.watched.as_ref().and_then(|_| subscriber.timestamp(uadp)));
        let taken = self.take(counter, phases_without_news, forget, now);
        if let Some(seen) = &mut self.seen {
            seen.received(taken, counter, stamped, status);
        }
        taken.of(counter)
    }

    /// Makes the staged message the pending one if it is news.
    #[inline(always)]
    fn take(&mut self, counter: u64, phases_without_news: u32, forget: impl FnOnce(), now: Tai) -> Taken {
        let Some(subscriber) = &mut self.subscriber else { return Taken::Old };
        let pending = subscriber.is_fresh();
        if phases_without_news >= RESYNC_PHASES && !pending && self.newest != Some(counter) {
            subscriber.forget();
            forget();
            self.newest = None;
            self.resynchronised += 1;
        }
        if subscriber.admit() != Admission::News {
            return Taken::Old;
        }
        match self.newest {
            Some(known) if counter < known => {
                self.stale += 1;
                Taken::OldCounter
            }
            Some(known) if counter == known => Taken::Repeated,
            known => {
                subscriber.commit(now);
                self.newest = Some(counter);
                Taken::News { superseded: if pending { known } else { None } }
            }
        }
    }

    /// The counter of a message that could be read, without taking it: [`Endpoint::peek`](super::Endpoint::peek).
    pub fn peek(&self, uadp: &[u8]) -> Option<u64> {
        match self.subscriber.as_ref()?.peek(uadp, 0, self.counter_field)? {
            Value::UInt64(counter) => Some(counter),
            _ => None,
        }
    }

    /// When what was received last had been decoded: [`Endpoint::decoded`](super::Endpoint::decoded).
    #[inline]
    pub fn decoded(&mut self, at: Tai) {
        if self.seen.is_some() {
            self.date(at);
        }
    }

    fn date(&mut self, at: Tai) {
        let Self { subscriber: Some(subscriber), seen: Some(seen), .. } = self else { return };
        if let Some((news, status)) = seen.undated_news.take() {
            (seen.signs.heard_at, seen.signs.status) = (Some(at), status);
            seen.signs.newest_at = if news { Some(at) } else { seen.signs.newest_at };
        }
        if seen.watched.is_none() {
            return;
        }
        seen.now = at;
        if core::mem::take(&mut seen.undated) {
            if let Some(newest) = seen.signs.newest.as_mut().filter(|newest| newest.decoded.is_none()) {
                newest.decoded = Some(at);
            }
            subscriber.heard(at);
        }
        seen.signs.alive_at = subscriber.heard_at(0);
        seen.signs.bad = subscriber.status(0) & SEVERITY_BAD != 0;
    }

    /// Looks at the MessageReceiveTimeout as of `now`; once a cycle, where there is a watch.
    #[inline]
    pub fn poll(&mut self, now: Tai) {
        if let (Some(seen), Some(subscriber)) = (&mut self.seen, &mut self.subscriber)
            && seen.watched.is_some()
        {
            seen.now = now;
            while subscriber.poll(now).is_some() {}
        }
    }

    /// What there is for the computing part.
    #[inline(always)]
    pub fn inputs(&self) -> Inputs<'_> {
        let Some(subscriber) = &self.subscriber else { return Inputs::default() };
        Inputs {
            image: subscriber.image(),
            // A message is taken only with another counter, so that it is news to the reader that has the counter.
            fresh: subscriber.is_fresh(),
            signs: self.seen.as_ref().map(|seen| &seen.signs),
        }
    }

    /// Messages so far.
    #[inline]
    pub fn messages(&self) -> u64 {
        self.subscriber.as_ref().map_or(0, Subscriber::messages)
    }

    /// So many messages have been taken, replaced ones included.
    #[inline]
    pub fn taken_to(&mut self, messages: u64) {
        if let Some(subscriber) = &mut self.subscriber {
            subscriber.taken_to(messages);
        }
    }

    /// The computing part has taken all that there was.
    #[inline(always)]
    pub(super) fn taken(&mut self) {
        if let Some(subscriber) = &mut self.subscriber {
            subscriber.taken();
        }
    }

    pub(super) fn stale(&self) -> u64 {
        self.stale
    }

    pub(super) fn unread(&self) -> u64 {
        self.unread
    }

    pub(super) fn set_receive_timeout(&mut self, timeout: Nanos) {
        if let Some(subscriber) = &mut self.subscriber {
            subscriber.set_receive_timeout(timeout);
        }
    }

    /// The latest instant that it was told.
    pub(super) fn now(&self) -> Tai {
        self.seen.as_ref().map_or(NO_TIME, |seen| seen.now)
    }
}

impl Seen {
    /// A message whose variables differ: its writer is there, and no good sign otherwise.
    #[cold]
    fn inconsistent(&mut self, counter: u64) {
        self.undated_news = None;
        if self.watched.is_some() {
            self.signs.inconsistent += 1;
            self.signs.inconsistent_counter = counter;
            self.undated = true;
        }
    }

    /// A message without counter.
    #[cold]
    fn substituted(&mut self) {
        self.signs.heard += 1;
        self.signs.substitutes += 1;
        (self.undated, self.undated_news) = (true, None);
    }

    /// A message with a counter, stamped when it was published.
    fn received(&mut self, taken: Taken, counter: u64, stamped: Option<i64>, status: u16) {
        let news = matches!(taken, Taken::News { .. });
        self.undated_news = (news || taken == Taken::Repeated).then_some((news, status));
        // A message that is of no use here tells nothing.
        self.undated = taken != Taken::Old;
        self.signs.heard += u64::from(self.undated);
        if news {
            let number = self.signs.newest.map_or(0, |newest| newest.number) + 1;
            self.signs.newest = Some(Newest { number, counter, stamped, decoded: None });
        }
    }
}
