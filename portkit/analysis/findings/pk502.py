"""Others used the GPU."""

from __future__ import annotations

from collections.abc import Iterator

from portkit.analysis.findings.rule import Finding, Rule, Severity
from portkit.analysis.points import Context


def _check(rule: Rule, context: Context) -> Iterator[Finding]:
    shared = {
        (probe.run_id, probe.device_id): probe.other_processes
        for probe in context.dataset.probes
        if probe.other_processes
    }
    for point in context.points:
        for row in point.measured:
            processes = shared.get((row.record.run_id, row.record.device_id or ""))
            if processes:
                text = (
                    f"{row.record.cell.target} had {processes} other process{'es' if processes > 1 else ''} when "
                    "the run of this row began. Its times are too long by an amount that nobody knows."
                )
                yield rule.finding(point, [row], [], text)


RULE = Rule(
    id="PK502",
    title="Others used the GPU",
    severity=Severity.WARNING,
    evidence="processes on the device when the run began",
    cause="Other processes were on the device when the run began, and share its units, caches and memory bandwidth.",
    cost="Times are too long by an amount that nobody knows and that changes.",
    remedy="Run on a device of your own; portkit doctor says who else is there.",
    check=_check,
)
