"""Assembly of one vendor."""

from __future__ import annotations

from collections.abc import Iterator

from portkit.analysis.findings.failures import blames_assembly
from portkit.analysis.findings.rule import Finding, Rule, Severity, each, listed, names
from portkit.analysis.points import Context


def _check(rule: Rule, context: Context) -> Iterator[Finding]:
    for point in context.points:
        rows = [row for row in point.attempts if blames_assembly(row, point)]
        if rows:
            others = [row for row in point.attempts if row not in rows and row.record.outcome.status.good]
            builds = f" It builds on {listed(names(others))}." if others else ""
            text = (
                "The kernel's inline assembly ends the build as "
                f"{each(rows, lambda row: row.record.outcome.status.value)}: "
                f"it is text for another vendor, or has operands that no register class there holds.{builds}"
            )
            yield rule.finding(point, rows, others, text)


RULE = Rule(
    id="PK211",
    title="Assembly of one vendor",
    severity=Severity.ERROR,
    evidence="status and message of the build, and Triton IR of builds that succeeded",
    cause="The kernel has inline assembly, which is text for one vendor: the other assembler does not know "
    "the instructions, or LLVM has no register of the class that the constraint names.",
    cost="The operation does not run on the other vendor. Up to Triton 3.7 an unknown register class ends "
    "the process without an exception.",
    remedy="Write the operation with tl functions, or choose the text by the target in the host code and keep "
    "a portable form beside it.",
    check=_check,
)
