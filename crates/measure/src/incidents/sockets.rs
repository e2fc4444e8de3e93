//! What the operating system refused, by its error numbers.

use std::collections::BTreeMap;

use super::Seen;
use crate::{Incident, LAUNCH_INVALID, LAUNCH_LOST, LAUNCH_MISSED, LAUNCH_REFUSED, LAUNCH_SKIPPED, kinds, words};

/// No such device or address: the interface is gone.
const ENXIO: i32 = 6;
/// No such device.
const ENODEV: i32 = 19;
/// The interface is down.
const ENETDOWN: i32 = 100;
/// The queue of the interface dropped it.
const ENOBUFS: i32 = 105;

/// Sends that were refused, and receiving that failed, of both ends; once an end and reason.
pub(super) fn refused(seen: &Seen<'_>) -> Vec<Incident> {
    let mut incidents = Vec::new();
    for (side, end) in seen.log.ends.iter().enumerate() {
        let (host, stream) = (seen.host(side), &seen.stream.name);
        let mut down: Option<(i64, u64)> = None;
        let mut note = |at: i64, frames: u64| {
            let (first, all) = down.get_or_insert((at, 0));
            (*first, *all) = ((*first).min(at), *all + frames);
        };
        for (&errno, &at) in &end.receive_failed {
            if gone(errno) {
                note(at, 0);
            } else {
                let cause = format!("{host}: receiving of stream {stream} failed ({})", name(errno));
                incidents.push(seen.incident(kinds::LINK_DOWN, at, cause, 0));
            }
        }
        let mut by_errno: BTreeMap<i32, (i64, u64)> = BTreeMap::new();
        // A skipped launch the late host has explained.
        for (at, errno) in end.failed_sends().filter(|failed| failed.1 != LAUNCH_SKIPPED) {
            let at = at.unwrap_or(seen.scenario.base_time.0);
            let (first, count) = by_errno.entry(errno).or_insert((at, 0));
            (*first, *count) = ((*first).min(at), *count + 1);
        }
        for (errno, (at, count)) in by_errno {
            if gone(errno) {
                note(at, count);
                continue;
            }
            let frames = words::number(count, "frame");
            if errno >= LAUNCH_LOST {
                let cause = format!("{host}: the queue lost {frames} of stream {stream}: {}", lost(errno));
                incidents.push(seen.incident(kinds::LAUNCH_LOST, at, cause, count));
                continue;
            }
            let cause = format!("{host}: sending {frames} of stream {stream} was refused ({})", name(errno));
            incidents.push(seen.incident(kinds::SEND_REFUSED, at, cause, count));
        }
        if let Some((at, frames)) = down {
            let lost = match frames {
                0 => String::new(),
                frames => format!("; {} could not be sent", words::number(frames, "frame")),
            };
            let cause = format!("{host}: the interface of stream {stream} went down or was removed{lost}");
            incidents.push(seen.incident(kinds::LINK_DOWN, at, cause, frames));
        }
    }
    incidents
}

fn gone(errno: i32) -> bool {
    matches!(errno, ENETDOWN | ENXIO | ENODEV)
}

/// Why a queue lost frames with launch times.
fn lost(errno: i32) -> String {
    match errno {
        LAUNCH_INVALID => "their launch times were past when they came, or before that of a frame that had left \
                           (INVALID_PARAM); hand them over earlier, and those of streams that share a queue in the order \
                           of their launch times"
            .to_owned(),
        LAUNCH_MISSED => "their launch times passed while they waited (TXTIME_MISSED); its `delta` is below the latency \
                          of the host"
            .to_owned(),
        LAUNCH_REFUSED => "it did not take them (ENOBUFS) and does not say why; it was full, or their launch times were \
                           outside of their gate's window"
            .to_owned(),
        errno => name(errno - LAUNCH_LOST),
    }
}

fn name(errno: i32) -> String {
    match errno {
        ENOBUFS => "its queue was full: ENOBUFS".to_owned(),
        errno => std::io::Error::from_raw_os_error(errno).to_string(),
    }
}
