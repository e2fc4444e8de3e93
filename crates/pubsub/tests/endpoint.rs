//! The cyclic application: what is read, missed, repeated, superseded, and how counters come back.

use downbeat_pubsub::{
    Endpoint, EndpointConfig, EthernetHeader, FieldType, LayoutError, NetworkMessageLayout, RESYNC_PHASES,
    ReaderLayout, Reception, Role, Step, Value, VlanTag, WriterTemplate,
};

const VARIABLES: u16 = 8;
const HEADER: EthernetHeader = EthernetHeader {
    destination: [0x01, 0, 0x5E, 0x7F, 0, 1],
    source: [2, 0, 0, 0, 0, 1],
    vlan: Some(VlanTag { pcp: 7, dei: false, vid: 3000 }),
};
const NOW: i64 = 133_500_000_000_000_000;

fn papers(publisher_id: u16) -> NetworkMessageLayout {
    NetworkMessageLayout::papers(publisher_id, 101, VARIABLES)
}

fn endpoint(
    role: Role,
    write: Option<NetworkMessageLayout>,
    read: Option<NetworkMessageLayout>,
) -> Result<Endpoint, LayoutError> {
    Endpoint::new(EndpointConfig {
        role,
        write: write.map(|layout| (layout, Some(HEADER))),
        read,
        variables: VARIABLES,
    })
}

fn source() -> Endpoint {
    endpoint(Role::Source, Some(papers(1)), Some(papers(2))).expect("a source")
}

fn echo() -> Endpoint {
    endpoint(Role::Echo, Some(papers(2)), Some(papers(1))).expect("an echo")
}

fn sink() -> Endpoint {
    endpoint(Role::Sink, None, Some(papers(1))).expect("a sink")
}

/// A message of publisher `publisher_id` with `counter` in all variables.
fn message(publisher_id: u16, counter: u64) -> Vec<u8> {
    let mut template = WriterTemplate::new(&papers(publisher_id), None).expect("a layout");
    let run = template.uint64_run(0, 1..1 + usize::from(VARIABLES)).expect("UInt64 fields");
    template.fill(&run, counter);
    template.frame().to_vec()
}

fn taken(counter: u64) -> Reception {
    Reception::Message { counter, superseded: None }
}

fn old(counter: u64) -> Reception {
    Reception::Old { counter, repeated: false }
}

/// The UADP message of what an endpoint publishes.
fn published(endpoint: &mut Endpoint) -> Option<Vec<u8>> {
    endpoint.publish(NOW).map(|out| out.frame[HEADER.bytes()..].to_vec())
}

#[test]
fn a_source_writes_its_counter_to_all_variables_and_the_time() {
    let mut source = source();
    assert_eq!(source.publish(NOW), None, "nothing before the first application phase");
    let step = source.application(100);
    let nothing_read =
        Step { cycle: 100, wrote: Some(1), read: None, repeated: false, missed: 0, round_trip_cycles: None };
    assert_eq!(step, nothing_read);
    source.application(101);
    let out = source.publish(NOW).expect("a frame");
    assert_eq!((out.counter, out.sequence, out.repeated), (2, 0, false));
    let uadp = out.frame[HEADER.bytes()..].to_vec();
    let reader = ReaderLayout::new(&papers(1)).expect("a layout");
    assert_eq!(reader.check(&uadp), Ok(()));
    assert_eq!(reader.data_set_timestamp(&uadp, 0), Some(NOW));
    assert_eq!(reader.field(&uadp, 0, 0), Some(Value::Boolean(true)), "running");
    for field in 1..=usize::from(VARIABLES) {
        assert_eq!(reader.field(&uadp, 0, field), Some(Value::UInt64(2)), "field {field}");
    }
    let again = source.publish(NOW).expect("a frame");
    assert_eq!((again.counter, again.sequence, again.repeated), (2, 1, true));
}

#[test]
fn an_echo_answers_what_it_read_and_repeats_itself_when_nothing_came() {
    let mut echo = echo();
    echo.application(0);
    assert_eq!(echo.publish(NOW), None, "nothing before the first reading");
    assert_eq!(echo.receive(&message(1, 7)), taken(7));
    assert_eq!(published(&mut echo), None, "received, but the application has not run");
    echo.application(1);
    let answer = published(&mut echo).expect("an answer");
    assert_eq!(ReaderLayout::new(&papers(2)).unwrap().field(&answer, 0, 8), Some(Value::UInt64(7)));
    let step = echo.application(2);
    assert_eq!((step.read, step.repeated, step.missed), (Some(7), true, 0));
    assert!(echo.publish(NOW).expect("an answer").repeated);
}

