# make benchmark   the matrix on this host, and the comparison of it
# make new-kernel NAME=…   a kernel case that works, with its test
# make test        style, types, import rules and tests
# make lint        the first three of them
# make test-diverging-full    every kernel on which compilers part ways, the slow ones too
# make test-triton-versions   the tests on Triton 3.5.1 to 3.9.0
# make docs        the documentation as a site, in build/site; links are checked
# make clean       removes what these made, reports kept
#
# ARGS="…" goes to pytest, PYTHON=… names the interpreter, VENV=… the environment.

VENV ?= .venv
ARGS ?=
export PYTHON

.PHONY: benchmark new-kernel test lint docs clean environment test-diverging-full test-triton-versions
.DEFAULT_GOAL := benchmark

benchmark: environment
	@scripts/benchmark.sh $(VENV) $(ARGS)

new-kernel: environment
	@$(VENV)/bin/portkit new $(NAME)

test: environment
	@scripts/test.sh $(VENV) $(ARGS)

test-diverging-full: environment
	@$(VENV)/bin/python -m pytest tests/diverging -m "slow or not slow" $(ARGS)

test-triton-versions: environment
	@ARGS="$(ARGS)" scripts/triton_versions.sh $(VENV)

lint: environment
	@scripts/lint.sh $(VENV)

docs: environment
	@NO_MKDOCS_2_WARNING=1 $(VENV)/bin/python -m mkdocs build --strict

environment:
	@scripts/environment.sh $(VENV)

clean:
	rm -rf .venv .venv-* .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .benchmarks build dist *.egg-info
	find . -path ./.git -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +
