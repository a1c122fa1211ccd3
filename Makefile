# Everything that ftlab needs to be built, shown and tested. `make` or `make help` lists it.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export CARGO_TERM_PROGRESS_WHEN ?= never
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Python compiles a file when it is first imported, and most of what is installed never is. What it compiles is kept.
PIP_INSTALL := install --quiet --no-compile
UV_VERSION = $(shell sed -n 's/^uv==\([0-9.]*\).*/\1/p' requirements-dev.txt)
# uv installs in a fifth of the time. Where it cannot (a proxy or mirror that only pip has been told of), pip does.
INSTALL = { $(BIN)/pip $(PIP_INSTALL) uv==$(UV_VERSION) \
  && VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/uv pip install --quiet --no-cache --requirement $(1) 2>/dev/null; } \
  || $(BIN)/pip $(PIP_INSTALL) --requirement $(1)
unexport PYTHONDONTWRITEBYTECODE

# A recorded trace for `make demo`; without one it takes a recording of our own.
TRACE ?=
FORMAT ?=
# Changes for `make demo`, such as DEMO_SET="--set ftl.gc=fifo".
DEMO_SET ?=

ifeq ($(TRACE),)
DEMO_TITLE := a minute of a smartphone's storage (examples/recording), twenty times over, on a full TLC drive of its size
# As many blocks as the files of the recording nearly fill: on a large drive nothing would have to be collected.
DEMO := tlc-small --trace examples/recording/phone.csv.zst --transform "repeat times=20" \
  --set geometry.blocks_per_plane=24 --set geometry.pages_per_block=88
else
DEMO_TITLE := the recording $(TRACE) on a modern TLC drive
DEMO := tlc-256g --trace "$(TRACE)" $(if $(FORMAT),--format $(FORMAT)) --set host.out_of_range=wrap \
  --set host.unsorted_times=clamp
endif

RUST_SOURCES := $(shell find crates devices workloads -type f -not -path '*/target/*') Cargo.toml Cargo.lock

# Files whose modules come from a line in a list, which the formatter cannot follow.
LISTED := $(wildcard crates/ftlab-core/src/mapcache/*.rs crates/ftlab-core/src/ftl/gc/*.rs \
  crates/ftlab-core/src/ftl/placement/*.rs crates/ftlab-trace/src/formats/*.rs crates/ftlab-workload/src/kinds/*.rs \
  examples/extend/*/*.rs)

.DEFAULT_GOAL := help
.PHONY: help demo ray looks site wheel targets test test-programs test-rust test-python test-fuzz lint lint-rust lint-python format bench test-long fuzz docs lock clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-12s %s\n", $$1, $$2 }'

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "ftlab needs Python 3.11 or newer; set PYTHON=/path/to/python"; exit 1; }
	@command -v cargo >/dev/null || { echo "ftlab needs Rust: https://rustup.rs"; exit 1; }
	@echo "== making $(VENV)"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.run: requirements.txt | $(BIN)/python
	@echo "== installing what ftlab needs to run"
	@$(call INSTALL,requirements.txt)
	@touch $@

$(VENV)/.dev: requirements-dev.txt $(VENV)/.run
	@echo "== installing what the tests need"
	@$(call INSTALL,requirements-dev.txt)
	@touch $@

# An editable install: changes of Python files need no new build. The last one stands, fast or checked.
MATURIN = VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/maturin develop --release --locked
$(VENV)/.built: $(RUST_SOURCES) pyproject.toml README.md $(VENV)/.run
	@echo "== building ftlab (release): some minutes the first time"
	@$(MATURIN) >$(VENV)/build.log 2>&1 || { cat $(VENV)/build.log; exit 1; }
	@rm -f $(VENV)/.checked
	@touch $@

$(VENV)/.checked: $(RUST_SOURCES) tests/profile.toml pyproject.toml README.md $(VENV)/.run
	@echo "== building ftlab (as the tests)"
	@$(MATURIN) --config tests/profile.toml >$(VENV)/build.log 2>&1 || { cat $(VENV)/build.log; exit 1; }
	@rm -f $(VENV)/.built
	@touch $@

