//! `downbeat apply --watch --probe` on the real kernel of the kernel laboratory: a schedule that was stopped without a word is
//! found by when frames leave, and runs again; one that runs gives no alarm. Where the laboratory is not built the tests are
//! left out in words, and fail where all are required.

use crate::common::lab::{QUEUES, arrivals, holds, lab, station, with_phases};
use serde_json::Value;

/// Another number of queues cancels the timer of the schedule, and rtnetlink tells nothing of it: here of a fifth queue that
/// the plan does not use, so that nothing differs from the plan either.
const SCRIPT: &str = r#"
five() {
    fresh; ip link del va
    ip link add va numtxqueues 5 numrxqueues 5 type veth peer name vb numtxqueues 5 numrxqueues 5
    ip link set va up; ip link set vb up
}
silently() { # at an instant of the cycle
    sleep $1; ethtool -L va tx 4; ethtool -L va tx 5
}
"#;

fn log(ended: &kernel_lab::Ended, name: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(ended.folder().join(name)).expect("the log is there");
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))).collect()
}

#[test]
fn a_schedule_that_stopped_without_a_word_is_found_by_its_effect() {
    let mut script = SCRIPT.to_owned();
    script.push_str(
        r#"
for at in 0.01 0.01006 0.01015; do
    five
    # Without the probe nobody notices.
    ./downbeat apply taprio.toml --host pub --watch --json > $at-blind-log & watch=$!
    sleep 0.02; silently $at; sleep 0.2; python3 phases.py > $at-blind
    kill $watch; wait $watch || echo "WRONG: the watch ended with $?"
    ./downbeat restore > /dev/null; five
    ./downbeat apply taprio.toml --host pub --watch --probe 100ms --json > $at-log & watch=$!
    sleep 0.02; silently $at; sleep 1; python3 phases.py > $at-probed
    kill $watch; wait $watch || echo "WRONG: the watch ended with $?"
    ./downbeat restore > /dev/null
done
"#,
    );
    let files = [("taprio", station("taprio", QUEUES[4].1))];
    let Some(ended) = lab("stopped without a word", &with_phases(&script), &files) else { return };
    holds(&ended, &[]);
    for at in ["0.01", "0.01006", "0.01015"] {
        let (arrived, inside) = arrivals(&ended, &format!("{at}-blind"));
        eprintln!("{at}: without a probe {inside} of {arrived} in the window");
        assert!(inside < 80, "{at}: nothing stopped it");
        let blind = log(&ended, &format!("{at}-blind-log"));
        assert!(blind.iter().all(|line| line["what"] != "issued-again"), "{at}: it was told: {blind:#?}");
        let (arrived, inside) = arrivals(&ended, &format!("{at}-probed"));
        assert!(arrived >= 100 && inside == arrived, "{at}: {inside} of {arrived} with the probe");
        let log = log(&ended, &format!("{at}-log"));
        let issued: Vec<&Value> = log.iter().filter(|line| line["what"] == "issued-again").collect();
        let [issued] = issued[..] else { panic!("{at}: {log:#?}") };
        let cause = issued["cause"].as_str().unwrap_or_default();
        eprintln!("{at}: {cause}");
        assert!(cause.starts_with("effect: ") && issued["device"] == "va", "{at}: {issued}");
        assert!(issued["lines"][0].as_str().is_some_and(|line| line.contains("taprio")), "{at}: {issued}");
    }
}

