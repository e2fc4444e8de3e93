//! What the kernel can, and what it lets this user do.

use std::path::Path;

use crate::change::Change;
use crate::finding::{Finding, Severity};
use crate::look::Look;
use crate::needs::Needs;

/// What the planner knows how to set up, and the command that tries it on the loopback device of an empty namespace.
const DISCIPLINES: [(&str, &str); 9] = [
    ("mqprio", "root"),
    ("taprio", "root"),
    ("etf", "root"),
    ("cbs", "root"),
    ("prio", "root"),
    ("fq_codel", "root"),
    ("tbf", "root"),
    ("netem", "root"),
    ("clsact", "clsact"),
];

pub(super) fn examine(look: &impl Look, needs: &Needs, found: &mut Vec<Finding>) {
    disciplines(look, needs, found);
    preemption(look, found);
    throttling(look, found);
    clocksource(look, found);
    rights(look, found);
    if let Some(hypervisor) = look.machine().hypervisor {
        found.push(Finding::new(
            "virtual-machine",
            Severity::Note,
            "kernel",
            [
                &format!("this is a virtual machine ({hypervisor})"),
                "real hardware for figures of latency: what runs beside a virtual machine pauses it",
                "nothing, for a look at how things work; else measure on a machine of its own",
            ],
        ));
    }
}

/// Which queueing disciplines the kernel has, as it says itself when it is asked for one. Asking in a namespace of its
/// own changes nothing outside.
fn disciplines(look: &impl Look, needs: &Needs, found: &mut Vec<Finding>) {
    let known = DISCIPLINES.iter().map(|(kind, _)| *kind);
    let (mut missing, mut there) = (Vec::new(), Vec::new());
    for kind in known.chain(needs.disciplines.iter().copied().filter(|kind| !is_listed(kind))) {
        match has_discipline(look, kind) {
            None => {
                found.push(Finding::new(
                    "qdisc",
                    Severity::Warning,
                    "kernel",
                    [
                        "it could not be tried which queueing disciplines this kernel has",
                        "`unshare` (util-linux), `tc` (iproute2), and a user who may make namespaces",
                        "apt-get install iproute2 util-linux, or look as root",
                    ],
                ));
                return;
            }
            Some(true) => there.push(kind),
            Some(false) => missing.push(kind),
        }
    }
    if !there.is_empty() {
        found.push(Finding::good("qdisc", "kernel", format!("it has {}", there.join(", "))));
    }
    let (asked, others): (Vec<_>, Vec<_>) = missing.into_iter().partition(|kind| needs.disciplines.contains(kind));
    for kind in asked {
        let host = needs.host.as_deref().unwrap_or("the scenario");
        found.push(Finding::new(
            "qdisc",
            Severity::Error,
            "kernel",
            [
                &format!("no {kind}"),
                &format!("{host} asks for it"),
                &format!(
                    "load the module, as root: `modprobe sch_{}`; where there is none, a kernel with \
                     CONFIG_NET_SCH_{} (Debian's and Ubuntu's have it; cloud kernels may need linux-modules-extra)",
                    module(kind),
                    module(kind).to_uppercase()
                ),
            ],
        ));
    }
    if !others.is_empty() {
        found.push(Finding::new(
            "qdisc",
            Severity::Note,
            "kernel",
            [
                &format!("no {}", others.join(", ")),
                "for scenarios whose ports ask for them",
                "nothing now; a distribution's own kernel has them as modules",
            ],
        ));
    }
}

fn is_listed(kind: &str) -> bool {
    DISCIPLINES.iter().any(|(listed, _)| *listed == kind)
}

/// The end of a discipline's module name.
fn module(kind: &str) -> &str {
    if kind == "clsact" { "ingress" } else { kind }
}

/// `None` where it could not be tried.
fn has_discipline(look: &impl Look, kind: &str) -> Option<bool> {
    let place = DISCIPLINES.iter().find(|(listed, _)| *listed == kind).map_or("root", |(_, place)| place);
    let mut command = vec!["unshare", "--user", "--map-root-user", "--net", "tc", "qdisc", "add", "dev", "lo", place];
    if place == "root" {
        command.push(kind);
    }
    let printed = look.run(&command)?;
    // Anything else that goes wrong is about its parameters: the kernel or `tc` knows the kind.
    let unknown = ["kind is unknown", "Unknown qdisc", "No such file or directory"];
    if printed.error.contains("unshare") {
        return None;
    }
    Some(printed.well || !unknown.iter().any(|words| printed.error.contains(words)))
}

