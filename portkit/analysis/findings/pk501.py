"""Throttled while it was measured."""

from __future__ import annotations

from collections.abc import Iterator

from portkit.analysis.findings.rule import Finding, Rule, Severity
from portkit.analysis.points import Context


def _check(rule: Rule, context: Context) -> Iterator[Finding]:
    for point in context.points:
        for row in point.measured:
            reasons = row.record.timing.throttled if row.record.timing else ()
            if reasons:
                text = (
                    f"{row.record.cell.target} was slowed down while this row was timed ({', '.join(reasons)}). "
                    "Its times are those of a slower device."
                )
                yield rule.finding(point, [row], [], text)


RULE = Rule(
    id="PK501",
    title="Throttled while it was measured",
    severity=Severity.WARNING,
    evidence="state of the device while the row was timed",
    cause="The device lowered its clocks for heat or power while the row was timed, as its management library says.",
    cost="The times are those of a slower device: they say little about the kernel and nothing about a "
    "difference of some per cent.",
    remedy="Cool the device, lower the load beside it, or lock the clocks below what it holds; then run the "
    "rows again.",
    check=_check,
)
