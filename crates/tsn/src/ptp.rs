//! Clock synchronisation: configuration of linuxptp, and units of systemd that run it.

use std::fmt::Write as _;

use scenario::{ClockRole, HostId, HostKind, Open, PortId, PtpWay, Scenario, Shaper, TimeSource};
use units::Nanos;

use crate::drivers::Stamps;
use crate::plan::{Command, Existing, PlannedFile, Program, Step, Undo};
use crate::port::{LinuxPort, device};
use crate::vlan;

/// TAI − UTC since 2017.
const UTC_OFFSET: u32 = 37;
/// Neighbours farther apart than this are no TSN neighbours to linuxptp's gPTP profile.
const NEIGHBOUR: Nanos = Nanos(800);
/// The same with software stamps, which carry the delays of two kernels.
const NEIGHBOUR_SOFTWARE: Nanos = Nanos::from_millis(20);
const CONFIGURATION: &str = "/etc/linuxptp/downbeat-ptp4l.conf";
const PHC2SYS: &str = "/etc/linuxptp/downbeat-phc2sys.conf";
const TS2PHC: &str = "/etc/linuxptp/downbeat-ts2phc.conf";

/// Whether a host synchronises its clock at all.
pub(crate) fn synchronises(scenario: &Scenario, host: HostId) -> bool {
    scenario.host(host).clock != ClockRole::Shared
}

fn own_links(scenario: &Scenario, host: HostId) -> Vec<PortId> {
    let own = |id: &PortId| scenario.port(*id).host == host && scenario.link(scenario.port(*id).link).ptp_only;
    (0..scenario.ports.len()).map(PortId).filter(own).collect()
}

/// Which way the messages of a host go.
pub(crate) fn way(scenario: &Scenario, host: HostId) -> PtpWay {
    let links = !own_links(scenario, host).is_empty();
    let default = if links { PtpWay::OwnLink } else { PtpWay::Untagged };
    match scenario.installation.ptp.way {
        // A host without such a link cannot take it.
        Some(PtpWay::OwnLink) | None => default,
        Some(way) => way,
    }
}

/// The VLAN of the first stream that passes a port.
pub(crate) fn data_vid(scenario: &Scenario, id: PortId) -> Option<u16> {
    crate::bridge::passing(scenario, id).vids.first().copied()
}

/// Why a priority is the one for the messages of PTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seat {
    /// This priority: its class is open always, and lets frames without launch time through.
    Good(u8),
    /// There is none.
    None,
}

/// The priority under which PTP may send at a port.
pub(crate) fn seat(port: &LinuxPort<'_>) -> Seat {
    let Some(classes) = port.classes() else {
        return match port.shaper(0) {
            Shaper::Etf(etf) if !etf.skip_sock_check => Seat::None,
            _ => Seat::Good(0),
        };
    };
    let open = |class: u8| match port.queue {
        scenario::Queue::Taprio { schedule, .. } => schedule.open(class) == Open::Always,
        _ => true,
    };
    let plain = |class: u8| !matches!(port.shaper(class), Shaper::Etf(_));
    // Not the class of a stream if there is another; the highest then.
    let candidates: Vec<u8> = (0..16_u8)
        .filter(|priority| {
            let class = classes.map[usize::from(*priority)];
            open(class) && plain(class)
        })
        .collect();
    let streams = |priority: &u8| port.streams_of(classes.map[usize::from(*priority)]).count();
    let best = candidates.into_iter().max_by_key(|priority| {
        (std::cmp::Reverse(streams(priority)), classes.map[usize::from(*priority)], std::cmp::Reverse(*priority))
    });
    best.map_or(Seat::None, Seat::Good)
}

