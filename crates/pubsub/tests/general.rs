//! The general decoder and the fast path of a subscriber: what one accepts, the other reads alike.

mod common;

use common::layouts::{layout, set_all};
use downbeat_pubsub::{
    FieldEncoding, FieldType, GroupHeaderLayout, ImageLayout, NetworkMessageLayout, Received, Rejected, Subscriber,
    SubscriberConfig, Value, WriterTemplate,
};
use proptest::collection::vec;
use proptest::prelude::*;
use units::{Nanos, Tai};

const NEWS: Received = Received::Message { superseded: false };

fn subscriber(layout: &NetworkMessageLayout, strict: bool) -> Option<Subscriber> {
    let layout = layout.clone();
    Subscriber::new(SubscriberConfig { layout, writers: None, receive_timeout: Nanos::ZERO, strict }).ok()
}

/// DataSetWriterIds that tell the DataSets apart.
fn told_apart(mut layout: NetworkMessageLayout) -> NetworkMessageLayout {
    for (set, id) in layout.data_sets.iter_mut().zip(1..) {
        set.writer_id = id;
    }
    layout
}

/// A subscriber whose fast path takes no message of `layout`, because it expects a Timestamp that is not there or none
/// where one is.
fn general_only(layout: &NetworkMessageLayout) -> Option<Subscriber> {
    subscriber(&NetworkMessageLayout { timestamp: !layout.timestamp, ..layout.clone() }, false)
}

fn message(layout: &NetworkMessageLayout, bytes: &[u8]) -> Option<Vec<u8>> {
    let mut template = WriterTemplate::new(layout, None).ok()?;
    let mut source = bytes.iter().cycle().copied();
    set_all(&mut template, layout, || source.next().unwrap_or(0));
    Some(template.frame().to_vec())
}

/// The same DataSets of the same group, with as much else as `choices` says.
fn in_another_form(layout: &NetworkMessageLayout, choices: &[bool]) -> NetworkMessageLayout {
    let mut choices = choices.iter().copied().cycle();
    let mut choose = || choices.next().unwrap_or(false);
    let group = layout.group_header.unwrap_or_default();
    let mut other = layout.clone();
    other.timestamp = choose();
    other.payload_header = choose();
    other.group_header = (layout.group_header.is_some() || choose()).then(|| GroupHeaderLayout {
        writer_group_id: group.writer_group_id.or(choose().then_some(77)),
        group_version: if choose() { group.group_version } else { None },
        network_message_number: if choose() { group.network_message_number } else { None },
        sequence_number: choose(),
    });
    for set in &mut other.data_sets {
        set.encoding = if choose() { FieldEncoding::Variant } else { FieldEncoding::RawData };
        (set.sequence_number, set.timestamp, set.status) = (choose(), choose(), choose());
        set.major_version = if choose() { set.major_version } else { None };
        set.minor_version = choose().then_some(123_456);
    }
    if other.payload_header && choose() {
        other.data_sets.reverse();
    }
    other
}

