//! Requests to drain the queues of readers, one after the other: told to the hosts, and answered with what was read.

use measure::{DrainCause, Event, EventKind, Side};
use scenario::Scenario;
use serde_json::{Value, json};
use units::Nanos;

use crate::control::{Desk, refusal};
use crate::host::Hosts;

/// How long the ends may take, beside some cycles.
const PATIENCE: Nanos = Nanos::from_millis(2_000);
/// So many cycles of the slowest stream, too.
const PATIENT_CYCLES: i64 = 4;

/// Where requests to drain have got to.
pub(crate) struct Drains<'a> {
    scenario: &'a Scenario,
    /// The ends that read and run here.
    readers: Vec<(u16, Side)>,
    /// Number of the last request.
    number: u32,
    patience: Nanos,
    under_way: Option<Request>,
}

struct Request {
    ticket: u64,
    /// The stream, or none for all.
    stream: Option<u16>,
    /// Ends that have not drained yet.
    silent: Vec<(u16, Side)>,
    drained: Vec<Value>,
    until: Nanos,
}

impl<'a> Drains<'a> {
    /// No requests yet. `here` tells which ends run here.
    pub(crate) fn new(scenario: &'a Scenario, here: impl Fn(usize, Side) -> bool) -> Self {
        let mut readers = Vec::new();
        for (index, stream) in scenario.streams.iter().enumerate() {
            for (side, reads) in [(Side::Reader, true), (Side::Writer, stream.echo)] {
                if reads && here(index, side) {
                    readers.push((index as u16, side));
                }
            }
        }
        let longest = scenario.streams.iter().map(|stream| stream.cycle).max().unwrap_or(scenario.cycle);
        Self { scenario, readers, number: 0, patience: PATIENCE + longest * PATIENT_CYCLES, under_way: None }
    }

    /// What an end tells.
    pub(crate) fn see(&mut self, event: &Event) {
        let EventKind::Drained { cycle, messages, cause: DrainCause::Asked { number }, .. } = event.kind else {
            return;
        };
        let Some(request) = self.under_way.as_mut().filter(|_| number == self.number) else { return };
        let end = (event.stream, event.side);
        if let Some(index) = request.silent.iter().position(|silent| *silent == end) {
            request.silent.swap_remove(index);
            let mut told = named(self.scenario, end);
            told["cycle"] = cycle.into();
            told["messages"] = messages.into();
            request.drained.push(told);
        }
    }

    /// Answers what is done or has taken too long at `elapsed`, and tells the hosts of the next request.
    pub(crate) fn turn(&mut self, hosts: &Hosts, desk: &Desk, elapsed: Nanos) {
        if let Some(request) = self.under_way.take_if(|it| it.silent.is_empty() || elapsed >= it.until) {
            desk.answer_drain(request.ticket, request.answer(self.scenario));
        }
        if self.under_way.is_none()
            && let Some((ticket, stream)) = desk.take_drain()
        {
            let asked = |reader: &&(u16, Side)| stream.is_none_or(|stream| stream == reader.0);
            let silent: Vec<_> = self.readers.iter().filter(asked).copied().collect();
            if silent.is_empty() {
                desk.answer_drain(ticket, refusal("nobody reads it here: ask where the other end runs"));
                return;
            }
            self.number = self.number.wrapping_add(1);
            hosts.ask_to_drain(self.number, stream);
            let until = elapsed + self.patience;
            self.under_way = Some(Request { ticket, stream, silent, drained: Vec::new(), until });
        }
    }
}

impl Request {
    fn answer(mut self, scenario: &Scenario) -> Value {
        self.silent.sort_by_key(|(stream, side)| (*stream, *side == Side::Writer));
        let asked = |index: &usize| self.stream.is_none_or(|stream| usize::from(stream) == *index);
        let asked = (0..scenario.streams.len()).filter(asked).map(|index| scenario.streams[index].name.as_str());
        let mut answer = json!({ "ok": true, "asked": asked.collect::<Vec<_>>(), "drained": self.drained });
        if !self.silent.is_empty() {
            answer["silent"] = self.silent.into_iter().map(|end| named(scenario, end)).collect();
        }
        answer
    }
}

/// What an end is called.
fn named(scenario: &Scenario, (stream, side): (u16, Side)) -> Value {
    let stream = &scenario.streams[usize::from(stream)];
    let (end, host) = match side {
        Side::Writer => ("writer", stream.writer),
        Side::Reader => ("reader", stream.reader),
    };
    json!({ "stream": stream.name, "end": end, "host": scenario.host(host).name })
}
