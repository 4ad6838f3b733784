# Every target sets up what it needs; the second time that takes no time.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
WORKERS ?= 2

.DEFAULT_GOAL := help
.PHONY: help demo test check fix bench clean

help:  ## say what there is
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-6s  %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(READY)  ## run every ranker a few hundred rounds: a table and a figure in demo/
	$(BIN)/perturank demo

test: check  ## run the checks and all tests
	@scripts/make-postgres
	$(BIN)/pytest -n $(WORKERS)

check: $(READY)  ## lint, formatting, types, direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

fix: $(READY)  ## mend what can be mended by machine
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY)  ## measure how fast everything is: one table, about two minutes
	$(BIN)/perturank bench

clean:  ## remove everything that make has made
	rm -rf $(VENV) demo dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

$(READY): pyproject.toml scripts/make-venv
	@scripts/make-venv "$(PYTHON)" "$(VENV)"
	@$(BIN)/pip install --disable-pip-version-check --quiet --editable '.[all,dev]'
	@touch $@
