//! Endpoints whose variables are values of their own, made by the engine or by an application outside.

use downbeat_pubsub::{
    Action, BreachRule, BreachRules, Condition, Endpoint, EndpointConfig, NetworkMessageLayout, OUTSIDE_CYCLES,
    Reception, Role, Status,
};
use units::{Nanos, Tai};

const VARIABLES: u16 = 3;
const TIMEOUT: Nanos = Nanos::from_millis(10);

fn layout(publisher_id: u16) -> NetworkMessageLayout {
    NetworkMessageLayout::papers(publisher_id, 101, VARIABLES)
}

fn end(role: Role) -> Endpoint {
    let (write, read) = match role {
        Role::Source => (Some(layout(1)), Some(layout(2))),
        Role::Echo => (Some(layout(2)), Some(layout(1))),
        Role::Sink => (None, Some(layout(1))),
    };
    let write = write.map(|layout| (layout, None));
    Endpoint::with_values(EndpointConfig { role, write, read, variables: VARIABLES }).unwrap()
}

fn message(from: &mut Endpoint) -> Option<Vec<u8>> {
    from.publish(133_500_000_000_000_000).map(|out| out.frame.to_vec())
}

/// The message arrives, decoded at `at`.
fn deliver(message: &[u8], to: &mut Endpoint, at: Tai) -> Reception {
    let reception = to.receive(message);
    to.decoded(at);
    reception
}

fn numbers(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect()
}

fn set(to: &mut Endpoint, values: [u64; 2]) {
    to.outputs().copy_from_slice(&values.map(u64::to_le_bytes).concat());
}

#[test]
fn without_an_application_outside_values_are_counted_and_echoed() {
    let (mut source, mut echo) = (end(Role::Source), end(Role::Echo));
    for cycle in 0..3 {
        let counter = cycle as u64 + 1;
        source.application(cycle);
        let sent = message(&mut source).unwrap();
        assert_eq!(deliver(&sent, &mut echo, Tai(cycle)), Reception::Message { counter, superseded: None });
        echo.application(cycle);
        let answer = message(&mut echo).unwrap();
        assert_eq!(deliver(&answer, &mut source, Tai(cycle)), Reception::Message { counter, superseded: None });
        assert_eq!(numbers(source.delivered(Tai(cycle)).values), [counter; 2]);
    }
}

#[test]
fn values_of_an_application_outside_go_there_and_come_back_changed() {
    let mut source = end(Role::Source).outside(TIMEOUT);
    let mut echo = end(Role::Echo).outside(TIMEOUT);
    let before = source.delivered(Tai(0));
    assert_eq!((before.counter, before.status, before.age), (0, Status::Bad, None));
    for cycle in 0..5 {
        let at = Tai(cycle * 1_000_000);
        source.application(cycle);
        set(&mut source, [10 + cycle as u64, 20]);
        assert!(source.answered(cycle));
        let sent = message(&mut source).unwrap();
        deliver(&sent, &mut echo, at);
        echo.application(cycle);
        let given = echo.delivered(at + Nanos(500));
        assert_eq!((given.counter, given.status, given.age), (cycle as u64 + 1, Status::Good, Some(Nanos(500))));
        let doubled = numbers(given.values).iter().map(|value| value * 2).collect::<Vec<_>>();
        set(&mut echo, [doubled[0], doubled[1]]);
        assert!(echo.answered(cycle));
        let answer = message(&mut echo).unwrap();
        assert_eq!(
            deliver(&answer, &mut source, at),
            Reception::Message { counter: cycle as u64 + 1, superseded: None },
            "variables that differ are no reason to refuse it"
        );
        assert_eq!(numbers(source.delivered(at).values), [20 + 2 * cycle as u64, 40]);
    }
    assert_eq!(source.application(5).round_trip_cycles, Some(1));
}

#[test]
fn an_echo_answers_only_what_was_answered_outside_and_never_something_older() {
    let (mut source, mut echo) = (end(Role::Source), end(Role::Echo).outside(TIMEOUT));
    let mut turn = |echo: &mut Endpoint, cycle: i64| {
        source.application(cycle);
        deliver(&message(&mut source).unwrap(), echo, Tai(cycle));
        echo.application(cycle);
    };
    for cycle in 0..4 {
        turn(&mut echo, cycle);
        assert_eq!(message(&mut echo), None, "nobody has answered");
    }
    let counter = |echo: &mut Endpoint| echo.publish(0).map(|out| (out.counter, out.repeated));
    assert!(echo.answered(2));
    assert_eq!(counter(&mut echo), Some((3, false)));
    assert!(echo.answered(1), "still remembered, but older");
    assert_eq!(counter(&mut echo), Some((3, true)));
    for unknown in [4, -1, i64::MIN, i64::MAX] {
        assert!(!echo.answered(unknown));
    }
    assert_eq!(counter(&mut echo), Some((3, true)), "last values stay");
    for cycle in 4..OUTSIDE_CYCLES as i64 + 3 {
        turn(&mut echo, cycle);
    }
    assert!(!echo.answered(2), "forgotten");
    assert!(echo.answered(3));
    assert_eq!(counter(&mut echo), Some((4, false)));
}

#[test]
fn silence_makes_inputs_bad_and_a_repeated_message_is_a_sign_of_life() {
    let (mut source, mut sink) = (end(Role::Source), end(Role::Sink).outside(TIMEOUT));
    source.application(0);
    let sent = message(&mut source).unwrap();
    deliver(&sent, &mut sink, Tai(0));
    assert_eq!(sink.delivered(Tai(0) + TIMEOUT).status, Status::Good);
    let late = Tai(0) + TIMEOUT + Nanos(1);
    assert_eq!(sink.delivered(late).status, Status::Bad);
    assert_eq!(deliver(&sent, &mut sink, late), Reception::Old { counter: 1, repeated: true });
    let given = sink.delivered(late);
    assert_eq!((given.status, given.age), (Status::Good, Some(TIMEOUT + Nanos(1))), "alive, but nothing newer");
    assert!(sink.outputs().is_empty());
    deliver(&[1, 2, 3], &mut sink, late + TIMEOUT + Nanos(1));
    assert_eq!(sink.delivered(late + TIMEOUT + Nanos(1)).status, Status::Bad, "a stranger is none");
}

#[test]
fn a_breach_says_what_the_application_outside_is_given() {
    let overriding = BreachRule { action: Action::Override(77), recover: 1 };
    let rules = BreachRules {
        rules: Condition::ALL.map(|condition| (condition == Condition::Silent).then_some(overriding)),
        receive_timeout: TIMEOUT,
        ..BreachRules::default()
    };
    let (mut source, mut echo) = (end(Role::Source), end(Role::Echo).outside(TIMEOUT).watched(rules));
    source.application(0);
    deliver(&message(&mut source).unwrap(), &mut echo, Tai(0));
    echo.supervise(0, Tai(1), Nanos::ZERO);
    echo.application(0);
    assert_eq!(numbers(echo.delivered(Tai(1)).values), [1, 1]);
    let late = Tai(0) + TIMEOUT + Nanos(1);
    assert!(!echo.supervise(1, late, Nanos::ZERO).is_empty());
    echo.application(1);
    let given = echo.delivered(late);
    assert_eq!((numbers(given.values), given.counter, given.status), (vec![77, 77], 77, Status::Bad));
    let sent = echo.publish(0).unwrap();
    assert!(sent.substitute && sent.counter == 77, "{sent:?}");
}
