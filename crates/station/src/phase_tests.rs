//! Threads with a phase each, against one thread with all, on a scripted clock that they share: time goes on when all of
//! them sleep, to the instant that is due first.

use std::cell::RefCell;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use link::Tag;
use measure::{Event, EventKind, Phase, Side};
use pubsub::{
    Action, BreachRule, BreachRules, Condition, DispatchKey, Dispatcher, Endpoint, EndpointConfig,
    NetworkMessageLayout, Reception, Role,
};
use rt::clock::Clock;
use rt::ring::Ring;
use rt::wait::Wait;
use scenario::Backlog;
use units::{Nanos, Tai};

use crate::beat::{Beat, End, Times};
use crate::engine::Delivers;
use crate::executive::{Executive, Span};
use crate::inlet::{Inlet, Source};
use crate::outlet::{Outlet, Target};

const CYCLE: Nanos = Nanos::from_millis(1);
const CYCLES: i64 = 300;
const T0: Tai = Tai(1_000_000_000_000);
const FIELDS: u16 = 3;
const TAG: Tag = Tag { vid: 8, pcp: 3, dei: false };

/// Whose turn it is.
struct Stage {
    state: Mutex<State>,
    turn: Condvar,
    shown: Arc<AtomicI64>,
}

struct State {
    now: Tai,
    /// Until when each thread sleeps; none for one that is awake.
    sleeping: Vec<Option<Tai>>,
    ended: Vec<bool>,
}

impl Stage {
    fn new(threads: usize) -> Arc<Self> {
        let state = State { now: T0 - CYCLE, sleeping: vec![None; threads], ended: vec![false; threads] };
        Arc::new(Self { state: Mutex::new(state), turn: Condvar::new(), shown: Arc::new(AtomicI64::new(0)) })
    }

    fn sleep(&self, who: usize, at: Tai) -> Tai {
        let mut state = self.state.lock().unwrap();
        state.sleeping[who] = Some(at.max(state.now));
        self.turn.notify_all();
        while !state.is_turn_of(who) {
            state = self.turn.wait(state).unwrap();
        }
        state.now = state.sleeping[who].take().unwrap();
        self.shown.store(state.now.0, Ordering::Relaxed);
        state.now
    }

    fn end(&self, who: usize) {
        self.state.lock().unwrap().ended[who] = true;
        self.turn.notify_all();
    }
}

impl State {
    fn is_turn_of(&self, who: usize) -> bool {
        let others = self.sleeping.iter().zip(&self.ended).filter(|(_, ended)| !**ended);
        let all_sleep = others.clone().all(|(sleeping, _)| sleeping.is_some());
        all_sleep && others.map(|(sleeping, _)| *sleeping).min() == Some(self.sleeping[who]) && {
            let first = (0..who).find(|other| !self.ended[*other] && self.sleeping[*other] == self.sleeping[who]);
            first.is_none()
        }
    }
}

/// What a thread sees of the stage; it wakes up late by the next of its errors.
struct Seen {
    stage: Arc<Stage>,
    who: usize,
    errors: RefCell<Box<dyn Iterator<Item = Nanos> + Send>>,
}

impl Clock for Seen {
    fn now(&self) -> Tai {
        self.stage.state.lock().unwrap().now
    }

    fn sleep_until(&self, at: Tai) -> Tai {
        let late = self.errors.borrow_mut().next().unwrap_or(Nanos::ZERO);
        self.stage.sleep(self.who, at + late)
    }

    fn check_step(&mut self) -> Option<Nanos> {
        None
    }
}

/// The `cycle`th application phase wakes up late by `late(cycle)`.
type Late = fn(i64) -> Nanos;

