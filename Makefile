# Every target sets up what it needs; the second time that takes no time.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# One more than the cores of a small machine: tests that wait, for a window or another process, leave theirs to others.
WORKERS ?= 3
# Most of the tests' time is compilation: where no bits are compared, code is generated without being optimised.
LIGHTLY = $(shell $(BIN)/python -c 'from perturank.machine import *; print(as_flags({**older_generator(), "xla_backend_optimization_level": 0}))')
# Not --quiet, which hides the warnings that --strict counts. Material prints a notice of its own unless told not to.
MKDOCS := NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
# Rankers are timed beside the plain ones in tests/oracles.
BENCHMARKS := PYTHONPATH="$(CURDIR)/tests:$$PYTHONPATH" $(BIN)/python -m benchmarks

.DEFAULT_GOAL := help
.PHONY: help setup demo play test test-light test-as-shipped test-long programs check check-types check-rest audit fix docs bench bench-service bench-models bench-import bench-shop bench-attack web typescript clean

help:  ## say what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s  %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY)  ## set everything up, and no more

demo: $(READY)  ## run the paper's comparison in small: a table, figures and demo/report.html
	$(BIN)/perturank reproduce --scale demo --out demo

play: $(READY)  ## search Python's own documentation in a browser, click, and watch it learn
	$(BIN)/perturank play

test: $(READY)  ## run the checks and all tests
	@$(MAKE) --no-print-directory -j 3 check programs
	@$(MAKE) --no-print-directory -j 2 test-light test-as-shipped

test-light: $(READY)
	XLA_FLAGS="$(LIGHTLY)" $(BIN)/pytest -n $(WORKERS) --max-worker-restart=0 -m "not as_shipped"

# Beside the others, in one process: some of those wait, for a window to close or a server to start.
test-as-shipped: $(READY)
	$(BIN)/pytest -q -n 0 -m as_shipped $$(grep -rl --include='test_*.py' as_shipped tests)

test-long: $(READY)  ## a hundred kills, tens of thousands of broken requests
	@scripts/make-postgres
	$(BIN)/pytest -n 0 --long -m long

programs:
	@scripts/make-postgres
	@scripts/make-chromium
	@scripts/make-prometheus
	@scripts/make-typescript

check: check-types check-rest  ## lint, formatting, types, direction of imports, documentation, dependencies

check-types: $(READY)
	$(BIN)/mypy

check-rest: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(MKDOCS)
	$(BIN)/pip check
	@$(BIN)/python scripts/audit $(BIN)/pip-audit

audit: $(READY)  ## known vulnerabilities of dependencies; fails if nobody can be asked
	$(BIN)/pip check
	$(BIN)/python scripts/audit $(BIN)/pip-audit --required

fix: $(READY)  ## mend what can be mended by machine
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(READY)  ## build the documentation
	@$(MKDOCS)
	@echo "documentation: site/index.html"

bench: $(READY)  ## measure how fast everything is: one table, about three minutes; ARGS="rankers --quick"
	$(BENCHMARKS) speed $(ARGS)

bench-service: $(READY)  ## measure what the service withstands; ARGS="--rate 300 --soak 10"
	$(BENCHMARKS) service $(ARGS)

bench-models: $(READY)  ## measure a service with a thousand small models; ARGS="--models 200"
	$(BENCHMARKS) models $(ARGS)

bench-import: $(READY)  ## measure how fast old clicks get into a log and are learned; ARGS="--lists 200000"
	$(BENCHMARKS) import $(ARGS)

bench-shop: $(READY)  ## let a made-up shop's customers teach the service, beside LightGBM; ARGS="--searches 1000 --seeds 1"
	$(BENCHMARKS) shop $(ARGS)

bench-attack: $(READY)  ## let hostile clicks promote a product in a made-up shop; ARGS="--shares 5 --seeds 1"
	$(BENCHMARKS) attack $(ARGS)

web:  ## build the pages of the service from web/ into the package; needs Node
	cd web && npm install --no-audit --no-fund && npm run build

typescript: $(READY)  ## write the types and methods of the TypeScript client from the OpenAPI document
	$(BIN)/python clients/typescript/generate.py

clean:  ## remove everything that make has made
	rm -rf $(VENV) web/node_modules clients/typescript/node_modules .compiled demo results dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# Python compiles what it imports; pip would compile some 17,000 files, most of which nobody imports.
$(READY): pyproject.toml scripts/make-venv
	@scripts/make-venv "$(PYTHON)" "$(VENV)"
	@$(BIN)/pip install --disable-pip-version-check --quiet --no-compile --editable '.[all,dev]'
	@touch $@
