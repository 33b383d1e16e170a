"""Tensor memory over the limit."""

from __future__ import annotations

from collections.abc import Iterator

from portkit.analysis.findings.rule import Finding, Rule, Severity, listed, names
from portkit.analysis.points import Context, broken


def _check(rule: Rule, context: Context) -> Iterator[Finding]:
    for point in context.points:
        over = [row for row in point.attempts if broken(row, "tensor memory")]
        if over:
            others = [row for row in point.attempts if row not in over and row.record.build]
            told = listed(dict.fromkeys(f"{row.record.cell.target} ({broken(row, 'tensor memory')})" for row in over))
            fits = f"; it fits {listed(names(others))}" if others else ""
            text = (
                f"A block asks for more tensor memory than an SM has: {told}{fits}. "
                "The launch fails there, at run time and not when it is compiled."
            )
            yield rule.finding(point, over, others, text)


RULE = Rule(
    id="PK106",
    title="Tensor memory over the limit",
    severity=Severity.ERROR,
    evidence="the binary, against the limits of the target",
    cause="On sm_100 accumulators and operands live in tensor memory, 512 columns an SM; several accumulators "
    "or large tiles add up to more.",
    cost="The launch fails, so the operation does not run on that target with this configuration.",
    remedy="Use smaller tiles or fewer accumulators that live at once; two kernels instead of one where both "
    "products need large ones.",
    check=_check,
)
