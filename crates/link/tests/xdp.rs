//! AF_XDP on a pair of virtual interfaces, with the programme in the driver and generic.

mod common;
#[path = "common/xdp.rs"]
mod helpers;

use std::net::UdpSocket;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use common::{PORT_A, PORT_B, in_namespace, ip, wait_for_ports};
use downbeat_link::xdp::{Filtered, SendStamps, XdpKey, XdpMode, XdpOptions, XdpPort, XdpReceiver, XdpSender};
use downbeat_link::{LinkError, Stamps, Tag, TxStamp, interface};
use helpers::*;
use rt::alloc::allocations_of_this_thread;
use units::{Nanos, Tai};

#[global_allocator]
static ALLOCATOR: rt::alloc::Counting = rt::alloc::Counting;

/// Frames without a tag, with every kind of tag, and of every size from the smallest to the largest.
fn frames() -> Vec<(Option<Tag>, Vec<u8>)> {
    let tags = [None, tag(3000, 7), tag(0, 6), tag(0, 0), tag(4094, 1), Some(Tag { vid: 5, pcp: 2, dei: true })];
    let sizes = [42, 46, 59, 140, 777, 1481, 1499, 1500];
    let all = tags.iter().flat_map(|tag| sizes.iter().map(move |size| (*tag, *size)));
    all.zip(0_u8..).map(|((tag, size), number)| (tag, vec![number; size])).collect()
}

#[test]
fn packet_socket_to_xdp() {
    for mode in MODES {
        in_namespace(|| {
            let sender = packet_sender();
            let (_, mut receiver) = open(PORT_B, in_mode(mode));
            assert_eq!(receiver.how().driver, mode == XdpMode::Driver);
            for (tag, content) in frames() {
                sender.send(&uadp(tag, &content)).unwrap();
                assert_eq!(next(&mut receiver), Some((tag, content)), "{mode:?} {tag:?}");
            }
            sender.send(&uadp(tag(3000, 7), b"whole frame")).unwrap();
            receiver.wait(Nanos::from_millis(500)).unwrap();
            let received = receiver.receive().unwrap().unwrap();
            assert_eq!(received.frame, uadp(None, b"whole frame"), "without the tag");
            assert_eq!(received.stamp, None, "not asked for");
            assert_eq!(receiver.receive().unwrap(), None);
            assert!(!receiver.wait(Nanos::from_millis(1)).unwrap());
            assert_eq!(receiver.drops().unwrap(), 0);
        });
    }
}

#[test]
fn xdp_to_packet_socket() {
    in_namespace(|| {
        let (mut sender, _) = open(PORT_A, XdpOptions::default());
        let mut receiver = packet_receiver();
        for (tag, content) in frames() {
            sender.send(&uadp(tag, &content)).unwrap();
            assert_eq!(next_packet(&mut receiver), Some((tag, content)), "{tag:?}");
        }
        assert_eq!(receiver.receive().unwrap(), None);
    });
}

#[test]
fn xdp_to_xdp_both_ways() {
    for modes in [MODES, [XdpMode::Generic; 2], [XdpMode::Driver; 2]] {
        in_namespace(|| {
            let (mut send_a, mut receive_a) = open(PORT_A, in_mode(modes[0]));
            let (mut send_b, mut receive_b) = open(PORT_B, in_mode(modes[1]));
            wait_for_ports();
            for (tag, content) in frames() {
                let expected = Some((tag, content.clone()));
                send_a.send(&uadp(tag, &content)).unwrap();
                assert_eq!(next(&mut receive_b), expected, "{modes:?} {tag:?}");
                send_b.send(&uadp(tag, &content)).unwrap();
                assert_eq!(next(&mut receive_a), expected, "{modes:?} {tag:?}");
            }
        });
    }
}

/// Sends when a slot is free: the kernel may have the earlier frames still under way.
fn send_soon(sender: &mut XdpSender, frame: &[u8]) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while let Err(error) = sender.send(frame) {
        assert!(matches!(error, LinkError::Congested { .. }), "{error:?}");
        assert!(Instant::now() < deadline, "no slot becomes free");
        std::thread::yield_now();
    }
}

