//! A sender on a pair of virtual interfaces: numbers of stamps, and sends that fail.

mod common;

use common::frames::{TAI_MINUS_UTC, sender, tag, uadp};
use common::{PORT_A, in_namespace, ip_here, skipped, wait_for_ports};
use downbeat_link::{Departure, LinkError, Sender, SenderOptions, StampReader, Stamps, TxStamp, interface};
use units::Nanos;

/// All stamps that come until a quarter of a second passes without one.
fn stamps(reader: &mut StampReader) -> Vec<TxStamp> {
    std::iter::from_fn(|| reader.wait(Nanos::from_millis(250)).unwrap()).filter_map(Departure::stamp).collect()
}

#[test]
fn stamps_keep_their_numbers_when_sends_fail() {
    in_namespace(|| {
        let sender =
            Sender::open(PORT_A, SenderOptions { priority: 3, stamps: Stamps::Software, ..SenderOptions::default() })
                .unwrap();
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
        // What would fit with a tag is refused later than what never fits.
        for payload_bytes in [1501, 1504, 1505] {
            let long = sender.send(&uadp(None, &vec![1; payload_bytes])).unwrap_err(); // 6, 7, 8
            assert!(matches!(long, LinkError::TooLong { .. }), "{long:?}");
        }
        sender.send(&good).unwrap(); // 9
        assert_eq!(stamps(&mut left).iter().map(|stamp| stamp.id).collect::<Vec<_>>(), [0, 2, 5, 9]);
        // An interface that goes down and comes back.
        ip_here(&["link", "set", PORT_A, "down"]);
        let down = sender.send(&good).unwrap_err(); // 10
        assert!(matches!(down, LinkError::Down { .. }), "{down:?}");
        ip_here(&["link", "set", PORT_A, "up"]);
        wait_for_ports();
        sender.send(&good).unwrap(); // 11
        assert_eq!(stamps(&mut left).iter().map(|stamp| stamp.id).collect::<Vec<_>>(), [11]);
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
        let sender =
            Sender::open(PORT_A, SenderOptions { priority: 0, stamps: Stamps::Software, ..SenderOptions::default() })
                .unwrap();
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

#[test]
fn missing_interfaces_and_rights_are_said() {
    in_namespace(|| {
        let absent = Sender::open("absent", SenderOptions::default()).unwrap_err();
        assert!(absent.to_string().contains("no interface named \"absent\""), "{absent}");
        let plain = sender(PORT_A);
        assert!(plain.stamps(TAI_MINUS_UTC).unwrap_err().to_string().contains("without stamps"));
        assert_eq!(interface::mac(PORT_A).unwrap()[0] & 1, 0);
        assert_eq!(interface::is_up(PORT_A), Ok(true));
        ip_here(&["link", "set", PORT_A, "down"]);
        let down = Sender::open(PORT_A, SenderOptions::default()).unwrap_err();
        assert!(down.to_string().contains("ip link set port-a up"), "{down}");
        common::become_nobody();
        let error = Sender::open(PORT_A, SenderOptions::default()).unwrap_err();
        assert!(matches!(error, LinkError::NotPermitted { needs: "CAP_NET_RAW", .. }), "{error:?}");
        assert!(error.to_string().contains("sudo"), "{error}");
    });
}
