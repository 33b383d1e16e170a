"""A cliff between neighbouring shapes."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Iterable, Iterator

from portkit.analysis.findings.rule import Finding, Rule, Severity
from portkit.analysis.points import Context, Point
from portkit.store.alike import mode
from portkit.store.merge import Row

_JUMP = 1.5
"""Time per byte of the larger shape ÷ that of the smaller."""
_NEIGHBOURS = 4
"""Most times that a neighbour is larger."""
_LEAST_MS = 0.01
"""Below it the launch decides."""


def _check(rule: Rule, context: Context) -> Iterator[Finding]:
    for series in _series(context.points):
        for (_, small), (point, large) in itertools.pairwise(series):
            one, other, sizes = _rate(small), _rate(large), _bytes(large) / _bytes(small)
            if one and other and 1 < sizes <= _NEIGHBOURS and _falls(small, large):
                text = (
                    f"On {large.record.cell.target} the rate falls from {one:.0f} GB/s at "
                    f"{small.record.cell.shape_text} to {other:.0f} GB/s at {large.record.cell.shape_text}, "
                    f"{one / other:.2f} times, where the operation moves {sizes:.1f} times as many bytes."
                )
                yield rule.finding(point, [large], [small], text)


def _falls(small: Row, large: Row) -> bool:
    """Whether both bytes and operations take longer: where arithmetic bounds, fewer bytes a second are no cliff."""
    before, after = (_per_second(row) for row in (small, large))
    return all(one > _JUMP * other for one, other in zip(before, after, strict=True) if one or other)


def _per_second(row: Row) -> tuple[float, float]:
    """Bytes and floating-point operations of the work model ÷ time, in units of one row to the next alike."""
    rate, work = _rate(row), row.record.work
    return (rate, rate * work.flops / work.fused_bytes) if rate and work else (0.0, 0.0)


def _series(points: Iterable[Point]) -> list[list[tuple[Point, Row]]]:
    """Rows of one kernel, variant and target in one cache mode and clock state, by size."""
    groups: dict[tuple[object, ...], list[tuple[Point, Row]]] = collections.defaultdict(list)
    for point in points:
        for row in point.measured:
            if row.record.work and row.record.timing:
                place = row.record.cell.target, mode(row.record.timing)
                key = (point.case, point.direction, point.dtype, point.variant, point.source, *place)
                groups[key].append((point, row))
    return [sorted(group, key=lambda each: _bytes(each[1])) for group in groups.values()]


def _bytes(row: Row) -> int:
    return row.record.work.fused_bytes if row.record.work else 0


def _rate(row: Row) -> float | None:
    """GB/s of the operation's bytes, on the trace where there is one; None below what a launch takes."""
    timing = row.record.timing
    clock = (timing.fused.trace or timing.fused.events) if timing else None
    if clock is None or clock.median_ms < _LEAST_MS:
        return None
    return _bytes(row) / clock.median_ms / 1e6


RULE = Rule(
    id="PK407",
    title="A cliff between neighbouring shapes",
    severity=Severity.INFO,
    evidence="times of measured rows of one variant at several shapes",
    cause="From one shape to the next larger one the time per byte jumps: the tile no longer fits registers, "
    "a row no longer fits one block, a stride meets a bank or channel of memory, or the last wave of "
    "blocks is nearly empty.",
    cost="Just over the edge the operation costs more than its size explains, on that target and not on others.",
    remedy="Look what changes there: spills and occupancy of both rows, blocks against units. Pad, or use "
    "another variant past the edge.",
    check=_check,
)