/// An echo that gets these messages, each at six tenths of its cycle, in one thread or in three: what it told.
fn run(apart: bool, rules: Option<BreachRules>, messages: &[(i64, Vec<u8>)], late: Late) -> Vec<EventKind> {
    let layout = |id| NetworkMessageLayout::papers(id, 101, FIELDS);
    let (write, read) = (Some((layout(2), None)), Some(layout(1)));
    let config = EndpointConfig { role: Role::Echo, write, read, variables: FIELDS };
    let mut endpoint = Endpoint::new(config).unwrap();
    if let Some(rules) = rules {
        endpoint = endpoint.watched(rules);
    }
    let mut end = End::new(0, Side::Reader, Some((TAG.vid, TAG.pcp)), endpoint);
    end.outlet = Some(0);
    let stage = Stage::new(if apart { 3 } else { 1 });
    let arrivals = messages.iter().map(|(cycle, uadp)| (T0 + CYCLE * *cycle + CYCLE * 6 / 10, uadp.clone())).collect();
    let source = Source::Timed { arrivals, read: 0, tag: TAG, now: Arc::clone(&stage.shown) };
    let key = DispatchKey { publisher_id: layout(1).publisher_id, writer_group_id: Some(101) };
    let inlet = Inlet::new("eth0", source, Dispatcher::new(&[key]).unwrap(), vec![0]);
    let times = Times {
        cycle: CYCLE,
        subscribe: Nanos::ZERO,
        window: Nanos::ZERO,
        application: CYCLE * 3 / 10,
        publish: CYCLE * 7 / 10,
    };
    let mut beat = Beat::new(times, vec![end], vec![inlet]);
    beat.backlog = Backlog::Drain;
    let beats: Vec<Beat> = if apart { beat.apart().unwrap().into() } else { vec![beat] };
    let threads = beats.len();
    std::thread::scope(|scope| {
        let run = |(who, beat): (usize, Beat)| {
            let stage = Arc::clone(&stage);
            scope.spawn(move || {
                let errors: Box<dyn Iterator<Item = Nanos> + Send> = match (threads, who) {
                    (1, _) => {
                        Box::new((0..).map(move |sleep| if sleep % 3 == 1 { late(sleep / 3) } else { Nanos::ZERO }))
                    }
                    (_, 1) => Box::new((0..).map(late)),
                    _ => Box::new(std::iter::empty()),
                };
                let clock = Seen { stage: Arc::clone(&stage), who, errors: RefCell::new(errors) };
                let ring = Ring::create("phases", 8192).unwrap();
                let (trace, mut events) = (ring.producer().unwrap(), ring.consumer().unwrap());
                let span = Span { t0: T0, duration: CYCLE * CYCLES, tai_minus_utc: Nanos::ZERO };
                let never = || false;
                let taken = Arc::new(Mutex::new(Vec::new()));
                let outlets = vec![Outlet::new(Target::Scripted { taken, refuses: false })];
                Executive::new((clock, Wait::Sleep), span, vec![beat], outlets, trace, &never).run();
                stage.end(who);
                let records = std::iter::from_fn(|| events.pop());
                records.filter_map(|record| Event::unpack(&record)).map(|event| event.kind).collect::<Vec<_>>()
            })
        };
        let handles: Vec<_> = beats.into_iter().enumerate().map(run).collect();
        handles.into_iter().flat_map(|handle| handle.join().unwrap()).collect()
    })
}

/// Messages with these counters, each in its cycle.
fn messages(counters: impl Iterator<Item = (i64, u64)>) -> Vec<(i64, Vec<u8>)> {
    let write = Some((NetworkMessageLayout::papers(1, 101, FIELDS), None));
    let config = EndpointConfig { role: Role::Source, write, read: None, variables: FIELDS };
    let message = |counter| {
        let mut writer = Endpoint::new(config.clone()).unwrap();
        writer.count_from(counter);
        writer.application(0);
        writer.publish(0).unwrap().frame.to_vec()
    };
    counters.map(|(cycle, counter)| (cycle, message(counter))).collect()
}

fn one_a_cycle() -> Vec<(i64, Vec<u8>)> {
    messages((0..CYCLES).map(|cycle| (cycle, cycle as u64 + 1)))
}

fn punctual(_: i64) -> Nanos {
    Nanos::ZERO
}

/// Half a cycle: beyond the publish phase.
fn slow(_: i64) -> Nanos {
    CYCLE / 2
}

