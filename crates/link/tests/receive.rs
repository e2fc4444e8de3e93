//! Receivers on a pair of virtual interfaces; every test for each way to receive.

mod common;

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use common::frames::{DESTINATION, SECOND, TAI_MINUS_UTC, frame, next, now, receiver, sender, tag, tci, uadp};
use common::{PORT_A, PORT_B, for_each_way, in_namespace, ip_here, wait_for_ports};
use downbeat_link::{Departure, LinkError, ReceiveWay, Receiver, ReceiverOptions, Sender, SenderOptions, Stamps, Tag};
use downbeat_link::{bare, interface};
use units::{Nanos, Tai};

const ALL: ReceiverOptions<'static> = ReceiverOptions {
    way: ReceiveWay::Auto,
    destination: None,
    tag: downbeat_link::TagUse::Report,
    publishers: &[],
    tai_minus_utc: TAI_MINUS_UTC,
    stamps: Stamps::Off,
    buffer_bytes: 0,
    busy_poll_us: 0,
    busy_poll_budget: 0,
};
const OURS: ReceiverOptions<'static> = ReceiverOptions { destination: Some(DESTINATION), ..ALL };
const OTHER: [u8; 6] = [0x01, 0x00, 0x5E, 0x7F, 0x00, 0x02];

#[test]
fn the_tag_is_known_whatever_it_is() {
    for_each_way(|way| {
        let (sender, mut receiver) = (sender(PORT_A), receiver(PORT_B, way, OURS));
        let tags = [tag(3000, 7), tag(0, 6), tag(0, 0), None, tag(4094, 1), Some(Tag { vid: 5, pcp: 2, dei: true })];
        for (number, tag) in tags.into_iter().enumerate() {
            sender.send(&uadp(tag, &[number as u8; 59])).unwrap();
            assert_eq!(next(&mut receiver), Some((tag, vec![number as u8; 59], None)), "{tag:?}");
        }
        sender.send(&uadp(tag(3000, 7), b"xy")).unwrap();
        assert!(receiver.wait(SECOND).unwrap());
        let received = receiver.receive().unwrap().unwrap();
        assert_eq!(received.frame, uadp(None, b"xy"), "as received: without the tag");
        assert_eq!(receiver.receive().unwrap(), None);
        assert_eq!(receiver.drops().unwrap(), 0);
    });
}

/// A frame with a tag of type `tpid` in front of a tag that is left in it.
fn twice_tagged(tpid: u16, outer: Tag, inner: Option<Tag>, content: &[u8]) -> Vec<u8> {
    let mut bytes = uadp(inner, content);
    let tag = [tpid.to_be_bytes(), tci(outer).to_be_bytes()].concat();
    bytes.splice(12..12, tag);
    bytes
}

#[test]
fn of_two_tags_the_outer_counts() {
    for_each_way(|way| {
        let (sender, mut receiver) = (sender(PORT_A), receiver(PORT_B, way, OURS));
        let (outer, inner) = (tag(100, 5), tag(200, 3));
        sender.send(&twice_tagged(0x8100, outer.unwrap(), inner, &[1; 59])).unwrap();
        assert!(receiver.wait(SECOND).unwrap());
        let received = receiver.receive().unwrap().unwrap();
        assert_eq!((received.tag, received.uadp), (outer, &[1; 59][..]));
        assert_eq!(received.frame, uadp(inner, &[1; 59]), "the inner tag stays");
        // A service tag is no tag of a stream: what it stands around is.
        sender.send(&twice_tagged(0x88A8, outer.unwrap(), inner, &[2; 59])).unwrap();
        sender.send(&twice_tagged(0x88A8, outer.unwrap(), None, &[3; 59])).unwrap();
        assert_eq!(next(&mut receiver), Some((inner, vec![2; 59], None)));
        assert_eq!(next(&mut receiver), Some((None, vec![3; 59], None)));
    });
}

