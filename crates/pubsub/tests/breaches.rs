//! Endpoints that watch: which evidence begins a breach, what each action does meanwhile, and the way back.

use downbeat_pubsub::{
    Action, BreachChange, BreachRule, BreachRules, BreachState, Condition, Endpoint, EndpointConfig, EthernetHeader,
    NetworkMessageLayout, Outgoing, Reception, Role, Status, VlanTag,
};
use proptest::prelude::*;
use units::{Nanos, Tai};

const VARIABLES: u16 = 4;
const CYCLE: Nanos = Nanos(1_000_000);
const TAI_MINUS_UTC: Nanos = Nanos(37_000_000_000);
const HEADER: EthernetHeader = EthernetHeader {
    destination: [0x01, 0, 0x5E, 0x7F, 0, 1],
    source: [2, 0, 0, 0, 0, 1],
    vlan: Some(VlanTag { pcp: 7, dei: false, vid: 3000 }),
};

type MakeLayout = fn(u16, u16, u16) -> NetworkMessageLayout;
const LAYOUTS: [MakeLayout; 2] = [NetworkMessageLayout::papers, NetworkMessageLayout::periodic_fixed];

fn rules(condition: Condition, action: Action, recover: u32) -> BreachRules {
    let mut rules = BreachRules { receive_timeout: CYCLE * 5, ..BreachRules::default() };
    rules.rules[condition.index()] = Some(BreachRule { action, recover });
    rules
}

/// Nothing is watched for, but what is no counter is told apart.
fn no_rules() -> BreachRules {
    BreachRules { receive_timeout: CYCLE * 5, ..BreachRules::default() }
}

/// A source and its echo, and what is under way between them.
struct Pair {
    source: Endpoint,
    echo: Endpoint,
    /// Which way is open: there, back.
    open: [bool; 2],
    /// Every message loses the equality of its variables on the way there.
    torn: bool,
    /// How long after its application phase an end reads what came.
    decoded: Nanos,
    cycle: i64,
    flying: [Option<Vec<u8>>; 2],
    changes: Vec<(i64, Role, Condition, BreachChange)>,
    substitutes: u64,
}

impl Pair {
    fn new(layout: MakeLayout, source: BreachRules, echo: BreachRules) -> Self {
        let (there, back) = (layout(1, 101, VARIABLES), layout(2, 101, VARIABLES));
        let end = |role, write: &NetworkMessageLayout, read: &NetworkMessageLayout| {
            let config = EndpointConfig {
                role,
                write: Some((write.clone(), Some(HEADER))),
                read: Some(read.clone()),
                variables: VARIABLES,
            };
            Endpoint::new(config).expect("an endpoint")
        };
        Self {
            source: end(Role::Source, &there, &back).watched(source),
            echo: end(Role::Echo, &back, &there).watched(echo),
            open: [true; 2],
            torn: false,
            decoded: Nanos(0),
            cycle: 0,
            flying: [None, None],
            changes: Vec::new(),
            substitutes: 0,
        }
    }

    /// Both ends read what was sent a cycle ago, look, compute and publish.
    fn run(&mut self, cycles: i64) -> &mut Self {
        for _ in 0..cycles {
            let (cycle, now) = (self.cycle, Tai(0) + CYCLE * self.cycle);
            let arriving = std::mem::take(&mut self.flying);
            for (index, end) in [&mut self.source, &mut self.echo].into_iter().enumerate() {
                // The source (0) reads what went back (1).
                if let Some(mut message) = arriving[1 - index].clone() {
                    if self.torn && index == 1 {
                        *message.last_mut().unwrap() ^= 1;
                    }
                    self.substitutes += u64::from(matches!(end.receive(&message), Reception::Substitute { .. }));
                    end.decoded(now + self.decoded);
                }
                for (condition, change) in end.supervise(cycle, now, TAI_MINUS_UTC).iter() {
                    self.changes.push((cycle, end.role(), condition, change));
                }
                end.application(cycle);
                let published = end.publish(now.to_date_time(TAI_MINUS_UTC));
                self.flying[index] =
                    published.filter(|_| self.open[index]).map(|out| out.frame[HEADER.bytes()..].to_vec());
            }
            self.cycle += 1;
        }
        self
    }

