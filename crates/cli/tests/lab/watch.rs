//! `downbeat apply --watch` on the real kernel of the kernel laboratory: whatever stops a schedule there, frames come in their
//! windows again. Where the laboratory is not built the tests are left out in words, and fail where all are required.

use crate::common::lab::{QUEUES, arrivals, bridge, holds, lab, station, with_phases};
use serde_json::Value;

/// What stops a software schedule on Linux, each with what the watch says of it. A child of tc 0, for which the plan has none,
/// so that nothing else differs from the plan.
const KILLERS: [(&str, &str, &str); 7] = [
    ("child", "tc qdisc replace dev va parent 100:1 handle 9: pfifo limit 900", "the child 100:1 was"),
    ("link", "ip link set va down; sleep 0.05; ip link set va up; sleep 0.05", "the link was down and is there again"),
    ("peer", "ip link set vb down; sleep 2; ip link set vb up; sleep 1.1", "the link was down and is there again"),
    ("clsact", "tc qdisc add dev va clsact", "clsact was added"),
    ("clsact-gone", "tc qdisc del dev va clsact", "clsact was removed"),
    ("ingress", "tc qdisc add dev va ingress", "ingress was added"),
    // Issued, and a child put under it before the first cycle: it never starts, and all gates stand open.
    ("never", "tc -batch never", "the child 100:1 was"),
];

/// Before an event: the plan applied, and what the event removes put there.
const SCRIPT: &str = r#"
./downbeat render taprio.toml --host pub --form tc | grep 'root handle' | head -1 > never
echo 'qdisc replace dev va parent 100:1 handle 9: pfifo limit 900' >> never
start() {
    fresh
    [ "$1" = clsact-gone ] && tc qdisc add dev va clsact
}
event() { # name, commands
    start $1
    ./downbeat apply taprio.toml --host pub > first || { echo "WRONG: applying before $1"; cat first; }
    python3 phases.py > $1-applied; eval "$2"
    python3 phases.py > $1-alone
    ./downbeat restore > /dev/null
    start $1
    ./downbeat apply taprio.toml --host pub --watch --json > $1-log & watch=$!
    sleep 0.02 # programs take none of this kernel's time
    python3 phases.py 200 > $1-during & phases=$!
    sleep 0.05; eval "$2"; sleep 0.1; wait $phases
    python3 phases.py > $1-watched
    kill $watch; wait $watch || echo "WRONG: the watch of $1 ended with $?"
    ./downbeat apply taprio.toml --host pub --dry-run > dry; grep -q 'is as planned' dry || { echo "WRONG: after $1"; cat dry; }
    ./downbeat restore > /dev/null
}
"#;

/// The lines of a log.
fn log(ended: &kernel_lab::Ended, name: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(ended.folder().join(name)).expect("the log is there");
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))).collect()
}

#[test]
fn whatever_stops_a_schedule_it_is_issued_again() {
    let mut script = SCRIPT.to_owned();
    for (name, commands, _) in KILLERS {
        script.push_str(&format!("event {name} '{commands}'\n"));
    }
    let files = [("taprio", station("taprio", QUEUES[4].1))];
    let Some(ended) = lab("whatever stops a schedule", &with_phases(&script), &files) else { return };
    holds(&ended, &[]);
    for (name, _, cause) in KILLERS {
        assert_eq!(arrivals(&ended, &format!("{name}-applied")), (100, 100), "{name}");
        let (arrived, inside) = arrivals(&ended, &format!("{name}-alone"));
        eprintln!("{name}: alone {arrived} of 100 arrived, {inside} in the window");
        assert!(inside < 80, "{name}: {inside} of {arrived} in the window without a watch: nothing stopped it");
        let (arrived, inside) = arrivals(&ended, &format!("{name}-watched"));
        assert!(arrived >= 100 && inside == arrived, "{name}: {inside} of {arrived} with a watch");
        // One frame is sent in four cycles: at most three leave at a wrong phase, which are twelve cycles.
        let (arrived, inside) = arrivals(&ended, &format!("{name}-during"));
        eprintln!("{name}: watched, {} of {arrived} not in the window during the event", arrived - inside);
        assert!(arrived - inside <= 3 && inside > 40, "{name}: {inside} of {arrived} during the event");
        let log = log(&ended, &format!("{name}-log"));
        let first = log.first().map(|line| line["what"].clone());
        assert_eq!((first, log.last().map(|line| line["what"].clone())), (Some("begins".into()), Some("ended".into())));
        let issued: Vec<&Value> = log.iter().filter(|line| line["what"] == "issued-again").collect();
        let told = |line: &&&Value| line["cause"].as_str().is_some_and(|told| told.contains(cause));
        assert!(issued.iter().any(|line| told(&line)), "{name}: {cause:?} is not in {log:#?}");
        assert!(issued.iter().all(|line| line["device"] == "va" && line["at_ns"].as_i64().is_some()), "{log:#?}");
        // It stands on no foot of its own: an event is answered once or twice, not for ever.
        assert!(issued.len() <= 3, "{name}: {log:#?}");
    }
}