#[test]
fn nothing_else_is_delivered() {
    for_each_way(|way| {
        let sender = sender(PORT_A);
        let (mut one, mut all) = (receiver(PORT_B, way, OURS), receiver(PORT_B, way, ALL));
        let mut own = receiver(PORT_A, way, ALL);
        for ethertype in [0x88B5, 0x0800, 0xB62D] {
            sender.send(&frame(DESTINATION, None, ethertype, &[1; 50])).unwrap();
            sender.send(&frame(DESTINATION, tag(3000, 7), ethertype, &[1; 50])).unwrap();
        }
        sender.send(&frame(OTHER, tag(3000, 7), 0xB62C, b"other")).unwrap();
        // An address that is neither ours nor a group's.
        sender.send(&frame([2, 9, 9, 9, 9, 9], tag(3000, 7), 0xB62C, b"elsewhere")).unwrap();
        sender.send(&uadp(tag(3000, 7), b"last")).unwrap();
        assert_eq!(next(&mut one).unwrap().1, b"last");
        let found = [next(&mut all), next(&mut all), next(&mut all)].map(|found| found.unwrap().1);
        assert_eq!(found, [b"other".to_vec(), b"elsewhere".to_vec(), b"last".to_vec()]);
        assert_eq!((one.receive().unwrap(), all.receive().unwrap()), (None, None));
        assert_eq!(own.receive().unwrap(), None, "own frames are not received");
        assert!(!own.wait(Nanos::from_millis(1)).unwrap());
    });
}

#[test]
fn frames_leave_before_they_arrive() {
    for_each_way(|way| {
        let sender =
            Sender::open(PORT_A, SenderOptions { priority: 7, stamps: Stamps::Software, ..Default::default() })
                .unwrap();
        let mut left = sender.stamps(TAI_MINUS_UTC).unwrap();
        let mut receiver = receiver(PORT_B, way, ReceiverOptions { stamps: Stamps::Software, ..ALL });
        assert_eq!(receiver.stamps(), Stamps::Software);
        assert_eq!(left.wait(Nanos::from_millis(5)).unwrap(), None);
        // Until receive stamps are switched on.
        std::thread::sleep(Duration::from_millis(200));
        let mut arrived = Vec::new();
        let began = now();
        for number in 0..200_u8 {
            sender.send(&uadp(tag(3000, 7), &[number; 59])).unwrap();
            let (_, content, stamp) = next(&mut receiver).unwrap();
            assert_eq!(content, [number; 59]);
            arrived.push(stamp.expect("a receive stamp"));
        }
        let ended = now();
        let left = std::iter::from_fn(|| left.wait(Nanos::from_millis(250)).unwrap());
        let left: Vec<_> = left.filter_map(Departure::stamp).collect();
        assert_eq!(left.iter().map(|stamp| stamp.id).collect::<Vec<_>>(), (0..200).collect::<Vec<_>>());
        let mut last = began;
        for (left, arrived) in left.iter().zip(&arrived) {
            assert!(last <= left.at && left.at <= *arrived && *arrived <= ended, "{last:?} {left:?} {arrived:?}");
            last = *arrived;
        }
    });
}

#[test]
fn both_ways_tell_the_same_stamp() {
    in_namespace(|| {
        let options = ReceiverOptions { stamps: Stamps::Software, ..ALL };
        let mut packet = receiver(PORT_B, ReceiveWay::Packet, options);
        let mut ring = receiver(PORT_B, ReceiveWay::Ring, options);
        std::thread::sleep(Duration::from_millis(200));
        let sender = sender(PORT_A);
        for number in 0..50_u8 {
            sender.send(&uadp(tag(3000, 7), &[number; 59])).unwrap();
            let (by_call, by_ring) = (next(&mut packet).unwrap(), next(&mut ring).unwrap());
            assert_eq!(by_call, by_ring);
            assert!(by_ring.2.is_some(), "{number}");
        }
    });
}

