//! NetworkMessages over UDP between two hosts: what arrives, from whom, when, and what it looks like on the wire.

mod common;

#[path = "common/hosts.rs"]
mod hosts;

use std::os::fd::AsRawFd;
use std::time::Duration;

use common::frames::{TAI_MINUS_UTC, now};
use common::{PORT_A, in_namespace, ip_here};
use downbeat_link::udp::{UdpReceiver, UdpReceiverOptions, UdpSender, UdpSenderOptions};
use downbeat_link::{Departure, LinkError, StampReader, Stamps, TxStamp, TxTime};
use hosts::{address, next, on_two_hosts, sender};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, socket};
use units::{Nanos, Tai};

const STAMPED: UdpSenderOptions = UdpSenderOptions {
    priority: 0,
    dscp: 0,
    hops: None,
    loopback: false,
    source: None,
    stamps: Stamps::Software,
    txtime: None,
};

/// All stamps that come until a quarter of a second passes without one.
fn stamps(reader: &mut StampReader) -> Vec<TxStamp> {
    std::iter::from_fn(|| reader.wait(Nanos::from_millis(250)).unwrap()).filter_map(Departure::stamp).collect()
}

#[test]
fn messages_reach_addresses_and_groups_of_both_families() {
    on_two_hosts(|far| {
        for (to, from) in [
            ("10.99.0.2:4840", "10.99.0.1"),
            ("239.0.2.14:4840", "10.99.0.1"),
            ("[fd00:99::2]:4840", "fd00:99::1"),
            ("[fe80::2]:4840", "fe80::1"),
            ("[ff02::db]:4840", "fe80::1"),
            ("[ff05::db]:4840", "fd00:99::1"),
        ] {
            let mut receiver = far.receiver(to, UdpReceiverOptions::default());
            let sender = sender(to, UdpSenderOptions::default());
            for number in 0..5_u8 {
                sender.send(&[number; 59]).unwrap();
                let (content, source) = next(&mut receiver).unwrap_or_else(|| panic!("nothing at {to}"));
                assert_eq!(content, [number; 59]);
                assert_eq!(source.ip(), from.parse::<std::net::IpAddr>().unwrap(), "{to}");
            }
            assert_eq!((receiver.drops().unwrap(), receiver.receive().unwrap()), (0, None));
        }
    });
}

#[test]
fn a_host_reaches_itself_by_loopback() {
    in_namespace(|| {
        ip_here(&["link", "set", "lo", "up"]);
        for at in ["127.0.0.1:0", "[::1]:0"] {
            let mut receiver = UdpReceiver::open("lo", address(at), UdpReceiverOptions::default()).unwrap();
            let to = receiver.address().unwrap();
            assert_ne!(to.port(), 0);
            let options = UdpSenderOptions { source: Some(address(at)), ..STAMPED };
            let sender = UdpSender::open("lo", to, options).unwrap();
            let mut left = sender.stamps(TAI_MINUS_UTC).unwrap();
            sender.send(b"to myself").unwrap();
            sender.send(b"").unwrap();
            assert_eq!(next(&mut receiver).unwrap().0, b"to myself");
            assert_eq!(next(&mut receiver).unwrap().0, b"", "an empty datagram is one");
            assert_eq!(stamps(&mut left).iter().map(|stamp| stamp.id).collect::<Vec<_>>(), [0, 1]);
        }
    });
}

