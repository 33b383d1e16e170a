"""Fusing is slower than not fusing."""

from __future__ import annotations

from collections.abc import Iterator

from portkit.analysis.findings.rule import Finding, Rule, Severity, each
from portkit.analysis.points import Context, fastest
from portkit.model import Ratio
from portkit.store.merge import Row

_UNFUSED = "eager"
"""The baseline that fuses nothing."""


def _check(rule: Rule, context: Context) -> Iterator[Finding]:
    for point, rows in fastest(context.points):
        slower = [row for row in rows if _is_slower(row)]
        if slower:
            text = (
                f"Even the fastest variant is slower than eager: its speed is {each(slower, _share)} (95 % intervals). "
                "The bytes that it saves are outweighed by something else."
            )
            yield rule.finding(point, slower, [row for row in point.measured if not _is_slower(row)], text)


def _is_slower(row: Row) -> bool:
    ratio = _ratio(row)
    return bool(ratio and ratio.high is not None and ratio.high < 1)


def _ratio(row: Row) -> Ratio | None:
    return row.record.timing.speedup.get(_UNFUSED) if row.record.timing else None


def _share(row: Row) -> str:
    ratio = _ratio(row)
    return f"{ratio.value:.2f} ({ratio.low:.2f} to {ratio.high:.2f}) of eager's" if ratio else "unknown"


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
