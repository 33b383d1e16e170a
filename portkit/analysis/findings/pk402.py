"""Fusing is slower than not fusing."""

from __future__ import annotations

from collections.abc import Iterator

from portkit.analysis.findings.points import Context
from portkit.analysis.findings.rule import Finding, Rule, Severity, names


def _check(rule: Rule, context: Context) -> Iterator[Finding]:
    for point in context.points:
        for row in point.measured:
            slower = {
                name: ratio
                for name, ratio in (row.record.timing.speedup if row.record.timing else {}).items()
                if name in _UNFUSED and ratio.high is not None and ratio.high < 1
            }
            if slower:
                told = ", ".join(
                    f"{ratio.value:.2f} ({ratio.low:.2f} to {ratio.high:.2f}) of {name}"
                    for name, ratio in slower.items()
                )
                text = (
                    f"On {', '.join(names([row]))} the fused function is slower: its speed is {told}, with 95 % "
                    "intervals. "
                    "The bytes that it saves are outweighed by something else."
                )
                yield rule.finding(point, [row], [each for each in point.measured if each is not row], text)


_UNFUSED = ("eager",)
"""Baselines that fuse nothing."""


RULE = Rule(
    id="PK402",
    title="Fusing is slower than not fusing",
    severity=Severity.WARNING,
    evidence="times of measured rows, with their intervals",
    cause="The fused kernel moves fewer bytes and still takes longer: it spills, has low occupancy, or does "
    "one part of the work worse than the library kernel that the chain calls.",
    cost="The fused path costs time on that target.",
    remedy="Take the unfused path there, or fuse less: leave out the part that the library does better, most "
    "often a matrix product.",
    check=_check,
)
