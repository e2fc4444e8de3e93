//! Ways of frames through the network.

use crate::hosts::Hosts;
use crate::links::Links;
use crate::model::{HostId, PortId};

/// Why there is no way.
pub(crate) enum NoPath {
    /// The hosts are not connected.
    Unconnected,
    /// There is more than one; the second is given.
    Several([Vec<PortId>; 2]),
}

/// The output ports from `from` to `to`.
///
/// Only bridges forward, and links for clock synchronisation carry nothing else. Bridges have no loops
/// (see `links`), so there is more than one way only where a station has several links into one network.
pub(crate) fn path(hosts: &Hosts, links: &Links, from: HostId, to: HostId) -> Result<Vec<PortId>, NoPath> {
    let mut found = Vec::new();
    let mut visited = vec![false; hosts.list.len()];
    visited[from.0] = true;
    search(hosts, links, from, to, &mut visited, &mut Vec::new(), &mut found);
    let mut found = found.into_iter();
    match (found.next(), found.next()) {
        (None, _) => Err(NoPath::Unconnected),
        (Some(path), None) => Ok(path),
        (Some(first), Some(second)) => Err(NoPath::Several([first, second])),
    }
}

fn search(
    hosts: &Hosts,
    links: &Links,
    at: HostId,
    to: HostId,
    visited: &mut [bool],
    way: &mut Vec<PortId>,
    found: &mut Vec<Vec<PortId>>,
) {
    for (index, link) in links.list.iter().enumerate() {
        let side = match link.ends {
            [a, _] if a == at => 0,
            [_, b] if b == at => 1,
            _ => continue,
        };
        let next = link.ends[1 - side];
        if link.ptp_only || visited[next.0] || found.len() >= 2 {
            continue;
        }
        way.push(PortId(2 * index + side));
        if next == to {
            found.push(way.clone());
        } else if hosts.is_bridge(next) {
            visited[next.0] = true;
            search(hosts, links, next, to, visited, way, found);
            visited[next.0] = false;
        }
        way.pop();
    }
}

/// The same way back: the other port of each link.
pub(crate) fn back(path: &[PortId]) -> Vec<PortId> {
    path.iter().rev().map(|port| PortId(port.0 ^ 1)).collect()
}

/// "pub → br → loop".
pub(crate) fn words(hosts: &Hosts, links: &Links, from: HostId, path: &[PortId]) -> String {
    let ends = path.iter().map(|port| links.list[port.0 / 2].ends[1 - port.0 % 2]);
    std::iter::once(from).chain(ends).map(|host| hosts.name(host)).collect::<Vec<_>>().join(" → ")
}
