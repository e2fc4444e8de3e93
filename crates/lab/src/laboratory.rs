//! What a run in network namespaces needs of the machine and of the scenario.

use std::thread;

use scenario::{HostKind, Scenario, TrafficKind};

use crate::addresses;
use crate::error::LabError;
use crate::ports;
use crate::traffic::iperf_is_there;

/// Whether this machine and this user can run the scenario in network namespaces.
///
/// # Errors
/// What is missing and how to get it.
pub(crate) fn check(scenario: &Scenario) -> Result<(), LabError> {
    let namespaces = thread::spawn(|| nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET)).join();
    if !matches!(namespaces, Ok(Ok(()))) {
        return Err(LabError::Host {
            what: "this machine does not let root make network namespaces (a container without CAP_SYS_ADMIN?)".into(),
            mend: "run on the host, or give the container CAP_SYS_ADMIN and CAP_NET_ADMIN".into(),
        });
    }
    ports::check(scenario)?;
    for host in &scenario.hosts {
        if let HostKind::Bridge { forwarder, .. } = host.kind
            && forwarder != scenario::Forwarder::Linux
        {
            return Err(LabError::Host {
                what: format!("bridge {} is not a Linux bridge; a run makes no other", host.name),
                mend: "set `forwarder = \"linux\"`".into(),
            });
        }
    }
    addresses::check(scenario)?;
    if scenario.traffic.iter().any(|traffic| traffic.kind == TrafficKind::Tcp) && !iperf_is_there() {
        return Err(LabError::Host {
            what: "the scenario has TCP traffic, which iperf3 makes, and iperf3 is missing".into(),
            mend: "`apt-get install iperf3`, or take `kind = \"udp\"`".into(),
        });
    }
    Ok(())
}
