//! Telling the user of breaches while a run goes on.

use std::time::{Duration, Instant};

use measure::{Live, LiveBreach, Side};
use scenario::{Scenario, StreamEnd};

/// Breaches that the user has been told of: how often each had begun, and when the user was told.
#[derive(Default)]
pub(super) struct Told(Vec<(u64, Option<Instant>)>);

impl Told {
    /// A line for every breach that has begun since it was last told, at most one a second for each.
    pub(super) fn news(&mut self, scenario: &Scenario, live: &Live) -> Vec<String> {
        let mut lines = Vec::new();
        self.0.resize(live.breaches.len(), (0, None));
        for (breach, (times, last)) in live.breaches.iter().zip(&mut self.0) {
            let soon = last.is_some_and(|last| last.elapsed() < Duration::from_secs(1));
            if soon || breach.times <= *times {
                continue;
            }
            let more = breach.times - *times;
            (*times, *last) = (breach.times, Some(Instant::now()));
            lines.push(words(scenario, breach, more));
        }
        lines
    }
}

fn words(scenario: &Scenario, breach: &LiveBreach, more: u64) -> String {
    let Some(stream) = scenario.streams.get(usize::from(breach.stream)) else { return String::new() };
    let (host, end) = match breach.side {
        Side::Writer => (stream.writer, StreamEnd::Writer),
        Side::Reader => (stream.reader, StreamEnd::Reader),
    };
    let action = stream.watches(scenario, breach.condition, end).map_or("count", |plan| plan.rule.action.key());
    let again = if more > 1 { format!(", {more} times since this was last said") } else { String::new() };
    format!(
        "breach: {}: stream {} is {} from cycle {} (counter {}), action {action}{again}",
        scenario.host(host).name,
        stream.name,
        breach.condition.key(),
        breach.cycle,
        breach.counter
    )
}
