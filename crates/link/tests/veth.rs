//! Sender and receiver on a pair of virtual interfaces.

mod common;

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use common::{PORT_A, PORT_B, in_namespace, ip, skipped, wait_for_ports};
use downbeat_link::{LinkError, Receiver, ReceiverOptions, Sender, SenderOptions, StampReader, Tag, TxStamp};
use downbeat_link::{bare, interface};
use units::{Nanos, Tai};

const DESTINATION: [u8; 6] = [0x01, 0x00, 0x5E, 0x7F, 0x00, 0x01];
const OTHER: [u8; 6] = [0x01, 0x00, 0x5E, 0x7F, 0x00, 0x02];
const SECOND: Nanos = Nanos(1_000_000_000);
/// Not the machine's offset: the tests would not see one that is left out.
const TAI_MINUS_UTC: Nanos = Nanos(37_000_000_000);

fn frame(destination: [u8; 6], tag: Option<Tag>, ethertype: u16, content: &[u8]) -> Vec<u8> {
    let mut frame = destination.to_vec();
    frame.extend([0x02, 0, 0, 0, 0, 1]);
    if let Some(Tag { vid, pcp, dei }) = tag {
        frame.extend(0x8100_u16.to_be_bytes());
        frame.extend((u16::from(pcp) << 13 | u16::from(dei) << 12 | vid).to_be_bytes());
    }
    frame.extend(ethertype.to_be_bytes());
    frame.extend(content);
    frame
}

fn uadp(tag: Option<Tag>, content: &[u8]) -> Vec<u8> {
    frame(DESTINATION, tag, 0xB62C, content)
}

fn tag(vid: u16, pcp: u8) -> Option<Tag> {
    Some(Tag { vid, pcp, dei: false })
}

fn receiver(interface: &str, destination: Option<[u8; 6]>) -> Receiver {
    let options = ReceiverOptions { destination, tai_minus_utc: TAI_MINUS_UTC, ..ReceiverOptions::default() };
    Receiver::open(interface, options).unwrap()
}

fn sender(interface: &str) -> Sender {
    Sender::open(interface, SenderOptions { priority: 7, stamps: false }).unwrap()
}

/// Tag, content and stamp of the next frame; none when none comes.
fn next(receiver: &mut Receiver) -> Option<(Option<Tag>, Vec<u8>, Option<Tai>)> {
    receiver.wait(Nanos::from_millis(500)).unwrap();
    receiver.receive().unwrap().map(|received| (received.tag, received.uadp.to_vec(), received.stamp))
}

/// The test's own idea of TAI.
fn now() -> Tai {
    let utc = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    Tai(utc.as_nanos() as i64) + TAI_MINUS_UTC
}