proptest! {
    #[test]
    fn another_form_has_the_same_values(
        layout in layout(), choices in vec(any::<bool>(), 40), bytes in vec(any::<u8>(), 64)
    ) {
        let layout = told_apart(layout);
        let other = in_another_form(&layout, &choices);
        let image = |set: usize| {
            let reader = subscriber(&layout, true).unwrap();
            reader.image_layout().range(set).unwrap()
        };
        let (Some(sent), Some(mut general)) = (message(&other, &bytes), subscriber(&layout, false)) else {
            return Ok(());
        };
        let mut exact = subscriber(&other, true).unwrap();
        prop_assert_eq!(exact.receive(&sent, Tai(0)), NEWS);
        prop_assert_eq!(general.receive(&sent, Tai(0)), NEWS);
        let counts = general.counts();
        prop_assert_eq!((counts.received, counts.fallback), (1, u64::from(other != layout)));
        // The DataSets may come in another order; in the image they keep theirs.
        for (index, set) in layout.data_sets.iter().enumerate() {
            let theirs = other.data_sets.iter().position(|other| other.writer_id == set.writer_id).unwrap();
            let theirs = exact.image_layout().range(theirs).unwrap();
            prop_assert_eq!(&general.image()[image(index)], &exact.image()[theirs]);
        }
    }

    #[test]
    fn what_the_fast_path_takes_the_decoder_reads_alike(
        layout in layout(), bytes in vec(any::<u8>(), 64),
        damage in vec((0_u8..4, any::<prop::sample::Index>(), any::<u8>()), 0..4)
    ) {
        let layout = told_apart(layout);
        let (Some(mut sent), Some(mut general)) = (message(&layout, &bytes), general_only(&layout)) else {
            return Ok(());
        };
        for (kind, at, byte) in damage {
            let at = at.index(sent.len() + 1);
            match kind {
                0 => sent.truncate(at),
                1 => sent.insert(at, byte),
                _ if at < sent.len() => sent[at] ^= if kind == 2 { byte } else { 1 << (byte % 8) },
                _ => {}
            }
        }
        let mut fast = subscriber(&layout, true).unwrap();
        let taken = fast.receive(&sent, Tai(0));
        let decoded = general.receive(&sent, Tai(0));
        if taken == NEWS {
            prop_assert_eq!(decoded, NEWS);
            prop_assert_eq!(general.image(), fast.image());
            prop_assert_eq!(general.counts().fallback, 1);
        } else {
            prop_assert!(matches!(taken, Received::Foreign(_)));
        }
        // With both ways, nothing else comes out than from the one that takes it.
        let mut both = subscriber(&layout, false).unwrap();
        let found = both.receive(&sent, Tai(0));
        prop_assert!(found == taken || matches!(taken, Received::Foreign(_)));
        prop_assert_eq!(found == NEWS, decoded == NEWS);
        if found == NEWS {
            prop_assert_eq!(both.image(), general.image());
        }
    }

    #[test]
    fn no_bytes_make_a_subscriber_panic(layout in layout(), bytes in vec(any::<u8>(), 0..200)) {
        let mut reader = subscriber(&told_apart(layout), false).unwrap();
        reader.receive(&bytes, Tai(i64::MAX));
        reader.receive(&bytes, Tai(i64::MIN));
        let _ = reader.poll(Tai(i64::MAX));
    }
}

/// A message of `layout` in which one byte of the head of the DataSetMessage or of a field is another.
fn changed(layout: &NetworkMessageLayout, offset: usize, byte: u8) -> Vec<u8> {
    let mut sent = message(layout, &[1]).unwrap();
    sent[offset] = byte;
    sent
}

#[test]
fn every_rejection_has_its_name() {
    let layout = NetworkMessageLayout::papers(2234, 101, 2);
    let mut reader = subscriber(&layout, false).unwrap();
    let writer_id = layout.data_sets[0].writer_id;
    let mut received = |uadp: &[u8]| match reader.receive(uadp, Tai(0)) {
        Received::Rejected(rejected) => rejected,
        other => panic!("{other:?}"),
    };
    let with = |change: fn(&mut NetworkMessageLayout)| {
        let mut other = layout.clone();
        change(&mut other);
        message(&other, &[1]).unwrap()
    };
    let major = with(|other| other.data_sets[0].major_version = Some(2));
    assert_eq!(received(&major), Rejected::MajorVersion { writer_id, expected: 1, found: 2 });
    let more = NetworkMessageLayout::papers(2234, 101, 3);
    assert_eq!(received(&message(&more, &[1]).unwrap()), Rejected::FieldCount { writer_id, expected: 3, found: 4 });
    let signed = with(|other| other.data_sets[0].fields[2] = FieldType::Int64);
    let expected = FieldType::UInt64;
    assert_eq!(received(&signed), Rejected::FieldType { writer_id, field: 2, expected, found: 8 });
    let mut status = message(&layout, &[1]).unwrap();
    status.splice(32..41, [19, 0, 0, 0x80, 0x80]);
    assert_eq!(received(&status), Rejected::FieldStatus { writer_id, field: 1, status: 0x8080_0000 });
    assert_eq!(received(&changed(&layout, 10, 0xE0)), Rejected::NotValid { writer_id });
    assert_eq!(received(&changed(&layout, 11, 0x11)), Rejected::NoKeyFrame { writer_id });
    assert_eq!(received(&changed(&layout, 11, 0x12)), Rejected::Event { writer_id });
    let Rejected::Malformed(error) = received(&message(&layout, &[1]).unwrap()[..49]) else { panic!("cut") };
    assert_eq!(error.offset, 42, "{error}");
    let Rejected::Malformed(error) = received(&changed(&layout, 1, 0x11)) else { panic!("secured") };
    assert!(error.is_other_kind(), "{error}");
    assert_eq!((reader.counts().rejected, reader.counts().received, reader.counts().foreign), (9, 9, 0));
    let mut grouped = layout.clone();
    grouped.group_header.as_mut().unwrap().group_version = Some(7);
    let mut reader = subscriber(&grouped, false).unwrap();
    grouped.group_header.as_mut().unwrap().group_version = Some(8);
    let found = reader.receive(&message(&grouped, &[1]).unwrap(), Tai(0));
    assert_eq!(found, Received::Rejected(Rejected::GroupVersion { expected: 7, found: 8 }));
}