    fn changes(&self) -> Vec<(i64, Role, Condition, BreachChange)> {
        self.changes.clone()
    }

    /// What an end publishes now; the other does not hear it.
    fn outgoing(end: &mut Endpoint, cycle: i64) -> Option<(u64, bool, Vec<u8>)> {
        let at = (Tai(0) + CYCLE * cycle).to_date_time(TAI_MINUS_UTC);
        end.publish(at)
            .map(|Outgoing { frame, counter, substitute, .. }| (counter, substitute, frame[HEADER.bytes()..].to_vec()))
    }
}

use BreachChange::{Began, Ended};
use Condition::{Inconsistent, Late, Missed, Silent};
use Role::{Echo, Source};

#[test]
fn a_silent_writer_is_noticed_after_its_time_and_forgiven_after_good_cycles() {
    for layout in LAYOUTS {
        let mut pair = Pair::new(layout, rules(Silent, Action::Count, 3), no_rules());
        pair.run(20);
        assert_eq!((pair.changes(), pair.source.breach(Silent)), (vec![], Some(BreachState::Normal)));
        assert_eq!(pair.source.breach(Late), None, "not watched for");
        pair.open[1] = false;
        // What was sent in cycle 19 is the last that comes, in cycle 20; more than five cycles later it is silent.
        pair.run(30);
        assert_eq!(pair.changes(), [(26, Source, Silent, Began)]);
        assert_eq!(pair.source.breach_counter(Silent), pair.source.input().unwrap().0);
        pair.open[1] = true;
        pair.run(10);
        // Sent from cycle 50 on, heard in 51, 52 and 53.
        assert_eq!(pair.changes()[1..], [(53, Source, Silent, Ended)]);
    }
}

#[test]
fn before_the_first_message_nobody_is_silent() {
    let mut pair = Pair::new(LAYOUTS[0], rules(Silent, Action::Stop, 1), no_rules());
    pair.open = [false; 2];
    pair.run(100);
    assert!(pair.changes().is_empty());
}

#[test]
fn a_message_whose_variables_differ_is_noticed_where_it_is_read() {
    for layout in LAYOUTS {
        let mut pair = Pair::new(layout, no_rules(), rules(Inconsistent, Action::Count, 2));
        pair.run(10).torn = true;
        pair.run(20);
        assert_eq!(pair.changes(), [(10, Echo, Inconsistent, Began)]);
        pair.torn = false;
        pair.run(10);
        assert_eq!(pair.changes()[1..], [(31, Echo, Inconsistent, Ended)]);
        // An end that watches for silence too is not deceived: the writer is there.
        let mut both = rules(Inconsistent, Action::Count, 2);
        both.rules[Silent.index()] = Some(BreachRule { action: Action::Count, recover: 1 });
        let mut pair = Pair::new(layout, no_rules(), both);
        pair.run(10).torn = true;
        pair.run(40);
        assert_eq!(pair.changes(), [(10, Echo, Inconsistent, Began)]);
    }
}

#[test]
fn counters_that_never_come_are_counted_from_message_to_message() {
    for (allowed_missing, found) in [(0, true), (6, true), (7, false), (100, false)] {
        let mut pair = Pair::new(LAYOUTS[0], BreachRules { allowed_missing, ..rules(Missed, Action::Count, 3) }, {
            BreachRules { allowed_missing, ..rules(Missed, Action::Count, 3) }
        });
        pair.run(20).open[0] = false;
        pair.run(7).open[0] = true;
        pair.run(20);
        // Seven are lost on the way there: the echo notices first, then the source.
        let expected = [(28, Echo, Missed, Began), (29, Source, Missed, Began)];
        let ended = [(31, Echo, Missed, Ended), (32, Source, Missed, Ended)];
        let expected = if found { [expected, ended].concat() } else { Vec::new() };
        assert_eq!(pair.changes(), expected, "{allowed_missing} allowed");
    }
}

