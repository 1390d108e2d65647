# Every target makes the virtual environment it needs by itself.
#   make test PYTHON=python3.13 VENV=.venv-3.13    another interpreter
#   make test ARGS="-k lease -x"                   more arguments for the command
#   make test FULL=1                               all that an ordinary run takes a sample of

# The first interpreter that is new enough; `python3` itself wherever it is.
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
VENV ?= .venv
ARGS ?=
FULL ?=

BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PIP := $(BIN)/python -m pip --disable-pip-version-check
# Two workers: the tests wait on PostgreSQL more than on the processor.
WORKERS ?= 2

.DEFAULT_GOAL := help
.PHONY: help demo test check bench bench-peers fmt lock clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(STAMP) ## Run the guided demonstration
	$(BIN)/python -m examples.demo $(ARGS)

test: $(STAMP) ## Run the tests on SQLite and a real PostgreSQL
	$(if $(filter 1,$(FULL)),ONWARD_FULL_TESTS=1 )$(BIN)/python -m pytest -n $(WORKERS) $(ARGS)

check: $(STAMP) ## Check format, lint, types, layers and generated files
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python tools/make_sync.py --check

bench: $(STAMP) ## Run the benchmarks
	@$(BIN)/python -m bench $(ARGS)

bench-peers: $(STAMP) ## Measure Onward beside its peers
	@$(BIN)/python -m bench.peers $(ARGS)

fmt: $(STAMP) ## Format, fix what can be fixed, regenerate the sync twins
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .
	$(BIN)/python tools/make_sync.py

lock: ## Pin the newest development dependencies in requirements-dev.lock
	$(PYTHON) -m venv $(VENV)-lock
	$(VENV)-lock/bin/python -m pip install -qq --disable-pip-version-check uv
	$(VENV)-lock/bin/uv pip compile -q --upgrade --universal --python-version 3.11 --fork-strategy fewest \
		--generate-hashes --no-annotate --no-emit-index-url --no-emit-find-links \
		--custom-compile-command "make lock" --group dev pyproject.toml -o requirements-dev.lock
	@sed -i.old '1s/.*/# Pinned development dependencies, written by:/' requirements-dev.lock && rm requirements-dev.lock.old
	rm -rf $(VENV)-lock

clean: ## Remove the virtual environment and every cache
	rm -rf $(VENV) $(VENV)-lock dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMP): requirements-dev.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "onward needs Python 3.11 or newer: make PYTHON=/path/to/python" >&2; exit 1; }
	@test -x $(BIN)/python || { echo "Making $(VENV) with $(PYTHON)"; $(PYTHON) -m venv $(VENV); }
	@$(PIP) install -qq -r requirements-dev.lock
	@$(PIP) install -qq --no-deps --no-build-isolation -e .
	@touch $@
