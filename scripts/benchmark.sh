#!/usr/bin/env bash
# Runs the matrix and prints the comparison, then what matters in it: benchmark.sh VENV [pytest's options]
#
# The merge always runs, and pytest's exit code comes after it: a red cell never
# hides the table.
set -euo pipefail

cd "$(dirname "$0")/.."
bin=${1:?usage: benchmark.sh VENV [options]}/bin
reports=reports/local
mkdir -p "$reports"
started=$(mktemp)
trap 'rm -f "$started"' EXIT

status=0
"$bin/python" -m pytest --benchmark "${@:2}" || status=$?

report=$(find "$reports" -maxdepth 1 -name '*.jsonl' -newer "$started" -printf '%T@ %p\n' | sort -n | tail -n 1 | cut -d' ' -f2-)
if [[ -z $report ]]; then
    echo "no report was written; pytest ended with exit code $status, see above" >&2
    exit $((status == 0 ? 1 : status))
fi
table=${report%.jsonl}.md
echo
"$bin/portkit" merge "$report"
"$bin/portkit" merge "$report" -o "$table" 2>/dev/null
echo
"$bin/portkit" report "$report"
cat <<END

report:     $report
comparison: $table
next:       $bin/portkit report $report --html report.html   (the same for a browser)
            $bin/portkit merge $reports/*.jsonl -o comparison.md   (add reports of other hosts to compare them)
END
exit "$status"
