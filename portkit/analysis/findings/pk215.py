"""Assembly missing from the output."""

from __future__ import annotations

from collections.abc import Iterator

from portkit.analysis.findings.failures import loses_assembly
from portkit.analysis.findings.rule import Finding, Rule, Severity, listed, names
from portkit.analysis.points import Context


def _check(rule: Rule, context: Context) -> Iterator[Finding]:
    for point in context.points:
        rows = [row for row in point.attempts if loses_assembly(row)]
        if rows:
            others = [row for row in point.attempts if row not in rows and row.record.outcome.status.good]
            text = (
                f"The build for {listed(names(rows))} ends well, but {rows[0].record.outcome.message}. "
                "Whatever the register held is taken for the result."
            )
            yield rule.finding(point, rows, others, text)


RULE = Rule(
    id="PK215",
    title="Assembly missing from the output",
    severity=Severity.ERROR,
    evidence="LLVM IR and machine text of the binary",
    cause="LLVM found no register for an operand of inline assembly, printed a line and went on, so the text "
    "is not in the machine code and its result is undefined. Up to Triton 3.7 the process ended there.",
    cost="The kernel builds, runs, and gives whatever the register held.",
    remedy="Use a constraint that the target has, or tl functions instead of the text; do not trust a build of "
    "this kernel on that target.",
    check=_check,
)
