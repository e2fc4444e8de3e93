//! AF_XDP ports: what opening gives and refuses, and what is left when they are closed.

mod common;
#[path = "common/xdp.rs"]
mod helpers;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{PORT_A, PORT_B, in_namespace, ip, wait_for_ports};
use downbeat_link::xdp::{XdpCopy, XdpMode, XdpOptions, XdpPort};
use downbeat_link::{LinkError, interface};
use helpers::*;
use units::{Nanos, Tai};

/// The number of the programme attached to an interface of this namespace.
fn attached(interface: &str) -> Option<String> {
    let output = Command::new("ip").args(["-d", "link", "show", interface]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let (_, rest) = text.split_once("prog/xdp id ")?;
    rest.split_whitespace().next().map(str::to_owned)
}

/// Whether no programme is attached, now or soon.
fn gets_detached(interface: &str) -> bool {
    let deadline = Instant::now() + Duration::from_secs(10);
    while attached(interface).is_some() {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

#[test]
fn what_a_port_got_is_said() {
    in_namespace(|| {
        for (mode, words) in
            [(XdpMode::Driver, "AF_XDP driver, copy, queue 0 of 1"), (XdpMode::Generic, "generic, copy")]
        {
            let (sender, receiver) = open(PORT_B, in_mode(mode));
            assert!(receiver.how().to_string().contains(words), "{}", receiver.how());
            assert_eq!(sender.how(), receiver.how());
        }
        let (_, receiver) = open(PORT_B, XdpOptions::default());
        assert!(receiver.how().driver, "the driver comes first");
        drop(receiver);
        for mode in MODES {
            let error = XdpPort::open(PORT_B, XdpOptions { copy: XdpCopy::ZeroCopy, ..in_mode(mode) }).unwrap_err();
            assert!(matches!(error, LinkError::Unsupported { .. }), "{error:?}");
            assert!(gets_detached(PORT_B), "an error leaves nothing behind");
        }
        // An interface whose driver knows nothing of XDP.
        let error = XdpPort::open("lo", in_mode(XdpMode::Driver)).unwrap_err();
        assert!(matches!(error, LinkError::Down { .. }), "{error:?}");
        ip(&["link", "set", "lo", "up"]).unwrap();
        let error = XdpPort::open("lo", in_mode(XdpMode::Driver)).unwrap_err();
        assert!(error.to_string().contains("XdpMode::Generic"), "{error}");
        let (_, receiver) = open("lo", XdpOptions::default());
        assert!(!receiver.how().driver);
    });
}

#[test]
fn a_second_programme_is_refused_and_the_first_stays() {
    for first in MODES {
        in_namespace(|| {
            let sender = packet_sender();
            let (_, mut receiver) = open(PORT_B, in_mode(first));
            let id = attached(PORT_B).unwrap();
            for second in [XdpMode::Auto, XdpMode::Driver, XdpMode::Generic] {
                let error = XdpPort::open(PORT_B, in_mode(second)).unwrap_err();
                assert!(
                    matches!(error, LinkError::Occupied { programme, .. } if programme.to_string() == id),
                    "{error:?}"
                );
                assert!(error.to_string().contains("ip link show port-b"), "{error}");
            }
            assert_eq!(attached(PORT_B), Some(id));
            sender.send(&uadp(None, b"still there")).unwrap();
            assert_eq!(next(&mut receiver), Some((None, b"still there".to_vec())));
        });
    }
}

#[test]
fn either_end_can_be_dropped() {
    in_namespace(|| {
        let (mut sender, receiver) = open(PORT_A, XdpOptions::default());
        let mut there = packet_receiver();
        drop(receiver);
        assert!(gets_detached(PORT_A), "without a receiver the programme goes");
        for number in 0..200_u8 {
            sender.send(&uadp(tag(1, 1), &[number; 50])).unwrap();
            assert_eq!(next_packet(&mut there), Some((tag(1, 1), vec![number; 50])));
        }
        let error = XdpPort::open(PORT_A, XdpOptions::default()).unwrap_err();
        assert!(matches!(error, LinkError::QueueTaken { queue: 0, .. }), "the sender still has it: {error:?}");
        assert!(gets_detached(PORT_A), "an error leaves nothing behind");
        drop(sender);
        let (sender, mut receiver) = open(PORT_B, XdpOptions::default());
        drop(sender);
        packet_sender().send(&uadp(None, b"alone")).unwrap();
        assert_eq!(next(&mut receiver), Some((None, b"alone".to_vec())));
    });
}

/// Set for the process that is started to be killed.
const HOLD: &str = "DOWNBEAT_TEST_HOLDS_A_PORT";

/// Not a test: what the next one kills.
#[test]
#[ignore = "started by the next test"]
fn holds_a_port() {
    if std::env::var_os(HOLD).is_none() {
        return;
    }
    let _port = open(PORT_B, XdpOptions::default());
    println!("\nopen");
    std::thread::sleep(Duration::from_secs(600));
}

#[test]
fn a_killed_process_leaves_no_programme() {
    in_namespace(|| {
        // It inherits the namespace of this thread.
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "holds_a_port", "--ignored", "--nocapture"])
            .env(HOLD, "1")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.map_while(Result::ok).any(|line| line == "open"), "it has opened the port");
        assert!(attached(PORT_B).is_some());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(gets_detached(PORT_B));
        let (_, mut receiver) = open(PORT_B, XdpOptions::default());
        packet_sender().send(&uadp(None, b"after")).unwrap();
        assert_eq!(next(&mut receiver), Some((None, b"after".to_vec())));
    });
}