/// Files of linuxptp, and the steps that start it.
pub(crate) fn plan(
    scenario: &Scenario,
    host: HostId,
    ports: &[LinuxPort<'_>],
    steps: &mut Vec<Step>,
) -> Vec<PlannedFile> {
    if !synchronises(scenario, host) {
        return Vec::new();
    }
    let way = way(scenario, host);
    let interfaces: Vec<String> = match way {
        PtpWay::OwnLink => own_links(scenario, host).into_iter().map(|id| device(scenario, id)).collect(),
        PtpWay::Untagged => ports.iter().map(|port| port.device.clone()).collect(),
        PtpWay::OwnVlan(vid) => ports.iter().map(|port| vlan::device(&port.device, vid)).collect(),
        PtpWay::DataVlan => {
            ports.iter().filter_map(|port| Some(vlan::device(&port.device, data_vid(scenario, port.id)?))).collect()
        }
    };
    if interfaces.is_empty() {
        return Vec::new();
    }
    let software = ports.iter().any(|port| port.driver.stamps == Stamps::Software);
    let master = scenario.host(host).clock == ClockRole::Grandmaster;
    let mut files = vec![PlannedFile {
        path: CONFIGURATION.into(),
        text: ptp4l(scenario, host, ports, way, &interfaces, software),
    }];
    let mut units = vec![unit("ptp4l", &format!("/usr/sbin/ptp4l -f {CONFIGURATION} -m"), "", "clock of the NIC")];
    if !software {
        files.push(PlannedFile { path: PHC2SYS.into(), text: phc2sys(scenario) });
        // Once -r steers the system clock, twice lets it be the source as well.
        let source = if master { " -r -r" } else { " -r" };
        let what = if master { "clock of the NIC follows the system's" } else { "system clock follows the NIC's" };
        let line = format!("/usr/sbin/phc2sys -f {PHC2SYS} -a{source} -m");
        units.push(unit("phc2sys", &line, "downbeat-ptp4l.service", what));
        if master && scenario.installation.ptp.source == TimeSource::Pulse {
            files.push(PlannedFile { path: TS2PHC.into(), text: ts2phc(&interfaces) });
            let line = format!("/usr/sbin/ts2phc -f {TS2PHC} -s generic -m");
            units.push(unit("ts2phc", &line, "downbeat-ptp4l.service", "clock of the NIC follows a pulse a second"));
        }
    }
    let names: Vec<String> = units.iter().filter_map(|unit| unit.path.rsplit('/').next().map(str::to_owned)).collect();
    files.extend(units);
    start(&names, steps);
    files
}

fn start(names: &[String], steps: &mut Vec<Step>) {
    steps.push(Step {
        target: "systemd".into(),
        command: Command::new(Program::Systemctl, "daemon-reload"),
        why: vec!["Units are new or changed".into()],
        undo: Undo::Nothing,
        existing: Existing::Replaced,
    });
    for name in names {
        steps.push(Step {
            target: name.clone(),
            command: Command::new(Program::Systemctl, &format!("enable --now {name}")),
            why: vec![],
            undo: Undo::Run(Command::new(Program::Systemctl, &format!("disable --now {name}"))),
            existing: Existing::Replaced,
        });
    }
}

fn ptp4l(
    scenario: &Scenario,
    host: HostId,
    ports: &[LinuxPort<'_>],
    way: PtpWay,
    interfaces: &[String],
    software: bool,
) -> String {
    let master = scenario.host(host).clock == ClockRole::Grandmaster;
    let ptp = &scenario.installation.ptp;
    let cable = scenario.links.iter().map(|link| link.propagation).max().unwrap_or(Nanos::ZERO);
    let neighbour = if software { NEIGHBOUR_SOFTWARE } else { NEIGHBOUR.max(cable + cable) };
    let mut text = format!(
        "# ptp4l on {} of scenario {}: {}, {}.\n# Profile 802.1AS: layer 2, delay from peer to peer, two-step.\n[global]\n",
        scenario.host(host).name,
        scenario.name,
        if master { "grandmaster" } else { "follows the grandmaster" },
        match way {
            PtpWay::OwnLink => "over a link of its own".to_owned(),
            PtpWay::Untagged => "untagged beside the streams".to_owned(),
            PtpWay::DataVlan => "in the VLAN of the streams".to_owned(),
            PtpWay::OwnVlan(vid) => format!("in VLAN {vid} of its own"),
        }
    );
    let mut line = |key: &str, value: &str, why: &str| {
        if !why.is_empty() {
            _ = writeln!(text, "# {why}");
        }
        _ = writeln!(text, "{key:24}{value}");
    };
    line("domainNumber", &ptp.domain.to_string(), "");
    line("transportSpecific", "0x1", "802.1AS, not 1588");
    line("network_transport", "L2", "");
    line("delay_mechanism", "P2P", "");
    line("ptp_dst_mac", "01:80:C2:00:00:0E", "The nearest bridge keeps it, so that every neighbour answers for itself");
    line("gmCapable", if master { "1" } else { "0" }, "");
    line("priority1", if master { "64" } else { "255" }, "The lowest is grandmaster, 255 is never");
    line("logSyncInterval", "-3", "Eight a second");
    line("logAnnounceInterval", "0", "");
    line("syncReceiptTimeout", "3", "");
    line("assume_two_step", "1", "");
    line("follow_up_info", "1", "");
    line("path_trace_enabled", "1", "");
    line(
        "neighborPropDelayThresh",
        &neighbour.0.to_string(),
        "ns of propagation above which a neighbour is none; twice the longest cable, at least 800 with hardware stamps",
    );
    line("time_stamping", if software { "software" } else { "hardware" }, "");
    line("utc_offset", &UTC_OFFSET.to_string(), "TAI − UTC in seconds, since 2017");
    line("step_threshold", "0.000001", "s of error above which the clock is set instead of steered");
    line("first_step_threshold", "0.000001", "");
    line("tx_timestamp_timeout", "20", "ms for the stamp of a sent message; gates can hold it for a cycle");
    if interfaces.len() > 1 {
        line("boundary_clock_jbod", "1", "Each port may have a clock of its own");
    }
    if let Some(priority) = socket_priority(ports, way) {
        line("socket_priority", &priority.to_string(), "Its class is open always, and needs no launch time");
    }
    if scenario.host(host).kind != HostKind::Station {
        text.push_str("# A bridge takes part as boundary clock: it never forwards these messages.\n");
    }
    for interface in interfaces {
        _ = write!(text, "\n[{interface}]\n");
    }
    text
}

/// The priority of PTP's messages; none where they have a link of their own.
fn socket_priority(ports: &[LinuxPort<'_>], way: PtpWay) -> Option<u8> {
    if way == PtpWay::OwnLink {
        return None;
    }
    let seats = ports.iter().filter(|port| port.classes().is_some()).map(seat);
    seats.into_iter().find_map(|seat| match seat {
        Seat::Good(priority) => Some(priority),
        Seat::None => None,
    })
}

fn phc2sys(scenario: &Scenario) -> String {
    format!(
        "# phc2sys: system clock and clocks of NICs, offsets as ptp4l tells them; it keeps TAI − UTC of the kernel.\n\
         [global]\n\
         {:24}{}\n{:24}0x1\n\
         # s of error above which the clock is set instead of steered, at the start only\n\
         {:24}0.000001\n",
        "domainNumber", scenario.installation.ptp.domain, "transportSpecific", "first_step_threshold"
    )
}

fn ts2phc(interfaces: &[String]) -> String {
    let mut text = "# ts2phc: a pulse a second at pin 0 of the first NIC sets its clock.\n[global]\n".to_owned();
    _ = writeln!(text, "# ns that a pulse lasts\n{:24}500000000", "ts2phc.pulsewidth");
    if let Some(first) = interfaces.first() {
        let nic = first.split('.').next().unwrap_or(first);
        _ = write!(text, "\n[{nic}]\n{:24}rising\n{:24}0\n", "ts2phc.extts_polarity", "ts2phc.pin_index");
    }
    text
}

fn unit(name: &str, line: &str, after: &str, what: &str) -> PlannedFile {
    let (requires, after) = match after {
        "" => (String::new(), "network.target".to_owned()),
        unit => (format!("Requires={unit}\n"), unit.to_owned()),
    };
    PlannedFile {
        path: format!("/etc/systemd/system/downbeat-{name}.service"),
        text: format!(
            "[Unit]\nDescription=Downbeat: {what} ({name})\nAfter={after}\n{requires}\n[Service]\nExecStart={line}\n\
             # A clock that lags behind ordinary work is late when it is needed.\n\
             CPUSchedulingPolicy=fifo\nCPUSchedulingPriority=10\nRestart=on-failure\nRestartSec=1\n\n\
             [Install]\nWantedBy=multi-user.target\n"
        ),
    }
}
