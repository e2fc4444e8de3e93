//! Simulated figures beside their bounds.

use calculus::{Bound, Exact, StreamBound};
use downbeat_sim::Outcome;
use num_traits::ToPrimitive;

/// A bound in picoseconds, rounded up.
pub(crate) fn picos(bound: &Bound) -> Option<i64> {
    bound.seconds().and_then(|limit| (limit * Exact::from_integer(1_000_000_000_000_i64.into())).ceil().to_i64())
}

/// What a stream took at most in a simulation and what its bounds say, each with its name; in any phase, and by the phases.
pub(crate) fn figures(
    outcome: &Outcome,
    index: usize,
    bound: &StreamBound,
) -> Vec<(&'static str, Option<i64>, Option<i64>)> {
    let of = |bound: &Bound| bound.nanos_ceil().map(|limit| limit.0);
    let rows = || outcome.observations.rows.iter().filter(|row| usize::from(row.stream) == index);
    let mut figures = vec![
        ("one way (ps)", outcome.network.delays[index].forward.max.map(|max| max.0), picos(&bound.one_way)),
        ("one way by the phases", rows().filter_map(|row| row.one_way()).max(), of(&bound.one_way_scheduled)),
        ("stack", rows().filter_map(|row| row.one_way_stack()).max(), of(&bound.one_way_stack_scheduled)),
    ];
    // Where an answer is lost, a later one brings the same counter home: no bound knows of losses.
    if let (Some(trip), true) = (&bound.round_trip, outcome.network.drops.is_empty()) {
        figures.push(("wire", rows().filter_map(|row| row.round_trip_wire()).max(), of(&trip.wire_scheduled)));
        figures.push(("round trip", rows().filter_map(|row| row.round_trip_stack()).max(), of(&trip.stack_scheduled)));
    }
    figures
}
