//! Publisher, subscriber and application as parts: several writers in a frame, windows, timeouts, delta frames.

use downbeat_pubsub::{
    Application, Change, DataSetLayout, FieldEncoding, FieldType, GroupHeaderLayout, Input, LayoutError,
    NetworkMessageLayout, Publisher, PublisherId, ReaderInput, ReaderLayout, ReaderState, Received, Rejected, Status,
    Step, Subscriber, SubscriberConfig, Value,
};
use units::{Nanos, Tai};

const NEWS: Received = Received::Message { superseded: false };
const REPLACED: Received = Received::Message { superseded: true };
const NOW: i64 = 133_500_000_000_000_000;

fn data_set(writer_id: u16, fields: &[FieldType]) -> DataSetLayout {
    DataSetLayout {
        writer_id,
        encoding: FieldEncoding::Variant,
        sequence_number: true,
        timestamp: true,
        status: true,
        major_version: Some(1),
        minor_version: None,
        fields: fields.to_vec(),
    }
}

/// Three DataSetWriters in a frame; `numbered` gives the NetworkMessages a SequenceNumber too.
fn group(numbered: bool) -> NetworkMessageLayout {
    NetworkMessageLayout {
        publisher_id: PublisherId::UInt64(1 << 40),
        group_header: Some(GroupHeaderLayout {
            writer_group_id: Some(7),
            sequence_number: numbered,
            ..GroupHeaderLayout::default()
        }),
        payload_header: true,
        timestamp: true,
        data_sets: vec![
            data_set(10, &[FieldType::UInt32, FieldType::Double]),
            data_set(20, &[FieldType::Boolean]),
            data_set(30, &[FieldType::Int16, FieldType::Int16]),
        ],
    }
}

fn subscriber(layout: NetworkMessageLayout, writers: Option<&[u16]>, receive_timeout: Nanos) -> Subscriber {
    let writers = writers.map(<[u16]>::to_vec);
    Subscriber::new(SubscriberConfig { layout, writers, receive_timeout, strict: false }).expect("a subscriber")
}

fn publisher(layout: &NetworkMessageLayout) -> (Publisher, Vec<u8>) {
    let publisher = Publisher::new(layout, None).expect("a publisher");
    let image = vec![0; publisher.image().bytes()];
    (publisher, image)
}

fn set(publisher: &Publisher, image: &mut [u8], data_set: usize, field: usize, value: Value) {
    assert!(publisher.image().set(image, data_set, field, value));
}

#[test]
fn every_writer_of_a_frame_has_its_own_number_time_and_status() {
    let layout = group(true);
    let (mut publisher, mut image) = publisher(&layout);
    set(&publisher, &mut image, 2, 1, Value::Int16(-5));
    publisher.set_next_sequence(1, 500).expect("a number");
    publisher.set_status(2, 0x8031).expect("a status");
    publisher.set_sampled(0, Some(NOW - 77)).expect("a timestamp");
    let reader = ReaderLayout::new(&layout).expect("a layout");
    for (sequence, numbers) in [(0, [0, 500, 0]), (1, [1, 501, 1])] {
        let published = publisher.publish(&image, NOW).expect("an image");
        assert_eq!(published.sequence, sequence);
        let uadp = published.frame;
        assert_eq!(reader.check(uadp), Ok(()));
        assert_eq!((reader.sequence_number(uadp), reader.timestamp(uadp)), (Some(sequence), Some(NOW)));
        let found = [0, 1, 2].map(|set| reader.data_set_sequence_number(uadp, set));
        assert_eq!(found, numbers.map(Some));
        assert_eq!([0, 1, 2].map(|set| reader.data_set_timestamp(uadp, set)), [Some(NOW - 77), Some(NOW), Some(NOW)]);
        assert_eq!([0, 1, 2].map(|set| reader.data_set_status(uadp, set)), [Some(0), Some(0), Some(0x8031)]);
        assert_eq!(reader.field(uadp, 2, 1), Some(Value::Int16(-5)));
    }
    assert!(publisher.publish(&image[1..], NOW).is_err(), "too short an image");
    assert_eq!(publisher.publish(&image, NOW).expect("an image").sequence, 2, "no number was used up");
    assert_eq!(publisher.published(), 3);
    assert!(publisher.set_next_sequence(3, 0).is_err() && publisher.set_sampled(3, None).is_err());
}

