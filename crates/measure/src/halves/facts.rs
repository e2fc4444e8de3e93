//! What an end of a stream knows beside its messages, one fact after the other.
//!
//! `frames.parquet` holds what happened to messages; an incident, a margin, the place of a loss also need the phases,
//! the sends and the counts of both ends. They are kept as rows of one form: what, and up to eight numbers.

use scenario::{BreachChange, Condition};

use crate::breaches::Noticed;
use crate::collect::{EndLog, First, FirstSend, NONE, Outlier, Ran, Send, StreamLog};
use crate::drains::Drain;
use crate::outside::Silence;
use crate::refusals::{Flood, Kinds};
use crate::{DrainCause, Phase};

/// How many numbers a fact has room for.
pub(crate) const VALUES: usize = 8;

/// One fact. A number that is not there is [`NONE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fact {
    pub(crate) stream: u16,
    /// 0 writer, 1 reader.
    pub(crate) end: u8,
    pub(crate) what: What,
    pub(crate) values: [i64; VALUES],
}

/// What a fact tells, with the meaning of its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// The end was to be observed: whether anything came, last cycle, last handle with a transmit timestamp, start of
    /// cycle 0.
    End,
    /// Records of its host that found no room: how many. Told by one end of the host.
    LostRecords,
    /// A phase ran: phase, due, late, took.
    Ran,
    /// A phase began late beyond the rule: cycle, phase, due, late, took.
    Outlier,
    /// The send that a message's row is of: counter, handle, whether it was a repeated one.
    Sent,
    /// A send that failed: handle, handed over, error number.
    Failed,
    /// The application: counters missed, phases repeated.
    Application,
    /// A counter read back: cycle, elapsed cycles.
    RoundTrip,
    /// Cycles left out: first, how many.
    Skipped,
    /// Receiving failed: error number, first instant.
    ReceiveFailed,
    /// The time was set: instant, how far.
    Step,
    /// A queue was emptied: cycle, how many messages more than usual, 1 on request, number of the request or how many cycles
    /// messages were late.
    Drained,
    /// A breach began or ended: condition, 1 when it ended, cycle, counter, instant.
    Breach,
    /// Messages published in place of counters: how many.
    Substituted,
    /// An application outside: whether it was attached, cycles, those without a new image, the most of them in a row, those
    /// in which what was published was uncertain, and bad.
    Outside,
    /// Its answer to inputs was published so many cycles after them.
    Answered,
    /// Long without a new image: first cycle, begin, when last looked at, cycles, in how many it did something, and as bits
    /// whether nothing had ever come before (1) and whether an image came after it (2).
    Silence,
    /// Frames refused in all: foreign, stale, repeated, wrong tag, inconsistent.
    Refused,
    /// Some of them close together: begin, end, the five of [`What::Refused`], most in one go.
    Flood,
    /// The first frame with a wrong tag: instant, how many, VID, PCP.
    WrongTag,
    /// The first message that was inconsistent: instant, how many, counter.
    Inconsistent,
}

impl What {
    /// Each with its name in the file.
    pub(crate) const NAMES: [(Self, &'static str); 21] = [
        (Self::End, "end"),
        (Self::LostRecords, "lost-records"),
        (Self::Ran, "phase"),
        (Self::Outlier, "outlier"),
        (Self::Sent, "sent"),
        (Self::Failed, "not-sent"),
        (Self::Application, "application"),
        (Self::RoundTrip, "round-trip"),
        (Self::Skipped, "skipped"),
        (Self::ReceiveFailed, "receive-failed"),
        (Self::Step, "clock-step"),
        (Self::Drained, "drained"),
        (Self::Breach, "breach"),
        (Self::Substituted, "substituted"),
        (Self::Outside, "outside"),
        (Self::Answered, "answered"),
        (Self::Silence, "silence"),
        (Self::Refused, "refused"),
        (Self::Flood, "flood"),
        (Self::WrongTag, "wrong-tag"),
        (Self::Inconsistent, "inconsistent"),
    ];

    /// Its name in the file.
    pub(crate) fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(what, _)| *what == self).map_or("", |(_, name)| name)
    }
}

/// Numbers as they stand in a fact.
fn values<const N: usize>(given: [i64; N]) -> [i64; VALUES] {
    let mut values = [NONE; VALUES];
    values.iter_mut().zip(given).for_each(|(value, given)| *value = given);
    values
}

fn option(value: Option<impl Into<i64>>) -> i64 {
    value.map_or(NONE, Into::into)
}

/// Counts beyond what a signed number holds do not occur; they would be cut to it.
fn count(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn of_kinds(kinds: &Kinds) -> [i64; 5] {
    [kinds.foreign, kinds.stale, kinds.repeated, kinds.wrong_tag, kinds.inconsistent].map(count)
}

/// The facts of one end of a stream, where it was to be observed.
pub(crate) fn of_end(number: u16, log: &StreamLog, side: usize) -> impl Iterator<Item = Fact> + '_ {
    let end = &log.ends[side];
    let facts = (!end.elsewhere).then(|| {
        let first = What::End;
        let known = [i64::from(end.seen), option(end.last_cycle), option(end.last_left), option(end.origin)];
        std::iter::once((first, values(known))).chain(counts(end)).chain(series(end)).chain(sends(log, side))
    });
    facts.into_iter().flatten().map(move |(what, values)| Fact { stream: number, end: side as u8, what, values })
}