#[test]
fn messages_leave_before_they_arrive() {
    on_two_hosts(|far| {
        for to in ["10.99.0.2:4840", "[ff02::db]:4840"] {
            let options = UdpReceiverOptions { stamps: Stamps::Software, ..UdpReceiverOptions::default() };
            let mut receiver = far.receiver(to, options);
            assert_eq!(receiver.stamps(), Stamps::Software);
            let sender = sender(to, STAMPED);
            let mut left = sender.stamps(TAI_MINUS_UTC).unwrap();
            // Until receive stamps are switched on.
            std::thread::sleep(Duration::from_millis(200));
            let began = now();
            let mut arrived = Vec::new();
            for number in 0..100_u8 {
                sender.send(&[number; 59]).unwrap();
                receiver.wait(Nanos::from_millis(500)).unwrap();
                let received = receiver.receive().unwrap().unwrap();
                assert_eq!(received.uadp, [number; 59]);
                arrived.push(received.stamp.expect("a receive stamp"));
            }
            let ended = now();
            let left = stamps(&mut left);
            assert_eq!(left.iter().map(|stamp| stamp.id).collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
            let mut last = began;
            for (left, arrived) in left.iter().zip(&arrived) {
                assert!(last <= left.at && left.at <= *arrived && *arrived <= ended, "{last:?} {left:?} {arrived:?}");
                last = *arrived;
            }
        }
    });
}

#[test]
fn every_receiver_of_a_group_gets_it_and_no_other_group() {
    on_two_hosts(|far| {
        for (group, other) in [("239.0.2.14:4840", "239.0.2.15:4840"), ("[ff02::db]:4840", "[ff02::dc]:4840")] {
            let mut two = [(); 2].map(|()| far.receiver(group, UdpReceiverOptions::default()));
            let mut another = far.receiver(other, UdpReceiverOptions::default());
            let near = UdpReceiver::open(PORT_A, address(group), UdpReceiverOptions::default());
            let mut near = near.unwrap();
            let to_port = sender(&group.replace("4840", "4841"), UdpSenderOptions::default());
            sender(other, UdpSenderOptions::default()).send(b"other").unwrap();
            to_port.send(b"port").unwrap();
            sender(group, UdpSenderOptions::default()).send(b"group").unwrap();
            for receiver in &mut two {
                assert_eq!(next(receiver).unwrap().0, b"group");
                assert_eq!(receiver.receive().unwrap(), None);
            }
            assert_eq!(next(&mut another).unwrap().0, b"other");
            assert_eq!(another.receive().unwrap(), None);
            // Its own multicast comes back to a host only when it is asked for.
            sender(group, UdpSenderOptions { loopback: true, ..UdpSenderOptions::default() }).send(b"all").unwrap();
            assert_eq!(next(&mut two[0]).unwrap().0, b"all");
            assert_eq!(next(&mut near).map(|found| found.0), Some(b"all".to_vec()), "{group}");
            assert_eq!(near.receive().unwrap(), None);
        }
    });
}

/// A socket that sees whole frames, own ones too, and waits for half a second.
fn wire() -> std::os::fd::OwnedFd {
    let kind = (AddressFamily::Packet, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::EthAll);
    let fd = socket(kind.0, kind.1, kind.2, kind.3).unwrap();
    let timeout = nix::sys::time::TimeVal::new(0, 500_000);
    nix::sys::socket::setsockopt(&fd, nix::sys::socket::sockopt::ReceiveTimeout, &timeout).unwrap();
    fd
}

/// The next frame with a UDP datagram for port 4840.
fn next_frame(wire: &impl AsRawFd) -> Vec<u8> {
    let mut frame = [0; 2_000];
    loop {
        let bytes = recv(wire.as_raw_fd(), &mut frame, MsgFlags::empty()).expect("a datagram on the wire");
        let port_at = match frame[12..14] {
            [0x08, 0x00] if frame[23] == 17 => 36,
            [0x86, 0xDD] if frame[20] == 17 => 56,
            _ => continue,
        };
        if frame[port_at..port_at + 2] == 4840_u16.to_be_bytes() {
            return frame[..bytes].to_vec();
        }
    }
}

#[test]
fn hops_code_point_and_source_are_on_the_wire() {
    on_two_hosts(|far| {
        let wire = far.run(wire);
        let sent = |to: &str, options| {
            sender(to, UdpSenderOptions { dscp: 46, ..options }).send(&[1; 59]).unwrap();
            next_frame(&wire)
        };
        let none = UdpSenderOptions::default();
        let hops = UdpSenderOptions { hops: Some(9), ..none };
        for (to, options, ttl) in [
            ("10.99.0.2:4840", none, 64),
            ("10.99.0.2:4840", hops, 9),
            ("239.0.2.14:4840", none, 1),
            ("239.0.2.14:4840", hops, 9),
        ] {
            let frame = sent(to, options);
            // Octet with the code point, flags (do not fragment), TTL.
            assert_eq!((frame[15], frame[20] & 0xE0, frame[22]), (46 << 2, 0x40, ttl), "{to}");
        }
        for (to, options, limit) in [
            ("[fd00:99::2]:4840", none, 64),
            ("[fd00:99::2]:4840", hops, 9),
            ("[ff02::db]:4840", none, 1),
            ("[ff02::db]:4840", hops, 9),
        ] {
            let frame = sent(to, options);
            let traffic_class = frame[14] << 4 | frame[15] >> 4;
            assert_eq!((traffic_class, frame[21]), (46 << 2, limit), "{to}");
        }
        // Source address and port.
        ip_here(&["address", "add", "10.99.0.77/24", "dev", PORT_A]);
        let from = UdpSenderOptions { source: Some(address("10.99.0.77:5000")), ..none };
        let frame = sent("10.99.0.2:4840", from);
        assert_eq!((&frame[26..30], &frame[34..36]), (&[10, 99, 0, 77][..], &5000_u16.to_be_bytes()[..]));
    });
}

#[test]
fn what_finds_no_room_is_counted() {
    on_two_hosts(|far| {
        let small = UdpReceiverOptions { buffer_bytes: 4_096, ..UdpReceiverOptions::default() };
        let mut receiver = far.receiver("10.99.0.2:4840", small);
        let sender = sender("10.99.0.2:4840", UdpSenderOptions::default());
        for round in 1..=2 {
            (0..200).for_each(|_| sender.send(&[1; 59]).unwrap());
            // The last is there or lost when the interface has handed it over.
            std::thread::sleep(Duration::from_millis(100));
            let received = std::iter::from_fn(|| receiver.receive().unwrap().map(drop)).count() as u64;
            let drops = receiver.drops().unwrap();
            assert!(received > 0 && received < 100, "{received}");
            assert!(drops > (round - 1) * 200 && drops < round * 200, "{drops}");
            assert_eq!(receiver.drops().unwrap(), drops, "asking changes nothing");
            if round == 1 {
                assert_eq!(received + drops, 200);
            }
        }
    });
}

#[test]
fn launch_times_pass_a_queue_that_does_not_look() {
    on_two_hosts(|far| {
        let mut receiver = far.receiver("10.99.0.2:4840", UdpReceiverOptions::default());
        let txtime = TxTime { report_errors: true, ..TxTime::default() };
        let sender = sender("10.99.0.2:4840", UdpSenderOptions { txtime: Some(txtime), ..STAMPED });
        let mut left = sender.stamps(TAI_MINUS_UTC).unwrap();
        for number in 0..10_u8 {
            sender.send_at(&[number; 59], Tai(i64::from(number) + 1)).unwrap();
            assert_eq!(next(&mut receiver).unwrap().0, [number; 59]);
        }
        let refused = sender.send(b"without").unwrap_err(); // 10
        assert!(matches!(refused, LinkError::LaunchTime { needed: true, .. }), "{refused:?}");
        sender.send_at(&[11; 59], Tai(1)).unwrap();
        let numbers: Vec<_> = stamps(&mut left).iter().map(|stamp| stamp.id).collect();
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11]);
        assert_eq!(sender.launch_losses().total(), 0);
        assert_eq!(next(&mut receiver).unwrap().0, [11; 59]);
        let plain = hosts::sender("10.99.0.2:4840", UdpSenderOptions::default());
        assert!(matches!(plain.send_at(b"with", Tai(1)), Err(LinkError::LaunchTime { needed: false, .. })));
    });
}
