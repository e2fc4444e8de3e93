//! Floods: so many frames that are not taken that reading them costs the host's time and the queue's room.

use super::Seen;
use crate::refusals::Kinds;
use crate::{Incident, kinds, words};

/// Floods of frames that were read and not taken, once an end and stretch of time.
pub(super) fn floods(seen: &Seen<'_>) -> Vec<Incident> {
    let mut incidents = Vec::new();
    for (side, end) in seen.log.ends.iter().enumerate() {
        let host = seen.host(side);
        for flood in end.refusals.floods(seen.stream.cycle) {
            let frames = flood.frames.all();
            let lasted = flood.end.saturating_sub(flood.begin);
            let cause = format!(
                "{host}: a flood of {} within {}, at most {} read in one go: {}; none was taken. They cost time of its \
                 loop, and room in the queue of its socket",
                words::number(frames, "frame"),
                words::span(lasted),
                flood.most,
                of_what(&flood.frames, &seen.stream.name)
            );
            let mut incident = seen.incident(kinds::FLOOD, flood.begin, cause, frames);
            incident.lasted_ns = Some(lasted);
            incident.place = Some(host.to_owned());
            incidents.push(incident);
        }
    }
    incidents
}

fn of_what(frames: &Kinds, stream: &str) -> String {
    let parts = [
        (frames.foreign, "of no layout that is read there".to_owned()),
        (frames.stale, format!("older messages of stream {stream}")),
        (frames.repeated, format!("the newest message of stream {stream} again")),
        (frames.wrong_tag, format!("messages of stream {stream} with another tag")),
        (frames.inconsistent, format!("of stream {stream}'s layout with variables that differ")),
    ];
    let some = parts.into_iter().filter(|(count, _)| *count > 0);
    some.map(|(count, what)| format!("{count} {what}")).collect::<Vec<_>>().join(", ")
}
