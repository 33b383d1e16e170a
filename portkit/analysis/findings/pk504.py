"""No hardware counters."""

from __future__ import annotations

from collections.abc import Iterator

from portkit.analysis.findings.rule import Finding, Rule, Severity
from portkit.analysis.points import Context

_NOT_ASKED = "they were not asked for"


def _check(rule: Rule, context: Context) -> Iterator[Finding]:
    for point in context.points:
        for row in point.measured:
            if row.record.outcome.status.good and not (row.counters and row.counters.functions):
                told = row.counters.nulls.get("functions") if row.counters else row.record.nulls.get("counters")
                text = (
                    f"No counters of this row on {row.record.cell.target}: {told or _NOT_ASKED}. "
                    "Its achieved occupancy and its traffic are unknown."
                )
                yield rule.finding(point, [row], [], text)


RULE = Rule(
    id="PK504",
    title="No hardware counters",
    severity=Severity.INFO,
    evidence="counters of measured rows, or the reason why there are none",
    cause="The profiler is not there, the driver does not permit counters to this user, or they were not asked for.",
    cost="Achieved occupancy and DRAM traffic stay unknown, so what limits the kernel can only be guessed "
    "from its registers and its time.",
    remedy="portkit doctor names what is missing and how to permit it; then run the rows again.",
    check=_check,
)
