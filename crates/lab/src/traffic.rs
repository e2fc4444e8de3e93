//! Traffic beside the streams: UDP by threads of the run, TCP by iperf3.

use std::io::Read as _;
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{setsockopt, sockopt};
use nix::unistd::Pid;
use scenario::{Scenario, Traffic, TrafficKind};
use serde_json::{Value, json};
use units::{Nanos, Rate};

use crate::addresses;
use crate::error::LabError;
use crate::journal::Journal;
use crate::ports::Veth;
use crate::topology::Topology;

/// First port; every traffic of a scenario has its own.
const FIRST_PORT: u16 = 5201;

/// Datagrams due within this span are sent in one go: finer sleeps cost more than they bring.
const BATCH: Nanos = Nanos(500_000);

/// Datagrams sent in one go at most: what a late thread owes beyond that is not made up for, since a burst of hundreds
/// would be other traffic than the scenario's.
const MOST_AT_ONCE: i128 = 32;

/// All traffic of a run; ends when dropped.
#[derive(Debug, Default)]
pub(crate) struct Generators {
    flows: Vec<Flow>,
}

#[derive(Debug)]
struct Flow {
    name: String,
    asked: Option<Rate>,
    kind: Means,
}

#[derive(Debug)]
enum Means {
    Udp {
        stop: Arc<AtomicBool>,
        sent: Arc<AtomicU64>,
        received: Arc<AtomicU64>,
        threads: Vec<JoinHandle<()>>,
        since: units::Tai,
    },
    Iperf {
        server: Child,
        client: Child,
    },
}

impl Generators {
    /// Starts all traffic of the scenario. In the kernel laboratory, where computing takes no time, datagrams leave one by one.
    pub(crate) fn start(
        scenario: &Scenario,
        topology: &Topology,
        veth: Veth,
        journal: &mut Journal,
    ) -> Result<Self, LabError> {
        let batch = if veth == Veth::KernelLab { Nanos::ZERO } else { BATCH };
        let mut all = Self::default();
        for (index, traffic) in scenario.traffic.iter().enumerate() {
            let name = format!("{} → {}", scenario.host(traffic.from).name, scenario.host(traffic.to).name);
            let port = FIRST_PORT + index as u16;
            let kind = match traffic.kind {
                TrafficKind::Udp => udp(topology, traffic, port, batch)?,
                TrafficKind::Tcp => iperf(topology, traffic, port, journal)?,
            };
            all.flows.push(Flow { name, asked: traffic.rate, kind });
        }
        Ok(all)
    }

    /// Ends it and says what it carried.
    pub(crate) fn finish(mut self) -> Vec<Value> {
        self.flows.drain(..).map(Flow::finish).collect()
    }
}

impl Drop for Generators {
    fn drop(&mut self) {
        self.flows.drain(..).for_each(|flow| drop(flow.finish()));
    }
}

impl Flow {
    fn finish(self) -> Value {
        let asked = self.asked.map_or_else(|| "unlimited".to_string(), |rate| rate.to_string());
        match self.kind {
            Means::Udp { stop, sent, received, threads, since } => {
                let seconds = (rt::clock::now() - since).0 as f64 / 1e9;
                stop.store(true, Ordering::Relaxed);
                threads.into_iter().for_each(|thread| _ = thread.join());
                let (sent, received) = (sent.load(Ordering::Relaxed), received.load(Ordering::Relaxed));
                json!({ "flow": self.name, "kind": "udp", "asked": asked, "payload_bytes_sent": sent, "payload_bytes_received": received,
                        "received_bit_s": (received as f64 * 8.0 / seconds) as u64 })
            }
            Means::Iperf { mut server, mut client } => {
                // Interrupted, iperf3 still prints what it measured.
                _ = kill(Pid::from_raw(client.id() as i32), Signal::SIGINT);
                let mut text = String::new();
                if let Some(mut stdout) = client.stdout.take() {
                    _ = stdout.read_to_string(&mut text);
                }
                _ = client.wait();
                _ = server.kill();
                _ = server.wait();
                let report: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
                let end = &report["end"];
                let rate = end["sum_received"]["bits_per_second"]
                    .as_f64()
                    .filter(|rate| *rate > 0.0)
                    .or_else(|| end["sum_sent"]["bits_per_second"].as_f64());
                json!({ "flow": self.name, "kind": "tcp (iperf3)", "asked": asked, "received_bit_s": rate.map(|rate| rate as u64) })
            }
        }
    }
}

fn udp(topology: &Topology, traffic: &Traffic, port: u16, batch: Nanos) -> Result<Means, LabError> {
    let stop = Arc::new(AtomicBool::new(false));
    let (sent, received) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let target = format!("{}:{port}", addresses::of_station(traffic.to));
    let sink = in_namespace(topology.namespace_path(traffic.to), {
        let address = target.clone();
        move || {
            UdpSocket::bind(address)
                .and_then(|socket| socket.set_read_timeout(Some(Duration::from_millis(50))).map(|()| socket))
        }
    })?;
    let source = in_namespace(topology.namespace_path(traffic.from), {
        let address = format!("{}:0", addresses::of_station(traffic.from));
        move || UdpSocket::bind(address).and_then(|socket| socket.connect(target).map(|()| socket))
    })?;
    setsockopt(&source, sockopt::Priority, &i32::from(traffic.pcp))
        .map_err(|errno| LabError::io("setting the priority of cross traffic")(errno.into()))?;
    let receiving = thread::spawn({
        let (stop, received) = (Arc::clone(&stop), Arc::clone(&received));
        move || {
            let mut buffer = vec![0; 65_536];
            while !stop.load(Ordering::Relaxed) {
                if let Ok(bytes) = sink.recv(&mut buffer) {
                    received.fetch_add(bytes as u64, Ordering::Relaxed);
                }
            }
        }
    });
    let sending = thread::spawn({
        let (stop, sent) = (Arc::clone(&stop), Arc::clone(&sent));
        let (rate, payload) = (traffic.rate, vec![0_u8; usize::from(traffic.payload_bytes)]);
        move || send_datagrams(&source, &payload, (rate, batch), &stop, &sent)
    });
    Ok(Means::Udp { stop, sent, received, threads: vec![receiving, sending], since: rt::clock::now() })
}

