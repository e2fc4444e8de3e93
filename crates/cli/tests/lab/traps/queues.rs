//! Traps of queues, shapers and of the way of a priority.

use std::sync::OnceLock;

use serde_json::Value;

use super::boot::{Booted, of};
use super::{checked, rendered};
use crate::common::lab::station;

const MAP: &str = "map = [0, 0, 0, 3, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0]";

/// Four classes in strict order.
fn strict() -> String {
    format!("{{ root = \"mqprio\", {MAP}, classes = 4 }}")
}

/// A bridge from `wa` to `va`, four classes at `va`.
fn bridge() -> String {
    let strict = strict();
    format!(
        r#"
name = "strict-bridge"
time = {{ cycle = "250us", offset = "60us" }}
links = [{{ between = ["pub", "sw"] }}, {{ between = ["sw", "loop"] }}]
hosts = {{ pub = {{}}, loop = {{}}, sw = {{ kind = "bridge", machine = {{ kernel = "6.12", driver = "lab" }} }} }}
ports = [{{ at = "sw", towards = "pub", interface = "wa" }}, {{ at = "sw", towards = "loop", interface = "va", queue = {strict} }}]
streams = [{{ name = "s", writer = "pub", reader = "loop", variables = 3, vid = 8, pcp = 3 }}]
"#
    )
}

/// A stream from one interface to the other, for roles.
fn one_way() -> String {
    station("one-way", "{ root = \"fifo\" }")
        .replace("cycle = \"250us\", offset = \"60us\"", "cycle = \"1ms\", offset = \"600us\"")
        .replace("echo = true, ", "")
        .replace("loop = {}", "loop = { interface = \"vb\" }")
}

fn shaped(driver: &str) -> String {
    // 356 bytes for the shaper; its locredit is for frames of that size.
    station("shaped", "{ root = \"cbs\", idle_slope = \"100Mbit/s\" }")
        .replace("variables = 3,", "variables = 34,")
        .replace("driver = \"lab\"", &format!("driver = \"{driver}\""))
}

fn etf(delta: &str) -> String {
    station("etf", &format!("{{ root = \"etf\", delta = \"{delta}\" }}"))
}

fn gates(first: &str, second: &str) -> String {
    let gates = format!("{{ gates = [3], interval = \"{first}\" }}, {{ gates = [0, 1, 2], interval = \"{second}\" }}");
    station("gates", &format!("{{ root = \"taprio\", {MAP}, classes = 4, schedule = [{gates}] }}"))
        .replace("offset = \"60us\"", "offset = \"20us\"")
}

fn lab() -> Option<&'static Booted> {
    static LAB: OnceLock<Option<Booted>> = OnceLock::new();
    let all = [BULK, LEAVES, HASH, BRIDGE, VLAN, SPEED, DELTA, REFUSED];
    let start = || {
        let files = [
            ("strict", station("strict", &strict())),
            ("strict-bridge", bridge()),
            ("one-way", one_way()),
            ("shaped", shaped("lab")),
            ("shaped-stock", shaped("veth")),
            ("etf", etf("200us")),
            ("etf-other", etf("100us")),
        ];
        Booted::new("traps of queues", &all, &files)
    };
    LAB.get_or_init(start).as_ref()
}

/// Packets of each child of the root that had some, by its place (`100:1` is 1).
fn packets(shown: &str) -> Vec<(u64, u64)> {
    let shown: Vec<Value> = serde_json::from_str(shown).expect("JSON of tc");
    let of = |qdisc: &Value| {
        let place = u64::from_str_radix(qdisc["parent"].as_str()?.split_once(':')?.1, 16).ok()?;
        Some((place, qdisc["packets"].as_u64()?))
    };
    let mut found: Vec<_> = shown.iter().filter_map(of).filter(|(_, packets)| *packets > 0).collect();
    found.sort_unstable();
    found
}

const BULK: &str = r#"
begins 'a root that orders the frames of several queues'
tc qdisc replace dev va root handle 1: ets bands 2 strict 2 priomap 1 1 1 0 1 1 1 1 1 1 1 1 1 1 1 1
probe 0:1514:12:0:0 3:114:1:15000:0 > bulk-ets
fresh; apply strict pub; probe 0:1514:12:0:0 3:114:1:15000:0 > bulk-ours; off
"#;

