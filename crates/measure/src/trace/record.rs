//! How an event is packed.
//!
//! An event packs into a [`Record`] of one cache line, so that a real-time thread can put it into a
//! ring without allocating. Layout of word 0, from the lowest bit:
//!
//! | bits | content |
//! |---|---|
//! | 0–7 | kind, 1 to 14; a zeroed record is no event |
//! | 8 | side: 0 writer, 1 reader |
//! | 9–15 | flags: which optional values are present, and truth values |
//! | 16–31 | stream |
//! | 32–63 | a 32-bit value of the kind: handle, tag, phase, condition or number of cycles or frames |
//!
//! Words 1 to 7 hold the other values of the kind in the order of its fields; unused ones are zero.

use scenario::{BreachChange, Condition};
use units::{Nanos, Tai};

use super::{DrainCause, Event, EventKind, Phase, Record, Refused, Side};

const PUBLISHED: u64 = 1;
const LEFT: u64 = 2;
const NOT_SENT: u64 = 3;
const ARRIVED: u64 = 4;
const REFUSED: u64 = 5;
const APPLICATION: u64 = 6;
const PHASE: u64 = 7;
const SKIPPED: u64 = 8;
const RECEIVE_FAILED: u64 = 9;
const BREACH: u64 = 10;
const SUBSTITUTE: u64 = 11;
const CLOCK_STEPPED: u64 = 12;
const OUTSIDE: u64 = 13;
const DRAINED: u64 = 14;

const READER_BIT: u64 = 1 << 8;
/// Flags: first, second, third optional value; truth value of the kind.
const FIRST: u64 = 1 << 9;
const SECOND: u64 = 1 << 10;
const THIRD: u64 = 1 << 11;
const TRUTH: u64 = 1 << 12;
const FLAGS: u64 = FIRST | SECOND | THIRD | TRUTH;

fn flag(bit: u64, set: bool) -> u64 {
    if set { bit } else { 0 }
}

fn high(value: u32) -> u64 {
    u64::from(value) << 32
}

fn tai(at: Tai) -> u64 {
    at.0 as u64
}

impl Event {
    /// Packs the event. Allocates nothing.
    pub fn pack(&self) -> Record {
        let mut record = [0; 8];
        let head = match self.kind {
            EventKind::Published { cycle, counter, sequence, handle, at, launch, bytes, repeated } => {
                record[1] = cycle as u64;
                record[2] = counter;
                record[3] = tai(at);
                record[4] = launch.map_or(0, tai);
                record[5] = u64::from(sequence) | high(bytes);
                PUBLISHED | high(handle) | flag(FIRST, launch.is_some()) | flag(TRUTH, repeated)
            }
            EventKind::Left { handle, at } => {
                record[1] = tai(at);
                LEFT | high(handle)
            }
            EventKind::NotSent { handle, errno } => {
                record[1] = u64::from(errno as u32);
                NOT_SENT | high(handle)
            }
            EventKind::Arrived { cycle, counter, stamp, decoded, tag, superseded, inconsistent } => {
                record[1] = cycle as u64;
                record[2] = counter;
                record[3] = stamp.map_or(0, tai);
                record[4] = tai(decoded);
                record[5] = superseded.unwrap_or(0);
                let (vid, pcp) = tag.unwrap_or((0, 0));
                ARRIVED
                    | high(u32::from(vid) | u32::from(pcp) << 16)
                    | flag(FIRST, stamp.is_some())
                    | flag(SECOND, tag.is_some())
                    | flag(THIRD, superseded.is_some())
                    | flag(TRUTH, inconsistent)
            }
            EventKind::Refused { at, frames } => {
                record[1] = tai(at);
                record[2] = u64::from(frames.foreign) | high(frames.stale);
                record[3] = u64::from(frames.repeated) | high(frames.wrong_tag);
                REFUSED | high(frames.inconsistent)
            }
            EventKind::Application { cycle, wrote, read, repeated, missed, round_trip_cycles } => {
                record[1] = cycle as u64;
                record[2] = wrote.unwrap_or(0);
                record[3] = read.unwrap_or(0);
                record[4] = missed;
                record[5] = round_trip_cycles.unwrap_or(0);
                APPLICATION
                    | flag(FIRST, wrote.is_some())
                    | flag(SECOND, read.is_some())
                    | flag(THIRD, round_trip_cycles.is_some())
                    | flag(TRUTH, repeated)
            }
            EventKind::Phase { cycle, phase, due, late, took } => {
                record[1] = cycle as u64;
                record[2] = tai(due);
                record[3] = late.0 as u64;
                record[4] = took.0 as u64;
                PHASE | high(phase as u32)
            }
            EventKind::Skipped { cycle, cycles } => {
                record[1] = cycle as u64;
                SKIPPED | high(cycles)
            }
            EventKind::ReceiveFailed { at, errno } => {
                record[1] = tai(at);
                RECEIVE_FAILED | high(errno as u32)
            }
            EventKind::ClockStepped { at, by } => {
                record[1] = tai(at);
                record[2] = by.0 as u64;
                CLOCK_STEPPED
            }
            EventKind::Breach { cycle, condition, change, counter, at } => {
                record[1] = cycle as u64;
                record[2] = counter;
                record[3] = tai(at);
                BREACH | high(condition.index() as u32) | flag(TRUTH, change == BreachChange::Ended)
            }
            EventKind::Substitute { at, value, handle } => {
                record[1] = tai(at);
                record[2] = value;
                SUBSTITUTE | high(handle.unwrap_or(0)) | flag(FIRST, handle.is_some())
            }
            EventKind::Outside { cycle, at, new, stirred, answered_after, status } => {
                record[1] = cycle as u64;
                record[2] = tai(at);
                record[3] = answered_after.unwrap_or(0);
                OUTSIDE
                    | high(status)
                    | flag(FIRST, answered_after.is_some())
                    | flag(SECOND, stirred)
                    | flag(TRUTH, new)
            }
            EventKind::Drained { cycle, at, messages, cause } => {
                record[1] = cycle as u64;
                record[2] = tai(at);
                let (asked, which) = match cause {
                    DrainCause::Asked { number } => (true, number),
                    DrainCause::Standing { late } => (false, late),
                };
                record[3] = u64::from(which);
                DRAINED | high(messages) | flag(TRUTH, asked)
            }
        };
        record[0] = head | flag(READER_BIT, self.side == Side::Reader) | u64::from(self.stream) << 16;
        record
    }