#[test]
fn what_finds_no_room_is_counted() {
    for_each_way(|way| {
        let sender = sender(PORT_A);
        let mut receiver = receiver(PORT_B, way, ReceiverOptions { buffer_bytes: 4096, ..ALL });
        let burst = |receiver: &mut Receiver, first: u8| {
            for number in 0..100 {
                sender.send(&uadp(tag(3000, 7), &[first + number; 59])).unwrap();
            }
            let mut received = 0;
            while let Some(found) = receiver.receive().unwrap() {
                assert_eq!(found.uadp, [first + received; 59], "the first ones, in order");
                received += 1;
            }
            u64::from(received)
        };
        let received = burst(&mut receiver, 0);
        assert!((1..100).contains(&received), "{received}");
        assert_eq!(receiver.drops().unwrap(), 100 - received);
        assert_eq!(burst(&mut receiver, 100), received);
        assert_eq!(receiver.drops().unwrap(), 2 * (100 - received), "they add up");
    });
}

#[test]
fn frames_stay_whole_under_load() {
    const FRAMES: u32 = 20_000;
    for_each_way(|way| {
        let mut receiver = receiver(PORT_B, way, ReceiverOptions { buffer_bytes: 16_384, ..ALL });
        let sender = sender(PORT_A);
        let sending = std::thread::spawn(move || {
            for number in 0..FRAMES {
                // All bytes tell the number.
                let content: Vec<u8> = number.to_le_bytes().into_iter().cycle().take(4 * 64).collect();
                sender.send(&uadp(tag(1, 1), &content)).unwrap();
            }
        });
        let (mut received, mut last) = (0, None);
        let mut take = |receiver: &mut Receiver| {
            while let Some(found) = receiver.receive().unwrap() {
                let number = u32::from_le_bytes(*found.uadp.first_chunk().unwrap());
                assert!(found.uadp.len() == 256 && found.uadp.chunks(4).all(|chunk| chunk == number.to_le_bytes()));
                assert!(last < Some(number), "{last:?}, then {number}");
                last = Some(number);
                received += 1;
            }
        };
        while !sending.is_finished() {
            receiver.wait(Nanos::from_millis(1)).unwrap();
            take(&mut receiver);
        }
        sending.join().unwrap();
        take(&mut receiver);
        assert_eq!(received + receiver.drops().unwrap(), u64::from(FRAMES));
    });
}

#[test]
fn frames_of_every_size_arrive() {
    for_each_way(|way| {
        let (sender, mut receiver) = (sender(PORT_A), receiver(PORT_B, way, ALL));
        // The kernel takes no tag out of a frame that has less behind it than an EtherType and two bytes.
        for bytes in 2..=1500_usize {
            let content: Vec<u8> = (0..bytes).map(|at| (at ^ bytes) as u8).collect();
            let sent = uadp(tag(3000, 7), &content);
            sender.send(&sent).unwrap();
            assert!(receiver.wait(SECOND).unwrap());
            let received = receiver.receive().unwrap().unwrap();
            assert_eq!((received.uadp, received.frame.len()), (&content[..], sent.len() - 4));
        }
        assert_eq!(receiver.drops().unwrap(), 0);
    });
}

#[test]
fn the_largest_frame_arrives_whole() {
    for_each_way(|way| {
        for port in [PORT_A, PORT_B] {
            ip_here(&["link", "set", port, "mtu", "65535"]);
        }
        wait_for_ports();
        assert_eq!(interface::mtu(PORT_A), Ok(65_535));
        let (sender, mut receiver) = (sender(PORT_A), receiver(PORT_B, way, ALL));
        sender.send(&uadp(tag(1, 1), &[7; 65_000])).unwrap();
        assert_eq!(next(&mut receiver).unwrap().1, [7; 65_000]);
    });
}

#[test]
fn a_frame_that_outgrows_the_buffer_is_whole_or_counted() {
    for_each_way(|way| {
        let mut receiver = receiver(PORT_B, way, ALL);
        for port in [PORT_A, PORT_B] {
            ip_here(&["link", "set", port, "mtu", "9000"]);
        }
        wait_for_ports();
        let sender = sender(PORT_A);
        for number in 0..4 {
            sender.send(&uadp(tag(3000, number), &[number; 8000])).unwrap();
            sender.send(&uadp(tag(3000, number), &[number; 59])).unwrap();
        }
        for number in 0..4 {
            assert_eq!(next(&mut receiver), Some((tag(3000, number), vec![number; 8000], None)));
            assert_eq!(next(&mut receiver), Some((tag(3000, number), vec![number; 59], None)));
        }
        assert_eq!(receiver.drops().unwrap(), 0);
        // More than any room there is.
        for _ in 0..200 {
            sender.send(&uadp(tag(3000, 7), &[9; 8000])).unwrap();
        }
        let mut received = 0;
        while let Some(found) = receiver.receive().unwrap() {
            assert_eq!(found.uadp, [9; 8000]);
            received += 1;
        }
        assert!((1..200).contains(&received), "{received}");
        assert_eq!(receiver.drops().unwrap(), 200 - received);
        sender.send(&uadp(tag(3000, 7), b"and on")).unwrap();
        assert_eq!(next(&mut receiver).unwrap().1, b"and on");
    });
}

