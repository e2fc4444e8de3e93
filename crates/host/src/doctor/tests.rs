//! The doctor on machines that are not there.

use rt::machine::Machine;
use units::{Nanos, Rate};

use crate::change::Change;
use crate::finding::{Finding, Severity};
use crate::needs::{NeededInterface, Needs};
use crate::scripted::Scripted;

const TRY: &str = "unshare --user --map-root-user --net tc qdisc add dev lo";
const UNKNOWN: &str = "Error: Specified qdisc kind is unknown.";
const IRQ: &str = "/proc/irq/30/smp_affinity_list";

/// Four processors, the last of them kept free; all is well.
fn well() -> Scripted {
    let machine = Machine {
        kernel_release: "6.12.1-rt".into(),
        cpus: 4,
        clocksource: Some("tsc".into()),
        preempt_rt: true,
        ..Machine::default()
    };
    let cpu = |file: &str| format!("/sys/devices/system/cpu/{file}");
    let eth = |file: &str| format!("/sys/class/net/eth1/{file}");
    let mut look = Scripted { machine, tai_minus_utc: Nanos(37_000_000_000), root: true, ..Scripted::default() };
    look = look
        .file("/proc/sys/kernel/sched_rt_runtime_us", "-1")
        .file("/dev/cpu_dma_latency", "")
        .file("/proc/cmdline", "isolcpus=managed_irq,3 nohz_full=3 rcu_nocbs=3 quiet")
        .file(cpu("isolated"), "3")
        .file(cpu("nohz_full"), "3")
        .file(cpu("cpu3/cpufreq/scaling_governor"), "performance")
        .file(cpu("cpu3/topology/thread_siblings_list"), "3")
        .file(cpu("cpu3/cpuidle/state1/latency"), "2")
        .file(cpu("cpu3/cpuidle/state1/name"), "C1")
        .file(cpu("intel_pstate/no_turbo"), "1")
        .file(
            "/proc/interrupts",
            "           CPU0       CPU1       CPU2       CPU3\n  30:   12   0   0   0   PCI-MSI  eth0-rx\n NMI:  0 0 0 9",
        )
        .file(IRQ, "0-2")
        .file(eth("ifindex"), "3")
        .file(eth("operstate"), "up")
        .file(eth("speed"), "1000")
        .file(eth("duplex"), "full")
        .file(eth("gro_flush_timeout"), "0")
        .prints("ethtool --show-eee eth1", "EEE settings for eth1:\n\tEEE status: disabled")
        .prints("ethtool -c eth1", "rx-usecs:\t0\ntx-usecs:\t0\nrx-frames: n/a")
        .prints("ethtool -T eth1", "PTP Hardware Clock: 0")
        .prints("ethtool --show-mm eth1", "TX enabled: on\nVerification status: SUCCEEDED")
        .prints("ethtool --json -k eth1", r#"[{"rx-vlan-offload":{"active":false}}]"#)
        .prints("tc -j qdisc show dev eth1", "[]");
    for queue in 0..4 {
        look = look.file(eth(&format!("queues/tx-{queue}/xps_cpus")), "0");
    }
    for kind in ["mqprio", "taprio", "etf", "cbs", "prio", "fq_codel", "tbf", "netem"] {
        look = look.refuses(&format!("{TRY} root {kind}"), "Error: wrong parameters.");
    }
    look = look.prints(&format!("{TRY} clsact"), "");
    look.links.insert(eth("device/driver").into(), "igc".into());
    look
}

fn needs() -> Needs {
    let interface =
        NeededInterface { rate: Some(Rate::from_gbit(1)), queues: 4, classes: true, ..NeededInterface::named("eth1") };
    Needs {
        host: Some("pub".into()),
        disciplines: ["taprio"].into(),
        cycle: Some(Nanos(250_000)),
        interfaces: vec![interface],
        ..Needs::default()
    }
}

/// Findings that are not good.
fn wrong(look: &Scripted, needs: &Needs) -> Vec<Finding> {
    super::examine(look, needs).into_iter().filter(|finding| finding.severity > Severity::Good).collect()
}

/// The one finding that is not good.
#[track_caller]
fn only(look: &Scripted, needs: &Needs) -> Finding {
    let mut found = wrong(look, needs);
    assert_eq!(found.len(), 1, "{found:#?}");
    found.remove(0)
}

#[track_caller]
fn expect(look: &Scripted, needs: &Needs, rule: &str, severity: Severity, words: &[&str]) -> Finding {
    let finding = only(look, needs);
    assert_eq!((finding.rule, finding.severity), (rule, severity), "{finding:#?}");
    let text = format!("{} {} {} {}", finding.place, finding.found, finding.needed, finding.mend);
    for word in words {
        assert!(text.contains(word), "no {word:?} in {text}");
    }
    finding
}

#[test]
fn a_machine_where_all_is_well_has_nothing_to_mend() {
    assert_eq!(wrong(&well(), &needs()), []);
    let good = super::examine(&well(), &needs());
    for rule in ["qdisc", "preempt-rt", "rt-throttling", "isolcpus", "nohz_full", "rcu_nocbs", "irq-affinity", "smt"] {
        assert!(good.iter().any(|finding| finding.rule == rule), "{rule} was not looked at");
    }
    for rule in ["link-speed", "queues", "eee", "coalescing", "gro-flush-timeout", "ptp-clock", "preemption"] {
        assert!(good.iter().any(|finding| finding.rule == rule && finding.place == "eth1"), "{rule} was not looked at");
    }
}

#[test]
fn a_missing_discipline_is_an_error_only_where_it_is_asked_for() {
    let look = well().refuses(&format!("{TRY} root taprio"), UNKNOWN);
    expect(
        &look,
        &needs(),
        "qdisc",
        Severity::Error,
        &["no taprio", "pub", "modprobe sch_taprio", "CONFIG_NET_SCH_TAPRIO"],
    );
    let look = well().refuses(&format!("{TRY} root netem"), UNKNOWN);
    expect(&look, &needs(), "qdisc", Severity::Note, &["no netem"]);
    let look = well().refuses(&format!("{TRY} root mqprio"), "unshare: unshare failed: Operation not permitted");
    expect(&look, &needs(), "qdisc", Severity::Warning, &["could not be tried"]);
}

#[test]
fn kernel_settings_are_looked_at_and_mended() {
    let throttling = "/proc/sys/kernel/sched_rt_runtime_us";
    let finding = expect(&well().file(throttling, "950000"), &needs(), "rt-throttling", Severity::Warning, &["950000"]);
    assert_eq!(finding.fix, [Change::File { path: throttling.into(), value: "-1".into() }]);
    let mut look = well();
    look.machine.preempt_rt = false;
    expect(&look, &needs(), "preempt-rt", Severity::Warning, &["6.12.1-rt"]);
    look = well().file("/sys/devices/system/clocksource/clocksource0/available_clocksource", "hpet acpi_pm");
    look.machine.clocksource = Some("hpet".into());
    expect(&look, &needs(), "clocksource", Severity::Warning, &["hpet", "dmesg"]);
    look = well();
    look.machine.hypervisor = Some("kvm".into());
    expect(&look, &needs(), "virtual-machine", Severity::Note, &["kvm"]);
    look = well();
    look.root = false;
    let rules: Vec<_> = wrong(&look, &needs()).iter().map(|finding| finding.rule).collect();
    assert_eq!(rules, ["cpu-dma-latency", "locked-memory"]);
}

#[test]
fn processors_are_to_be_kept_free() {
    let busy = Needs { processors: vec![2, 3], ..needs() };
    let rules: Vec<_> =
        wrong(&well().file(IRQ, "0-1"), &busy).into_iter().map(|found| (found.rule, found.mend)).collect();
    let expected = |name: &'static str| (name, format!("add {name}=2,3 to the kernel's command line and boot anew"));
    assert_eq!(rules, ["isolcpus", "nohz_full", "rcu_nocbs"].map(expected));
    let governor = "/sys/devices/system/cpu/cpu3/cpufreq/scaling_governor";
    let finding = expect(&well().file(governor, "powersave"), &needs(), "governor", Severity::Warning, &["powersave"]);
    assert_eq!(finding.fix, [Change::File { path: governor.into(), value: "performance".into() }]);
    let deep = well()
        .file("/sys/devices/system/cpu/cpu3/cpuidle/state2/latency", "133")
        .file("/sys/devices/system/cpu/cpu3/cpuidle/state2/name", "C6");
    expect(&deep, &needs(), "c-states", Severity::Note, &["C6", "133 µs"]);
    let shared = well().file("/sys/devices/system/cpu/cpu3/topology/thread_siblings_list", "1,3");
    expect(&shared, &needs(), "smt", Severity::Warning, &["processor 1"]);
    let turbo = well().file("/sys/devices/system/cpu/intel_pstate/no_turbo", "0");
    expect(&turbo, &needs(), "turbo", Severity::Note, &["on"]);
}

#[test]
fn interrupts_on_a_cyclic_processor_are_sent_elsewhere() {
    let table = "           CPU0       CPU1       CPU2       CPU3\n  30:   12   0   0   4   PCI-MSI  eth0-rx";
    let look = well().file("/proc/interrupts", table).file(IRQ, "0-3");
    let finding = expect(&look, &needs(), "irq-affinity", Severity::Warning, &["30", "eth0-rx", "4 times"]);
    assert_eq!(finding.fix, [Change::File { path: IRQ.into(), value: "0,1,2".into() }]);
    let own = table.replace("eth0", "eth1");
    assert_eq!(wrong(&well().file("/proc/interrupts", &own).file(IRQ, "0-3"), &needs()), []);
    // They came before they were sent elsewhere.
    assert_eq!(wrong(&well().file("/proc/interrupts", table), &needs()), []);
    let look =
        well().file("/proc/77/comm", "irqbalance").file("/proc/77/cmdline", "/usr/sbin/irqbalance\0--foreground");
    expect(&look, &needs(), "irqbalance", Severity::Warning, &["systemctl"]);
}

#[test]
fn who_sets_the_clock_is_looked_at() {
    let shared = |seconds: i64| Scripted { tai_minus_utc: Nanos(seconds * 1_000_000_000), ..well() };
    expect(&shared(0), &needs(), "tai-offset", Severity::Note, &["37 s"]);
    let needs = Needs { synchronised: true, ..needs() };
    expect(&well(), &needs, "phc2sys", Severity::Warning, &["no phc2sys"]);
    let process = |look: Scripted, number: u32, name: &str, line: &str| {
        look.file(format!("/proc/{number}/comm"), name).file(format!("/proc/{number}/cmdline"), line)
    };
    let automatic = process(well(), 50, "phc2sys", "phc2sys\0-a\0-r\0-r");
    assert_eq!(wrong(&automatic, &needs), []);
    let fixed = |offset: &str| process(well(), 50, "phc2sys", &format!("phc2sys\0-s\0eth1\0-O\0{offset}"));
    assert_eq!(wrong(&fixed("-37"), &needs), []);
    expect(&fixed("0"), &needs, "phc2sys", Severity::Warning, &["-O 0", "-O -37", "37 s off"]);
    let both = process(automatic, 51, "systemd-timesyn", "/lib/systemd/systemd-timesyncd");
    expect(&both, &needs, "ntp-daemon", Severity::Error, &["systemd-timesyn"]);
}

#[test]
fn interfaces_are_looked_at() {
    let eth = |file: &str| format!("/sys/class/net/eth1/{file}");
    let error = |look: &Scripted, rule, words: &[&str]| expect(look, &needs(), rule, Severity::Error, words);
    error(&well().file(eth("operstate"), "down"), "link", &["ip link set eth1 up"]);
    error(&well().file(eth("speed"), "100"), "link-speed", &["100Mbit/s", "1Gbit/s"]);
    error(&well().file(eth("duplex"), "half"), "duplex", &["full"]);
    let few = Needs { interfaces: vec![NeededInterface { queues: 8, ..needs().interfaces[0].clone() }], ..needs() };
    expect(&well(), &few, "queues", Severity::Error, &["4 transmit queues", "ethtool -L eth1"]);
    let mm = "TX enabled: on\nVerification status: FAILED";
    error(&well().prints("ethtool --show-mm eth1", mm), "preemption", &["FAILED", "--set-mm"]);
    let none = Needs { interfaces: vec![NeededInterface::named("eth9")], ..needs() };
    expect(&well(), &none, "interface", Severity::Error, &["eth9", "eth1"]);
    let fast = well().file(eth("speed"), "10000");
    expect(&fast, &needs(), "link-speed", Severity::Warning, &["10Gbit/s"]);
    let held =
        expect(&well().file(eth("gro_flush_timeout"), "250000"), &needs(), "gro-flush-timeout", Severity::Warning, &[]);
    assert_eq!(held.fix, [Change::File { path: eth("gro_flush_timeout").into(), value: "0".into() }]);
}

#[test]
fn what_ethtool_changes_it_can_change_back() {
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let change = |run: &str, undo: &str| [Change::Command { run: words(run), undo: words(undo) }];
    let look = well().prints("ethtool --show-eee eth1", "\tEEE status: enabled - active");
    let finding = expect(&look, &needs(), "eee", Severity::Warning, &["off"]);
    assert_eq!(finding.fix, change("ethtool --set-eee eth1 eee off", "ethtool --set-eee eth1 eee on"));
    let look = well().prints("ethtool -c eth1", "rx-usecs:\t3\nrx-frames:\t0\n\ntx-usecs:\t72");
    let finding = expect(&look, &needs(), "coalescing", Severity::Warning, &["rx-usecs 3, tx-usecs 72"]);
    let undo = "ethtool -C eth1 rx-usecs 3 tx-usecs 72";
    assert_eq!(finding.fix, change("ethtool -C eth1 rx-usecs 0 tx-usecs 0", undo));
    let look = well().prints("ethtool --json -k eth1", r#"[{"rx-vlan-offload":{"active":true}}]"#);
    expect(&look, &needs(), "rx-vlan-offload", Severity::Note, &[]);
    let finding = expect(&look, &Needs { xdp: true, ..needs() }, "rx-vlan-offload", Severity::Error, &["AF_XDP"]);
    assert_eq!(finding.fix, change("ethtool -K eth1 rxvlan off", "ethtool -K eth1 rxvlan on"));
}

#[test]
fn launch_times_and_priorities_are_looked_at() {
    let etf = r#"[{"kind":"etf","parent":"100:1","options":{"offload":"off","deadline_mode":"off","delta":200000}}]"#;
    let look = well().prints("tc -j qdisc show dev eth1", etf);
    expect(&look, &needs(), "etf-offload", Severity::Warning, &["100:1", "200us"]);
    let look = well().prints("ethtool -T eth1", "PTP Hardware Clock: none");
    expect(&look, &needs(), "ptp-clock", Severity::Note, &[]);
    let launches = NeededInterface { launches: true, ..needs().interfaces[0].clone() };
    expect(&look, &Needs { interfaces: vec![launches], ..needs() }, "ptp-clock", Severity::Error, &["i210"]);
    let bridge = Needs { forwards: true, ..needs() };
    expect(&well(), &bridge, "pcp-priority", Severity::Error, &["clsact", "vlan_prio"]);
    let filters = "filter protocol 802.1Q pref 49152 flower chain 0 handle 0x1\n  vlan_prio 7\n action order 1: skbedit priority :7";
    assert_eq!(wrong(&well().prints("tc filter show dev eth1 ingress", filters), &bridge), []);
}
