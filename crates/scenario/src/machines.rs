//! `machine = { … }` of a host, `nic = { … }` of a port, `[ptp]`.

use std::ops::Range;

use units::Nanos;

use crate::diagnostic::Sink;
use crate::installation::{Kernel, Machine, Nic, Ptp, PtpWay, TimeSource};
use crate::node::{At, Entry, Table};

/// Fragments of 802.3br: what a preempted frame is cut into at least.
const FRAGMENTS: [u16; 4] = [64, 128, 192, 256];
/// Highest number of a processor.
const MOST_CPUS: u16 = 4095;

/// A machine, and the driver that its ports have unless they say otherwise.
#[derive(Debug, Clone, Default)]
pub(crate) struct MachineDraft {
    pub(crate) machine: Machine,
    pub(crate) driver: Option<String>,
}

/// A network interface as the file has it, and where it stands.
pub(crate) type NicDraft = At<Nic>;

pub(crate) fn machine(entry: &Entry<'_>, sink: &mut Sink) -> Option<MachineDraft> {
    let table = entry.table(sink, "`machine`")?;
    table.only(sink, &["kernel", "driver", "wake_up", "cpus", "vlan_devices"]);
    let kernel = table.get("kernel").and_then(|entry| kernel(&entry, sink));
    let machine = Machine {
        kernel,
        wake_up: table.get("wake_up").and_then(|entry| entry.nanos(sink, Nanos(1), "130us")),
        cpus: table.get("cpus").and_then(|entry| cpus(&entry, sink)).unwrap_or_default(),
        vlan_devices: table.get("vlan_devices").and_then(|entry| entry.boolean(sink)).unwrap_or(false),
    };
    Some(MachineDraft { machine, driver: table.get("driver").and_then(|entry| driver(&entry, sink)) })
}

fn kernel(entry: &Entry<'_>, sink: &mut Sink) -> Option<Kernel> {
    let text = entry.text(sink, "6.12")?;
    match text.value.parse() {
        Ok(kernel) => Some(kernel),
        Err(why) => {
            sink.error(
                &text.span,
                format!("{}: \"{}\" {why}", entry.name(), text.value),
                "expected major and minor number, such as \"6.12\"",
                "`uname -r` prints it: write for example `kernel = \"6.12\"`",
            );
            None
        }
    }
}

fn driver(entry: &Entry<'_>, sink: &mut Sink) -> Option<String> {
    let text = entry.text(sink, "igc")?;
    if text.value.is_empty() || !text.value.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-') {
        sink.error(
            &text.span,
            format!("{}: \"{}\" cannot be a driver", entry.name(), text.value),
            "expected the name of a driver, such as \"igc\"",
            "`ethtool -i INTERFACE` prints it after `driver:`",
        );
        return None;
    }
    Some(text.value.to_owned())
}

fn cpus(entry: &Entry<'_>, sink: &mut Sink) -> Option<Vec<u16>> {
    let mut cpus = Vec::new();
    for cpu in entry.list(sink, "a list of processors")? {
        let number = cpu.integer(sink, 0..=MOST_CPUS)?;
        if cpus.contains(&number) {
            sink.error(
                &cpu.span,
                format!("{} names processor {number} twice", entry.name()),
                "expected each processor once",
                "remove one of them",
            );
            return None;
        }
        cpus.push(number);
    }
    cpus.sort_unstable();
    Some(cpus)
}

/// Reads `nic` of `[[ports]]`.
pub(crate) fn nic(entry: &Entry<'_>, sink: &mut Sink) -> Option<NicDraft> {
    let table = entry.table(sink, "`nic`")?;
    table.only(sink, &["driver", "queues", "preemptable", "fragment"]);
    let mut nic = Nic {
        driver: table.get("driver").and_then(|entry| driver(&entry, sink)),
        queues: table.get("queues").and_then(|entry| entry.integer(sink, 1..=4096)),
        ..Nic::default()
    };
    if let Some(entry) = table.get("preemptable") {
        for class in entry.list(sink, "a list of classes")? {
            nic.preemptable |= 1 << class.integer(sink, 0..=7u8)?;
        }
    }
    if let Some(entry) = table.get("fragment") {
        nic.fragment_bytes = fragment(&entry, sink)?;
        if nic.preemptable == 0 {
            sink.error(
                &entry.span,
                "`fragment` without `preemptable`",
                "only preemptable classes are cut into fragments",
                "add for example `preemptable = [0]`, or leave `fragment` out",
            );
        }
    }
    Some(At { value: nic, span: entry.span.clone() })
}

