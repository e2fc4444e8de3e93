//! The engine of one stream end, made from the scenario.

use measure::{EventKind, Side};
use pubsub::{Endpoint, LayoutError, Step};
use scenario::{Scenario, Stream, StreamEnd};

/// The engine at one end of `stream`.
pub(crate) fn endpoint(scenario: &Scenario, stream: &Stream, side: Side) -> Result<Endpoint, LayoutError> {
    stream.engine(scenario, if side == Side::Writer { StreamEnd::Writer } else { StreamEnd::Reader })
}

/// The event of an application phase.
pub(crate) fn application_event(step: &Step) -> EventKind {
    let Step { cycle, wrote, read, repeated, missed, round_trip_cycles } = *step;
    EventKind::Application { cycle, wrote, read, repeated, missed, round_trip_cycles }
}
