#!/usr/bin/env bash
# Installs what is missing, and says so:  scripts/setup.sh demo | test | kernel-lab
#
#   demo   a C linker, certificates, ip and tc, iperf3, sysctl, ptp4l, Rust: to build and run a scenario
#   kernel-lab   what kernel-lab/build.sh needs: Linux 6.12 as Debian packs it, and what builds it; nothing else
#   test   as for demo and, where there is that package, for kernel-lab; then tshark, valgrind, Python with asyncua, rustfmt, clippy,
#          cargo-deny: to check against other people's decoders
#
# What is there already is left alone. Exit code 3: something is missing that could not be installed; the command is printed.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

# The newest that builds with the Rust the workspace asks for.
readonly cargo_deny=0.20.2
readonly asyncua=2.1.0

mode=${1:-demo}
case $mode in
demo | test | kernel-lab) ;;
*)
    say "Usage: scripts/setup.sh demo|test|kernel-lab (found: $mode)"
    exit 2
    ;;
esac

# ---- Distribution packages -------------------------------------------------------------------------------------------

as_root=()
lists_fresh=no

may_install() { [ "$(id -u)" -eq 0 ] || have sudo; }

apt_install() {
    local reason=$1
    shift
    if ! have apt-get; then
        say "Missing: $reason. There is no apt-get here; install the counterparts of: $*"
        exit 3
    fi
    if ! may_install; then
        say "Missing: $reason. Neither root nor sudo here; let someone run:"
        say "    apt-get update && apt-get install --no-install-recommends $*"
        exit 3
    fi
    [ "$(id -u)" -eq 0 ] || as_root=(sudo)
    step "Installing $* ($reason)"
    refresh_lists
    # Wireshark asks whether everyone may capture, iperf3 whether to start a server: noninteractive answers no to both.
    show "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq -o Dpkg::Use-Pty=0 --no-install-recommends "$@" >&2 || {
        say "apt-get could not install: $*"
        exit 3
    }
}

# Once, and only when something is to be looked up or installed.
refresh_lists() {
    [ $lists_fresh = no ] || return 0
    [ "$(id -u)" -eq 0 ] || as_root=(sudo)
    show "${as_root[@]}" apt-get update -qq >&2 || say "apt-get update failed; going on with the package lists that are here."
    lists_fresh=yes
}

links_c() {
    local out
    out=$(mktemp)
    echo 'int main(void) { return 0; }' | cc -x c - -o "$out" 2>/dev/null
    local linked=$?
    rm -f "$out"
    return $linked
}

packages=() reasons=
need() {
    reasons="${reasons:+$reasons, }$1"
    shift
    packages+=("$@")
}

# What the kernel laboratory is built from; without Debian's package of that kernel its tests are left out.
readonly kernel_source=linux-source-6.12
need_kernel_lab() {
    [ "$(uname -m)" = x86_64 ] || return 0
    if ! compgen -G "/usr/src/$kernel_source.tar.*" >/dev/null && [ -z "${DOWNBEAT_KERNEL_SOURCE:-}" ]; then
        # Fetched for 'test' only when there are none: it can do without.
        if have apt-cache && may_install && { [ "$mode" = kernel-lab ] || [ -z "$(apt-cache pkgnames linux-source)" ]; }; then
            refresh_lists
        fi
        if [ -n "$(candidate $kernel_source)" ]; then
            need "the kernel laboratory's source" $kernel_source
        else
            say "There is no package $kernel_source here: the kernel laboratory is left out unless another source is found."
            return 0
        fi
    fi
    local tool
    for tool in gcc make flex bison bc patch ccache; do have $tool || need "$tool, for the kernel laboratory" $tool; done
    have xz || need "xz, for the kernel laboratory" xz-utils
    have perl || need "perl, for the kernel laboratory" perl
    have flock || need "flock, for the kernel laboratory" util-linux
    [ -e /usr/include/libelf.h ] || need "libelf, for the kernel laboratory" libelf-dev
    [ -e /usr/include/stdio.h ] || need "the C library's headers, for the kernel laboratory" libc6-dev
    { have ip && have tc && have ethtool; } || need "ip, tc and ethtool, which run inside" iproute2 ethtool
}

