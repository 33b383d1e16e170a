"""Cascades of performance portability: how it falls as targets join, best first."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

from portkit.analysis.portability import Portability, Share
from portkit.analysis.rows import Comparison
from portkit.analysis.views.operations import Operation

ALL = "all"
"""Name of the set of all targets whose efficiency is known."""


@dataclass(frozen=True)
class Step:
    """One more target."""

    place: int  # from 1
    target: str
    efficiency: float  # 0 to 1
    portability: float  # of the targets up to this one, 0 to 1


@dataclass(frozen=True)
class Cascade:
    """One variant over all targets whose efficiency is known."""

    operation: Operation
    clock: str
    steps: tuple[Step, ...]
    best: bool  # whether its portability is the highest of the operation's variants


def cascades(comparison: Comparison) -> tuple[Cascade, ...]:
    """One a variant that was measured anywhere, in the order of operations."""
    groups = itertools.groupby(comparison.portability, key=_operation)
    return tuple(each for _, group in groups for each in _of_operation(list(group)))


def worst_of_each(found: Iterable[Cascade]) -> tuple[Cascade, ...]:
    """Of each kernel the operation with the lowest portability, in its best variant; the lowest of all first."""
    worst: dict[str, Cascade] = {}
    for each in found:
        if each.best:
            kept = worst.setdefault(each.operation.page, each)
            if each.steps[-1].portability < kept.steps[-1].portability:
                worst[each.operation.page] = each
    return tuple(sorted(worst.values(), key=lambda each: each.steps[-1].portability))


def _operation(found: Portability) -> tuple[object, ...]:
    return found.kernel, found.direction, found.shape, found.dtype


def _of_operation(group: list[Portability]) -> list[Cascade]:
    shares = [(found, share) for found in group if (share := _over_all(found))]
    best = max(shares, key=lambda pair: pair[1].portability, default=None)
    return [_cascade(found, share, best=best is not None and found is best[0]) for found, share in shares]


def _over_all(found: Portability) -> Share | None:
    return next((share for share in found.shares if share.over == ALL), None)


def _cascade(found: Portability, share: Share, *, best: bool) -> Cascade:
    known = {each.target: each.efficiency for each in found.efficiencies if each.efficiency is not None}
    steps = tuple(Step(i, target, known[target], pp) for i, (target, pp) in enumerate(share.cascade, start=1))
    operation = Operation(found.kernel, found.direction, found.shape, found.dtype, found.variant)
    return Cascade(operation, found.clock, steps, best)