#[test]
fn a_source_measures_its_round_trip_and_a_reader_the_way_by_the_timestamp() {
    // Out and back takes two cycles here; a limit that is met to the tick is met.
    for (way, cycles, late) in [
        (Some(CYCLE * 2), None, false),
        (Some(CYCLE * 2 - Nanos(1)), None, false),
        (Some(CYCLE * 2 - Nanos(100)), None, true),
        (None, Some(2), false),
        (None, Some(1), true),
    ] {
        let limits =
            BreachRules { longest_way: way, longest_round_trip_cycles: cycles, ..rules(Late, Action::Count, 1) };
        let mut pair = Pair::new(LAYOUTS[0], limits, no_rules());
        pair.run(50);
        let expected = if late { vec![(2, Source, Late, Began)] } else { vec![] };
        assert_eq!(pair.changes(), expected, "{way:?} {cycles:?}");
    }
    // A reader knows where the way began by the Timestamp alone; without one it never says late.
    for (layout, late) in [(LAYOUTS[0], true), (LAYOUTS[1], false)] {
        let limits = BreachRules { longest_way: Some(Nanos(1_200_000)), ..rules(Late, Action::Count, 3) };
        let mut pair = Pair::new(layout, no_rules(), limits);
        pair.run(10).decoded = Nanos(300_000);
        pair.run(10).decoded = Nanos(0);
        pair.run(10);
        let expected = [(10, Echo, Late, Began), (22, Echo, Late, Ended)];
        assert_eq!(pair.changes(), if late { expected.to_vec() } else { vec![] });
    }
}

#[test]
fn held_values_are_the_last_usable_ones_until_normal_again() {
    for layout in LAYOUTS {
        let mut pair = Pair::new(layout, rules(Missed, Action::Hold, 3), no_rules());
        pair.run(20);
        let (usable, status) = pair.source.input().unwrap();
        assert_eq!(status, Status::Good);
        pair.open[1] = false;
        pair.run(4).open[1] = true;
        // The message that shows what is missing is not given to the application, nor are the two after it.
        pair.run(2);
        let last = usable + 1;
        for _ in 0..3 {
            assert_eq!(pair.source.input(), Some((last, Status::Bad)), "cycle {}", pair.cycle);
            pair.run(1);
        }
        assert_eq!(pair.source.input(), Some((last + 8, Status::Good)));
        let ends = [(25, Source, Missed, Began), (28, Source, Missed, Ended)];
        assert_eq!(pair.changes(), ends, "to hold is no reason to miss anything");
        pair.run(300);
        assert_eq!(pair.changes(), ends);
    }
}

#[test]
fn a_long_hold_is_no_silence_and_old_messages_stay_old() {
    // Held for ever, since every message is late.
    let limits = BreachRules { longest_way: Some(Nanos(1_000)), ..rules(Late, Action::Hold, 3) };
    let mut pair = Pair::new(LAYOUTS[0], limits, no_rules());
    pair.run(500);
    assert_eq!(pair.changes(), [(2, Source, Late, Began)]);
    assert_eq!(pair.source.input(), Some((0, Status::Bad)), "nothing was usable yet");
    assert_eq!(pair.source.counts().resynchronised, 0);
    let stale = pair.source.counts().stale;
    let old = {
        let layout = NetworkMessageLayout::papers(2, 101, VARIABLES);
        let mut template = downbeat_pubsub::WriterTemplate::new(&layout, None).unwrap();
        let run = template.uint64_run(0, 1..5).unwrap();
        template.fill(&run, 100);
        template.set_field(0, 0, downbeat_pubsub::Value::Boolean(true)).unwrap();
        template.uadp().to_vec()
    };
    pair.source.receive(&old);
    assert_eq!(pair.source.counts().stale, stale + 1);
}

