"""How far outputs of other targets lie from those of a first one, on the same inputs."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from portkit.analysis.distance import Distance
from portkit.analysis.rows import Comparison
from portkit.analysis.views.operations import Operation


@dataclass(frozen=True)
class Pair:
    """One output of one run beside the first run's."""

    other: str  # target and evidence
    output: str  # position, or "grad x"
    identical: bool  # all bits of the whole output
    ulp: int | None  # most steps between neighbouring numbers over the samples; None: NaN or Inf differ
    absolute: float | None
    relative: float | None
    samples: int
    differing: int  # of the samples


@dataclass(frozen=True)
class Apart:
    """All pairs of one operation."""

    operation: Operation
    one: str  # target and evidence that the others are held against
    pairs: tuple[Pair, ...]


def apart(comparison: Comparison) -> tuple[Apart, ...]:
    """One an operation and first run whose outputs could be compared."""
    groups = itertools.groupby(comparison.distances, key=lambda found: (_operation(found), found.one))
    made = (Apart(operation, _place(one), tuple(_pairs(found))) for (operation, one), found in groups)
    return tuple(each for each in made if each.pairs)


def _operation(found: Distance) -> Operation:
    return Operation(found.kernel, found.direction, found.shape, found.dtype, None)


def _place(run: str) -> str:
    """Without the run's id."""
    return run.partition(" (")[0]


def _pairs(distances: Iterable[Distance]) -> Iterator[Pair]:
    for found in distances:
        for out in found.outputs:
            yield Pair(
                _place(found.other),
                out.output,
                out.identical,
                0 if out.identical else out.max_ulp,
                out.max_abs,
                out.max_rel,
                out.samples,
                out.differing,
            )