/// What is told once.
fn counts(end: &EndLog) -> impl Iterator<Item = (What, [i64; VALUES])> + '_ {
    let all = end.refusals.all;
    let refused = (all.all() > 0).then(|| (What::Refused, values(of_kinds(&all))));
    let floods = end.refusals.kept().iter().map(|flood| {
        let [foreign, stale, repeated, tag, inconsistent] = of_kinds(&flood.frames);
        let most = count(flood.most);
        (What::Flood, [flood.begin, flood.end, foreign, stale, repeated, tag, inconsistent, most])
    });
    let wrong_tag = end.wrong_tag.map(|first| {
        let (vid, pcp) = first.what.unzip();
        (What::WrongTag, values([first.at, count(first.count), option(vid), option(pcp)]))
    });
    let inconsistent = end.inconsistent.map(|first| {
        // Counters take all 64 bits.
        (What::Inconsistent, values([first.at, count(first.count), first.what.cast_signed()]))
    });
    let application =
        end.application.map(|(missed, repeated)| (What::Application, values([count(missed), count(repeated)])));
    let substituted = Some(end.breaches.substituted).filter(|count| *count > 0);
    let substituted = substituted.map(|number| (What::Substituted, values([count(number)])));
    let outside = end.outside.counts().map(|counts| (What::Outside, values(counts.map(count))));
    let few = refused.into_iter().chain(wrong_tag).chain(inconsistent).chain(application).chain(substituted);
    few.chain(outside).chain(floods)
}

/// What is told of single instants.
fn series(end: &EndLog) -> impl Iterator<Item = (What, [i64; VALUES])> + '_ {
    let ran =
        end.phases.iter().zip(0..).flat_map(|(ran, phase)| {
            ran.iter().map(move |ran| (What::Ran, values([phase, ran.due, ran.late, ran.took])))
        });
    let outliers = end.outliers.iter().map(|outlier| {
        let phase = outlier.phase as i64;
        (What::Outlier, values([outlier.cycle, phase, outlier.due, outlier.late, outlier.took]))
    });
    let round_trips =
        end.round_trips.iter().map(|&(cycle, elapsed)| (What::RoundTrip, values([cycle, elapsed.cast_signed()])));
    let skipped = end.skipped.iter().map(|&(cycle, cycles)| (What::Skipped, values([cycle, cycles.into()])));
    let failed = end.receive_failed.iter().map(|(&errno, &at)| (What::ReceiveFailed, values([i64::from(errno), at])));
    let steps = end.steps.iter().map(|&(at, by)| (What::Step, values([at, by])));
    let drained = end.drained.iter().map(|drain| {
        let (asked, which) = match drain.cause {
            DrainCause::Asked { number } => (1, number),
            DrainCause::Standing { late } => (0, late),
        };
        (What::Drained, values([drain.cycle, drain.messages.into(), asked, which.into()]))
    });
    // What was carried over from an earlier part is told by that part.
    let breaches = end.breaches.noticed().iter().filter(|noticed| !noticed.carried).map(|noticed| {
        let ended = i64::from(noticed.change == BreachChange::Ended);
        let condition = noticed.condition.index() as i64;
        (What::Breach, values([condition, ended, noticed.cycle, noticed.counter.cast_signed(), noticed.at]))
    });
    let answered = end.outside.answers().iter().map(|after| (What::Answered, values([*after])));
    let silences = end.outside.silences().map(|silence| {
        let bits = i64::from(silence.from_the_start) | i64::from(silence.over) << 1;
        let (cycles, stirred) = (count(silence.cycles), count(silence.stirred));
        (What::Silence, values([silence.cycle, silence.begin, silence.until, cycles, stirred, bits]))
    });
    let of_applications = round_trips.chain(answered).chain(silences);
    ran.chain(outliers).chain(of_applications).chain(skipped).chain(failed).chain(steps).chain(drained).chain(breaches)
}

fn sends(log: &StreamLog, side: usize) -> impl Iterator<Item = (What, [i64; VALUES])> + '_ {
    let sent = log.messages.iter().filter_map(move |message| {
        let FirstSend { handle, repeated } = message.sends[side];
        let known = message.sends[side].is_known();
        let values = values([message.counter.cast_signed(), handle.into(), i64::from(repeated)]);
        known.then_some((What::Sent, values))
    });
    let failed = log.ends[side].sends.iter().filter_map(|send| {
        let errno = send.failed?;
        Some((What::Failed, values([send.handle.into(), send.at, errno.into()])))
    });
    sent.chain(failed)
}