#[test]
fn a_subscriber_picks_the_writers_it_wants() {
    let layout = group(true);
    let (mut publisher, mut image) = publisher(&layout);
    set(&publisher, &mut image, 0, 0, Value::UInt32(4));
    set(&publisher, &mut image, 2, 0, Value::Int16(-1));
    set(&publisher, &mut image, 2, 1, Value::Int16(9));
    let mut reader = subscriber(layout.clone(), Some(&[30, 10]), Nanos::ZERO);
    assert_eq!(reader.receive(publisher.publish(&image, NOW).unwrap().frame, Tai(0)), NEWS);
    let places = reader.image_layout().clone();
    let values =
        |reader: &Subscriber| [(0, 0), (0, 1), (1, 0)].map(|(set, field)| places.get(reader.image(), set, field));
    let expected = [Some(Value::Int16(-1)), Some(Value::Int16(9)), Some(Value::UInt32(4))];
    assert_eq!((values(&reader), places.data_sets()), (expected, 2));

    // A frame with one more DataSetWriter, in another place: not the layout, but the same DataSets.
    let mut wider = layout;
    wider.data_sets.insert(1, data_set(40, &[FieldType::Guid]));
    let (mut wide, mut image) = self::publisher(&wider);
    set(&wide, &mut image, 3, 1, Value::Int16(10));
    let sent = (0..3).map(|_| wide.publish(&image, NOW).unwrap().frame.to_vec()).last().unwrap();
    assert_eq!(reader.receive(&sent, Tai(0)), REPLACED);
    assert_eq!(values(&reader), [Some(Value::Int16(0)), Some(Value::Int16(10)), Some(Value::UInt32(0))]);
    assert_eq!((reader.counts().fallback, reader.counts().lost), (1, 1));
    let config = SubscriberConfig { writers: Some(vec![50]), ..SubscriberConfig::strict(group(true)) };
    assert_eq!(Subscriber::new(config).unwrap_err(), LayoutError::UnknownWriter { writer_id: 50 });
}

#[test]
fn duplicates_are_dropped_and_losses_counted_by_either_number() {
    for numbered in [true, false] {
        let layout = group(numbered);
        let (mut publisher, image) = publisher(&layout);
        let mut reader = subscriber(layout, None, Nanos::ZERO);
        let frames: Vec<_> = (0..6).map(|_| publisher.publish(&image, NOW).unwrap().frame.to_vec()).collect();
        let mut receive = |number: usize| reader.receive(&frames[number], Tai(0));
        assert_eq!([0, 0, 1].map(&mut receive), [NEWS, Received::Stale, REPLACED]);
        assert_eq!([4, 3, 4, 5].map(receive), [REPLACED, Received::Stale, Received::Stale, REPLACED]);
        let counts = reader.counts();
        assert_eq!((counts.received, counts.stale, counts.lost, counts.superseded), (7, 3, 2, 3));
    }
}

#[test]
fn an_old_data_set_in_a_new_message_leaves_its_values() {
    let layout = group(true);
    let (mut publisher, mut image) = publisher(&layout);
    let mut reader = subscriber(layout, None, Nanos::ZERO);
    set(&publisher, &mut image, 0, 0, Value::UInt32(1));
    reader.receive(publisher.publish(&image, NOW).unwrap().frame, Tai(0));
    reader.taken();
    // The first writer repeats its last DataSetMessage's number: what it sends with it is not news.
    publisher.set_next_sequence(0, 0).expect("a number");
    set(&publisher, &mut image, 0, 0, Value::UInt32(2));
    set(&publisher, &mut image, 1, 0, Value::Boolean(true));
    assert_eq!(reader.receive(publisher.publish(&image, NOW).unwrap().frame, Tai(5)), NEWS);
    let places = reader.image_layout();
    assert_eq!(places.get(reader.image(), 0, 0), Some(Value::UInt32(1)));
    assert_eq!(places.get(reader.image(), 1, 0), Some(Value::Boolean(true)));
    assert_eq!([0, 1, 2].map(|index| reader.input(index, Tai(5)).fresh), [false, true, true]);
    assert_eq!(reader.input(0, Tai(5)).age, Some(Nanos(5)), "its last news is older");
}

