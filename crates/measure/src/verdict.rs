//! The requirement against what was found: maxima, never means.

use scenario::{Limit, LimitValue, Quantity, Scenario};

use crate::words;
use crate::{Amount, Dist, StreamResult, Verdict, VerdictItem};

/// Judges every limit for every stream that it can concern: a limit of a round trip is for streams with an echo, unless
/// none has one. A quantity that was not measured does not meet its limit; one that only ends elsewhere can know
/// (`elsewhere`: writer and reader, an entry a stream) is not judged here.
pub(crate) fn judge(scenario: &Scenario, streams: &[StreamResult], elsewhere: &[[bool; 2]]) -> Verdict {
    let limits = &scenario.requirement;
    let any_echo = scenario.streams.iter().any(|stream| stream.echo);
    let concerns = |limit: &Limit, echo: bool| echo || !any_echo || !is_round_trip(limit.quantity);
    let streams_of = |limit: &'_ Limit| {
        let limit = *limit;
        let all = scenario.streams.iter().zip(streams).zip(elsewhere);
        let judged = all.filter(move |((stream, _), elsewhere)| {
            let needed = observers(limit.quantity, stream.echo);
            let known = needed.iter().zip(*elsewhere).all(|(needed, elsewhere)| !(*needed && *elsewhere));
            concerns(&limit, stream.echo) && known
        });
        judged.map(|((_, result), _)| result)
    };
    let items: Vec<_> = limits.iter().flat_map(|limit| streams_of(limit).map(|stream| item(limit, stream))).collect();
    // Limits that no stream can meet or miss are not met: nothing was shown.
    let met = items.iter().all(|item| item.met) && (limits.is_empty() || !streams.is_empty());
    Verdict { met, items }
}

/// Whether the writer, the reader has to be observed for a quantity.
fn observers(quantity: Quantity, echo: bool) -> [bool; 2] {
    match quantity {
        Quantity::OneWay | Quantity::OneWayStack | Quantity::LossLoopback => [true, true],
        Quantity::RoundTripWire
        | Quantity::RoundTripStack
        | Quantity::RoundTripCounter
        | Quantity::RoundTripVariation
        | Quantity::LossPublisher => [true, false],
        Quantity::SpacingError => [false, true],
        Quantity::LossSum => [true, !echo],
        Quantity::MissedCounters => [echo, !echo],
    }
}

fn is_round_trip(quantity: Quantity) -> bool {
    matches!(
        quantity,
        Quantity::RoundTripWire | Quantity::RoundTripStack | Quantity::RoundTripCounter | Quantity::RoundTripVariation
    )
}

fn item(limit: &Limit, stream: &StreamResult) -> VerdictItem {
    let quantity = limit.quantity;
    let found = find(quantity, limit.value, stream);
    let (limit_amount, unit) = match limit.value {
        LimitValue::Span(span) => (Amount::Whole(span.0), "ns"),
        LimitValue::Share(share) => (Amount::Share(share), "share"),
        LimitValue::Count(count) => (Amount::Whole(whole(count)), count_unit(quantity)),
    };
    let met = found.as_ref().is_ok_and(|(amount, _)| !exceeds(*amount, limit_amount));
    let why = match &found {
        Err(reason) => format!("not measured: {reason}"),
        Ok((amount, count)) => {
            let (found, limit) = (amount_words(*amount, unit), amount_words(limit_amount, unit));
            let relation = if met { "within" } else { "above" };
            format!(
                "{}: {found} found in {}, {relation} the limit of {limit}",
                quantity.words(),
                values(quantity, *count)
            )
        }
    };
    VerdictItem {
        quantity: quantity.key().to_owned(),
        stream: stream.name.clone(),
        unit: unit.to_owned(),
        limit: limit_amount,
        found: found.ok().map(|(amount, _)| amount),
        met,
        why,
    }
}

