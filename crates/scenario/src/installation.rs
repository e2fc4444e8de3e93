//! What a scenario says of the machines it is installed on: kernels, NICs, processors, clock synchronisation.
//!
//! Bound, simulation and run need none of it. It is what `tsn` renders for Linux.

use std::fmt;
use std::str::FromStr;

use units::Nanos;

use crate::model::{HostId, PortId, Scenario};

/// What the machines of a scenario are. A host or a port that it says nothing of has the default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Installation {
    /// Index = [`HostId`]; may be shorter than the hosts.
    pub machines: Vec<Machine>,
    /// Index = [`PortId`]; may be shorter than the ports.
    pub nics: Vec<Nic>,
    /// How clocks are synchronised.
    pub ptp: Ptp,
}

/// The machine that a host is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Machine {
    /// Version of its kernel.
    pub kernel: Option<Kernel>,
    /// Its largest wake-up latency, as `downbeat latency` or cyclictest measured it.
    pub wake_up: Option<Nanos>,
    /// The processors that its real-time threads have for themselves.
    pub cpus: Vec<u16>,
    /// Whether each VLAN of its streams gets a device of its own (`eth1.3000`).
    pub vlan_devices: bool,
}

/// Version of a Linux kernel, as far as rules depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kernel {
    /// 6 of 6.12.
    pub major: u16,
    /// 12 of 6.12.
    pub minor: u16,
}

/// The network interface behind a port.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Nic {
    /// Its driver, as `ethtool -i` names it.
    pub driver: Option<String>,
    /// Transmit queues, where there are others than the driver's usual number.
    pub queues: Option<u16>,
    /// Bit c is set when frames of class c may be interrupted (802.1Qbu); zero without preemption.
    pub preemptable: u8,
    /// Smallest fragment but the last, 64, 128, 192 or 256 bytes; zero stands for 64.
    pub fragment_bytes: u16,
}

/// Clock synchronisation (IEEE 1588, 802.1AS).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ptp {
    /// Which way its messages go; `None` takes links of its own where there are some, else untagged frames.
    pub way: Option<PtpWay>,
    /// Domain number.
    pub domain: u8,
    /// Where the grandmaster has the time from.
    pub source: TimeSource,
}

/// Which way the messages of clock synchronisation go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PtpWay {
    /// Untagged, over the links of the streams.
    Untagged,
    /// In the VLAN of the streams.
    DataVlan,
    /// In a VLAN of its own.
    OwnVlan(u16),
    /// Over links of its own (`ptp_only`).
    OwnLink,
}

/// Where a grandmaster has the time from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TimeSource {
    /// Its system clock.
    #[default]
    System,
    /// A pulse a second at a pin of its NIC.
    Pulse,
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// Reads "6.12" and what `uname -r` prints, "6.12.41-rt11".
impl FromStr for Kernel {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WHY: &str = "is not a kernel version";
        let mut parts = text.split('.');
        let major = parts.next().and_then(|part| part.parse().ok()).ok_or(WHY)?;
        let minor = parts.next().ok_or(WHY)?;
        let digits = minor.len() - minor.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let minor = minor.get(..digits).and_then(|part| part.parse().ok()).ok_or(WHY)?;
        Ok(Self { major, minor })
    }
}

impl Scenario {
    /// The machine of a host.
    pub fn machine(&self, id: HostId) -> Machine {
        self.installation.machines.get(id.0).cloned().unwrap_or_default()
    }

    /// The network interface behind a port.
    pub fn nic(&self, id: PortId) -> Nic {
        self.installation.nics.get(id.0).cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_versions_are_read_as_people_write_them() {
        for (text, major, minor) in [("6.12", 6, 12), ("5.4.0-45", 5, 4), ("6.1.0-rt11", 6, 1), ("6.18-rc3", 6, 18)] {
            assert_eq!(text.parse(), Ok(Kernel { major, minor }), "{text}");
        }
        for text in ["", "6", "6.", "six.one", "6.x"] {
            assert!(text.parse::<Kernel>().is_err(), "{text}");
        }
        assert!(Kernel { major: 6, minor: 3 } < Kernel { major: 6, minor: 12 });
    }
}