#[test]
fn an_overriding_value_is_what_the_application_has_and_what_an_echo_answers() {
    for layout in LAYOUTS {
        let mut pair = Pair::new(layout, no_rules(), rules(Silent, Action::Override(77), 2));
        pair.run(20).open[0] = false;
        pair.run(20);
        assert_eq!(pair.changes(), [(26, Echo, Silent, Began)]);
        assert_eq!(pair.echo.input(), Some((77, Status::Bad)));
        let substitutes = pair.substitutes;
        assert!(substitutes > 10, "the source tells them from counters: {substitutes}");
        let (counter, substitute, message) = Pair::outgoing(&mut pair.echo, 40).unwrap();
        assert_eq!((counter, substitute), (77, true));
        let reader = downbeat_pubsub::ReaderLayout::new(&layout(2, 101, VARIABLES)).unwrap();
        assert_eq!(reader.data_set_status(&message, 0).unwrap_or(0x808D), 0x808D, "Bad where there is a Status");
        let read = pair.source.input().unwrap();
        assert!(read.0 < 30 && read.1 == Status::Good, "{read:?}: 77 is no counter");
        pair.open[0] = true;
        pair.run(20);
        assert_eq!(pair.changes()[1..], [(42, Echo, Silent, Ended)]);
        let message = Pair::outgoing(&mut pair.echo, 60).unwrap();
        assert!(!message.1 && message.0 > 50, "{message:?}");
        assert_eq!(reader.data_set_status(&message.2, 0).unwrap_or(0), 0, "good again");
        assert!(pair.source.input().unwrap().0 > 50);
        assert_eq!(pair.source.counts().stale, 0);
    }
}

#[test]
fn safe_outputs_on_both_sides_find_back_by_themselves() {
    let all = |value| {
        let mut rules = rules(Silent, Action::Safe(value), 3);
        rules.rules[Missed.index()] = Some(BreachRule { action: Action::Safe(value), recover: 3 });
        rules
    };
    // 0 is below every counter, the others are above those of the run or among them.
    for (layout, values) in [(LAYOUTS[0], [0, 0]), (LAYOUTS[1], [u64::MAX, 1 << 40]), (LAYOUTS[0], [25, 1_000])] {
        for lost in [4, 40, 400] {
            let mut pair = Pair::new(layout, all(values[0]), all(values[1]));
            pair.run(20).open = [false; 2];
            pair.run(lost);
            if lost > 10 {
                let (value, substitute, _) = Pair::outgoing(&mut pair.source, pair.cycle).unwrap();
                assert_eq!((value, substitute), (values[0], true));
            }
            pair.open = [true; 2];
            pair.run(100);
            let changes = pair.changes();
            let began = changes.iter().filter(|change| change.3 == Began).count();
            assert!((1..=4).contains(&began) && changes.len() == 2 * began, "{lost}: {changes:?}");
            let (read, status) = pair.source.input().unwrap();
            // Two cycles out and back, whatever was in between.
            assert_eq!((read, status), ((pair.cycle - 2) as u64, Status::Good), "{lost}: {changes:?}");
            let resynchronised = pair.source.counts().resynchronised + pair.echo.counts().resynchronised;
            assert!(resynchronised == 0 || lost > 100, "{lost}");
        }
    }
}

#[test]
fn safe_outputs_of_one_side_are_no_missed_counters_to_it() {
    let mut limits = rules(Missed, Action::Safe(0), 3);
    limits.allowed_missing = 0;
    let mut pair = Pair::new(LAYOUTS[0], limits, no_rules());
    pair.run(20).open[1] = false;
    pair.run(2).open[1] = true;
    pair.run(200);
    let changes = pair.changes();
    assert_eq!(changes, [(23, Source, Missed, Began), (26, Source, Missed, Ended)]);
    assert_eq!(pair.source.input(), Some(((pair.cycle - 2) as u64, Status::Good)));
}

#[test]
fn a_stopped_end_publishes_nothing_and_does_not_come_back() {
    let mut pair = Pair::new(LAYOUTS[0], no_rules(), rules(Silent, Action::Stop, 1));
    pair.run(20).open[0] = false;
    pair.run(20).open[0] = true;
    pair.run(50);
    assert_eq!(pair.changes(), [(26, Echo, Silent, Began)]);
    assert!(pair.echo.is_stopped() && !pair.source.is_stopped());
    assert_eq!(Pair::outgoing(&mut pair.echo, 90), None);
}

