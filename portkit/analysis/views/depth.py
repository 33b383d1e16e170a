"""Registers and occupancy over the axis that a kernel is unrolled by, such as the depth of a chain.

Which axis that is, the builds say: one whose value a constant of the launch takes, at three values or
more of it with all other axes alike. Registers can grow along such an axis, for each value is a binary
of its own.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from portkit.analysis.rows import Comparison, ComparisonRow
from portkit.analysis.views.operations import operation_of
from portkit.model import Direction, Evidence, Record
from portkit.store.merge import Dataset

LEAST: int = 3
"""Values of an axis that make a line."""


@dataclass(frozen=True)
class Step:
    """One binary of the line."""

    depth: int
    registers: float
    occupancy_pct: float  # theoretical
    spill_bytes: float
    evidence: Evidence


@dataclass(frozen=True)
class Depth:
    """One variant of a kernel on one target over its unrolled axis."""

    page: str
    axis: str  # name of the constant: STAGES
    label: str  # the other axes, dtype and variant
    dtype: str
    target: str
    steps: tuple[Step, ...]


Line = tuple[str, int, tuple[int, ...], str, str, str, Evidence]
"""Page, axis, the other axes, dtype, variant, target, evidence."""


def depths(comparison: Comparison, dataset: Dataset) -> tuple[Depth, ...]:
    """Every line of three binaries or more, in the table's order."""
    names_of = unrolled(dataset)
    lines: dict[Line, list[tuple[ComparisonRow, frozenset[str]]]] = collections.defaultdict(list)
    for row in comparison.rows:
        for axis in range(len(row.shape)):
            if found := names_of(row, axis):
                lines[_line(row, axis)].append((row, found))
    made = (_depth(line, rows) for line, rows in lines.items())
    return tuple(each for each in made if each is not None)


def unrolled(dataset: Dataset) -> Callable[[ComparisonRow, int], frozenset[str]]:
    """A function that names the constants of a row's launches whose value is the length of an axis."""
    constants = {_key_of(row.record): _constants(row.record) for row in dataset.rows}
    return lambda row, axis: constants.get(_key(row), {}).get(str(row.shape[axis]), frozenset())


def _line(row: ComparisonRow, axis: int) -> Line:
    others = (*row.shape[:axis], *row.shape[axis + 1 :])
    return operation_of(row).page, axis, others, row.dtype, row.variant, row.target, row.evidence


def _depth(line: Line, rows: Sequence[tuple[ComparisonRow, frozenset[str]]]) -> Depth | None:
    page, axis, others, dtype, variant, target, _ = line
    names = frozenset.intersection(*(found for _, found in rows))
    steps = tuple(sorted(_steps((row for row, _ in rows), axis), key=lambda step: step.depth))
    if not names or len({step.depth for step in steps}) < LEAST:
        return None
    label = " ".join([*(["x".join(map(str, others))] if others else []), dtype, variant])
    return Depth(page, min(names), label, dtype, target, steps)


def _steps(rows: Iterable[ComparisonRow], axis: int) -> Iterator[Step]:
    for row in rows:
        registers, occupancy, spills = row.registers_per_thread, row.occupancy_pct, row.spill_bytes_per_thread
        if registers is not None and occupancy is not None:
            yield Step(row.shape[axis], registers, occupancy, spills or 0, row.evidence)


Key = tuple[str, Direction, tuple[int, ...], str, str, str, str | None, Evidence]


def _key(row: ComparisonRow) -> Key:
    place = (row.kernel, row.direction, row.shape, row.dtype, row.variant)
    return *place, row.target, row.partition, row.evidence


def _key_of(record: Record) -> Key:
    cell = record.cell
    place = (cell.case, cell.direction, cell.shape, cell.dtype, cell.variant)
    return *place, cell.target, cell.partition, record.evidence


def _constants(record: Record) -> Mapping[str, frozenset[str]]:
    """Value of a constant → names of those that have it in any launch."""
    found: dict[str, set[str]] = collections.defaultdict(set)
    for launch in record.build.candidates if record.build else ():
        for name, value in launch.constants.items():
            found[value].add(name)
    return {value: frozenset(names) for value, names in found.items()}
