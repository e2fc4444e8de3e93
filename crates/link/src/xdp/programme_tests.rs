//! The programme run by the kernel over frames of every kind (`BPF_PROG_TEST_RUN`). Needs root.

use std::io::Write;

use super::super::bpf::test_run;
use super::super::memory::FrameMemory;
use super::super::socket::Socket;
use super::*;

const DESTINATION: [u8; 6] = [0x01, 0x00, 0x5E, 0x7F, 0x00, 0x01];
const ANY: Wanted<'_> = Wanted { destination: None, queue: 0, receivers: &[], stamp: Stamp::Nobody };
const STAMPS: [Stamp; 2] = [Stamp::Nobody, Stamp::Kernel];

/// What one receiver of these publishers gets.
fn of_publishers(publishers: &[u16]) -> Vec<XdpKey> {
    publishers.iter().map(|id| XdpKey { publisher_id: *id, writer_group_id: None }).collect()
}

/// None without root, or a failure with `DOWNBEAT_REQUIRE_ALL=1`.
fn load(wanted: Wanted<'_>) -> Option<Programme> {
    match Programme::load(wanted, InterfaceName::new("lo")) {
        Err(error @ LinkError::NotPermitted { .. }) => {
            assert_ne!(std::env::var("DOWNBEAT_REQUIRE_ALL").as_deref(), Ok("1"), "{error}");
            _ = writeln!(std::io::stderr(), "skipped: {error}");
            None
        }
        Ok(programme) => Some(programme),
        Err(error) => panic!("{error}\n{}", verifier_log(wanted)),
    }
}

pub(in crate::xdp) fn verifier_log(wanted: Wanted<'_>) -> String {
    let sockets = bpf::create_map(MapKind::Sockets, 4, 4, 1).unwrap();
    let counters = bpf::create_map(MapKind::Array, 4, COUNTERS_BYTES, 1).unwrap();
    let keys = key_map(wanted).unwrap();
    let keys = keys.as_ref().map(AsRawFd::as_raw_fd);
    let mut log = vec![0; 1 << 20];
    let instructions = assemble(wanted, sockets.as_raw_fd(), counters.as_raw_fd(), keys);
    _ = bpf::load(&instructions, wanted.device(), &mut log);
    String::from_utf8_lossy(&log).trim_end_matches('\0').to_owned()
}

fn frame(destination: [u8; 6], types: &[u16], content: &[u8]) -> Vec<u8> {
    let mut frame = destination.to_vec();
    frame.extend([2, 0, 0, 0, 0, 1]);
    for (place, ethertype) in types.iter().enumerate() {
        if place > 0 {
            frame.extend([0xE0, 0x0A]);
        }
        frame.extend(ethertype.to_be_bytes());
    }
    frame.extend(content);
    frame
}

/// Which counter a frame moves. Without a socket in the map, "missed" stands for "would be redirected".
fn outcome(programme: &Programme, frame: &[u8]) -> &'static str {
    let before = programme.filtered().unwrap();
    assert_eq!(test_run::run(programme.fd.as_fd(), frame), Ok(2), "passes to the stack: {frame:02X?}");
    let after = programme.filtered().unwrap();
    let moved = [
        (after.foreign - before.foreign, "foreign"),
        (after.unwanted - before.unwanted, "unwanted"),
        (after.redirected - before.redirected, "redirected"),
        (after.missed - before.missed, "missed"),
    ];
    let moved: Vec<_> = moved.into_iter().filter(|(count, _)| *count > 0).collect();
    assert!(matches!(moved[..], [(1, _)]), "{moved:?}");
    moved[0].1
}

#[test]
fn uadp_is_taken_tagged_and_untagged_and_nothing_else() {
    for stamp in STAMPS {
        let Some(programme) = load(Wanted { stamp, ..ANY }) else { return };
        for (types, expected) in [
            (&[0xB62C_u16][..], "missed"),
            (&[0x8100, 0xB62C], "missed"),
            (&[0x0800], "foreign"),
            (&[0xB62D], "foreign"),
            (&[0x2CB6], "foreign"),
            (&[0x8100, 0x0800], "foreign"),
            (&[0x88A8, 0xB62C], "foreign"),
            (&[0x8100, 0x8100, 0xB62C], "foreign"),
        ] {
            assert_eq!(outcome(&programme, &frame(DESTINATION, types, &[0; 46])), expected, "{types:X?}");
            assert_eq!(outcome(&programme, &frame([0xFF; 6], types, &[0; 1500])), expected, "{types:X?}");
        }
    }
}