#[test]
fn several_queues_are_refused_until_frames_are_steered() {
    in_namespace(|| {
        let add = ["link", "add", "many-a", "numtxqueues", "4", "numrxqueues", "4", "type", "veth"];
        ip(&[&add[..], &["peer", "name", "many-b", "numtxqueues", "4", "numrxqueues", "4"]].concat()).unwrap();
        for port in ["many-a", "many-b"] {
            ip(&["link", "set", port, "up"]).unwrap();
        }
        for port in ["many-a", "many-b"] {
            assert_eq!(interface::wait_until_running(port, Nanos::from_millis(5_000)), Ok(true));
        }
        let queues = interface::receive_queues("many-b").unwrap().unwrap();
        assert!(queues > 1, "{queues}");
        let error = XdpPort::open("many-b", XdpOptions::default()).unwrap_err();
        assert!(matches!(error, LinkError::ManyQueues { .. }), "{error:?}");
        for word in ["ethtool -L many-b combined 1", "ethtool -N many-b flow-type ether"] {
            assert!(error.to_string().contains(word), "{error}");
        }
        let far = XdpOptions { queue: queues, steered: true, ..XdpOptions::default() };
        let error = XdpPort::open("many-b", far).unwrap_err();
        assert!(matches!(error, LinkError::NoSuchQueue { .. }), "{error:?}");
        // The last queue gets what is sent there, and what comes on another one is counted and passes.
        let last = XdpOptions { queue: queues - 1, steered: true, ..XdpOptions::default() };
        let (mut sender, _) = open("many-a", last.clone());
        let (_, mut receiver) = open("many-b", last);
        sender.send(&uadp(None, b"there")).unwrap();
        assert_eq!(next(&mut receiver), Some((None, b"there".to_vec())));
        drop(sender);
        let (mut sender, _) = open("many-a", XdpOptions { steered: true, ..XdpOptions::default() });
        sender.send(&uadp(None, b"elsewhere")).unwrap();
        assert_eq!(next(&mut receiver), None);
        assert_eq!(receiver.filtered().unwrap().missed, 1);
    });
}

#[test]
fn a_link_that_goes_down_is_told_and_nothing_stale_is_sent() {
    in_namespace(|| {
        let (mut sender, _) = open(PORT_A, XdpOptions { send_frames: 4, ..XdpOptions::default() });
        let (_, mut receiver) = open(PORT_B, in_mode(XdpMode::Generic));
        ip(&["link", "set", PORT_A, "down"]).unwrap();
        for _ in 0..20 {
            let error = sender.send(&uadp(None, b"stale")).unwrap_err();
            assert!(matches!(error, LinkError::Down { .. }), "{error:?}");
        }
        ip(&["link", "set", PORT_B, "down"]).unwrap();
        assert_eq!(receiver.wait(Nanos::from_millis(1)).unwrap_err().raw_os_error(), Some(nix::libc::ENETDOWN));
        assert!(!receiver.wait(Nanos::from_millis(1)).unwrap(), "told once");
        assert!(matches!(XdpPort::open(PORT_B, XdpOptions::default()), Err(LinkError::Down { .. })));
        for port in [PORT_A, PORT_B] {
            ip(&["link", "set", port, "up"]).unwrap();
        }
        wait_for_ports();
        sender.send(&uadp(None, b"fresh")).unwrap();
        assert_eq!(next(&mut receiver), Some((None, b"fresh".to_vec())));
        assert_eq!(next(&mut receiver), None);
        // The other end is gone: the driver has no carrier.
        ip(&["link", "set", PORT_B, "down"]).unwrap();
        let error = sender.send(&uadp(None, b"nowhere")).unwrap_err();
        assert!(matches!(error, LinkError::Dropped { .. }), "{error:?}");
    });
}

