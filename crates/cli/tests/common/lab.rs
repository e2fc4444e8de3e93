//! Scripts in the kernel laboratory: two pairs of interfaces, scenarios for them, and where frames arrive in the cycle.

use std::time::Duration;

use kernel_lab::{Ended, Script};

use super::DOWNBEAT;

/// Disciplines of seed paper 000 at the port of a station, `va`.
pub const QUEUES: [(&str, &str); 6] = [
    ("fq-codel", r#"{ root = "fq_codel" }"#),
    ("cbs", r#"{ root = "cbs", idle_slope = "110%" }"#),
    ("etf", r#"{ root = "etf", delta = "200us" }"#),
    (
        "mqprio",
        r#"{ root = "mqprio", map = [0, 0, 0, 3, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0], classes = [
            {}, { cbs = { idle_slope = "100Mbit/s" } }, {}, { etf = { delta = "200us" } }] }"#,
    ),
    (
        "taprio",
        r#"{ root = "taprio", map = [0, 0, 0, 3, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0], classes = [
            {}, { cbs = { idle_slope = "100Mbit/s" } }, {}, {}], schedule = [{ gates = [0, 1], interval = "30us" },
            { gates = [], interval = "15us" }, { gates = [3], interval = "50us" }, { gates = [2], interval = "55us" },
            { gates = [0, 1], interval = "100us" }] }"#,
    ),
    (
        "assist",
        r#"{ root = "taprio", mode = "txtime-assist", txtime_delay = "300us", map = [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0,
            0, 0, 0], classes = [{ etf = { delta = "200us", skip_sock_check = true } }, { etf = { delta = "200us",
            skip_sock_check = true } }], schedule = [{ gates = [1], interval = "100us" }, { gates = [0], interval = "150us" }] }"#,
    ),
];

/// Two stations, with this discipline at the port of the first.
pub fn station(name: &str, queue: &str) -> String {
    format!(
        r#"
name = "{name}"
time = {{ cycle = "250us", offset = "60us" }}
links = [{{ between = ["pub", "loop"] }}]
hosts = {{ pub = {{ interface = "va", machine = {{ kernel = "6.12", driver = "lab" }} }}, loop = {{}} }}
ports = [{{ at = "pub", queue = {} }}]
streams = [{{ name = "s", writer = "pub", reader = "loop", echo = true, variables = 3, vid = 8, pcp = 3 }}]
"#,
        queue.replace('\n', " ")
    )
}

/// A bridge between `va` and `wa`, with a schedule at `va`.
pub fn bridge() -> String {
    let (_, queue) = QUEUES[4];
    format!(
        r#"
name = "bridge"
time = {{ cycle = "250us", offset = "60us" }}
links = [{{ between = ["pub", "sw"] }}, {{ between = ["sw", "loop"] }}]
streams = [{{ name = "s", writer = "pub", reader = "loop", echo = true, variables = 3, vid = 8, pcp = 3 }}]
[hosts.pub]
[hosts.loop]
[hosts.sw]
kind = "bridge"
machine = {{ kernel = "6.12", driver = "lab" }}
[[ports]]
at = "sw"
towards = "pub"
interface = "wa"
[[ports]]
at = "sw"
towards = "loop"
interface = "va"
queue = {}
"#,
        queue.replace('\n', " ")
    )
}