#[test]
fn silence_is_told_once_and_so_is_the_recovery() {
    let layout = group(true);
    let (mut publisher, image) = publisher(&layout);
    let mut reader = subscriber(layout, Some(&[10]), Nanos(1_000));
    let change = |state| Some(Change { reader: 0, writer_id: 10, state });
    assert_eq!((reader.poll(Tai(9_000)), reader.state(0)), (None, ReaderState::PreOperational));
    assert_eq!(reader.input(0, Tai(9_000)).status, Status::Bad, "nothing was received yet");
    let frames: Vec<_> = (0..4).map(|_| publisher.publish(&image, NOW).unwrap().frame.to_vec()).collect();
    reader.receive(&frames[2], Tai(10_000));
    assert_eq!(reader.deadline(), Some(Tai(11_000)));
    assert_eq!((reader.poll(Tai(10_500)), reader.poll(Tai(10_500))), (change(ReaderState::Operational), None));
    assert_eq!(reader.input(0, Tai(10_500)).status, Status::Good);
    // The same again is no news and does not put it off.
    reader.receive(&frames[2], Tai(10_900));
    assert_eq!(reader.input(0, Tai(11_000)).status, Status::Good);
    assert_eq!(reader.input(0, Tai(11_001)).status, Status::Bad, "also where nobody has polled yet");
    assert_eq!(reader.poll(Tai(11_000)), None);
    assert_eq!((reader.poll(Tai(11_001)), reader.poll(Tai(11_002))), (change(ReaderState::Timeout), None));
    let input = reader.input(0, Tai(12_000));
    assert_eq!((input.status, input.age), (Status::Bad, Some(Nanos(2_000))));
    assert_eq!((reader.deadline(), reader.counts().timeouts), (None, 1));
    // A restarted writer begins with an old number, and is heard.
    assert_eq!(reader.receive(&frames[0], Tai(20_000)), REPLACED);
    assert_eq!((reader.poll(Tai(20_001)), reader.poll(Tai(20_002))), (change(ReaderState::Operational), None));
    assert_eq!(reader.receive(&frames[1], Tai(i64::MAX)), REPLACED);
    assert_eq!(reader.poll(Tai(i64::MIN)), None, "a clock that goes back is no timeout");
}

/// The head of a message of one writer of the group, and the rest of it.
fn one_writer(writer: &[u8]) -> Vec<u8> {
    let head = [&[0xF1, 0x03][..], &(1_u64 << 40).to_le_bytes(), &[1, 7, 0, 1, 10, 0]].concat();
    [&head, writer].concat()
}

#[test]
fn delta_frames_and_keep_alives() {
    let layout = group(false);
    let (mut publisher, mut image) = publisher(&layout);
    set(&publisher, &mut image, 0, 0, Value::UInt32(1));
    set(&publisher, &mut image, 0, 1, Value::Double(2.5));
    let mut reader = subscriber(layout, Some(&[10]), Nanos(100));
    let places = reader.image_layout().clone();
    let values = |reader: &Subscriber| [0, 1].map(|field| places.get(reader.image(), 0, field).unwrap());
    assert_eq!(reader.receive(publisher.publish(&image, NOW).unwrap().frame, Tai(0)), NEWS);
    // SequenceNumber 1, one field: 0 is 7.
    let delta = one_writer(&[0x89, 0x01, 1, 0, 1, 0, 0, 0, 7, 7, 0, 0, 0]);
    assert_eq!(reader.receive(&delta, Tai(50)), REPLACED);
    assert_eq!(values(&reader), [Value::UInt32(7), Value::Double(2.5)], "what did not change stays");
    assert_eq!(reader.receive(&delta, Tai(60)), Received::Stale);
    // Twice the same field, and a field that is not there: nothing changes.
    let twice = one_writer(&[0x89, 0x01, 2, 0, 2, 0, 0, 0, 7, 8, 0, 0, 0, 0, 0, 7, 9, 0, 0, 0]);
    let beyond = one_writer(&[0x89, 0x01, 2, 0, 1, 0, 2, 0, 7, 8, 0, 0, 0]);
    for bad in [twice, beyond] {
        assert!(matches!(reader.receive(&bad, Tai(60)), Received::Rejected(_)));
        assert_eq!(values(&reader), [Value::UInt32(7), Value::Double(2.5)]);
    }
    reader.taken();
    // A keep-alive with the number of the next message: nothing is lost, the timer starts again.
    let keep_alive = |number: u8| one_writer(&[0x89, 0x03, number, 0]);
    assert_eq!(reader.receive(&keep_alive(2), Tai(120)), Received::KeepAlive);
    let _ = reader.poll(Tai(220));
    assert_eq!((reader.state(0), reader.is_fresh(), reader.counts().lost), (ReaderState::Operational, false, 0));
    assert_eq!(reader.receive(&keep_alive(5), Tai(220)), Received::KeepAlive);
    assert_eq!((reader.counts().lost, reader.counts().keep_alive), (3, 2));
    assert_eq!(values(&reader), [Value::UInt32(7), Value::Double(2.5)]);
}

