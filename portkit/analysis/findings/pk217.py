"""The compiler fails on some targets."""

from __future__ import annotations

from collections.abc import Iterator

from portkit.analysis.findings.failures import compiler_fails, status_and_message
from portkit.analysis.findings.rule import Finding, Rule, Severity, each, listed, names
from portkit.analysis.points import Context


def _check(rule: Rule, context: Context) -> Iterator[Finding]:
    for point in context.points:
        rows = [row for row in point.attempts if compiler_fails(row, point)]
        others = [row for row in point.attempts if row.record.build and row.record.outcome.status.good]
        if rows and others:
            text = (
                f"Triton {rows[0].record.triton} fails to build it: {each(rows, status_and_message)}, and builds it "
                f"for {listed(names(others))}. The operation does not run there with this version."
            )
            yield rule.finding(point, rows, others, text)


RULE = Rule(
    id="PK217",
    title="The compiler fails on some targets",
    severity=Severity.ERROR,
    evidence="status and message of the build",
    cause="The backend of these targets fails at code that others build: a pass asserts, LLVM can not select "
    "an instruction, or the assembler refuses what the compiler wrote. The fault is the compiler's, and "
    "often that of one version.",
    cost="The operation does not run on those targets with this Triton.",
    remedy="Try another Triton version and other num_stages, avoid the operation on those targets (bfloat16 "
    "arithmetic on RDNA2, small float32 dots on gfx942), and report it with the kernel.",
    check=_check,
)