#[test]
fn an_interface_that_goes_down_is_told_once() {
    for_each_way(|way| {
        let (sender, mut receiver) = (sender(PORT_A), receiver(PORT_B, way, ALL));
        ip_here(&["link", "set", PORT_B, "down"]);
        let error = receiver.wait(SECOND).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENETDOWN));
        assert!(!receiver.wait(Nanos::from_millis(1)).unwrap());
        let down = Receiver::open(PORT_B, ReceiverOptions { way, ..ALL }).unwrap_err();
        assert!(matches!(down, LinkError::Down { .. }), "{down:?}");
        ip_here(&["link", "set", PORT_B, "up"]);
        wait_for_ports();
        sender.send(&uadp(tag(3000, 7), b"back")).unwrap();
        assert_eq!(next(&mut receiver).unwrap().1, b"back");
    });
}

/// The first error of looking again and again without waiting, if there is one.
fn error_of_looking(receiver: &mut Receiver) -> Option<i32> {
    (0..2 * 1024).find_map(|_| receiver.receive().err()).map(|error| error.raw_os_error().unwrap())
}

#[test]
fn an_interface_that_goes_down_is_seen_without_waiting() {
    for_each_way(|way| {
        let (sender, mut receiver) = (sender(PORT_A), receiver(PORT_B, way, ALL));
        assert_eq!(error_of_looking(&mut receiver), None);
        for _ in 0..3 {
            ip_here(&["link", "set", PORT_B, "down"]);
            assert_eq!(error_of_looking(&mut receiver), Some(libc::ENETDOWN));
            assert_eq!(error_of_looking(&mut receiver), None);
            ip_here(&["link", "set", PORT_B, "up"]);
            wait_for_ports();
            sender.send(&uadp(tag(3000, 7), b"back")).unwrap();
            assert_eq!(next(&mut receiver).unwrap().1, b"back");
        }
        ip_here(&["link", "set", PORT_B, "down"]);
        // Two looks after a frame are enough.
        let soon = (0..2).find_map(|_| receiver.receive().err());
        assert_eq!(soon.unwrap().raw_os_error(), Some(libc::ENETDOWN));
    });
}

#[test]
fn an_interface_that_is_removed_is_told_once() {
    for_each_way(|way| {
        let mut receiver = receiver(PORT_B, way, ALL);
        sender(PORT_A).send(&uadp(tag(3000, 7), b"last")).unwrap();
        assert_eq!(next(&mut receiver).unwrap().1, b"last");
        ip_here(&["link", "del", PORT_B]);
        assert_eq!(receiver.wait(SECOND).unwrap_err().raw_os_error(), Some(libc::ENETDOWN));
        assert_eq!(error_of_looking(&mut receiver), None);
        assert!(!receiver.wait(Nanos::from_millis(1)).unwrap());
        assert_eq!(receiver.drops().unwrap(), 0);
    });
}

#[test]
fn a_port_of_a_bridge_still_shows_its_frames() {
    for_each_way(|way| {
        ip_here(&["link", "add", "bridge", "type", "bridge"]);
        ip_here(&["link", "set", "bridge", "up"]);
        ip_here(&["link", "set", PORT_B, "master", "bridge"]);
        wait_for_ports();
        let (sender, mut receiver) = (sender(PORT_A), receiver(PORT_B, way, OURS));
        sender.send(&uadp(tag(3000, 7), &[5; 59])).unwrap();
        assert_eq!(next(&mut receiver), Some((tag(3000, 7), vec![5; 59], None)));
        assert_eq!(receiver.receive().unwrap(), None);
    });
}

