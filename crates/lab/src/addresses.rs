//! IP addresses and routes inside a laboratory: one address a station, those that streams over UDP name, and the way to
//! each by the port that the stream takes.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use scenario::{HostId, PortId, Scenario};

use crate::error::LabError;

/// The address of a station: of TEST-NET-1 (RFC 5737), seen inside the namespaces only.
pub(crate) fn of_station(host: HostId) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(Ipv4Addr::new(192, 0, 2, 0)) + host.0 as u32 + 1)
}

/// Its address where streams go over IPv6: of the documentation's prefix (RFC 3849).
fn of_station_v6(host: HostId) -> Ipv6Addr {
    Ipv6Addr::from(u128::from(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0)) + host.0 as u128 + 1)
}

fn own(host: HostId, v6: bool) -> IpAddr {
    if v6 { of_station_v6(host).into() } else { of_station(host).into() }
}

/// Whether the addresses that the scenario names can be those of namespaces.
///
/// # Errors
/// One never leaves its host, or belongs to another station already.
pub(crate) fn check(scenario: &Scenario) -> Result<(), LabError> {
    let named = |stream| ends(stream).into_iter().filter_map(move |end| Some((&stream.name, end, end.receives?)));
    for (stream, end, ip) in scenario.streams.iter().flat_map(named) {
        if ip.is_loopback() {
            return Err(LabError::Scenario {
                what: format!("messages of stream {stream} go to {ip}, which never leaves its host"),
                mend: "leave `destination` out, or name an address such as 10.0.0.2: the run gives it to the host"
                    .into(),
            });
        }
        let others = (0..scenario.hosts.len()).map(HostId).filter(|other| *other != end.host);
        if let Some(other) = others.into_iter().find(|other| own(*other, ip.is_ipv6()) == ip) {
            return Err(LabError::Scenario {
                what: format!(
                    "messages of stream {stream} go to {ip} at host {}, and that is the address that host {} has in a run",
                    scenario.host(end.host).name,
                    scenario.host(other).name
                ),
                mend: format!(
                    "name {}, the address of {}, or one of another network",
                    own(end.host, ip.is_ipv6()),
                    scenario.host(end.host).name
                ),
            });
        }
    }
    Ok(())
}

/// One end of a stream over UDP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct End {
    host: HostId,
    peer: HostId,
    port: Option<PortId>,
    v6: bool,
    /// The address of its own where it gets messages; none for a group.
    receives: Option<IpAddr>,
    /// The address of another host that it sends to; none for a group.
    sends: Option<IpAddr>,
}

/// Both ends of a stream over UDP; none of another.
fn ends(stream: &scenario::Stream) -> Vec<End> {
    let Some([there, answer]) = stream.udp else { return Vec::new() };
    let host = |address: std::net::SocketAddr| Some(address.ip()).filter(|ip| !ip.is_multicast());
    let (there, answer) = (host(there), host(answer).filter(|_| stream.echo));
    let end = |host, peer, path: &[PortId], sends: Option<IpAddr>, receives| {
        let v6 = stream.udp.is_some_and(|[there, _]| there.is_ipv6());
        End { host, peer, port: path.first().copied(), v6, receives, sends }
    };
    vec![
        end(stream.writer, stream.reader, &stream.path, there, answer),
        end(stream.reader, stream.writer, &stream.return_path, answer, there),
    ]
}