fn preemption(look: &impl Look, found: &mut Vec<Finding>) {
    let machine = look.machine();
    if machine.preempt_rt {
        found.push(Finding::good("preempt-rt", "kernel", "PREEMPT_RT"));
        return;
    }
    found.push(Finding::new(
        "preempt-rt",
        Severity::Warning,
        "kernel",
        [
            &format!("{} is not PREEMPT_RT", machine.kernel_release),
            "a kernel that lets a real-time thread run within microseconds whatever else it does",
            "apt-get install linux-image-rt-amd64 (Debian), or enable Ubuntu's real-time kernel; `downbeat latency` \
             shows the difference",
        ],
    ));
}

fn throttling(look: &impl Look, found: &mut Vec<Finding>) {
    const PATH: &str = "/proc/sys/kernel/sched_rt_runtime_us";
    const RULE: &str = "rt-throttling";
    match look.number(PATH.as_ref()) {
        None => {}
        Some(-1) => found.push(Finding::good(RULE, "kernel", "real-time threads are never stopped")),
        Some(runtime) => {
            let of = look.number("/proc/sys/kernel/sched_rt_period_us".as_ref()).unwrap_or(1_000_000);
            let finding = Finding::new(
                RULE,
                Severity::Warning,
                "kernel",
                [
                    &format!(
                        "real-time threads of a processor may run for {runtime} of {of} µs, then they are stopped"
                    ),
                    "no such limit: a thread that spins to its instants is stopped for milliseconds",
                    &format!("echo -1 > {PATH}"),
                ],
            );
            found.push(finding.mended_by(Change::File { path: PATH.into(), value: "-1".into() }));
        }
    }
}

fn clocksource(look: &impl Look, found: &mut Vec<Finding>) {
    const FOLDER: &str = "/sys/devices/system/clocksource/clocksource0";
    let Some(source) = look.machine().clocksource else { return };
    let good = ["tsc", "arch_sys_counter", "riscv_clocksource", "timebase"];
    if good.contains(&source.as_str()) {
        found.push(Finding::good("clocksource", "kernel", source));
        return;
    }
    let available = look.read(&Path::new(FOLDER).join("available_clocksource")).unwrap_or_default();
    let virtual_machine = look.machine().hypervisor.is_some();
    let can = available.split_ascii_whitespace().any(|name| name == "tsc");
    let mend = match can {
        true => "echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource".to_owned(),
        false => format!(
            "look with `dmesg | grep -i tsc` why the kernel gave tsc up (there are: {available}); `tsc=reliable` on its \
             command line keeps it"
        ),
    };
    let severity = if virtual_machine { Severity::Note } else { Severity::Warning };
    let needed = "tsc: others take a slow read of a device for every look at the clock, several a frame";
    found.push(Finding::new("clocksource", severity, "kernel", [&source, needed, &mend]));
}

fn rights(look: &impl Look, found: &mut Vec<Finding>) {
    const LATENCY: &str = "/dev/cpu_dma_latency";
    if look.writable(LATENCY.as_ref()) {
        found.push(Finding::good("cpu-dma-latency", "kernel", format!("{LATENCY} can be held during runs")));
    } else {
        found.push(Finding::new(
            "cpu-dma-latency",
            Severity::Warning,
            "kernel",
            [
                &format!("{LATENCY} is missing or not this user's to write"),
                "to hold it open during runs, so that processors do not sleep deeply",
                "run as root, or give the user the right with a rule of udev",
            ],
        ));
    }
    match look.lockable_memory() {
        Some(bytes) if !look.is_root() && bytes < 1 << 30 => found.push(Finding::new(
            "locked-memory",
            Severity::Warning,
            "kernel",
            [
                &format!("this user may lock {} KiB of memory", bytes >> 10),
                "all of a run's: a page that has to be fetched takes longer than a cycle",
                "run as root, or raise it: a line `USER - memlock unlimited` in /etc/security/limits.conf",
            ],
        )),
        _ => found.push(Finding::good("locked-memory", "kernel", "memory can be locked")),
    }
}
