# One way to do each thing. `make` alone prints this file's targets.

PYTHON ?= python3
BIN := .venv/bin
ROOMS := supervisor worker landing ipc policies
COVERAGE := $(BIN)/coverage
TESTERS ?= $(shell getconf _NPROCESSORS_ONLN)

# Pins hold for the packages, for what builds them, and for pip itself.
export PIP_CONSTRAINT := constraints.txt
export PIP_BUILD_CONSTRAINT := constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_ROOT_USER_ACTION := ignore

.DEFAULT_GOAL := help
.PHONY: help env run test format-check lint types arrows tests gates package format bench chaos coverage-map prove pins clean

help:  ## print what can be made
	@awk -F ':.*  ## ' '/^[a-z-]+:.*  ## / { printf "make %-13s %s\n", $$1, $$2 }' Makefile

env: .venv/.ready  ## make .venv with everything that the checks need (PYTHON=python3.12 picks another Python)

.venv/.ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "error: $(PYTHON) is older than 3.11; name a newer one: make env PYTHON=python3.12" >&2; exit 2; }
	@echo "$(PYTHON) -m venv --clear .venv"; $(PYTHON) -m venv --clear .venv \
	  || { echo "error: no venv in $(PYTHON); on Debian and Ubuntu: apt install python3-venv" >&2; exit 2; }
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --group dev --editable .
	@touch $@

run: env  ## the main job on real input: index the standard library, search it, kill a hung job
	$(BIN)/python -m examples.first_light

test: format-check lint types arrows tests gates package  ## all checks, cheapest first, stopping at the first failure
	@echo "all checks passed"

# Make runs the prerequisites of `test` in the order written; -j must not change that.
.NOTPARALLEL:

format-check: env
	$(BIN)/ruff format --check .

lint: env
	$(BIN)/ruff check .

types: env
	$(BIN)/mypy

arrows: env
	$(BIN)/lint-imports --no-logo

tests: env
	$(COVERAGE) erase
	@$(BIN)/python -m compileall -q $(ROOMS)  # for the thousands of processes that tests start
	$(COVERAGE) run -m pytest --numprocesses=$(TESTERS) --dist=worksteal $(PYTEST_ARGS)
	$(COVERAGE) combine --quiet
	@rm -f .coverage.*  # of a child that was killed while it wrote

gates: env
	$(COVERAGE) report
	$(COVERAGE) report --fail-under=100 --include='policies/*'
	$(COVERAGE) report --fail-under=100 --include='ipc/frame.py'

package: env
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python tests/smoke_wheel.py dist/*.whl

format: env  ## put every file in house format, and mend what ruff can mend
	$(BIN)/ruff check --fix --exit-zero --quiet .
	$(BIN)/ruff format .

bench: env  ## measure, as ratios in one run: make bench BENCH_ARGS=land names one
	$(BIN)/python -m benchmarks $(BENCH_ARGS)

chaos: env  ## kill a thousand supervisors, lose nothing: make chaos CHAOS_ARGS="--kills 50 --seed 7"
	$(BIN)/python -m tests.chaos $(CHAOS_ARGS)

coverage-map: env  ## write into docs/coverage.md which tests prove which row
	$(BIN)/python -m tools.coverage_map write

prove: env  ## run the tests that prove one row: make prove ROW=C150
	$(BIN)/python -m tools.coverage_map prove $(ROW)

pins: pyproject.toml  ## write constraints.txt anew: the newest versions that install together
	$(PYTHON) -m venv --clear .pins
	unset PIP_CONSTRAINT PIP_BUILD_CONSTRAINT; set -e; \
	  .pins/bin/python -m pip install --quiet --upgrade pip; \
	  .pins/bin/python -m pip install --quiet --group dev hatchling --editable .
	{ echo "# Every package that running, checking, measuring or building may install. Made by: make pins"; \
	  .pins/bin/python -m pip freeze --all --exclude-editable --exclude setuptools; } > .pins/constraints.txt
	mv .pins/constraints.txt constraints.txt
	rm -rf .pins

clean:  ## remove everything that is made
	rm -rf .venv .pins .demo dist build htmlcov .coverage .coverage.*
	rm -rf .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find $(ROOMS) tests benchmarks examples tools -name __pycache__ -prune -exec rm -rf {} +
