//! NetworkMessages over UDP that cannot be sent: what is said, and which numbers the stamps of the others have.

mod common;

#[path = "common/hosts.rs"]
mod hosts;

use std::time::Duration;

use common::frames::TAI_MINUS_UTC;
use common::{PORT_A, in_namespace, ip_here, skipped};
use downbeat_link::udp::{UdpReceiver, UdpReceiverOptions, UdpSender, UdpSenderOptions};
use downbeat_link::{Departure, LaunchClock, LinkError, StampReader, Stamps, TxTime, interface};
use hosts::{address, next, on_two_hosts, sender};
use units::Nanos;

fn stamped(to: &str) -> (UdpSender, StampReader) {
    let sender = sender(to, UdpSenderOptions { stamps: Stamps::Software, ..UdpSenderOptions::default() });
    let left = sender.stamps(TAI_MINUS_UTC).unwrap();
    (sender, left)
}

/// The numbers of all stamps that come until a quarter of a second passes without one.
fn numbers(reader: &mut StampReader) -> Vec<u32> {
    let all = std::iter::from_fn(|| reader.wait(Nanos::from_millis(250)).unwrap());
    all.filter_map(Departure::stamp).map(|stamp| stamp.id).collect()
}

#[test]
fn a_message_too_long_for_one_datagram_is_refused_and_said() {
    on_two_hosts(|far| {
        for (to, limit) in [("10.99.0.2:4840", 1_472), ("[fd00:99::2]:4840", 1_452), ("[ff02::db]:4840", 1_452)] {
            let mut receiver = far.receiver(to, UdpReceiverOptions::default());
            let (sender, mut left) = stamped(to);
            assert_eq!(sender.limit_bytes(), limit);
            sender.send(&vec![1; limit]).unwrap(); // 0
            for bytes in [limit + 1, 65_520, 65_536, 100_000] {
                let long = sender.send(&vec![1; bytes]).unwrap_err(); // 1 to 4
                assert!(
                    matches!(long, LinkError::DatagramTooLong { limit_bytes, .. } if limit_bytes == limit),
                    "{long:?}"
                );
                assert!(long.to_string().contains("mtu") && long.errno() == libc::EMSGSIZE, "{long}");
            }
            sender.send(b"short").unwrap(); // 5
            assert_eq!(next(&mut receiver).unwrap().0.len(), limit);
            assert_eq!(next(&mut receiver).unwrap().0, b"short");
            assert_eq!(numbers(&mut left), [0, 5], "{to}");
        }
    });
}

#[test]
fn a_sender_goes_on_when_nobody_listens() {
    on_two_hosts(|far| {
        for to in ["10.99.0.2:4840", "[fd00:99::2]:4840"] {
            let (sender, mut left) = stamped(to);
            let early = 12;
            for _ in 0..early {
                sender.send(b"nobody").unwrap();
                // The answer comes before the next.
                std::thread::sleep(Duration::from_millis(5));
            }
            let mut receiver = far.receiver(to, UdpReceiverOptions::default());
            sender.send(b"somebody").unwrap();
            assert_eq!(next(&mut receiver).unwrap().0, b"somebody");
            assert_eq!(numbers(&mut left), (0..=early).collect::<Vec<_>>(), "{to}");
            // With a reader that waits meanwhile, and takes the answers away.
            drop(receiver);
            std::thread::scope(|scope| {
                let reading = scope.spawn(move || numbers(&mut left));
                for _ in 0..early {
                    sender.send(b"nobody").unwrap();
                    std::thread::sleep(Duration::from_millis(5));
                }
                assert_eq!(reading.join().unwrap(), (early + 1..=2 * early).collect::<Vec<_>>(), "{to}");
            });
        }
    });
}

#[test]
fn a_message_the_queue_drops_keeps_its_number() {
    on_two_hosts(|_| {
        // A queue that lets a burst pass and then drops.
        let tbf = ["qdisc", "add", "dev", PORT_A, "root", "tbf", "rate", "8kbit", "burst", "1600", "limit", "1600"];
        let output = std::process::Command::new("tc").args(tbf).output();
        if !output.is_ok_and(|output| output.status.success()) {
            assert_ne!(std::env::var("DOWNBEAT_REQUIRE_ALL").as_deref(), Ok("1"), "tc qdisc add … tbf");
            skipped("needs tc and the queueing discipline tbf");
            return;
        }
        let (sender, mut left) = stamped("239.0.2.14:4840");
        let results: Vec<_> = (0..6).map(|_| sender.send(&[1; 1_400])).collect();
        let dropped = results.iter().filter(|result| matches!(result, Err(LinkError::Dropped { .. }))).count();
        let output = std::process::Command::new("tc").args(["qdisc", "del", "dev", PORT_A, "root"]).output().unwrap();
        assert!(output.status.success());
        sender.send(&[1; 59]).unwrap(); // 6
        assert!(dropped >= 3 && results[5].is_err(), "{results:?}");
        assert_eq!(numbers(&mut left).last(), Some(&6));
    });
}

