#!/usr/bin/env bash
# Runs the checks and then the tests, both in any case: test.sh VENV [pytest's options]
set -uo pipefail

cd "$(dirname "$0")/.." || exit 1
venv=${1:?usage: test.sh VENV [options]}
lint=0 tests=0
# What tests need of the system is fetched while one core looks at the style.
{ scripts/chromium.sh; scripts/slurm.sh; } &
scripts/actionlint.sh "$venv" &
scripts/lint.sh "$venv" || lint=1
wait
# Two files at a time, those that take long first: many tests start runs that use every core themselves.
"$venv/bin/python" -m pytest -n 2 --dist loadfile --no-loadscope-reorder "${@:2}" || tests=$?
((lint == 0)) || echo "style, types or import rules failed: see above the tests" >&2
exit $((tests != 0 ? tests : lint))
