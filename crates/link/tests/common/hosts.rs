//! Two hosts with IPv4 and IPv6: a namespace each, joined by a pair of interfaces.
#![allow(dead_code, reason = "not every test needs all of them")]

use std::fs::File;
use std::net::SocketAddr;
use std::sync::mpsc;

use downbeat_link::interface;
use downbeat_link::udp::{UdpReceiver, UdpReceiverOptions, UdpSender, UdpSenderOptions};
use nix::sched::{CloneFlags, setns, unshare};
use units::Nanos;

use crate::common::frames::TAI_MINUS_UTC;
use crate::common::{PORT_A, PORT_B, in_namespace, ip_here};

/// The host with the interface `PORT_B`; the test's own thread is on the one with `PORT_A`.
pub(crate) struct Far(File);

impl Far {
    /// Makes the second namespace and moves `PORT_B` there.
    fn new() -> Self {
        let (tell, told) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                unshare(CloneFlags::CLONE_NEWNET).unwrap();
                tell.send((File::open("/proc/thread-self/ns/net").unwrap(), nix::unistd::gettid())).unwrap();
                // A namespace is named by a thread that lives in it.
                _ = ended.recv();
            });
            let (file, thread) = told.recv().unwrap();
            ip_here(&["link", "set", PORT_B, "netns", &thread.to_string()]);
            drop(end);
            Self(file)
        })
    }

    /// Runs `body` on that host.
    pub(crate) fn run<T: Send>(&self, body: impl FnOnce() -> T + Send) -> T {
        let inside = || {
            setns(&self.0, CloneFlags::CLONE_NEWNET).unwrap();
            body()
        };
        std::thread::scope(|scope| scope.spawn(inside).join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// A receiver there.
    pub(crate) fn receiver(&self, at: &str, options: UdpReceiverOptions) -> UdpReceiver {
        let options = UdpReceiverOptions { tai_minus_utc: TAI_MINUS_UTC, ..options };
        self.run(|| UdpReceiver::open(PORT_B, address(at), options).unwrap())
    }
}

pub(crate) fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// A sender on the near host.
pub(crate) fn sender(to: &str, options: UdpSenderOptions) -> UdpSender {
    UdpSender::open(PORT_A, address(to), options).unwrap()
}

/// Content and sender of the next datagram; none when none comes.
pub(crate) fn next(receiver: &mut UdpReceiver) -> Option<(Vec<u8>, SocketAddr)> {
    receiver.wait(Nanos::from_millis(500)).unwrap();
    receiver.receive().unwrap().map(|received| (received.uadp.to_vec(), received.from))
}

/// Runs `body` on the near host, with the addresses 10.99.0.1, fd00:99::1 and fe80::1; the far one's end in 2.
pub(crate) fn on_two_hosts(body: impl FnOnce(&Far) + Send) {
    in_namespace(|| {
        let far = Far::new();
        configure(PORT_A, 1);
        far.run(|| configure(PORT_B, 2));
        assert_eq!(interface::wait_until_running(PORT_A, Nanos::from_millis(5_000)), Ok(true));
        far.run(|| assert_eq!(interface::wait_until_running(PORT_B, Nanos::from_millis(5_000)), Ok(true)));
        body(&far);
    });
}

fn configure(port: &str, host: u32) {
    ip_here(&["link", "set", "lo", "up"]);
    // Its own link-local address would be ready only when nobody has claimed it for a second.
    ip_here(&["link", "set", port, "addrgenmode", "none"]);
    ip_here(&["link", "set", port, "up"]);
    ip_here(&["address", "add", &format!("10.99.0.{host}/24"), "dev", port]);
    for network in ["fd00:99", "fe80"] {
        ip_here(&["address", "add", &format!("{network}::{host}/64"), "dev", port, "nodad"]);
    }
}