fn phases(events: &[EventKind], of: Phase) -> Vec<(i64, Nanos)> {
    let ran = |kind: &EventKind| match kind {
        EventKind::Phase { cycle, phase, late, .. } if *phase == of => Some((*cycle, *late)),
        _ => None,
    };
    events.iter().filter_map(ran).collect()
}

fn published(events: &[EventKind]) -> Vec<(i64, u64, bool)> {
    let of = |kind: &EventKind| match kind {
        EventKind::Published { cycle, counter, repeated, .. } => Some((*cycle, *counter, *repeated)),
        EventKind::Substitute { value, handle: Some(_), .. } => Some((-1, *value, true)),
        _ => None,
    };
    events.iter().filter_map(of).collect()
}

fn read(events: &[EventKind]) -> Vec<(i64, Option<u64>, bool, u64)> {
    let of = |kind: &EventKind| match kind {
        EventKind::Application { cycle, read, repeated, missed, .. } => Some((*cycle, *read, *repeated, *missed)),
        _ => None,
    };
    events.iter().filter_map(of).collect()
}

fn superseded(events: &[EventKind]) -> Vec<u64> {
    let of = |kind: &EventKind| match kind {
        EventKind::Arrived { superseded, .. } => *superseded,
        _ => None,
    };
    events.iter().filter_map(of).collect()
}

fn breaches(events: &[EventKind]) -> Vec<EventKind> {
    events.iter().filter(|kind| matches!(kind, EventKind::Breach { .. })).copied().collect()
}

#[test]
fn punctual_threads_do_what_one_thread_does() {
    let [one, three] = [false, true].map(|apart| run(apart, None, &one_a_cycle(), punctual));
    for phase in [Phase::Subscribe, Phase::Application, Phase::Publish] {
        let expected: Vec<_> = (0..CYCLES).map(|cycle| (cycle, Nanos::ZERO)).collect();
        assert_eq!(phases(&three, phase), expected, "{phase:?}");
    }
    assert_eq!(read(&one), read(&three));
    assert_eq!(published(&one), published(&three));
    assert_eq!(published(&three).len() as i64, CYCLES - 1, "nothing to answer in the first cycle");
}

#[test]
fn a_slow_application_delays_one_thread_and_not_three() {
    let [one, three] = [false, true].map(|apart| run(apart, None, &one_a_cycle(), slow));
    let late = |events, phase| phases(events, phase).iter().filter(|(_, late)| *late > Nanos::ZERO).count() as i64;
    assert_eq!(late(&one, Phase::Publish), CYCLES, "one thread publishes late, over and over");
    for phase in [Phase::Subscribe, Phase::Publish] {
        assert_eq!((late(&three, phase), phases(&three, phase).len() as i64), (0, CYCLES), "{phase:?}");
    }
    assert_eq!(late(&three, Phase::Application), CYCLES);
    // What it makes goes out a cycle later.
    let expected: Vec<_> = (2..CYCLES).map(|cycle| (cycle, cycle as u64 - 1, false)).collect();
    assert_eq!(published(&three), expected);
    assert!(superseded(&three).is_empty(), "each message was taken");
}

#[test]
fn an_application_that_leaves_cycles_out_stops_nothing_else() {
    let stuck: Late = |cycle| if cycle == 50 { CYCLE * 7 / 2 } else { Nanos::ZERO };
    let events = run(true, None, &one_a_cycle(), stuck);
    let skipped: Vec<_> = events.iter().filter(|kind| matches!(kind, EventKind::Skipped { .. })).collect();
    assert_eq!(skipped, [&EventKind::Skipped { cycle: 50, cycles: 4 }]);
    for phase in [Phase::Subscribe, Phase::Publish] {
        assert_eq!(phases(&events, phase).len() as i64, CYCLES, "{phase:?}");
    }
    // Cycle 50 brings counter 50, which nobody takes; nor the three after it.
    assert_eq!(superseded(&events), [50, 51, 52, 53]);
    let sent: Vec<_> =
        published(&events).into_iter().filter(|(.., repeated)| *repeated).map(|(cycle, ..)| cycle).collect();
    assert_eq!(sent, [50, 51, 52, 53], "the last answer goes out again");
    let missed: u64 = read(&events).iter().map(|(.., missed)| missed).sum();
    assert_eq!(missed, 4);
}

