# Two commands do everything on a fresh machine: `make demo` and `make test`.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:

# Any Python 3.11+; the environment it builds lies outside the clone (see scripts/environment.py).
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
ifeq ($(PYTHON),)
PYTHON := python3
endif
VENV := .venv/bin/python
RUST := $(shell find rust/src -name '*.rs' 2>/dev/null)
# Arguments for pytest, as in `make test ARGS="tests/unit -k rewrite"`.
ARGS ?=
# How long `make fuzz` looks for a fault, on one core.
SECONDS := 60
# LLVM's coverage pass, which any stable compiler has; rust/fuzz/coverage.rs reads its counters.
COVERAGE := -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=3 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Ccodegen-units=1

.PHONY: help demo test test-rust fuzz lint format python build clean environment bench paper report conformance mutants compat soak soak-live distributed neighbour

help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

environment:
	@$(PYTHON) scripts/environment.py overlay >/dev/null

# Rebuilt when Rust or packaging changed, or when the overlay is new; Python is used from the clone.
.venv/.built: $(RUST) Cargo.toml pyproject.toml | environment
	@bash scripts/build.sh
	@touch $@

build: environment .venv/.built ## Set up the environment and build the extension module

demo: build ## A first decision, then RadixFlow against stock vLLM: real engines, on this machine
	@$(VENV) examples/first_decision.py
	@$(VENV) -m radixflow.cli bench --quick --name demo

bench: build ## Results of the paper from nothing, the report, and the figures: about an hour on two cores
	@bash scripts/bench.sh

report: build ## The report on the results that the paper quotes: report/report.html
	@$(VENV) -m radixflow.cli report $$($(VENV) paper/generate.py --folders) --out report

paper: build ## The write-up as PDF, its numbers from bench/results (Debian: latexmk, texlive-latex-recommended)
	@command -v latexmk >/dev/null || { echo "make paper needs LaTeX: apt-get install latexmk texlive-latex-recommended texlive-fonts-recommended" >&2; exit 3; }
	@$(VENV) paper/generate.py
	@cd paper && latexmk -pdf -silent -interaction=nonstopmode -halt-on-error -outdir=build main.tex >/dev/null || { tail -40 build/main.log >&2; exit 1; }
	@echo paper/build/main.pdf

test: build test-rust ## Every test: Rust, unit, scheduler, end to end
	@bash scripts/test.sh $(ARGS)

test-rust:
	@echo "Rust tests"; cargo test --quiet

fuzz: ## Random programs on the index and on a plain map, guided by coverage; keeps what fails (SECONDS=600)
	@RADIXFLOW_FUZZ_SECONDS=$(SECONDS) RUSTFLAGS="$(COVERAGE)" cargo test --quiet --profile fuzz --target-dir target/fuzz --test fuzz -- --ignored --nocapture --exact fuzz

lint: build ## Format, lint, types, layers, stubs
	@bash scripts/lint.sh

format: build ## Rewrite sources in the house format
	@$(VENV) -m ruff format . && $(VENV) -m ruff check --fix -q . && cargo fmt

conformance: build ## vLLM's own scheduler tests against every preset; writes docs/compatibility.md (up to half an hour)
	@$(VENV) tests/conformance/run.py

compat: build ## Download neighbouring vLLM wheels and say whether the edit fits, without importing them
	@$(VENV) scripts/compat.py $(ARGS)

neighbour: build ## The scheduler tests on another vLLM release, as if it were supported (VERSION=0.30.0)
	@$(VENV) tests/neighbours/run.py $(VERSION) $(ARGS)

soak: build ## A long life in simulation: memory, objects and index have to stay flat (ARGS="--calls 200000")
	@$(VENV) scripts/soak.py $(ARGS)

soak-live: build ## A real server for 20 minutes: 3 x 1,200 decisions at once, then a mix; a fifth of the clients leave
	@$(VENV) scripts/soak_live.py $(ARGS)

distributed: build ## Two tensor-parallel workers, and two data-parallel engines, on this CPU: some minutes
	@$(VENV) -m pytest -p no:cacheprovider tests/distributed $(ARGS)

mutants: build ## Plant known faults in copies of the package and see that tests catch each
	@$(VENV) tests/mutants/run.py

python: ## Print the path of the environment's interpreter
	@$(MAKE) -s build >&2
	@echo $(CURDIR)/$(VENV)

clean: ## Remove what was built in this clone (shared environment and results stay)
	@rm -rf .venv .build target .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache Cargo.lock python/radixflow/*.so
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
