//! Applications outside that had nothing new for long.

use super::Seen;
use crate::outside::Silence;
use crate::{Incident, kinds, words};

/// One incident a stretch of silence.
pub(super) fn silent(seen: &Seen<'_>) -> Vec<Incident> {
    let mut incidents = Vec::new();
    for (side, end) in seen.log.ends.iter().enumerate() {
        incidents.extend(end.outside.silences().map(|silence| incident(seen, side, silence)));
    }
    incidents
}

fn incident(seen: &Seen<'_>, side: usize, silence: &Silence) -> Incident {
    let publishes = side == 0 || seen.stream.echo;
    let did = match (publishes, silence.stirred, silence.from_the_start) {
        (_, 0, true) => "nobody was attached to its image, or did anything",
        (_, 0, false) => "it neither read nor wrote: ended, stopped or stuck",
        (true, ..) => "it read, and wrote nothing",
        (false, ..) => "it did not read",
    };
    let kept = match (publishes, silence.from_the_start) {
        (true, true) if side == 1 => "; nothing was answered",
        (true, true) => "; its values were 0",
        (true, false) if silence.stirred == 0 && seen.stream.sends_status(seen.scenario) => {
            "; what it wrote last was published on, as uncertain once `receive_timeout` had passed"
        }
        (true, false) => "; what it wrote last was published on",
        (false, _) => "",
    };
    let until = if silence.over { "" } else { "; it went on when the run ended" };
    let cause = format!(
        "{}: the application of stream {} had nothing new for {}, from cycle {} on: {did}{kept}{until}",
        seen.host(side),
        seen.stream.name,
        words::number(silence.cycles, "cycle"),
        silence.cycle,
    );
    // Where answers are due, every cycle without one leaves a message unanswered.
    let frames = if side == 1 && seen.stream.echo { silence.cycles } else { 0 };
    let mut incident = seen.incident(kinds::APPLICATION_SILENT, silence.begin, cause, frames);
    incident.lasted_ns = Some(silence.until.saturating_sub(silence.begin));
    incident
}
