"""Another limit of the target is broken."""

from __future__ import annotations

from collections.abc import Iterator

from portkit.analysis.findings.rule import Finding, Rule, Severity, listed, names
from portkit.analysis.points import Context
from portkit.store.merge import Row

_NAMED = ("shared memory", "threads", "tensor memory")
"""Limits with a rule of their own."""


def _check(rule: Rule, context: Context) -> Iterator[Finding]:
    for point in context.points:
        over = [row for row in point.attempts if _other_limits(row)]
        if over:
            others = [row for row in point.attempts if row not in over and row.record.build]
            told = listed(f"{row.record.cell.target} ({'; '.join(_other_limits(row))})" for row in over)
            fits = f"; it fits {listed(names(others))}" if others else ""
            text = (
                f"The launch is over a limit of {told}{fits}. It fails there, at run time and not when it is compiled."
            )
            yield rule.finding(point, over, others, text)


def _other_limits(row: Row) -> list[str]:
    """Limits that the row breaks; none where a rule of its own names one, for that alone keeps it from running."""
    broken = list(row.record.build.limits_broken if row.record.build else ())
    return [] if any(text.startswith(_NAMED) for text in broken) else broken


RULE = Rule(
    id="PK109",
    title="Another limit of the target is broken",
    severity=Severity.ERROR,
    evidence="the binary and the grid, against the limits of the target",
    cause="Registers of a thread, named barriers and blocks of a grid have limits of their own on each "
    "platform: 65,535 blocks along y and z on NVIDIA, fewer than 2^32 threads along an axis on AMD, as "
    "many blocks as are resident at once for a cooperative grid.",
    cost="The launch fails, so the operation does not run on that target at this shape or with this configuration.",
    remedy="Put the long axis on x and compute the others from it, loop over blocks within a kernel, or size a "
    "cooperative grid by the device.",
    check=_check,
)
