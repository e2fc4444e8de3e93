//! Frames with launch times: where the queue does not look at them, and where it is ETF and drops what comes too late.

mod common;

#[path = "common/hosts.rs"]
mod hosts;

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::frames::{TAI_MINUS_UTC, next, receiver, tag, uadp};
use common::{PORT_A, PORT_B, for_each_way, in_namespace, skipped};
use downbeat_link::udp::UdpSenderOptions;
use downbeat_link::{
    Departure, LaunchClock, LaunchError, LinkError, LostLaunch, ReceiveWay, ReceiverOptions, Sender, SenderOptions,
    Stamps, TxTime,
};
use hosts::on_two_hosts;
use nix::time::{ClockId, clock_gettime};
use units::{Nanos, Tai};

const REPORTING: TxTime = TxTime { clock: LaunchClock::Tai, deadline_mode: false, report_errors: true };

/// The clock by which ETF counts.
fn now() -> Tai {
    let now = clock_gettime(ClockId::CLOCK_TAI).unwrap();
    Tai(now.tv_sec() * 1_000_000_000 + now.tv_nsec())
}

fn sender(txtime: TxTime) -> Sender {
    let options = SenderOptions { priority: 7, stamps: Stamps::Software, txtime: Some(txtime) };
    Sender::open(PORT_A, options).unwrap()
}

fn frame(number: u8) -> Vec<u8> {
    uadp(tag(3000, 7), &[number; 59])
}

/// All that is told until a quarter of a second passes without a word.
fn departures(reader: &mut downbeat_link::StampReader) -> Vec<Departure> {
    std::iter::from_fn(|| reader.wait(Nanos::from_millis(250)).unwrap()).collect()
}

fn ids(departures: &[Departure]) -> Vec<u32> {
    departures.iter().filter_map(|departure| departure.stamp()).map(|stamp| stamp.id).collect()
}

#[test]
fn a_queue_that_does_not_look_lets_frames_pass_at_once() {
    for_each_way(|way| {
        for deadline_mode in [false, true] {
            let sender = sender(TxTime { deadline_mode, ..REPORTING });
            let mut left = sender.stamps(Nanos::ZERO).unwrap();
            let mut receiver = receiver(PORT_B, way, ReceiverOptions::default());
            for number in 0..20_u8 {
                // Past or an hour ahead: all the same.
                let launch = if number % 2 == 0 { Tai(1) } else { now() + Nanos::from_millis(3_600_000) };
                sender.send_at(&frame(number), launch).unwrap();
                assert_eq!(next(&mut receiver).unwrap().1, [number; 59]);
            }
            assert_eq!(ids(&departures(&mut left)), (0..20).collect::<Vec<_>>());
            assert_eq!(sender.launch_losses().total(), 0);
        }
    });
}

/// The trap that [`Sender::send_at`] speaks of. Which of them a kernel does is its own affair, but no other, and always
/// the same.
#[test]
fn a_receive_stamp_is_the_launch_time_or_that_of_arrival() {
    for_each_way(|way| {
        let sender = sender(REPORTING);
        let options = ReceiverOptions { stamps: Stamps::Software, ..ReceiverOptions::default() };
        let mut receiver = receiver(PORT_B, way, options);
        std::thread::sleep(Duration::from_millis(200));
        let mut found = Vec::new();
        for number in 0..10_u8 {
            let began = common::frames::now();
            let launch = now() + Nanos::from_millis(60_000);
            sender.send_at(&frame(number), launch).unwrap();
            receiver.wait(Nanos::from_millis(500)).unwrap();
            std::thread::sleep(Duration::from_millis(2));
            let reading = common::frames::now();
            let stamp = next(&mut receiver).unwrap().2;
            found.push(match stamp {
                None => panic!("none"),
                Some(stamp) if stamp == launch + TAI_MINUS_UTC => "the launch time",
                Some(stamp) if stamp < began => panic!("{stamp:?} is before the send at {began:?}"),
                Some(stamp) if stamp < reading => "on arrival",
                Some(_) => "on reading",
            });
        }
        println!("{way:?}: {}", found[0]);
        found.dedup();
        assert_eq!(found.len(), 1, "{found:?}");
    });
}

#[test]
fn calls_of_the_other_sort_are_refused_and_use_up_a_number() {
    in_namespace(|| {
        let sender = sender(REPORTING);
        let mut left = sender.stamps(Nanos::ZERO).unwrap();
        sender.send_at(&frame(0), now()).unwrap(); // 0
        let refused = sender.send(&frame(1)).unwrap_err(); // 1
        assert!(matches!(refused, LinkError::LaunchTime { needed: true, .. }), "{refused:?}");
        assert!(refused.to_string().contains("send_at"), "{refused}");
        let long = sender.send_at(&uadp(None, &[1; 1501]), now()).unwrap_err(); // 2
        assert!(matches!(long, LinkError::TooLong { bytes: 1515, .. }), "{long:?}");
        sender.send_at(&frame(3), now()).unwrap(); // 3
        assert_eq!(ids(&departures(&mut left)), [0, 3]);

        let options = SenderOptions { stamps: Stamps::Software, ..SenderOptions::default() };
        let plain = Sender::open(PORT_A, options).unwrap();
        let mut left = plain.stamps(Nanos::ZERO).unwrap();
        let refused = plain.send_at(&frame(0), now()).unwrap_err(); // 0
        assert!(matches!(refused, LinkError::LaunchTime { needed: false, .. }), "{refused:?}");
        assert!(refused.to_string().contains("txtime"), "{refused}");
        plain.send(&frame(1)).unwrap(); // 1
        assert_eq!(ids(&departures(&mut left)), [1]);
    });
}

