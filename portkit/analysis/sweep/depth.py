"""Speedup, registers and occupancy over the depth of a fused chain.

A chain is an operation whose first axis its kernel is unrolled by: at two depths or more a constant of the
launch has the value of that axis, as in the controls ``pointwise_chain`` (one value lives) and
``pointwise_fan_in`` (one more a stage). Speedup comes from measured rows alone; registers and occupancy from the
measured build, else from a compiled one.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from portkit.analysis.functions import FunctionRow
from portkit.analysis.rows import Comparison, ComparisonRow
from portkit.analysis.usable import why_unusable
from portkit.analysis.views.depth import unrolled
from portkit.model import Direction, Evidence, Ratio
from portkit.store.merge import Dataset

_BUILDS = (Evidence.MEASURED, Evidence.COMPILED)
"""Evidence with a build of the very shape, the better first."""

Key = tuple[str, Direction, tuple[int, ...], str, str, str, str | None]
"""Case, direction, other axes, dtype, variant, target, partition."""

Operation = tuple[str, Direction, tuple[int, ...], str, str]
"""The same without target and partition."""


@dataclass(frozen=True)
class Step:
    """One depth."""

    depth: int
    speedup: Ratio | None  # over the baseline, on events; None where it was not measured
    why_none: str  # the reason
    fusion_bound: float | None  # most that bytes allow
    registers_per_thread: float | None
    spill_bytes_per_thread: float | None
    occupancy_pct: float | None  # theoretical
    evidence: Evidence  # of registers, spills and occupancy


@dataclass(frozen=True)
class Chain:
    """One variant of a chain on one target."""

    kernel: str
    direction: Direction
    others: tuple[int, ...]  # the axes beside the depth
    dtype: str
    variant: str
    target: str
    partition: str | None
    steps: tuple[Step, ...]  # by depth
    missing: tuple[int, ...]  # depths that other rows of the operation have and that were not measured here

    @property
    def label(self) -> str:
        """Other axes, dtype and variant."""
        return " ".join(["x".join(map(str, self.others)), self.dtype, self.variant])


def chains(comparison: Comparison, dataset: Dataset, baseline: str = "eager") -> tuple[Chain, ...]:
    """Every chain with two depths or more on any target, in the table's order.

    Args:
        comparison: rows of any evidence.
        dataset: the merged reports that it was made from.
        baseline: what speedup is taken against.
    """
    names_of = unrolled(dataset)
    found = {key: rows for key, rows in _by_line(comparison).items() if _is_chain(rows, names_of)}
    depths: dict[Operation, set[int]] = collections.defaultdict(set)
    for key, rows in found.items():
        depths[key[:5]] |= {row.shape[0] for row in rows}
    return tuple(_chain(key, rows, depths[key[:5]], baseline) for key, rows in found.items())


def _by_line(comparison: Comparison) -> Mapping[Key, Sequence[ComparisonRow]]:
    found: dict[Key, list[ComparisonRow]] = collections.defaultdict(list)
    for row in comparison.rows:
        if len(row.shape) > 1 and row.evidence in _BUILDS:
            found[_key(row)].append(row)
    return found


def _is_chain(rows: Sequence[ComparisonRow], names_of: Callable[[ComparisonRow, int], frozenset[str]]) -> bool:
    several = len({row.shape[0] for row in rows}) > 1
    return several and bool(frozenset.intersection(*(names_of(row, 0) for row in rows)))


def _key(row: ComparisonRow) -> Key:
    return row.kernel, row.direction, row.shape[1:], row.dtype, row.variant, row.target, row.partition


def _chain(key: Key, rows: Sequence[ComparisonRow], depths: Iterable[int], baseline: str) -> Chain:
    by_depth: dict[int, list[ComparisonRow]] = collections.defaultdict(list)
    for row in rows:
        by_depth[row.shape[0]].append(row)
    steps = tuple(_step(depth, by_depth[depth], baseline) for depth in sorted(by_depth))
    timed = {step.depth for step in steps if step.speedup is not None}
    return Chain(*key, steps, tuple(sorted(set(depths) - timed)))


def _step(depth: int, rows: Sequence[ComparisonRow], baseline: str) -> Step:
    best = min(rows, key=lambda row: _BUILDS.index(row.evidence))
    speedup, why = _speedup(best, baseline)
    return Step(
        depth=depth,
        speedup=speedup,
        why_none=why,
        fusion_bound=best.fusion_bound,
        registers_per_thread=best.registers_per_thread,
        spill_bytes_per_thread=best.spill_bytes_per_thread,
        occupancy_pct=best.occupancy_pct,
        evidence=best.evidence,
    )


def _speedup(row: ComparisonRow, baseline: str) -> tuple[Ratio | None, str]:
    if row.evidence is not Evidence.MEASURED:
        return None, "not measured"
    if why := why_unusable(row, baseline):
        return None, why
    function = _named(row, baseline)
    return (function.speedup, "") if function and function.speedup else (None, f"{baseline} was not timed")


def _named(row: ComparisonRow, name: str) -> FunctionRow | None:
    return next((each for each in row.functions if each.name == name), None)