#[test]
fn only_a_key_frame_brings_a_reader_up() {
    let layout = group(false);
    let (mut publisher, image) = publisher(&layout);
    let mut reader = subscriber(layout, Some(&[10]), Nanos(100));
    let keep_alive = one_writer(&[0x89, 0x03, 0, 0]);
    let delta = |number: u8| one_writer(&[0x89, 0x01, number, 0, 1, 0, 0, 0, 7, 7, 0, 0, 0]);
    assert_eq!(reader.receive(&keep_alive, Tai(0)), Received::KeepAlive);
    let no_key_frame = Received::Rejected(Rejected::NoKeyFrame { writer_id: 10 });
    assert_eq!(reader.receive(&delta(0), Tai(0)), no_key_frame);
    assert_eq!((reader.poll(Tai(0)), reader.input(0, Tai(0)).status), (None, Status::Bad));
    let frames: Vec<_> = (0..3).map(|_| publisher.publish(&image, NOW).unwrap().frame.to_vec()).collect();
    assert_eq!(reader.receive(&frames[0], Tai(0)), NEWS);
    assert_eq!((reader.poll(Tai(50)).map(|change| change.state)), Some(ReaderState::Operational));
    assert_eq!(reader.receive(&delta(1), Tai(50)), REPLACED);
    assert_eq!(reader.poll(Tai(151)).map(|change| change.state), Some(ReaderState::Timeout));
    assert_eq!(reader.receive(&delta(2), Tai(160)), no_key_frame, "nobody knows what changed meanwhile");
    assert_eq!((reader.poll(Tai(160)), reader.state(0)), (None, ReaderState::Timeout));
    assert_eq!(reader.receive(&frames[2], Tai(170)), REPLACED);
    assert_eq!(reader.poll(Tai(170)).map(|change| change.state), Some(ReaderState::Operational));
}

#[test]
fn a_bad_status_is_a_bad_input() {
    let layout = group(true);
    let (mut publisher, image) = publisher(&layout);
    let mut reader = subscriber(layout, None, Nanos::ZERO);
    publisher.set_status(1, 0x8031).expect("a status");
    publisher.set_status(2, 0x4094).expect("a status");
    reader.receive(publisher.publish(&image, NOW).unwrap().frame, Tai(0));
    let status = [0, 1, 2, 3].map(|index| reader.input(index, Tai(0)).status);
    assert_eq!(status, [Status::Good, Status::Bad, Status::Good, Status::Bad], "Uncertain is no less than good");
}

/// Adds what two readers have.
struct Adder;

impl Application for Adder {
    fn cycle(&mut self, cycle: i64, input: Input<'_>, output: &mut [u8]) -> Step {
        let value = |reader: &ReaderInput<'_>| reader.image.first().copied().filter(|_| reader.status == Status::Good);
        let sum = input.readers.iter().filter_map(value).fold(0, u8::wrapping_add);
        if let Some(place) = output.first_mut() {
            *place = sum;
        }
        Step { wrote: Some(sum.into()), repeated: !input.readers.iter().any(|reader| reader.fresh), ..Step::of(cycle) }
    }
}

#[test]
fn an_application_sees_all_its_readers_and_writes_one_image() {
    let byte = |publisher: u16| NetworkMessageLayout {
        data_sets: vec![data_set(1, &[FieldType::Byte])],
        ..NetworkMessageLayout::papers(publisher, 1, 1)
    };
    let (mut left, mut right) = (publisher(&byte(1)), publisher(&byte(2)));
    let mut readers = [1, 2].map(|id| subscriber(byte(id), None, Nanos::ZERO));
    let mut application: Box<dyn Application> = Box::new(Adder);
    let mut output = [0; 8];
    let mut cycle = |readers: &mut [Subscriber; 2], cycle| {
        let inputs = [readers[0].input(0, Tai(cycle)), readers[1].input(0, Tai(cycle))];
        let step = application.cycle(cycle, Input { readers: &inputs }, &mut output);
        readers.iter_mut().for_each(Subscriber::taken);
        (output[0], step.repeated)
    };
    (left.1[0], right.1[0]) = (3, 4);
    readers[0].receive(left.0.publish(&left.1, NOW).unwrap().frame, Tai(0));
    assert_eq!(cycle(&mut readers, 0), (3, false), "the other one has had no message");
    readers[1].receive(right.0.publish(&right.1, NOW).unwrap().frame, Tai(1));
    assert_eq!(cycle(&mut readers, 1), (7, false));
    assert_eq!(cycle(&mut readers, 2), (7, true));
}

#[test]
fn take_gives_the_newest_once() {
    let layout = NetworkMessageLayout::papers(1, 1, 1);
    let (mut publisher, mut image) = publisher(&layout);
    let mut reader = subscriber(layout, None, Nanos::ZERO);
    assert_eq!(reader.take(), None);
    for value in [1, 2] {
        set(&publisher, &mut image, 0, 1, Value::UInt64(value));
        reader.receive(publisher.publish(&image, NOW).unwrap().frame, Tai(0));
    }
    assert_eq!(reader.take(), Some(&*image));
    assert_eq!(reader.take(), None);
    assert_eq!(reader.image(), &*image, "it stays the newest");
}

#[test]
fn the_parts_live_in_threads_of_their_own() {
    fn send<T: Send + 'static>() {}
    send::<Publisher>();
    send::<Subscriber>();
    send::<downbeat_pubsub::CounterApplication>();
    send::<downbeat_pubsub::Dispatcher>();
    send::<downbeat_pubsub::Endpoint>();
}
