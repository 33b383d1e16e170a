"""A speedup that does not carry over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from portkit.analysis.findings.rule import Finding, Rule, Severity, listed
from portkit.analysis.points import Context, Point
from portkit.model import Cell
from portkit.store.alike import mode
from portkit.store.merge import Row

_LESS = 0.8
"""Share of the best target's speedup, ends of intervals against each other, below which it did not carry over."""


_End = tuple[Row, float, float]
"""A row, and the ends of its speedup's interval."""


def _check(rule: Rule, context: Context) -> Iterator[Finding]:
    spread = {each.cell: each.relative for each in context.spreads if each.cell}
    for point in context.points:
        for ends in _alike(_ends(point, spread)):
            best, low, _ = max(ends, key=lambda each: each[1])
            behind = [row for row, _, high in ends if high < _LESS * low]
            if behind:
                text = (
                    f"Fusing makes it {_told(best)} times as fast as eager on {best.record.cell.target}, and "
                    f"{listed(f'{_told(row)} on {row.record.cell.target}' for row in behind)} (95 % intervals, widened "
                    "by what nodes differ in). What was gained on the one is not gained on the other."
                )
                yield rule.finding(point, behind, [best], text)


def _alike(ends: Sequence[_End]) -> list[list[_End]]:
    """Those of one cache mode and clock state together, where several targets have it."""
    groups: dict[tuple[bool, bool], list[_End]] = {}
    for each in ends:
        if timing := each[0].record.timing:
            groups.setdefault(mode(timing), []).append(each)
    return [group for group in groups.values() if len({row.record.cell.target for row, _, _ in group}) > 1]


def _ends(point: Point, spread: Mapping[Cell, float]) -> list[_End]:
    """Rows with the ends of their speedup's interval, widened by the spread between nodes."""
    found = []
    for row in point.measured:
        ratio = row.record.timing.speedup.get("eager") if row.record.timing else None
        if ratio and ratio.low is not None and ratio.high is not None:
            wider = spread.get(row.record.cell, 0.0) / 2
            found.append((row, ratio.low * (1 - wider), ratio.high * (1 + wider)))
    return found


def _told(row: Row) -> str:
    ratio = row.record.timing.speedup["eager"] if row.record.timing else None
    return f"{ratio.value:.2f} ({ratio.low:.2f} to {ratio.high:.2f})" if ratio else "unknown"


RULE = Rule(
    id="PK401",
    title="A speedup that does not carry over",
    severity=Severity.WARNING,
    evidence="times of measured rows, with their intervals and the spread between nodes",
    cause="Fusing saves bytes and launches; what these are worth differs: a target with more bandwidth per "
    "unit, a larger cache, dearer launches or spills gains something else from the same kernel.",
    cost="A decision to fuse that was made on one target costs time, or gains nothing, on another.",
    remedy="Read the findings of resources and lowering of the slower target first; tune there, or choose the "
    "unfused path by the target.",
    check=_check,
)
