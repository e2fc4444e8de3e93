//! Where each published message was lost that did not come all the way, and which were only under way at the end.

use scenario::Stream;

use crate::collect::{EndLog, Message, NONE, StreamLog};
use crate::{flags, gaps};

/// Cycles taken for a round trip when no message came all the way; and how long before its end nothing may have come by a
/// way that goes on.
const ROUND_TRIP_CYCLES: i64 = 8;
/// Arrivals from whose spacing is told how often they come at the end.
const LAST_ARRIVALS: usize = 8;

/// Decides for every published message that did not come all the way where it was lost.
pub(crate) fn mark(stream: &Stream, log: &mut StreamLog) {
    let StreamLog { messages, ends: [writer, reader], part, together, .. } = log;
    let trim = if *part { i64::MAX } else { trim_from(stream, messages) };
    let ways = [(0, 3, &*reader), (4, 7, &*writer)];
    let ways = ways.map(|(sent, taken, to)| if *part { None } else { Way::of(messages, (sent, taken), to) });
    let apart = |cycle: i64| together.is_some_and(|(first, last)| cycle < first || cycle > last);
    for message in messages.iter_mut().filter(|m| m.published() && !m.complete(stream.echo)) {
        message.flags |= match fate(stream, message, [writer, reader], trim, &ways) {
            flags::LOST_PUBLISHER => flags::LOST_PUBLISHER,
            // Nobody was there to take it: that is no loss of the network.
            _ if apart(message.cycle) => flags::UNKNOWN,
            fate => fate,
        };
    }
}

fn fate(stream: &Stream, message: &Message, ends: [&EndLog; 2], trim: i64, ways: &[Option<Way>; 2]) -> u32 {
    let [writer, reader] = ends;
    // A later stamp proves that stamps are taken and this one will not come.
    let never_left = |end: &EndLog, t: usize, side: usize| {
        message.t[t] == NONE && end.last_left.is_some_and(|last| last > message.sends[side].handle)
    };
    let at_reader = message.t[3] != NONE || message.t[4] != NONE;
    if !at_reader && message.flags & flags::NOT_SENT_WRITER != 0 {
        return flags::LOST_PUBLISHER;
    }
    if at_reader && message.flags & flags::NOT_SENT_READER != 0 {
        return flags::LOST_LOOPBACK;
    }
    let way = &ways[usize::from(at_reader)];
    if message.cycle >= trim || way.as_ref().is_some_and(|way| way.holds(message)) {
        return flags::UNDER_WAY;
    }
    if [writer, reader].into_iter().any(|end| gaps::reach(&end.gaps, message.cycle)) {
        return flags::UNKNOWN;
    }
    if !at_reader {
        if never_left(writer, 1, 0) {
            flags::LOST_PUBLISHER
        } else if !reader.seen {
            // Without an echo and without the reader's trace nobody knows whether it arrived.
            if stream.echo { flags::LOST_UNPLACED } else { 0 }
        } else if reader.last_cycle.is_some_and(|last| message.cycle > last) {
            // The reader had stopped.
            flags::LOST_LOOPBACK
        } else {
            flags::LOST_OUT
        }
    } else if message.t[4] == NONE || never_left(reader, 5, 1) {
        flags::LOST_LOOPBACK
    } else {
        flags::LOST_BACK
    }
}

/// From which cycle on an unfinished message may still be under way: the last 2·(longest round trip) cycles.
///
/// The longest round trip counts with at most a tenth of the run, so that one message held up for long does not
/// excuse the losses of half a run.
fn trim_from(stream: &Stream, messages: &[Message]) -> i64 {
    let cycle = stream.cycle.0.max(1);
    let last = messages.iter().filter(|m| m.published()).map(|m| m.cycle).max().unwrap_or(0);
    let end = if stream.echo { 7 } else { 3 };
    let longest = messages
        .iter()
        .filter(|m| m.t[0] != NONE && m.t[end] != NONE)
        .map(|m| m.t[end].saturating_sub(m.t[0]).saturating_add(cycle - 1).div_euclid(cycle))
        .max()
        .unwrap_or(ROUND_TRIP_CYCLES)
        .clamp(2, (messages.len() as i64 / 10).max(ROUND_TRIP_CYCLES));
    last.saturating_sub(2 * longest).saturating_add(1)
}

/// A way that went on until the end, from one end of a stream to the other: what was handed over behind the last that
/// arrived may still have been in a queue, however long that is. What was handed over before it was overtaken, and is lost.
struct Way {
    /// Where an end's hand-over stands in a message's instants.
    sent: usize,
    /// When the last that arrived was handed over.
    last: i64,
    /// Last cycle of the end that it leads to.
    ends: i64,
}

impl Way {
    /// None where nothing came any more long before its end: a way that broke holds no messages.
    fn of(messages: &[Message], (sent, taken): (usize, usize), to: &EndLog) -> Option<Self> {
        let known = |message: &&Message| message.t[sent] != NONE && message.t[taken] != NONE;
        let last = messages.iter().filter(known).map(|message| message.t[sent]).max()?;
        let mut arrivals: Vec<i64> = messages.iter().map(|message| message.t[taken]).filter(|at| *at != NONE).collect();
        // The latest in front, in their order.
        let few = LAST_ARRIVALS.min(arrivals.len());
        if few < arrivals.len() {
            arrivals.select_nth_unstable_by(few, |one, other| other.cmp(one));
            arrivals.truncate(few);
        }
        arrivals.sort_unstable();
        let usual = arrivals.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).max().unwrap_or(0);
        let (ends, cycle) = (to.last_cycle?, to.cycle.max(1));
        let silent = ends.saturating_sub(to.cycle_at(*arrivals.last()?)?);
        let patience = usual.saturating_mul(2).div_euclid(cycle).max(ROUND_TRIP_CYCLES);
        (silent <= patience).then_some(Self { sent, last, ends })
    }

    /// Whether a message that has not arrived may have been under way at the end.
    fn holds(&self, message: &Message) -> bool {
        let sent = message.t[self.sent];
        sent != NONE && sent > self.last && message.cycle <= self.ends
    }
}