    /// Unpacks a record; `None` when it holds no event of this version.
    pub fn unpack(record: &Record) -> Option<Self> {
        let head = record[0];
        let value = (head >> 32) as u32;
        let truth = head & TRUTH != 0;
        let present = |bit: u64, word: usize| (head & bit != 0).then_some(record[word]);
        let instant = |word: usize| Tai(record[word] as i64);
        if (head >> 9) & 0x7f & !(FLAGS >> 9) != 0 {
            return None;
        }
        let cycle = record[1] as i64;
        let kind = match head & 0xff {
            PUBLISHED => EventKind::Published {
                cycle,
                counter: record[2],
                sequence: record[5] as u16,
                handle: value,
                at: instant(3),
                launch: present(FIRST, 4).map(|ns| Tai(ns as i64)),
                bytes: (record[5] >> 32) as u32,
                repeated: truth,
            },
            LEFT => EventKind::Left { handle: value, at: instant(1) },
            NOT_SENT => EventKind::NotSent { handle: value, errno: record[1] as u32 as i32 },
            ARRIVED => EventKind::Arrived {
                cycle,
                counter: record[2],
                stamp: present(FIRST, 3).map(|ns| Tai(ns as i64)),
                decoded: instant(4),
                tag: (head & SECOND != 0).then_some((value as u16, (value >> 16) as u8)),
                superseded: present(THIRD, 5),
                inconsistent: truth,
            },
            REFUSED => EventKind::Refused {
                at: instant(1),
                frames: Refused {
                    foreign: record[2] as u32,
                    stale: (record[2] >> 32) as u32,
                    repeated: record[3] as u32,
                    wrong_tag: (record[3] >> 32) as u32,
                    inconsistent: value,
                },
            },
            APPLICATION => EventKind::Application {
                cycle,
                wrote: present(FIRST, 2),
                read: present(SECOND, 3),
                repeated: truth,
                missed: record[4],
                round_trip_cycles: present(THIRD, 5),
            },
            PHASE => EventKind::Phase {
                cycle,
                phase: *Phase::ALL.get(value as usize)?,
                due: instant(2),
                late: Nanos(record[3] as i64),
                took: Nanos(record[4] as i64),
            },
            SKIPPED => EventKind::Skipped { cycle, cycles: value },
            RECEIVE_FAILED => EventKind::ReceiveFailed { at: instant(1), errno: value as i32 },
            CLOCK_STEPPED => EventKind::ClockStepped { at: instant(1), by: Nanos(record[2] as i64) },
            BREACH => EventKind::Breach {
                cycle,
                condition: *Condition::ALL.get(value as usize)?,
                change: if truth { BreachChange::Ended } else { BreachChange::Began },
                counter: record[2],
                at: instant(3),
            },
            SUBSTITUTE => {
                EventKind::Substitute { at: instant(1), value: record[2], handle: (head & FIRST != 0).then_some(value) }
            }
            DRAINED => {
                let which = record[3] as u32;
                let cause =
                    if truth { DrainCause::Asked { number: which } } else { DrainCause::Standing { late: which } };
                EventKind::Drained { cycle, at: instant(2), messages: value, cause }
            }
            OUTSIDE => EventKind::Outside {
                cycle,
                at: instant(2),
                new: truth,
                stirred: head & SECOND != 0,
                answered_after: present(FIRST, 3),
                status: value,
            },
            _ => return None,
        };
        let side = if head & READER_BIT != 0 { Side::Reader } else { Side::Writer };
        Some(Self { stream: (head >> 16) as u16, side, kind })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn instant() -> impl Strategy<Value = Tai> {
        any::<i64>().prop_map(Tai)
    }

    fn kind() -> impl Strategy<Value = EventKind> {
        let published = (
            (any::<i64>(), any::<u64>(), any::<u16>(), any::<u32>()),
            (instant(), proptest::option::of(instant()), any::<u32>(), any::<bool>()),
        )
            .prop_map(|((cycle, counter, sequence, handle), (at, launch, bytes, repeated))| {
                EventKind::Published { cycle, counter, sequence, handle, at, launch, bytes, repeated }
            });
        let arrived = (
            (any::<i64>(), any::<u64>(), proptest::option::of(instant()), instant()),
            (any::<Option<(u16, u8)>>(), any::<Option<u64>>(), any::<bool>()),
        )
            .prop_map(|((cycle, counter, stamp, decoded), (tag, superseded, inconsistent))| {
                EventKind::Arrived { cycle, counter, stamp, decoded, tag, superseded, inconsistent }
            });
        let application =
            (
                (any::<i64>(), any::<Option<u64>>(), any::<Option<u64>>()),
                (any::<bool>(), any::<u64>(), any::<Option<u64>>()),
            )
                .prop_map(|((cycle, wrote, read), (repeated, missed, round_trip_cycles))| {
                    EventKind::Application { cycle, wrote, read, repeated, missed, round_trip_cycles }
                });
        let phase = (any::<i64>(), 0..4_usize, instant(), any::<i64>(), any::<i64>()).prop_map(
            |(cycle, phase, due, late, took)| EventKind::Phase {
                cycle,
                phase: Phase::ALL[phase],
                due,
                late: Nanos(late),
                took: Nanos(took),
            },
        );
        prop_oneof![
            published,
            (any::<u32>(), instant()).prop_map(|(handle, at)| EventKind::Left { handle, at }),
            (any::<u32>(), any::<i32>()).prop_map(|(handle, errno)| EventKind::NotSent { handle, errno }),
            arrived,
            (instant(), any::<[u32; 5]>()).prop_map(|(at, [foreign, stale, repeated, wrong_tag, inconsistent])| {
                let frames = Refused { foreign, stale, repeated, wrong_tag, inconsistent };
                EventKind::Refused { at, frames }
            }),
            application,
            phase,
            (any::<i64>(), any::<u32>()).prop_map(|(cycle, cycles)| EventKind::Skipped { cycle, cycles }),
            (any::<i64>(), instant(), any::<u32>(), any::<u32>(), any::<bool>()).prop_map(
                |(cycle, at, messages, which, asked)| EventKind::Drained {
                    cycle,
                    at,
                    messages,
                    cause: if asked {
                        DrainCause::Asked { number: which }
                    } else {
                        DrainCause::Standing { late: which }
                    },
                }
            ),
            (instant(), any::<i32>()).prop_map(|(at, errno)| EventKind::ReceiveFailed { at, errno }),
            (instant(), any::<i64>()).prop_map(|(at, by)| EventKind::ClockStepped { at, by: Nanos(by) }),
            (any::<i64>(), 0..Condition::COUNT, any::<bool>(), any::<u64>(), instant()).prop_map(
                |(cycle, condition, ended, counter, at)| EventKind::Breach {
                    cycle,
                    condition: Condition::ALL[condition],
                    change: if ended { BreachChange::Ended } else { BreachChange::Began },
                    counter,
                    at,
                }
            ),
            (instant(), any::<u64>(), proptest::option::of(any::<u32>()))
                .prop_map(|(at, value, handle)| EventKind::Substitute { at, value, handle }),
            (any::<i64>(), instant(), any::<[bool; 2]>(), proptest::option::of(any::<u64>()), any::<u32>()).prop_map(
                |(cycle, at, [new, stirred], answered_after, status)| EventKind::Outside {
                    cycle,
                    at,
                    new,
                    stirred,
                    answered_after,
                    status
                }
            ),
        ]
    }

    proptest! {
        #[test]
        fn every_event_comes_back_from_its_record(stream: u16, reader: bool, kind in kind()) {
            let side = if reader { Side::Reader } else { Side::Writer };
            let event = Event { stream, side, kind };
            prop_assert_eq!(Event::unpack(&event.pack()), Some(event));
        }

        #[test]
        fn no_record_panics(record: [u64; 8]) {
            let _ = Event::unpack(&record);
        }
    }

    #[test]
    fn a_zeroed_record_is_no_event() {
        assert_eq!(Event::unpack(&[0; 8]), None);
        assert_eq!(Event::unpack(&[PHASE | high(4), 0, 0, 0, 0, 0, 0, 0]), None);
        assert_eq!(Event::unpack(&[BREACH | high(4), 0, 0, 0, 0, 0, 0, 0]), None);
    }
}
