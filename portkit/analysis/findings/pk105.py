"""Threads of a block over the limit."""

from __future__ import annotations

from collections.abc import Iterator

from portkit.analysis.findings.rule import Finding, Rule, Severity, listed, names
from portkit.analysis.points import Context, broken


def _check(rule: Rule, context: Context) -> Iterator[Finding]:
    for point in context.points:
        over = [row for row in point.attempts if broken(row, "threads")]
        if over:
            others = [row for row in point.attempts if row not in over and row.record.build]
            told = listed(dict.fromkeys(f"{row.record.cell.target} ({broken(row, 'threads')})" for row in over))
            fits = f"; it fits {listed(names(others))}" if others else ""
            text = (
                f"num_warps asks for more threads than a block may have: {told}{fits}. "
                "The launch fails there, at run time and not when it is compiled."
            )
            yield rule.finding(point, over, others, text)


RULE = Rule(
    id="PK105",
    title="Threads of a block over the limit",
    severity=Severity.ERROR,
    evidence="the binary, against the limits of the target",
    cause="num_warps counts warps, and a warp is 64 threads on AMD CDNA and GCN and 32 elsewhere: "
    "num_warps=32 is 1,024 threads on one and 2,048 on the other, over the 1,024 that every target "
    "allows. Nothing says so before the launch.",
    cost="The launch fails, so the operation does not run on that target with this configuration.",
    remedy="Choose num_warps by the warp size: half as many where a warp has 64 threads.",
    check=_check,
)
