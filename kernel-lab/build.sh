#!/usr/bin/env bash
# Builds the kernel of the kernel laboratory, unless it is there already:  kernel-lab/build.sh [--print-folder | --can]
#
#   (nothing)        leaves FOLDER/current -> FOLDER/KEY with linux, lab-init and about
#   --print-folder   prints FOLDER and builds nothing
#   --can            exit code 0 when it is built or can be; else says what is missing
#
# FOLDER is $DOWNBEAT_KERNEL_LAB, or downbeat/kernel-lab in the user's cache folder. KEY stands for the version of the kernel's source
# package, lab.config, lab.patch, the init and the compiler: when one of them changes, the next call builds again.
# $DOWNBEAT_KERNEL_SOURCE names another source archive. Exit code 3: something is missing here, and what is said.
set -euo pipefail
# Read as a whole before anything is done: a build takes minutes, and this file may change meanwhile.
{
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/../scripts/lib.sh"

readonly made_for=6.12
# Raise it when this script builds something else from the same files.
readonly recipe=1
# Unpacked source 1.7 GB, build folder 0.2 GB.
readonly room_mb=2500

# A line for each argument.
fail() {
    printf '%s\n' "$@" >&2
    exit 3
}

if [ -n "${DOWNBEAT_KERNEL_LAB:-}" ]; then
    folder=$DOWNBEAT_KERNEL_LAB
elif [ -n "${XDG_CACHE_HOME:-}${HOME:-}" ]; then
    folder=${XDG_CACHE_HOME:-$HOME/.cache}/downbeat/kernel-lab
else
    fail "Neither HOME nor XDG_CACHE_HOME is set: say in DOWNBEAT_KERNEL_LAB which folder shall keep the kernel."
fi
case $folder in /*) ;; *) folder=$PWD/$folder ;; esac

# ---- What to build from ----------------------------------------------------------------------------------------------

# The archive of the version the changes were made for, else the newest.
source_archive() {
    if [ -n "${DOWNBEAT_KERNEL_SOURCE:-}" ]; then
        echo "$DOWNBEAT_KERNEL_SOURCE"
        return
    fi
    local found
    for found in /usr/src/linux-source-"$made_for".tar.*; do
        [ ! -f "$found" ] || { echo "$found" && return; }
    done
    # Debian lays the archive into /usr/src, Ubuntu into a folder of its own.
    find /usr/src -maxdepth 2 -name 'linux-source-*.tar.*' -type f 2>/dev/null | sort -V | tail -n 1
}

# The package's version, which every security update raises; of an archive without a package, what is in it.
source_version() {
    local package
    if have dpkg-query && package=$(dpkg-query -S "$1" 2>/dev/null | head -n 1 | cut -d : -f 1) && [ -n "$package" ]; then
        # shellcheck disable=SC2016
        dpkg-query -W -f '${Package} ${Version}' "$package"
    else
        echo "$(basename "$1") $(sha256sum <"$1" | cut -c 1-16)"
    fi
}

missing() {
    local tool out
    for tool in gcc make flex bison bc xz patch strip perl flock sha256sum; do have "$tool" || echo "$tool"; done
    out=$(mktemp)
    if have gcc; then
        echo '#include <libelf.h>' | gcc -E -x c - -o "$out" 2>/dev/null || echo libelf-dev
        echo '#include <stdio.h>' | gcc -E -x c - -o "$out" 2>/dev/null || echo libc6-dev
    fi
    rm -f "$out"
}

archive=$(source_archive)
can() {
    local lacking
    lacking=$(missing | tr '\n' ' ')
    [ -z "$lacking" ] || fail "The kernel laboratory cannot be built here; missing: $lacking" \
        "On Debian and Ubuntu: apt-get install gcc make flex bison bc libelf-dev libc6-dev xz-utils patch perl ccache"
    [ "$(uname -m)" = x86_64 ] || fail "The kernel laboratory is User Mode Linux, which runs on x86_64 only; this is $(uname -m)."
    [ -n "$archive" ] || fail "There is no kernel source in /usr/src. On Debian 12 and 13: apt-get install linux-source-$made_for." \
        "Elsewhere name an archive of Linux $made_for in DOWNBEAT_KERNEL_SOURCE."
    [ -r "$archive" ] || fail "$archive cannot be read (DOWNBEAT_KERNEL_SOURCE names the kernel's source archive)."
}

# Of what we bring along; the rest of the key is the machine's.
recipe_key() {
    { echo "recipe $recipe" && cat "$here/lab.config" "$here/lab.patch" "$here/init.c"; } | sha256sum | cut -c 1-16
}

# A kernel of this recipe that came from elsewhere: whether its source is the newest cannot be told, and it does.
is_built() { [ -x "$folder/current/linux" ] && grep -qxF "recipe $(recipe_key)" "$folder/current/about" 2>/dev/null; }

case ${1:-} in
--print-folder)
    echo "$folder"
    exit 0
    ;;
--can)
    is_built || can
    exit 0
    ;;
'') ;;
*)
    say "Usage: kernel-lab/build.sh [--print-folder | --can] (found: $1)"
    exit 2
    ;;
esac
if is_built && ! (can) 2>/dev/null; then
    say "The kernel laboratory is there ($folder/current), and what would build it anew is not."
    exit 0
fi
can

version=$(source_version "$archive")
compiler=$(gcc --version | head -n 1)
key=$({ echo "$version" && echo "$compiler" && recipe_key; } | sha256sum | cut -c 1-16)

mkdir -p "$folder" || fail "The folder $folder cannot be made; name another in DOWNBEAT_KERNEL_LAB."
# One build at a time; who waited finds it done.
exec 9>"$folder/lock"
flock -n 9 || {
    say "Another build is going on in $folder; waiting for it."
    flock 9
}

take() {
    ln -sfn "$key" "$folder/current"
    say "The kernel laboratory is ready: $folder/current ($version)."
}

if [ -x "$folder/$key/linux" ] && [ -x "$folder/$key/lab-init" ]; then
    take
    exit 0
fi

# ---- Build -----------------------------------------------------------------------------------------------------------

free_mb=$(df -Pm "$folder" | awk 'NR == 2 { print $4 }')
[ "$free_mb" -ge $room_mb ] || fail "$folder has $free_mb MB left, the build needs $room_mb for a while. Make room, or name another folder in DOWNBEAT_KERNEL_LAB."

step "Building the kernel laboratory from $version (about five minutes on two processors, once; log: $folder/build.log)"
# What an interrupted build left.
rm -rf "$folder"/work.*
work=$(mktemp -d "$folder/work.XXXXXX")
child=
trap 'rm -rf "$work"' EXIT
trap 'end_child; exit 130' INT
trap 'end_child; exit 143' TERM
log=$folder/build.log
: >"$log"

# shellcheck disable=SC2317 # called by the traps
end_child() {
    [ -z "$child" ] || { kill "$child" && wait "$child"; } 2>/dev/null || true
}

# In the background, so that a signal is heeded at once; without the lock, which a straggler would hold on to.
logged() {
    echo "+ $*" >>"$log"
    "$@" >>"$log" 2>&1 </dev/null 9>&- &
    child=$!
    wait "$child" || {
        tail -n 20 "$log" >&2
        fail "This failed: $*" "Everything it said is in $log."
    }
}

began=$(date +%s)
mkdir "$work/source" "$work/build" "$work/done"
logged tar -xf "$archive" -C "$work/source" --strip-components=1 --no-same-owner --exclude='*/tools/testing/*'
patched=$(cd "$work/source" && patch -p1 --batch --dry-run <"$here/lab.patch" 2>&1) || {
    say "$patched"
    fail "lab.patch was made for Linux $made_for and does not fit $version." "Install linux-source-$made_for, or name an archive of Linux $made_for in DOWNBEAT_KERNEL_SOURCE."
}
logged patch -d "$work/source" -p1 --batch -i "$here/lab.patch"

# Empty: user, host and time of the build do not become part of the kernel.
export KBUILD_BUILD_TIMESTAMP='Thu Jan  1 00:00:00 UTC 1970' KBUILD_BUILD_USER=downbeat KBUILD_BUILD_HOST=kernel-lab
# A change to the recipe builds again what it changes, not the rest. Base folder: so that the name of $work makes no difference.
export CCACHE_DIR=${CCACHE_DIR:-$folder/ccache} CCACHE_BASEDIR=$work CCACHE_NOHASHDIR=1
cc=gcc
! have ccache || cc="ccache gcc"
build() { logged make -C "$work/source" ARCH=um O=../build "CC=$cc" "$@"; }

build "KCONFIG_ALLCONFIG=$here/lab.config" allnoconfig
dropped=$(grep -v -e '^#' -e '^$' "$here/lab.config" | while read -r line; do
    case $line in
    *=n) ! grep -q "^${line%=n}=" "$work/build/.config" || echo "$line" ;;
    *) grep -qxF -e "$line" "$work/build/.config" || echo "$line" ;;
    esac
done)
[ -z "$dropped" ] || fail "The kernel's configuration does not take these lines of lab.config:" "$dropped"

build "-j$(nproc)" linux
logged strip -o "$work/done/linux" "$work/build/linux"
# Static where the C library allows it: then it starts without looking for one.
gcc -O2 -Wall -Wextra -static -o "$work/done/lab-init" "$here/init.c" >>"$log" 2>&1 ||
    logged gcc -O2 -Wall -Wextra -o "$work/done/lab-init" "$here/init.c"

{
    echo "kernel $(cat "$work/build/include/config/kernel.release")"
    echo "source $version"
    echo "compiler $compiler"
    echo "recipe $(recipe_key)"
} >"$work/done/about"
rm -rf "${folder:?}/$key"
mv "$work/done" "$folder/$key"
# Kernels of earlier recipes are of no use any more.
for old in "$folder"/????????????????; do
    case $old in */"$key" | *'?'*) ;; *) rm -rf "$old" ;; esac
done
say "Built in $(($(date +%s) - began)) s."
take
exit 0
}
