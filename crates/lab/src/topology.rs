//! The scenario's network on this machine: a namespace a host, a veth pair a link, a Linux bridge in every bridge.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use scenario::{HostId, HostKind, PortId, Queue, Scenario};

use crate::addresses;
use crate::error::LabError;
use crate::kernel_lab;
use crate::ports::{self, Veth};

/// How long links may take to be up, and a bridge to forward: linkwatch of the kernel gathers news for a second.
const UP_WITHIN: Duration = Duration::from_secs(5);

/// Where `ip netns` keeps its names.
const NETNS_FOLDER: &str = "/run/netns";

/// Names of what a run makes on this machine.
#[derive(Debug, Clone)]
pub(crate) struct Topology {
    namespaces: Vec<String>,
    /// Interface of each port, by [`PortId`]; `None` for links that carry clock synchronisation only.
    interfaces: Vec<Option<String>>,
}

impl Topology {
    /// Names everything; makes nothing.
    pub(crate) fn of(scenario: &Scenario) -> Self {
        let namespaces = scenario.hosts.iter().map(|host| format!("db-{}-{}", scenario.name, host.name)).collect();
        let mut count = vec![0; scenario.hosts.len()];
        let interfaces = scenario
            .ports
            .iter()
            .map(|port| {
                if scenario.link(port.link).ptp_only {
                    return None;
                }
                let number = &mut count[port.host.0];
                *number += 1;
                Some(format!("eth{}", *number - 1))
            })
            .collect();
        Self { namespaces, interfaces }
    }

    /// The namespaces, in the order of the scenario's hosts.
    pub(crate) fn namespaces(&self) -> &[String] {
        &self.namespaces
    }

    /// The namespace of a host.
    pub(crate) fn namespace(&self, host: HostId) -> &str {
        &self.namespaces[host.0]
    }

    /// The file that names the namespace of a host.
    pub(crate) fn namespace_path(&self, host: HostId) -> PathBuf {
        Path::new(NETNS_FOLDER).join(self.namespace(host))
    }

    /// The interface of a port.
    pub(crate) fn interface(&self, port: PortId) -> Option<&str> {
        self.interfaces[port.0].as_deref()
    }

    /// The first namespace of these names that exists.
    pub(crate) fn taken(&self) -> Option<&str> {
        self.namespaces.iter().map(String::as_str).find(|name| Path::new(NETNS_FOLDER).join(name).exists())
    }

    /// Makes namespaces, links and bridges, brings all of them up, and gives ports their queues. A port for which the scenario
    /// names none has what the kernel gives it, in the kernel laboratory a pfifo: the wire stands behind a queue.
    ///
    /// # Errors
    /// The first command that failed; what was made before it stays for [`remove_namespaces`].
    pub(crate) fn create(&self, scenario: &Scenario, veth: Veth) -> Result<(), LabError> {
        let mut batch = String::new();
        for namespace in &self.namespaces {
            _ = writeln!(batch, "netns add {namespace}");
        }
        ip_batch(None, &batch)?;
        let mut batch = String::new();
        for link in 0..scenario.links.len() {
            let [near, far] = [PortId(2 * link), PortId(2 * link + 1)];
            if let (Some(near_name), Some(far_name)) = (self.interface(near), self.interface(far)) {
                let near_space = self.namespace(scenario.port(near).host);
                let far_space = self.namespace(scenario.port(far).host);
                // Those that one end sends by, the other receives by.
                let queues = |port| ports::queues_of(&scenario.port(port).queue);
                let (near_queues, far_queues) = match (queues(near), queues(far)) {
                    (1, 1) => Default::default(),
                    (sends, receives) => (
                        format!(" numtxqueues {sends} numrxqueues {receives}"),
                        format!(" numtxqueues {receives} numrxqueues {sends}"),
                    ),
                };
                _ = writeln!(
                    batch,
                    "link add {near_name} netns {near_space}{near_queues} type veth peer name {far_name} netns \
                     {far_space}{far_queues}"
                );
            }
        }
        ip_batch(None, &batch)?;
        for (index, host) in scenario.hosts.iter().enumerate() {
            let id = HostId(index);
            ip_batch(Some(self.namespace(id)), &self.host_batch(scenario, id, &host.kind))?;
        }
        if veth == Veth::KernelLab {
            self.set_wires(scenario)?;
            self.set_plain_queues(scenario)?;
        }
        let scheduled = ports::are_scheduled(scenario);
        if scheduled || veth == Veth::KernelLab {
            self.cut_segments(scenario)?;
        }
        let waits = |id: &HostId| scheduled || scenario.host(*id).kind != HostKind::Station;
        (0..scenario.hosts.len()).map(HostId).filter(waits).try_for_each(|id| self.wait_until_up(id))?;
        // Last: a link that goes up or down takes the timers of gates along.
        ports::install(scenario, self, &ports::plans(scenario, self, veth))
    }

