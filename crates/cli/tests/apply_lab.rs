//! `downbeat apply` and `restore` on the real kernel of the kernel laboratory. Where that is not built the tests are left out
//! in words, and fail where all are required.

mod common;

use std::time::Duration;

use common::DOWNBEAT;
use kernel_lab::{Ended, Kernel, Script};

/// Disciplines of seed paper 000 at the port of a station, `va`.
const QUEUES: [(&str, &str); 6] = [
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

fn station(name: &str, queue: &str) -> String {
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
fn bridge() -> String {
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
case " $* " in *" show "*|*" -j "*|*" -l "*|*" -g "*|*" -c "*|*" --show-"*|*" -k "*) exec $real "$@";; esac
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
fn lab(test: &str, script: &str, files: &[(&str, String)]) -> Option<Ended> {
    let set = |name| std::env::var_os(name).is_some();
    let kernel = match Kernel::find() {
        Ok(kernel) => kernel,
        Err(error) => {
            let required = set("DOWNBEAT_REQUIRE_ALL") && !set("DOWNBEAT_WITHOUT_KERNEL_LAB");
            assert!(!required, "{test} needs the kernel laboratory: {error}");
            eprintln!("skipped: {test} needs the kernel laboratory (make kernel-lab)");
            return None;
        }
    };
    let mut all =
        Script::new(format!("{HEAD}\n{script}")).limit(Duration::from_secs(400)).program("downbeat", DOWNBEAT);
    for (name, text) in files {
        all = all.file(format!("{name}.toml"), text.as_bytes());
    }
    Some(all.run(&kernel).unwrap_or_else(|error| panic!("{error}")))
}

#[track_caller]
fn holds(ended: &Ended, words: &[&str]) {
    let told = format!("{}\n{}", ended.stdout, ended.stderr);
    assert!(!told.contains("DIFFERS") && !told.contains("WRONG"), "{told}");
    for word in words {
        assert!(told.contains(word), "no {word:?} in\n{told}");
    }
}

#[test]
fn each_discipline_is_applied_read_back_and_taken_off() {
    let files: Vec<_> = QUEUES.iter().map(|(name, queue)| (*name, station(name, queue))).collect();
    let script = r#"
for name in fq-codel cbs etf mqprio taprio assist; do
    fresh; snapshot > before
    ./downbeat apply $name.toml --host pub > first || { echo "WRONG: $name"; cat first; continue; }
    ./downbeat apply $name.toml --host pub | grep -q 'as planned already' || echo "WRONG: $name is applied twice"
    ./downbeat apply $name.toml --host pub --dry-run | grep -E '^  [+~!]' && echo "WRONG: $name has something to do"
    echo "$name: $(tc qdisc show dev va root | cut -d' ' -f1-3)"
    ./downbeat restore > restored || { echo "WRONG: restore of $name"; cat restored; }
    same $name
done
# One plan in the place of another.
fresh; snapshot > before
for name in mqprio taprio etf mqprio; do
    ./downbeat apply $name.toml --host pub > first || { echo "WRONG: $name in the place of another"; cat first; }
done
./downbeat restore > restored; same "one after the other"
"#;
    let Some(ended) = lab("each discipline", script, &files) else { return };
    let kinds =
        ["fq-codel: qdisc fq_codel 100:", "cbs: qdisc cbs 100:", "etf: qdisc etf 100:", "mqprio: qdisc mqprio 100:"];
    holds(&ended, &kinds);
    holds(&ended, &["taprio: qdisc taprio 100:", "assist: qdisc taprio 100:"]);
}

#[test]
fn killed_at_any_change_it_is_undone() {
    let files = [("taprio", station("taprio", QUEUES[4].1)), ("bridge", bridge())];
    let script = r#"
killed() { # plan, host, every
    fresh; snapshot > before
    counted apply $1.toml --host $2 > first || { echo "WRONG: $1"; cat first; }
    changes=$(cat /tmp/state/count); ./downbeat restore > restored; same $1
    echo "$1: $changes changes"
    at=0
    while [ $at -lt $changes ]; do
        for way in KILL_BEFORE KILL_AFTER; do
            export $way=$at
            counted apply $1.toml --host $2 > first 2>&1; code=$?
            [ $code = 137 ] || echo "WRONG: $1 at $at was not killed: $code"
            export $way=none
            ./downbeat restore > restored || { echo "WRONG: restore of $1 at $at"; cat restored; }
            same "$1, $way=$at"
        done
        at=$((at + $3))
    done
}
killed taprio pub 1
killed bridge sw 5
"#;
    let Some(ended) = lab("killed", script, &files) else { return };
    holds(&ended, &["taprio: 3 changes", "bridge: "]);
}

#[test]
fn what_is_in_the_way_or_goes_away_is_told() {
    let files = [("taprio", station("taprio", QUEUES[4].1)), ("bridge", bridge())];
    let script = r#"
fresh
tc qdisc add dev va root handle 1: htb; snapshot > before
./downbeat apply taprio.toml --host pub; [ $? = 3 ] || echo "WRONG: a foreign discipline is not refused"
same "somebody else's"
fresh; ip link del va; snapshot > before; fresh
counted apply bridge.toml --host sw > first; ./downbeat restore > restored
export PULL=20
counted apply bridge.toml --host sw; [ $? = 3 ] || echo "WRONG: an interface that went away is not told"
export PULL=none
./downbeat restore; ip link del br0 2>/dev/null && echo "WRONG: the bridge stayed"
tc qdisc show dev wa | grep clsact && echo "WRONG: wa kept its filters"
# A schedule that waits for its base-time is not JSON: somebody has put another behind the one that runs.
fresh; snapshot > before
./downbeat apply taprio.toml --host pub > first || { echo "WRONG: taprio"; cat first; }
sleep 0.1
tc qdisc change dev va root handle 100: taprio base-time 1700009000000000000 sched-entry S 0f 250000 clockid CLOCK_TAI
tc -j qdisc show dev va | python3 -m json.tool > /dev/null 2>&1 || echo "the schedule is pending"
./downbeat apply taprio.toml --host pub --dry-run
./downbeat apply taprio.toml --host pub > first || { echo "WRONG: taprio over a schedule to come"; cat first; }
./downbeat restore > restored; same "a schedule to come"
"#;
    let Some(ended) = lab("in the way", script, &files) else { return };
    holds(
        &ended,
        &[
            "htb 1: at the root of va",
            "nothing was changed",
            "Cannot find device",
            "the schedule is pending",
            "base-time is 1700009000000000000, planned 0",
        ],
    );
}

/// Phases of arrivals that a script has printed into a file: how many, and how many of them in the window of priority 3 (45 to
/// 95 µs), and the last frame's way.
fn arrivals(ended: &Ended, name: &str) -> (usize, usize) {
    let text = std::fs::read_to_string(ended.folder().join(name)).unwrap();
    let phases: Vec<u32> = text.lines().map(|line| line.parse().unwrap()).collect();
    (phases.len(), phases.iter().filter(|phase| (45_000..97_000).contains(*phase)).count())
}

#[test]
fn a_schedule_that_was_stopped_by_hand_is_issued_again() {
    let script = r#"
fresh
./downbeat apply bridge.toml --host sw > first || { echo "WRONG: bridge"; cat first; }
python3 phases.py > applied || echo "WRONG: measuring"
# Linux stops the timer of a schedule for this, and tc shows no sign of it.
tc qdisc del dev va clsact
tc qdisc show dev va root
python3 phases.py > stopped || echo "WRONG: measuring"
./downbeat apply bridge.toml --host sw > again || { echo "WRONG: again"; cat again; }
grep -q 'tc qdisc replace dev va root' again || echo "WRONG: the schedule is not issued again"
grep -q 'dev wa' again && echo "WRONG: wa was as planned"
python3 phases.py > mended || echo "WRONG: measuring"
"#;
    let script = format!("cat > phases.py <<'END'\n{}END\n{script}", include_str!("apply_lab/phases.py"));
    let Some(ended) = lab("a stopped schedule", &script, &[("bridge", bridge())]) else { return };
    holds(&ended, &["gatemask 0x8 interval 50000"]);
    assert_eq!(arrivals(&ended, "applied"), (100, 100));
    let (arrived, inside) = arrivals(&ended, "stopped");
    eprintln!("stopped: {arrived} of 100 arrived, {inside} in the window");
    assert!(inside < 80, "{inside} of {arrived} in the window without a timer");
    // What had been stuck behind shut gates comes out as well.
    let (arrived, inside) = arrivals(&ended, "mended");
    assert!(inside >= 100 && inside == arrived, "{inside} of {arrived}");
}

#[test]
fn a_schedule_that_waits_is_as_planned() {
    // The laboratory begins in November 2023; this is 2033.
    let later = station("later", QUEUES[4].1).replace("offset =", "base_time = \"2000000000s\", offset =");
    let script = r#"
fresh; snapshot > before
./downbeat apply later.toml --host pub > first || { echo "WRONG: a schedule to come"; cat first; }
tc -j qdisc show dev va | python3 -m json.tool > /dev/null 2>&1 || echo "this is not JSON"
./downbeat apply later.toml --host pub | grep -q 'as planned already' || echo "WRONG: a schedule to come is not read"
./downbeat restore > restored; same "a schedule to come"
"#;
    let Some(ended) = lab("a schedule that waits", script, &[("later", later)]) else { return };
    holds(&ended, &["this is not JSON"]);
}