# The version apt would install, without its epoch; empty when there is none.
candidate() {
    apt-cache policy "$1" 2>/dev/null | sed -n 's/^ *Candidate: \([0-9]*:\)\{0,1\}\(.*\)/\2/p' | grep -v '(none)' || true
}

# The folders of ip, tc and sysctl are not on every user's PATH.
PATH=$PATH:/usr/sbin:/sbin
if [ "$mode" != kernel-lab ]; then
    links_c || need "a C linker, which Rust calls" gcc libc6-dev
    [ -e /etc/ssl/certs/ca-certificates.crt ] || need "certificates, to fetch crates" ca-certificates
    { have ip && have tc; } || need "ip and tc, which lay out the laboratory" iproute2
    have iperf3 || need "iperf3, the background traffic" iperf3
    have sysctl || need "sysctl, for the host's settings" procps
    { have ptp4l && have phc2sys; } || need "ptp4l and phc2sys, which keep clocks" linuxptp
fi
if [ "$mode" = test ]; then
    have tshark || need "tshark, which reads our frames" tshark
    have valgrind || need "valgrind, which counts instructions" valgrind
    have unshare || need "unshare, for tests in a namespace" util-linux
    # Neither started on this machine nor at its next start: tests start their own, in the kernel laboratory.
    have sshd || { export RUNLEVEL=1; sshd_is_ours=yes; need "sshd, for tests of hosts reached by ssh" openssh-server; }
    have ssh || need "ssh, for the same" openssh-client
    [ -x "$root/.venv/bin/python" ] || python3 -c 'import venv, ensurepip' 2>/dev/null ||
        need "Python environments, for asyncua" python3-venv
