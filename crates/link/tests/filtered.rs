//! What a receiver lets pass, on a pair of virtual interfaces; every test for each way to receive.

mod common;

use common::frames::{next, receiver, sender, tag, uadp};
use common::{PORT_A, PORT_B, for_each_way};
use downbeat_link::{LinkError, Receiver, ReceiverOptions, Sender, Stamps, Tag, TagUse, interface};

/// The first bytes of a NetworkMessage of this publisher, with `rest` behind.
fn message(publisher: u16, rest: u8) -> Vec<u8> {
    let [low, high] = publisher.to_le_bytes();
    [&[0xF1, 0x01, low, high], &[rest; 55][..]].concat()
}

/// The contents of all frames that have come.
fn all(receiver: &mut Receiver) -> Vec<Vec<u8>> {
    std::iter::from_fn(|| receiver.receive().unwrap().map(|received| received.uadp.to_vec())).collect()
}

#[test]
fn frames_of_the_publishers_come_and_no_others() {
    for_each_way(|way| {
        let wanted: Vec<u16> = (0..300).map(|number| number * 211).collect();
        let options = ReceiverOptions { publishers: &wanted, buffer_bytes: 2 << 20, ..ReceiverOptions::default() };
        let mut receiver = receiver(PORT_B, way, options);
        assert!(receiver.checks_publishers());
        let sender = sender(PORT_A);
        let mut expected = Vec::new();
        for (number, publisher) in wanted.iter().enumerate() {
            let good = message(*publisher, number as u8);
            // Beside the good one: foreign publishers, other types of PublisherId, and garbage of all lengths.
            for other in [publisher + 1, publisher.wrapping_sub(2), u16::MAX - publisher] {
                if !wanted.contains(&other) {
                    sender.send(&uadp(tag(3000, 7), &message(other, 0))).unwrap();
                }
            }
            let mut as_uint32 = good.clone();
            as_uint32[1] = 0x02;
            sender.send(&uadp(tag(3000, 7), &as_uint32)).unwrap();
            sender.send(&uadp(tag(3000, 7), &good[..number % 4])).unwrap();
            let garbage: Vec<u8> = (0..number).map(|at| (at * 7 + 2) as u8).collect();
            sender.send(&uadp(None, &garbage)).unwrap();
            let tag = if number % 2 == 0 { tag(3000, 7) } else { None };
            sender.send(&uadp(tag, &good)).unwrap();
            expected.push(good);
        }
        assert_eq!(all(&mut receiver), expected);
        assert_eq!(receiver.drops().unwrap(), 0);
    });
}

#[test]
fn publishers_behind_extended_flags_and_tags_are_found() {
    for_each_way(|way| {
        let options = ReceiverOptions { publishers: &[0x0102], ..ReceiverOptions::default() };
        let mut receiver = receiver(PORT_B, way, options);
        let sender = sender(PORT_A);
        let extended = [&[0xF1, 0xA1, 0x00, 0x02, 0x01], &[9; 50][..]].concat();
        sender.send(&uadp(None, &extended)).unwrap();
        assert_eq!(all(&mut receiver), std::slice::from_ref(&extended));
        // The same behind two tags, of which one stays in the frame.
        let mut twice = uadp(tag(200, 3), &extended);
        twice.splice(12..12, [0x81, 0x00, 0xA0, 0x64]);
        sender.send(&twice).unwrap();
        assert_eq!(next(&mut receiver), Some((tag(100, 5), extended.clone(), None)));
        // What ExtendedFlags2 holds is not taken for the PublisherId.
        sender.send(&uadp(None, &[&[0xF1, 0xA1, 0x02, 0x01, 0x00], &[9; 50][..]].concat())).unwrap();
        assert_eq!(all(&mut receiver), [[0_u8; 0]; 0]);
    });
}

