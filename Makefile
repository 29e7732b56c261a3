# podfleet: what a fresh machine needs is Python 3.11 or newer, its venv module, and make.

PYTHON ?= python3
# two more than there are processors, since many a test waits for another process
PYTEST_WORKERS ?= $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 2)))
SINCE ?= HEAD
PACKAGES := podfleet control_plane pod_worker events stages
BIN := .venv/bin/python -m
# groups run in the order in which they are collected: the slow ones first (tests/conftest.py)
PYTEST := $(BIN) pytest -n $(PYTEST_WORKERS) --maxprocesses 5 --dist loadgroup --no-loadscope-reorder --budget
# what is compiled is kept for the next program that a test starts, whatever the machine's own setting
export PYTHONDONTWRITEBYTECODE :=
# $(call step,NAME,COMMAND) runs a step of the gate and says how long it took.
step = @begun=$$(date +%s); $(2); status=$$?; echo "step $(1): $$(($$(date +%s) - begun)) s"; exit $$status

.PHONY: help setup demo demo-benchmark demo-tune demo-race check test test-all chaos lint style types tests tests-all browser format screenshots

help:
	@echo 'make demo      start the whole fleet on this machine and run one real experiment'
	@echo 'make demo-benchmark  the same with a small language model that it serves, and HumanEval for it'
	@echo 'make demo-tune  the same with six launch parameters of its engine, and which serves it best'
	@echo 'make demo-race  the same with four pods that race: whose model answers fastest'
	@echo 'make check     lint, the rules of the source tree, and the unit tests of what changed (SINCE=HEAD)'
	@echo 'make test      the gate: lint, and every test but the long forms'
	@echo 'make test-all  lint, and every test'
	@echo 'make chaos     10,000 simulated histories, ten minutes of real faults, every known bug caught'
	@echo 'make screenshots  pictures of every page of a filled fleet, into screenshots/'
	@echo 'make lint      format, lint, types, import contracts'
	@echo 'make format    write the format and the generated pages of docs that the gate asks for'
	@echo 'make setup     only install, into .venv'

setup:
	$(call step,setup,PYTHON='$(PYTHON)' scripts/setup.sh test)

# exec, so that Ctrl-C and SIGTERM reach the demo itself
demo:
	@PYTHON='$(PYTHON)' scripts/setup.sh demo
	@exec .venv/bin/python scripts/demo.py

demo-benchmark:
	@PYTHON='$(PYTHON)' scripts/setup.sh demo-benchmark
	@exec .venv/bin/python -m scripts.demo_benchmark

demo-tune:
	@PYTHON='$(PYTHON)' scripts/setup.sh demo-tune
	@exec .venv/bin/python -m scripts.demo_tune

demo-race:
	@PYTHON='$(PYTHON)' scripts/setup.sh demo-race
	@exec .venv/bin/python -m scripts.demo_race

check: lint
	$(call step,rules,$(BIN) pytest -q -n 0 tests/tidy --ignore tests/tidy/test_gate.py)
	$(call step,units,$(BIN) scripts.changed --since $(SINCE))

# types are checked beside the tests: that takes one processor for a minute, where nothing is cached
test: style browser
	@$(MAKE) --no-print-directory --jobs=2 types tests

test-all: style browser
	@$(MAKE) --no-print-directory --jobs=2 types tests-all

tests:
	$(call step,tests,$(PYTEST) -m 'not long')

tests-all:
	$(call step,tests,$(PYTEST))

browser: setup
	$(call step,browser,scripts/setup.sh browser)

screenshots: browser
	$(BIN) scripts.screenshots

chaos: setup
	$(BIN) testing.simulation --seeds 10000
	$(BIN) testing.chaos --seconds 600
	$(BIN) testing.chaos --control all

lint: style types

style: setup
	$(call step,format,$(BIN) ruff format --check .)
	$(call step,lint,$(BIN) ruff check .)
	$(call step,contracts,.venv/bin/python -c 'from importlinter.cli import lint_imports_command as gate; gate()')

types:
	$(call step,types,$(BIN) mypy $(PACKAGES) testing scripts)

format: setup
	$(BIN) ruff format .
	$(BIN) ruff check --fix .
	$(BIN) scripts.generate_docs
