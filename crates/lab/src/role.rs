//! One host of a scenario played on this machine: which of its ends, and on which interfaces.

use std::fmt;

use measure::Side;
use scenario::{HostId, PortId, Scenario};

use crate::error::LabError;

/// Which ends of a host's streams a role drives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Those that write.
    Publish,
    /// Those that read and publish back what they read.
    Loopback,
    /// Those that only read.
    Subscribe,
}

impl Part {
    /// The command that plays it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Publish => "publish",
            Self::Loopback => "loopback",
            Self::Subscribe => "subscribe",
        }
    }

    /// What its ends are called.
    const fn ends(self) -> &'static str {
        match self {
            Self::Publish => "the writer of a stream",
            Self::Loopback => "the reader of a stream with `echo = true`",
            Self::Subscribe => "the reader of a stream without echo",
        }
    }

    /// Whether it drives this end of a stream.
    fn drives(self, echo: bool, side: Side) -> bool {
        match self {
            Self::Publish => side == Side::Writer,
            Self::Loopback => side == Side::Reader && echo,
            Self::Subscribe => side == Side::Reader && !echo,
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A host of the scenario played in the network of this machine, the others being elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Role {
    /// Which of its ends.
    pub part: Part,
    /// Which host.
    pub host: HostId,
    /// Output ports that its ends use, and the interface that each is.
    pub interfaces: Vec<(PortId, String)>,
}

impl Role {
    /// Chooses the host, the one that is named or else the only one with such ends, and the interface of each port it
    /// uses: out of `interfaces` (`IFACE`, or `PEER=IFACE` for the port towards a neighbour), else out of the scenario.
    ///
    /// # Errors
    /// The host or a neighbour is not in the scenario or has no such end; a port has no interface, or two have the same.
    pub fn choose(
        scenario: &Scenario,
        part: Part,
        host: Option<&str>,
        interfaces: &[String],
    ) -> Result<Self, LabError> {
        let host = choose_host(scenario, part, host)?;
        let ports = ports(scenario, part, host);
        let mut given = Given::read(scenario, host, &ports, interfaces)?;
        let mut found: Vec<(PortId, String)> = Vec::new();
        for port in ports {
            let name = given.take(port).or_else(|| scenario.port(port).interface.clone()).ok_or_else(|| {
                let (host, peer) = (&scenario.host(host).name, &scenario.host(scenario.port(port).peer).name);
                LabError::Host {
                    what: format!(
                        "which interface of this machine is the port {}? Nothing says",
                        port_name(scenario, port)
                    ),
                    mend: format!(
                        "name it with `--interface {peer}=eth1`, or write `interface = \"eth1\"` in [hosts.{host}]; \
                         `ip -br link` lists what there is"
                    ),
                }
            })?;
            if let Some((other, _)) = found.iter().find(|(_, other)| *other == name) {
                return Err(LabError::Scenario {
                    what: format!(
                        "{name} would be two ports: {} and {}",
                        port_name(scenario, *other),
                        port_name(scenario, port)
                    ),
                    mend: "give each port an interface of its own: `--interface PEER=IFACE` for each".into(),
                });
            }
            found.push((port, name));
        }
        Ok(Self { part, host, interfaces: found })
    }

    /// Whether it drives this end of a stream.
    pub fn drives(&self, scenario: &Scenario, stream: usize, side: Side) -> bool {
        drives(scenario, self.part, self.host, stream, side)
    }

    /// What it is called: the name of its folder and of its control socket.
    pub fn name(&self, scenario: &Scenario) -> String {
        format!("{}-{}-{}", scenario.name, scenario.host(self.host).name, self.part)
    }

    /// The interface of a port.
    pub(crate) fn interface(&self, port: PortId) -> Option<&str> {
        self.interfaces.iter().find(|(known, _)| *known == port).map(|(_, name)| name.as_str())
    }
}

/// The interface of each port of a host that has one: out of `interfaces` (`IFACE`, or `PEER=IFACE` for the port towards
/// a neighbour), else out of the scenario.
///
/// # Errors
/// A neighbour is not the host's, or two interfaces are given for a port.
pub fn interfaces_of_host(
    scenario: &Scenario,
    host: HostId,
    interfaces: &[String],
) -> Result<Vec<(PortId, String)>, LabError> {
    let ports: Vec<_> = (0..scenario.ports.len()).map(PortId).filter(|id| scenario.port(*id).host == host).collect();
    let mut given = Given::read(scenario, host, &ports, interfaces)?;
    let mut name = |port: &PortId| given.take(*port).or_else(|| scenario.port(*port).interface.clone());
    Ok(ports.iter().filter_map(|port| Some(*port).zip(name(port))).collect())
}

/// Interfaces of the command line that no port has taken yet.
struct Given(Vec<(Option<PortId>, String)>);

impl Given {
    fn read(scenario: &Scenario, host: HostId, ports: &[PortId], texts: &[String]) -> Result<Self, LabError> {
        let mut given: Vec<(Option<PortId>, String)> = Vec::new();
        let peer_of = |port: PortId| scenario.host(scenario.port(port).peer).name.as_str();
        for text in texts {
            let wrong = |what: String| {
                let peers: Vec<_> = ports.iter().map(|port| format!("{}=IFACE", peer_of(*port))).collect();
                LabError::Scenario {
                    what: format!("--interface {text}: {what}"),
                    mend: format!("here it can be {}", peers.join(", ")),
                }
            };
            let (port, name) = match text.split_once('=') {
                Some((peer, name)) => {
                    let port = ports.iter().copied().find(|port| peer_of(*port) == peer).ok_or_else(|| {
                        wrong(format!("{} has no port towards \"{peer}\" that it uses", scenario.host(host).name))
                    })?;
                    (Some(port), name)
                }
                None if ports.len() > 1 => return Err(wrong("which of several ports is meant?".into())),
                None => (ports.first().copied(), text.as_str()),
            };
            if name.is_empty() {
                return Err(wrong("the name of the interface is missing".into()));
            }
            if given.iter().any(|(known, _)| *known == port) {
                return Err(wrong("this port has an interface already".into()));
            }
            given.push((port, name.into()));
        }
        Ok(Self(given))
    }

    fn take(&mut self, port: PortId) -> Option<String> {
        let place = self.0.iter().position(|(known, _)| *known == Some(port))?;
        Some(self.0.swap_remove(place).1)
    }
}

fn drives(scenario: &Scenario, part: Part, host: HostId, stream: usize, side: Side) -> bool {
    let stream = &scenario.streams[stream];
    let end = if side == Side::Writer { stream.writer } else { stream.reader };
    end == host && part.drives(stream.echo, side)
}

fn choose_host(scenario: &Scenario, part: Part, host: Option<&str>) -> Result<HostId, LabError> {
    let has_ends = |host: &HostId| {
        let sides = [Side::Writer, Side::Reader];
        (0..scenario.streams.len()).any(|stream| sides.iter().any(|side| drives(scenario, part, *host, stream, *side)))
    };
    let able: Vec<HostId> = (0..scenario.hosts.len()).map(HostId).filter(has_ends).collect();
    let names =
        |hosts: &[HostId]| hosts.iter().map(|id| scenario.host(*id).name.as_str()).collect::<Vec<_>>().join(", ");
    let wrong = |what: String| {
        let mend = match able.as_slice() {
            [] => format!(
                "this scenario has nothing to {part}: no host is {}; publish, loopback and subscribe play the ends \
                 that a host has",
                part.ends()
            ),
            able => format!("`downbeat {part}` can play: {}; name one with --host", names(able)),
        };
        LabError::Scenario { what, mend }
    };
    match (host, able.as_slice()) {
        (Some(name), able) => {
            let id = scenario.host_named(name).ok_or_else(|| wrong(format!("the scenario has no host \"{name}\"")))?;
            let refused = || wrong(format!("{name} is not {}", part.ends()));
            able.contains(&id).then_some(id).ok_or_else(refused)
        }
        (None, [only]) => Ok(*only),
        (None, []) => Err(wrong(format!("no host is {}", part.ends()))),
        (None, _) => Err(wrong(format!("several hosts are {}", part.ends()))),
    }
}

/// Output ports that the ends of a role use, in the order of their first stream.
fn ports(scenario: &Scenario, part: Part, host: HostId) -> Vec<PortId> {
    let mut found = Vec::new();
    for (index, stream) in scenario.streams.iter().enumerate() {
        for (side, path) in [(Side::Writer, &stream.path), (Side::Reader, &stream.return_path)] {
            if let (true, Some(port)) = (drives(scenario, part, host, index, side), path.first())
                && !found.contains(port)
            {
                found.push(*port);
            }
        }
    }
    found
}

pub(crate) fn port_name(scenario: &Scenario, port: PortId) -> String {
    scenario.port_name(port)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(template: &str) -> Scenario {
        scenario::read(scenario::template(template).unwrap(), "test.toml").unwrap()
    }

    fn message(error: LabError) -> String {
        error.to_string()
    }

    #[test]
    fn the_only_host_with_such_ends_is_taken() {
        let scenario = scenario("two-hosts");
        let role = Role::choose(&scenario, Part::Publish, None, &["eth7".into()]).unwrap();
        assert_eq!(scenario.host(role.host).name, "pub");
        assert_eq!(role.interfaces, [(PortId(0), "eth7".to_string())]);
        assert!(role.drives(&scenario, 0, Side::Writer) && !role.drives(&scenario, 0, Side::Reader));
        let role = Role::choose(&scenario, Part::Loopback, None, &["pub=eth8".into()]).unwrap();
        assert_eq!(scenario.host(role.host).name, "loop");
        assert_eq!(role.interface(PortId(1)), Some("eth8"));
    }

    #[test]
    fn the_scenario_may_name_the_interface_and_the_command_line_wins() {
        let text = scenario::template("two-hosts").unwrap().replace("[hosts.pub]", "[hosts.pub]\ninterface = \"eth1\"");
        let scenario = scenario::read(&text, "test.toml").unwrap();
        let chosen =
            |given: &[String]| Role::choose(&scenario, Part::Publish, None, given).unwrap().interfaces[0].1.clone();
        assert_eq!(chosen(&[]), "eth1");
        assert_eq!(chosen(&["loop=eth2".into()]), "eth2");
    }

    #[test]
    fn what_cannot_be_is_said_with_what_can() {
        let scenario = scenario("two-hosts");
        let fail = |part, host, given: &[&str]| {
            let given: Vec<String> = given.iter().map(|text| (*text).to_string()).collect();
            message(Role::choose(&scenario, part, host, &given).unwrap_err())
        };
        let text = fail(Part::Subscribe, None, &[]);
        assert!(text.contains("without echo"), "{text}");
        let text = fail(Part::Publish, Some("loop"), &[]);
        assert!(text.contains("loop is not the writer") && text.contains("can play: pub"), "{text}");
        let text = fail(Part::Publish, Some("nobody"), &[]);
        assert!(text.contains("nobody") && text.contains("pub"), "{text}");
        let text = fail(Part::Publish, None, &[]);
        assert!(text.contains("pub → loop") && text.contains("--interface loop=eth1"), "{text}");
        let text = fail(Part::Publish, None, &["far=eth1"]);
        assert!(text.contains("far") && text.contains("loop=IFACE"), "{text}");
        let text = fail(Part::Publish, None, &["eth1", "eth2"]);
        assert!(text.contains("already"), "{text}");
    }
}