#[test]
fn missing_interfaces_and_rights_are_said() {
    for_each_way(|way| {
        let options = ReceiverOptions { way, ..ALL };
        let absent = Receiver::open("absent", options).unwrap_err();
        assert!(absent.to_string().contains("no interface named \"absent\""), "{absent}");
        common::become_nobody();
        for way in [way, ReceiveWay::Auto] {
            let error = Receiver::open(PORT_A, ReceiverOptions { way, ..options }).unwrap_err();
            assert!(matches!(error, LinkError::NotPermitted { needs: "CAP_NET_RAW", .. }), "{error:?}");
            assert!(error.to_string().contains("sudo"), "{error}");
        }
    });
}

#[test]
fn waiting_ends_when_the_time_is_over() {
    for_each_way(|way| {
        let (sender, mut receiver) = (sender(PORT_A), receiver(PORT_B, way, ALL));
        let times_out = |receiver: &Receiver| {
            let began = Instant::now();
            assert!(!receiver.wait(Nanos::from_millis(20)).unwrap());
            assert!(began.elapsed() >= Duration::from_millis(20));
        };
        times_out(&receiver);
        assert!(!receiver.wait(Nanos(-5)).unwrap(), "a time that is past");
        // A frame that was taken and not yet given back is none that has come.
        sender.send(&uadp(tag(3000, 7), b"taken")).unwrap();
        assert!(receiver.wait(SECOND).unwrap() && receiver.wait(Nanos::ZERO).unwrap());
        assert_eq!(receiver.receive().unwrap().unwrap().uadp, b"taken");
        times_out(&receiver);
        assert_eq!(receiver.receive().unwrap(), None);
    });
}

#[test]
fn waiting_ends_when_a_frame_comes() {
    for_each_way(|way| {
        let (mut sender, mut receiver) = (sender(PORT_A), receiver(PORT_B, way, ALL));
        for number in 0..20_u8 {
            std::thread::scope(|scope| {
                let sender = &mut sender;
                scope.spawn(move || {
                    std::thread::sleep(Duration::from_millis(2));
                    sender.send(&uadp(tag(3000, 7), &[number; 59])).unwrap();
                });
                assert!(receiver.wait(SECOND * 10).unwrap());
            });
            assert_eq!(receiver.receive().unwrap().unwrap().uadp, [number; 59]);
        }
    });
}

#[test]
fn the_bare_calls_carry_the_same_frames() {
    in_namespace(|| {
        let (sender, receiver) = (sender(PORT_A), receiver(PORT_B, ReceiveWay::Packet, ALL));
        let mut ring = bare::Ring::open(PORT_B, 4096).unwrap();
        assert_eq!(ring.frame(), None);
        // More often than there are slots.
        for number in 0..5_u8 {
            let frame = uadp(tag(3000, 7), &[number; 59]);
            assert_eq!(bare::send(sender.as_fd(), &frame).unwrap(), frame.len());
            let mut buffer = [0; 100];
            let bytes = bare::recv(receiver.as_fd(), &mut buffer).unwrap();
            let expected = uadp(None, &[number; 59]);
            assert_eq!(buffer[..bytes], expected);
            assert_eq!(ring.frame(), Some(&expected[..]));
            ring.release();
            assert_eq!(ring.frame(), None);
        }
        assert!(!format!("{:?}", ring.as_fd()).is_empty());
    });
}

#[test]
fn a_ring_is_taken_where_there_is_one() {
    in_namespace(|| {
        let options = ReceiverOptions { busy_poll_us: 50, busy_poll_budget: 8, ..ALL };
        let mut receiver = Receiver::open(PORT_B, options).unwrap();
        assert_eq!(receiver.way(), ReceiveWay::Ring);
        assert_eq!(receiver.busy_poll().us, 50);
        assert!([0, 8].contains(&receiver.busy_poll().budget));
        sender(PORT_A).send(&uadp(None, b"polled")).unwrap();
        assert_eq!(next(&mut receiver), Some((None, b"polled".to_vec(), None::<Tai>)));
    });
}