/// Time for ETF to wake up in, longer than any pause of a virtual machine; frames leave that much early.
const AMPLE_NS: &str = "200000000";

/// Puts ETF in place of the interface's queue; false when this kernel has none.
fn etf(delta_ns: &str) -> bool {
    let etf = ["qdisc", "replace", "dev", PORT_A, "root", "etf", "clockid", "CLOCK_TAI", "delta", delta_ns];
    let output = Command::new("tc").args(etf).output();
    if output.is_ok_and(|output| output.status.success()) {
        return true;
    }
    skipped("needs tc and the queueing discipline etf");
    false
}

#[test]
fn etf_refuses_what_is_past_and_says_so() {
    in_namespace(|| {
        if !etf(AMPLE_NS) {
            return;
        }
        let sender = sender(REPORTING);
        let (mut left, losses) = (sender.stamps(Nanos::ZERO).unwrap(), sender.launch_losses());
        let past = now() - Nanos::from_millis(50);
        let refused = sender.send_at(&frame(0), past).unwrap_err(); // 0
        assert!(matches!(refused, LinkError::Dropped { .. }), "{refused:?}");
        sender.send_at(&frame(1), now() + Nanos::from_millis(300)).unwrap(); // 1
        let lost = LostLaunch { id: Some(0), launch: past, cause: LaunchError::Invalid };
        assert_eq!(left.wait(Nanos::from_millis(100)).unwrap(), Some(Departure::Lost(lost)));
        assert_eq!(ids(&departures(&mut left)), [1]);
        assert_eq!([losses.dropped(), losses.invalid(), losses.missed(), losses.total()], [1, 1, 0, 1]);
    });
}

#[test]
fn etf_drops_what_it_missed_and_says_so() {
    in_namespace(|| {
        // Without time to wake up in, a frame that waits misses its launch time.
        if !etf("0") {
            return;
        }
        let sender = sender(REPORTING);
        let (mut left, losses) = (sender.stamps(Nanos::ZERO).unwrap(), sender.launch_losses());
        let launch = now() + Nanos::from_millis(50);
        sender.send_at(&frame(0), launch).unwrap();
        let lost = LostLaunch { id: Some(0), launch, cause: LaunchError::Missed };
        assert_eq!(left.wait(Nanos::from_millis(1_000)).unwrap(), Some(Departure::Lost(lost)));
        assert_eq!(departures(&mut left), []);
        assert_eq!([losses.dropped(), losses.invalid(), losses.missed(), losses.total()], [0, 0, 1, 1]);
    });
}

#[test]
fn etf_refuses_another_mode_and_sends_in_the_order_of_launch_times() {
    in_namespace(|| {
        if !etf(AMPLE_NS) {
            return;
        }
        let other = sender(TxTime { deadline_mode: true, ..REPORTING });
        let mut told = other.stamps(Nanos::ZERO).unwrap();
        let launch = now() + Nanos::from_millis(300);
        assert!(matches!(other.send_at(&frame(0), launch), Err(LinkError::Dropped { .. })));
        let lost = LostLaunch { id: Some(0), launch, cause: LaunchError::Invalid };
        assert_eq!(departures(&mut told), [Departure::Lost(lost)]);

        let sender = sender(REPORTING);
        let mut left = sender.stamps(Nanos::ZERO).unwrap();
        let mut receiver = receiver(PORT_B, ReceiveWay::Packet, ReceiverOptions::default());
        let began = now();
        for (number, after_ms) in [(0, 400), (1, 300), (2, 500)] {
            sender.send_at(&frame(number), began + Nanos::from_millis(after_ms)).unwrap();
        }
        assert_eq!(receiver.receive().unwrap(), None, "they wait");
        for expected in [1, 0, 2] {
            assert_eq!(next(&mut receiver).unwrap().1, [expected; 59]);
        }
        assert_eq!(ids(&departures(&mut left)), [1, 0, 2]);
    });
}

#[test]
fn etf_tells_udp_sockets_too() {
    on_two_hosts(|_| {
        if !etf(AMPLE_NS) {
            return;
        }
        // Groups: ETF would drop the questions for a host's address.
        for to in ["239.0.2.14:4840", "[ff02::db]:4840"] {
            let options = UdpSenderOptions { stamps: Stamps::Software, txtime: Some(REPORTING), ..Default::default() };
            let sender = hosts::sender(to, options);
            let (mut left, losses) = (sender.stamps(Nanos::ZERO).unwrap(), sender.launch_losses());
            let past = now() - Nanos::from_millis(50);
            let refused = sender.send_at(b"late", past).unwrap_err(); // 0
            assert!(matches!(refused, LinkError::Dropped { .. }), "{refused:?}");
            sender.send_at(b"in time", now() + Nanos::from_millis(300)).unwrap(); // 1
            let lost = LostLaunch { id: Some(0), launch: past, cause: LaunchError::Invalid };
            assert_eq!(left.wait(Nanos::from_millis(100)).unwrap(), Some(Departure::Lost(lost)), "{to}");
            assert_eq!(ids(&departures(&mut left)), [1], "{to}");
            assert_eq!([losses.dropped(), losses.invalid(), losses.missed(), losses.total()], [1, 1, 0, 1]);
        }
    });
}

#[test]
fn losses_are_counted_for_other_threads() {
    in_namespace(|| {
        if !etf(AMPLE_NS) {
            return;
        }
        let sender = sender(TxTime { report_errors: false, ..REPORTING });
        let losses = sender.launch_losses();
        let seen = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while losses.dropped() == 0 {
                    std::thread::yield_now();
                }
                seen.store(true, Ordering::Relaxed);
            });
            assert!(sender.send_at(&frame(0), Tai(1)).is_err());
        });
        assert!(seen.into_inner());
    });
}