#[test]
fn what_differs_from_the_plan_is_mended_or_told() {
    let files = [("taprio", station("taprio", QUEUES[4].1)), ("bridge", bridge())];
    let script = r#"
# name, plan, host, what to do, what happens
changed() {
    fresh; snapshot > before
    ./downbeat apply $2.toml --host $3 --watch --on-change $4 > $1-log 2>&1 & watch=$!
    sleep 0.02; tc qdisc show dev va | grep -v ' 0: ' > planned
    eval "$5" || echo "WRONG: $1: $5"
    sleep 0.2
    python3 phases.py > $1-phases
    tc qdisc show dev va | grep -v ' 0: ' > now
    if [ $4 = mend ]; then
        cmp -s planned now || { echo "WRONG: $1 is not mended"; diff planned now; cat $1-log; }
    else
        cmp -s planned now && echo "WRONG: $1 is mended"
    fi
    kill $watch; wait $watch || echo "WRONG: $1 ended with $?"
    ./downbeat restore > restored || { echo "WRONG: restore after $1"; cat restored; }
    [ $4 = mend ] && same $1
    echo "== $1"; cat $1-log
}
changed root taprio pub mend 'tc qdisc del dev va root'
changed other-root taprio pub mend 'tc qdisc replace dev va root handle 100: htb || { tc qdisc del dev va root; tc qdisc add dev va root handle 100: htb; }'
changed child taprio pub mend 'tc qdisc replace dev va parent 100:3 handle 77: pfifo limit 50'
changed clsact bridge sw mend 'tc qdisc del dev va clsact'
changed filter bridge sw mend 'tc filter del dev va ingress pref 4'
changed vlan bridge sw mend 'bridge vlan del dev va vid 8'
changed gates taprio pub mend 'tc qdisc change dev va root handle 100: taprio base-time 0 sched-entry S 0f 250000 clockid CLOCK_TAI'
changed told taprio pub tell 'tc qdisc replace dev va parent 100:3 handle 77: pfifo limit 50'
changed told-root taprio pub tell 'tc qdisc del dev va root; tc qdisc add dev va clsact'
"#;
    let Some(ended) = lab("what differs", &with_phases(script), &files) else { return };
    holds(&ended, &["the root taprio was removed; mended within", "is pfifo, planned cbs", "NOT as planned"]);
    for name in ["root", "other-root", "child", "clsact", "filter", "vlan", "gates", "told"] {
        let (arrived, inside) = arrivals(&ended, &format!("{name}-phases"));
        assert!(arrived >= 100 && inside == arrived, "{name}: {inside} of {arrived}\n{}", ended.stdout);
    }
    // Told only: nobody has put the schedule back.
    let (_, inside) = arrivals(&ended, "told-root-phases");
    assert!(inside < 80, "{inside}");
}

#[test]
fn a_watch_ends_as_told_and_excludes_another() {
    let files = [("taprio", station("taprio", QUEUES[4].1))];
    let script = r#"
fresh; snapshot > before
for signal in INT TERM; do
    ./downbeat apply taprio.toml --host pub --watch --restore-on-exit > log & watch=$!
    sleep 0.02
    for other in 'apply taprio.toml --host pub' 'apply taprio.toml --host pub --watch' restore; do
        ./downbeat $other > second 2>&1; code=$?
        [ $code = 3 ] || echo "WRONG: $other beside a watch ended with $code"
        grep -q "process $watch that keeps a plan true" second || { echo "WRONG: $other says"; cat second; }
    done
    ./downbeat apply taprio.toml --host pub --dry-run > /dev/null || echo "WRONG: nobody may look"
    kill -$signal $watch; wait $watch || echo "WRONG: $signal: $?"
    same "after $signal"
    grep -q 'the machine is as before' log || { echo "WRONG: the log"; cat log; }
done
# It is gone, and comes back: applied again.
./downbeat apply taprio.toml --host pub --watch > log & watch=$!
sleep 0.02; ip link del va; sleep 0.1
ip link add va numtxqueues 4 numrxqueues 4 type veth peer name vb numtxqueues 4 numrxqueues 4
ip link set va up; ip link set vb up; sleep 1.2
python3 phases.py > phases
kill -9 $watch; wait $watch
cat log
./downbeat restore > restored || { echo "WRONG: restore after a kill"; cat restored; }
tc qdisc show dev va root | grep taprio && echo "WRONG: after a kill"
# Without rights, and with a plan that the machine refuses.
setpriv --reuid 65534 --clear-groups ./downbeat apply taprio.toml --host pub --watch; [ $? = 3 ] || echo "WRONG: nobody may watch"
tc qdisc add dev va root handle 1: htb
./downbeat apply taprio.toml --host pub --watch; [ $? = 3 ] || echo "WRONG: a foreign root is watched"
"#;
    let Some(ended) = lab("a watch ends", &with_phases(script), &files) else { return };
    holds(
        &ended,
        &["the interface went away", "the interface is there again", "mended", "run as root", "nothing was changed"],
    );
    let (arrived, inside) = arrivals(&ended, "phases");
    assert!(arrived == 100 && inside == 100, "{inside} of {arrived}");
}