#[test]
fn repeated_counts_only_after_the_first_reading() {
    let mut sink = sink();
    assert!(!sink.application(0).repeated);
    sink.receive(&message(1, 1));
    assert!(!sink.application(1).repeated);
    sink.receive(&message(1, 1));
    let step = sink.application(2);
    assert!(step.repeated, "the same counter again is nothing new");
    assert_eq!(step.read, Some(1));
    assert_eq!(sink.counts().repeated, 1);
    assert_eq!(sink.publish(NOW), None);
}

#[test]
fn missed_is_the_gap_between_readings() {
    let mut sink = sink();
    let mut read = |counter| {
        sink.receive(&message(1, counter));
        sink.application(0).missed
    };
    assert_eq!(read(5), 0, "what came before the first reading was not missed");
    assert_eq!(read(6), 0);
    assert_eq!(read(9), 2);
    assert_eq!(read(u64::MAX), u64::MAX - 10);
}

#[test]
fn the_newest_message_of_a_cycle_wins() {
    let mut sink = sink();
    assert_eq!(sink.receive(&message(1, 4)), taken(4));
    assert_eq!(sink.receive(&message(1, 5)), Reception::Message { counter: 5, superseded: Some(4) });
    assert_eq!(
        sink.receive(&message(1, 5)),
        Reception::Old { counter: 5, repeated: true },
        "the same again replaces nothing"
    );
    assert_eq!(sink.receive(&message(1, 3)), old(3), "an older one replaces nothing");
    assert_eq!(sink.application(0).read, Some(5));
    let counts = sink.counts();
    assert_eq!((counts.received, counts.superseded, counts.stale), (4, 1, 1));
}

#[test]
fn older_messages_are_not_read_again() {
    let mut sink = sink();
    sink.receive(&message(1, 10));
    sink.application(0);
    assert_eq!(sink.receive(&message(1, 9)), old(9));
    let step = sink.application(1);
    assert_eq!((step.read, step.repeated), (Some(10), true));
    assert_eq!(sink.counts().stale, 1);
}

#[test]
fn a_restarted_writer_is_heard_again_after_a_while() {
    let mut sink = sink();
    sink.receive(&message(1, 1_000));
    sink.application(0);
    let mut counter = 0;
    let heard = (1..).find(|&cycle| {
        counter += 1;
        sink.receive(&message(1, counter));
        sink.application(cycle).read == Some(counter)
    });
    assert_eq!(heard, Some(i64::from(RESYNC_PHASES) + 1));
    assert_eq!((sink.counts().resynchronised, sink.counts().missed), (1, 0));
}

#[test]
fn an_echo_that_repeats_itself_for_long_is_never_news() {
    let mut source = source();
    source.application(0);
    source.receive(&message(2, 1));
    assert_eq!(source.application(1).round_trip_cycles, Some(1));
    for cycle in 2..2 + 3 * i64::from(RESYNC_PHASES) {
        source.receive(&message(2, 1));
        let step = source.application(cycle);
        assert_eq!((step.repeated, step.round_trip_cycles), (true, None), "cycle {cycle}");
    }
}

#[test]
fn inconsistent_messages_do_not_replace_the_good_one() {
    let makers: [fn() -> Endpoint; 3] = [source, echo, sink];
    for make in makers {
        let mut endpoint = make();
        let publisher_id = if endpoint.role() == Role::Source { 2 } else { 1 };
        assert_eq!(endpoint.receive(&message(publisher_id, 3)), taken(3));
        for field in 0..usize::from(VARIABLES) {
            let mut torn = message(publisher_id, 4);
            torn[33 + 9 * field] = 5;
            let counter = if field == 0 { 5 } else { 4 };
            assert_eq!(endpoint.receive(&torn), Reception::Inconsistent { counter }, "field {field}");
        }
        assert_eq!(endpoint.application(0).read, Some(3));
        assert_eq!(endpoint.counts().inconsistent, u64::from(VARIABLES));
    }
}