demo: $(VENV)/.built ## build ftlab and show a run with its plot; TRACE=file (FORMAT=name) runs a recording
	@echo "== $(DEMO_TITLE)"
	@$(BIN)/ftlab run $(DEMO) $(DEMO_SET) --explain --out out/demo
	@echo "== out/demo/plot.png shows write amplification, throughput and latency over time."
	@echo "== The same without the trims of deleted files: make demo DEMO_SET=\"--transform 'filter ops=read,write,flush'\""
	@echo "== Try next: $(BIN)/ftlab report out/demo; $(BIN)/ftlab devices; $(BIN)/ftlab run --help; docs/guides/tutorial.md"

# Everything is compiled once, for the extension and for the tests.
STRICT := --release --config tests/profile.toml --workspace --locked --quiet

# As part of `make test` our own crates are linted as they are compiled, with warnings as errors.
test-programs test-rust test-fuzz test-python $(VENV)/.checked: export RUSTC_WORKSPACE_WRAPPER := $(abspath tests/rustc)

# Python's packages are fetched, and its types checked, while the tests compile; the extension does while Rust's tests run.
test: ## everything that must hold before a change is merged, with a moment of fuzzing at its end
	@$(MAKE) --no-print-directory --jobs=2 test-programs lint-python
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target test-rust test-python
	@$(MAKE) --no-print-directory test-fuzz

# Programs and examples are looked at only: `tests/rustc` makes none of them. All packages are named every time: with some
# left out, libraries would have other features, and all that uses them would be compiled again.
test-programs:
	@echo "== cargo fmt; compiling the tests, with lints"
	@cargo fmt --all --check -- $(LISTED)
	@cargo test $(STRICT) --tests --no-run
	@cargo build $(STRICT) --bins --examples

test-rust:
	@echo "== cargo test"
	@cargo test $(STRICT) --tests

# All processors at once, so nothing runs beside it. A finding is printed, and its files are in out/fuzz.
TEST_FUZZ_SECONDS ?= 5
test-fuzz:
	@echo "== ftlab-fuzz for $(TEST_FUZZ_SECONDS) s"
	@FTLAB_FUZZ_SECONDS=$(TEST_FUZZ_SECONDS) cargo test $(STRICT) --bin ftlab-fuzz -- --ignored --nocapture a_while_of_fuzzing

# The tests of a file share what they run, so they have one process. Their order is that of `tests/conftest.py`.
test-python: $(VENV)/.checked $(VENV)/.dev
	@echo "== pytest"
	@$(BIN)/pytest --numprocesses auto --dist loadfile --no-loadscope-reorder

lint: lint-rust lint-python ## formatting, lints and types, as errors

# All targets but benches, of which there are none: for them, what has no tests would be looked at again as if it had.
# The interpreter is named as when the extension is built, or its bindings would be compiled again.
lint-rust: $(BIN)/python
	@echo "== cargo fmt, clippy"
	@cargo fmt --all --check -- $(LISTED)
	@VIRTUAL_ENV=$(abspath $(VENV)) cargo clippy $(STRICT) --lib --bins --tests --examples -- --deny warnings

lint-python: $(VENV)/.dev
	@echo "== ruff, mypy"
	@$(BIN)/ruff check --quiet python tests docs examples benches
	@$(BIN)/ruff format --quiet --check python tests docs examples benches
	@$(BIN)/mypy

format: $(VENV)/.dev ## format all sources
	@cargo fmt --all -- $(LISTED)
	@$(BIN)/ruff check --quiet --fix python tests docs examples benches
	@$(BIN)/ruff format --quiet python tests docs examples benches

$(VENV)/.ray: requirements-ray.txt $(VENV)/.dev
	@echo "== installing Ray"
	@$(BIN)/pip $(PIP_INSTALL) --requirement requirements-ray.txt
	@touch $@

ray: $(VENV)/.ray ## install Ray (285 MB): studies on clusters, and their tests

$(VENV)/.looks: requirements-looks.txt $(VENV)/.dev
	@echo "== installing a browser"
	@$(BIN)/pip $(PIP_INSTALL) --requirement requirements-looks.txt
	@touch $@

looks: $(VENV)/.looks ## install a Chromium (Qt's, 300 MB): reports and the site are looked at, by the long tests

$(VENV)/.site: requirements-site.txt $(VENV)/.run
	@$(BIN)/pip $(PIP_INSTALL) --requirement requirements-site.txt
	@touch $@

site: $(VENV)/.site ## the documentation as a site with search, in out/site
	@echo "== mkdocs"
	@$(BIN)/mkdocs build --quiet
	@echo "== out/site is ready; to read and search it: $(PYTHON) -m http.server --bind localhost --directory out/site"