#[test]
fn addresses_that_cannot_be_reached_or_had_are_said() {
    on_two_hosts(|far| {
        let no_route = UdpSender::open(PORT_A, address("192.0.2.1:4840"), UdpSenderOptions::default()).unwrap_err();
        assert!(matches!(no_route, LinkError::NoRoute { .. }), "{no_route:?}");
        assert!(no_route.to_string().contains("ip route get 192.0.2.1"), "{no_route}");
        let elsewhere = UdpReceiver::open(PORT_A, address("10.99.0.2:4840"), UdpReceiverOptions::default());
        let elsewhere = elsewhere.unwrap_err();
        assert!(matches!(elsewhere, LinkError::NotOurAddress { .. }), "{elsewhere:?}");
        let foreign = UdpSenderOptions { source: Some(address("10.99.0.9:0")), ..UdpSenderOptions::default() };
        let foreign = UdpSender::open(PORT_A, address("10.99.0.2:4840"), foreign).unwrap_err();
        assert!(foreign.to_string().contains("ip address show port-a"), "{foreign}");
        let first = far.receiver("10.99.0.2:4840", UdpReceiverOptions::default());
        let again = || UdpReceiver::open("port-b", address("10.99.0.2:4840"), UdpReceiverOptions::default());
        let taken = far.run(again).unwrap_err();
        assert!(matches!(taken, LinkError::AddressTaken { .. }), "{taken:?}");
        assert!(taken.to_string().contains("ss -ulnp sport = :4840"), "{taken}");
        drop(first);
        far.run(again).unwrap();
        // A route that goes while the sender is open, and comes back.
        let (sender, mut left) = stamped("10.99.0.2:4840");
        sender.send(b"there").unwrap(); // 0
        ip_here(&["link", "set", PORT_A, "down"]);
        let gone = sender.send(b"gone").unwrap_err(); // 1
        assert!(matches!(gone, LinkError::NoRoute { .. } | LinkError::Down { .. }), "{gone:?}");
        let down = UdpSender::open(PORT_A, address("10.99.0.2:4840"), UdpSenderOptions::default()).unwrap_err();
        assert!(matches!(down, LinkError::Down { .. }), "{down:?}");
        ip_here(&["link", "set", PORT_A, "up"]);
        assert_eq!(interface::wait_until_running(PORT_A, Nanos::from_millis(5_000)), Ok(true));
        sender.send(b"back").unwrap(); // 2
        assert_eq!(numbers(&mut left), [0, 2]);
    });
}

#[test]
fn an_ordinary_user_may_do_nearly_everything() {
    in_namespace(|| {
        ip_here(&["address", "add", "10.99.0.1/24", "dev", PORT_A]);
        let group = address("239.0.2.14:4840");
        let absent = UdpSender::open("absent", group, UdpSenderOptions::default()).unwrap_err();
        assert!(matches!(absent, LinkError::NoSuchInterface { .. }), "{absent:?}");
        let hardware = UdpSenderOptions { stamps: Stamps::Hardware, ..UdpSenderOptions::default() };
        let hardware = UdpSender::open(PORT_A, group, hardware).unwrap_err();
        assert!(matches!(hardware, LinkError::Unsupported { .. }), "{hardware:?}");
        let stamps = UdpReceiverOptions { stamps: Stamps::Hardware, ..UdpReceiverOptions::default() };
        assert!(matches!(UdpReceiver::open(PORT_A, group, stamps), Err(LinkError::Unsupported { .. })));
        common::become_nobody();
        let open = |priority, clock| {
            let txtime = Some(TxTime { clock, ..TxTime::default() });
            UdpSender::open(PORT_A, group, UdpSenderOptions { priority, txtime, ..UdpSenderOptions::default() })
        };
        let monotonic = LaunchClock::Monotonic { tai_minus_monotonic: Nanos::ZERO };
        open(6, monotonic).unwrap().send_at(b"mine", units::Tai(1)).unwrap();
        UdpReceiver::open(PORT_A, group, UdpReceiverOptions::default()).unwrap();
        for (refused, call) in [(open(7, monotonic), "SO_PRIORITY"), (open(6, LaunchClock::Tai), "SO_TXTIME")] {
            let refused = refused.unwrap_err();
            assert!(matches!(refused, LinkError::NotPermitted { needs: "CAP_NET_ADMIN", .. }), "{refused:?}");
            assert!(refused.to_string().contains(call), "{refused}");
        }
    });
}