fn fragment(entry: &Entry<'_>, sink: &mut Sink) -> Option<u16> {
    let bytes = entry.integer(sink, 1..=4096u16)?;
    if FRAGMENTS.contains(&bytes) {
        return Some(bytes);
    }
    sink.error(
        &entry.span,
        format!("{} is {bytes}", entry.name()),
        "expected 64, 128, 192 or 256 bytes",
        "802.3br knows these four: write `fragment = 64`",
    );
    None
}

/// A preemptable class that the port does not have, or all of its classes.
pub(crate) fn check_preemptable(nic: &Nic, classes: usize, port: &str, span: &Range<usize>, sink: &mut Sink) {
    let all = u8::MAX >> (8 - classes.clamp(1, 8));
    // One complaint for an entry, however many ports it is for.
    if sink.list.iter().any(|diagnostic| diagnostic.span == *span) {
        return;
    }
    if nic.preemptable & !all != 0 {
        sink.error(
            span,
            format!("`preemptable` names class {}, which {port} does not have", 7 - nic.preemptable.leading_zeros()),
            format!("expected classes from 0 to {}", classes - 1),
            "name classes of the port's `queue`",
        );
    } else if nic.preemptable == all {
        sink.error(
            span,
            format!("every class of {port} is preemptable"),
            "expected an express class that may interrupt",
            "leave the class of the streams out of `preemptable`; a port without classes cannot preempt",
        );
    }
}

/// Reads `[ptp]`; `links` is whether the file has links for clock synchronisation alone.
pub(crate) fn ptp(root: &Table<'_>, links: bool, sink: &mut Sink) -> Ptp {
    let mut ptp = Ptp::default();
    let Some(table) = root.table(sink, "ptp", "[ptp]") else { return ptp };
    table.only(sink, &["over", "vid", "domain", "source"]);
    let words = [("link", 0), ("vlan", 1), ("data-vlan", 2), ("untagged", 3)];
    let vid = table.get("vid");
    let over = table.get("over").and_then(|entry| Some((entry.word(sink, &words)?, entry.span)));
    ptp.way = match &over {
        Some((0, span)) => {
            if !links {
                sink.error(
                    span,
                    "clock synchronisation over a link of its own, but there is none",
                    "expected a link with `ptp_only = true`",
                    "add `[[links]]` with `between` and `ptp_only = true`, or write `over = \"untagged\"`",
                );
            }
            Some(PtpWay::OwnLink)
        }
        Some((1, _)) => table
            .require(sink, "vid", "vid = 10")
            .and_then(|entry| entry.integer(sink, 1..=4094u16))
            .map(PtpWay::OwnVlan),
        Some((2, _)) => Some(PtpWay::DataVlan),
        Some(_) => Some(PtpWay::Untagged),
        None => None,
    };
    if let (Some(entry), false) = (vid, matches!(over, Some((1, _)))) {
        sink.error(
            &entry.span,
            "`vid` of [ptp] without a VLAN of its own",
            "only `over = \"vlan\"` has it",
            "write `over = \"vlan\"`, or leave `vid` out",
        );
    }
    ptp.domain = table.get("domain").and_then(|entry| entry.integer(sink, 0..=127)).unwrap_or(0);
    ptp.source = table
        .get("source")
        .and_then(|entry| entry.word(sink, &[("system", TimeSource::System), ("pps", TimeSource::Pulse)]))
        .unwrap_or_default();
    ptp
}
