#!/usr/bin/env bash
# Tries the set-up where nothing is installed: a Debian root made by debootstrap, this tree as it lies here, then the two
# lines a new user types.  As root:  scripts/try-bare-root.sh [demo|test|…]
#
#   SUITE=bookworm   the Debian release
#   MIRROR=…         the Debian mirror; default: the one in this machine's apt configuration
#   KEEP=1           leave the root where it is, to look around in
#
# Mounts live in a mount namespace that ends with the trial, so nothing of this machine can be reached when the root is removed.
# http_proxy and https_proxy go through, and certificates in /usr/local/share/ca-certificates are taken along.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

target=${1:-demo}
suite=${SUITE:-bookworm}

[ "$(id -u)" -eq 0 ] || {
    say "debootstrap and chroot need root."
    exit 3
}
have debootstrap || {
    say "debootstrap is missing: apt-get install debootstrap"
    exit 3
}

# shellcheck disable=SC2016 # $(SITE) is apt's own
mirror=${MIRROR:-$(apt-get indextargets --format '$(SITE)' 'Origin: Debian' 2>/dev/null | grep -v security | sort -u | head -n 1 || true)}
[ -n "$mirror" ] || {
    say "No Debian mirror in this machine's apt configuration: name one, MIRROR=http://…/debian"
    exit 2
}
base=$(mktemp -d /var/tmp/downbeat-bare.XXXXXX)
bare=$base/root
# shellcheck disable=SC2317 # called by the trap
cleanup() {
    if [ -n "${KEEP:-}" ]; then
        say "Left in place: $bare"
    else
        rm -rf --one-file-system "$base"
    fi
}
trap cleanup EXIT

step "Debian $suite into $bare"
show debootstrap --variant=minbase "$suite" "$bare" "$mirror" >"$base/debootstrap.log" || {
    tail -n 20 "$base/debootstrap.log" >&2
    exit 3
}
# Newer compilers for old releases come by the security archive.
echo "deb ${mirror%/}-security $suite-security main" >>"$bare/etc/apt/sources.list"
mkdir -p "$bare/usr/local/share/ca-certificates"
cp -n /usr/local/share/ca-certificates/*.crt "$bare/usr/local/share/ca-certificates/" 2>/dev/null || true
cp -L /etc/resolv.conf /etc/hosts "$bare/etc/"

mkdir -p "$bare/srv/downbeat"
(cd "$root" && git ls-files -z --cached --others --exclude-standard | tar --create --null --files-from - --ignore-failed-read) |
    tar --extract --directory "$bare/srv/downbeat"

step "apt-get install make git; make $target"
# shellcheck disable=SC2016 # $1 is for the inner shell
inside='
    set -e
    # `ip netns` changes how the root is mounted, so the root must be a mount.
    mount --rbind "$1" "$1"
    mount -t proc proc "$1/proc"
    mount -t sysfs sysfs "$1/sys"
    mount --rbind /dev "$1/dev"
    mount -t tmpfs tmpfs "$1/run"
    cd /
    exec env -i HOME=/root TERM="${TERM:-dumb}" PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
        chroot "$1" bash -e -c "apt-get update -q && apt-get install -y -q make git && cd /srv/downbeat && make $2"
'
result=0
unshare --mount --propagation private bash -c "$inside" bash "$bare" "$target" || result=$?
step "make $target ended with $result"
exit "$result"
