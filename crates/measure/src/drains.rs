//! Queues that were emptied although their readers take one message a cycle: on request, or because a backlog stood.

use scenario::{Scenario, Stream};

use crate::breaches::ENDS;
use crate::collect::StreamLog;
use crate::{DrainCause, DrainResult};

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Drain {
    /// In this cycle.
    pub(crate) cycle: i64,
    /// Messages read beyond the one that the cycle would have taken.
    pub(crate) messages: u32,
    /// Why.
    pub(crate) cause: DrainCause,
}

/// One entry an end that emptied its queue.
pub(crate) fn results(scenario: &Scenario, stream: &Stream, log: &StreamLog) -> Vec<DrainResult> {
    let mut found = Vec::new();
    for ((_, name), log) in ENDS.into_iter().zip(&log.ends) {
        if log.drained.is_empty() {
            continue;
        }
        let host = if name == "writer" { stream.writer } else { stream.reader };
        let of = |asked: bool| {
            log.drained.iter().filter(move |drain| matches!(drain.cause, DrainCause::Asked { .. }) == asked)
        };
        found.push(DrainResult {
            host: scenario.host(host).name.clone(),
            end: name.to_owned(),
            asked: of(true).count() as u64,
            standing: of(false).count() as u64,
            empty: log.drained.iter().filter(|drain| drain.messages == 0).count() as u64,
            messages: log.drained.iter().map(|drain| u64::from(drain.messages)).sum(),
        });
    }
    found
}