#[test]
fn a_strict_root_over_several_queues_lets_low_frames_go_first() {
    let Some(lab) = lab() else { return };
    let before = |name: &str| {
        let all = lab.arrivals(name);
        assert_eq!(all.len(), 13, "{name}: {all:?}");
        let high = of(&all, 3)[0].at;
        of(&all, 0).iter().filter(|arrival| arrival.at < high).count()
    };
    let (plain, ours) = (before("bulk-ets"), before("bulk-ours"));
    eprintln!("a frame of high priority waits for {plain} below a strict root, for {ours} below our mqprio");
    // It came while the second was on the wire.
    assert!(plain >= 5 && ours == 2, "{plain} and {ours}");
    let fq_codel = station("fq", "{ root = \"fq_codel\" }").replace("driver = \"lab\"", "driver = \"igb\"");
    assert!(checked(&fq_codel).says("bulk-at-root"));
    assert!(!checked(&station("strict", &strict())).says("bulk-at-root"));
}

const LEAVES: &str = r#"
begins 'the leaves of mqprio'
tc qdisc replace dev va root handle 100: mqprio $MAP hw 0; probe 1:1514:8:0:0 0:1514:1:15000:0 > leaves-plain
fresh; apply strict pub; probe 1:1514:8:0:0 0:1514:1:15000:0 > leaves-ours; off
"#;

#[test]
fn frames_of_a_class_overtake_each_other_in_the_leaves_that_linux_makes() {
    let Some(lab) = lab() else { return };
    // Both priorities are of the same class, and the frame of priority 0 was sent last.
    let last = |name: &str| lab.arrivals(name).last().map(|arrival| arrival.priority);
    assert_eq!((lab.arrivals("leaves-plain").len(), lab.arrivals("leaves-ours").len()), (9, 9));
    assert_eq!((last("leaves-plain"), last("leaves-ours")), (Some(1), Some(0)));
}

const HASH: &str = r#"
begins 'the choice of a queue'
cat > flows.py <<'EOF'
import socket
for port in range(5000, 5016):
    out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    out.setsockopt(socket.SOL_SOCKET, 12, 3)
    out.sendto(b"x" * 64, ("10.9.0.2", port))
EOF
flows() {
    ip addr add 10.9.0.1/24 dev va; ip neigh replace 10.9.0.2 lladdr 02:00:00:00:00:21 dev va
    python3 flows.py; sleep 0.01; tc -s -j qdisc show dev va
}
tc qdisc replace dev va root handle 100: mq; flows > hash-mq
fresh; apply strict pub; flows > hash-ours; off
"#;

#[test]
fn without_classes_a_hash_chooses_the_queue() {
    let Some(lab) = lab() else { return };
    let plain = packets(lab.text("hash-mq"));
    eprintln!("16 flows of priority 3 by queue without classes: {plain:?}");
    assert!(plain.len() > 1 && plain.iter().map(|(_, packets)| packets).sum::<u64>() == 16, "{plain:?}");
    assert_eq!(packets(lab.text("hash-ours")), [(1, 16)]);
}

const BRIDGE: &str = r#"
begins 'a priority over a bridge'
cat > tagged.py <<'EOF'
import socket, time
out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
out.bind(("wb", 0x8100))
for _ in range(20):
    out.send(bytes.fromhex("020000000021" "020000000011" "8100" "6008" "88b5") + bytes(60))
    time.sleep(0.0001)
EOF
ip link add br0 type bridge vlan_filtering 1 vlan_default_pvid 0 mcast_snooping 0
for i in wa va; do ip link set $i master br0; bridge vlan add dev $i vid 8; done
ip link set br0 up
tc qdisc replace dev va root handle 100: mqprio $MAP hw 0
python3 tagged.py; sleep 0.01; tc -s -j qdisc show dev va > bridge-plain
ip link del br0; fresh; apply strict-bridge sw
python3 tagged.py; sleep 0.01; tc -s -j qdisc show dev va > bridge-ours
off
"#;

#[test]
fn a_bridge_forgets_the_priority_without_filters() {
    let Some(lab) = lab() else { return };
    // The class of priority 0, and that of priority 3.
    assert_eq!(packets(lab.text("bridge-plain")), [(4, 20)]);
    assert_eq!(packets(lab.text("bridge-ours")), [(1, 20)]);
}

