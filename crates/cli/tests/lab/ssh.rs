//! `downbeat apply --all` in the kernel laboratory: two hosts, each with its own network, its own journal and a real sshd, and
//! all or none of them changed, whatever happens between. Where laboratory or sshd is missing the tests are left out in words,
//! and fail where all are required.

use crate::common::lab::{QUEUES, holds, lab, station};

/// A station `pub` and a bridge `sw`, with a schedule each.
fn cell() -> String {
    let queue = QUEUES[4].1.replace('\n', " ");
    format!(
        r#"
name = "cell"
time = {{ cycle = "250us", offset = "60us" }}
links = [{{ between = ["pub", "sw"] }}, {{ between = ["sw", "loop"] }}]
streams = [{{ name = "s", writer = "pub", reader = "loop", echo = true, variables = 3, vid = 8, pcp = 3 }}]
[hosts.pub]
interface = "pa"
machine = {{ kernel = "6.12", driver = "lab" }}
[hosts.loop]
ssh = "none"
[hosts.sw]
kind = "bridge"
machine = {{ kernel = "6.12", driver = "lab" }}
[[ports]]
at = "pub"
queue = {queue}
[[ports]]
at = "sw"
towards = "pub"
interface = "wa"
[[ports]]
at = "sw"
towards = "loop"
interface = "va"
queue = {queue}
"#
    )
}

/// Two hosts behind a real sshd each, reached over a network of their own. `slow` makes changes of a host take time, so that
/// the other one waits with its plan applied.
const HOSTS: &str = r#"
mkdir -p /run/sshd
# An account that is not locked; nobody's password is needed.
printf 'root:*:19000:0:99999:7:::\n' > /tmp/state/shadow; mount --bind /tmp/state/shadow /etc/shadow
for key in mine theirs other; do ssh-keygen -q -t ed25519 -N '' -f /tmp/state/$key; done
host() { # name, number, interfaces
    ip netns add $1
    ip link add m$1 type veth peer name mgmt netns $1
    ip addr add 10.9.$2.1/24 dev m$1; ip link set m$1 up
    ip netns exec $1 ip addr add 10.9.$2.2/24 dev mgmt; ip netns exec $1 ip link set mgmt up; ip netns exec $1 ip link set lo up
    for i in $3; do
        ip netns exec $1 ip link add $i numtxqueues 4 numrxqueues 4 type veth peer name p$i numtxqueues 4 numrxqueues 4
        ip netns exec $1 ip link set $i up; ip netns exec $1 ip link set p$i up
    done
    cat > /tmp/state/sshd-$1 <<END
Port 22
HostKey /tmp/state/theirs
AuthorizedKeysFile /tmp/state/mine.pub
StrictModes no
UsePAM no
PidFile none
PermitRootLogin yes
END
    printf 'Host %s\nHostName 10.9.%s.2\n' $1 $2 >> /tmp/state/config
    mkdir -p /tmp/state/bin-$1
    ln -s $PWD/downbeat /tmp/state/bin-$1/downbeat
    ip netns exec $1 sh -c "mount -t tmpfs none /var/lib; mount --bind /tmp/state/bin-$1 /usr/local/bin; exec /usr/sbin/sshd -D -e -f /tmp/state/sshd-$1" 2> sshd-$1.log &
}
printf 'User root\nIdentityFile /tmp/state/mine\nIdentitiesOnly yes\nStrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nLogLevel ERROR\n' > /tmp/state/config
host pub 1 pa; host sw 2 'va wa'
sleep 0.2
cat > ssh <<'END'
#!/bin/sh
exec /usr/bin/ssh -F /tmp/state/config "$@"
END
chmod +x ssh; export DOWNBEAT_SSH=$PWD/ssh
snapshot() {
    for one in pub sw; do
        ip netns exec $one tc qdisc show | grep -v ' 0: ' | sed 's/ refcnt [0-9]*//; s/ direct_packets_stat [0-9]*//'
        ip netns exec $one ip -d link show | grep -v 'link/' | sed 's/^[0-9]*: //; s/@if[0-9]*//; s/ link-netns[^ ]* [^ ]*//'
        ip netns exec $one bridge vlan show
        for i in va wa; do ip netns exec $one tc filter show dev $i ingress 2>/dev/null; done
    done
    ls /tmp | grep -v -e ^lab$ -e ^state$
}
slow() {
    printf '#!/bin/sh\ncase " $* " in *" show "*|*" -V "*) ;; *) sleep 0.3;; esac\nexec /sbin/tc "$@"\n' > /tmp/state/bin-$1/tc; chmod +x /tmp/state/bin-$1/tc
}
all() { ./downbeat apply cell.toml --all "$@" > out 2> err; code=$?; }
says() { # code, words
    [ $code = $1 ] || { echo "WRONG: ended with $code, not $1: $2"; cat out err; }
    cat out err | grep -q "$2" || { echo "WRONG: does not say: $2"; cat out err; }
    grep -q panicked err && { echo "WRONG: fell"; cat err; }
}
applied() { ip netns exec $1 tc qdisc show dev $2 root; }
"#;