#[test]
fn a_writer_that_begins_again_is_heard_again() {
    // It counts from the beginning after having counted to 100.
    let again = messages((0..CYCLES).map(|cycle| (cycle, if cycle < 100 { 1_000 + cycle } else { cycle - 99 } as u64)));
    let [one, three] = [false, true].map(|apart| run(apart, None, &again, punctual));
    assert_eq!(read(&one), read(&three));
    assert!(read(&three).last().unwrap().1.unwrap() < 1_000, "{:?}", read(&three).last());
}

#[test]
fn breaches_are_noticed_and_acted_on_alike() {
    // Counters 60 to 62 never come, and nothing for forty cycles from 100 on.
    let gone = |cycle: &i64| !(60..63).contains(cycle) && !(100..140).contains(cycle);
    let some = messages((0..CYCLES).filter(gone).map(|cycle| (cycle, cycle as u64 + 1)));
    for action in [Action::Count, Action::Hold, Action::Override(7), Action::Safe(9), Action::Stop] {
        let mut rules = BreachRules { receive_timeout: CYCLE * 10, ..BreachRules::default() };
        rules.rules[Condition::Missed.index()] = Some(BreachRule { action, recover: 3 });
        rules.rules[Condition::Silent.index()] = Some(BreachRule { action, recover: 5 });
        let [one, three] = [false, true].map(|apart| run(apart, Some(rules), &some, punctual));
        assert_eq!(breaches(&one), breaches(&three), "{action:?}");
        assert!(!breaches(&three).is_empty(), "{action:?}");
        assert_eq!(published(&one), published(&three), "{action:?}");
        assert_eq!(read(&one), read(&three), "{action:?}");
    }
}

#[test]
fn an_application_outside_answers_from_another_thread() {
    let layout = |id| NetworkMessageLayout::papers(id, 101, FIELDS);
    let (write, read) = (Some((layout(2), None)), Some(layout(1)));
    let config = EndpointConfig { role: Role::Echo, write, read, variables: FIELDS };
    let endpoint = Endpoint::with_values(config).unwrap().outside(CYCLE * 10);
    let [mut reading, mut computing, mut writing] = crate::Engine::from(endpoint).apart(true).unwrap();
    for cycle in 0..2_000 {
        let at = T0 + CYCLE * cycle;
        let (_, uadp) = messages([(cycle, cycle as u64 + 1)].into_iter()).remove(0);
        let reception = reading.receive(&uadp);
        let superseded = None;
        assert_eq!(reading.decoded(at, reception), Reception::Message { counter: cycle as u64 + 1, superseded });
        computing.supervise(cycle, at + Nanos(9), Nanos::ZERO);
        assert_eq!(computing.application(cycle).read, Some(cycle as u64 + 1));
        let given = computing.delivered(at + Nanos(9));
        assert_eq!((given.counter, given.age), (cycle as u64 + 1, Some(Nanos(9))));
        assert_eq!(given.values, [(cycle as u64 + 1).to_le_bytes(); 2].as_flattened());
        // It answers the inputs of two cycles ago.
        let values = [cycle as u8; 16];
        assert_eq!(writing.replace(&values, cycle - 2), cycle >= 2);
        let outgoing = writing.publish(0);
        assert_eq!(outgoing.map(|outgoing| outgoing.counter), (cycle >= 2).then(|| cycle as u64 - 1));
        if let Some(outgoing) = outgoing {
            // A Variant each.
            assert!(
                outgoing.frame.ends_with(&values[..8])
                    && outgoing.frame[..outgoing.frame.len() - 9].ends_with(&values[..8])
            );
        }
    }
    assert!(!writing.replace(&[0; 16], 3), "too long ago");
}