#[test]
fn other_ids_are_foreign_not_rejected() {
    let layout = NetworkMessageLayout::papers(2234, 101, 2);
    let mut reader = subscriber(&layout, false).unwrap();
    let mut other_writer = layout.clone();
    other_writer.data_sets[0].writer_id = 1;
    let others = [NetworkMessageLayout::papers(2235, 101, 2), NetworkMessageLayout::papers(2234, 102, 2), other_writer];
    for other in &others {
        let found = reader.receive(&message(other, &[1]).unwrap(), Tai(0));
        assert!(matches!(found, Received::Foreign(_)), "{found:?}");
    }
    assert!(matches!(reader.receive(&[], Tai(0)), Received::Foreign(_)));
    assert!(matches!(reader.receive(&[0xFF; 60], Tai(0)), Received::Foreign(_)));
    assert_eq!((reader.counts().foreign, reader.counts().received), (5, 0));
}

#[test]
fn fields_that_share_a_place_have_to_agree_in_any_form() {
    let layout = NetworkMessageLayout::papers(2234, 101, 3);
    let image = ImageLayout::repeating(&layout, 0, 1..4).expect("three UInt64");
    let config = |strict| SubscriberConfig { strict, ..SubscriberConfig::strict(layout.clone()) };
    let mut other = NetworkMessageLayout { timestamp: true, ..layout.clone() };
    other.data_sets[0].encoding = FieldEncoding::RawData;
    for form in [&layout, &other] {
        let mut template = WriterTemplate::new(form, None).expect("a layout");
        let mut reader = Subscriber::with_image(config(false), image.clone()).expect("a subscriber");
        for field in 1..4 {
            template.set_field(0, field, Value::UInt64(7)).expect("the field is there");
        }
        assert_eq!(reader.receive(template.frame(), Tai(0)), NEWS);
        assert_eq!(image.get(reader.image(), 0, 3), Some(Value::UInt64(7)));
        for field in 1..4 {
            template.set_field(0, field, Value::UInt64(8)).expect("the field is there");
            assert_eq!(reader.receive(template.frame(), Tai(0)), Received::Inconsistent, "field {field}");
            template.set_field(0, field, Value::UInt64(7)).expect("the field is there");
        }
        assert_eq!(image.get(reader.image(), 0, 1), Some(Value::UInt64(7)), "it is not read");
        assert_eq!(reader.counts().inconsistent, 3);
    }
}

#[test]
fn a_boolean_is_any_byte_and_becomes_one() {
    let mut layout = NetworkMessageLayout::papers(2234, 101, 1);
    layout.data_sets[0].fields = vec![FieldType::Boolean; 3];
    for encoding in [FieldEncoding::Variant, FieldEncoding::RawData] {
        layout.data_sets[0].encoding = encoding;
        let mut template = WriterTemplate::new(&layout, None).expect("a layout");
        template.write_image(&[0x7E, 0, 0x80, 0, 0, 0, 0, 0]).expect("an image");
        let stride = if encoding == FieldEncoding::Variant { 2 } else { 1 };
        let mut sent = template.frame().to_vec();
        let last = sent.len() - 1;
        let places = [last - 2 * stride, last - stride, last];
        assert_eq!(places.map(|place| sent[place]), [1, 0, 1], "{encoding:?}");
        sent[places[1]] = 0xFF;
        for mut reader in [subscriber(&layout, true).unwrap(), general_only(&layout).unwrap()] {
            assert_eq!(reader.receive(&sent, Tai(0)), NEWS);
            assert_eq!(reader.image(), [1, 1, 1, 0, 0, 0, 0, 0], "{encoding:?}");
        }
    }
}