#[test]
fn short_frames_and_garbage_pass() {
    let keys = of_publishers(&[1, 2]);
    let groups = keys.iter().map(|key| XdpKey { writer_group_id: Some(3), ..*key }).collect();
    let (one, many) = ([keys.clone()], [keys, groups]);
    let wanted = Wanted { destination: Some(DESTINATION), receivers: &one, stamp: Stamp::Kernel, ..ANY };
    for wanted in [ANY, wanted, Wanted { receivers: &many, ..wanted }] {
        let Some(programme) = load(wanted) else { return };
        // The kernel runs nothing shorter than a header.
        for bytes in 14..80 {
            assert_eq!(outcome(&programme, &vec![0xFF; bytes]), "foreign");
            assert_eq!(outcome(&programme, &vec![0; bytes]), "foreign");
        }
        let tagged = frame(DESTINATION, &[0x8100, 0xB62C], &[]);
        for bytes in 14..18 {
            assert_eq!(outcome(&programme, &tagged[..bytes]), "foreign", "{bytes}");
        }
        let mut state = 0x2545_F491_u32;
        for _ in 0..2_000 {
            let mut frame = frame(DESTINATION, &[0x8100, 0xB62C], &[0; 8]);
            for byte in &mut frame[6..] {
                // A generator of Marsaglia's; any sequence does.
                state ^= state << 13;
                state ^= state >> 17;
                state ^= state << 5;
                *byte = state as u8;
            }
            assert_ne!(outcome(&programme, &frame), "redirected");
        }
    }
}

#[test]
fn only_the_destination_is_taken() {
    let Some(programme) = load(Wanted { destination: Some(DESTINATION), ..ANY }) else { return };
    assert_eq!(outcome(&programme, &frame(DESTINATION, &[0xB62C], &[])), "missed");
    assert_eq!(outcome(&programme, &frame(DESTINATION, &[0x8100, 0xB62C], &[])), "missed");
    for byte in 0..6 {
        let mut other = DESTINATION;
        other[byte] ^= 0x80;
        assert_eq!(outcome(&programme, &frame(other, &[0xB62C], &[])), "unwanted", "{byte}");
    }
}

#[test]
fn only_the_publishers_are_taken() {
    let receivers = [of_publishers(&[0x0102, 2234, 65_535])];
    let Some(programme) = load(Wanted { receivers: &receivers, ..ANY }) else { return };
    for types in [&[0xB62C_u16][..], &[0x8100, 0xB62C]] {
        let of = |content: &[u8]| outcome(&programme, &frame(DESTINATION, types, content));
        // Version 1 with PublisherId and ExtendedFlags1; then its type, and perhaps ExtendedFlags2.
        assert_eq!(of(&[0x91, 0x01, 0x02, 0x01]), "missed");
        assert_eq!(of(&[0xF1, 0x21, 0xBA, 0x08, 9, 9]), "missed");
        assert_eq!(of(&[0x91, 0x81, 0x00, 0xFF, 0xFF]), "missed");
        for (content, why) in [
            (&[0x91, 0x01, 0x01, 0x02][..], "the other byte order"),
            (&[0x91, 0x01, 0xBB, 0x08], "another publisher"),
            (&[0x91, 0x81, 0x02, 0x01, 0x00], "another publisher behind ExtendedFlags2"),
            (&[0x81, 0x01, 0x02, 0x01], "no PublisherId"),
            (&[0x11, 0x02, 0x01, 0x00], "a PublisherId of one byte, by default"),
            (&[0x91, 0x02, 0x02, 0x01, 0, 0], "a PublisherId of four bytes"),
            (&[0x91, 0x01, 0x02], "cut"),
            (&[0x91, 0x81, 0x00, 0x02], "cut behind ExtendedFlags2"),
            (&[0x91], "cut"),
            (&[], "empty"),
        ] {
            assert_eq!(of(content), "unwanted", "{why}");
        }
    }
}

/// A socket that frames can be redirected to. Its rings live as long.
fn socket() -> impl AsFd {
    let socket = Socket::open(InterfaceName::new("lo"), crate::interface::index("lo").unwrap()).unwrap();
    socket.register(&FrameMemory::new(2, 2).unwrap()).unwrap();
    let rings = (socket.memory_rings(2, 2).unwrap(), socket.receiving_ring(2).unwrap());
    Opened { socket, _rings: rings }
}

struct Opened<R> {
    socket: Socket,
    _rings: R,
}

impl<R> AsFd for Opened<R> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.fd.as_fd()
    }
}

