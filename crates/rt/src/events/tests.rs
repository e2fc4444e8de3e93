use super::*;
use crate::testing::{FakeClock, FakeEvents, SharedClock};
use crate::wait::{Pacer, Wait};

const PERIOD: Nanos = Nanos::from_millis(1);
const START: Tai = Tai(1_000_000_000_000);
/// The grid begins a period after the clock.
const FIRST: Tai = Tai(1_000_001_000_000);
const CHANNEL: u32 = 1;
/// From the edge to the thread.
const LATENCY: Nanos = Nanos(4_000);
/// How late timers are.
const TIMER: Nanos = Nanos(60_000);
const US: fn(i64) -> Nanos = Nanos::from_micros;

type Tested = EventClock<SharedClock, FakeEvents>;
type Script = Vec<(Nanos, Result<Tick, i32>)>;

fn due(number: i64) -> Tai {
    FIRST + PERIOD * number
}

/// An event as it should be: how long after the start it can be read, and its stamp.
fn event(number: i64) -> (Nanos, Result<Tick, i32>) {
    (due(number) - START + LATENCY, Ok(Tick { at: due(number), index: CHANNEL }))
}

fn events(numbers: impl IntoIterator<Item = i64>) -> Script {
    numbers.into_iter().map(event).collect()
}

fn tested_on(clock: FakeClock, change: impl FnOnce(FakeEvents) -> FakeEvents) -> (Tested, SharedClock) {
    let shared = SharedClock::new(clock.with_wake_errors(std::iter::repeat(TIMER)));
    let grid = Grid { first: FIRST, period: PERIOD };
    let events = change(FakeEvents::new(shared.clone()));
    (EventClock::new(shared.clone(), events, CHANNEL, grid), shared)
}

fn tested(script: Script) -> (Tested, SharedClock) {
    tested_on(FakeClock::new(START), |events| events.with_events(script))
}

/// How late each of these waits ended.
fn wait(clock: &Tested, numbers: impl IntoIterator<Item = i64>) -> Vec<Nanos> {
    let late = |number| {
        let woke = clock.sleep_until(due(number));
        assert!(woke >= due(number) && woke == clock.now(), "never early");
        woke - due(number)
    };
    numbers.into_iter().map(late).collect()
}

#[test]
fn each_sleep_until_an_event_is_ended_by_it() {
    let (clock, _) = tested(events(0..100));
    assert_eq!(wait(&clock, 0..100), [LATENCY; 100]);
    let expected =
        Counts { woken: 100, after_min: LATENCY, after_max: LATENCY, after_sum: LATENCY * 100, ..Counts::default() };
    assert_eq!(clock.counts(), expected);
}

#[test]
fn other_instants_are_reached_by_the_clock_below() {
    let (clock, _) = tested(events(0..20));
    for number in 0..10 {
        assert_eq!(clock.sleep_until(due(number)), due(number) + LATENCY);
        let between = due(number) + PERIOD / 3;
        assert_eq!(clock.sleep_until(between), between + TIMER);
        assert_eq!(clock.sleep_until(between), clock.now(), "what is past needs no sleep");
    }
    let Counts { woken: 10, fallbacks: 0, passed_over: 0, .. } = clock.counts() else { panic!("{:?}", clock.counts()) };
    // Whoever needs every fifth is not woken by those before, which are passed over.
    assert_eq!(wait(&clock, [14, 19]), [LATENCY; 2]);
    let Counts { woken: 12, passed_over: 8, fallbacks: 0, .. } = clock.counts() else { panic!("{:?}", clock.counts()) };
}

#[test]
fn one_that_is_lost_ends_a_sleep_an_eighth_of_the_period_later() {
    let (clock, _) = tested(events((0..50).filter(|number| *number != 20)));
    let late = wait(&clock, 0..50);
    assert!((0..50).all(|number| late[number] == if number == 20 { PERIOD / 8 } else { LATENCY }), "{late:?}");
    let counts = clock.counts();
    assert_eq!((counts.woken, counts.fallbacks, counts.lost, counts.late, counts.stops), (49, 1, 1, 0, 0));
}

#[test]
fn one_that_is_late_is_waited_for_as_long_as_patience_lasts() {
    let mut script = events(0..50);
    script[10].0 += US(100);
    script[20].0 += US(130);
    let (clock, _) = tested(script);
    let late = wait(&clock, 0..50);
    assert_eq!((late[10], late[20], late[21]), (LATENCY + US(100), PERIOD / 8, LATENCY));
    let counts = clock.counts();
    assert_eq!((counts.woken, counts.fallbacks, counts.lost, counts.late), (49, 1, 0, 1));
    assert_eq!(counts.after_max, LATENCY + US(100));
}