#[test]
fn the_tag_is_known_whatever_it_is() {
    in_namespace(|| {
        let (sender, mut receiver) = (sender(PORT_A), receiver(PORT_B, Some(DESTINATION)));
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

#[test]
fn nothing_else_is_delivered() {
    in_namespace(|| {
        let sender = sender(PORT_A);
        let (mut one, mut all) = (receiver(PORT_B, Some(DESTINATION)), receiver(PORT_B, None));
        let mut own = receiver(PORT_A, None);
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

/// All stamps that come until a quarter of a second passes without one.
fn stamps(reader: &mut StampReader) -> Vec<TxStamp> {
    std::iter::from_fn(|| reader.wait(Nanos::from_millis(250)).unwrap()).collect()
}

#[test]
fn frames_leave_before_they_arrive() {
    in_namespace(|| {
        let sender = Sender::open(PORT_A, SenderOptions { priority: 7, stamps: true }).unwrap();
        let mut left = sender.stamps(TAI_MINUS_UTC).unwrap();
        let options = ReceiverOptions { tai_minus_utc: TAI_MINUS_UTC, stamps: true, ..ReceiverOptions::default() };
        let mut receiver = Receiver::open(PORT_B, options).unwrap();
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
        let left = stamps(&mut left);
        assert_eq!(left.iter().map(|stamp| stamp.id).collect::<Vec<_>>(), (0..200).collect::<Vec<_>>());
        let mut last = began;
        for (left, arrived) in left.iter().zip(&arrived) {
            assert!(last <= left.at && left.at <= *arrived && *arrived <= ended, "{last:?} {left:?} {arrived:?}");
            last = *arrived;
        }
    });
}

#[test]
fn stamps_keep_their_numbers_when_sends_fail() {
    in_namespace(|| {
        let sender = Sender::open(PORT_A, SenderOptions { priority: 3, stamps: true }).unwrap();
        let mut left = sender.stamps(TAI_MINUS_UTC).unwrap();
        let good = uadp(tag(3000, 7), &[1; 59]);
        sender.send(&good).unwrap(); // 0
        let long = sender.send(&uadp(tag(3000, 7), &[1; 1501])).unwrap_err(); // 1
        assert!(matches!(long, LinkError::TooLong { bytes: 1519, .. }), "{long:?}");
        assert!(long.to_string().contains("mtu"), "{long}");
        sender.send(&uadp(tag(3000, 7), &[1; 1500])).unwrap(); // 2
        assert_eq!(sender.send(&good[..13]).unwrap_err().errno(), libc::EINVAL); // 3
        assert_eq!(sender.send(&[]).unwrap_err().errno(), libc::EINVAL); // 4
        sender.send(&good).unwrap(); // 5
        assert_eq!(stamps(&mut left).iter().map(|stamp| stamp.id).collect::<Vec<_>>(), [0, 2, 5]);
        // An interface that goes down and comes back.
        ip_here(&["link", "set", PORT_A, "down"]);
        let down = sender.send(&good).unwrap_err(); // 6
        assert!(matches!(down, LinkError::Down { .. }), "{down:?}");
        ip_here(&["link", "set", PORT_A, "up"]);
        wait_for_ports();
        sender.send(&good).unwrap(); // 7
        assert_eq!(stamps(&mut left).iter().map(|stamp| stamp.id).collect::<Vec<_>>(), [7]);
    });
}

#[test]
fn a_frame_the_queue_drops_keeps_its_number() {
    in_namespace(|| {
        // A queue that lets a burst pass and then drops.
        let tbf = ["qdisc", "add", "dev", PORT_A, "root", "tbf", "rate", "8kbit", "burst", "1600", "limit", "1600"];
        let output = std::process::Command::new("tc").args(tbf).output();
        if !output.is_ok_and(|output| output.status.success()) {
            assert_ne!(std::env::var("DOWNBEAT_REQUIRE_ALL").as_deref(), Ok("1"), "tc qdisc add … tbf");
            skipped("needs tc and the queueing discipline tbf");
            return;
        }
        let sender = Sender::open(PORT_A, SenderOptions { priority: 0, stamps: true }).unwrap();
        let mut left = sender.stamps(TAI_MINUS_UTC).unwrap();
        let big = uadp(None, &[1; 1486]);
        sender.send(&big).unwrap(); // 0: passes
        sender.send(&big).unwrap(); // 1: waits for longer than the test
        let dropped = sender.send(&big).unwrap_err(); // 2
        assert!(matches!(dropped, LinkError::Dropped { .. }), "{dropped:?}");
        let output = std::process::Command::new("tc").args(["qdisc", "del", "dev", PORT_A, "root"]).output().unwrap();
        assert!(output.status.success());
        sender.send(&big).unwrap(); // 3
        assert_eq!(stamps(&mut left).iter().map(|stamp| stamp.id).collect::<Vec<_>>(), [0, 3]);
    });
}

/// Children inherit the namespace of the thread that starts them.
fn ip_here(arguments: &[&str]) {
    ip(arguments).unwrap();
}

#[test]
fn a_full_receive_buffer_is_counted() {
    in_namespace(|| {
        let sender = sender(PORT_A);
        let options = ReceiverOptions { buffer_bytes: 4096, ..ReceiverOptions::default() };
        let mut receiver = Receiver::open(PORT_B, options).unwrap();
        for _ in 0..100 {
            sender.send(&uadp(tag(3000, 7), &[1; 59])).unwrap();
        }
        let mut received = 0;
        while receiver.receive().unwrap().is_some() {
            received += 1;
        }
        assert!((1..100).contains(&received), "{received}");
        assert_eq!(receiver.drops().unwrap(), 100 - received);
        for _ in 0..100 {
            sender.send(&uadp(tag(3000, 7), &[1; 59])).unwrap();
        }
        assert_eq!(receiver.drops().unwrap(), 2 * (100 - received), "they add up");
    });
}

#[test]
fn the_largest_frame_arrives_whole() {
    in_namespace(|| {
        for port in [PORT_A, PORT_B] {
            ip_here(&["link", "set", port, "mtu", "65535"]);
        }
        wait_for_ports();
        assert_eq!(interface::mtu(PORT_A), Ok(65_535));
        let (sender, mut receiver) = (sender(PORT_A), receiver(PORT_B, None));
        sender.send(&uadp(tag(1, 1), &[7; 65_000])).unwrap();
        assert_eq!(next(&mut receiver).unwrap().1, [7; 65_000]);
    });
}

#[test]
fn an_interface_that_goes_down_is_told_once() {
    in_namespace(|| {
        let (sender, mut receiver) = (sender(PORT_A), receiver(PORT_B, None));
        ip_here(&["link", "set", PORT_B, "down"]);
        let error = receiver.wait(SECOND).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENETDOWN));
        assert!(!receiver.wait(Nanos::from_millis(1)).unwrap());
        let down = Sender::open(PORT_B, SenderOptions::default()).unwrap_err();
        assert!(down.to_string().contains("ip link set port-b up"), "{down}");
        assert!(matches!(Receiver::open(PORT_B, ReceiverOptions::default()), Err(LinkError::Down { .. })));
        ip_here(&["link", "set", PORT_B, "up"]);
        wait_for_ports();
        sender.send(&uadp(tag(3000, 7), b"back")).unwrap();
        assert_eq!(next(&mut receiver).unwrap().1, b"back");
    });
}

#[test]
fn missing_interfaces_and_rights_are_said() {
    in_namespace(|| {
        for error in [
            Sender::open("absent", SenderOptions::default()).unwrap_err(),
            Receiver::open("absent", ReceiverOptions::default()).unwrap_err(),
        ] {
            assert!(error.to_string().contains("no interface named \"absent\""), "{error}");
        }
        let plain = sender(PORT_A);
        assert!(plain.stamps(TAI_MINUS_UTC).unwrap_err().to_string().contains("without stamps"));
        // SAFETY: the raw call, unlike libc's, changes the user of this thread alone, which ends after the test.
        let result = unsafe { libc::syscall(libc::SYS_setresuid, -1_i32, 65_534_i32, -1_i32) };
        assert_eq!(result, 0);
        for error in [
            Sender::open(PORT_A, SenderOptions::default()).unwrap_err(),
            Receiver::open(PORT_A, ReceiverOptions::default()).unwrap_err(),
        ] {
            assert!(matches!(error, LinkError::NotPermitted { needs: "CAP_NET_RAW", .. }), "{error:?}");
            assert!(error.to_string().contains("sudo"), "{error}");
        }
    });
}

#[test]
fn waiting_ends_when_the_time_is_over() {
    in_namespace(|| {
        let receiver = receiver(PORT_B, None);
        let began = Instant::now();
        assert!(!receiver.wait(Nanos::from_millis(20)).unwrap());
        assert!(began.elapsed() >= Duration::from_millis(20));
        assert!(!receiver.wait(Nanos(-5)).unwrap(), "a time that is past");
    });
}

#[test]
fn the_bare_calls_carry_the_same_frames() {
    in_namespace(|| {
        let (sender, receiver) = (sender(PORT_A), receiver(PORT_B, None));
        let frame = uadp(tag(3000, 7), b"bare");
        assert_eq!(bare::send(sender.as_fd(), &frame).unwrap(), frame.len());
        let mut buffer = [0; 100];
        let bytes = bare::recv(receiver.as_fd(), &mut buffer).unwrap();
        assert_eq!(buffer[..bytes], uadp(None, b"bare"));
        assert_eq!(interface::mac(PORT_A).unwrap()[0] & 1, 0);
        assert_eq!(interface::is_up(PORT_A), Ok(true));
    });
}
