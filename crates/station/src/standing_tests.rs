//! Standing backlogs, read by the executive on a scripted clock.

use std::cell::Cell;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use link::Tag;
use measure::{DrainCause, Event, EventKind, Side};
use pubsub::{DispatchKey, Dispatcher, Endpoint, StandingBacklog};
use rt::clock::Clock;
use rt::ring::Ring;
use rt::testing::FakeClock;
use rt::wait::Wait;
use scenario::{Backlog, LineSpec, line};
use units::{Nanos, Tai};

use crate::beat::{Beat, End, Times};
use crate::executive::{Executive, Span};
use crate::inlet::{Inlet, Source};

const CYCLE: Nanos = Nanos::from_millis(1);
const CYCLES: i64 = 200;

/// A scripted clock whose time a source can see, too.
struct Watched {
    clock: FakeClock,
    shown: Arc<AtomicI64>,
}

impl Watched {
    fn show(&self, at: Tai) -> Tai {
        self.shown.store(at.0, Ordering::Relaxed);
        at
    }
}

impl Clock for Watched {
    fn now(&self) -> Tai {
        self.show(self.clock.now())
    }

    fn sleep_until(&self, at: Tai) -> Tai {
        self.show(self.clock.sleep_until(at))
    }

    fn check_step(&mut self) -> Option<Nanos> {
        self.clock.check_step()
    }
}

/// What came out of a run.
struct Told {
    /// Cycle, messages, and cause of each drain.
    drained: Vec<(i64, u32, DrainCause)>,
    /// Cycle less counter of what the application had, by cycle.
    behind: Vec<(i64, i64)>,
    /// Messages decoded.
    arrived: usize,
}

/// A reader whose writer sends in every cycle; the thread wakes up late by `wakes`, phase after phase, and is asked to drain in
/// cycle `asked`.
fn read(
    drain_after: Option<u32>,
    wakes: impl IntoIterator<Item = Nanos, IntoIter: 'static>,
    asked: Option<i64>,
) -> Told {
    let scenario = line(&LineSpec::default());
    let stream = &scenario.streams[0];
    let layout = stream.layout(&scenario, false);
    let group = layout.group_header.and_then(|header| header.writer_group_id);
    let key = DispatchKey { publisher_id: layout.publisher_id, writer_group_id: group };
    let clock = FakeClock::new(Tai(1_000_000_000_000)).with_read_cost(Nanos(20)).with_wake_errors(wakes);
    let t0 = clock.now() + CYCLE;
    let mut writer = Endpoint::new(stream.endpoint(&scenario, true)).unwrap();
    let arrivals = (0..CYCLES).map(|cycle| {
        writer.application(cycle);
        // Sent at six tenths of its cycle; destination, source, tag and EtherType do not come with it.
        (t0 + CYCLE * cycle + CYCLE * 6 / 10, writer.publish(0).unwrap().frame[18..].to_vec())
    });
    let shown = Arc::new(AtomicI64::new(0));
    let tag = Tag { vid: stream.vid, pcp: stream.pcp, dei: false };
    let source = Source::Timed { arrivals: arrivals.collect(), read: 0, tag, now: Arc::clone(&shown) };
    let inlet = Inlet::new("eth0", source, Dispatcher::new(&[key]).unwrap(), vec![0]);
    let reader = Endpoint::new(stream.endpoint(&scenario, false)).unwrap();
    let mut end = End::new(0, Side::Reader, stream.tag(), reader);
    let drain_after = drain_after.and_then(NonZeroU32::new);
    end.standing = drain_after.map(StandingBacklog::new);
    let times = Times {
        cycle: CYCLE,
        subscribe: Nanos::ZERO,
        window: Nanos::ZERO,
        application: CYCLE * 3 / 10,
        publish: CYCLE * 6 / 10,
    };
    let mut beat = Beat::new(times, vec![end], vec![inlet]);
    beat.backlog = Backlog::Keep { drain_after };
    let ring = Ring::create("standing", 8192).unwrap();
    let (trace, mut events) = (ring.producer().unwrap(), ring.consumer().unwrap());
    let span = Span { t0, duration: CYCLE * CYCLES, tai_minus_utc: Nanos::ZERO };
    // Asked once a subscribe phase.
    let looks = Cell::new(0);
    let drains = || {
        let cycle = looks.replace(looks.get() + 1);
        asked.filter(|asked| cycle >= *asked).map_or(0, |_| crate::drain_request(7, None))
    };
    let never = || false;
    let clock = Watched { clock, shown };
    Executive::new((clock, Wait::Sleep), span, vec![beat], Vec::new(), trace, &never).with_drains(&drains).run();
    let mut told = Told { drained: Vec::new(), behind: Vec::new(), arrived: 0 };
    for event in std::iter::from_fn(|| events.pop()).filter_map(|record| Event::unpack(&record)) {
        match event.kind {
            EventKind::Drained { cycle, messages, cause, .. } => told.drained.push((cycle, messages, cause)),
            EventKind::Application { cycle, read: Some(counter), .. } => {
                told.behind.push((cycle, cycle - counter as i64));
            }
            EventKind::Arrived { .. } => told.arrived += 1,
            _ => {}
        }
    }
    told
}