#[test]
fn too_many_publishers_are_left_to_the_reader() {
    for_each_way(|way| {
        let wanted: Vec<u16> = (0..5000).collect();
        let options = ReceiverOptions { publishers: &wanted, ..ReceiverOptions::default() };
        let mut receiver = receiver(PORT_B, way, options);
        assert!(!receiver.checks_publishers(), "told");
        sender(PORT_A).send(&uadp(tag(3000, 7), &message(60_000, 1))).unwrap();
        assert_eq!(all(&mut receiver), [message(60_000, 1)], "and let pass");
    });
}

#[test]
fn another_tag_is_seen_only_by_who_asks_for_it() {
    for_each_way(|way| {
        let with = |tag| receiver(PORT_B, way, ReceiverOptions { tag, ..ReceiverOptions::default() });
        let mut report = with(TagUse::Report);
        let mut require = with(TagUse::Require { vid: 3000, pcp: 7 });
        let mut ignore = with(TagUse::Ignore);
        let sender = sender(PORT_A);
        let eligible = Some(Tag { vid: 3000, pcp: 7, dei: true });
        let tags = [tag(3000, 7), tag(3001, 7), tag(3000, 6), tag(0, 7), None, eligible];
        for (number, tag) in tags.into_iter().enumerate() {
            sender.send(&uadp(tag, &[number as u8; 59])).unwrap();
        }
        for (number, tag) in tags.into_iter().enumerate() {
            assert_eq!(next(&mut report), Some((tag, vec![number as u8; 59], None)));
            assert_eq!(next(&mut ignore), Some((None, vec![number as u8; 59], None)));
        }
        assert_eq!(next(&mut require), Some((None, vec![0; 59], None)));
        assert_eq!(next(&mut require), Some((None, vec![5; 59], None)), "drop eligible or not is the network's matter");
        assert_eq!(require.receive().unwrap(), None);
        assert_eq!(require.drops().unwrap(), 0, "what is not wanted is not lost");
    });
}

#[test]
fn of_two_tags_the_required_one_is_the_outer() {
    for_each_way(|way| {
        let require = TagUse::Require { vid: 100, pcp: 5 };
        let mut receiver = receiver(PORT_B, way, ReceiverOptions { tag: require, ..ReceiverOptions::default() });
        let sender = sender(PORT_A);
        let twice = |tpid: u16, outer: [u8; 2], inner: Option<Tag>, content: u8| {
            let mut bytes = uadp(inner, &[content; 59]);
            bytes.splice(12..12, [tpid.to_be_bytes(), outer].concat());
            sender.send(&bytes).unwrap();
        };
        twice(0x8100, [0xA0, 0x64], tag(7, 7), 1); // outer right
        twice(0x8100, [0xA0, 0x65], tag(100, 5), 2); // inner right: wrong
        twice(0x88A8, [0xA0, 0x65], tag(100, 5), 3); // inside a service tag: right
        twice(0x88A8, [0xA0, 0x64], None, 4); // a service tag: wrong
        let found: Vec<_> = all(&mut receiver).iter().map(|content| content[0]).collect();
        assert_eq!(found, [1, 3]);
    });
}

#[test]
fn hardware_stamps_are_refused_where_there_are_none() {
    for_each_way(|way| {
        let stamping = interface::stamping(PORT_B).unwrap();
        assert!(stamping.receive_software && stamping.transmit_software, "{stamping:?}");
        assert!(!stamping.receive_hardware && !stamping.transmit_hardware, "{stamping:?}");
        assert_eq!(stamping.clock, None);
        let options = ReceiverOptions { way, stamps: Stamps::Hardware, ..ReceiverOptions::default() };
        let refused = Receiver::open(PORT_B, options).unwrap_err();
        assert!(matches!(refused, LinkError::Unsupported { .. }), "{refused:?}");
        assert!(refused.to_string().contains("software stamps"), "{refused}");
        let absent = interface::stamping("absent").unwrap_err();
        assert!(matches!(absent, LinkError::NoSuchInterface { .. }), "{absent:?}");
        // The device is as it was.
        drop(Sender::open(PORT_A, downbeat_link::SenderOptions::default()).unwrap());
    });
}