#[test]
fn a_long_run_goes_round_the_rings() {
    for mode in MODES {
        in_namespace(|| {
            let options = XdpOptions { receive_frames: 16, send_frames: 4, ..in_mode(mode) };
            let (mut send_a, _) = open(PORT_A, options.clone());
            let (_, mut receive_b) = open(PORT_B, options);
            wait_for_ports();
            let mut expected = 0_u32;
            for number in 0..20_000_u32 {
                send_soon(&mut send_a, &uadp(tag(3000, 7), &number.to_be_bytes()));
                if number % 8 == 7 {
                    while expected <= number {
                        assert_eq!(next(&mut receive_b).unwrap().1, expected.to_be_bytes());
                        expected += 1;
                    }
                }
            }
            assert_eq!((expected, receive_b.drops().unwrap()), (20_000, 0));
            assert_eq!(receive_b.filtered().unwrap().redirected, 20_000);
        });
    }
}

#[test]
fn only_what_is_wanted_is_taken_and_the_rest_passes() {
    for mode in MODES {
        in_namespace(|| {
            let sender = packet_sender();
            let (destination, publishers) = (Some(DESTINATION), vec![2234, 7]);
            let (_, mut receiver) = open(PORT_B, XdpOptions { destination, publishers, ..in_mode(mode) });
            let mut stack = packet_receiver();
            let of_publisher = |publisher: u16| [&[0x91, 0x01][..], &publisher.to_le_bytes(), &[0; 42]].concat();
            let before = receiver.filtered().unwrap();
            for publisher in [2234, 7, 8] {
                sender.send(&uadp(tag(3000, 7), &of_publisher(publisher))).unwrap();
            }
            sender.send(&frame(OTHER, tag(3000, 7), 0xB62C, &of_publisher(7))).unwrap();
            sender.send(&frame(DESTINATION, None, 0x88B5, &[0; 46])).unwrap();
            assert_eq!(next(&mut receiver), Some((tag(3000, 7), of_publisher(2234))));
            assert_eq!(next(&mut receiver), Some((tag(3000, 7), of_publisher(7))));
            assert_eq!(next(&mut receiver), None);
            assert_eq!(next_packet(&mut stack), Some((tag(3000, 7), of_publisher(8))), "{mode:?}");
            assert_eq!(next_packet(&mut stack), Some((tag(3000, 7), of_publisher(7))), "to the other address");
            assert_eq!(next_packet(&mut stack), None, "what XDP took, the stack does not see");
            let Filtered { foreign, unwanted, redirected, missed, .. } = receiver.filtered().unwrap();
            // The kernel sends some frames of its own (neighbour discovery).
            assert!(foreign > before.foreign);
            assert_eq!((unwanted, redirected, missed), (2, 2, 0));
        });
    }
}

/// A UDP packet to port 5000 of 10.99.0.2, which comes from 10.99.0.1.
fn udp(destination: [u8; 6], content: &[u8]) -> Vec<u8> {
    let length = |bytes: usize| (bytes as u16).to_be_bytes();
    let mut header = [0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 10, 99, 0, 1, 10, 99, 0, 2];
    header[2..4].copy_from_slice(&length(28 + content.len()));
    let sum: u32 = header.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    header[10..12].copy_from_slice(&(!((sum & 0xFFFF) + (sum >> 16)) as u16).to_be_bytes());
    let ports = [0x13, 0x89, 0x13, 0x88];
    let udp = [&header[..], &ports, &length(8 + content.len()), &[0, 0], content].concat();
    frame(destination, None, 0x0800, &udp)
}

#[test]
fn other_traffic_reaches_the_stack() {
    for mode in MODES {
        in_namespace(|| {
            ip(&["address", "add", "10.99.0.2/24", "dev", PORT_B]).unwrap();
            let socket = UdpSocket::bind("10.99.0.2:5000").unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            let sender = packet_sender();
            let (_, mut receiver) = open(PORT_B, in_mode(mode));
            let mac = interface::mac(PORT_B).unwrap();
            for number in 0..50_u8 {
                sender.send(&udp(mac, &[number; 20])).unwrap();
                sender.send(&uadp(None, &[number; 46])).unwrap();
                let mut buffer = [0; 100];
                let bytes = socket.recv(&mut buffer).unwrap();
                assert_eq!(buffer[..bytes], [number; 20], "{mode:?}");
                assert_eq!(next(&mut receiver), Some((None, vec![number; 46])), "{mode:?}");
            }
        });
    }
}

