//! A trace in which every instant is chosen.

use downbeat_measure::{EventKind, Parts, Phase, Side};
use scenario::Scenario;
use units::{Nanos, Tai};

use super::{CYCLE, Exchange};

/// Phases of the scenario within the cycle: subscribe 0 with a window of 50 µs, application 75 µs, publish 150 µs; the
/// launch is 150 µs into the next cycle.
const OFFSETS: [i64; 4] = [0, 75_000, 150_000, 150_000];

/// A trace in which every instant is chosen.
#[derive(Default)]
pub(crate) struct Trace {
    pub(crate) exchange: Exchange,
    handles: [u32; 2],
}

impl Trace {
    /// Both ends run their phases in these cycles, `late` after each was due.
    pub(crate) fn phases(&mut self, cycles: std::ops::Range<i64>, late: impl Fn(Side, i64, Phase) -> i64) {
        for cycle in cycles {
            for side in [Side::Writer, Side::Reader] {
                for (phase, offset) in Phase::ALL.into_iter().zip(OFFSETS) {
                    self.phase(side, cycle, phase, cycle * CYCLE + offset, late(side, cycle, phase), 1_000);
                }
            }
        }
    }

    pub(crate) fn phase(&mut self, side: Side, cycle: i64, phase: Phase, due: i64, late: i64, took: i64) {
        let (due, late, took) = (Tai(due), Nanos(late), Nanos(took));
        self.exchange.push(side, EventKind::Phase { cycle, phase, due, late, took });
    }

    pub(crate) fn skip(&mut self, side: Side, cycle: i64, cycles: u32) {
        self.exchange.push(side, EventKind::Skipped { cycle, cycles });
    }

    /// A message with these stamps; what is `None` was not stamped.
    pub(crate) fn message(&mut self, counter: u64, launch: Option<i64>, t: [Option<i64>; 8]) {
        for (side, out, home) in [(Side::Writer, 0, 6), (Side::Reader, 4, 2)] {
            let handle = self.handles[side as usize];
            self.handles[side as usize] += 1;
            if let Some(at) = t[out] {
                self.exchange.push(
                    side,
                    EventKind::Published {
                        cycle: at.div_euclid(CYCLE),
                        counter,
                        sequence: counter as u16,
                        handle,
                        at: Tai(at),
                        launch: launch.map(Tai),
                        bytes: 77,
                        repeated: false,
                    },
                );
            }
            if let Some(at) = t[out + 1] {
                self.exchange.push(side, EventKind::Left { handle, at: Tai(at) });
            }
            if let Some(decoded) = t[home + 1] {
                self.exchange.push(
                    side,
                    EventKind::Arrived {
                        cycle: decoded.div_euclid(CYCLE),
                        counter,
                        stamp: t[home].map(Tai),
                        decoded: Tai(decoded),
                        tag: Some((3000, 7)),
                        superseded: None,
                        inconsistent: false,
                    },
                );
            }
        }
    }

    pub(crate) fn parts(&self, scenario: &Scenario) -> Parts {
        let observations = self.exchange.observe(scenario);
        assert_eq!(observations.rows.len(), 1);
        observations.streams[0].parts[0]
    }
}