const VLAN: &str = r#"
begins 'a VLAN of others'
cat > listen.py <<'EOF'
import socket
into = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0xB62C))
into.bind(("vb", 0xB62C))
into.setsockopt(263, 8, 1)  # SOL_PACKET, PACKET_AUXDATA
into.settimeout(1.5)
seen, tags = 0, 0
while True:
    try:
        _, more, _, _ = into.recvmsg(2000, 200)
    except TimeoutError:
        break
    seen += 1
    # TP_STATUS_VLAN_VALID in tp_status.
    tags += any(kind == 8 and data[0] & 0x10 for _, kind, data in more)
print(seen, tags)
EOF
cat > foreign.py <<'EOF'
import socket
every = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
every.bind(("va", 3))
every.settimeout(1.5)
copied = 0
while True:
    try:
        data, (_, _, kind, _, _) = every.recvfrom(2000)
    except TimeoutError:
        break
    if kind == 4 and data[12:18] == bytes.fromhex("81006008b62c"):  # PACKET_OUTGOING, VID 8
        every.send(data[:14] + bytes.fromhex("6007") + data[16:])
        copied += 1
print(copied)
EOF
python3 listen.py > vlan-listened & listens=$!
python3 foreign.py > vlan-copied & copies=$!
ways='--wait sleep --no-realtime --no-control'
./downbeat subscribe one-way.toml --host loop --duration 400ms $ways --out sub > sub-told 2>&1 & reads=$!
./downbeat publish one-way.toml --host pub --duration 300ms $ways --out pub > pub-told 2>&1
echo $? > pub-code; wait $reads; echo $? > sub-code; wait $listens; wait $copies
cp sub/run.json vlan-sub; cp pub/run.json vlan-pub
"#;

#[test]
fn a_socket_for_one_type_takes_every_vlan() {
    let Some(lab) = lab() else { return };
    let told = ["pub-told", "sub-told", "pub-code", "sub-code"].map(|name| lab.text(name));
    let [publisher, reader] =
        ["vlan-pub", "vlan-sub"].map(|name| serde_json::from_str::<Value>(lab.text(name)).expect("run.json"));
    let copied: u64 = lab.text("vlan-copied").trim().parse().unwrap();
    let listened: Vec<u64> = lab.text("vlan-listened").split_whitespace().map(|word| word.parse().unwrap()).collect();
    assert!(copied > 250, "{copied} frames of another VLAN: {told:?}");
    // Those of VID 7 as well, and no tag with any.
    assert_eq!(listened, [2 * copied, 0], "{told:?}");
    let stream = &reader["streams"][0];
    let (read, wrong) = (&stream["arrived"], &stream["counters"]["wrong_tag"]);
    assert_eq!(publisher["streams"][0]["frames"].as_u64(), Some(copied), "{told:?}");
    assert_eq!((read.as_u64(), wrong.as_u64()), (Some(copied), Some(copied)), "{stream:#}");
}

const SPEED: &str = r#"
begins 'the rate of a port'
line=$(./downbeat render shaped.toml --host pub --form tc 2>/dev/null | grep '^qdisc replace')
for speed in 1000 10000 -1; do
    echo $speed > /sys/module/veth/parameters/speed
    fresh; tc $line; probe 3:356:20:0:0 > speed-$speed
    fresh; ./downbeat apply shaped.toml --host pub > speed-$speed-applied 2> speed-$speed-told || echo "WRONG: speed $speed"
    off
done
echo 10000 > /sys/module/veth/parameters/speed
fresh; apply shaped-stock pub; probe 3:356:20:0:0 > speed-ours; off
echo 1000 > /sys/module/veth/parameters/speed
"#;

