# The few things there are to do here. `make` alone lists them.

.DEFAULT_GOAL := help
.PHONY: help demo test testenv helm cluster bench counts explore storm fuzz chart docs book binaries image image-twice image-try release model

CARGO ?= cargo
TARGET := $(or $(CARGO_TARGET_DIR),target)

SCENARIOS := $(wildcard scenarios/*/)

# Tests are built without debug information: it is half of the build and nobody reads it there.
test: export CARGO_PROFILE_DEV_DEBUG = 0
test: export CARGO_PROFILE_TEST_DEBUG = 0

help:
	@echo 'make demo     a simulated cluster with a guided story, in the browser (DEMO=--headless tells it as text)'
	@echo 'make test     everything that is checked: style, lints, tests, scenarios, licences'
	@echo 'make test-web the pages in real Chromium, of the demo and of a live cluster; part of make test'
	@echo 'make cluster  a real Kubernetes control plane with nodes that kwok plays (NODES=3), to run `quotient run` on'
	@echo 'make testenv  builds that control plane, if it is not there yet: ten minutes, once'
	@echo 'make bench    the engine'\''s figures beside their goals'
	@echo 'make bench-web first paint, frames and idle cost of the dashboard at 5,000 nodes and 50,000 pods'
	@echo 'make bench-cluster  the same beside kube-scheduler on a real API server; writes docs/performance.md'
	@echo 'make counts   instructions of nine named cases, beside those recorded; fails when one takes 10 % more'
	@echo 'make docs     writes what pages and chart have from the program; read the difference'
	@echo 'make book     the documentation as a book in dist/book (builds mdBook, once)'
	@echo 'make image    static binaries, and an OCI image of them in dist/quotient.oci'
	@echo 'make advisories  what is known to be wrong with the crates that this is built from; before a release'
	@echo 'make release  everything that a release has, in dist/'
	@echo 'make explore  the properties of the engine on random histories, for an hour or so'
	@echo 'make storm    everything goes wrong: on the virtual API server (SEEDS=20000), then on a real one (STORM_SECONDS=600)'
	@echo 'make conformance  older versions of Kubernetes (OLDER=1.34), then Kubernetes'\'' own tests of scheduling, beside kube-scheduler; keeps conformance/results.tsv'
	@echo 'make minutes  what shows only after a minute on a real API server: readiness, handover, rotated tokens'
	@echo 'make model    every decision on random small clusters compared with a model written apart from the engine'
	@echo 'make fuzz     one minute of random bytes for each parser (installs cargo-fuzz)'

demo:
	@echo 'Building Quotient: some minutes the first time.' >&2
	@$(CARGO) build --quiet --release --locked --package quotient
	@$(TARGET)/release/quotient demo $(DEMO)

# The tests run on a real API server. Where it is neither there nor can be built, this fails and says so.
test: testenv helm
	$(CARGO) fmt --all --check
	$(CARGO) clippy --quiet --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS='-D warnings -A rustdoc::private_intra_doc_links' $(CARGO) doc --quiet --workspace --no-deps --locked
	$(CARGO) test --workspace --no-fail-fast --locked
	$(TARGET)/debug/quotient test $(SCENARIOS)
	@$(MAKE) --no-print-directory counts test-web

# Chromium is Debian's; where it is missing it is installed, which takes root. Screenshots stay in web/test-results.
.PHONY: test-web
test-web: testenv
	@$(CARGO) build --quiet --locked --package quotient
	@command -v chromium >/dev/null && command -v npm >/dev/null || { apt-get update -qq && \
	  apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core $$(command -v npm >/dev/null || echo npm); } >/dev/null
	@npm --prefix web ci --loglevel error --no-audit --no-fund
	@npm --prefix web run --silent check
	@npm --prefix web run --silent test
	@$(CARGO) test --quiet --locked --package quotient --test it -- --ignored dashboard::

# 5,000 nodes and 50,000 pods: first paint, frames, and what an idle server costs.
.PHONY: bench-web
bench-web:
	@$(CARGO) build --quiet --release --locked --package quotient-dashboard --example large_cluster
	@npm --prefix web ci --loglevel error --no-audit --no-fund
	@LARGE_CLUSTER='$(abspath $(TARGET))/release/examples/large_cluster' npm --prefix web run --silent test -- --config playwright.scale.config.ts

testenv:
	@testenv/build.sh >&2

# Both versions of Helm, which the chart is tested with; built once.
helm:
	@charts/testing/build.sh >&2

NODES ?= 3
cluster: testenv
	@$(CARGO) run --quiet --locked --package quotient-testenv -- $(NODES)

bench:
	@$(CARGO) build --quiet --release --locked --package quotient
	@$(TARGET)/release/quotient bench
	@$(TARGET)/release/quotient bench --growth docs/pictures/growth.svg

# Kubernetes' own end-to-end tests of scheduling, built from its Go module, with Quotient and with kube-scheduler.
# Before them, the live scenarios and the installation on each older Kubernetes that is supported.
OLDER ?= 1.34 1.35 1.36
.PHONY: conformance older
conformance: testenv older
	@$(CARGO) test --quiet --locked --package quotient --test it -- --ignored --nocapture conformance::

older:
	@set -e; for version in $(OLDER); do \
	  echo "Kubernetes $$version" >&2; testenv/older/build.sh $$version >/dev/null; \
	  TESTENV_KUBERNETES=$$version $(CARGO) test --quiet --locked --package quotient --test it -- live_scenarios:: install::; \
	done

# What shows only after a minute: readiness through a handover and a new API server, tokens that are rotated.
.PHONY: minutes
minutes: testenv
	$(CARGO) test --quiet --locked --package quotient --test it -- --ignored --nocapture as_it_comes::
	$(CARGO) test --quiet --locked --package quotient-cluster --test it -- --ignored faulty_servers::

# Instructions, which no other work on the machine can move, and not time.
counts:
	@command -v valgrind >/dev/null || { apt-get update -qq && apt-get install -y -qq valgrind; } >/dev/null
	@CARGO='$(CARGO)' crates/engine/benches/counts.sh

# Each round has a seed, which it prints: PROPTEST_RNG_SEED=<seed> brings a failure back. The model, written apart from the
# engine, watches CASES random clusters; smallest cases of what differs are printed, and kept in the folder FOUND if given.
# As many clusters in which every evicted pod comes back must settle; what means the same must come to the same.
explore: export CARGO_PROFILE_DEV_OPT_LEVEL = 2
explore: export PROPTEST_CASES = $(or $(CASES),20000)
explore: export TERMINATION_CASES = $(PROPTEST_CASES)
explore: export METAMORPHIC_CASES = $(PROPTEST_CASES)
explore: testenv
	OBJECT_SECONDS=$(or $(OBJECT_SECONDS),3600) OBJECT_SEED=$(or $(SEED),$$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')) \
	  $(CARGO) test --quiet --locked --package quotient --test it -- --ignored --nocapture any_object::
	@set -e; for seed in $(or $(SEED),$$(od -An -N16 -tu4 /dev/urandom)); do \
	  echo "PROPTEST_RNG_SEED=$$seed PROPTEST_CASES=$(PROPTEST_CASES)"; \
	  PROPTEST_RNG_SEED=$$seed $(CARGO) test --quiet --locked --package quotient-engine; \
	  TERMINATION_SEED=$$seed METAMORPHIC_SEED=$$seed $(CARGO) test --quiet --locked --package quotient-model \
	    --test it -- --nocapture termination:: metamorphic::; \
	  $(CARGO) run --quiet --locked --package quotient-model -- $(PROPTEST_CASES) $$seed $(FOUND); \
	  $(CARGO) run --quiet --locked --package quotient-model -- claims $(PROPTEST_CASES) $$seed; \
	  $(CARGO) run --quiet --locked --package quotient-model -- returning $(PROPTEST_CASES) $$seed; \
	done

# A failure names its seed: STORM_SEED=<seed> make storm brings it back.
storm: export CARGO_PROFILE_DEV_OPT_LEVEL = 2
storm: export SEEDS ?= 20000
storm: export STORM_SECONDS ?= 600
storm: testenv
	$(CARGO) test --quiet --locked --package quotient-sim --test it -- --nocapture storm::
	$(CARGO) test --quiet --locked --package quotient --test it -- --ignored --nocapture --test-threads=1 faults::storm

# Only the model, for CASES cases from SEED on.
model:
	@$(CARGO) run --quiet --locked --package quotient-model -- $(or $(CASES),20000) $(or $(SEED),1) $(FOUND)

# The fuzzer's instrumentation is a compiler option that stable compilers keep behind this variable.
fuzz: export RUSTC_BOOTSTRAP = 1
fuzz:
	@$(CARGO) fuzz --version >/dev/null 2>&1 || $(CARGO) install --quiet --locked cargo-fuzz
	@set -e; for target in $$($(CARGO) fuzz list); do \
	  $(CARGO) fuzz run --sanitizer none $$target -- -max_total_time=60 -verbosity=0 -print_final_stats=1; \
	done

# What is made from the program: the reference, what pages show, and parts of the chart. `make test` fails where it is not current.
docs chart: export QUOTIENT_WRITE = 1
docs: chart
	$(CARGO) test --quiet --locked --package quotient --test it docs::
chart:
	$(CARGO) test --quiet --locked --package quotient --test it made_from

book:
	@$$(packaging/mdbook.sh) build

# Binaries for other machines need no more than a C compiler for `ring`: musl-tools and gcc-aarch64-linux-gnu of Debian. TARGETS can be
# set to one of the two, and PROFILE=dev builds faster and runs slower. Everything that differs between machines and times is given: paths, the commit and its time.
TARGETS ?= x86_64-unknown-linux-musl aarch64-unknown-linux-musl
PROFILE ?= release
FOLDER := $(if $(filter dev,$(PROFILE)),debug,$(PROFILE))
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
# What is known to be wrong with a crate that this is built from. It takes the network, and what is known changes by itself:
# it is for before a release, and not part of `make test`.
.PHONY: advisories
advisories:
	@$(CARGO) deny --version >/dev/null 2>&1 || $(CARGO) install --quiet --locked cargo-deny
	@$(CARGO) deny --locked check advisories

binaries image release: export QUOTIENT_COMMIT := $(shell git rev-parse HEAD 2>/dev/null)
binaries image release: export SOURCE_DATE_EPOCH := $(shell git log -1 --format=%ct 2>/dev/null)
binaries image release: export CC_x86_64_unknown_linux_musl ?= musl-gcc
binaries image release: export CC_aarch64_unknown_linux_musl ?= aarch64-linux-gnu-gcc
binaries image release: export AR_aarch64_unknown_linux_musl ?= aarch64-linux-gnu-ar
binaries image release: export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER ?= rust-lld
binaries:
	RUSTFLAGS='--remap-path-prefix=$(HOME)=/home --remap-path-prefix=$(CURDIR)=/source -C strip=symbols' \
	  $(CARGO) build --profile $(PROFILE) --locked --package quotient $(addprefix --target ,$(TARGETS))

architecture = $(if $(filter aarch64-%,$(1)),arm64,amd64)
image: binaries
	@mkdir -p dist
	@$(CARGO) metadata --format-version 1 --locked --filter-platform $(firstword $(TARGETS)) > $(TARGET)/metadata.json
	@$(CARGO) run --quiet --locked --package quotient-image -- --out dist --version $(VERSION) --commit $(QUOTIENT_COMMIT) \
	  --time $(SOURCE_DATE_EPOCH) --metadata $(TARGET)/metadata.json --compiler "$$(rustc --version)" \
	  $(foreach target,$(TARGETS),--binary $(call architecture,$(target))=$(TARGET)/$(target)/$(FOLDER)/quotient)

# Two builds of one commit, in folders of their own, are the same byte for byte.
image-twice:
	$(MAKE) image CARGO_TARGET_DIR=$(TARGET)/twice && cp -r dist/quotient.oci $(TARGET)/first.oci
	rm -rf $(TARGET)/twice && $(MAKE) image CARGO_TARGET_DIR=$(TARGET)/twice
	diff -r dist/quotient.oci $(TARGET)/first.oci && echo 'both builds are the same' && rm -r $(TARGET)/first.oci $(TARGET)/twice

# The program compiles for macOS too. Nothing is linked, since Apple's tools are not to be had elsewhere: build it there for a binary.
.PHONY: check-macos
check-macos:
	@rustup --quiet target add aarch64-apple-darwin
	CC_aarch64_apple_darwin=$(CURDIR)/packaging/empty-objects.sh AR_aarch64_apple_darwin=$(CURDIR)/packaging/empty-objects.sh \
	  $(CARGO) check --quiet --locked --target aarch64-apple-darwin --package quotient

# What was built runs in a container.
image-try:
	@packaging/try-image.sh dist/quotient.oci $(VERSION)

release: image
	@packaging/release.sh $(VERSION) $(TARGET) $(FOLDER) $(TARGETS)

# The table of performance on fresh control planes: the API server alone, kube-scheduler, Quotient; a quarter of an hour on
# two cores. MEASURE=--quick tries it at a tenth of the size, MEASURE='--only reclaim' runs some of it. OPENB is a folder
# with the CSV files of the openb trace, for the case that simulates it.
.PHONY: bench-cluster
bench-cluster: testenv
	@$(CARGO) build --quiet --release --locked --package quotient --package quotient-measure
	@$(TARGET)/release/quotient-measure --quotient $(TARGET)/release/quotient $(MEASURE) \
	  $(if $(OPENB),--openb $(OPENB)) $(if $(MEASURE),,--large --json docs/performance.json --page docs/performance.md)
