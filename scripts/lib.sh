# shellcheck shell=bash
# What the scripts share: where the repository is, how they speak, which Rust they take. Sourced, never run.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '%s\n' "$*" >&2; }
step() { printf '\n==> %s\n' "$*" >&2; }
have() { command -v "$1" >/dev/null 2>&1; }

# Prints the command as it can be typed again, then runs it.
show() {
    local line
    line=$(printf '%q ' "$@")
    printf '$ %s\n' "${line% }" >&2
    "$@"
}

# The oldest Rust the workspace builds with, and the one pinned for rustup users.
rust_wanted() { sed -n 's/^rust-version *= *"\([0-9.]*\)".*/\1/p' "$root/Cargo.toml"; }
rust_pinned() { sed -n 's/^channel *= *"\(.*\)".*/\1/p' "$root/rust-toolchain.toml"; }

# at_least 1.95.0 1.88: compares dotted numbers; anything after them (+dfsg1-1) does not count.
at_least() {
    [ -n "$1" ] && [ "$(printf '%s\n%s\n' "${1%%[!0-9.]*}" "$2" | sort -V | head -n 1)" = "$2" ]
}

# The version of a cargo program, asked inside the repository because rustup answers by folder. Empty when it does not run.
cargo_version() { (cd "$root" && "$1" --version 2>/dev/null) | awk '{ print $2; exit }'; }

# Puts a cargo that is new enough first on PATH and sets rust_taken to its description. Fails when there is none.
# rust_too_old then names what was found instead.
find_rust() {
    local wanted dir version toolchain
    wanted=$(rust_wanted)
    rust_too_old=
    # Behind PATH and rustup's folder: the versioned packages of Ubuntu, newest first.
    for dir in "$(dirname "$(command -v cargo || echo /none/cargo)")" "${CARGO_HOME:-$HOME/.cargo}/bin" \
        $(printf '%s\n' /usr/lib/rust-*/bin | sort -rV); do
        [ -x "$dir/cargo" ] || continue
        version=$(cargo_version "$dir/cargo")
        if [ -z "$version" ] && [ -x "$dir/rustup" ]; then
            # rustup without the pinned toolchain and without a way to fetch it: any installed one that is new enough.
            for toolchain in $("$dir/rustup" toolchain list 2>/dev/null | awk '/^(stable|[0-9])/ { print $1 }'); do
                version=$(RUSTUP_TOOLCHAIN=$toolchain cargo_version "$dir/cargo")
                at_least "$version" "$wanted" && export RUSTUP_TOOLCHAIN=$toolchain && break
            done
        fi
        if at_least "$version" "$wanted"; then
            export PATH="$dir:$PATH"
            # shellcheck disable=SC2034 # read by setup.sh
            rust_taken="cargo $version in $dir"
            return 0
        fi
        rust_too_old="$rust_too_old $dir/cargo (${version:-does not run})"
    done
    return 1
}
