#!/usr/bin/env bash
# Checks style, types and the import rules; all of them, then the exit code: lint.sh VENV
set -uo pipefail

cd "$(dirname "$0")/.." || exit 1
bin=${1:?usage: lint.sh VENV}/bin
status=0

check() {
    echo "+ ${*/#$bin\//}"
    "$@" || status=1
}

check "$bin/ruff" check .
check "$bin/ruff" format --check .
check "$bin/mypy"
check "$bin/lint-imports" --no-cache
if command -v shellcheck >/dev/null; then
    check shellcheck scripts/*.sh portkit/fleet/job.sh .ci/run
fi
exit "$status"
