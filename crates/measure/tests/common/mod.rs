//! Events of an exchange with launch times: cycle 250 µs, offset 150 µs, four cycles from writing a counter to
//! reading it back.
#![allow(dead_code)] // every test file uses its part

pub(crate) mod trace;

use downbeat_measure::{Collector, Event, EventKind, Kind, Machine, Observations, Phase, RunFile, Side, summarise};
use scenario::{LineSpec, Scenario, line};
use units::{Nanos, Tai};

pub(crate) const CYCLE: i64 = 250_000;
const OFFSET: i64 = 150_000;
const ONE_WAY: i64 = 1_000;

/// What happens to a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Fine,
    /// The send fails.
    NotSent,
    /// Handed over, never stamped, never arrived.
    Dropped,
    LostOut,
    /// Replaced at the reader by the next.
    Superseded,
    /// The answer is never stamped nor arrives.
    AnswerDropped,
    LostBack,
}

/// Sends of both ends so far.
#[derive(Debug, Default)]
pub(crate) struct Exchange {
    pub(crate) events: Vec<Event>,
    handles: [u32; 2],
}

pub(crate) fn scenario(bridges: usize) -> Scenario {
    line(&LineSpec { bridges, ..LineSpec::default() })
}

impl Exchange {
    pub(crate) fn push(&mut self, side: Side, kind: EventKind) {
        self.events.push(Event { stream: 0, side, kind });
    }

    /// Sends; gives whether it left.
    fn publish(&mut self, side: Side, cycle: i64, counter: u64, shift: i64, sent: Result<bool, i32>) {
        let handle = self.handles[side as usize];
        self.handles[side as usize] += 1;
        let launch = (cycle + 1) * CYCLE + OFFSET;
        self.push(
            side,
            EventKind::Published {
                cycle,
                counter,
                sequence: counter as u16,
                handle,
                at: Tai(cycle * CYCLE + 150_000 + shift),
                launch: Some(Tai(launch)),
                bytes: 77,
                repeated: false,
            },
        );
        match sent {
            Ok(true) => self.push(side, EventKind::Left { handle, at: Tai(launch + shift) }),
            Ok(false) => {}
            Err(errno) => self.push(side, EventKind::NotSent { handle, errno }),
        }
    }

    pub(crate) fn arrive(&mut self, side: Side, cycle: i64, counter: u64, shift: i64, superseded: Option<u64>) {
        self.push(
            side,
            EventKind::Arrived {
                cycle,
                counter,
                stamp: Some(Tai((cycle - 1) * CYCLE + OFFSET + ONE_WAY + shift)),
                decoded: Tai(cycle * CYCLE + 10_000 + shift),
                tag: Some((3000, 7)),
                superseded,
                inconsistent: false,
            },
        );
    }

    /// One message, `shift` later than planned from T1 to T8; `cycle` is that of the writer.
    pub(crate) fn message(&mut self, cycle: i64, counter: u64, fate: Fate, shift: i64) {
        let sent = match fate {
            Fate::NotSent => Err(5),
            Fate::Dropped => Ok(false),
            _ => Ok(true),
        };
        self.publish(Side::Writer, cycle, counter, shift, sent);
        if matches!(fate, Fate::NotSent | Fate::Dropped | Fate::LostOut) {
            return;
        }
        self.arrive(Side::Reader, cycle + 2, counter, shift, None);
        if fate == Fate::Superseded {
            self.arrive(Side::Reader, cycle + 2, counter + 1, shift + CYCLE, Some(counter));
            return;
        }
        self.publish(Side::Reader, cycle + 2, counter, shift, Ok(fate != Fate::AnswerDropped));
        if matches!(fate, Fate::AnswerDropped | Fate::LostBack) {
            return;
        }
        self.arrive(Side::Writer, cycle + 4, counter, shift, None);
        self.read_back(cycle + 4, counter, 4);
    }

    pub(crate) fn read_back(&mut self, cycle: i64, counter: u64, elapsed: u64) {
        let kind = EventKind::Application {
            cycle,
            wrote: None,
            read: Some(counter),
            repeated: false,
            missed: 0,
            round_trip_cycles: Some(elapsed),
        };
        self.push(Side::Writer, kind);
    }

    /// The subscribe phase of a cycle, at both ends.
    pub(crate) fn phase(&mut self, cycle: i64, writer_late: i64, reader_late: i64) {
        for (side, late) in [(Side::Writer, writer_late), (Side::Reader, reader_late)] {
            let kind = EventKind::Phase {
                cycle,
                phase: Phase::Subscribe,
                due: Tai(cycle * CYCLE),
                late: Nanos(late),
                took: Nanos(5_000),
            };
            self.push(side, kind);
        }
    }

    /// Messages 1 to `count` with the fates given by `fate`.
    pub(crate) fn run(count: u64, fate: impl Fn(u64) -> Fate) -> Self {
        let mut exchange = Self::default();
        for counter in 1..=count {
            exchange.message(counter as i64, counter, fate(counter), 0);
        }
        exchange
    }

    pub(crate) fn observe(&self, scenario: &Scenario) -> Observations {
        observe(scenario, &self.events)
    }

    pub(crate) fn summarise(&self, scenario: &Scenario) -> RunFile {
        summarise(scenario, &self.observe(scenario), Kind::Simulated, Machine::new())
    }
}

pub(crate) fn observe(scenario: &Scenario, events: &[Event]) -> Observations {
    let mut collector = Collector::new(scenario);
    events.iter().for_each(|&event| collector.push(event));
    collector.finish(scenario)
}