#[test]
fn when_they_stop_the_clock_below_goes_on_and_once_a_second_they_are_tried_again() {
    // Gone from 10 to 2 500, but for one.
    let (clock, _) = tested(events((0..10).chain([700]).chain(2_500..4_000)));
    let late = wait(&clock, 0..4_000);
    let given_up: Vec<usize> = (0..4_000).filter(|number| late[*number] == PERIOD / 8).collect();
    // Three in a row, then one a second.
    assert_eq!(given_up, [10, 11, 12, 1014, 2016]);
    let by_timer = late.iter().filter(|late| **late == TIMER).count() as u64;
    assert!(late[3_018..].iter().all(|late| *late == LATENCY), "they are back");
    let counts = clock.counts();
    assert_eq!((counts.woken, counts.lost, counts.stops), (10 + 982, 5, 3));
    assert_eq!(counts.fallbacks, by_timer + 5);
    assert_eq!(counts.woken + counts.fallbacks, 4_000);
}

#[test]
fn doubled_foreign_and_astray_events_wake_nobody() {
    let mut script = events(0..40);
    script.push((event(5).0 + Nanos(10), event(5).1));
    script.push((event(6).0 + US(200), Ok(Tick { at: due(7), index: CHANNEL + 1 })));
    // Half a period off: the other edge.
    script.push((event(8).0 + US(500), Ok(Tick { at: due(8) + US(500), index: CHANNEL })));
    // Stamps of a clock that was set, and nonsense.
    for at in [due(20_000), due(-20_000), Tai(i64::MIN), Tai(i64::MAX)] {
        script.push((event(15).0 + US(300), Ok(Tick { at, index: CHANNEL })));
    }
    let (clock, _) = tested(script);
    assert_eq!(wait(&clock, 0..40), [LATENCY; 40]);
    let counts = clock.counts();
    assert_eq!((counts.woken, counts.doubled, counts.foreign, counts.astray), (40, 1, 1, 5));
    assert_eq!((counts.lost, counts.fallbacks), (0, 0));
}

#[test]
fn a_thread_that_stood_still_goes_on_with_the_event_that_is_due() {
    let (clock, shared) = tested(events(0..300));
    wait(&clock, 0..10);
    // What has been meanwhile is in the queue.
    shared.advance(PERIOD * 100);
    assert_eq!(wait(&clock, 115..200), [LATENCY; 85]);
    let counts = clock.counts();
    assert_eq!((counts.woken, counts.passed_over, counts.lost, counts.fallbacks), (95, 105, 0, 0));
}

#[test]
fn a_later_one_ends_a_sleep_whose_own_was_dropped_by_the_kernel() {
    // Stopped for 200 periods before the wait for 7: what is left in the queue begins far behind it.
    let stood_still = [PERIOD * 200].into_iter().chain(std::iter::repeat(TIMER));
    let shared = SharedClock::new(FakeClock::new(START).with_wake_errors(stood_still));
    let device = FakeEvents::new(shared.clone()).with_events(events(0..300));
    let clock = EventClock::new(shared, device, CHANNEL, Grid { first: FIRST, period: PERIOD });
    let late = wait(&clock, [7])[0];
    assert!(late < PERIOD * 200, "nothing more is waited for: {late}");
    let counts = clock.counts();
    assert_eq!((counts.woken, counts.lost, counts.fallbacks, counts.passed_over), (0, 1, 1, 0));
    assert_eq!(wait(&clock, 210..300), [LATENCY; 90]);
    let counts = clock.counts();
    assert_eq!((counts.woken, counts.lost, counts.stops), (90, 1, 0));
    assert_eq!(counts.passed_over, 128, "a whole queue");
}

#[test]
fn an_event_before_its_instant_is_waited_out() {
    // The device's clock runs ahead: by less than the limit, then by more.
    let early = |number, by| {
        let (at, tick) = event(number);
        (at - by, tick)
    };
    let script: Script = (0..10).map(|number| early(number, US(9))).chain((10..20).map(|n| early(n, US(40)))).collect();
    let (clock, shared) = tested(script);
    assert_eq!(wait(&clock, 0..10), [Nanos::ZERO; 10]);
    assert_eq!((clock.counts().early, clock.counts().after_min), (0, Nanos(-5_000)));
    assert_eq!(shared.spun(), Nanos(5_000) * 10);
    assert_eq!(wait(&clock, 10..20), [TIMER; 10]);
    assert_eq!((clock.counts().early, clock.counts().woken), (10, 20));
    assert_eq!(shared.spun(), Nanos(5_000) * 10, "not spun for long");
}

