//! Reading against a clock that goes on by a fixed step a frame.

use std::cell::Cell;

use link::Tag;
use measure::{Event, Side};
use pubsub::{DispatchKey, Endpoint};
use rt::ring::{Consumer, Ring};
use scenario::{LineSpec, Scenario, line};

use super::*;
use crate::beat::{Beat, Times};

/// How long every frame takes, by the clock of these tests.
const STEP: Nanos = Nanos(1_000);

fn scenario() -> Scenario {
    line(&LineSpec::default())
}

fn tag(scenario: &Scenario) -> Tag {
    Tag { vid: scenario.streams[0].vid, pcp: scenario.streams[0].pcp, dei: false }
}

/// What the writer publishes with this counter.
fn message(scenario: &Scenario, counter: u64) -> Vec<u8> {
    let mut writer = Endpoint::new(scenario.streams[0].endpoint(scenario, true)).unwrap();
    (0..counter).for_each(|cycle| _ = writer.application(cycle as i64));
    let frame = writer.publish(0).unwrap().frame;
    // Destination, source, tag and EtherType.
    frame[18..].to_vec()
}

/// A reader's beat of 1 ms, whose clock ticks a step a look, and its trace.
struct Bench {
    beat: Beat,
    clock: Cell<i64>,
    trace: Producer,
    events: Consumer,
}

impl Bench {
    fn new(uadp: Vec<u8>, tag: Tag, left: usize) -> Self {
        let scenario = scenario();
        let stream = &scenario.streams[0];
        let mut reader = Endpoint::new(stream.endpoint(&scenario, false)).unwrap();
        // So that there is something newer than counter 1.
        reader.receive(&message(&scenario, 5));
        let layout = stream.layout(&scenario, false);
        let group = layout.group_header.and_then(|header| header.writer_group_id);
        let key = DispatchKey { publisher_id: layout.publisher_id, writer_group_id: group };
        let inlet = Inlet::new("eth0", Source::Scripted { uadp, tag, left }, Dispatcher::new(&[key]).unwrap(), vec![0]);
        let end = End::new(0, Side::Reader, stream.tag(), reader);
        let times = Times {
            cycle: Nanos(1_000_000),
            subscribe: Nanos::ZERO,
            window: Nanos::ZERO,
            application: Nanos(300_000),
            publish: Nanos(600_000),
        };
        let ring = Ring::create("inlet-test", 1 << 10).unwrap();
        let (trace, events) = (ring.producer().unwrap(), ring.consumer().unwrap());
        Self { beat: Beat::new(times, vec![end], vec![inlet]), clock: Cell::new(0), trace, events }
    }

    /// Reads until `until`; tells whether something may remain, how many events that left, and what was refused.
    fn drain(&mut self, until: Tai) -> (bool, usize, Refused) {
        let Self { beat, clock, trace, events } = self;
        let tick = || Tai(clock.replace(clock.get() + STEP.0) + STEP.0);
        let remains = beat.drain(Tai(0), until, tick, trace);
        let events: Vec<_> = std::iter::from_fn(|| events.pop()).filter_map(|record| Event::unpack(&record)).collect();
        let refused = events.iter().find_map(|event| match event.kind {
            EventKind::Refused { frames, .. } => Some(frames),
            _ => None,
        });
        (remains, events.len(), refused.unwrap_or_default())
    }
}

#[test]
fn a_flood_ends_the_reading_when_the_next_phase_is_due() {
    let scenario = scenario();
    let other = Tag { vid: tag(&scenario).vid + 1, ..tag(&scenario) };
    let garbage = vec![0; 40];
    let mut torn = message(&scenario, 6);
    *torn.last_mut().unwrap() ^= 1;
    for (uadp, tag, kind, singly) in [
        (garbage, tag(&scenario), Refused { foreign: 300, ..Refused::default() }, 0),
        (message(&scenario, 1), tag(&scenario), Refused { stale: 300, ..Refused::default() }, 4),
        (message(&scenario, 5), tag(&scenario), Refused { repeated: 300, ..Refused::default() }, 4),
        (message(&scenario, 6), other, Refused { wrong_tag: 296, ..Refused::default() }, 4),
        (torn, tag(&scenario), Refused { inconsistent: 296, ..Refused::default() }, 4),
    ] {
        let mut bench = Bench::new(uadp, tag, 1_000_000);
        // A step a frame: the 300th ends at the instant of the next phase.
        assert_eq!(bench.drain(Tai(300_000)), (true, singly + 1, kind));
        assert_eq!(bench.clock.get(), 300_000, "not a step longer");
        // However late it is, something is read: the queue moves.
        let (remains, _, refused) = bench.drain(Tai(0));
        // Counted without an event of its own, or the other way round.
        let counted = u64::from(kind.wrong_tag + kind.inconsistent == 0);
        assert_eq!((remains, refused.all()), (true, counted), "{kind:?}");
        assert_eq!(bench.clock.get(), 301_000);
    }
}

#[test]
fn what_is_there_is_read_in_one_go_when_there_is_time() {
    let scenario = scenario();
    let mut bench = Bench::new(message(&scenario, 1), tag(&scenario), 299);
    assert_eq!(bench.drain(Tai(300_000)), (false, 5, Refused { stale: 299, ..Refused::default() }));
    assert_eq!(bench.drain(Tai(300_000)), (false, 0, Refused::default()), "nothing is there, nothing is recorded");
}

#[test]
fn a_message_in_time_is_taken_and_nothing_is_refused() {
    let scenario = scenario();
    let mut bench = Bench::new(message(&scenario, 6), tag(&scenario), 1);
    assert_eq!(bench.drain(Tai(300_000)), (false, 1, Refused::default()));
    assert_eq!(bench.beat.ends[0].endpoint.application(1).read, Some(6));
}

#[test]
fn a_kept_backlog_is_drained_once_on_request_to_its_stream() {
    let scenario = scenario();
    let mut bench = Bench::new(message(&scenario, 1), tag(&scenario), 5);
    bench.beat.backlog = scenario::Backlog::KEEP;
    let stream = bench.beat.ends[0].stream;
    let left = |bench: &mut Bench, request| {
        bench.beat.asked(request);
        let now = bench.beat.start_of(bench.beat.cycle);
        let Bench { beat, clock, trace, events } = bench;
        beat.drain(now, Tai(i64::MAX), || Tai(clock.get()), trace);
        beat.cycle += 1;
        let drained = std::iter::from_fn(|| events.pop()).filter_map(|record| Event::unpack(&record));
        drained
            .filter_map(|event| match event.kind {
                EventKind::Drained { messages, .. } => Some(messages),
                _ => None,
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(left(&mut bench, 0), Vec::<u32>::new());
    assert_eq!(left(&mut bench, crate::drain_request(1, Some(stream + 1))), Vec::<u32>::new(), "another stream's");
    // Two of five are read: three are left, one of which the cycle would have taken.
    let request = crate::drain_request(2, Some(stream));
    assert_eq!(left(&mut bench, request), [2]);
    assert_eq!(left(&mut bench, request), Vec::<u32>::new(), "once");
}
