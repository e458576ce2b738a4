# Each target sets up all it needs itself, from a fresh clone on Debian 12 with rustup.

SOAK_MINUTES ?= 60
NAMES ?=
export PATH := $(PATH):$(or $(CARGO_HOME),$(HOME)/.cargo)/bin

.PHONY: help run test lab soak bench capi deb

help:
	@echo 'make run      build lode and run its demo'
	@echo 'make test     run all tests; the time of each stage is printed'
	@echo 'make lab      boot real kernels on emulated persistent memory and run lode there; a part of make test'
	@echo 'make soak     run the same tests with larger budgets and new seeds for SOAK_MINUTES=$(SOAK_MINUTES)'
	@echo 'make capi     build the libraries of the C ABI, for programs of PMDK, into target/capi/lib'
	@echo 'make deb      build the Debian package of these libraries, into target/deb'
	@echo 'make bench    measure Lodestone and its peers side by side; NAMES="volumes nbd" for some tables, groups or rows only'

run:
	setup/install.sh run
	cargo build --release --locked --package lodestone-cli
	cargo run --release --locked --quiet --package lodestone-cli -- demo

test:
	setup/install.sh test
	cargo xtask ci

lab:
	setup/install.sh lab
	cargo xtask ci lab

soak:
	setup/install.sh test
	cargo xtask soak --minutes $(SOAK_MINUTES)

bench:
	setup/install.sh bench
	cargo build --release --locked --package lodestone-cli
	cargo xtask capi
	cargo run --release --locked --manifest-path tools/bench/Cargo.toml -- $(NAMES)

capi:
	setup/install.sh run
	cargo xtask capi

deb:
	setup/install.sh run
	cargo xtask deb