#[test]
fn losses_are_counted() {
    for mode in MODES {
        in_namespace(|| {
            let sender = packet_sender();
            let (_, mut receiver) = open(PORT_B, XdpOptions { receive_frames: 8, ..in_mode(mode) });
            for round in 1..=3_u64 {
                for number in 0..20_u8 {
                    sender.send(&uadp(tag(3000, 7), &[number; 59])).unwrap();
                }
                let received: Vec<u8> = std::iter::from_fn(|| next(&mut receiver)).map(|found| found.1[0]).collect();
                assert_eq!(received, (0..8).collect::<Vec<_>>(), "{mode:?}: the oldest are kept");
                assert_eq!(receiver.drops().unwrap(), round * 12, "{mode:?}: the others are counted");
            }
        });
    }
}

/// The next stamp of a frame that was sent; the kernel may still be at it on the other processor.
fn completion(sender: &mut XdpSender) -> TxStamp {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        if let Some(stamp) = sender.stamp() {
            return stamp;
        }
        assert!(Instant::now() < deadline, "no stamp");
        std::thread::yield_now();
    }
}

#[test]
fn frames_are_stamped_when_they_leave_and_arrive() {
    let now = || {
        let time = nix::time::clock_gettime(nix::time::ClockId::from_raw(nix::libc::CLOCK_TAI)).unwrap();
        Tai(time.tv_sec() * 1_000_000_000 + time.tv_nsec())
    };
    for mode in MODES {
        in_namespace(|| {
            let (mut sender, _) = open(PORT_A, XdpOptions { stamps: Stamps::Software, ..in_mode(mode) });
            let (_, mut receiver) =
                open(PORT_B, XdpOptions { stamps: Stamps::Software, receive_frames: 2, ..in_mode(mode) });
            wait_for_ports();
            for number in 0..100_u8 {
                let before = now();
                sender.send(&uadp(tag(3000, 7), &[number; 59])).unwrap();
                assert!(receiver.wait(Nanos::from_millis(500)).unwrap());
                let received = receiver.receive().unwrap().unwrap();
                assert_eq!(received.uadp, [number; 59]);
                let stamp = received.stamp.expect("stamped from the first frame on");
                assert!(before <= stamp && stamp <= now(), "{mode:?}");
                // Since 6.8 the kernel says when it got the frame back.
                if sender.how().send_metadata {
                    assert_eq!(sender.how().send_stamps, SendStamps::Completion);
                    let left = completion(&mut sender);
                    assert_eq!(left.id, u32::from(number));
                    assert!(before <= left.at && left.at <= now(), "{mode:?}");
                }
            }
        });
    }
}

#[test]
fn frames_of_an_impossible_length_are_refused() {
    in_namespace(|| {
        let (mut sender, _) = open(PORT_A, XdpOptions::default());
        let mut there = packet_receiver();
        for (tag, bytes) in [(None, 1501), (tag(1, 1), 1501), (tag(1, 1), 5_000)] {
            let error = sender.send(&uadp(tag, &vec![1; bytes])).unwrap_err();
            assert!(matches!(error, LinkError::TooLong { .. }), "{error:?}");
        }
        for bytes in 0..14 {
            assert_eq!(sender.send(&uadp(None, &[])[..bytes]).unwrap_err().errno(), nix::libc::EINVAL);
        }
        sender.send(&uadp(None, b"good")).unwrap();
        assert_eq!(next_packet(&mut there), Some((None, b"good".to_vec())));
    });
}

