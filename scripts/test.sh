#!/usr/bin/env bash
# Runs the checks and then the tests, both in any case: test.sh VENV [pytest's options]
set -uo pipefail

cd "$(dirname "$0")/.." || exit 1
venv=${1:?usage: test.sh VENV [options]}
status=0
scripts/lint.sh "$venv" || status=1
"$venv/bin/python" -m pytest "${@:2}" || status=$?
((status == 0)) || echo "failed: see above" >&2
exit "$status"
