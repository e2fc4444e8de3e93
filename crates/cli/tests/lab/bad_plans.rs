//! Plans that cannot be, and machines that cannot have them: each ends in words, before the first change or with everything
//! as before. On the real kernel of the kernel laboratory; where that is not built the tests are left out in words.
//!
//! | mistake | told by | test |
//! |---|---|---|
//! | intervals miss the cycle; no entry; a gate never opens; a window below a frame | the reader | `scenario/tests/mistakes.rs`: `gates` |
//! | 8 or 17 priorities, a class that is none, fewer classes than the map has | the reader | `scenario/tests/mistakes.rs`: `maps_and_classes` |
//! | slopes above the link, below the need, a share that is none | the reader | `scenario/tests/mistakes.rs`: `slopes` |
//! | no `delta`, or zero; no `txtime_delay` | the reader | `scenario/tests/mistakes.rs`: `launch_times`, `gates` |
//! | queues that overlap | cannot be written; what is rendered has none | `tsn/tests/properties.rs`: `queues_of_classes_are_apart_and_there` |
//! | an interval too short for Linux, a window below its burst, a launch at an edge, a short guard band | `check` | `tsn/tests/rules.rs`: `a_plan_that_breaks_a_rule_is_told_and_its_neighbour_is_not` |
//! | `delta` above `txtime_delay`, below the wake-up latency, above the lead | `check` | the same |
//! | more classes than the NIC has queues, an offload that the driver refuses, an unknown driver | `check` | the same |
//! | base-time in the past or to come | `check` | `tsn/tests/rules.rs`: `base_times_are_compared_with_the_clock` |
//! | a schedule that waits for its base-time is read back | `apply` | `lab/apply.rs`: `a_schedule_that_waits_is_as_planned` |
//! | a NIC unplugged in the middle, a foreign discipline in the way | `apply` | `lab/apply.rs`: `what_is_in_the_way_or_goes_away_is_told` |
//! | whatever step is refused, wherever it is killed | `apply` | `host/src/apply/tests.rs`; `lab/apply.rs`: `killed_at_any_change_it_is_undone` |
//! | what the kernel keeps otherwise | `apply` | `host/src/apply/tests.rs`: `what_the_kernel_keeps_otherwise_is_found_and_undone` |
//! | a NIC without queues or of another name; no permission; an old `tc`, or none | `apply` | here |
//! | a schedule that `check` calls wrong and Linux takes | `apply` says so on standard error | here |

use crate::common::lab::{QUEUES, holds, lab, station};

#[test]
fn a_machine_that_cannot_have_a_plan_says_why_and_is_as_before() {
    let taprio = station("taprio", QUEUES[4].1);
    let files = [
        ("taprio", taprio.clone()),
        ("mqprio", station("mqprio", QUEUES[3].1)),
        ("absent", taprio.replace("interface = \"va\"", "interface = \"eth7\"")),
        ("unknown", taprio.replace("driver = \"lab\"", "driver = \"igd\"")),
        // The longest window of class 3 holds no frame; Linux takes it.
        (
            "narrow",
            taprio
                .replace("gates = [3], interval = \"50us\"", "gates = [3], interval = \"600ns\"")
                .replace("\"55us\"", "\"104.4us\""),
        ),
    ];
    let script = r#"
told() { # code, words, then the command
    code=$1; words=$2; shift 2
    "$@" > out 2>&1; got=$?
    [ $got = $code ] || { echo "WRONG: $* ended with $got, not $code"; cat out; }
    grep -q "$words" out || { echo "WRONG: $* does not say: $words"; cat out; }
    [ $code = 0 ] || grep -qE 'mend: |help: ' out || { echo "WRONG: $* says no way out"; cat out; }
    grep -q panicked out && { echo "WRONG: $* fell"; cat out; }
}
ip link add va type veth peer name vb; ip link set va up; ip link set vb up
ip link add wa numtxqueues 4 numrxqueues 4 type veth peer name wb numtxqueues 4 numrxqueues 4
snapshot > before
told 3 'Multi-queue device is required' ./downbeat apply taprio.toml --host pub;         same "one queue"
told 3 'RTNETLINK answers: Operation not supported' ./downbeat apply mqprio.toml --host pub; same "one queue, mqprio"
told 3 'Cannot find device "eth7"' ./downbeat apply absent.toml --host pub;              same "no such interface"
told 2 'the scenario has no host' ./downbeat apply taprio.toml --host sub;               same "no such host"
told 2 'downbeat init' ./downbeat apply nothing.toml --host pub
fresh; snapshot > before
told 3 'Permission denied' setpriv --reuid 65534 --clear-groups ./downbeat apply taprio.toml --host pub; same "an ordinary user"
# A user who may write the journal, and not change the network.
told 3 'Operation not permitted' setpriv --bounding-set -net_admin --inh-caps -net_admin ./downbeat apply taprio.toml --host pub
same "without the right over the network"
grep -q 'mend: run as root' out || { echo "WRONG: the right is not what is asked for"; cat out; }
# Programs of long ago, or none at all.
mkdir old none
cat > old/tc <<'END'
#!/bin/sh
case "$1" in
-V) echo 'tc utility, iproute2-ss160111';;
-j) echo 'Option "-j" is unknown, try "tc -help".' >&2; exit 255;;
*) exec /sbin/tc "$@";;
esac
END
sed 's/^-j.*/-j) shift; exec \/sbin\/tc "$@";;/' old/tc > textual; chmod +x old/tc textual
told 3 'iproute2-ss160111 does not tell' env PATH=$PWD/old:$PATH ./downbeat apply taprio.toml --host pub; same "an old tc"
mkdir text; mv textual text/tc
told 3 'does not tell what is there as JSON' env PATH=$PWD/text:$PATH ./downbeat apply taprio.toml --host pub; same "a tc without JSON"
told 3 'tc is missing' env PATH=$PWD/none ./downbeat apply taprio.toml --host pub; same "no tc"
cat > old/tc <<'END'
#!/bin/sh
case " $* " in
*" replace "*taprio*) echo 'Unknown qdisc "taprio", hence option "num_tc" is unparsable' >&2; exit 1;;
*) exec /sbin/tc "$@";;
esac
END
told 3 'Unknown qdisc "taprio"' env PATH=$PWD/old:$PATH ./downbeat apply taprio.toml --host pub; same "a tc that knows no taprio"
# Taken, and told.
told 0 'unknown-driver' ./downbeat apply unknown.toml --host pub; ./downbeat restore > restored; same "an unknown driver"
told 0 'window-below-burst' ./downbeat apply narrow.toml --host pub; ./downbeat restore > restored; same "a narrow window"
# A scenario's reader has the last word on what no kernel would take.
sed 's/"100us" }\]/"90us" }]/' taprio.toml > sum.toml
told 2 'sum to 240us' ./downbeat apply sum.toml --host pub; same "intervals that miss the cycle"
"#;
    let Some(ended) = lab("a machine that cannot", script, &files) else { return };
    holds(&ended, &[]);
}