#[test]
fn with_a_socket_in_the_map_frames_are_redirected() {
    for stamp in STAMPS {
        let Some(programme) = load(Wanted { stamp, ..ANY }) else { return };
        let socket = socket();
        programme.connect(0, socket.as_fd()).unwrap();
        assert!(programme.connect(1, socket.as_fd()).is_err(), "there is one receiver only");
        assert_eq!(test_run::run(programme.fd.as_fd(), &frame(DESTINATION, &[0xB62C], &[0; 46])), Ok(4));
        assert_eq!(test_run::run(programme.fd.as_fd(), &frame(DESTINATION, &[0x0800], &[0; 46])), Ok(2));
        let expected = Filtered { foreign: 1, redirected: 1, ..Filtered::default() };
        assert_eq!(programme.filtered(), Ok(expected));
    }
}

#[test]
fn what_arrives_on_another_queue_than_the_sockets_passes() {
    let Some(programme) = load(Wanted { queue: 1, ..ANY }) else { return };
    let socket = socket();
    programme.connect(0, socket.as_fd()).unwrap();
    assert_eq!(outcome(&programme, &frame(DESTINATION, &[0xB62C], &[0; 46])), "missed");
}

/// The head of a message: PublisherId, a DataSetClassId or ExtendedFlags2 if wanted, and a WriterGroupId if there is one.
fn message(publisher: u16, group: Option<u16>, class_id: bool, flags_2: bool) -> Vec<u8> {
    let mut bytes = vec![0x91 | if group.is_some() { 0x20 } else { 0 }];
    bytes.push(0x01 | if class_id { 0x08 } else { 0 } | if flags_2 { 0x80 } else { 0 });
    bytes.extend(flags_2.then_some(0));
    bytes.extend(publisher.to_le_bytes());
    bytes.extend(vec![0xEE; if class_id { 16 } else { 0 }]);
    if let Some(group) = group {
        bytes.push(0x09);
        bytes.extend(group.to_le_bytes());
    }
    bytes
}

#[test]
fn each_receiver_gets_the_messages_of_its_groups() {
    let key = |publisher_id, writer_group_id| XdpKey { publisher_id, writer_group_id };
    let receivers = [
        vec![key(7, Some(101)), key(8, Some(0x0201))],
        vec![key(7, Some(102)), key(7, None)],
        vec![key(9, None), key(8, Some(0x0102))],
    ];
    for number in 0..3_u32 {
        for stamp in STAMPS {
            let Some(programme) = load(Wanted { receivers: &receivers, stamp, ..ANY }) else { return };
            let socket = socket();
            programme.connect(number, socket.as_fd()).unwrap();
            for (publisher, group, expected) in [
                (7, Some(101), Some(0)),
                (7, Some(102), Some(1)),
                (7, Some(103), Some(1)),
                (7, None, Some(1)),
                (8, Some(0x0201), Some(0)),
                (8, Some(0x0102), Some(2)),
                (8, Some(101), None),
                (8, None, None),
                (9, Some(101), Some(2)),
                (9, None, Some(2)),
                (10, Some(101), None),
            ] {
                for (class_id, flags_2) in [(false, false), (true, false), (false, true), (true, true)] {
                    let message = message(publisher, group, class_id, flags_2);
                    let verdict = test_run::run(programme.fd.as_fd(), &frame(DESTINATION, &[0x8100, 0xB62C], &message));
                    let mine = expected == Some(number);
                    assert_eq!(verdict, Ok(if mine { 4 } else { 2 }), "{publisher} {group:?} to {number}");
                }
            }
            // Cut within the WriterGroupId, or without one in its group header: for whoever takes all others.
            let cut = message(7, Some(101), false, false);
            let none = [&cut[..4], &[0x08, 101, 0]].concat();
            for message in [&cut[..6], &none] {
                let verdict = test_run::run(programme.fd.as_fd(), &frame(DESTINATION, &[0xB62C], message));
                assert_eq!(verdict, Ok(if number == 1 { 4 } else { 2 }), "{number}");
            }
            let filtered = programme.filtered().unwrap();
            assert_eq!(filtered.unwanted, 12, "nobody reads these");
            assert_eq!(filtered.redirected + filtered.missed, 8 * 4 + 2);
        }
    }
}

#[test]
fn many_publishers_are_one_look_up() {
    let publishers: Vec<u16> = (0..5_000).map(|number| number * 13).collect();
    let Some(programme) = load(Wanted { receivers: &[of_publishers(&publishers)], ..ANY }) else { return };
    let of = |publisher: u16| {
        let [low, high] = publisher.to_le_bytes();
        outcome(&programme, &frame(DESTINATION, &[0xB62C], &[0x91, 0x01, low, high]))
    };
    assert_eq!(
        [of(0), of(13), of(4_999 * 13), of(14), of(5_000 * 13)],
        ["missed", "missed", "missed", "unwanted", "unwanted"]
    );
}