/// Two pairs of interfaces, what is compared before and after, and programs that kill who called them at a given change.
const HEAD: &str = r#"
echo 1000 > /sys/module/veth/parameters/speed
echo 24 > /sys/module/veth/parameters/wire
mkdir -p /tmp/state && mount -t tmpfs none /var/lib
fresh() {
    ip link del va 2>/dev/null; ip link del wa 2>/dev/null
    ip link add va numtxqueues 4 numrxqueues 4 type veth peer name vb numtxqueues 4 numrxqueues 4
    ip link add wa numtxqueues 4 numrxqueues 4 type veth peer name wb numtxqueues 4 numrxqueues 4
    for i in va vb wa wb; do ip link set $i up; done
}
# Without what the kernel puts there itself, counts of references, and addresses.
snapshot() {
    tc qdisc show | grep -v ' 0: ' | sed 's/ refcnt [0-9]*//'
    ip -d link show | grep -v 'link/' | sed 's/^[0-9]*: //'
    bridge vlan show
    for i in va wa; do tc filter show dev $i ingress 2>/dev/null; ethtool -k $i | grep -E '^(tcp-seg|generic)'; done
}
same() { snapshot > after; cmp -s before after || { echo "DIFFERS: $1"; diff before after; }; }
mkdir bin
cat > bin/tc <<'END'
#!/bin/sh
real=/sbin/$(basename $0)
case " $* " in *" show "*|*" -j "*|*" -l "*|*" -g "*|*" -c "*|*" --show-"*|*" -k "*|*" -V "*|*" --version "*) exec $real "$@";; esac
at=$(cat /tmp/state/count); echo $((at + 1)) > /tmp/state/count
[ "$at" = "$KILL_BEFORE" ] && { kill -9 $PPID; exit 1; }
[ "$at" = "$PULL" ] && /sbin/ip link del va
$real "$@"; code=$?
[ "$at" = "$KILL_AFTER" ] && kill -9 $PPID
exit $code
END
chmod +x bin/tc; for i in ip bridge ethtool; do ln -s tc bin/$i; done
export KILL_BEFORE=none KILL_AFTER=none PULL=none
counted() { echo 0 > /tmp/state/count; PATH=$PWD/bin:$PATH ./downbeat "$@"; }
"#;

/// Runs a script behind [`HEAD`] with these scenario files.
pub fn lab(test: &str, script: &str, files: &[(&str, String)]) -> Option<Ended> {
    let kernel = kernel_lab::testing::kernel(test)?;
    let mut all =
        Script::new(format!("{HEAD}\n{script}")).limit(Duration::from_secs(400)).program("downbeat", DOWNBEAT);
    for (name, text) in files {
        all = all.file(format!("{name}.toml"), text.as_bytes());
    }
    Some(all.run(&kernel).unwrap_or_else(|error| panic!("{error}")))
}

/// It says nothing of what is wrong, and these words.
#[track_caller]
pub fn holds(ended: &Ended, words: &[&str]) {
    let told = format!("{}\n{}", ended.stdout, ended.stderr);
    assert!(!told.contains("DIFFERS") && !told.contains("WRONG"), "{told}");
    for word in words {
        assert!(told.contains(word), "no {word:?} in\n{told}");
    }
}

/// A program that sends frames of priority 3 from `va` and prints the phases of their arrival at `vb`: `phases.py [COUNT]`.
pub fn with_phases(script: &str) -> String {
    format!("cat > phases.py <<'END'\n{}END\n{script}", include_str!("../lab/apply/phases.py"))
}

/// Phases of arrivals that a script has printed into a file: how many, and how many of them in the window of priority 3
/// (45 to 95 µs) and the last frame's way.
pub fn arrivals(ended: &Ended, name: &str) -> (usize, usize) {
    let text = std::fs::read_to_string(ended.folder().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let phases: Vec<u32> = text.lines().map(|line| line.parse().expect("a phase")).collect();
    (phases.len(), phases.iter().filter(|phase| (45_000..97_000).contains(*phase)).count())
}

/// With a `systemctl` that starts and stops the units of a plan, folders that plans write into, and a boot id that can be
/// changed: `reboot` does it, and takes away what a boot does.
pub fn with_systemd(script: &str) -> String {
    format!(
        r#"
mkdir -p systemd; cat > systemd/systemctl <<'END'
{}END
chmod +x systemd/systemctl; export PATH=$PWD/systemd:$PATH
mkdir /tmp/state/upper /tmp/state/work
mount -t overlay -o lowerdir=/etc,upperdir=/tmp/state/upper,workdir=/tmp/state/work none /etc || echo "WRONG: /etc is as it was"
mkdir -p /etc/systemd/system /etc/linuxptp
cat /proc/sys/kernel/random/boot_id > boot; mount --bind boot /proc/sys/kernel/random/boot_id
files() {{ find /etc/systemd/system /etc/linuxptp /var/lib/downbeat -type f ! -name lock 2>/dev/null | sort | xargs -r sha256sum; ls /tmp/state/*.enabled 2>/dev/null; }}
reboot() {{
    for one in /tmp/state/*.pid; do kill -9 $(cat $one) 2>/dev/null; echo none > $one; done
    ip link del br0 2>/dev/null; fresh; echo 11111111-2222-3333-4444-555555555555 > boot
    [ $(cat /proc/sys/kernel/random/boot_id) = $(cat boot) ] || echo "WRONG: the boot id"
}}
{script}"#,
        include_str!("../lab/apply/systemctl.py")
    )
}