#[test]
fn messages_of_another_layout_are_foreign() {
    let mut sink = sink();
    let Reception::Foreign(mismatch) = sink.receive(&message(2, 3)) else { panic!("another publisher") };
    assert_eq!((mismatch.offset, mismatch.expected, mismatch.found), (2, Some(1), Some(2)));
    assert!(matches!(sink.receive(&[]), Reception::Foreign(_)));
    assert_eq!(sink.application(0).read, None);
    assert_eq!((sink.counts().foreign, sink.counts().received), (2, 0));
    let mut deaf = endpoint(Role::Source, Some(papers(1)), None).expect("a source without echo");
    assert!(matches!(deaf.receive(&message(2, 1)), Reception::Foreign(_)));
}

#[test]
fn peeking_takes_nothing() {
    let mut sink = sink();
    assert_eq!(sink.peek(&message(1, 3)), Some(3));
    assert_eq!(sink.peek(&message(2, 3)), None, "another publisher");
    assert_eq!(sink.application(0).read, None);
    assert_eq!(sink.counts().received, 0);
}

#[test]
fn a_damaged_variant_byte_is_foreign_a_damaged_value_inconsistent() {
    for layout in [papers(1), NetworkMessageLayout::periodic_fixed(1, 101, VARIABLES)] {
        let mut sink = endpoint(Role::Sink, None, Some(layout.clone())).expect("a sink");
        let template = WriterTemplate::new(&layout, None).expect("a layout");
        let reader = ReaderLayout::new(&layout).expect("a layout");
        let first = template.uadp().len() - usize::from(VARIABLES) * if layout == papers(1) { 9 } else { 8 };
        for offset in 0..template.uadp().len() {
            let mut damaged = template.uadp().to_vec();
            damaged[offset] ^= 0x10;
            match (reader.check(&damaged), sink.receive(&damaged)) {
                (Err(expected), found) => assert_eq!(found, Reception::Foreign(expected), "byte {offset}"),
                (Ok(()), Reception::Inconsistent { .. }) => assert!(offset >= first, "byte {offset}"),
                // The first is news, the others are the same counter again.
                (Ok(()), found) => {
                    let read = matches!(found, Reception::Old { counter: 0, .. }) || found == taken(0);
                    assert!(offset < first && read, "byte {offset}: {found:?}");
                }
            }
        }
    }
}

#[test]
fn the_counter_comes_back_after_as_many_cycles_as_elapsed() {
    let (mut source, mut echo) = (source(), echo());
    let mut returned = Vec::new();
    for cycle in 1_000..1_010 {
        // Subscribe: what was published in the cycle before arrives now.
        if let Some(frame) = published(&mut source) {
            echo.receive(&frame);
        }
        if let Some(frame) = published(&mut echo) {
            source.receive(&frame);
        }
        returned.extend(source.application(cycle).round_trip_cycles);
        echo.application(cycle);
    }
    // Written in c, read by the echo in c + 1, sent back in c + 2.
    assert_eq!(returned, [2; 8]);
}

#[test]
fn cycles_skipped_by_an_overrun_are_elapsed_too() {
    let mut source = source();
    for cycle in [0, 1, 2, 5, 6] {
        source.application(cycle);
    }
    // Counter 3 was written in cycle 2, counter 4 in cycle 5.
    source.receive(&message(2, 3));
    let step = source.application(7);
    assert_eq!((step.wrote, step.read, step.round_trip_cycles), (Some(6), Some(3), Some(5)));
    source.receive(&message(2, 4));
    assert_eq!(source.application(8).round_trip_cycles, Some(3));
}

/// Application phases of the cycles in turn; then the round trip of `counter` in the phase of cycle 5000.
fn round_trip(cycles: impl Iterator<Item = i64>, counter: u64) -> Option<u64> {
    let mut source = source();
    for cycle in cycles {
        source.application(cycle);
    }
    source.receive(&message(2, counter));
    let step = source.application(5_000);
    assert_eq!(step.read, Some(counter));
    step.round_trip_cycles
}

#[test]
fn counters_never_written_have_no_round_trip() {
    assert_eq!(round_trip(0..5_000, 0), None);
    assert_eq!(round_trip(0..5_000, 5_001), Some(0), "written in this very phase");
    assert_eq!(round_trip(0..5_000, 5_002), None);
    assert_eq!(round_trip(0..0, 2), None);
}