#[test]
fn a_schedule_that_never_begins_is_found_by_its_effect() {
    // Without children, so that somebody who issues it anew leaves all as planned.
    let plain = station("plain", &QUEUES[4].1.replace("{ cbs = { idle_slope = \"100Mbit/s\" } }", "{}"));
    let script = r#"
./downbeat render plain.toml --host pub --form tc | grep 'root handle' > issue
five
./downbeat apply plain.toml --host pub --watch --probe 100ms --json > never-log & watch=$!
sleep 0.05
# Programs take none of this kernel's time: its timer is cancelled before the first cycle, and all gates stand open.
tc qdisc del dev va root; tc -batch issue; silently 0
python3 phases.py 50 > never-before; sleep 1; python3 phases.py > never-after
kill $watch; wait $watch || echo "WRONG: the watch ended with $?"
./downbeat restore > /dev/null
"#;
    let script = with_phases(&format!("{SCRIPT}{script}"));
    let Some(ended) = lab("never begins", &script, &[("plain", plain)]) else { return };
    holds(&ended, &[]);
    let (arrived, inside) = arrivals(&ended, "never-before");
    assert!(arrived == 50 && inside < 40, "{inside} of {arrived}: it began");
    assert_eq!(arrivals(&ended, "never-after"), (100, 100));
    let log = log(&ended, "never-log");
    let effects = log.iter().filter_map(|line| line["cause"].as_str()).filter(|cause| cause.starts_with("effect: "));
    let effects: Vec<&str> = effects.collect();
    eprintln!("{effects:?}");
    assert!(effects.len() == 1 && effects[0].contains("left outside its windows"), "{log:#?}");
}

#[test]
fn a_schedule_that_runs_gives_no_alarm() {
    let files = [("taprio", station("taprio", QUEUES[4].1)), ("bridge", crate::common::lab::bridge())];
    let script = r#"
quiet() { # plan, host
    fresh
    ./downbeat apply $1.toml --host $2 --watch --every 0 --probe 10ms --json > $1-log & watch=$!
    # 1200 cycles; how often frames are sent is counted where they leave.
    sleep 0.1; before=$(cat /sys/class/net/va/statistics/tx_packets)
    sleep 0.3; after=$(cat /sys/class/net/va/statistics/tx_packets)
    echo "$1: $((after - before)) probes"
    # Beside frames of others.
    python3 phases.py > $1-phases
    kill $watch; wait $watch || echo "WRONG: the watch ended with $?"
    ./downbeat restore > /dev/null
}
quiet taprio pub; quiet bridge sw
"#;
    let Some(ended) = lab("no alarm", &with_phases(script), &files) else { return };
    holds(&ended, &[]);
    for name in ["taprio", "bridge"] {
        let told =
            ended.stdout.lines().find_map(|line| line.strip_prefix(&format!("{name}: "))?.strip_suffix(" probes"));
        let probes: usize = told.and_then(|count| count.parse().ok()).expect("probes are counted");
        eprintln!("{name}: {probes} probes in 1200 cycles");
        assert!(probes > 100, "{name}: {probes}");
        let whats: Vec<Value> = log(&ended, &format!("{name}-log")).iter().map(|line| line["what"].clone()).collect();
        assert_eq!(whats, ["begins", "ended"], "{name}");
        let (arrived, inside) = arrivals(&ended, &format!("{name}-phases"));
        assert_eq!((arrived, inside), (100, 100), "{name}");
    }
}

#[test]
fn where_nothing_can_be_seen_it_is_told() {
    let later = station("later", QUEUES[4].1).replace("offset =", "base_time = \"2000000000s\", offset =");
    let files =
        [("mqprio", station("mqprio", QUEUES[3].1)), ("later", later), ("taprio", station("taprio", QUEUES[4].1))];
    let script = r#"
probed() { # plan, what happens
    fresh
    ./downbeat apply $1.toml --host pub --watch --probe 50ms > $1-log & watch=$!
    sleep 0.5; eval "$2"; sleep 1
    kill $watch; wait $watch || echo "WRONG: the watch of $1 ended with $?"
    ./downbeat restore > /dev/null
    echo "== $1"; cat $1-log
}
# No schedule; one that lets all pass until its base-time in 2033.
probed mqprio true; probed later true
grep -q effect later-log mqprio-log && echo "WRONG: an alarm without a schedule that runs"
# A link that is down, and there again: heard, not seen.
probed taprio 'ip link set va down; sleep 0.5; ip link set va up; sleep 0.1'
grep -q effect taprio-log && echo "WRONG: what was heard is told as an effect"
"#;
    let Some(ended) = lab("nothing to be seen", script, &files) else { return };
    holds(&ended, &["the link was down and is there again; the schedule is issued again"]);
}
