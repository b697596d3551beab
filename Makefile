# Every target is one command; what it needs is set up first (quick when nothing changed).
#   PYTHON=python3.12            the interpreter .venv is made from (3.11 to 3.13)
#   PIP_EXTRA_INDEX_URL=…        PyTorch's CPU index, for machines without a GPU (requirements.lock)
#   STUDY=studies/mine.yaml      what `make demo` runs
#   RUN="--max-usd 5"            further options of `stepcast run`, for `make demo`
#   ACCURACY="demo"               studies that `make accuracy` rebuilds; all unless given
#   PYTEST="-k links"            what `make test` passes to pytest, instead of running its tests

BIN := .venv/bin
STUDY ?= studies/demo.yaml
# This study, and no other, rents from a stand-in of EC2 on this machine: no account, no bill (docs/ec2.md).
STAND_IN = $(if $(filter studies/demo_ec2.yaml,$(STUDY)),$(BIN)/python -m tests.profilers.renting.instances)
RUN ?=
PYTEST ?=

# Tests start hundreds of programs, and pytest rewrites every test module: without caches each compiles all of it anew.
unexport PYTHONDONTWRITEBYTECODE
# Beside tests that tell how fast something was, nothing may run. Of the others three run on two cores, as some wait;
# whoever has none left takes some of another's, from the end. A crash of an interpreter ends the run: in place of one
# that crashed, pytest-xdist would start another that waits for ever (its issue 784).
AT_ONCE := --numprocesses 3 --dist worksteal --max-worker-restart 0

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all ui accuracy lint lock clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## create .venv with the locked packages, install missing system tools
	@scripts/setup.sh

demo: setup ## profile one worker, predict many, measure them, show the error
	$(BIN)/stepcast load public
	$(STAND_IN) $(BIN)/stepcast run $(STUDY) $(RUN)

test: setup ## run what every push has to pass, tests on an emulated cluster included
ifeq ($(PYTEST),)
	$(BIN)/pytest -m "not measuring and not exhaustive" $(AT_ONCE)
	$(BIN)/pytest -m "measuring and not exhaustive" tests/profilers
else
	$(BIN)/pytest $(PYTEST)
endif

test-all: setup ## run all tests: kills by the hundred, every format fuzzed
	STEPCAST_MOMENTS=100 $(BIN)/pytest -m "not measuring" --hypothesis-profile other $(AT_ONCE)
	$(BIN)/pytest -m measuring tests/profilers

ui: setup ## open Dagster on everything that ran
	$(BIN)/stepcast ui

accuracy: setup ## rebuild every accuracy figure from data/reference alone
	$(if $(STEPCAST_HOME),,rm -rf .stepcast/accuracy)
	STEPCAST_HOME=$(or $(STEPCAST_HOME),.stepcast/accuracy) $(BIN)/stepcast reproduce data/reference \
		$(addprefix --study ,$(ACCURACY))
	@echo "GPUs, from data/public alone (docs/gpus.md):"
	$(BIN)/stepcast bench gpu --page $(or $(STEPCAST_HOME),.stepcast/accuracy)/accuracy.md

lint: setup ## ruff, mypy and Dagster's own check, as continuous integration runs them
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	VIRTUAL_ENV=$(CURDIR)/.venv DAGSTER_DISABLE_TELEMETRY=yes $(BIN)/dg check defs

lock: setup ## write requirements.lock from what .venv holds
	scripts/lock.sh

clean: ## remove .venv and caches; measurements in .stepcast stay
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis build stepcast.egg-info
	find . -name .git -prune -o -name __pycache__ -type d -exec rm -rf {} +
