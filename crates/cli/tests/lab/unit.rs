//! What a plan has of files and units, on the real kernel of the kernel laboratory: linuxptp's, and the unit of the watch. They
//! are put there, run, and go again, also after a boot. Where the laboratory is not built the tests are left out in words, and
//! fail where all are required.

use crate::common::lab::{QUEUES, arrivals, holds, lab, station, with_phases, with_systemd};

#[test]
fn the_unit_of_the_watch_keeps_a_plan_true_and_goes_with_it() {
    let files = [("taprio", station("taprio", QUEUES[4].1)), ("mqprio", station("mqprio", QUEUES[3].1))];
    let script = r#"
unit=downbeat-watch@pub.service
fresh; snapshot > before; files > files-before
./downbeat apply taprio.toml --host pub --unit --dry-run > dry || echo "WRONG: a dry run"
grep -q "^  + /etc/systemd/system/$unit" dry || { echo "WRONG: what a dry run tells"; cat dry; }
TEST_WATCHDOG_USEC=200000 ./downbeat apply taprio.toml --host pub --unit --probe 100ms > first || { echo "WRONG: apply"; cat first; }
grep -q "$unit keeps it so" first || { echo "WRONG: it does not say so"; cat first; }
cp /etc/systemd/system/$unit unit; cmp taprio.toml /var/lib/downbeat/pub.toml || echo "WRONG: the copy"
./downbeat apply taprio.toml --host pub --unit --probe 100ms --dry-run | grep -E '^  [+~!]' && echo "WRONG: something is to do"
# It lives, is told to be alive, and mends.
sleep 1; systemctl is-active $unit > /dev/null || { echo "WRONG: it does not run"; cat /tmp/state/$unit.log; }
echo "signs of life: $(grep -c WATCHDOG=1 /tmp/state/$unit.told)"
tc qdisc add dev va clsact; sleep 0.2; tc qdisc del dev va clsact; sleep 0.2; python3 phases.py > watched
grep -q 'clsact was added; the schedule is issued again' /tmp/state/$unit.log || { echo "WRONG: its log"; cat /tmp/state/$unit.log; }
# Another plan by hand is refused; with its unit it takes the place of this one, and the same again does as well.
./downbeat apply mqprio.toml --host pub > other 2>&1; [ $? = 3 ] || { echo "WRONG: not refused"; cat other; }
./downbeat apply mqprio.toml --host pub --unit > other || { echo "WRONG: another plan"; cat other; }
systemctl is-active $unit > /dev/null || { echo "WRONG: it does not run for the other"; cat /tmp/state/$unit.log; }
tc qdisc show dev va root | grep -q mqprio || echo "WRONG: another plan is not there"
./downbeat apply taprio.toml --host pub --unit --probe 100ms > again || { echo "WRONG: again"; cat again; }
# A boot: the unit applies the plan, and nothing of it twice.
reboot
systemctl start $unit || { echo "WRONG: after a boot"; cat /tmp/state/$unit.log; }
sleep 0.1; python3 phases.py > booted
cmp unit /etc/systemd/system/$unit || echo "WRONG: the unit was changed"
./downbeat restore > restored || { echo "WRONG: restore"; cat restored; }
grep -q "systemctl stop $unit" restored || { echo "WRONG: the watch is not ended"; cat restored; }
same "after the unit"; files > files-after; cmp files-before files-after || { echo "DIFFERS"; diff files-before files-after; }
# A boot between: nothing of the plan is there but files, and these go.
./downbeat apply taprio.toml --host pub --unit > first || { echo "WRONG: apply"; cat first; }
reboot; ./downbeat restore > restored || { echo "WRONG: restore after a boot"; cat restored; }
same "after a boot"; files > files-after; cmp files-before files-after || { echo "DIFFERS: files"; diff files-before files-after; }
# A watch that does not begin is told.
printf '#!/bin/sh\ncase "$1" in restart) echo "Job failed" >&2; exit 1;; esac\nexec %s/systemd/systemctl "$@"\n' $PWD > bad; mkdir worse; mv bad worse/systemctl; chmod +x worse/systemctl
PATH=$PWD/worse:$PATH ./downbeat apply taprio.toml --host pub --unit > out 2>&1; [ $? = 3 ] || echo "WRONG: a watch that does not begin"
cat out; ./downbeat restore > restored; same "after a watch that did not begin"
cat unit
"#;
    let Some(ended) = lab("the unit of the watch", &with_phases(&with_systemd(script)), &files) else { return };
    holds(&ended, &["its watch does not begin: `systemctl restart downbeat-watch@pub.service`: Job failed", "mend: "]);
    let signs = ended.stdout.lines().find_map(|line| line.strip_prefix("signs of life: ")?.parse::<u32>().ok());
    assert!(signs.is_some_and(|signs| signs >= 3), "{signs:?}");
    for name in ["watched", "booted"] {
        assert_eq!(arrivals(&ended, name), (100, 100), "{name}");
    }
}

