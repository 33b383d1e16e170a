"""How many times faster the fused function is than each baseline, per target."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from portkit.analysis.functions import FUSED
from portkit.analysis.rows import Comparison, ComparisonRow
from portkit.analysis.views.operations import Operation, by_operation


@dataclass(frozen=True)
class Speedup:
    """The fused function against one baseline on one target and one clock."""

    target: str
    baseline: str
    clock: str  # events: end to end; trace: kernels alone
    value: float  # baseline median ÷ fused median
    low: float | None  # 95 % interval
    high: float | None


@dataclass(frozen=True)
class Speedups:
    """All of one operation and variant."""

    operation: Operation
    speedups: tuple[Speedup, ...]


def speedups(comparison: Comparison) -> tuple[Speedups, ...]:
    """Every variant that was timed against any baseline, in the table's order."""
    made = (Speedups(key, tuple(_of_rows(rows))) for key, rows in by_operation(comparison.rows))
    return tuple(each for each in made if each.speedups)


def _of_rows(rows: Iterable[ComparisonRow]) -> Iterator[Speedup]:
    for row in rows:
        for function in row.functions:
            for clock, ratio in (("events", function.speedup), ("trace", function.speedup_kernel)):
                if ratio is not None and function.name != FUSED:
                    yield Speedup(row.target, function.name, clock, ratio.value, ratio.low, ratio.high)