fi
[ "$mode" = demo ] || need_kernel_lab
if [ ${#packages[@]} -gt 0 ]; then
    apt_install "$reasons" "${packages[@]}"
    if [ "${sshd_is_ours:-no}" = yes ] && have systemctl; then
        "${as_root[@]}" systemctl disable --quiet ssh.service ssh.socket >/dev/null 2>&1 || true
    fi
else
    say "Distribution packages: nothing missing."
fi

[ "$mode" != kernel-lab ] || exit 0

# ---- Rust ------------------------------------------------------------------------------------------------------------

# Packages of a toolchain that is new enough, one candidate a line: cargo, compiler, rustfmt, clippy.
# Debian keeps a newer one beside its own for building browsers (rustc-web); Ubuntu has one package a version.
packaged_toolchains() {
    local version
    echo "cargo rustc rustfmt rust-clippy"
    echo "cargo-web rustc-web rustfmt-web rust-web-clippy"
    for version in $(apt-cache pkgnames cargo-1. 2>/dev/null | sed -n 's/^cargo-\(1\.[0-9]*\)$/\1/p' | sort -rV); do
        echo "cargo-$version rustc-$version rustfmt-$version rust-$version-clippy"
    done
}

install_pinned() {
    show rustup toolchain install "$(rust_pinned)" --profile minimal --component rustfmt --component clippy >&2 || {
        say "rustup could not fetch Rust $(rust_pinned)."
        exit 3
    }
}

install_rust() {
    local wanted cargo rustc fmt clippy
    wanted=$(rust_wanted)
    step "Rust: none that is $wanted or newer.${rust_too_old:+ Too old or broken:$rust_too_old.}"
    if [ -x "${CARGO_HOME:-$HOME/.cargo}/bin/rustup" ]; then
        say "Taking the rustup that is here."
        PATH=${CARGO_HOME:-$HOME/.cargo}/bin:$PATH
        install_pinned
        return
    fi
    if have apt-cache && may_install; then
        refresh_lists
        while read -r cargo rustc fmt clippy; do
            at_least "$(candidate "$cargo")" "$wanted" || at_least "$(candidate "$rustc")" "$wanted" || continue
            # Older Debian numbers cargo on its own (0.66 goes with rustc 1.63): the compiler's version counts.
            at_least "$(candidate "$rustc")" "$wanted" || continue
            say "Taking the distribution's $rustc $(candidate "$rustc")."
            if [ "$mode" = test ]; then
                apt_install "Rust with its formatter and linter" "$cargo" "$rustc" "$fmt" "$clippy"
            else
                apt_install "Rust" "$cargo" "$rustc"
            fi
            return
        done < <(packaged_toolchains)
        if [ -n "$(candidate rustup)" ]; then
            say "No packaged compiler is new enough; taking the distribution's rustup."
            apt_install "rustup" rustup
            install_pinned
            return
        fi
    fi
    say "Taking rustup by its own installer, into ${CARGO_HOME:-$HOME/.cargo}."
    have curl || apt_install "curl, which fetches rustup's installer" curl
    local installer
    installer=$(mktemp)
    if ! show curl --proto '=https' --tlsv1.2 -sSf -o "$installer" https://sh.rustup.rs; then
        rm -f "$installer"
        say "rustup's installer could not be fetched. Install Rust $wanted or newer by hand, so that 'cargo --version' tells it."
        exit 3
    fi
    show sh "$installer" -y --no-modify-path --profile minimal --default-toolchain none >&2
    rm -f "$installer"
    PATH=${CARGO_HOME:-$HOME/.cargo}/bin:$PATH
    install_pinned
}

# rustfmt and clippy for a toolchain that came without them. Not fatal: 'cargo xtask check' says what it had to leave out.
install_lints() {
    cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1 && return 0
    step "rustfmt or clippy is missing"
    local owner suffix
    if have rustup; then
        show rustup component add rustfmt clippy >&2 || say "rustup could not add them."
    elif have dpkg-query && may_install; then
        owner=$(dpkg-query -S "$(command -v rustc)" 2>/dev/null | head -n 1 | cut -d : -f 1)
        case $owner in
        rustc) apt_install "formatter and linter" rustfmt rust-clippy ;;
        rustc-web) apt_install "formatter and linter" rustfmt-web rust-web-clippy ;;
        rustc-1.*) suffix=${owner#rustc-} && apt_install "formatter and linter" "rustfmt-$suffix" "rust-$suffix-clippy" ;;
        *) say "This cargo came neither by rustup nor by a package: add rustfmt and clippy the way it came." ;;
        esac
    fi
}

if ! find_rust; then
    install_rust
    find_rust || {
        say "Still no Rust $(rust_wanted) or newer.${rust_too_old:+ Found:$rust_too_old.}"
        exit 3
    }
fi
say "Rust: $rust_taken."
[ "$mode" = test ] || exit 0

# ---- What only the tests need ----------------------------------------------------------------------------------------

install_lints

if cargo deny --version >/dev/null 2>&1; then
    say "cargo-deny: $(cargo deny --version)."
else
    # Unoptimised: it builds in a third of the time and looks at our few hundred crates in seconds.
    step "Building cargo-deny $cargo_deny, which checks licences and sources of the crates we use (minutes, once)"
    CARGO_PROFILE_DEV_DEBUG=0 show cargo install --quiet --locked --debug "cargo-deny@$cargo_deny" >&2 || {
        say "cargo-deny could not be installed."
        exit 3
    }
fi

python=$root/.venv/bin/python
if [ "$("$python" -c 'import importlib.metadata as m; print(m.version("asyncua"))' 2>/dev/null)" = $asyncua ]; then
    say "Python: asyncua $asyncua in .venv."
else
    step "Python environment .venv with asyncua $asyncua, an OPC UA stack that is not ours"
    [ -x "$python" ] || show python3 -m venv "$root/.venv" >&2
    show "$python" -m pip install --quiet --disable-pip-version-check "asyncua==$asyncua" >&2 || {
        say "asyncua could not be installed."
        exit 3
    }
fi