    /// Waits until every interface of a host is up, and forwards if it is a bridge's. The kernel tells a bridge of a new carrier
    /// up to a second late, and until then the bridge drops without a word what the port receives.
    fn wait_until_up(&self, host: HostId) -> Result<(), LabError> {
        let namespace = self.namespace(host);
        let deadline = Instant::now() + UP_WITHIN;
        loop {
            let links = links_of(namespace);
            let mut ports = links.iter().filter(|link| link["linkinfo"]["info_kind"] == "veth");
            let works = |link: &serde_json::Value| {
                let state = &link["linkinfo"]["info_slave_data"]["state"];
                link["operstate"] == "UP" && (link["master"].is_null() || state == "forwarding")
            };
            if !links.is_empty() && ports.all(works) {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(LabError::Command {
                    line: format!("ip -n {namespace} -d link show"),
                    output: format!("an interface is not up, or does not forward, after {UP_WITHIN:?}"),
                });
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What one host sets up inside its namespace.
    fn host_batch(&self, scenario: &Scenario, host: HostId, kind: &HostKind) -> String {
        let mut batch = String::from("link set lo up\n");
        let bridge = matches!(kind, HostKind::Bridge { .. });
        if bridge {
            // No spanning tree, no snooping: a multicast frame goes out of every other port at once.
            batch.push_str("link add br0 type bridge stp_state 0 forward_delay 0 mcast_snooping 0\n");
            batch.push_str("link set br0 addrgenmode none\nlink set br0 up\n");
        }
        let ports: Vec<_> = (0..scenario.ports.len())
            .map(PortId)
            .filter(|port| scenario.port(*port).host == host && self.interface(*port).is_some())
            .collect();
        for (number, port) in ports.iter().enumerate() {
            let Some(name) = self.interface(*port) else { continue };
            _ = writeln!(batch, "link set {name} addrgenmode none");
            // Else the kernel draws one, and no two runs are the same.
            let mac = port_mac(*port);
            if bridge {
                _ = writeln!(
                    batch,
                    "link set {name} address {mac}
link set {name} master br0"
                );
            } else if number > 0 {
                _ = writeln!(batch, "link set {name} address {mac}");
            } else {
                let mac = scenario.mac(host).map(|byte| format!("{byte:02x}")).join(":");
                _ = writeln!(batch, "link set {name} address {mac}");
            }
            _ = writeln!(batch, "link set {name} up");
        }
        if !bridge {
            batch.push_str(&addresses::batch(scenario, host, &ports, |port| self.interface(port)));
        }
        batch
    }

    /// Has TCP make frames of its segments before the queues: joined, they are one frame of up to 64 kB for gates, shapers and
    /// the wire.
    fn cut_segments(&self, scenario: &Scenario) -> Result<(), LabError> {
        for (index, namespace) in self.namespaces.iter().enumerate() {
            let ports = (0..scenario.ports.len()).map(PortId);
            let names = ports.filter(|port| scenario.port(*port).host == HostId(index));
            let names = names.filter_map(|port| self.interface(port));
            let batch: String = names.map(|name| format!("link set {name} gso_max_segs 1\n")).collect();
            ip_batch(Some(namespace), &batch)?;
        }
        Ok(())
    }

    /// Gives each end of each link its rate and its delay.
    fn set_wires(&self, scenario: &Scenario) -> Result<(), LabError> {
        for (index, namespace) in self.namespaces.iter().enumerate() {
            let lines = kernel_lab::wires(scenario, HostId(index), |port| self.interface(port))?;
            // Each namespace has a /sys of its own, and this program shows it.
            run(Command::new("ip").args(["netns", "exec", namespace, "sh", "-e"]), Some(&lines))?;
        }
        Ok(())
    }

    /// Gives ports without a discipline of their own a pfifo.
    fn set_plain_queues(&self, scenario: &Scenario) -> Result<(), LabError> {
        for (index, port) in scenario.ports.iter().enumerate().filter(|(_, port)| port.queue == Queue::Fifo) {
            let Some(name) = self.interface(PortId(index)) else { continue };
            let namespace = self.namespace(port.host);
            run(Command::new("tc").args(["-n", namespace, "qdisc", "replace", "dev", name, "root", "pfifo"]), None)?;
        }
        Ok(())
    }

    /// Has the ports of bridges put tags into the frames that they send, where AF_XDP looks for them: else a veth passes
    /// them on beside the frame.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn keep_tags_in_frames(&self, scenario: &Scenario) -> Result<(), LabError> {
        for (index, port) in scenario.ports.iter().enumerate() {
            let Some(name) = self.interface(PortId(index)) else { continue };
            if scenario.host(port.host).kind == HostKind::Station {
                continue;
            }
            let (namespace, name) = (self.namespace_path(port.host), name.to_string());
            let what = format!("switching VLAN offload of {} off", scenario.port_name(PortId(index)));
            // A thread of its own: it stays in the namespace for the rest of its life.
            let done = std::thread::spawn(move || {
                rt::process::enter_network_namespace(&namespace)?;
                link::interface::set_vlan_offload(&name, false).map_err(std::io::Error::other)
            });
            done.join()
                .unwrap_or_else(|_| Err(std::io::Error::other("its thread panicked")))
                .map_err(LabError::io(what))?;
        }
        Ok(())
    }

    /// The queue discipline that each interface has, as the kernel tells it: `namespace/interface: kind`.
    pub(crate) fn found_queues(&self) -> Vec<String> {
        let mut found = Vec::new();
        for namespace in &self.namespaces {
            for link in links_of(namespace) {
                if let (Some(name), Some(kind)) = (link["ifname"].as_str(), link["qdisc"].as_str())
                    && name != "lo"
                {
                    found.push(format!("{namespace}/{name}: {kind}"));
                }
            }
        }
        found
    }
}

/// The address of an interface that is not the one frames of a station come from.
fn port_mac(port: PortId) -> String {
    let [high, low] = (port.0 as u16).to_be_bytes();
    format!("02:00:00:01:{high:02x}:{low:02x}")
}

/// The interfaces of a namespace as `ip` describes them; none when it cannot.
fn links_of(namespace: &str) -> Vec<serde_json::Value> {
    let output = Command::new("ip").args(["-n", namespace, "-j", "-d", "link", "show"]).output();
    output.ok().and_then(|output| serde_json::from_slice(&output.stdout).ok()).unwrap_or_default()
}

/// Deletes the namespaces that exist, and with them every interface in them.
pub(crate) fn remove_namespaces(names: &[String]) -> Result<(), LabError> {
    for name in names.iter().filter(|name| Path::new(NETNS_FOLDER).join(name).exists()) {
        run(Command::new("ip").args(["netns", "del", name]), None)?;
    }
    Ok(())
}

/// Runs a batch of `ip` commands, inside a namespace if one is named.
pub(crate) fn ip_batch(namespace: Option<&str>, batch: &str) -> Result<(), LabError> {
    if batch.is_empty() {
        return Ok(());
    }
    let mut command = Command::new("ip");
    if let Some(namespace) = namespace {
        command.args(["-n", namespace]);
    }
    command.args(["-batch", "-"]);
    run(&mut command, Some(batch))
}

/// Runs a command of the set-up to its end.
pub(crate) fn run(command: &mut Command, input: Option<&str>) -> Result<(), LabError> {
    let line = format!("{command:?}").replace('"', "");
    let missing = |source: std::io::Error| match source.kind() {
        std::io::ErrorKind::NotFound => LabError::Host {
            what: format!("the program {} is missing", command_name(&line)),
            mend: "install iproute2 (`apt-get install iproute2`)".into(),
        },
        _ => LabError::Io { what: line.clone(), source },
    };
    let mut child = command
        .stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(missing)?;
    if let (Some(input), Some(mut stdin)) = (input, child.stdin.take()) {
        // A command that ends early breaks the pipe; its exit status tells more than the write error.
        _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(LabError::io(line.clone()))?;
    if output.status.success() {
        return Ok(());
    }
    let mut text = String::from_utf8_lossy(&output.stderr).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stdout));
    Err(LabError::Command {
        line: input.map_or(line.clone(), |batch| format!("{line} <<< {}", batch.trim().replace('\n', "; "))),
        output: text,
    })
}

fn command_name(line: &str) -> &str {
    line.split(' ').next().unwrap_or(line)
}
