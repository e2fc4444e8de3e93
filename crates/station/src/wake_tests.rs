use measure::{Event, EventKind, Side};
use pubsub::{Endpoint, EndpointConfig, NetworkMessageLayout, Role};
use rt::clock::Clock;
use rt::ptp::Tick;
use rt::ring::Ring;
use rt::testing::{FakeClock, FakeEvents, SharedClock};
use rt::wait::Wait;

use super::*;
use crate::beat::End;
use crate::executive::{Executive, Span};

#[test]
fn values_are_read_as_they_are_written() {
    for text in [
        "monotonic",
        "ptp:/dev/ptp0",
        "ptp:enp1s0",
        "ptp:/dev/ptp3:out=2",
        "ptp:/dev/ptp0:out=0,in=1,out-channel=1,in-channel=2",
    ] {
        assert_eq!(text.parse::<Wake>().map(|wake| wake.to_string()).as_deref(), Ok(text));
    }
    let Ok(Wake::Ptp(wake)) = "ptp:/dev/ptp1:in=3,out=0".parse() else { panic!("a clock") };
    assert_eq!((wake.device.as_str(), wake.out_pin, wake.in_pin), ("/dev/ptp1", Some(0), Some(3)));
    assert_eq!((wake.out_channel, wake.in_channel), (0, 0));
}

#[test]
fn what_is_wrong_with_a_value_is_said() {
    for (text, words) in [
        ("tick", "expected monotonic or ptp:DEVICE"),
        ("ptp", "expected monotonic or ptp:DEVICE"),
        ("ptp:", "a device or a network interface expected"),
        ("ptp::out=1", "a device or a network interface expected"),
        ("ptp:/dev/ptp0:", "`` is no KEY=NUMBER"),
        ("ptp:/dev/ptp0:out", "`out` is no KEY=NUMBER"),
        ("ptp:/dev/ptp0:out=SDP0", "`out=SDP0`: a number expected"),
        ("ptp:/dev/ptp0:in=-1", "`in=-1`: a number expected"),
        ("ptp:/dev/ptp0:pin=1", "there is no `pin`"),
        ("ptp:/dev/ptp0:in=1,in=2", "`in` stands there twice"),
        ("ptp:/dev/ptp0:in=1,out=1", "join two by a wire"),
    ] {
        let error = text.parse::<Wake>().unwrap_err();
        assert!(error.contains(words), "{text}: {error}");
    }
}

fn scenario(change: impl FnOnce(String) -> String) -> Scenario {
    let text = change(scenario::template("two-hosts").unwrap().into());
    scenario::read(&text, "wake.toml").unwrap()
}

fn spec(scenario: &Scenario, wanted: impl Fn(usize, Side) -> bool) -> Option<EventSpec> {
    EventSpec::of(scenario, wanted, ("/dev/ptp0".into(), 0))
}

#[test]
fn events_come_when_the_shortest_cycle_publishes_or_else_reads() {
    let plain = scenario(|text| text);
    let both = spec(&plain, |_, _| true).unwrap();
    assert_eq!((both.period_ns, both.offset_ns, both.phase.as_str()), (1_000_000, 600_000, "publish"));
    assert_eq!(both.grid(Tai(5_000_000)), Grid { first: Tai(5_600_000), period: Nanos(1_000_000) });
    assert_eq!(spec(&plain, |_, _| false), None);
    // An end that only reads, alone.
    let sink = scenario(|text| text.replace("echo = true", "echo = false").replace("round_trip_wire = \"4ms\", ", ""));
    let reads = spec(&sink, |_, side| side == Side::Reader).unwrap();
    assert_eq!((reads.offset_ns, reads.phase.as_str()), (0, "subscribe"));
}

#[test]
fn threads_wait_for_them_whose_phases_begin_with_one() {
    let times = |cycle: Nanos, publish: i64| Times {
        cycle,
        subscribe: Nanos::ZERO,
        window: Nanos::ZERO,
        application: cycle * 3 / 10,
        publish: Nanos(publish),
    };
    let events = spec(&scenario(|text| text), |_, _| true).unwrap();
    let ms = Nanos::from_millis;
    for (times, all, publishing, reading) in [
        (times(ms(1), 600_000), true, true, false),
        (times(ms(2), 1_600_000), true, true, false),
        // The application of 2 ms begins then.
        (times(ms(2), 1_200_000), true, false, false),
        (times(ms(1), 700_000), false, false, false),
        (times(Nanos(1_500_000), 600_000), false, false, false),
    ] {
        let serves = |only| events.serves_any([&times], only);
        assert_eq!(serves(None), all, "{times:?}");
        assert_eq!(serves(Some(Phase::Publish)), publishing, "{times:?}");
        assert_eq!(serves(Some(Phase::Subscribe)), reading, "{times:?}");
    }
}

