//! Stamps of the network card: asked for on a pair of veth, whose driver hands them on and has none.

use std::io::Write;
use std::process::Command;
use std::time::Duration;

use nix::sched::{CloneFlags, unshare};
use units::Nanos;

use super::*;
use crate::{Sender, SenderOptions};

/// Runs `body` in a thread with a network of its own, in which two interfaces are joined.
fn in_network(body: impl FnOnce() + Send + 'static) {
    let inside = std::thread::spawn(|| {
        let ip =
            |words: &str| Command::new("ip").args(words.split(' ')).output().is_ok_and(|done| done.status.success());
        let ready = unshare(CloneFlags::CLONE_NEWNET).is_ok()
            && ip("link add port-a type veth peer name port-b")
            && ip("link set port-a up")
            && ip("link set port-b up");
        if ready {
            for port in ["port-a", "port-b"] {
                assert_eq!(interface::wait_until_running(port, Nanos::from_millis(5_000)), Ok(true), "{port}");
            }
            body();
        } else {
            assert_ne!(std::env::var("DOWNBEAT_REQUIRE_ALL").as_deref(), Ok("1"), "no network of its own");
            _ = writeln!(std::io::stderr(), "skipped: needs root and veth");
        }
    });
    if let Err(panic) = inside.join() {
        std::panic::resume_unwind(panic);
    }
}

fn uadp() -> Vec<u8> {
    [&[0xFF; 6][..], &[2, 0, 0, 0, 0, 1, 0xB6, 0x2C], &[0; 46]].concat()
}

#[test]
fn a_card_without_stamps_gives_software_stamps_and_it_is_said_why() {
    // Each in a network of its own: a process that another test starts may hold the programme for a moment.
    for (mode, expected) in [(XdpMode::Generic, "a generic programme"), (XdpMode::Auto, "ethtool -T")] {
        in_network(move || {
            let options = XdpOptions { mode, stamps: Stamps::Hardware, ..XdpOptions::default() };
            let (_, mut receiver) = XdpPort::open("port-b", options).unwrap();
            let how = receiver.how();
            assert_eq!(how.receive_stamps, Stamps::Software, "{how}");
            let why = how.no_hardware_stamps.unwrap();
            // A kernel without type information, or one older than 6.3, has its own reason.
            let known = !std::path::Path::new(btf::KERNEL).exists() || why.contains(expected);
            assert!(known && how.to_string().contains(why), "{how}");
            Sender::open("port-a", SenderOptions::default()).unwrap().send(&uadp()).unwrap();
            assert!(receiver.wait(Nanos::from_millis(5_000)).unwrap());
            assert!(receiver.receive().unwrap().unwrap().stamp.is_some());
            assert_eq!(receiver.filtered().unwrap().unstamped, 0);
        });
    }
}

#[test]
fn the_programme_asks_the_driver_for_each_stamp() {
    let Some(function) = btf::function_of_kernel(programme::RX_TIMESTAMP) else {
        _ = writeln!(std::io::stderr(), "skipped: the kernel does not tell its functions, or is older than 6.3");
        return;
    };
    in_network(move || {
        let (name, index) = (InterfaceName::new("port-b"), interface::index("port-b").unwrap());
        assert!(netlink::features(index).unwrap().rx_stamps, "veth hands on what it has");
        let stamp = Stamp::Card(CardStamps { function, interface: index });
        let wanted = Wanted { destination: None, queue: 0, receivers: &[], stamp };
        let programme = Programme::load(wanted, name)
            .unwrap_or_else(|error| panic!("{error}\n{}", programme::tests::verifier_log(wanted)));
        // It is the driver's, and this driver's alone.
        assert!(bpf::attach(programme.fd.as_fd(), index, Place::Generic).is_err());
        let other = interface::index("port-a").unwrap();
        assert!(bpf::attach(programme.fd.as_fd(), other, Place::Driver).is_err());
        let (place, _link) = attach_in(&programme, index, name, XdpMode::Driver).unwrap();
        assert_eq!(place, Place::Driver);
        let sender = Sender::open("port-a", SenderOptions::default()).unwrap();
        let deadline = Instant::now() + Duration::from_secs(5);
        for _ in 0..3 {
            sender.send(&uadp()).unwrap();
        }
        while programme.filtered().unwrap().missed < 3 && Instant::now() < deadline {
            std::thread::yield_now();
        }
        // No socket is there: they pass, after the driver was asked and had no stamp.
        let filtered = programme.filtered().unwrap();
        assert_eq!((filtered.unstamped, filtered.missed, filtered.unwanted), (3, 3, 0));
    });
}

#[test]
fn nobody_gets_the_time_of_a_network_card_who_asked_for_the_kernels() {
    let told = |stamps| send_stamps(stamps, true, true, true);
    assert_eq!(
        [Stamps::Hardware, Stamps::Software, Stamps::Off].map(told),
        [SendStamps::Hardware, SendStamps::None, SendStamps::None]
    );
    assert_eq!(send_stamps(Stamps::Hardware, true, true, false), SendStamps::None, "the card tells none");
    assert_eq!(send_stamps(Stamps::Software, true, false, false), SendStamps::Completion);
    assert_eq!(send_stamps(Stamps::Software, false, false, false), SendStamps::None, "the kernel takes no metadata");
}