fn hosts(test: &str, script: &str) -> Option<kernel_lab::Ended> {
    if !std::path::Path::new("/usr/sbin/sshd").exists() {
        assert!(
            std::env::var_os("DOWNBEAT_REQUIRE_ALL").is_none(),
            "{test} needs sshd (apt-get install openssh-server)"
        );
        eprintln!("skipped: {test} needs sshd (apt-get install openssh-server)");
        return None;
    }
    let mqprio = station("mqprio", QUEUES[3].1).replace("\"va\"", "\"pa\"");
    let wrong = cell().replace("interface = \"wa\"", "interface = \"eth7\"");
    lab(test, &format!("{HOSTS}{script}"), &[("cell", cell()), ("mqprio", mqprio), ("wrong", wrong)])
}

#[test]
fn all_hosts_are_changed_and_set_back_from_one_place() {
    let script = r#"
snapshot > before
all --dry-run; says 0 '^sw: .* steps to do'; says 0 '^pub: .* tc qdisc replace dev pa root'; same "a dry run"
# What only a host knows is told here.
sed 's/\["pub", "sw"\] }/["pub", "sw"], rate = "100Mbit\/s" }/' cell.toml > speed.toml
./downbeat apply speed.toml --all --dry-run > out 2> err; code=$?; says 0 '^pub: .*speed-differs'
all; says 0 '^2 hosts are as planned'; grep -q '^sw: .*clsact' out || { echo "WRONG: what sw did"; cat out; }
applied pub pa | grep -q taprio || echo "WRONG: pub"; applied sw va | grep -q taprio || echo "WRONG: sw"
all; says 0 '^pub: as planned already'
all --dry-run; says 0 '^sw: as planned'
all --json; says 0 '"state": "applied"'; python3 -c 'import json; json.load(open("out"))' || echo "WRONG: no JSON"
all --restore; says 0 '^sw: undone: '; same "restore"
all --restore; says 0 '^pub: nothing to undo'
# Ours is sent where there is none, and gone afterwards.
rm /tmp/state/bin-sw/downbeat; strip -o small downbeat
./small apply cell.toml --all > out 2> err; code=$?; says 0 '^sw: .*by the downbeat sent there for it'
grep '^pub: .*sent there' out && echo "WRONG: sent where it was"
ls /tmp | grep -q '^tmp' && { echo "WRONG: something is left"; ls /tmp; }
./small apply cell.toml --all --restore > out 2> err; code=$?; says 0 '^sw: undone: '; same "restore by the sent one"
"#;
    let Some(ended) = hosts("all hosts", script) else { return };
    holds(&ended, &[]);
}

#[test]
fn if_one_host_fails_all_are_as_before() {
    let script = r#"
snapshot > before
# Before the first change: something of somebody else's, a host that is not there, a wrong key, a name.
ip netns exec sw tc qdisc add dev va root handle 1: htb; snapshot > with
all --dry-run; says 3 'could not be put back'
all; says 3 'htb 1: at the root of va'; says 3 'on no host anything stays changed'; snapshot > after; cmp with after || echo "DIFFERS: foreign"
ip netns exec sw tc qdisc del dev va root
all --ssh sw=root@10.9.2.9; says 3 '^  sw: '; same "no such machine"
all --ssh loop=root@10.9.2.9; says 3 '^  loop: '; same "not the way that the scenario says"
printf '#!/bin/sh\nexec /usr/bin/ssh -F /tmp/state/config -i /tmp/state/other -o IdentityFile=none "$@"\n' > bad; sed '/IdentityFile/d' /tmp/state/config > no; sed -i 's:/tmp/state/config:no:' bad; chmod +x bad
DOWNBEAT_SSH=./bad ./downbeat apply cell.toml --all > out 2> err; code=$?; says 3 'Permission denied'; same "a wrong key"
DOWNBEAT_SSH=./none ./downbeat apply cell.toml --all > out 2> err; code=$?; says 3 './none'
all --ssh switch=x; says 2 'the scenario has no host "switch"'
all --ssh sw; says 2 'expected HOST=DESTINATION'
# In the middle: pub has its plan, sw cannot have its own. What pub had is there again, an earlier plan too.
./downbeat apply wrong.toml --all > out 2> err; code=$?; says 3 'Cannot find device "eth7"'; same "sw fails"
ip netns exec pub sh -c 'mount -t tmpfs none /var/lib; true'
ssh() { ./ssh "$@"; }
ssh pub downbeat apply $PWD/mqprio.toml --host pub > first 2>&1 || { echo "WRONG: mqprio"; cat first; }
snapshot > with; grep -q mqprio with || echo "WRONG: mqprio is not there"
./downbeat apply wrong.toml --all > out 2> err; code=$?; says 3 'pub: as before'
snapshot > after; cmp with after || { echo "DIFFERS: the earlier plan"; diff with after; }
ssh pub downbeat restore > restored || { echo "WRONG: the journal of the earlier plan"; cat restored; }
same "the earlier plan is undone"
# A host where somebody else is at work.
ssh sw downbeat apply $PWD/cell.toml --host sw --watch > watch 2>&1 & sleep 0.5
all; says 3 'keeps a plan true'
applied pub pa | grep taprio && echo "WRONG: pub kept its plan"
ip netns pids sw | while read pid; do grep -aq -e --watch /proc/$pid/cmdline && grep -q downbeat /proc/$pid/comm && kill $pid; done; wait $!
all --restore; says 0 '^sw: undone'; same "after the watch"
"#;
    let Some(ended) = hosts("one host fails", script) else { return };
    holds(&ended, &[]);
}

#[test]
fn whoever_is_cut_off_goes_back() {
    let script = r#"
snapshot > before; slow sw
begin() { ./downbeat apply cell.toml --all > out 2> err & asked=$!; sleep 2; applied pub pa | grep -q taprio || { echo "WRONG: pub does not hold its plan yet: $1"; cat out err; }; }
# Ctrl-C while the other one is still at it.
begin interrupt; kill -INT $asked; wait $asked; code=$?; says 3 'interrupted; on no host anything stays changed'; same "interrupted"
begin term; kill -TERM $asked; wait $asked; code=$?; says 3 'pub: as before, '; same "terminated"
# Whoever asked is gone.
begin killed; kill -9 $asked; wait $asked; sleep 15; same "killed"
# The network is gone, as a plan may have it: each end for itself, after twenty seconds.
begin cut; ip link set msw down; wait $asked; code=$?; says 3 'not every host has said that it is as before'
applied pub pa | grep taprio && echo "WRONG: pub has not gone back"
sleep 60; ip link set msw up; sleep 1; same "cut off"
rm /tmp/state/bin-sw/tc; all; says 0 '^2 hosts are as planned'; all --restore; same "at last"
"#;
    let Some(ended) = hosts("cut off", script) else { return };
    holds(&ended, &[]);
}
