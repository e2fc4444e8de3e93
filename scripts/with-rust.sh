#!/usr/bin/env bash
# Runs a command with a Rust toolchain that is new enough first on PATH: scripts/with-rust.sh cargo build
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"

if ! find_rust; then
    say "No Rust $(rust_wanted) or newer here.${rust_too_old:+ Found, but too old or broken:$rust_too_old.} 'make setup' installs one."
    exit 3
fi
exec "$@"
