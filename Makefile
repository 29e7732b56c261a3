# podfleet: what a fresh machine needs is Python 3.11 or newer, its venv module, and make.

PYTHON ?= python3
PYTEST_WORKERS ?= auto
PACKAGES := control_plane pod_worker events stages
BIN := .venv/bin/python -m

.PHONY: help setup demo test chaos lint format screenshots

help:
	@echo 'make demo    start the whole fleet on this machine and run one real experiment'
	@echo 'make test    the gate: format, lint, types, import contracts, tests'
	@echo 'make chaos   10,000 simulated histories, ten minutes of real faults, every known bug caught'
	@echo 'make screenshots  pictures of every page of a filled fleet, into screenshots/'
	@echo 'make lint    the gate without the tests'
	@echo 'make format  write the format that the gate asks for'
	@echo 'make setup   only install, into .venv'

setup:
	@PYTHON='$(PYTHON)' scripts/setup.sh test

# exec, so that Ctrl-C and SIGTERM reach the demo itself
demo:
	@PYTHON='$(PYTHON)' scripts/setup.sh demo
	@exec .venv/bin/python scripts/demo.py

test: lint
	@scripts/setup.sh browser
	$(BIN) pytest -n $(PYTEST_WORKERS) --maxprocesses 4 --dist loadgroup

screenshots: setup
	@scripts/setup.sh browser
	$(BIN) scripts.screenshots

chaos: setup
	$(BIN) scripts.simulation --seeds 10000
	$(BIN) scripts.chaos --seconds 600
	$(BIN) scripts.chaos --control all

lint: setup
	$(BIN) ruff format --check .
	$(BIN) ruff check .
	$(BIN) mypy $(PACKAGES) scripts
	.venv/bin/python -c 'from importlinter.cli import lint_imports_command as gate; gate()'

format: setup
	$(BIN) ruff format .
	$(BIN) ruff check --fix .
