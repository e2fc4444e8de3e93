//! A ring that cannot be had; alone in its file, because it limits the memory of the process.

mod common;

use common::frames::{next, sender, tag, uadp};
use common::{PORT_A, PORT_B, in_namespace};
use downbeat_link::{LinkError, ReceiveWay, Receiver, ReceiverOptions};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

#[test]
fn without_a_ring_frames_come_by_calls() {
    in_namespace(|| {
        let (_, most) = getrlimit(Resource::RLIMIT_AS).unwrap();
        let pages: u64 =
            std::fs::read_to_string("/proc/self/statm").unwrap().split(' ').next().unwrap().parse().unwrap();
        // Room for everything but the ring, which the kernel makes and will not map.
        let options = ReceiverOptions { buffer_bytes: 64 << 20, ..ReceiverOptions::default() };
        setrlimit(Resource::RLIMIT_AS, pages * 4096 + (32 << 20), most).unwrap();
        let auto = Receiver::open(PORT_B, options);
        let ring = Receiver::open(PORT_B, ReceiverOptions { way: ReceiveWay::Ring, ..options });
        setrlimit(Resource::RLIMIT_AS, most, most).unwrap();
        let mut receiver = auto.unwrap();
        assert_eq!(receiver.way(), ReceiveWay::Packet);
        sender(PORT_A).send(&uadp(tag(3000, 7), b"by a call")).unwrap();
        assert_eq!(next(&mut receiver), Some((tag(3000, 7), b"by a call".to_vec(), None)));
        let refused = ring.unwrap_err();
        assert!(matches!(refused, LinkError::System { call: "mmap of a receive ring", .. }), "{refused:?}");
    });
}