#[test]
fn the_cyclic_path_allocates_nothing() {
    in_namespace(|| {
        let options = XdpOptions { stamps: Stamps::Software, ..XdpOptions::default() };
        let (mut sender, _) = open(PORT_A, options.clone());
        let (_, mut receiver) = open(PORT_B, options);
        wait_for_ports();
        let (frame, too_long) = (uadp(tag(3000, 7), &[0; 59]), vec![0; 5_000]);
        let before = allocations_of_this_thread();
        let (mut received, mut stamped) = (0, 0);
        for _ in 0..200 {
            sender.send(&frame).unwrap();
            _ = sender.send(&too_long).unwrap_err();
            _ = sender.send_at(&frame, Tai(1)).unwrap_err();
            receiver.wait(Nanos::from_millis(100)).unwrap();
            while let Some(found) = receiver.receive().unwrap() {
                received += u32::from(found.uadp.len() == 59);
            }
            stamped += u32::from(sender.stamp().is_some());
        }
        receiver.drops().unwrap();
        receiver.filtered().unwrap();
        assert_eq!((allocations_of_this_thread() - before, received), (0, 200));
        assert_eq!(stamped > 0, sender.how().send_stamps != SendStamps::None);
    });
}

#[test]
fn the_two_ends_of_a_port_work_in_two_threads() {
    const FRAMES: u32 = 5_000;
    in_namespace(|| {
        let (mut send_a, mut receive_a) = open(PORT_A, XdpOptions::default());
        let (mut send_b, mut receive_b) = open(PORT_B, XdpOptions::default());
        wait_for_ports();
        let answered = &AtomicU32::new(0);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for _ in 0..FRAMES {
                    let (tag, content) = next(&mut receive_b).expect("a frame to answer");
                    send_soon(&mut send_b, &uadp(tag, &content));
                }
            });
            let answers = scope.spawn(move || {
                for expected in 0..FRAMES {
                    let (_, content) = next(&mut receive_a).expect("an answer");
                    assert_eq!(content, expected.to_be_bytes());
                    answered.store(expected, Ordering::Relaxed);
                }
                assert_eq!(receive_a.drops().unwrap(), 0);
            });
            for number in 0..FRAMES {
                send_soon(&mut send_a, &uadp(tag(3000, 7), &number.to_be_bytes()));
                // Never more under way than the receivers have room for.
                while number - answered.load(Ordering::Relaxed).min(number) > 100 && !answers.is_finished() {
                    std::thread::yield_now();
                }
            }
            answers.join().unwrap();
        });
    });
}

#[test]
fn busy_polling_needs_no_wait() {
    for mode in MODES {
        in_namespace(|| {
            let options = XdpOptions { busy_poll_us: 20, ..in_mode(mode) };
            let (mut sender, _) = open(PORT_A, options.clone());
            let (_, mut receiver) = open(PORT_B, options);
            assert!(receiver.how().busy_poll, "{}", receiver.how());
            wait_for_ports();
            for number in 0..100_u8 {
                sender.send(&uadp(tag(3000, 7), &[number; 59])).unwrap();
                let deadline = Instant::now() + Duration::from_secs(10);
                loop {
                    if let Some(received) = receiver.receive().unwrap() {
                        assert_eq!(received.uadp, [number; 59]);
                        break;
                    }
                    assert!(Instant::now() < deadline, "{mode:?}");
                }
            }
            assert_eq!(receiver.receive().unwrap(), None);
        });
    }
}

/// A message of a WriterGroup, with a number in it.
fn message(publisher: u16, group: u16, number: u32) -> Vec<u8> {
    let [p0, p1] = publisher.to_le_bytes();
    let [g0, g1] = group.to_le_bytes();
    [&[0xB1, 0x01, p0, p1, 0x01, g0, g1][..], &number.to_le_bytes(), &[0; 46]].concat()
}

fn number(message: &[u8]) -> u32 {
    u32::from_le_bytes(*message[7..].first_chunk().unwrap())
}

const fn key(publisher_id: u16, writer_group_id: Option<u16>) -> XdpKey {
    XdpKey { publisher_id, writer_group_id }
}

fn shared(interface: &str, mode: XdpMode, keys: &[Vec<XdpKey>], senders: usize) -> (Vec<XdpSender>, Vec<XdpReceiver>) {
    XdpPort::open_shared(interface, &in_mode(mode), keys, senders).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn threads_that_share_a_queue_each_send_and_get_their_own() {
    const FRAMES: u32 = 5_000;
    const THREADS: u16 = 3;
    let keys: Vec<_> = (0..THREADS).map(|thread| vec![key(7, Some(101 + thread))]).collect();
    for mode in MODES {
        in_namespace(|| {
            let (senders, _) = shared(PORT_A, mode, &keys, keys.len());
            let (answering, readers) = shared(PORT_B, mode, &keys, keys.len());
            drop(answering);
            wait_for_ports();
            let groups = || 101..101 + THREADS;
            let read: [AtomicU32; THREADS as usize] = Default::default();
            let read = &read;
            std::thread::scope(|scope| {
                for ((mut receiver, group), read) in readers.into_iter().zip(groups()).zip(read) {
                    scope.spawn(move || {
                        for expected in 0..FRAMES {
                            let (tag, content) = next(&mut receiver).expect("a frame of this group");
                            assert_eq!((tag, content), (helpers::tag(3000, 7), message(7, group, expected)));
                            read.store(expected + 1, Ordering::Relaxed);
                        }
                        assert_eq!((receiver.drops().unwrap(), receiver.receive().unwrap()), (0, None));
                    });
                }
                for ((mut sender, group), read) in senders.into_iter().zip(groups()).zip(read) {
                    scope.spawn(move || {
                        for number in 0..FRAMES {
                            send_soon(&mut sender, &uadp(tag(3000, 7), &message(7, group, number)));
                            let deadline = Instant::now() + Duration::from_secs(10);
                            // Never more under way than its receiver has room for.
                            while number.saturating_sub(read.load(Ordering::Relaxed)) > 100 {
                                assert!(Instant::now() < deadline, "group {group}: frame {number} is not read");
                                std::thread::yield_now();
                            }
                        }
                    });
                }
            });
        });
    }
}

#[test]
fn a_receiver_that_does_not_read_takes_nothing_from_the_others() {
    let keys = [vec![key(7, Some(101))], vec![key(7, Some(102))], vec![key(7, None)]];
    for mode in MODES {
        in_namespace(|| {
            let options = XdpOptions { receive_frames: 8, ..in_mode(mode) };
            let (_, mut receivers) = XdpPort::open_shared(PORT_B, &options, &keys, 1).unwrap();
            let sender = packet_sender();
            for number in 0..50 {
                sender.send(&uadp(tag(3000, 7), &message(7, 101, number))).unwrap();
            }
            for number in 0..200 {
                sender.send(&uadp(tag(3000, 7), &message(7, 102, number))).unwrap();
                assert_eq!(next(&mut receivers[1]).map(|found| self::number(&found.1)), Some(number), "{mode:?}");
            }
            let drops: Vec<u64> = receivers.iter().map(|receiver| receiver.drops().unwrap()).collect();
            assert_eq!(drops, [42, 0, 0], "{mode:?}: each loss is its own");
            // What is closed passes to the stack; the others go on.
            drop(receivers.remove(0));
            let mut stack = packet_receiver();
            for (group, number) in [(101, 1), (102, 2), (103, 3)] {
                sender.send(&uadp(tag(3000, 7), &message(7, group, number))).unwrap();
            }
            assert_eq!(next_packet(&mut stack).map(|found| number(&found.1)), Some(1), "{mode:?}");
            assert_eq!(next(&mut receivers[0]).map(|found| number(&found.1)), Some(2), "{mode:?}");
            assert_eq!(next(&mut receivers[1]).map(|found| number(&found.1)), Some(3), "{mode:?}");
            assert_eq!(receivers[0].filtered().unwrap().missed, 1);
        });
    }
}

#[test]
fn what_cannot_be_shared_is_refused() {
    in_namespace(|| {
        let open = |keys: &[Vec<XdpKey>], senders| {
            XdpPort::open_shared(PORT_B, &XdpOptions::default(), keys, senders).unwrap_err()
        };
        let twice = open(&[vec![key(7, Some(1))], vec![key(7, None), key(7, Some(1))]], 1);
        assert!(matches!(twice, LinkError::Unsupported { .. }), "{twice:?}");
        assert!(twice.to_string().contains("two receivers of one PublisherId"), "{twice}");
        for (keys, senders) in
            [(vec![], 1), (vec![vec![]], 1), (vec![vec![key(7, Some(0))]], 1), (vec![vec![key(7, None)]], 0)]
        {
            assert_eq!(open(&keys, senders).errno(), nix::libc::EINVAL, "{keys:?}");
        }
        // Nothing stayed.
        _ = helpers::open(PORT_B, XdpOptions::default());
    });
}