#[test]
fn when_the_time_is_set_events_count_only_where_the_clocks_agree() {
    // TAI jumps by a whole second after ten periods, the device's clock follows three seconds later.
    let jump = Nanos::from_millis(1_000);
    let follows = PERIOD * 3_000;
    let script = (0..9_000).map(|number| {
        let (at, tick) = event(number);
        (at, tick.map(|tick| if at < follows { tick } else { Tick { at: tick.at + jump, ..tick } }))
    });
    let clock = FakeClock::new(START).with_step(PERIOD * 10, jump);
    let (mut clock, _) = tested_on(clock, |events| {
        events.with_events(script).with_ahead(PERIOD * 10, -jump).with_ahead(follows, Nanos::ZERO)
    });
    let mut moved = 0;
    let mut late = Vec::new();
    for number in 0..8_000 {
        late.push(clock.sleep_until(due(number + moved)) - due(number + moved));
        // As the executive does: all instants move with the time.
        moved += clock.check_step().map_or(0, |step| step / PERIOD);
    }
    assert_eq!(moved, 1_000);
    assert_eq!(late[..9], [LATENCY; 9]);
    assert!(late[10..2_999].iter().all(|late| *late == TIMER), "by the clock below, punctually");
    // Found within a second.
    assert!(late[4_100..].iter().all(|late| *late == LATENCY), "{:?}", clock.counts());
    let counts = clock.counts();
    assert_eq!(counts.apart, Some(-jump));
    assert_eq!(counts.woken + counts.fallbacks, 8_000);
    assert_eq!((counts.lost, counts.stops), (0, 0));
}

#[test]
fn a_step_that_both_clocks_make_changes_nothing() {
    for jump in [PERIOD * 700, PERIOD * -700] {
        let script = (0..500).map(|number| {
            let (at, tick) = event(number);
            (at, tick.map(|tick| if number < 10 { tick } else { Tick { at: tick.at + jump, ..tick } }))
        });
        let clock = FakeClock::new(START).with_step(due(9) - START + US(500), jump);
        let (mut clock, _) = tested_on(clock, |events| events.with_events(script));
        let mut moved = 0;
        for number in 0..500 {
            assert_eq!(clock.sleep_until(due(number + moved)), due(number + moved) + LATENCY, "{number}");
            clock.sleep_until(due(number + moved) + PERIOD / 2 + TIMER);
            moved += clock.check_step().map_or(0, |step| step / PERIOD);
        }
        assert_eq!((clock.counts().woken, clock.counts().fallbacks), (500, 0), "{jump}");
    }
}

#[test]
fn a_device_that_fails_is_left_alone_for_a_second() {
    const ENODEV: i32 = libc::ENODEV;
    let gone: Script = (0..10_000).map(|_| (event(10).0 - US(300), Err(ENODEV))).collect();
    let (clock, _) = tested(events(0..10).into_iter().chain(gone).collect());
    let late = wait(&clock, 0..5_000);
    assert!(late[10..].iter().all(|late| *late == TIMER), "punctual without it");
    let counts = clock.counts();
    assert_eq!((counts.errors, counts.last_error, counts.stops), (5, ENODEV, 5), "once a second");
    assert_eq!((counts.woken, counts.fallbacks), (10, 4_990));
}

#[test]
fn a_hybrid_wait_does_not_spin_where_an_event_ends_it_and_does_where_none_comes() {
    let (clock, shared) = tested(events(0..500));
    let mut pacer = Pacer::new(Wait::Hybrid, PERIOD);
    let before = pacer.margin();
    for number in 0..500 {
        assert_eq!(pacer.wait(&clock, due(number)), due(number) + LATENCY);
    }
    assert_eq!((shared.spun(), pacer.margin()), (Nanos::ZERO, before), "nothing was learned of timers");
    // From here on there are none: after three, it is awake in time again.
    let late: Vec<Nanos> = (500..600).map(|number| pacer.wait(&clock, due(number)) - due(number)).collect();
    assert_eq!(late[..3], [PERIOD / 8; 3]);
    assert!(late[10..].iter().all(|late| *late == Nanos::ZERO), "{late:?}");
    assert_eq!(clock.counts().fallbacks, 100);
}

#[test]
fn the_limit_is_a_share_of_short_periods() {
    assert_eq!(Grid::limit(PERIOD), US(10));
    assert_eq!(Grid::limit(Nanos(31_250)), Nanos(1_562));
}
