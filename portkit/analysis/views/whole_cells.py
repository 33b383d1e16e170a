"""Which cells a report shows with every field: those with findings, and one a kernel and target."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator, Mapping, Sequence

from portkit.analysis.findings.rule import Finding
from portkit.model import Direction, Evidence
from portkit.store.merge import Dataset, Row

_ORDER = (Evidence.MEASURED, Evidence.EMULATED, Evidence.COMPILED, Evidence.INTERPRETED)

Place = tuple[str, Direction, tuple[int, ...], str]
"""Kernel, direction, shape and dtype."""


def whole_cells(dataset: Dataset, findings: Iterable[Finding]) -> tuple[Row, ...]:
    """Rows in the order of importance: one a kernel and target, then those that findings rest on, the gravest first."""
    chosen: dict[int, Row] = {}
    for row in (*_one_a_target(dataset.rows), *_with_findings(dataset.rows, findings)):
        chosen.setdefault(id(row), row)
    return tuple(chosen.values())


def _one_a_target(rows: Sequence[Row]) -> Iterator[Row]:
    """Of each kernel, direction and target the row of the strongest evidence."""
    best: dict[tuple[str, Direction, str], Row] = {}
    for row in sorted(rows, key=lambda row: _ORDER.index(row.record.evidence)):
        cell = row.record.cell
        best.setdefault((cell.case, cell.direction, cell.target), row)
    yield from best.values()


def _with_findings(rows: Sequence[Row], findings: Iterable[Finding]) -> Iterator[Row]:
    places = _by_place(rows)
    for found in findings:
        for row in places[found.kernel, found.direction, found.shape, found.dtype]:
            if _is_about(found, row):
                yield row


def _is_about(found: Finding, row: Row) -> bool:
    cell = row.record.cell
    variant = found.variant is None or cell.variant == found.variant
    return variant and cell.target in found.targets and row.record.evidence in found.evidence


def _by_place(rows: Sequence[Row]) -> Mapping[Place, list[Row]]:
    places: dict[Place, list[Row]] = collections.defaultdict(list)
    for row in rows:
        cell = row.record.cell
        places[cell.case, cell.direction, cell.shape, cell.dtype].append(row)
    return places
