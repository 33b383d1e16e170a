# make benchmark   the matrix on this host, and the comparison of it
# make test        style, types, import rules and tests
# make lint        the first three of them
# make clean       removes what these made, reports kept
#
# ARGS="…" goes to pytest, PYTHON=… names the interpreter, VENV=… the environment.

VENV ?= .venv
ARGS ?=
export PYTHON

.PHONY: benchmark test lint clean environment
.DEFAULT_GOAL := benchmark

benchmark: environment
	@scripts/benchmark.sh $(VENV) $(ARGS)

test: environment
	@scripts/test.sh $(VENV) $(ARGS)

lint: environment
	@scripts/lint.sh $(VENV)

environment:
	@scripts/environment.sh $(VENV)

clean:
	rm -rf .venv .venv-* .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .benchmarks build dist *.egg-info
	find . -path ./.git -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +
