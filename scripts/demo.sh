#!/usr/bin/env bash
# Two scenarios, each checked, bounded, simulated and run for real on this machine, on one page: runs/demo/report.html.
# 'make demo' calls it. DURATION (10s) is how long each real run takes, CYCLES (20000) how many the simulation counts.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
cd "$root"

duration=${DURATION:-10s}
cycles=${CYCLES:-20000}
out=runs/demo

step "Building"
show cargo build --release
target=$(cargo metadata --format-version 1 --no-deps | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')
downbeat=$target/release/downbeat
downbeat=${downbeat#"$root/"}

# Network namespaces and real-time priority are root's; nothing else here is.
as_root=()
may_run=yes
if [ "$(id -u)" -ne 0 ]; then
    if have sudo; then as_root=(sudo); else may_run=no; fi
fi

results=() notes=()

# A requirement that is not met (exit code 1) is a result, not a failure of the demo. Other codes are.
answer() {
    local what=$1 code=0
    shift
    show "$@" || code=$?
    case $code in
    0) ;;
    1) notes+=("$what: the requirement is not met; the report says where and why.") ;;
    3) notes+=("$what: this host cannot, see above for what is missing.") ;;
    *)
        say "$what failed with exit code $code."
        exit "$code"
        ;;
    esac
    return $((code == 3 ? 3 : 0))
}

mkdir -p $out
for name in two-hosts bridged; do
    file=$out/$name.toml
    rm -rf "$out/$name-simulated" "$out/$name-measured"
    step "$name: the scenario"
    say "\$ $downbeat init $name > $file"
    "$downbeat" init $name >$file
    answer "check of $name" "$downbeat" check $file || true
    step "$name: the bound"
    answer "bound of $name" "$downbeat" bound $file || true
    step "$name: the simulation"
    answer "simulation of $name" "$downbeat" simulate $file --cycles "$cycles" --out "$out/$name-simulated" &&
        results+=("$out/$name-simulated")
    step "$name: the run"
    if [ $may_run = no ]; then
        notes+=("run of $name: left out, it needs root and there is no sudo: become root and type 'make demo' again.")
    elif answer "run of $name" "${as_root[@]}" "$downbeat" run $file --duration "$duration" --out "$out/$name-measured"; then
        results+=("$out/$name-measured")
    fi
    # What root wrote belongs to whoever asked.
    if [ ${#as_root[@]} -gt 0 ] && [ -e "$out/$name-measured" ]; then
        show sudo chown -R "$(id -u):$(id -g)" "$out/$name-measured"
    fi
done

step "The report"
answer "report" "$downbeat" report "${results[@]}" --out $out/report.html || true

echo
[ ${#notes[@]} -eq 0 ] || printf '%s\n' "${notes[@]}"
echo "Open $root/$out/report.html in a browser (file://$root/$out/report.html)."