/// What was found, with the number of values it was found in; or why it was not.
fn find(quantity: Quantity, limit: LimitValue, stream: &StreamResult) -> Result<(Amount, u64), String> {
    let trips = &stream.round_trip;
    match quantity {
        Quantity::OneWay => maximum(&stream.one_way, "no message has both T2 and T3"),
        Quantity::OneWayStack => maximum(&stream.one_way_stack, "no message has both T1 and T4"),
        Quantity::RoundTripWire => maximum(&trips.wire, "no message has both T2 and T7 (the stream needs echo = true)"),
        Quantity::RoundTripStack => {
            maximum(&trips.stack, "no message has both T1 and T8 (the stream needs echo = true)")
        }
        Quantity::RoundTripCounter => {
            maximum(&trips.counter, "no counter was read back (the stream needs echo = true)")
        }
        Quantity::SpacingError => maximum(&stream.jitter.spacing_error, "no two consecutive messages have T3"),
        Quantity::RoundTripVariation => {
            maximum(&stream.jitter.round_trip_variation, "no two consecutive messages have both T2 and T7")
        }
        Quantity::LossPublisher => loss(stream.loss.dP, limit, stream),
        Quantity::LossLoopback => loss(stream.loss.dL, limit, stream),
        Quantity::LossSum => loss(stream.loss.dSum, limit, stream),
        Quantity::MissedCounters => {
            let missed = stream.counters.missed.ok_or("the application that counts them left no trace")?;
            if stream.frames == 0 {
                return Err("nothing was published".to_owned());
            }
            Ok((of_published(missed, limit, stream.frames), stream.frames))
        }
    }
}

fn maximum(dist: &Option<Dist>, missing: &str) -> Result<(Amount, u64), String> {
    dist.as_ref().map(|dist| (Amount::Whole(dist.max), dist.count)).ok_or_else(|| missing.to_owned())
}

fn loss(lost: Option<u64>, limit: LimitValue, stream: &StreamResult) -> Result<(Amount, u64), String> {
    let published = stream.loss.published;
    match lost {
        Some(lost) => Ok((of_published(lost, limit, published), published)),
        None if published == 0 => Err("nothing was published".to_owned()),
        None => Err("the trace of the reader is missing".to_owned()),
    }
}

/// As a share where the limit is one, else as the number it is.
fn of_published(count: u64, limit: LimitValue, published: u64) -> Amount {
    match limit {
        LimitValue::Share(_) => Amount::Share(count as f64 / published as f64),
        LimitValue::Span(_) | LimitValue::Count(_) => Amount::Whole(whole(count)),
    }
}

fn whole(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn exceeds(found: Amount, limit: Amount) -> bool {
    match (found, limit) {
        (Amount::Whole(found), Amount::Whole(limit)) => found > limit,
        // Not `found > limit`, so that no number that cannot be compared passes.
        _ => !matches!(as_f64(found).partial_cmp(&as_f64(limit)), Some(order) if order.is_le()),
    }
}

fn as_f64(amount: Amount) -> f64 {
    match amount {
        Amount::Whole(value) => value as f64,
        Amount::Share(value) => value,
    }
}

fn count_unit(quantity: Quantity) -> &'static str {
    match quantity {
        Quantity::RoundTripCounter => "cycles",
        Quantity::MissedCounters => "counters",
        _ => "messages",
    }
}

fn amount_words(amount: Amount, unit: &str) -> String {
    match (amount, unit) {
        (Amount::Whole(ns), "ns") => words::exact(ns),
        (Amount::Whole(count), _) => format!("{count} {unit}"),
        (Amount::Share(share), _) => words::percent(share),
    }
}

fn values(quantity: Quantity, count: u64) -> String {
    match quantity {
        Quantity::LossPublisher | Quantity::LossLoopback | Quantity::LossSum | Quantity::MissedCounters => {
            words::number(count, "message")
        }
        _ => words::number(count, "value"),
    }
}
