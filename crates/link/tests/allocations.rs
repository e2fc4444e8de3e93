//! Sending and receiving allocate nothing, whether they succeed or not.

mod common;

#[path = "common/hosts.rs"]
mod hosts;

use common::{PORT_A, PORT_B, for_each_way};
use downbeat_link::udp::{UdpReceiverOptions, UdpSender, UdpSenderOptions};
use downbeat_link::{Receiver, ReceiverOptions, Sender, SenderOptions, Stamps, TagUse, TxTime};
use hosts::on_two_hosts;
use rt::alloc::allocations_of_this_thread;
use units::{Nanos, Tai};

#[global_allocator]
static ALLOCATOR: rt::alloc::Counting = rt::alloc::Counting;

#[test]
fn the_cyclic_path_allocates_nothing() {
    for_each_way(|way| {
        let everything = ReceiverOptions { way, stamps: Stamps::Software, ..ReceiverOptions::default() };
        allocates_nothing(everything);
        allocates_nothing(ReceiverOptions { tag: TagUse::Ignore, stamps: Stamps::Off, ..everything });
    });
}

#[test]
fn the_cyclic_path_over_udp_allocates_nothing() {
    on_two_hosts(|far| {
        let options = UdpReceiverOptions { stamps: Stamps::Software, ..UdpReceiverOptions::default() };
        let mut receiver = far.receiver("239.0.0.1:4840", options);
        let options = UdpSenderOptions { stamps: Stamps::Software, ..UdpSenderOptions::default() };
        let sender = UdpSender::open(PORT_A, receiver.address().unwrap(), options).unwrap();
        let mut left = sender.stamps(Nanos::ZERO).unwrap();
        let timed = UdpSenderOptions { txtime: Some(TxTime::default()), ..UdpSenderOptions::default() };
        let timed = UdpSender::open(PORT_A, sender.destination(), timed).unwrap();
        let too_long = vec![0; 4_000];
        let before = allocations_of_this_thread();
        let mut received = 0;
        for _ in 0..20 {
            sender.send(&[7; 59]).unwrap();
            timed.send_at(&[7; 59], Tai(1)).unwrap();
            _ = sender.send(&too_long).unwrap_err();
            _ = timed.send(&[7; 59]).unwrap_err();
            receiver.wait(Nanos::from_millis(100)).unwrap();
            while let Some(found) = receiver.receive().unwrap() {
                received += u32::from(found.uadp == [7; 59]);
            }
            left.wait(Nanos::from_millis(100)).unwrap().unwrap();
        }
        receiver.drops().unwrap();
        assert_eq!((allocations_of_this_thread() - before, received), (0, 40));
    });
}

fn allocates_nothing(options: ReceiverOptions<'_>) {
    let sender =
        Sender::open(PORT_A, SenderOptions { priority: 7, stamps: Stamps::Software, ..Default::default() }).unwrap();
    let mut left = sender.stamps(Nanos::ZERO).unwrap();
    let mut receiver = Receiver::open(PORT_B, options).unwrap();
    let mut frame = [0_u8; 77];
    frame[..6].fill(0xFF);
    frame[12..18].copy_from_slice(&[0x81, 0x00, 0xEB, 0xB8, 0xB6, 0x2C]);
    let too_long = vec![0; 4_000];
    let before = allocations_of_this_thread();
    let mut received = 0;
    for _ in 0..20 {
        sender.send(&frame).unwrap();
        _ = sender.send(&too_long).unwrap_err();
        receiver.wait(Nanos::from_millis(100)).unwrap();
        while let Some(found) = receiver.receive().unwrap() {
            received += u32::from(found.uadp.len() == 59);
        }
        left.wait(Nanos::from_millis(100)).unwrap().unwrap();
    }
    receiver.drops().unwrap();
    assert_eq!((allocations_of_this_thread() - before, received), (0, 20));
}
