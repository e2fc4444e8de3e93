//! The programme run by the kernel over frames of every kind (`BPF_PROG_TEST_RUN`). Needs root.

use std::io::Write;

use super::super::bpf::test_run;
use super::super::memory::FrameMemory;
use super::super::socket::Socket;
use super::*;

const DESTINATION: [u8; 6] = [0x01, 0x00, 0x5E, 0x7F, 0x00, 0x01];
const ANY: Wanted<'_> = Wanted { destination: None, publishers: &[], stamps: false };

/// None without root, or a failure with `DOWNBEAT_REQUIRE_ALL=1`.
fn load(wanted: Wanted<'_>) -> Option<Programme> {
    match Programme::load(wanted, 0, InterfaceName::new("lo")) {
        Err(error @ LinkError::NotPermitted { .. }) => {
            assert_ne!(std::env::var("DOWNBEAT_REQUIRE_ALL").as_deref(), Ok("1"), "{error}");
            _ = writeln!(std::io::stderr(), "skipped: {error}");
            None
        }
        Ok(programme) => Some(programme),
        Err(error) => panic!("{error}\n{}", verifier_log(wanted)),
    }
}

fn verifier_log(wanted: Wanted<'_>) -> String {
    let sockets = bpf::create_map(MapKind::Sockets, 4, 4, 1).unwrap();
    let counters = bpf::create_map(MapKind::Array, 4, 32, 1).unwrap();
    let publishers = publisher_set(wanted.publishers).unwrap();
    let publishers = publishers.as_ref().map(AsRawFd::as_raw_fd);
    let mut log = vec![0; 1 << 20];
    _ = bpf::load(&assemble(wanted, sockets.as_raw_fd(), counters.as_raw_fd(), publishers), &mut log);
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
    for stamps in [false, true] {
        let Some(programme) = load(Wanted { stamps, ..ANY }) else { return };
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
    let wanted = Wanted { destination: Some(DESTINATION), publishers: &[1, 2], stamps: true };
    for wanted in [ANY, wanted] {
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
    let Some(programme) = load(Wanted { publishers: &[0x0102, 2234, 65_535], ..ANY }) else { return };
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

#[test]
fn with_a_socket_in_the_map_frames_are_redirected() {
    for stamps in [false, true] {
        let Some(programme) = load(Wanted { stamps, ..ANY }) else { return };
        let interface = InterfaceName::new("lo");
        let socket = Socket::open(interface, crate::interface::index("lo").unwrap()).unwrap();
        socket.register(&FrameMemory::new(2, 2).unwrap()).unwrap();
        let _rings = socket.receiving_rings(2, 2).unwrap();
        programme.connect(0, socket.fd.as_fd()).unwrap();
        assert!(programme.connect(1, socket.fd.as_fd()).is_err(), "there is one queue only");
        assert_eq!(test_run::run(programme.fd.as_fd(), &frame(DESTINATION, &[0xB62C], &[0; 46])), Ok(4));
        assert_eq!(test_run::run(programme.fd.as_fd(), &frame(DESTINATION, &[0x0800], &[0; 46])), Ok(2));
        let expected = Filtered { foreign: 1, unwanted: 0, redirected: 1, missed: 0 };
        assert_eq!(programme.filtered(), Ok(expected));
    }
}

#[test]
fn many_publishers_are_one_look_up() {
    let publishers: Vec<u16> = (0..5_000).map(|number| number * 13).collect();
    let Some(programme) = load(Wanted { publishers: &publishers, ..ANY }) else { return };
    let of = |publisher: u16| {
        let [low, high] = publisher.to_le_bytes();
        outcome(&programme, &frame(DESTINATION, &[0xB62C], &[0x91, 0x01, low, high]))
    };
    assert_eq!(
        [of(0), of(13), of(4_999 * 13), of(14), of(5_000 * 13)],
        ["missed", "missed", "missed", "unwanted", "unwanted"]
    );
}
