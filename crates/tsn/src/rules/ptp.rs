//! Rules of clock synchronisation beside the streams.

use scenario::{HostId, PtpWay, Queue, Scenario, TaprioMode};

use super::{Finding, Severity};
use crate::port::LinuxPort;
use crate::ptp::{self, Seat};

pub(super) fn check(scenario: &Scenario, host: HostId, findings: &mut Vec<Finding>) {
    if !ptp::synchronises(scenario, host) || ptp::way(scenario, host) == PtpWay::OwnLink {
        return;
    }
    for port in LinuxPort::all(scenario, host) {
        let place = format!("{} ({})", port.name, port.device);
        let mend =
            "give it a link of its own (`ptp_only = true`), or a class that is always open and has no ETF".to_owned();
        if ptp::seat(&port) == Seat::None {
            findings.push(Finding {
                rule: "ptp-without-seat",
                severity: Severity::Error,
                place,
                found: "no class is open always and lets frames without launch time through".into(),
                needed: "one for ptp4l: an ETF drops every frame of a socket without SO_TXTIME, and a shut gate holds its stamps back".into(),
                mend,
                source: "tried, Linux 6.1.176; Avnu/tsn-doc #24",
            });
            continue;
        }
        let assist = matches!(port.queue, Queue::Taprio { schedule, .. } if matches!(schedule.mode, TaprioMode::TxtimeAssist { .. }));
        if assist {
            findings.push(Finding {
                rule: "ptp-beside-launch-times",
                severity: Severity::Warning,
                place,
                found: "PTP shares a port with taprio in txtime-assist mode".into(),
                needed: "a link of its own: ptp4l has been seen to lose its transmit stamps beside it (i210)".into(),
                mend,
                source: "Avnu/tsn-doc #24; Kirdan et al., Rezabek et al.",
            });
        }
    }
}
