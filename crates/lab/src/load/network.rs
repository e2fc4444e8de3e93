//! UDP at full speed between two network namespaces, and a namespace of one's own.

use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nix::sched::{CloneFlags, unshare};
use nix::unistd::gettid;

use super::child::Work;
use crate::topology::ip_batch;

/// What fits into a frame of 1500 bytes with IPv4 and UDP.
const PAYLOAD_BYTES: usize = 1_472;

/// Senders at most: a few saturate the kernel's queues.
const MOST_SENDERS: usize = 4;

/// How long a receiver waits before it looks at the stop flag.
const LOOK: Duration = Duration::from_millis(50);

/// Moves this process, which must not have started a thread yet, into a network namespace of its own, as an ordinary
/// user by way of a user namespace. It has no name, holds a loopback interface, and ends with the process.
///
/// # Errors
/// Why that is not possible; the process is then where it was.
pub(super) fn move_away() -> Result<(), String> {
    let found = Command::new("ip").arg("-V").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    found.map_err(|error| format!("the program ip (iproute2) cannot be run: {error}"))?;
    if unshare(CloneFlags::CLONE_NEWNET).is_err() {
        rt::process::enter_own_user_namespace()
            .map_err(|error| format!("no network namespace, not even in a user namespace: {error}"))?;
    }
    // The kernel forgets it when rights change.
    rt::process::die_with_parent();
    ip_batch(None, "link set lo up\n").map_err(|error| error.to_string())
}

/// Sends UDP as fast as the sockets take it.
pub(super) fn exchange() -> Result<Work, String> {
    let mut work = Work::default();
    let pairs = (rt::wakeup::allowed_cpus().len() / 2).clamp(1, MOST_SENDERS);
    let sockets = match move_away() {
        Ok(()) => across_veth(pairs),
        Err(why) => Err(why),
    };
    let sockets = match sockets {
        Ok(sockets) => sockets,
        Err(why) => {
            work.notes.push(format!("over the loopback interface instead of a veth pair: {}", why.trim()));
            over_loopback(pairs).map_err(|error| format!("a UDP socket on 127.0.0.1: {error}"))?
        }
    };
    let (sent, received) = (work.count("UDP datagrams sent"), work.count("UDP datagrams received"));
    for (sender, receiver) in sockets {
        let (sent, received) = (Arc::clone(&sent), Arc::clone(&received));
        work.spawn(move |stop| send(&sender, &sent, stop));
        work.spawn(move |stop| receive(&receiver, &received, stop));
    }
    Ok(work)
}

fn send(socket: &UdpSocket, sent: &AtomicU64, stop: &AtomicBool) {
    let payload = [0x5a; PAYLOAD_BYTES];
    while !stop.load(Ordering::Relaxed) {
        // A full queue drops the datagram: it is not counted, and the next one is tried.
        if socket.send(&payload).is_ok() {
            sent.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn receive(socket: &UdpSocket, received: &AtomicU64, stop: &AtomicBool) {
    let mut buffer = [0; PAYLOAD_BYTES];
    while !stop.load(Ordering::Relaxed) {
        if socket.recv(&mut buffer).is_ok() {
            received.fetch_add(1, Ordering::Relaxed);
        }
    }
}

type Pair = (UdpSocket, UdpSocket);

fn over_loopback(pairs: usize) -> std::io::Result<Vec<Pair>> {
    (0..pairs).map(|_| pair("127.0.0.1", UdpSocket::bind("127.0.0.1:0")?)).collect()
}

fn pair(from: &str, receiver: UdpSocket) -> std::io::Result<Pair> {
    receiver.set_read_timeout(Some(LOOK))?;
    let sender = UdpSocket::bind((from, 0))?;
    sender.connect(receiver.local_addr()?)?;
    Ok((sender, receiver))
}

/// Sockets on both ends of a veth pair. The far end's namespace is that of a thread, and lives on in its sockets.
fn across_veth(pairs: usize) -> Result<Vec<Pair>, String> {
    let (thread_is, thread_id) = mpsc::channel();
    let (veth_is_there, wait_for_veth) = mpsc::channel::<()>();
    let far = thread::spawn(move || -> Result<Vec<UdpSocket>, String> {
        unshare(CloneFlags::CLONE_NEWNET).map_err(|errno| format!("a second network namespace: {}", errno.desc()))?;
        _ = thread_is.send(gettid());
        wait_for_veth.recv().map_err(|_| "no veth pair".to_owned())?;
        set_up("load1", "192.0.2.2")?;
        let sockets: std::io::Result<_> = (0..pairs).map(|_| UdpSocket::bind("192.0.2.2:0")).collect();
        sockets.map_err(|error| format!("a UDP socket on 192.0.2.2: {error}"))
    });
    let near = thread_id.recv().map_err(|_| String::new()).and_then(|thread| {
        // `ip` takes the number of a thread where it takes that of a process.
        let veth = format!("link add load0 type veth peer name load1 netns {thread}\n");
        ip_batch(None, &veth).map_err(|error| error.to_string())?;
        set_up("load0", "192.0.2.1")
    });
    if near.is_ok() {
        _ = veth_is_there.send(());
    }
    drop(veth_is_there);
    let receivers = far.join().map_err(|_| "the thread of the second namespace ended".to_owned())?;
    near.and(receivers)?
        .into_iter()
        .map(|receiver| pair("192.0.2.1", receiver))
        .collect::<std::io::Result<_>>()
        .map_err(|error| format!("a UDP socket on 192.0.2.1: {error}"))
}

fn set_up(interface: &str, address: &str) -> Result<(), String> {
    let batch = format!(
        "link set {interface} addrgenmode none\naddress add {address}/24 dev {interface}\nlink set {interface} up\n"
    );
    ip_batch(None, &batch).map_err(|error| error.to_string())
}
