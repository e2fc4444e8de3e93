//! The unit of the watch under a real systemd, which runs in namespaces of its own on a copy of this machine's files. Whether it
//! keeps schedules true is the laboratory's to show (`lab/unit.rs`); here it is started, watched, started again and ended.

mod common;

use std::path::Path;
use std::process::{Command, Stdio};

use common::{DOWNBEAT, can_run};

/// A station whose plan any kernel can have: settings of its interface.
const SCENARIO: &str = r#"
name = "unit"
time = { cycle = "1ms", offset = "200us" }
links = [{ between = ["pub", "loop"] }]
hosts = { pub = { interface = "va" }, loop = {} }
ports = [{ at = "pub", queue = { root = "fifo" } }]
streams = [{ name = "s", writer = "pub", reader = "loop", variables = 3, vid = 8, pcp = 3 }]
"#;

const SCRIPT: &str = r#"
unit=downbeat-watch@pub.service
wrong() { echo "WRONG: $*"; }
until_is() { # seconds, words, command: until it says the words
    local end=$((SECONDS + $1)) words=$2; shift 2
    until "$@" 2>&1 | grep -q "$words"; do
        [ $SECONDS -lt $end ] || { wrong "$* does not say $words"; "$@"; systemctl status --no-pager $unit; return; }
        sleep 0.1
    done
}
ip link add va type veth peer name vb; ip link set va up; ip link set vb up
settings() { ethtool -k va; tc qdisc show dev va; find /etc/systemd/system /var/lib -type f ! -name lock; }
settings > before; grep -q '^tcp-segmentation-offload: on' before || wrong "nothing is left for a plan to change"
./downbeat apply unit.toml --host pub --unit --every 2s || wrong apply
systemctl is-active $unit || wrong "it does not run"
systemctl is-enabled $unit || wrong "it is not enabled"
systemctl show -p Type -p WatchdogUSec -p NotifyAccess -p Restart $unit
until_is 0 "^tcp-segmentation-offload: off" ethtool -k va
./downbeat apply unit.toml --host pub --unit --every 2s --dry-run | grep -E '^  [+~!]' && wrong "something is to do"
# It mends what somebody else changes.
ethtool -K va tso on; until_is 20 "^tcp-segmentation-offload: off" ethtool -k va
# What kills it does not end it.
first=$(systemctl show -p MainPID --value $unit); kill -9 $first
until_is 30 "^1" systemctl show -p NRestarts --value $unit; until_is 30 "^active" systemctl is-active $unit
second=$(systemctl show -p MainPID --value $unit); [ "$first" = "$second" ] && wrong "it was not started again"
echo "started again: $(systemctl show -p NRestarts --value $unit)"
ethtool -K va tso on; until_is 20 "^tcp-segmentation-offload: off" ethtool -k va
# Nor does one that hangs: it has given no sign of life for WatchdogSec.
mkdir -p /etc/systemd/system/$unit.d; printf '[Service]\nWatchdogSec=2\n' > /etc/systemd/system/$unit.d/test.conf
systemctl daemon-reload; systemctl restart $unit || wrong "restart"
third=$(systemctl show -p MainPID --value $unit); sleep 5
[ "$third" = "$(systemctl show -p MainPID --value $unit)" ] || wrong "it was started again without a reason"
kill -STOP $third; until_is 40 "^[1-9]" systemctl show -p NRestarts --value $unit
rm -r /etc/systemd/system/$unit.d; systemctl daemon-reload; until_is 30 "^active" systemctl is-active $unit
# Another plan by hand is refused while it watches.
./downbeat apply unit.toml --host pub > refused 2>&1; [ $? = 3 ] || { wrong "not refused"; cat refused; }
./downbeat restore || wrong restore
systemctl is-active $unit && wrong "it still runs"
[ -e /etc/systemd/system/$unit ] && wrong "its file stays"
settings > after; cmp before after || { wrong "not as before"; diff before after; }
echo done
"#;

#[test]
fn systemd_starts_the_watch_and_starts_it_again() {
    const SYSTEMD: &str = "/lib/systemd/systemd";
    if !can_run("the unit under systemd") {
        return;
    }
    if !Path::new(SYSTEMD).exists() {
        assert!(std::env::var_os("DOWNBEAT_REQUIRE_ALL").is_none(), "it needs {SYSTEMD} (apt-get install systemd)");
        eprintln!("skipped: it needs {SYSTEMD} (apt-get install systemd)");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::copy(DOWNBEAT, at("downbeat")).unwrap();
    std::fs::write(at("unit.toml"), SCENARIO).unwrap();
    std::fs::write(at("script.sh"), SCRIPT).unwrap();
    std::fs::write(at("boot.sh"), include_str!("unit_systemd/boot.sh")).unwrap();
    let output = Command::new("timeout")
        .args(["240", "unshare", "--pid", "--mount", "--net", "--cgroup", "--uts", "--ipc", "--fork", "--kill-child"])
        .args(["bash", at("boot.sh").to_str().unwrap(), folder.path().to_str().unwrap()])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let told = std::fs::read_to_string(at("told")).unwrap_or_default();
    let all = format!("{told}\n{}", String::from_utf8_lossy(&output.stderr));
    println!("{told}");
    assert!(!all.contains("WRONG") && told.ends_with("done\n"), "{all}");
}