#[test]
fn without_a_skipped_cycle_no_counter_is_too_old() {
    assert_eq!(round_trip(0..5_000, 1), Some(5_000));
    assert_eq!(round_trip(2_000..5_000, 1), Some(3_000));
}

#[test]
fn counters_before_a_skipped_cycle_are_remembered() {
    // Counter 1 in cycle 0, then 2 in cycle 10, n in cycle n + 8; the phase of cycle 5000 writes 4992.
    let cycles = || (0..1).chain(10..5_000);
    for counter in [2, 4_992 - 1_024, 4_991, 4_992] {
        assert_eq!(round_trip(cycles(), counter), Some(5_000 - (counter + 8)));
    }
    assert_eq!(round_trip(cycles(), 1), Some(5_000));
}

#[test]
fn sixty_four_skips_are_remembered() {
    // Every other cycle is skipped: counter n in cycle 2 n - 2, and 101 in the phase of cycle 5000.
    let cycles = || (0..200).step_by(2);
    assert_eq!(round_trip(cycles(), 101 - 64), Some(5_000 - (2 * (101 - 64) - 2)));
    assert_eq!(round_trip(cycles(), 101 - 65), None);
}

#[test]
fn sequence_numbers_tell_old_messages_whatever_their_counter() {
    let layout = NetworkMessageLayout::periodic_fixed(1, 101, VARIABLES);
    let mut sink = endpoint(Role::Sink, None, Some(layout.clone())).expect("a sink");
    let mut template = WriterTemplate::new(&layout, None).expect("a layout");
    let run = template.uint64_run(0, 0..usize::from(VARIABLES)).expect("UInt64 fields");
    let mut receive = |number, counter, cycle| {
        template.fill(&run, counter);
        template.stamp(number, NOW);
        sink.receive(template.frame());
        (sink.application(cycle).read, sink.counts().stale, sink.counts().lost)
    };
    assert_eq!(receive(u16::MAX, 1, 0), (Some(1), 0, 0));
    assert_eq!(receive(0, 2, 1), (Some(2), 0, 0), "the number rolls over");
    assert_eq!(receive(u16::MAX, 3, 2), (Some(2), 1, 0), "an old number");
    assert_eq!(receive(40_000, 3, 3), (Some(2), 2, 0), "a number out of reach");
    assert_eq!(receive(4, 3, 4), (Some(3), 2, 3), "three never came");
}

#[test]
fn sequence_numbers_go_up_by_one_on_the_wire() {
    let layout = NetworkMessageLayout::periodic_fixed(1, 101, VARIABLES);
    let mut source = endpoint(Role::Source, Some(layout.clone()), None).expect("a source");
    let reader = ReaderLayout::new(&layout).expect("a layout");
    source.application(0);
    for expected in 0..3 {
        let out = source.publish(NOW).expect("a frame");
        let uadp = &out.frame[HEADER.bytes()..];
        assert_eq!(reader.check(uadp), Ok(()));
        assert_eq!((out.sequence, reader.sequence_number(uadp)), (expected, Some(expected)));
        assert_eq!(reader.data_set_sequence_number(uadp, 0), Some(expected));
    }
}

#[test]
fn refuses_configurations_that_cannot_work() {
    let error = |role, write, read| endpoint(role, write, read).expect_err("no endpoint").to_string();
    assert_eq!(error(Role::Source, None, Some(papers(1))), "endpoint of role Source: expected a layout to write");
    assert_eq!(error(Role::Echo, Some(papers(1)), None), "endpoint of role Echo: expected a layout to read");
    assert_eq!(error(Role::Echo, None, Some(papers(1))), "endpoint of role Echo: expected a layout to write");
    assert_eq!(error(Role::Sink, None, None), "endpoint of role Sink: expected a layout to read");
    assert!(error(Role::Sink, Some(papers(1)), Some(papers(2))).contains("never uses"));
    let mut other = papers(1);
    other.data_sets[0].fields[3] = FieldType::Int64;
    let expected = LayoutError::Variables { variables: VARIABLES, found: 5 };
    assert_eq!(endpoint(Role::Sink, None, Some(other)).expect_err("Int64 is no counter"), expected);
    let none = EndpointConfig { role: Role::Sink, write: None, read: Some(papers(1)), variables: 0 };
    assert_eq!(Endpoint::new(none).expect_err("no variables"), LayoutError::Variables { variables: 0, found: 8 });
}