/// The commands for `ip -batch` that give a station its addresses and routes, once its interfaces are up; `interface`
/// tells what a port is called, and the first of `ports` is the one whose network the station is in.
pub(crate) fn batch<'a>(
    scenario: &Scenario,
    host: HostId,
    ports: &[PortId],
    interface: impl Fn(PortId) -> Option<&'a str>,
) -> String {
    let mut given: Vec<(PortId, IpAddr)> = Vec::new();
    let mut batch = String::new();
    let mut give = |batch: &mut String, port: PortId, ip: IpAddr, prefix: u8| {
        if let (false, Some(name)) = (given.contains(&(port, ip)), interface(port)) {
            given.push((port, ip));
            // Nobody else can have it, and asking around would take seconds.
            let unasked = if ip.is_ipv6() { " nodad" } else { "" };
            _ = writeln!(batch, "address add {ip}/{prefix} dev {name}{unasked}");
        }
    };
    let ends: Vec<End> = scenario.streams.iter().flat_map(ends).filter(|end| end.host == host).collect();
    let Some(first) = ports.first().copied() else { return batch };
    give(&mut batch, first, own(host, false), 24);
    if ends.iter().any(|end| end.v6) {
        give(&mut batch, first, own(host, true), 64);
    }
    let whole = |ip: IpAddr| if ip.is_ipv6() { 128 } else { 32 };
    for (end, port) in ends.iter().filter_map(|end| Some((end, end.port?))) {
        let mine = own(host, end.v6);
        give(&mut batch, port, mine, whole(mine));
        if let Some(ip) = end.receives {
            give(&mut batch, port, ip, whole(ip));
        }
    }
    for (end, port) in ends.iter().filter_map(|end| Some((end, end.port?))) {
        let Some(name) = interface(port) else { continue };
        // By the port of the stream, also for a kernel that checks where datagrams come from (rp_filter).
        let peer = Some(own(end.peer, end.v6)).filter(|_| port != first);
        for ip in peer.into_iter().chain(end.sends) {
            _ = writeln!(batch, "route replace {ip}/{} dev {name}", whole(ip));
        }
    }
    batch
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(streams: &str) -> Scenario {
        let hosts = "name = \"t\"\n[time]\ncycle = \"1ms\"\n[hosts.a]\n[hosts.b]\n[hosts.c]\n[[links]]\n\
                     between = [\"a\", \"b\"]\n[[links]]\nbetween = [\"a\", \"c\"]\n";
        scenario::read(&format!("{hosts}{streams}"), "t.toml").map_err(|wrong| wrong.render()).unwrap()
    }

    fn stream(name: &str, reader: &str, more: &str) -> String {
        format!(
            "[[streams]]\nname = \"{name}\"\nwriter = \"a\"\nreader = \"{reader}\"\nvariables = 3\n\
             transport = \"udp\"\n{more}\n"
        )
    }

    fn lines(scenario: &Scenario, host: usize) -> Vec<String> {
        let ports = (0..scenario.ports.len()).map(PortId).filter(|port| scenario.port(*port).host == HostId(host));
        let names = ["eth0", "eth0", "eth1", "eth0"];
        batch(scenario, HostId(host), &ports.collect::<Vec<_>>(), |port| names.get(port.0).copied())
            .lines()
            .map(String::from)
            .collect()
    }

    #[test]
    fn without_names_a_station_has_one_address() {
        let plain = scenario(&stream("s", "b", "echo = true"));
        assert_eq!(lines(&plain, 0)[0], "address add 192.0.2.1/24 dev eth0");
        assert_eq!(lines(&plain, 1), ["address add 192.0.2.2/24 dev eth0"]);
    }

    #[test]
    fn named_addresses_are_given_and_routed_by_the_port_of_the_stream() {
        let named = "destination = \"opc.udp://10.0.0.9\"\nanswer_destination = \"opc.udp://10.0.0.8\"\necho = true";
        let scenario = scenario(&stream("s", "c", named));
        assert!(check(&scenario).is_ok());
        let writer = [
            "address add 192.0.2.1/24 dev eth0",
            "address add 192.0.2.1/32 dev eth1",
            "address add 10.0.0.8/32 dev eth1",
            "route replace 192.0.2.3/32 dev eth1",
            "route replace 10.0.0.9/32 dev eth1",
        ];
        assert_eq!(lines(&scenario, 0), writer);
        let reader = [
            "address add 192.0.2.3/24 dev eth0",
            "address add 10.0.0.9/32 dev eth0",
            "route replace 10.0.0.8/32 dev eth0",
        ];
        let found = lines(&scenario, 2);
        assert!(reader.iter().all(|line| found.iter().any(|other| other == line)), "{found:?}");
    }

    #[test]
    fn addresses_of_version_six_do_not_wait_to_be_used() {
        let scenario = scenario(&stream("s", "b", "destination = \"opc.udp://[fd00::9]\""));
        let found = lines(&scenario, 1);
        for line in ["address add 2001:db8::2/64 dev eth0 nodad", "address add fd00::9/128 dev eth0 nodad"] {
            assert!(found.iter().any(|other| other == line), "{found:?}");
        }
        assert!(lines(&scenario, 0).contains(&"route replace fd00::9/128 dev eth0".to_owned()));
    }

    #[test]
    fn addresses_that_cannot_be_are_told() {
        let said = |destination: &str| {
            let scenario = scenario(&stream("s", "b", &format!("destination = \"opc.udp://{destination}\"")));
            check(&scenario).unwrap_err().to_string()
        };
        assert!(said("127.0.0.1").contains("stream s go to 127.0.0.1, which never leaves its host"));
        let taken = said("192.0.2.3");
        assert!(taken.contains("host c has in a run") && taken.contains("name 192.0.2.2"), "{taken}");
    }
}