/// Takes a fact into a log; `shift` is added to its cycles.
///
/// # Errors
/// The fact holds numbers that no writer of the format puts there; told in words.
pub(crate) fn take(log: &mut StreamLog, fact: &Fact, shift: i64) -> Result<(), String> {
    let wrong = || format!("a fact \"{}\" of impossible numbers {:?}", fact.what.name(), fact.values);
    let [a, b, c, d, e, f, g, h] = fact.values;
    let known = |value: i64| (value != NONE).then_some(value);
    let cycle = |value: i64| value.saturating_add(shift);
    let number = |value: i64| u64::try_from(value).map_err(|_| wrong());
    let phase = |value: i64| usize::try_from(value).ok().filter(|phase| *phase < Phase::ALL.len()).ok_or_else(wrong);
    let errno = |value: i64| i32::try_from(value).map_err(|_| wrong());
    let handle = |value: i64| u32::try_from(value).map_err(|_| wrong());
    let side = usize::from(fact.end);
    if fact.what == What::Sent {
        let sent = FirstSend { handle: handle(b)?, repeated: c != 0 };
        log.sent(a.cast_unsigned(), side, sent);
        return Ok(());
    }
    let end = log.ends.get_mut(side).ok_or_else(wrong)?;
    let refused = |[foreign, stale, repeated, wrong_tag, inconsistent]: [i64; 5]| {
        Ok::<_, String>(Kinds {
            foreign: number(foreign)?,
            stale: number(stale)?,
            repeated: number(repeated)?,
            wrong_tag: number(wrong_tag)?,
            inconsistent: number(inconsistent)?,
        })
    };
    match fact.what {
        What::End => {
            end.seen |= a != 0;
            end.last_cycle = end.last_cycle.max(known(b).map(cycle));
            end.last_left = end.last_left.max(known(c).map(handle).transpose()?);
            let moved = end.cycle.saturating_mul(shift);
            end.origin = end.origin.or(known(d).map(|origin| origin.saturating_sub(moved)));
        }
        What::LostRecords | What::Sent => {}
        What::Ran => end.phases[phase(a)?].push(Ran { due: b, late: c, took: d }),
        What::Outlier => {
            let phase = Phase::ALL[phase(b)?];
            end.outliers.push(Outlier { cycle: cycle(a), phase, due: c, late: d, took: e });
        }
        What::Failed => {
            let (handle, failed) = (handle(a)?, Some(errno(c)?));
            end.sends.push(Send { handle, message: u32::MAX, at: b, left: NONE, failed });
        }
        What::Application => {
            let (missed, repeated) = end.application.get_or_insert((0, 0));
            *missed = missed.saturating_add(number(a)?);
            *repeated = repeated.saturating_add(number(b)?);
        }
        What::RoundTrip => end.round_trips.push((cycle(a), b.cast_unsigned())),
        What::Skipped => end.skipped.push((cycle(a), u32::try_from(b).map_err(|_| wrong())?)),
        What::ReceiveFailed => {
            let first = end.receive_failed.entry(errno(a)?).or_insert(b);
            *first = b.min(*first);
        }
        What::Step => end.steps.push((a, b)),
        What::Drained => {
            let (messages, which) = (handle(b)?, known(d).map_or(Ok(0), handle)?);
            // Where it does not say why, it was written when there were requests alone.
            let cause = match known(c) {
                None | Some(1) => DrainCause::Asked { number: which },
                Some(0) => DrainCause::Standing { late: which },
                Some(_) => return Err(wrong()),
            };
            end.drained.push(Drain { cycle: cycle(a), messages, cause });
        }
        What::Breach => {
            let condition = usize::try_from(a).ok().and_then(|index| Condition::ALL.get(index)).ok_or_else(wrong)?;
            let change = if b == 0 { BreachChange::Began } else { BreachChange::Ended };
            let (cycle, counter) = (cycle(c), d.cast_unsigned());
            end.breaches.push(Noticed { condition: *condition, cycle, change, counter, at: e, carried: false });
        }
        What::Substituted => end.breaches.substituted += number(a)?,
        What::Outside => {
            end.outside.sum([number(a)?, number(b)?, number(c)?, number(d)?, number(e)?, number(f)?]);
        }
        What::Answered => end.outside.answered(a),
        What::Silence => end.outside.keep(Silence {
            cycle: cycle(a),
            begin: b,
            until: c,
            cycles: number(d)?,
            stirred: number(e)?,
            from_the_start: f & 1 != 0,
            over: f & 2 != 0,
            told: false,
        }),
        What::Refused => end.refusals.all.sum(&refused([a, b, c, d, e])?),
        What::Flood => {
            end.refusals.keep(Flood { begin: a, end: b, frames: refused([c, d, e, f, g])?, most: number(h)? });
        }
        What::WrongTag => {
            let vid = known(c).map(u16::try_from).transpose().map_err(|_| wrong())?;
            let pcp = known(d).map(u8::try_from).transpose().map_err(|_| wrong())?;
            First::sum(&mut end.wrong_tag, First { at: a, what: vid.zip(pcp), count: number(b)? });
        }
        What::Inconsistent => {
            First::sum(&mut end.inconsistent, First { at: a, what: c.cast_unsigned(), count: number(b)? });
        }
    }
    Ok(())
}
