"""Refused on some targets."""

from __future__ import annotations

from collections.abc import Iterator

from portkit.analysis.findings.failures import message, refuses
from portkit.analysis.findings.rule import Finding, Rule, Severity, each, listed, names
from portkit.analysis.points import Context


def _check(rule: Rule, context: Context) -> Iterator[Finding]:
    for point in context.points:
        rows = [row for row in point.attempts if refuses(row, point)]
        others = [row for row in point.attempts if row.record.build and row.record.outcome.status.good]
        if rows and others:
            text = (
                f"Refused: {each(rows, message)}. "
                f"It builds on {listed(names(others))}, so one source can't serve all of them as it is."
            )
            yield rule.finding(point, rows, others, text)


RULE = Rule(
    id="PK216",
    title="Refused on some targets",
    severity=Severity.ERROR,
    evidence="status and message of the build",
    cause="The front end or the backend of these targets refuses something that others take: the least shape "
    "of a dot, which NVIDIA sets by element type and AMD hardly at all, a type, or an operation.",
    cost="The operation does not run on those targets with this configuration.",
    remedy="Take the strictest of the minima where one source is to run everywhere (K of at least 32 bytes on "
    "NVIDIA), or choose by the target.",
    check=_check,
)
