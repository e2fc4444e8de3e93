# What a newcomer types. The habits themselves are in scripts/ and in 'cargo xtask'; see CONTRIBUTING.md.

# Finds a Rust that is new enough, wherever it was installed.
RUST := scripts/with-rust.sh

# Tests that need root, network namespaces or other programs may be left out on a machine that lacks them, but not silently as root.
ifeq ($(shell id -u),0)
REQUIRE := DOWNBEAT_REQUIRE_ALL=1
else
REQUIRE :=
endif

.DEFAULT_GOAL := help
.PHONY: help setup demo test check bench kernel-lab clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what is missing to build and run
	scripts/setup.sh demo

demo: ## build, then check, bound, simulate and run two scenarios: runs/demo/report.html
	scripts/setup.sh demo
	$(RUST) scripts/demo.sh

# The kernel laboratory is built for the tests where that is possible; where it is not, they are left out and it says why.
KERNEL_LAB = $$(kernel-lab/build.sh --can 2>/dev/null || echo DOWNBEAT_WITHOUT_KERNEL_LAB=1)

test: ## everything a change must pass
	scripts/setup.sh test
	if kernel-lab/build.sh --can; then kernel-lab/build.sh; else echo "Tests in the kernel laboratory are left out." >&2; fi
	$(REQUIRE) $(RUST) cargo xtask check
ifeq ($(REQUIRE),)
	@echo "Not root: tests that need root are left out; 'sudo make test' runs them all." >&2
endif
	env $(KERNEL_LAB) $(REQUIRE) $(RUST) cargo test --workspace
	RUSTFLAGS="--cfg loom" $(RUST) cargo test -p downbeat-rt --release --test loom_image --target-dir target/loom
	$(RUST) cargo xtask counts

kernel-lab: ## a Linux kernel in virtual time, for 'downbeat run --in kernel-lab' (minutes, once)
	scripts/setup.sh kernel-lab
	kernel-lab/build.sh

check: ## form only: fmt, clippy, licences, docs, architecture
	$(RUST) cargo xtask check

bench: ## what publishing and receiving cost beside a bare socket (root)
	$(RUST) cargo xtask bench

clean: ## remove what was built and the demo's results
	$(RUST) cargo clean
	rm -rf runs/demo