/// Sends at a steady rate, what is due within `batch` in one go, or without a rate as fast as the socket takes it.
fn send_datagrams(
    socket: &UdpSocket,
    payload: &[u8],
    (rate, batch): (Option<Rate>, Nanos),
    stop: &AtomicBool,
    sent: &AtomicU64,
) {
    let began = rt::clock::now();
    // Bits of a datagram by nanoseconds of a second.
    let span = payload.len().max(1) as i128 * 8 * 1_000_000_000;
    let mut datagrams = 0_i128;
    while !stop.load(Ordering::Relaxed) {
        let due = match rate {
            None => datagrams + MOST_AT_ONCE,
            Some(rate) => {
                let elapsed = (rt::clock::now() - began).0;
                i128::from(elapsed) * i128::from(rate.0) / span
            }
        };
        datagrams = datagrams.max(due - MOST_AT_ONCE);
        while datagrams < due {
            // A full queue or a vanished peer drops the datagram: that is what best effort means.
            if socket.send(payload).is_ok() {
                sent.fetch_add(payload.len() as u64, Ordering::Relaxed);
            }
            datagrams += 1;
        }
        if let Some(rate) = rate {
            let next = ((datagrams + 1) * span) as u128;
            let next = began + Nanos(next.div_ceil(u128::from(rate.0).max(1)) as i64);
            rt::clock::sleep_through(next.max(rt::clock::now() + batch));
        }
    }
}

/// Runs `open` in a namespace: a socket stays in the namespace of the thread that made it.
fn in_namespace<T: Send + 'static>(
    path: PathBuf,
    open: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> Result<T, LabError> {
    let opened = thread::spawn(move || rt::process::enter_network_namespace(&path).and_then(|()| open())).join();
    match opened {
        Ok(result) => result.map_err(LabError::io("opening a socket for cross traffic")),
        Err(_) => Err(LabError::io("opening a socket for cross traffic")(std::io::Error::other("its thread panicked"))),
    }
}

fn iperf(topology: &Topology, traffic: &Traffic, port: u16, journal: &mut Journal) -> Result<Means, LabError> {
    let address = addresses::of_station(traffic.to).to_string();
    let port = port.to_string();
    let mut server = start_iperf(topology.namespace(traffic.to), &["-s", "-1", "-B", &address, "-p", &port])?;
    journal.started(server.id())?;
    let rate = traffic.rate.map_or("0".to_string(), |rate| rate.0.to_string());
    let payload = traffic.payload_bytes.to_string();
    // The server needs a moment to listen; the client's own retry would end it at once.
    for attempt in 0.. {
        thread::sleep(Duration::from_millis(50));
        if listens(topology, traffic, &port) {
            break;
        }
        if attempt == 40 {
            _ = server.kill();
            _ = server.wait();
            return Err(LabError::Command { line: "iperf3 -s".into(), output: "does not listen after 2 s".into() });
        }
    }
    // A day is longer than any run: the run ends it.
    let client = start_iperf(
        topology.namespace(traffic.from),
        &["-c", &address, "-p", &port, "-b", &rate, "-M", &payload, "-t", "86400", "-i", "0", "-J"],
    )?;
    journal.started(client.id())?;
    Ok(Means::Iperf { server, client })
}

/// Whether a TCP socket listens on `port` in the receiver's namespace.
fn listens(topology: &Topology, traffic: &Traffic, port: &str) -> bool {
    let Ok(port) = port.parse::<u16>() else { return false };
    let wanted = format!(":{port:04X} ");
    let table =
        in_namespace(topology.namespace_path(traffic.to), || std::fs::read_to_string("/proc/thread-self/net/tcp"));
    // State 0A is LISTEN.
    table.is_ok_and(|table| table.lines().any(|line| line.contains(&wanted) && line.contains(" 0A ")))
}

fn start_iperf(namespace: &str, arguments: &[&str]) -> Result<Child, LabError> {
    Command::new("ip")
        .args(["netns", "exec", namespace, "iperf3"])
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group_of_its_own()
        .spawn()
        .map_err(LabError::io("starting iperf3"))
}

/// Whether iperf3 can be found.
pub(crate) fn iperf_is_there() -> bool {
    Command::new("iperf3").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// Keeps Ctrl-C from reaching a child before the run has asked it to stop.
pub(crate) trait OwnGroup {
    /// Puts the child into a process group of its own.
    fn process_group_of_its_own(&mut self) -> &mut Self;
}

impl OwnGroup for Command {
    fn process_group_of_its_own(&mut self) -> &mut Self {
        std::os::unix::process::CommandExt::process_group(self, 0)
    }
}