#[test]
fn frames_beyond_a_chunk_are_counted() {
    in_namespace(|| {
        for port in [PORT_A, PORT_B] {
            ip(&["link", "set", port, "mtu", "9000"]).unwrap();
        }
        wait_for_ports();
        let (mut too_long, _) = open(PORT_A, in_mode(XdpMode::Generic));
        let sender = packet_sender();
        let error = XdpPort::open(PORT_B, in_mode(XdpMode::Driver)).unwrap_err();
        assert!(error.to_string().contains("MTU"), "{error}");
        let (_, mut receiver) = open(PORT_B, XdpOptions::default());
        assert!(!receiver.how().driver, "the driver takes no frames that long, so it is generic");
        for (bytes, arrives) in [(3_800, true), (4_000, false), (8_900, false), (3_500, true)] {
            sender.send(&uadp(tag(1, 1), &vec![7; bytes])).unwrap();
            assert_eq!(next(&mut receiver), arrives.then(|| (tag(1, 1), vec![7; bytes])), "{bytes}");
        }
        assert_eq!(receiver.drops().unwrap(), 2);
        let error = too_long.send(&uadp(None, &[7; 4_050])).unwrap_err();
        assert!(matches!(error, LinkError::TooLong { bytes: 4064, .. }), "{error:?}");
    });
}

#[test]
fn a_bridge_hides_the_tag_until_offload_is_off() {
    for mode in MODES {
        in_namespace(|| {
            // port-a – port-b are joined; a bridge leads from port-b on to far-a – far-b.
            ip(&["link", "add", "far-a", "type", "veth", "peer", "name", "far-b"]).unwrap();
            ip(&["link", "add", "bridge", "type", "bridge", "forward_delay", "0", "mcast_snooping", "0"]).unwrap();
            for port in [PORT_B, "far-a"] {
                ip(&["link", "set", port, "master", "bridge"]).unwrap();
            }
            for port in ["bridge", "far-a", "far-b"] {
                ip(&["link", "set", port, "up"]).unwrap();
            }
            for port in ["bridge", "far-a", "far-b"] {
                assert_eq!(interface::wait_until_running(port, Nanos::from_millis(5_000)), Ok(true));
            }
            let sender = packet_sender();
            let (_, mut receiver) = open("far-b", in_mode(mode));
            std::thread::sleep(Duration::from_millis(50));
            let mut through = || {
                sender.send(&uadp(tag(3000, 7), b"through the bridge")).unwrap();
                next(&mut receiver).map(|found| found.0)
            };
            assert!(interface::vlan_offload("far-a").unwrap().transmit, "as veth comes");
            assert_eq!(through(), Some(None), "{mode:?}: the tag has become invisible");
            let before = interface::set_vlan_offload("far-a", false).unwrap();
            assert!(before.transmit && before.receive);
            assert_eq!(through(), Some(tag(3000, 7)), "{mode:?}: the tag stands in the frame");
            assert!(!interface::vlan_offload("far-a").unwrap().transmit);
            assert!(!interface::set_vlan_offload("far-a", true).unwrap().transmit);
            assert_eq!(through(), Some(None), "{mode:?}");
        });
    }
}

#[test]
fn missing_interfaces_and_rights_are_said() {
    in_namespace(|| {
        let error = XdpPort::open("absent", XdpOptions::default()).unwrap_err();
        assert!(matches!(error, LinkError::NoSuchInterface { .. }), "{error:?}");
        // SAFETY: the raw call, unlike libc's, changes the user of this thread alone, which ends after the test.
        let result = unsafe { nix::libc::syscall(nix::libc::SYS_setresuid, -1_i32, 65_534_i32, -1_i32) };
        assert_eq!(result, 0);
        let error = XdpPort::open(PORT_B, XdpOptions::default()).unwrap_err();
        assert!(matches!(error, LinkError::NotPermitted { needs, .. } if needs.contains("CAP_BPF")), "{error:?}");
        assert!(error.to_string().contains("sudo"), "{error}");
        let error = interface::set_vlan_offload(PORT_B, false).unwrap_err();
        assert!(matches!(error, LinkError::NotPermitted { needs: "CAP_NET_ADMIN", .. }), "{error:?}");
    });
}

#[test]
fn launch_times_are_refused_where_nothing_keeps_them() {
    in_namespace(|| {
        let (mut sender, _) = open(PORT_A, XdpOptions::default());
        let error = sender.send_at(&uadp(None, &[0; 46]), Tai(0)).unwrap_err();
        assert!(matches!(error, LinkError::Unsupported { .. }), "{error:?}");
        assert!(error.to_string().contains("launch time") && error.to_string().contains("etf"), "{error}");
        assert!(!sender.how().launch_time);
    });
}