#[test]
fn credit_is_charged_at_the_speed_that_the_interface_tells() {
    let Some(lab) = lab() else { return };
    let gap = |name: &str| {
        let all = lab.arrivals(name);
        assert_eq!(all.len(), 20, "{name}");
        // The first had credit.
        (all[19].at - all[1].at) / 18
    };
    let [right, fast, slow, ours] = ["speed-1000", "speed-10000", "speed--1", "speed-ours"].map(gap);
    eprintln!(
        "356 B at 100 Mbit/s: every {right} ns; {fast} where 10 Gbit/s is told, {slow} where nothing is; ours {ours}"
    );
    // 356 B at 100 Mbit/s are 28.48 µs.
    for gap in [right, ours] {
        assert!((28_000..29_000).contains(&gap), "{gap}");
    }
    // Linux takes it for 10 Mbit/s then, and a frame for 285 µs.
    assert!(fast < right / 8 && slow > right * 8, "{fast}, {right}, {slow}");
    assert!(!lab.text("speed-1000-told").contains("speed-differs"));
    let told = lab.text("speed-10000-told");
    assert!(told.contains("speed-differs") && told.contains("tells 10Gbit/s"), "{told}");
    let told = lab.text("speed--1-told");
    assert!(told.contains("speed-differs") && told.contains("tells no speed"), "{told}");
    assert!(checked(&shaped("veth")).says("port-rate"));
}

const DELTA: &str = r#"
begins 'another delta'
tc qdisc replace dev va root handle 100: etf clockid CLOCK_TAI delta 200000
tc qdisc replace dev va root handle 100: etf clockid CLOCK_TAI delta 100000 > delta-refused 2>&1 && echo "WRONG: taken"
fresh; apply etf pub; apply etf-other pub; tc -j qdisc show dev va root > delta-ours; off
"#;

#[test]
fn another_delta_needs_another_queue() {
    let Some(lab) = lab() else { return };
    let refused = lab.text("delta-refused");
    assert!(refused.contains("Change operation not supported"), "{refused}");
    let ours: Value = serde_json::from_str(lab.text("delta-ours")).unwrap();
    assert_eq!(ours[0]["options"]["delta"], 100_000, "{ours}");
}

const REFUSED: &str = r#"
begins 'what Linux refuses'
refused() { # name, then the command
    name=$1; shift
    tc qdisc replace dev va root handle 100: taprio "$@" > refused-$name 2>&1 && echo "WRONG: $name is taken"
}
refused short $MAP base-time 0 sched-entry S 01 400 sched-entry S 0e 249600 clockid CLOCK_TAI
refused flags $MAP base-time 0 $SCH flags 0x3 clockid CLOCK_TAI
refused clock $MAP base-time 0 $SCH
refused classes num_tc 5 map 4 4 1 0 4 4 3 2 4 4 4 4 4 4 4 4 queues 1@0 1@1 1@2 1@3 1@4 base-time 0 sched-entry S 1f 250000 \
    clockid CLOCK_TAI
echo -1 > /sys/module/veth/parameters/speed
fresh; refused speed $MAP base-time 0 sched-entry S 01 40000 sched-entry S 0e 210000 clockid CLOCK_TAI
echo 1000 > /sys/module/veth/parameters/speed
"#;

#[test]
fn what_linux_refuses_is_told_before() {
    let Some(lab) = lab() else { return };
    for (name, word) in [
        ("short", "Invalid interval"),
        ("flags", "exclusive"),
        ("clock", "'clockid' is mandatory"),
        ("classes", "Error"),
        ("speed", "Invalid interval"),
    ] {
        let said = lab.text(&format!("refused-{name}"));
        assert!(said.contains(word), "{name}: {said}");
    }
    let short = checked(&gates("400ns", "249600ns"));
    assert!(short.refused() && short.says("interval-too-short"), "{short:?}");
    let five = gates("50us", "200us").replace("classes = 4", "classes = 5").replace("\"lab\"", "\"igb\"");
    let five = checked(&five.replace("gates = [0, 1, 2]", "gates = [0, 1, 2, 4]"));
    assert!(five.refused() && five.says("more-classes-than-queues"), "{five:?}");
    // A schedule has a clock or is the NIC's, never both. Where nothing tells a speed, `apply` says `speed-differs`.
    for (mode, software) in [("software", true), ("full-offload", false)] {
        let text = gates("50us", "200us").replace("schedule =", &format!("mode = \"{mode}\", schedule ="));
        let all = rendered(&text);
        let line = all.lines().find(|line| line.contains(" taprio ")).expect("a schedule");
        assert_eq!((line.contains("clockid CLOCK_TAI"), line.contains("flags 0x2")), (software, !software), "{line}");
        assert!(!line.contains("0x3"), "{line}");
    }
}
