"""Fits the tables of quadratics by which NVIDIA's special-function unit approximates, to results of a GPU.

    python scripts/record_functions.py RECORDED.npz      # on a host with an NVIDIA GPU
    python scripts/fit_interpolation.py RECORDED.npz…    # anywhere

Each result leaves the unit's sum an interval, as the sum is cut off. Of all coefficients that lie within all intervals
of a segment the roundest are taken: linear and square ones that are multiples of the largest power of two, and the
constant with the fewest bits. Writes ``portkit/emulate/ptx/data/interpolation.json``, and prints how many results the
tables miss.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from record_functions import read

from portkit.emulate.ptx.isa.interpolation import CUT, DATA, FUNCTIONS

Floats: TypeAlias = NDArray[np.float64]

FINEST = -6
"""Power of two below which no coefficient's last bit is looked for."""


@dataclass(frozen=True)
class Points:
    """What is known of one function's sums."""

    segment: NDArray[np.int64]
    linear: Floats  # what the coefficients are multiplied with
    square: Floats
    least: Floats
    most: Floats  # the sum is below it

    def of(self, segment: int) -> Points:
        """Those of one segment."""
        mine = self.segment == segment
        return Points(self.segment[mine], self.linear[mine], self.square[mine], self.least[mine], self.most[mine])


def main(recorded: list[Path]) -> None:
    """Fit all functions."""
    gathered: dict[str, list[Points]] = {}
    for span, arguments, results in itertools.chain.from_iterable(map(read, recorded)):
        name, *_, kind = span.instruction.split(".")
        if kind == "f32":
            gathered.setdefault(FUNCTIONS[name].table, []).append(points(name, arguments, results))
    tables = {name: table(name, joined(found)) for name, found in gathered.items()}
    DATA.write_text(json.dumps(tables) + "\n")


def joined(parts: list[Points]) -> Points:
    """All points, by segment."""
    names = ("segment", "linear", "square", "least", "most")
    return Points(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def points(name: str, arguments: NDArray[np.uint32], results: NDArray[np.uint32]) -> Points:
    """Intervals of sums of a function's regular arguments."""
    function = FUNCTIONS[name]
    x, y = arguments.view(np.float32), results.view(np.float32)
    plain = function.regular(x) & np.isfinite(y) & (y != 0)
    given, y = function.arguments(x[plain]), y[plain]
    value = np.abs(y).astype(np.float64) if given.signs is not None or given.scale is not None else y.astype(np.float64)
    last = np.spacing(np.abs(y)).astype(np.float64)
    least, most = np.where(value < 0, value - last, value), np.where(value < 0, value, value + last)
    power = np.broadcast_to(-23 if given.scale is None else given.scale >> 23, y.shape)
    least, most = (np.ldexp(side, -power) - (0 if given.added is None else given.added) for side in (least, most))
    if given.added is not None and not given.fine:
        least, most = _before_it_is_cut(least, most, value < 0)
    return Points(given.segment, *given.terms, least, most)


def _before_it_is_cut(least: Floats, most: Floats, negative: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Where sums lie whose multiples are, of positive results, from least on, and of negative ones up to most."""
    first = np.where(negative, np.floor(least / CUT) + 1, np.ceil(least / CUT))
    behind = np.where(negative, np.floor(most / CUT) + 1, np.ceil(most / CUT))
    return first * CUT, behind * CUT


def table(name: str, found: Points) -> list[list[float]]:
    """Coefficients of all segments, the constant first."""
    order = np.argsort(found.segment, kind="stable")
    found = Points(*(getattr(found, each)[order] for each in ("segment", "linear", "square", "least", "most")))
    ends: list[int] = np.asarray(np.searchsorted(found.segment, np.arange(found.segment[-1] + 2))).tolist()
    rows, missed = [], 0
    for first, last in itertools.pairwise(ends):
        part = slice(first, last)
        mine = Points(found.segment[part], found.linear[part], found.square[part], found.least[part], found.most[part])
        row, lost = quadratic(mine)
        rows.append(row)
        missed += lost
    print(f"{name}: {missed} of {len(found.segment)} results are another's", flush=True)
    return rows


def quadratic(given: Points) -> tuple[list[float], int]:
    """The roundest coefficients of one segment, and how many results they miss."""
    near = _middle(given)
    best: tuple[float, list[float]] = (-np.inf, [0.0])
    for unit in _units():
        for square, linear in itertools.product(*(_multiples(near[n], unit[n]) for n in (2, 1))):
            rest = linear * given.linear + square * given.square
            low, high = float(np.max(given.least - rest)), float(np.min(given.most - rest))
            if low < high:
                return [roundest(low, high), linear, square], 0
            if high - low > best[0]:
                best = high - low, [(low + high) / 2, linear, square]
    constant, linear, square = best[1]
    total = constant + linear * given.linear + square * given.square
    return best[1], int(np.count_nonzero((total < given.least) | (total >= given.most)))


def _middle(given: Points) -> Floats:
    """Coefficients through the middles of the intervals; those of narrow ones count most."""
    weight = 1 / (given.most - given.least)
    terms = np.stack([np.ones_like(given.linear), given.linear, given.square], axis=1)
    return np.asarray(np.linalg.lstsq(terms * weight[:, None], (given.least + given.most) / 2 * weight, rcond=None)[0])


def _units() -> Iterator[tuple[float, float, float]]:
    """Of linear and square coefficients, the coarse ones first."""
    powers = range(3, FINEST - 1, -1)
    pairs = sorted(itertools.product(powers, powers), key=lambda pair: (-sum(pair), -pair[0]))
    yield from ((0.0, 2.0**linear, 2.0**square) for linear, square in pairs)


def _multiples(near: float, unit: float) -> list[float]:
    middle = round(near / unit)
    return [unit * each for each in (middle, middle - 1, middle + 1)]


def roundest(low: float, high: float) -> float:
    """The number of the fewest bits from low up to high."""
    for power in range(4, -20, -1):
        unit = 2.0**power
        found = float(np.ceil(low / unit) * unit)
        if found < high:
            return found
    return (low + high) / 2


if __name__ == "__main__":
    main(list(map(Path, sys.argv[1:])))