#[test]
fn files_and_units_of_a_plan_run_and_go() {
    let clocks = station("clocks", QUEUES[4].1)
        .replace("interface = \"va\",", "interface = \"va\", clock = \"grandmaster\",")
        .replace(
            "loop = {}",
            "loop = { interface = \"wa\", clock = \"slave\", machine = { kernel = \"6.12\", driver = \"lab\" } }",
        )
        .replace("{ gates = [], interval = \"15us\" }", "{ gates = [0, 1], interval = \"15us\" }");
    let script = r#"
mine() { mkdir -p /etc/linuxptp; echo '# somebody else wrote this' > /etc/linuxptp/downbeat-ptp4l.conf; }
fresh; mine; snapshot > before; files > files-before
./downbeat render clocks.toml --host pub --out plan > /dev/null
for way in once boot edited; do
    ./downbeat apply clocks.toml --host pub > first || { echo "WRONG: apply"; cat first; }
    sleep 5
    # What is there is what was rendered, and runs: by its own log as a master, by pmc as a grandmaster that others may have.
    find plan -name '*ptp4l.conf' | grep -q . || echo "WRONG: no file was rendered"
    find plan -name 'downbeat-ptp4l.conf' -exec cmp {} /etc/linuxptp/downbeat-ptp4l.conf ';'
    systemctl is-active downbeat-ptp4l.service > /dev/null || { echo "WRONG: ptp4l does not run"; cat /tmp/state/downbeat-ptp4l.service.log; }
    grep -q 'assuming the grand master role' /tmp/state/downbeat-ptp4l.service.log || { echo "WRONG: its log"; cat /tmp/state/downbeat-ptp4l.service.log; }
    pmc -u -b 0 -d 0 -t 1 'GET DEFAULT_DATA_SET' > asked; grep -q 'priority1 *64' asked || { echo "WRONG: ptp4l has another file"; cat asked; }
    ./downbeat apply clocks.toml --host pub | grep -q 'as planned already' || echo "WRONG: twice"
    # A daemon that fell is found, and started.
    kill -9 $(cat /tmp/state/downbeat-ptp4l.service.pid); sleep 0.1
    ./downbeat apply clocks.toml --host pub > mended; grep -q 'enable --now downbeat-ptp4l' mended || { echo "WRONG: not started again"; cat mended; }
    running=$(cat /tmp/state/downbeat-ptp4l.service.pid)
    case $way in
    boot) reboot;;
    edited) echo '# and this' >> /etc/linuxptp/downbeat-ptp4l.conf;;
    esac
    ./downbeat restore > restored || { echo "WRONG: restore"; cat restored; }
    [ -d /proc/$running ] && grep -q '^State:[^Z]*$' /proc/$running/status && echo "WRONG: ptp4l runs on"
    same "$way"
    if [ $way = edited ]; then
        grep -q 'was changed since and is left as it is' restored || { echo "WRONG: not told"; cat restored; }
        grep -q '# and this' /etc/linuxptp/downbeat-ptp4l.conf || echo "WRONG: somebody's words are gone"
        mine
    fi
    files > files-after; cmp files-before files-after || { echo "DIFFERS: $way"; diff files-before files-after; }
done
# One that does not start has all undone.
cat > systemd/ptp <<'END'
#!/bin/sh
case "$*" in "enable --now"*) echo 'Failed to enable unit' >&2; exit 1;; esac
exec python3 systemd/systemctl.py "$@"
END
mv systemd/systemctl systemd/systemctl.py; mv systemd/ptp systemd/systemctl; chmod +x systemd/systemctl
./downbeat apply clocks.toml --host pub > out 2>&1; [ $? = 3 ] || echo "WRONG: a unit that does not start"
cat out; same "a unit that does not start"; files > files-after; cmp files-before files-after || { echo "DIFFERS"; diff files-before files-after; }
"#;
    let Some(ended) = lab("files and units", &with_systemd(script), &[("clocks", clocks)]) else { return };
    holds(&ended, &["Failed to enable unit", "everything is as before"]);
}
