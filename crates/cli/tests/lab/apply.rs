//! `downbeat apply` and `restore` on the real kernel of the kernel laboratory. Where that is not built the tests are left out
//! in words, and fail where all are required.

use crate::common::lab::{QUEUES, arrivals, bridge, holds, lab, station, with_phases};

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
    let Some(ended) = lab("a stopped schedule", &with_phases(script), &[("bridge", bridge())]) else { return };
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