#[test]
fn an_end_that_reads_nothing_watches_nothing() {
    let write = Some((NetworkMessageLayout::papers(1, 101, VARIABLES), Some(HEADER)));
    let config = EndpointConfig { role: Role::Source, write, read: None, variables: VARIABLES };
    let mut source = Endpoint::new(config).unwrap().watched(rules(Silent, Action::Stop, 1));
    for cycle in 0..100 {
        assert!(source.supervise(cycle, Tai(0) + CYCLE * cycle, TAI_MINUS_UTC).is_empty());
        source.application(cycle);
        assert!(source.publish(cycle).is_some());
    }
    assert_eq!((source.breach(Silent), source.input()), (None, None));
}

#[test]
fn without_rules_nothing_is_different() {
    let message = |bytes: &[u8]| bytes.to_vec();
    for layout in LAYOUTS {
        // A timeout would forget what the sequence numbers tell of losses, as it should.
        let mut plain = Pair::new(layout, BreachRules::default(), BreachRules::default());
        let mut bare = Pair::new(layout, BreachRules::default(), BreachRules::default());
        let config = |role, write, read| EndpointConfig {
            role,
            write: Some((layout(write, 101, VARIABLES), Some(HEADER))),
            read: Some(layout(read, 101, VARIABLES)),
            variables: VARIABLES,
        };
        bare.source = Endpoint::new(config(Role::Source, 1, 2)).unwrap();
        bare.echo = Endpoint::new(config(Role::Echo, 2, 1)).unwrap();
        for cycle in 0..300 {
            for pair in [&mut plain, &mut bare] {
                pair.open = [cycle % 50 < 40, cycle % 70 < 60];
                pair.run(1);
            }
            assert_eq!(plain.flying.clone().map(|bytes| bytes.as_deref().map(message)), bare.flying);
        }
        assert_eq!(plain.source.counts(), bare.source.counts());
        assert_eq!(plain.echo.counts(), bare.echo.counts());
    }
}

fn any_rules() -> impl Strategy<Value = BreachRules> {
    let action = prop_oneof![
        Just(Action::Count),
        Just(Action::Hold),
        any::<u64>().prop_map(Action::Override),
        (0..100_u64).prop_map(Action::Safe)
    ];
    let rule = proptest::option::of((action, 0..6_u32).prop_map(|(action, recover)| BreachRule { action, recover }));
    (proptest::array::uniform4(rule), 0..3_u64, 2..10_i64).prop_map(|(rules, allowed_missing, timeout)| BreachRules {
        rules,
        allowed_missing,
        receive_timeout: CYCLE * timeout,
        longest_way: None,
        // Two are usual here.
        longest_round_trip_cycles: Some(4),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever the actions of both ends, and whatever was lost or torn: begins and ends alternate, and once messages come
    /// as they should both ends are normal and see each other's counters again.
    #[test]
    fn whatever_happens_there_is_a_way_back(
        raw: bool,
        ends in [any_rules(), any_rules()],
        weather in proptest::collection::vec((any::<[bool; 2]>(), proptest::bool::weighted(0.2), 1..12_i64), 1..20),
    ) {
        let mut pair = Pair::new(LAYOUTS[usize::from(raw)], ends[0], ends[1]);
        pair.run(5);
        for (open, torn, cycles) in weather {
            (pair.open, pair.torn) = (open, torn);
            pair.run(cycles);
        }
        (pair.open, pair.torn) = ([true; 2], false);
        // Beyond RESYNC_PHASES, in case a counter that nobody answers is the newest.
        pair.run(300);
        for condition in Condition::ALL {
            for role in [Role::Source, Role::Echo] {
                let own: Vec<_> = pair.changes.iter().filter(|change| (change.1, change.2) == (role, condition)).collect();
                prop_assert_eq!(own.len() % 2, 0, "{:?}", own);
                prop_assert!(own.chunks(2).all(|pair| (pair[0].3, pair[1].3) == (Began, Ended)), "{:?}", own);
            }
        }
        prop_assert_eq!(pair.source.input(), Some(((pair.cycle - 2) as u64, Status::Good)));
        prop_assert_eq!(pair.echo.input(), Some(((pair.cycle - 1) as u64, Status::Good)));
    }
}