$(VENV)/.wheel: requirements-wheel.txt $(VENV)/.run
	@$(BIN)/pip $(PIP_INSTALL) --requirement requirements-wheel.txt
	@touch $@

# Zig's C compiler links against the library of older systems. The check uses nothing of this project but the wheel.
MANYLINUX ?= manylinux2014
wheel: $(VENV)/.wheel ## build a wheel for Linux systems since 2014 in dist, and check it in an empty environment
	@rm -rf dist out/wheel
	@echo "== building the wheel ($(MANYLINUX)): some minutes"
	@VIRTUAL_ENV=$(abspath $(VENV)) PATH="$(abspath $(BIN)):$$PATH" $(BIN)/maturin build --release --locked --zig \
	  --compatibility $(MANYLINUX) --out dist >$(VENV)/wheel.log 2>&1 || { cat $(VENV)/wheel.log; exit 1; }
	@$(PYTHON) -m venv out/wheel
	@out/wheel/bin/pip $(PIP_INSTALL) dist/*.whl
	@cd out/wheel && bin/ftlab --version && bin/ftlab run tlc-aged --workload zipf --requests 20000 --out result
	@ls -l dist/*.whl

# C libraries of traces are compiled by Zig, as for the wheel.
TARGETS ?= x86_64-pc-windows-gnu aarch64-apple-darwin
targets: $(VENV)/.wheel ## look whether the crates compile for Windows and macOS (rustup target add TARGET)
	@command -v rustup >/dev/null || { echo "make targets needs rustup, which has Rust's libraries of other systems: https://rustup.rs"; exit 1; }
	@for target in $(TARGETS); do \
	  rustup target list --installed | grep -qx $$target || { echo "$$target: not installed: rustup target add $$target"; exit 1; }; \
	  PYTHON=$(abspath $(BIN))/python tests/check_target $$target || exit 1; \
	done

bench: $(VENV)/.built ## speed, with result hashes and the ratio to the limits of the machine
	@for bench in crates/*/examples/*_bench.rs; do \
	  crate=$$(basename $$(dirname $$(dirname $$bench))); name=$$(basename $$bench .rs); \
	  echo "== $$crate: $$name"; \
	  cargo run --release --locked --quiet --package $$crate --example $$name || exit 1; \
	done
	@cargo run --release --locked --quiet --package ftlab-bench
	@echo "== ftlab: studies"
	@$(BIN)/python benches/study.py

# No test is left out because of what pip can install.
test-long: $(VENV)/.built $(VENV)/.dev $(VENV)/.ray $(VENV)/.site $(VENV)/.looks lint ## all tests, with all seeds and many more random cases, then an hour of fuzzing
	@FTLAB_LONG=1 FTLAB_FUZZ_SECONDS=10 cargo test --workspace --locked --release --quiet --tests -- --include-ignored
	@cargo test --workspace --locked --release --quiet --doc
	@FTLAB_LONG=1 $(BIN)/pytest
	@$(MAKE) --no-print-directory fuzz FUZZ_SECONDS=3600

FUZZ_SECONDS ?= 60
fuzz: ## random drives, damaged traces and damaged files for a minute, or FUZZ_SECONDS=3600
	@cargo run --release --locked --quiet -p ftlab-fuzz -- --seconds $(FUZZ_SECONDS) --out out/fuzz

docs: $(VENV)/.built ## write what the documentation takes from the code: help texts, lists, and what runs print
	@$(BIN)/python docs/generate.py

lock: $(VENV)/.dev ## resolve the Python requirements anew
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-header --no-emit-index-url \
	  pyproject.toml requirements.in --output-file requirements.txt
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-header --no-emit-index-url \
	  requirements-dev.in --constraint requirements.txt --output-file requirements-dev.txt
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-header --no-emit-index-url \
	  requirements-ray.in --constraint requirements.txt --constraint requirements-dev.txt --output-file requirements-ray.txt
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-header --no-emit-index-url \
	  requirements-site.in --constraint requirements.txt --constraint requirements-dev.txt --output-file requirements-site.txt
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-header --no-emit-index-url \
	  requirements-looks.in --constraint requirements.txt --constraint requirements-dev.txt --output-file requirements-looks.txt
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-header --no-emit-index-url \
	  requirements-wheel.in --constraint requirements.txt --output-file requirements-wheel.txt

clean: ## remove what was built
	@rm -rf target $(VENV) out dist
