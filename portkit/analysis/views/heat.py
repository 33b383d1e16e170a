"""Kernels × targets by one figure: of several rows of a kernel on a target the worst is shown.

The worst and not the mean: a kernel carries over where all of its shapes, dtypes and variants do.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from portkit.analysis.rows import ComparisonRow
from portkit.analysis.views.operations import operation_of
from portkit.analysis.views.standing import Standing, standing
from portkit.model import Evidence

STATUS: Final = "status"


@dataclass(frozen=True)
class Metric:
    """A figure that the map can show."""

    name: str  # field of a comparison's row
    title: str
    unit: str
    scale: float  # the field's value times this is shown in the unit
    highest: bool  # whether the highest value is the worst
    means: str


METRICS: Final = (
    Metric(
        STATUS,
        "Status",
        "",
        1,
        highest=False,
        means="✓ is built, or ran and passed",
    ),
    Metric("speedup", "Speedup", "×", 1, highest=False, means="eager ÷ fused, end to end on device events"),
    Metric(
        "share_of_bound",
        "Share of bound",
        "%",
        100,
        highest=False,
        means="kernel speedup over eager ÷ what saved bytes alone can gain",
    ),
    Metric(
        "occupancy_achieved_pct",
        "Occupancy achieved",
        "%",
        1,
        highest=False,
        means="by hardware counters, of the cycles in which a unit had work",
    ),
    Metric(
        "occupancy_pct",
        "Occupancy theoretical",
        "%",
        1,
        highest=False,
        means="what registers, shared memory and blocks allow",
    ),
    Metric(
        "registers_per_thread",
        "Registers",
        "",
        1,
        highest=True,
        means="registers a thread, of the launch that takes most",
    ),
    Metric(
        "spill_bytes_per_thread",
        "Spills",
        "B",
        1,
        highest=True,
        means="bytes a thread spills to memory, of the launch that spills most",
    ),
)


@dataclass(frozen=True)
class HeatCell:
    """One kernel on one target."""

    page: str  # kernel, and its direction if backward
    target: str
    value: float | None  # the worst, in the metric's unit; None of the status, or where it is unknown
    text: str  # status of the row shown; empty of a figure
    standing: Standing  # of the row shown
    evidence: Evidence  # of the row shown
    rows: int  # that have the figure
    reason: str | None  # why no row has it


def heat(rows: Iterable[ComparisonRow], metric: Metric) -> tuple[HeatCell, ...]:
    """The map of one metric, in the table's order."""
    groups: dict[tuple[str, str], list[ComparisonRow]] = collections.defaultdict(list)
    for row in rows:
        groups[operation_of(row).page, row.target].append(row)
    make = _status if metric.name == STATUS else _figure
    return tuple(make(page, target, group, metric) for (page, target), group in groups.items())


def _status(page: str, target: str, rows: Sequence[ComparisonRow], metric: Metric) -> HeatCell:
    worst = min(rows, key=lambda row: (standing(row).rank, list(Evidence).index(row.evidence)))
    return HeatCell(page, target, None, worst.status.value, standing(worst), worst.evidence, len(rows), worst.cause)


def _figure(page: str, target: str, rows: Sequence[ComparisonRow], metric: Metric) -> HeatCell:
    known = list(_known(rows, metric))
    if not known:
        first = rows[0]
        reason = first.nulls.get(metric.name)
        return HeatCell(page, target, None, "", standing(first), first.evidence, 0, reason)
    value, row = (max if metric.highest else min)(known, key=lambda pair: pair[0])
    return HeatCell(page, target, value, "", standing(row), row.evidence, len(known), None)


def _known(rows: Iterable[ComparisonRow], metric: Metric) -> Iterator[tuple[float, ComparisonRow]]:
    for row in rows:
        value = getattr(row, metric.name)
        if value is not None:
            yield value * metric.scale, row