/// The subscribe phase of cycle 40 wakes up so many cycles late.
fn hiccup(cycles: i64) -> impl Iterator<Item = Nanos> + 'static {
    (0..).map(move |sleep| if sleep == 40 * 3 { CYCLE * cycles + CYCLE / 10 } else { Nanos::ZERO })
}

fn behind_at(told: &Told, cycle: i64) -> i64 {
    told.behind.iter().find(|(at, _)| *at == cycle).unwrap().1
}

#[test]
fn a_backlog_stands_where_nothing_drains_it() {
    let told = read(None, hiccup(3), None);
    assert_eq!(told.drained, []);
    // Cycles 40 to 43 are left out; what came in them waits for ever.
    assert_eq!((behind_at(&told, 39), behind_at(&told, CYCLES - 1)), (0, 4));
}

#[test]
fn a_backlog_that_has_stood_is_drained_once() {
    for (after, cycles) in [(10, 3), (50, 3), (1, 1), (100, 30)] {
        let told = read(Some(after), hiccup(cycles), None);
        let late = (cycles + 1) as u32;
        // The first late message is read in the first cycle after those left out.
        let at = 40 + i64::from(late) + i64::from(after) - 1;
        assert_eq!(told.drained, [(at, late, DrainCause::Standing { late })], "after {after}");
        assert!(
            told.behind
                .iter()
                .filter(|(cycle, _)| (40..at).contains(cycle))
                .all(|(_, behind)| *behind == i64::from(late))
        );
        assert_eq!(behind_at(&told, at), 0);
        assert!(told.behind.iter().filter(|(cycle, _)| *cycle >= at).all(|(_, behind)| *behind == 0));
        // All but the last, which is sent when the run ends.
        assert_eq!(told.arrived as i64, CYCLES - 1);
    }
}

#[test]
fn what_comes_and_goes_is_not_drained() {
    // Late within its cycle, over and over: the message is there all the same.
    let told = read(Some(5), (0..).map(|sleep| if sleep % 7 == 0 { CYCLE / 4 } else { Nanos::ZERO }), None);
    assert_eq!(told.drained, []);
    // Two hiccups, each shorter than what has to stand: late by 2, then by 4, and only that for long enough.
    let twice = (0..).map(|sleep| match sleep {
        // The subscribe phases of cycles 40 and, as two are left out, 44.
        120 | 127 => CYCLE + CYCLE / 10,
        _ => Nanos::ZERO,
    });
    let told = read(Some(20), twice, None);
    assert_eq!(told.drained.len(), 1, "{:?}", told.drained);
    assert!(matches!(told.drained[0], (_, 4, DrainCause::Standing { late: 4 })), "{:?}", told.drained);
}

#[test]
fn a_request_comes_before_what_the_scenario_says() {
    let told = read(Some(50), hiccup(3), Some(60));
    // It is asked in each subscribe phase, four of which were left out.
    assert_eq!(told.drained, [(64, 4, DrainCause::Asked { number: 7 })]);
    assert_eq!(behind_at(&told, CYCLES - 1), 0);
}