#[test]
fn of_three_threads_a_phase_one_waits_for_them() {
    for (threads, each) in [("stream", 1), ("host", 1), ("phase", 1)] {
        let scenario = scenario(|text| text.replace("[time]\n", &format!("[time]\nthreads = \"{threads}\"\n")));
        let events = spec(&scenario, |_, _| true).unwrap();
        for host in [HostId(0), HostId(1)] {
            let workers = crate::spec::workers(&scenario, host, |_, _| true, |_| Some("eth0"));
            assert_eq!(events.listeners(&scenario, host, &workers), each, "{threads}");
        }
    }
}

const CYCLE: Nanos = Nanos::from_millis(1);
const CYCLES: i64 = 200;
const LATENCY: Nanos = Nanos(5_000);
const TIMER: Nanos = Nanos(70_000);

/// Runs a writer whose publish phase begins with events; how late its phases began, by cycle, and the counts.
fn run(lost: impl Fn(i64) -> bool, wait: Wait) -> ([Vec<Nanos>; 2], Counts) {
    let times = Times {
        cycle: CYCLE,
        subscribe: Nanos::ZERO,
        window: Nanos::ZERO,
        application: CYCLE * 3 / 10,
        publish: CYCLE * 6 / 10,
    };
    let write = Some((NetworkMessageLayout::papers(1, 101, 3), None));
    let endpoint = Endpoint::new(EndpointConfig { role: Role::Source, write, read: None, variables: 3 }).unwrap();
    let beat = Beat::new(times, vec![End::new(0, Side::Writer, None, endpoint)], Vec::new());
    let start = Tai(1_000_000_000_000);
    let clock = SharedClock::new(FakeClock::new(start).with_wake_errors(std::iter::repeat(TIMER)));
    let t0 = start + CYCLE;
    let grid = Grid { first: t0 + times.publish, period: CYCLE };
    let event = |cycle: i64| {
        let at = grid.first + CYCLE * cycle;
        (at - start + LATENCY, Ok(Tick { at, index: 0 }))
    };
    let device = FakeEvents::new(clock.clone()).with_events((0..CYCLES).filter(|cycle| !lost(*cycle)).map(event));
    let clock = EventClock::new(clock, device, 0, grid);
    let ring = Ring::create("wake", 4096).unwrap();
    let (producer, mut consumer) = (ring.producer().unwrap(), ring.consumer().unwrap());
    let span = Span { t0, duration: CYCLE * CYCLES, tai_minus_utc: Nanos::ZERO };
    let mut executive = Executive::new((clock, wait), span, vec![beat], Vec::new(), producer, &|| false);
    executive.run();
    let clock = executive.into_clock();
    assert!(clock.now() < t0 + CYCLE * (CYCLES + 1), "no cycle more");
    let records = std::iter::from_fn(|| consumer.pop());
    let kinds: Vec<EventKind> = records.filter_map(|record| Event::unpack(&record)).map(|event| event.kind).collect();
    let late = |wanted| {
        let late = |kind: &EventKind| match kind {
            EventKind::Phase { phase, late, .. } if *phase == wanted => Some(*late),
            _ => None,
        };
        kinds.iter().filter_map(late).collect()
    };
    ([late(Phase::Application), late(Phase::Publish)], clock.counts())
}

#[test]
fn the_publish_phase_begins_with_its_event_and_the_others_by_timers() {
    for wait in [Wait::Sleep, Wait::Hybrid] {
        let ([application, publish], counts) = run(|_| false, wait);
        assert_eq!(publish, [LATENCY; CYCLES as usize], "{wait}");
        assert_eq!(application, [TIMER; CYCLES as usize], "{wait}");
        assert_eq!((counts.woken, counts.fallbacks), (CYCLES as u64, 0), "{wait}");
        assert_eq!(WakeEvents::from(counts).told(), None);
    }
}

#[test]
fn without_events_no_cycle_is_left_out_and_the_result_says_it() {
    let ([_, publish], counts) = run(|cycle| cycle == 20 || cycle >= 100, Wait::Sleep);
    assert_eq!(publish.len() as i64, CYCLES, "no cycle is skipped");
    let late: Vec<usize> = (0..CYCLES as usize).filter(|cycle| publish[*cycle] == CYCLE / 8).collect();
    assert_eq!(late, [20, 100, 101, 102]);
    assert!(publish[103..].iter().all(|late| *late == TIMER), "as punctual as any timer");
    let events = WakeEvents::from(counts);
    assert_eq!((events.woken, events.fallbacks, events.lost, events.stops), (99, 101, 4, 1));
    assert_eq!(events.after_ns, Some([LATENCY.0; 3]));
    let told = events.told().unwrap();
    assert_eq!(
        told,
        "101 of 200 waits for an event of the hardware clock were ended by the monotonic clock (4 events lost, 1 times given up for a \
         second)"
    );
}
